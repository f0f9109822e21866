# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet dm``: set up, monitor and control the device-mapper target."""

from __future__ import annotations

import json as json_text
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet.cli import dm_plan
from linnet.cli.dm_plan import DryRun, Examined, Hedge, Models, Name, PolicyName
from linnet.cli.options import AsJson, Format, Lenient, load
from linnet.cli.output import Bars, console, print_json, table, warn
from linnet.dm import DmError, record, status, volume
from linnet.dm import table as tables
from linnet.dm.description import Description
from linnet.dm.plan import Plan, Run, Wish, install_model
from linnet.dm.plan import create as plan_create
from linnet.dm.plan import remove as plan_remove
from linnet.dm.replace import replace as plan_replace
from linnet.files import whole_file


def create(
    name: Name,
    devices: Annotated[
        list[str], typer.Argument(metavar="DEVICE...", help="Replicas; the first is the primary.", show_default=False)
    ],
    model: Models = None,
    policy: PolicyName = "linnet-best",
    md: Annotated[
        bool, typer.Option("--md", help="Make a writable volume above a new md raid1 array of the devices.")
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(help="Refused: the mirror of earlier versions. Use --md.", hidden=True),
    ] = None,
    read_only: Annotated[bool, typer.Option(help="Refuse writes. Two replicas and more always refuse them.")] = False,
    revoke: Annotated[bool, typer.Option(help="End tagged reads with EAGAIN when they are predicted slow.")] = False,
    ioprio: Annotated[
        str | None, typer.Option(help="I/O priority that tags revocable reads.", show_default=f"0x{tables.TAG:x}")
    ] = None,
    overwrite_data_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICE", help="The data on this device may be lost. Give it once per device.", show_default=False
        ),
    ] = None,
    trust_identical: Annotated[
        bool,
        typer.Option(help="The replicas hold the same bytes: do not compare them."),
    ] = False,
    out: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K", help="Replica K begins out of service. Give it once per replica.", show_default=False
        ),
    ] = None,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="With --md: more than half of a larger drive may stay unused.")
    ] = False,
    hedge: Hedge = None,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Create a device that sends each read to the replica that will be fast.

    Refuses devices that are in use, and devices that would be overwritten while they hold data.

    A writable volume is made with --md, or around an existing array with [bold]linnet dm adopt[/].

    Examples: [bold]linnet dm create vol /dev/nvme0n1 /dev/nvme1n1 --model m.linnet[/] (read-only replicas),
    [bold]linnet dm create vol --md /dev/nvme0n1 /dev/nvme1n1 -m m.linnet[/] (a writable volume above md raid1),
    [bold]linnet dm create left /dev/nvme0n1 -m m.linnet --revoke[/] (one drive that revokes)
    """
    if log is not None:
        raise DmError(tables.MIRROR_GONE)
    try:
        tag = None if ioprio is None else int(ioprio, 0)
    except ValueError as error:
        raise typer.BadParameter(f"{ioprio!r} is no number such as 0x{tables.TAG:x}", param_hint="--ioprio") from error
    wish = Wish(
        name,
        devices,
        model or (),
        policy,
        read_only,
        revoke,
        tag,
        overwrite_data_on or (),
        trust_identical,
        out or (),
        hedge,
        smallest,
    )
    machine = dm_plan.host()
    plan = volume.create(machine, wish, dry_run) if md else plan_create(machine, wish, dry_run)
    dm_plan.carry_out(machine, plan, dry_run, json)


def shown_bound(below_us: int | None, reads: int) -> str:
    """A quantile as the upper end of its bucket."""
    if below_us is None:
        return "-" if reads == 0 else ">= 1.0 s"
    return f"< {below_us} us" if below_us < 1000 else f"< {below_us / 1000:.1f} ms"


def show(found: dict[str, Any]) -> None:
    """Tables for people."""
    if not found:
        console.print("no device of the target linnet")
    for name, one in found.items():
        flags = ["on" if one["on"] else "switched off", *(["revoking"] if one["revoke"] else [])]
        flags += [f"hedging {one['hedge']} %, reads later than {one['hedge_us']:,} us"] if one.get("hedge") else []
        console.print(
            f"{name}: {one['sectors'] * 512 / 1e9:.1f} GB, policy {one['policy']}, model {one['model']}, "
            f"{', '.join(flags)}"
        )
        counters = [*status.COUNTERS, *(status.HEDGES if one.get("hedge") else ())]
        counters += [key for key in ("steered", "held") if key in one]
        table(None, counters, [[one[key] for key in counters]], left=0)
        table(
            None,
            ["replica", "device", "state", *(key.replace("_", " ") for key in status.MEASURES), *status.QUANTILES],
            [
                [
                    f"{k}", r["name"], status.STATES.get(r["state"], r["state"]),
                    *(r[key] for key in status.MEASURES),
                    *(shown_bound(r[f"{q}_us_below"], sum(r["lat"])) for q in status.QUANTILES),
                ]
                for k, r in enumerate(one["replicas"])
            ],
            left=3,
        )  # fmt: skip
        if "md" in one:
            rows = [
                [f"{k}", *(r[key] if key != "why" or r["trust"] == "untrusted" else "" for key in status.TRUST)]
                for k, r in enumerate(one["replicas"])
            ]
            table(None, ["leg", *status.TRUST], rows, left=3)


def show_status(
    name: Annotated[str | None, typer.Argument(help="One device; all of them if omitted.", show_default=False)] = None,
    watch: Annotated[
        float | None, typer.Option(help="Repeat every so many seconds, until Ctrl-C.", min=0.1, show_default=False)
    ] = None,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Print the counters of the target, and the state and latency of each replica.

    A quantile is known to a factor of two: `< 256 us` means that it is below 256 us. With --watch and --json each line
    is one JSON object.

    Example: [bold]linnet dm status vol --watch 1[/]
    """
    machine = dm_plan.host()
    if dry_run:
        dm_plan.carry_out(machine, Plan([dm_plan.question(name)]), dry_run, json)
        return
    while True:
        found = dm_plan.ask(machine, name)
        if json and watch:
            print(json_text.dumps(found), flush=True)
        elif json:
            print_json(found)
        else:
            if watch and console.is_terminal:
                console.clear()
            show(found)
        if watch is None:
            return
        time.sleep(watch)


def load_model(
    name: Name,
    model: Annotated[Path, typer.Argument(help="Model file.", show_default=False)],
    replica: Annotated[int | None, typer.Option(help="For this replica only.", min=0, show_default="all")] = None,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Load a model into a running device. I/O continues meanwhile, and on any error the old model stays.

    A volume above md keeps the model when it is started again.

    Example: [bold]linnet dm load vol better.linnet[/]
    """
    machine, plan = dm_plan.host(), Plan()
    described = Description(machine, plan, tables.check_device_name(name), dry_run)
    installed = install_model(plan, machine, model)
    which = [] if replica is None else [str(replica)]
    plan.steps.append(Run(["dmsetup", "message", name, "0", "load", *which, installed]))
    described.record_model(replica, installed)
    dm_plan.carry_out(machine, plan, dry_run, json)


def policy(
    name: Name,
    policy: Annotated[
        str | None,
        typer.Argument(
            help=f"One of {', '.join(tables.POLICIES)}.", autocompletion=dm_plan.complete_policy, show_default=False
        ),
    ] = None,
    hedge: Annotated[
        int | None,
        typer.Option(help="Extra reads for second copies of late reads, in percent; 0: none.", show_default=False),
    ] = None,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Change the policy of a running device, or how many late reads it sends to a second replica.

    A volume above md keeps both when it is started again.

    Examples: [bold]linnet dm policy vol shortest-queue[/], [bold]linnet dm policy vol --hedge 2[/]
    """
    if policy is None and hedge is None:
        raise DmError(f"give a policy ({', '.join(tables.POLICIES)}), --hedge PERCENT, or both")
    machine, plan = dm_plan.host(), Plan()
    described = Description(machine, plan, tables.check_device_name(name), dry_run)
    message = ["dmsetup", "message", name, "0"]
    # Each change is recorded once the kernel has taken it, whether or not it takes the next.
    if policy is not None:
        plan.steps.append(Run([*message, "policy", tables.check_policy(policy)]))
        described.record("policy", policy)
    if hedge is not None:
        plan.steps.append(Run([*message, "hedge", str(tables.check_hedge(hedge, 0))]))
        described.record("hedge", str(hedge) if hedge else None)
    dm_plan.carry_out(machine, plan, dry_run, json)


def replace(
    name: Name,
    replica: Annotated[int, typer.Argument(help="Number of the replica, from 0.", min=0, show_default=False)],
    device: Annotated[str, typer.Argument(help="The device that takes its place.", show_default=False)],
    trust_identical: Annotated[bool, typer.Option(help="The device holds the same bytes: do not compare.")] = False,
    json: AsJson = False,
    dry_run: Examined = False,
) -> None:
    """Put another device in a replica's place, or the same drive that came back under another name.

    I/O continues, except for the moment in which the tables change. Counters start from zero. Nothing is
    written: the device must hold what the volume holds.

    Example: [bold]linnet dm replace vol 1 /dev/nvme4n1[/]
    """
    machine = dm_plan.host()
    plan = plan_replace(machine, name, replica, device, trust_identical)
    dm_plan.carry_out(machine, plan, dry_run, json)


def remove(name: Name, json: AsJson = False, dry_run: DryRun = False) -> None:
    """Remove a device. The data of its replicas stays.

    Of a volume above md this is the device alone: [bold]linnet dm release[/] takes it off its array.

    Example: [bold]linnet dm remove vol[/]
    """
    machine = dm_plan.host()
    dm_plan.carry_out(machine, plan_remove(machine, name, dry_run), dry_run, json)


@contextmanager
def directory(path: Path) -> Iterator[None]:
    """A directory for what is written; if that fails, what was made for it and is still empty goes again."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):
            for one in missing:
                one.rmdir()
        raise


def export_trace(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for one Parquet file per replica.", show_default=False)
    ],
    name: Annotated[str | None, typer.Argument(help="One device; all of them if omitted.", show_default=False)] = None,
    saved: Annotated[
        Path | None,
        typer.Option("--from", help="Read this saved text of tracefs instead of recording.", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Record for so long.", min=0.1)] = 60.0,
    decisions: Annotated[
        Path | None,
        typer.Option(help="Also record the decisions, and write the events as text to this file.", show_default=False),
    ] = None,
    format: Format = None,
    lenient: Lenient = False,
    dry_run: DryRun = False,
) -> None:
    """Record what each replica served and write it as traces for `linnet fit`.

    Uses the kernel's trace event linnet:linnet_io in a trace instance of its own, so other tracing is not disturbed.

    Examples: [bold]linnet dm export-trace vol --seconds 300 -o traces[/], then
    [bold]linnet fit --trace traces/vol.0.parquet --out m.linnet[/]
    """
    machine = dm_plan.host()
    if name is not None:
        tables.check_device_name(name)
    if saved is not None and decisions is not None:
        raise DmError(
            "--decisions records decisions; a trace given with --from either has them already or cannot get them"
        )
    if dry_run:
        if saved is None:
            print("\n".join(record.commands(machine, seconds, decisions is not None)))
        else:
            warn(f"{saved} would be split into one trace per replica in {out}")
        return
    if saved is None and not machine.is_root():
        raise DmError("recording needs root; --from FILE reads a saved trace")
    # A mistyped name is found now, and not after minutes of recording.
    only = None if name is None or saved is not None else record.minor(machine, name)
    with directory(out), ExitStack() as stack:
        bars = stack.enter_context(Bars())
        source = saved
        if source is None:
            text = stack.enter_context(record.record(machine, seconds, out, bars, decisions is not None))
            source = Path(f"/proc/self/fd/{text.fileno()}")
            if decisions is not None:
                text.seek(0)
                with whole_file(decisions, follow=False) as file:
                    shutil.copyfileobj(text, file)
        trace = load(source, format, bars, lenient=lenient)
        stack.close()  # the bars and the text
        if lost := trace.skipped.get("lost events"):
            warn(f"{lost:,} events were lost: the kernel's buffer was too small for this load")
        if name is not None and saved is not None:
            only = record.minor_in(trace, machine, name)
        written = record.split(trace, only, name, out)
    for path, count in written:
        console.print(f"{path}: {count:,} records")
