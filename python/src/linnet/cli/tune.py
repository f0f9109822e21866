# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet tune``: readahead that follows the workload, and a doctor that looks at every value."""

from __future__ import annotations

import json as json_text
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from linnet import _native
from linnet._native import Error
from linnet.cli.options import AsJson
from linnet.cli.output import console, fail, print_json, table, warn
from linnet.signals import INTERRUPTED, ends

FINDINGS = 1
UNABLE = 2

Once = Annotated[
    bool, typer.Option("--once", help="One round of decisions; their values stay until `linnet tune restore`.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Until Ctrl-C, which puts everything back (the default).")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Decide and explain; change nothing.")]
Decides = Annotated[
    str, typer.Option("--model", "-m", help="What decides: rule, or a model file (./rule for a file of that name).")
]
BACKOFF_S_MAX = 365 * 86_400
Backoff = Annotated[
    float, typer.Option(help="Seconds for which another one's value stands.", min=0.0, max=BACKOFF_S_MAX)
]


def doctor(
    seconds: Annotated[float, typer.Option(help="How long to watch what runs now.", min=0.0, max=60.0)] = 1.0,
    root: Annotated[
        Path | None,
        typer.Option(help="Look at the files of another machine, collected below this directory.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Look at the readahead value of every device and mount. Changes nothing and needs no root.

    For each: the value, where it came from, what is wrong with it for what runs now, and the line that mends it. Root
    sees the memory-mapped files of all processes; others see their own. Exit status: 0 no findings, 1 findings, 2 the
    machine could not be looked at.

    Example: [bold]linnet tune doctor --json[/]
    """
    try:
        found, left_out = _native.tune_doctor(seconds, None if root is None else str(root))
    except (Error, OSError, UnicodeError) as error:
        fail(str(error))
        raise typer.Exit(UNABLE) from error
    rows = [json_text.loads(row) for row in found]
    if json:
        print_json({"rows": rows, "processes_left_out": left_out})
    else:
        show_rows(rows, left_out)
    if any(row["verdict"] != "ok" for row in rows):
        raise typer.Exit(FINDINGS)


def show_rows(rows: list[dict[str, Any]], left_out: int) -> None:
    """A table of all, then each finding in full, and what was not looked at."""
    styles = {"ok": "green", "suspect": "yellow"}
    view = [
        [
            row["target"],
            row["kind"],
            Text(row["verdict"], style=styles.get(row["verdict"], "red")),
            row["source"],
            row["value_kib"],
        ]
        for row in rows
    ]
    table(None, ["target", "kind", "verdict", "source of the value", "KiB"], view, left=4)
    findings = [row for row in rows if row["verdict"] != "ok"]
    for row in findings:
        where = f" ({', '.join(row['mounts'][:3])})" if row["mounts"] and row["kind"] == "block" else ""
        console.print(Text(f"\n{row['target']}{where}: ", style="bold") + Text(row["reason"]))
        if row["fix"]:
            console.print(Text(f"    {row['fix']}"))
    if left_out:
        warn(
            f"there was no time for the mapped files of {left_out} processes, those with the smallest address spaces; "
            "--seconds 10 gives more"
        )
    elif not findings:
        console.print("nothing to do")


def readahead(
    device: Annotated[
        str | None,
        typer.Option(help="Only files on this disk or partition, or on what is mounted here.", show_default=False),
    ] = None,
    cgroup: Annotated[
        str | None,
        typer.Option(
            help="Only files read by this container, pod (NAMESPACE/NAME), unit or control group.", show_default=False
        ),
    ] = None,
    once: Once = False,
    watch: Watch = False,
    dry_run: DryRun = False,
    model: Decides = "rule",
    scope: Annotated[
        Literal["both", "files", "devices"],
        typer.Option(help="files: open files; devices: the device's value, with which files start; both."),
    ] = "both",
    rivals: Annotated[
        Literal["auto", "yield", "insist"],
        typer.Option(
            help="When somebody else sets a device: leave it, set it again with growing patience, or (auto) leave "
            "another value and set again over the value from before."
        ),
    ] = "auto",
    backoff: Backoff = 600.0,
    json: AsJson = False,
) -> None:
    """Give each file the readahead that suits how it is read. Needs root.

    Files that are open are set from outside their process; files whose owner gave advice are left alone. Everything is
    put back at the end, or at the next start after a crash. With --json each line is one event.

    Example: [bold]linnet tune readahead --device /dev/nvme0n1 --dry-run[/]
    """
    for name, value in (("--device", device), ("--cgroup", cgroup)):
        # A script's variable that is not set must not mean everything.
        if value == "":
            raise typer.BadParameter("is empty; leave it out for all", param_hint=name)
    file = model_file(once, watch, model)

    def start(tell: Tell) -> None:
        _native.tune_readahead(tell, device, cgroup, once, dry_run, scope, rivals, backoff, file)

    until_stopped(start, json)


def nfs(
    mount: Annotated[str, typer.Argument(help="Where it is mounted.", show_default=False)],
    once: Once = False,
    watch: Watch = False,
    dry_run: DryRun = False,
    model: Decides = "rule",
    rsize: Annotated[
        bool,
        typer.Option(
            "--rsize",
            help="Change the read size too, by a second mount over the first one. Without it only readahead changes.",
        ),
    ] = False,
    rivals: Annotated[
        Literal["auto", "yield", "insist"],
        typer.Option(help="When somebody else sets the mount's readahead, as for `readahead`."),
    ] = "auto",
    backoff: Backoff = 600.0,
    json: AsJson = False,
) -> None:
    """Give an NFS mount the readahead that its readers and the way to the server take. Needs root.

    For scans the value is raised by trial as long as they get faster; random reads get a small one. Files that are open
    are set from outside their process, new files begin with the mount's value. Everything is put back at the end, or at
    the next start after a crash. With --json each line is one event.

    Examples: [bold]linnet tune nfs /mnt/data --dry-run[/]; [bold]linnet tune nfs /mnt/data --rsize --json[/]
    """
    file = model_file(once, watch, model)

    def start(tell: Tell) -> None:
        _native.tune_nfs(tell, mount, once, dry_run, file, rsize, rivals, backoff)

    until_stopped(start, json)


Tell = Callable[[str | None], bool]


def model_file(once: bool, watch: bool, model: str) -> Path | None:
    """The model's file, or None for the rule. Refuses options that exclude each other."""
    if once and watch:
        raise typer.BadParameter("give one of --once and --watch", param_hint="--once")
    file = None if model == "rule" else Path(model)
    if file is not None and not file.is_file():
        raise typer.BadParameter(
            f"{model!r} is not a file; give rule or a model file (spec/knob.md)", param_hint="--model"
        )
    return file


def until_stopped(start: Callable[[Tell], None], json: bool) -> None:
    """Runs a tuner and prints its events until Ctrl-C, SIGTERM or the end of its terminal."""
    with stopping() as stopped:

        def tell(line: str | None) -> bool:
            if line is not None:
                if json:
                    print(line, flush=True)
                else:
                    show_event(json_text.loads(line))
            return stopped() is None

        start(tell)
        ended = stopped()
    if ended == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def stopping() -> Iterator[Callable[[], int | None]]:
    """These signals end the tuner in order: it puts back what it changed. Gives which of them came."""
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, *ends())}
    try:
        yield lambda: came[0] if came else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_event(event: dict[str, Any]) -> None:
    """One line for people."""
    if event["kind"] == "note":
        warn(event["why"])
        return
    when = datetime.fromtimestamp(event["t"]).astimezone().strftime("%H:%M:%S")
    what = event["file"] or event["target"] or "files"
    if event["knob"] != "readahead":
        what = f"{what}, {event['knob']}"
    change = ""
    if event["from_kib"] is not None and event["to_kib"] != event["from_kib"]:
        change = f" {event['from_kib']} -> {event['to_kib']} KiB"
    elif event["to_kib"] is not None:
        change = f" {event['to_kib']} KiB"
    reader = f" [{event['reader']}]" if event["reader"] else ""
    dry = "" if event["applied"] or event["kind"] in ("skip", "rival", "restore") else " (not set)"
    sure = f", confidence {event['confidence']:.2f}" if event["kind"] == "decision" else ""
    console.print(
        Text(f"{when} {event['kind']} ", style="dim") + Text(f"{what}{change}{dry}: {event['why']}{sure}{reader}")
    )
    sys.stdout.flush()


def files(
    path: Annotated[Path, typer.Argument(help="The file.", show_default=False)],
    json: AsJson = False,
) -> None:
    """Show who has a file open, with which readahead, and which of them the tuner would leave alone. Needs root.

    Example: [bold]linnet tune files /data/db/data.mdb[/]
    """
    found = _native.tune_open_files(path)
    rows = [{"process": p, "fd": fd, "value_kib": kib, "left_alone": why} for p, fd, kib, why in found]
    if json:
        print_json({"rows": rows})
        return
    columns = ["left alone because", "process", "fd", "KiB"]
    table(None, columns, [[row["left_alone"], str(row["process"]), str(row["fd"]), row["value_kib"]] for row in rows])


def restore(
    root: Annotated[
        Path | None, typer.Option(help="The machine's files are below this directory.", show_default=False, hidden=True)
    ] = None,
    json: AsJson = False,
) -> None:
    """Put back every value that Linnet changed and left: after `--once`, or after a crash. Needs root.

    Example: [bold]linnet tune restore[/]
    """
    devices, left, gone, files, mounts = _native.tune_restore(None if root is None else str(root))
    if json:
        kept = {"devices": dict(devices), "left": dict(left), "gone": dict(gone)}
        print_json({**kept, "files": files, "mounts": mounts})
        return
    for point in mounts:
        console.print(f"{point}: the mount from before, with its read size")
    for knob, kib in devices:
        console.print(f"{knob}: {kib} KiB again")
    for knob, kib in left:
        console.print(f"{knob}: {kib} KiB, set by somebody else, stays")
    for knob, why in gone:
        console.print(f"{knob}: {why}")
    console.print(f"{files} open files have their value from before" if files else "no open file was left changed")
