# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet dm`` for volumes above md: adopt, release, start, trust."""

from __future__ import annotations

from typing import Annotated

import typer

from linnet.cli import dm_plan
from linnet.cli.dm_plan import DryRun, Examined, Hedge, Models, Name, PolicyName
from linnet.cli.options import AsJson
from linnet.cli.output import console, print_json
from linnet.dm import DmError, volume
from linnet.dm.plan import Plan, Run
from linnet.dm.trust import trust as give_trust

SAID = {"pending": "pending: trusted after the next write", "spare": "a spare, which md does not write yet"}
"""What a leg has that is neither trusted nor refused, in words."""


def adopt(
    array: Annotated[str, typer.Argument(help="An md raid1 array, such as /dev/md0.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="Name of the volume.", show_default="linnet-mdN")] = None,
    model: Models = None,
    policy: PolicyName = "linnet-best",
    hedge: Hedge = None,
    json: AsJson = False,
    dry_run: Examined = False,
) -> None:
    """Put a volume around an existing md raid1 array. The array is stopped for a moment; no data is moved.

    Refuses an array that is in use, partitioned, not raid1, degraded, resyncing, clustered, writing behind, with bad
    blocks, or with its bitmap in a file.

    Example: [bold]linnet dm adopt /dev/md0 --name vol[/]
    """
    machine = dm_plan.host()
    plan = volume.adopt(machine, array, name, policy, model, hedge)
    dm_plan.carry_out(machine, plan, dry_run, json)


def release(name: Name, json: AsJson = False, dry_run: Examined = False) -> None:
    """Take a volume off its md array. What is left is an ordinary array with the same data, on its drives.

    Refuses a volume that is in use.

    Example: [bold]linnet dm release vol[/]
    """
    machine = dm_plan.host()
    dm_plan.carry_out(machine, volume.release(machine, name), dry_run, json)


def start(
    name: Annotated[str | None, typer.Argument(help="Name of the volume.", show_default=False)] = None,
    all: Annotated[bool, typer.Option("--all", help="Every volume that is described.")] = False,
    degraded: Annotated[
        bool, typer.Option("--degraded", help="Start an array that lacks members which it had when it was last used.")
    ] = False,
    json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Start a volume above md again, from its description in /etc/linnet/volumes.d.

    At boot udev does this. A volume that is started is left alone. An array that runs on its drives is stopped first,
    and started again on them if the volume cannot be started. With one member, --degraded starts the array without the
    volume, and exits with 1.

    Examples: [bold]linnet dm start vol[/], [bold]linnet dm start --all[/]
    """
    if (name is None) != all:
        raise typer.BadParameter("give a name, or --all")
    machine = dm_plan.host()
    names = volume.described(machine) if name is None else [name]
    dm_plan.carry_out(machine, volume.start(machine, names, degraded), dry_run, json)


def trust(name: Name, json: AsJson = False, dry_run: DryRun = False) -> None:
    """Let reads of a volume above md go to the drives that md says hold everything.

    A drive is pending until a write of the volume has reached it. It loses its trust with the first write that it
    misses, with any error of a write, and when something is suspended or removed; reads then go through md. Exits with
    1 if a drive that is no spare could not be trusted.

    Example: [bold]linnet dm trust vol[/]
    """
    machine = dm_plan.host()
    if dry_run:
        told = Run(["dmsetup", "message", name, "0", "trust", "K", "GENERATION"])
        dm_plan.carry_out(machine, Plan([dm_plan.question(name), told]), dry_run, json)
        return
    # The generations come first: what happens after them makes the kernel refuse them.
    legs = dm_plan.ask(machine, name)[name]["replicas"]
    if not machine.is_root():
        raise DmError("needs root; --dry-run prints the commands")
    if any("generation" not in one for one in legs):
        raise DmError(f"{name} is no volume above md, so there is nothing to trust")
    verdicts = give_trust(
        machine, name, [one["generation"] for one in legs], lambda: dm_plan.ask(machine, name)[name]["replicas"]
    )
    found = list(zip([one["name"] for one in legs], verdicts, strict=True))
    if json:
        rows = [
            {"leg": k, "device": device, "trusted": one.state == "trusted", "state": one.state, "reason": one.reason}
            for k, (device, one) in enumerate(found)
        ]
        print_json({"name": name, "legs": rows})
    else:
        for k, (device, one) in enumerate(found):
            said = f"not trusted: {one.reason}" if one.reason else SAID.get(one.state, one.state)
            console.print(f"leg {k} ({device}): {said}")
    if any(one.reason for one in verdicts):
        raise typer.Exit(1)
