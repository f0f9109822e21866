# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet dm``: set up, monitor and control the device-mapper target."""

from __future__ import annotations

import json as json_text
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet.cli.options import AsJson, Format, load
from linnet.cli.output import Bars, console, fail, print_json, table, warn
from linnet.dm import DmError, record, status, volume
from linnet.dm import table as tables
from linnet.dm.host import Host
from linnet.dm.plan import Describe, Forget, Install, Plan, Run, Step, Wish, install_model
from linnet.dm.plan import create as plan_create
from linnet.dm.replace import replace as plan_replace
from linnet.files import whole_file, write_whole

app = typer.Typer(
    help="Set up, monitor and control the device-mapper target of the kernel module dm-linnet.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Name of the device below /dev/mapper.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the commands and run none; needs no root.")]


def host() -> Host:
    """The machine that the commands work on."""
    return Host()


def complete_policy(incomplete: str) -> list[str]:
    """Shell completion of the kernel's policies."""
    return [name for name in tables.POLICIES if name.startswith(incomplete)]


Models = Annotated[
    list[Path] | None,
    typer.Option("--model", "-m", help="Model file: one for all replicas, or one per replica.", show_default=False),
]
PolicyName = Annotated[
    str, typer.Option("--policy", help=f"One of {', '.join(tables.POLICIES)}.", autocompletion=complete_policy)
]


Hedge = Annotated[
    int | None,
    typer.Option(
        help="Send late reads to a second replica too: extra reads in percent of all, such as 2.", show_default="off"
    ),
]


def carry_out(machine: Host, plan: Plan, dry_run: bool, json: bool = False) -> None:
    """Print every step and, unless it is a dry run, perform it. If anything is refused, no step is performed."""
    if json:
        told = {"warnings": plan.warnings, "refusals": plan.refusals, "notes": plan.notes}
        performed = [] if plan.refusals and not dry_run else [str(step) for step in plan.steps]
        if not dry_run and performed and not machine.is_root():
            raise DmError("needs root; --dry-run prints the commands")
        with machine.held(plan.holds if performed and not dry_run else None):
            for step in plan.steps if performed and not dry_run else []:
                perform(machine, step)
        print_json({"steps": performed, "dry_run": dry_run, **told})
        if plan.refusals and not dry_run:
            raise typer.Exit(1)
        return
    for line in plan.warnings:
        warn(line)
    if plan.refusals and not dry_run:
        for line in plan.refusals:
            fail(line)
        raise typer.Exit(1)
    for line in plan.refusals:
        warn(f"would be refused: {line}")
    for line in plan.notes:
        warn(line)
    if not dry_run and not machine.is_root():
        raise DmError("needs root; --dry-run prints the commands")
    with machine.held(None if dry_run else plan.holds):
        for step in plan.steps:
            print(step, flush=True)
            if not dry_run:
                perform(machine, step)


def perform(machine: Host, step: Step) -> None:
    """Carry out one step of a plan."""
    if isinstance(step, Install):
        step.target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(step.target, step.source.read_bytes(), follow=False)
    elif isinstance(step, Describe):
        said = machine.run(["mdadm", "--detail", "--export", step.array])
        uuid = next((line[8:] for line in said.splitlines() if line.startswith("MD_UUID=")), None)
        if uuid is None:
            raise DmError(f"mdadm --detail --export {step.array}: no MD_UUID, so the volume cannot be described")
        step.target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(step.target, f"uuid={uuid}\narguments={' '.join(step.arguments)}\n".encode(), follow=False)
    elif isinstance(step, Forget):
        step.target.unlink(missing_ok=True)
    else:
        machine.run(step.words)


@app.command()
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
        str | None, typer.Option(help="I/O priority that tags revocable reads.", show_default="0x4007")
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
        raise typer.BadParameter(f"{ioprio!r} is not a number such as 0x4007", param_hint="--ioprio") from error
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
    )
    machine = host()
    plan = volume.create(machine, wish) if md else plan_create(machine, wish, dry_run)
    carry_out(machine, plan, dry_run, json)


@app.command()
def adopt(
    array: Annotated[str, typer.Argument(help="An md raid1 array, such as /dev/md0.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(help="Name of the volume.", show_default="linnet- and the array's name")
    ] = None,
    model: Models = None,
    policy: PolicyName = "linnet-best",
    hedge: Hedge = None,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Put a volume around an existing md raid1 array. The array is stopped for a moment; no data is moved.

    Refuses an array that is in use, not raid1, degraded, resyncing, writing behind, or with bad blocks.

    Example: [bold]linnet dm adopt /dev/md0 --name vol[/]
    """
    machine = host()
    plan = volume.adopt(machine, array, name or f"linnet-{array.rpartition('/')[2]}", policy, model, hedge)
    carry_out(machine, plan, dry_run, json)


@app.command()
def release(name: Name, json: AsJson = False, dry_run: DryRun = False) -> None:
    """Take a volume off its md array. What is left is an ordinary array with the same data, on its drives.

    Refuses a volume that is in use.

    Example: [bold]linnet dm release vol[/]
    """
    machine = host()
    carry_out(machine, volume.release(machine, name), dry_run, json)


@app.command()
def start(
    name: Annotated[str | None, typer.Argument(help="Name of the volume.", show_default=False)] = None,
    all: Annotated[bool, typer.Option("--all", help="Every volume that is described.")] = False,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Start a volume above md again, from its description in /etc/linnet/volumes.d.

    At boot udev does this. A volume that is started is left alone; an array that runs on its drives is stopped first.

    Examples: [bold]linnet dm start vol[/], [bold]linnet dm start --all[/]
    """
    if (name is None) != all:
        raise typer.BadParameter("give a name, or --all")
    machine = host()
    carry_out(machine, volume.start(machine, volume.described(machine) if name is None else [name]), dry_run, json)


@app.command()
def trust(name: Name, json: AsJson = False, dry_run: DryRun = False) -> None:
    """Let reads of a volume above md go to the drives that md says hold everything.

    A drive loses its trust with the first write that it misses, with any error of a write, and when something is
    suspended or removed; reads then go through md. Exits with 1 if a drive could not be trusted.

    Example: [bold]linnet dm trust vol[/]
    """
    machine = host()
    # The generations come first: what happens after them makes the kernel refuse them.
    found = ask(machine, name, dry_run)
    if dry_run:
        print(f"dmsetup message {name} 0 trust K GENERATION")
        return
    if not machine.is_root():
        raise DmError("needs root; --dry-run prints the commands")
    replicas = found[name]["replicas"]
    if any("generation" not in one for one in replicas):
        raise DmError(f"{name} is no volume above md, so there is nothing to trust")
    reasons = volume.trust(machine, name, [one["generation"] for one in replicas])
    if json:
        legs = [
            {"leg": k, "device": one["name"], "trusted": reason is None, "reason": reason}
            for k, (one, reason) in enumerate(zip(replicas, reasons, strict=True))
        ]
        print_json({"name": name, "legs": legs})
    else:
        for k, (one, reason) in enumerate(zip(replicas, reasons, strict=True)):
            console.print(f"leg {k} ({one['name']}): {f'not trusted: {reason}' if reason else 'trusted'}")
    if any(reasons):
        raise typer.Exit(1)


def shown_bound(below_us: int | None, reads: int) -> str:
    """A quantile as the upper end of its bucket."""
    if below_us is None:
        return "-" if reads == 0 else ">= 1.0 s"
    return f"< {below_us} us" if below_us < 1000 else f"< {below_us / 1000:.1f} ms"


def ask(machine: Host, name: str | None, dry_run: bool) -> dict[str, Any]:
    """The status of one device or of all, by name."""
    words = ["dmsetup", "status", "--target", "linnet", *([name] if name else [])]
    if dry_run:
        print(Run(words))
        return {}
    found = {device: status.parse(line) for device, line in status.per_device(machine.run(words), name).items()}
    if name is not None and not found:
        raise DmError(f"{name}: no device of the target linnet; `dmsetup ls --target linnet` lists them")
    for one in found.values():
        for replica in one["replicas"]:
            major, _, minor = replica["dev"].partition(":")
            replica["name"] = machine.name((int(major), int(minor)))
    return found


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
        counters = ["reads", "writes", "decisions", "revokes", "forced", "failovers", "probes", "untracked"]
        counters += ["hedges", "hedge_wins", "discarded", "unhedged"] if one.get("hedge") else []
        counters += [key for key in ("steered", "held") if key in one]
        table(None, counters, [[one[key] for key in counters]], left=0)
        table(
            None,
            ["replica", "device", "state", "inflight", "reads", "writes", "errors", "ewma us", "p50", "p99", "p999"],
            [
                [
                    f"{k}", r["name"], status.STATES.get(r["state"], r["state"]),
                    *(r[key] for key in ("inflight", "reads", "writes", "errors", "ewma_us")),
                    *(shown_bound(r[f"{q}_us_below"], sum(r["lat"])) for q in status.QUANTILES),
                ]
                for k, r in enumerate(one["replicas"])
            ],
            left=3,
        )  # fmt: skip
        if "md" in one:
            words = ["trust", "why", "generation", "identified", "short", "failed", "unknown"]
            rows = [
                [f"{k}", *(r[key] if key != "why" or r["trust"] == "untrusted" else "" for key in words)]
                for k, r in enumerate(one["replicas"])
            ]
            table(None, ["leg", *words], rows, left=3)


@app.command("status")
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
    machine = host()
    while True:
        found = ask(machine, name, dry_run)
        if dry_run:
            return
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


@app.command("load")
def load_model(
    name: Name,
    model: Annotated[Path, typer.Argument(help="Model file.", show_default=False)],
    replica: Annotated[int | None, typer.Option(help="For this replica only.", min=0, show_default="all")] = None,
    dry_run: DryRun = False,
) -> None:
    """Load a model into a running device. I/O continues meanwhile, and on any error the old model stays.

    Example: [bold]linnet dm load vol better.linnet[/]
    """
    machine, plan = host(), Plan()
    installed = install_model(plan, machine, model)
    which = [] if replica is None else [str(replica)]
    plan.steps.append(Run(["dmsetup", "message", tables.check_device_name(name), "0", "load", *which, installed]))
    carry_out(machine, plan, dry_run)


@app.command()
def policy(
    name: Name,
    policy: Annotated[
        str | None,
        typer.Argument(
            help=f"One of {', '.join(tables.POLICIES)}.", autocompletion=complete_policy, show_default=False
        ),
    ] = None,
    hedge: Annotated[
        int | None,
        typer.Option(help="Extra reads for second copies of late reads, in percent; 0: none.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Change the policy of a running device, or how many late reads it sends to a second replica.

    Examples: [bold]linnet dm policy vol shortest-queue[/], [bold]linnet dm policy vol --hedge 2[/]
    """
    if policy is None and hedge is None:
        raise DmError(f"give a policy ({', '.join(tables.POLICIES)}), --hedge PERCENT, or both")
    message = ["dmsetup", "message", tables.check_device_name(name), "0"]
    steps: list[Step] = [Run([*message, "policy", tables.check_policy(policy)])] if policy else []
    steps += [Run([*message, "hedge", str(tables.check_hedge(hedge, 0))])] if hedge is not None else []
    carry_out(host(), Plan(steps), dry_run)


@app.command()
def replace(
    name: Name,
    replica: Annotated[int, typer.Argument(help="Number of the replica, from 0.", min=0, show_default=False)],
    device: Annotated[str, typer.Argument(help="The device that takes its place.", show_default=False)],
    trust_identical: Annotated[bool, typer.Option(help="The device holds the same bytes: do not compare.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands that change something; run none.")
    ] = False,
) -> None:
    """Put another device in a replica's place, or the same drive that came back under another name.

    I/O continues, except for the moment in which the tables change. Counters start from zero. Nothing is
    written: the device must hold what the volume holds.

    Example: [bold]linnet dm replace vol 1 /dev/nvme4n1[/]
    """
    machine = host()
    plan = plan_replace(machine, name, replica, device, trust_identical)
    carry_out(machine, plan, dry_run)


@app.command()
def remove(name: Name, dry_run: DryRun = False) -> None:
    """Remove a device. The data of its replicas stays.

    Example: [bold]linnet dm remove vol[/]
    """
    carry_out(host(), Plan([Run(["dmsetup", "remove", tables.check_device_name(name)])]), dry_run)


@app.command()
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
    dry_run: DryRun = False,
) -> None:
    """Record what each replica served and write it as traces for `linnet fit`.

    Uses the kernel's trace event linnet:linnet_io in a trace instance of its own, so other tracing is not disturbed.

    Examples: [bold]linnet dm export-trace vol --seconds 300 -o traces[/], then
    [bold]linnet fit --trace traces/vol.0.parquet --out m.linnet[/]
    """
    machine = host()
    if saved is None:
        if dry_run:
            print("\n".join(record.commands(machine, seconds, decisions is not None)))
            return
        if not machine.is_root():
            raise DmError("recording needs root; --from FILE reads a saved trace")
    elif decisions is not None:
        raise DmError(
            "--decisions records decisions; a trace given with --from either has them already or cannot get them"
        )
    out.mkdir(parents=True, exist_ok=True)
    with Bars() as bars, ExitStack() as stack:
        source = saved
        if source is None:
            text = stack.enter_context(record.record(machine, seconds, out, bars, decisions is not None))
            source = Path(f"/proc/self/fd/{text.fileno()}")
            if decisions is not None:
                text.seek(0)
                with whole_file(decisions, follow=False) as file:
                    shutil.copyfileobj(text, file)
        trace = load(source, format, bars)
    if lost := trace.skipped.get("lost events"):
        warn(f"{lost:,} events were lost: the kernel's buffer was too small for this load")
    written = record.split(trace, None if name is None else record.minor(machine, name), name, out)
    for path, count in written:
        console.print(f"{path}: {count:,} records")
