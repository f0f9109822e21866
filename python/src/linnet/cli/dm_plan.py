# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the commands of ``linnet dm`` share: their options, how plans are carried out, how the kernel is asked."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet.cli.output import fail, print_json, warn
from linnet.dm import DmError, md, status
from linnet.dm import table as tables
from linnet.dm.host import Host
from linnet.dm.plan import Describe, Forget, Install, Plan, Redescribe, Run, Step
from linnet.files import write_whole

Name = Annotated[str, typer.Argument(help="Name of the device below /dev/mapper.", show_default=False)]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the commands and run none; exit with 1 if they are refused. Needs no root."),
]
Examined = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the commands that change something, run none; exit with 1 if refused."),
]
"""For commands that ask the machine, as root, what to do."""


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


FAILURES = (DmError, OSError, KeyboardInterrupt, SystemExit)
"""What ends a plan between two steps or within one."""


@contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """Let a signal end a plan between two steps and never within one: what this yields raises what has come."""
    came: list[int] = []

    def end() -> None:
        if came:
            raise KeyboardInterrupt if came[0] == signal.SIGINT else SystemExit(128 + came[0])

    # What is ignored stays so, as SIGHUP below nohup.
    numbers = [one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(say: Callable[[Any], None], what: object) -> None:
    """Print something. That it cannot be printed ends no plan, and is no reason to call what is left done."""
    try:
        say(what)
    except OSError:
        pass
    except SystemExit as end:
        # Rich's, where the reader of the output left.
        if not isinstance(end.__context__, BrokenPipeError):
            raise


def _say(plan: Plan, refused: bool) -> None:
    for line in plan.warnings:
        _tell(warn, line)
    for line in plan.refusals:
        _tell(fail, line) if refused else _tell(warn, f"would be refused: {line}")
    for line in [] if refused else plan.notes:
        _tell(warn, line)


def _say_left(left: list[str], recovery: str | None) -> None:
    for line in [*(f"not done: {one}" for one in left), *([recovery] if recovery else [])]:
        _tell(warn, line)


def carry_out(machine: Host, plan: Plan, dry_run: bool, json: bool = False) -> None:
    """Print every step and, unless it is a dry run, perform it. If anything is refused, no step is performed.

    Raises ``typer.Exit`` with 1 if anything is refused, in a dry run once every step is printed.
    """
    plan.notes += initramfs_notes(machine, plan) + (_hold_notes(plan) if dry_run else [])
    told = {"warnings": plan.warnings, "refusals": plan.refusals, "notes": plan.notes}
    refused = bool(plan.refusals) and not dry_run
    if not json:
        _say(plan, refused)
    steps = [] if refused else plan.steps
    if steps and not dry_run and not machine.is_root():
        raise DmError("needs root; --dry-run prints the commands")
    if not dry_run:
        # Found in the middle, a missing program would leave drives wiped or an array stopped.
        machine.need(program for step in steps if (program := _program(step)))
    done: list[str] = []
    recovery = None
    try:
        with machine.held(plan.holds if steps and not dry_run else None), between_steps() as end:
            try:
                for step in steps:
                    end()
                    if not json:
                        _tell(partial(print, flush=True), step)
                    if not dry_run:
                        perform(machine, step)
                    done.append(str(step))
            except FAILURES:
                recovery = None if dry_run else _recovery(machine, plan, len(done))
                raise
    except FAILURES as error:
        left = [str(step) for step in steps[len(done) :]]
        if json:
            why = str(error) if isinstance(error, DmError | OSError) else "interrupted"
            failed = {"error": why, "not_done": left, "recovery": recovery}
            _tell(print_json, {"steps": done, "dry_run": False, **told, **failed})
        else:
            _say_left(left, recovery)
        raise
    if json:
        print_json({"steps": done, "dry_run": dry_run, **told})
    if plan.refusals:
        raise typer.Exit(1)


def _recovery(machine: Host, plan: Plan, done: int) -> str | None:
    """What to do after a failure, ``done`` steps being carried out. A provisional description is taken back here."""
    if plan.provisional is None or (after := done - plan.steps.index(plan.provisional)) > 1:
        return plan.recovery
    array, target = plan.provisional.array, plan.provisional.target
    if after == 1:
        try:
            perform(machine, Forget(target))
        except OSError as error:
            return f"{array} runs as before, but {target} takes effect at the next boot: remove it ({error.strerror})"
    return f"{array} runs as before and is not described; `fuser -v {array}` says which programs have it open"


def initramfs_notes(machine: Host, plan: Plan) -> list[str]:
    """What to do about the initramfs after a plan that changes a description."""
    changes = any(isinstance(step, (Describe, Redescribe, Forget)) for step in plan.steps)
    if not changes or not machine.initramfs_copies():
        return []
    return ["the initramfs has copies of the descriptions; afterwards: update-initramfs -u -k all"]


def _hold_notes(plan: Plan) -> list[str]:
    """What the commands of a plan do not do when they are typed."""
    if plan.holds is None or not plan.steps:
        return []
    return [
        f"to be run by linnet, not typed: it keeps udev from {plan.holds} meanwhile, which would put the array "
        "together between two commands"
    ]


def _program(step: Step) -> str | None:
    """The program that a step needs."""
    if isinstance(step, Run):
        return step.words[0]
    return "mdadm" if isinstance(step, Describe) else None


def perform(machine: Host, step: Step) -> None:
    """Carry out one step of a plan."""
    if isinstance(step, Install):
        step.target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(step.target, step.data, follow=False)
    elif isinstance(step, Describe):
        uuid = md.uuid(machine, step.array)
        step.target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(step.target, f"uuid={uuid}\narguments={' '.join(step.arguments)}\n".encode(), follow=False)
    elif isinstance(step, Redescribe):
        write_whole(step.target, step.change(step.target.read_text()), follow=False)
    elif isinstance(step, Forget):
        step.target.unlink(missing_ok=True)
    else:
        if (one := step.same) is not None and machine.number(one.path) != one.number:
            raise DmError(f"{one.path} is another device than the one that was checked, {one.word}")
        machine.run(step.words)


def question(name: str | None) -> Run:
    """What asks for the status of one device or of all."""
    return Run(["dmsetup", "status", "--target", "linnet", *([] if name is None else [tables.check_device_name(name)])])


def ask(machine: Host, name: str | None) -> dict[str, Any]:
    """The status of one device or of all, by name."""
    said = machine.run(question(name).words)
    found = {device: status.parse(line) for device, line in status.per_device(said, name).items()}
    if name is not None and not found:
        raise DmError(f"{name}: no device of the target linnet; `dmsetup ls --target linnet` lists them")
    for one in found.values():
        for replica in one["replicas"]:
            major, _, minor = replica["dev"].partition(":")
            replica["name"] = machine.name((int(major), int(minor)))
    return found
