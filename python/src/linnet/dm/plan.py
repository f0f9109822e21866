# SPDX-License-Identifier: MIT OR Apache-2.0
"""Turns what the user asked for into steps, with the notes, warnings and refusals to print."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from linnet._native import Model
from linnet.dm import DmError, NotABlockDeviceError, guard
from linnet.dm.guard import Device
from linnet.dm.host import SECTOR, Host
from linnet.dm.table import (
    REPLICAS_MAX,
    TAG,
    Table,
    check_device_name,
    check_device_path,
    check_hedge,
    check_model_name,
    check_policy,
    is_tag,
)
from linnet.files import read_bounded

NAME_LETTERS = 50
MODEL_BYTES_MAX = 64 << 20
"""Of a model file, as of those that :meth:`linnet.Model.load` reads."""
DIGEST_LETTERS = 12
"""Of a model's digest in its name, where the plain name is taken."""


@dataclass(frozen=True)
class Run:
    """A command."""

    words: list[str]
    substitution: str | None = None
    """What the shell is to fill in where a word has this text, such as a length. Everything else is inert when pasted.
    """
    same: Device | None = None
    """A device that is named by its path, which must name the same one when the command runs."""

    def _quoted(self, word: str) -> str:
        if self.substitution is None or self.substitution not in word:
            return shlex.quote(word)
        around = [re.sub(r'[\\"$`]', r"\\\g<0>", piece) for piece in word.split(self.substitution)]
        return f'"{self.substitution.join(around)}"'

    def __str__(self) -> str:
        return " ".join(map(self._quoted, self.words))


@dataclass(frozen=True)
class Install:
    """A file that appears whole where the kernel looks for it."""

    source: Path
    target: Path
    data: bytes
    """What is installed: the bytes that were checked, whatever the source holds by then."""

    def __str__(self) -> str:
        return shlex.join(["install", "-D", "-m", "644", str(self.source), str(self.target)])


@dataclass(frozen=True)
class Describe:
    """The description of a volume above md, with which it is started at boot."""

    target: Path
    array: str
    arguments: list[str]

    def __str__(self) -> str:
        words = shlex.quote(f"arguments={' '.join(self.arguments)}")
        said = f"mdadm --detail --export {shlex.quote(self.array)} | sed -n s/^MD_UUID=/uuid=/p; echo {words}"
        return f"{{ {said}; }} | {shlex.join(['install', '-D', '-m', '644', '/dev/stdin', str(self.target)])}"


@dataclass(frozen=True)
class Redescribe:
    """Other arguments in a description that is there."""

    target: Path
    arguments: list[str]

    def change(self, text: str) -> str:
        """The description with them."""
        return re.sub(r"(?m)^arguments=.*$", lambda _: f"arguments={' '.join(self.arguments)}", text)

    def __str__(self) -> str:
        words = re.sub(r"[\\/&]", r"\\\g<0>", " ".join(self.arguments))
        return shlex.join(["sed", "-i", f"s/^arguments=.*/arguments={words}/", str(self.target)])


@dataclass(frozen=True)
class Forget:
    """A description that goes. It need not be there."""

    target: Path

    def __str__(self) -> str:
        return shlex.join(["rm", "-f", str(self.target)])


Step = Run | Install | Describe | Redescribe | Forget


@dataclass
class Plan:
    """What would be done. Nothing is, while there are refusals."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    holds: str | None = None
    """A volume that udev must leave alone meanwhile."""
    recovery: str | None = None
    """What to do if a step fails."""
    provisional: Describe | None = None
    """A description that goes again if the step after it fails. Until that is done, there is nothing to recover."""


@dataclass(frozen=True)
class Wish:
    """The arguments of ``linnet dm create``."""

    name: str
    devices: list[str]
    models: Sequence[Path] = ()
    policy: str = "linnet-best"
    read_only: bool = False
    revoke: bool = False
    ioprio: int | None = None
    overwrite: Sequence[str] = ()
    trust_identical: bool = False
    out: Sequence[int] = ()
    hedge: int | None = None
    """Extra reads for second copies of late reads, in percent."""
    smallest: bool = False
    """Drives of an array may be more than twice as large as the smallest."""


def install_model(plan: Plan, host: Host, file: Path) -> str:
    """Add the step that puts a model where the kernel looks for it; its name there."""
    name = check_model_name(file.name)
    data = read_bounded(file, MODEL_BYTES_MAX)
    Model.from_bytes(data, str(file))  # a damaged file is refused here, in words, and not by the kernel
    target = host.firmware / name
    if target.exists() and target.read_bytes() != data:
        # Another device may use the model of that name when it is made again: both stay.
        digest = hashlib.sha256(data).hexdigest()[:DIGEST_LETTERS]
        name = check_model_name(f"{file.stem[: NAME_LETTERS - DIGEST_LETTERS]}-{digest}{file.suffix}")
        plan.notes.append(f"{target} is another model and stays; {file} is installed as {name}")
        target = host.firmware / name
        if target.exists() and target.read_bytes() != data:
            plan.refusals.append(f"{target} has other content than its name says; remove it")
    plan.steps.append(Install(file, target, data))
    return name


def described_as(host: Host, name: str) -> list[str]:
    """Why a new device cannot have this name: a volume above md has it, whether it is started or not."""
    described = host.description(name)
    if not described.exists():
        return []
    return [
        f"{described} describes a volume of this name; `linnet dm start {name}`, then `linnet dm release {name}` "
        "take it off"
    ]


def create(host: Host, wish: Wish, dry_run: bool) -> Plan:
    """The plan that makes a device. With ``dry_run``, a device that cannot be examined gives a warning."""
    check_device_name(wish.name)
    check_policy(wish.policy)
    _check(wish)
    plan = Plan(refusals=described_as(host, wish.name))
    devices = _look_up(host, wish.devices, plan, dry_run)
    _guard(host, wish, devices, plan, dry_run)
    known = len(devices) == len(wish.devices)
    filled_in = None if known else f"$(blockdev --getsz {shlex.quote(wish.devices[0])})"
    length = filled_in or least_length(devices, plan)
    models: list[str | None] = [install_model(plan, host, file) for file in wish.models]
    if not models and wish.policy in ("linnos", "linnet-best"):
        without = "is baseline" if wish.policy == "linnos" else "goes by average latencies alone"
        plan.notes.append(f"no model: {wish.policy} {without} until `linnet dm load {wish.name} FILE`")
    if wish.revoke and not models:
        plan.notes.append("no model: nothing is revoked")
    table = Table(
        length,
        [one.word for one in devices] if known else wish.devices,
        wish.policy,
        models,
        wish.revoke,
        TAG if wish.revoke and wish.ioprio is None else wish.ioprio,
        out=sorted(set(wish.out)),
        hedge=wish.hedge,
    )
    if not host.module_loaded():
        plan.steps.append(Run(["modprobe", "dm-linnet"]))
    read_only = wish.read_only or len(wish.devices) > 1
    words = ["dmsetup", "create", wish.name, *(["--readonly"] if read_only else []), "--table", table.line()]
    plan.steps.append(Run(words, filled_in))
    return plan


def remove(host: Host, name: str, dry_run: bool) -> Plan:
    """The plan that removes a device of ours, and no other device of device-mapper."""
    plan = Plan([Run(["dmsetup", "remove", "--retry", check_device_name(name)])])
    try:
        lines = [line.split() for line in host.run(["dmsetup", "table", name]).splitlines()]
    except DmError as error:
        if not dry_run:
            raise
        plan.warnings.append(f"{error}; whether {name} is a device of ours was not checked")
        return plan
    targets = {words[2] for words in lines if len(words) > 2}
    if not targets:
        plan.refusals.append(f"{name} has no table, so nothing says that it is of linnet: dmsetup remove {name}")
    if others := targets - {"linnet", "linnet-leg"}:
        plan.refusals.append(f"{name} is a device of the target {', '.join(sorted(others))}, not of linnet")
    if any(words[2:4] == ["linnet", "md"] for words in lines):
        plan.notes.append(
            f"the array stays on the legs: `linnet dm start {name}` puts the volume above it again, as udev does "
            f"when a program has written to the array and closes it; to take it off for good: "
            f"`linnet dm start {name}`, then `linnet dm release {name}`"
        )
    return plan


def _check(wish: Wish) -> None:
    if not 1 <= len(wish.devices) <= REPLICAS_MAX:
        raise DmError(f"{len(wish.devices)} devices; a target has 1 to {REPLICAS_MAX}")
    if len(wish.models) not in (0, 1, len(wish.devices)):
        raise DmError(f"{len(wish.models)} models for {len(wish.devices)} devices; give one for all or one for each")
    for k in wish.out:
        if not 0 <= k < len(wish.devices):
            raise DmError(f"--out {k}: replicas are numbered from 0 to {len(wish.devices) - 1}")
    if len(set(wish.out)) == len(wish.devices):
        raise DmError("--out names every replica, but one must be in service")
    if wish.smallest:
        raise DmError("--smallest is for the drives of a new array; give --md too")
    if wish.hedge is not None:
        check_hedge(wish.hedge, 1)
        if len(wish.devices) == 1:
            raise DmError("--hedge sends late reads to another replica: give two devices or more")
    if wish.ioprio is not None and not wish.revoke:
        raise DmError("--ioprio is the tag of revocable reads; give --revoke too")
    if wish.ioprio is not None and not is_tag(wish.ioprio):
        raise DmError(
            f"--ioprio 0x{wish.ioprio:x}: a tag has a class of 1 to 3 in its upper three bits and a hint in the ten "
            f"after them, such as 0x{TAG:x}; reads of other programs may have a priority without a hint"
        )


def _look_up(host: Host, paths: list[str], plan: Plan, dry_run: bool) -> list[Device]:
    found = []
    for path in paths:
        check_device_path(path)
        try:
            found.append(guard.device(host, path))
        except (DmError, OSError) as error:
            if not dry_run:
                raise
            if isinstance(error, NotABlockDeviceError):
                plan.refusals.append(str(error))
            else:
                plan.warnings.append(f"{error}; it was not checked, and the length is left to blockdev")
    return found


def least_length(devices: list[Device], plan: Plan) -> int:
    """Sectors of the smallest device, with a note about those that are larger."""
    least = min(devices, key=lambda one: one.size_bytes)
    larger = [one.path for one in devices if one.size_bytes > least.size_bytes]
    if larger:
        plan.notes.append(
            f"{least.path} is the smallest and gives the size, {least.size_bytes / 1e9:.1f} GB; "
            f"what {', '.join(larger)} {'has' if len(larger) == 1 else 'have'} beyond stays unused"
        )
    return least.size_bytes // SECTOR


@contextmanager
def tolerated(plan: Plan, dry_run: bool) -> Iterator[None]:
    """Let a check that cannot be made end a real run, and give a warning in a dry run."""
    try:
        yield
    except (DmError, OSError) as error:
        if not dry_run:
            raise
        plan.warnings.append(f"{error}; whether it would be refused was not checked")


def _named_twice(paths: list[str]) -> list[str]:
    """Devices that are one by their paths alone."""
    return [
        f"{path} and {other} are the same device"
        for i, path in enumerate(paths)
        for other in paths[:i]
        if Path(path) == Path(other)
    ]


def _guard(host: Host, wish: Wish, devices: list[Device], plan: Plan, dry_run: bool) -> None:
    """Check the devices that are there; in a dry run some of those wished for may be absent."""
    there = {one.path for one in devices}
    same = _named_twice([path for path in wish.devices if path not in there])
    with tolerated(plan, dry_run):
        same += guard.same_twice(host, devices)
        plan.warnings += guard.shared_disks(host, devices) if not same else []
    plan.refusals += same
    examined = []
    for one in devices:
        if one.size_bytes == 0:
            plan.refusals.append(f"{one.path} has size 0: is a medium inserted?")
        if len(wish.devices) == 1 and not wish.read_only:
            plan.refusals += [f"{reason}, or give --read-only" for reason in guard.write_protected(host, one)]
        with tolerated(plan, dry_run):
            plan.refusals += guard.in_use(host, one)
            examined.append(one)
    # Nothing is read from devices that are in use: what they hold is changing.
    if plan.refusals:
        return
    if len(wish.devices) > 1 and wish.trust_identical:
        plan.warnings.append("that the replicas hold the same bytes was not checked")
    elif len(examined) > 1:
        with tolerated(plan, dry_run):
            _compare(host, wish, examined, plan)
    for path in wish.overwrite:
        plan.refusals.append(f"--overwrite-data-on {path}: nothing would be written to this device; omit the option")


def _compare(host: Host, wish: Wish, devices: list[Device], plan: Plan) -> None:
    size = min(one.size_bytes for one in devices)
    if differ := guard.difference(host, devices, size):
        plan.refusals.append(
            f"{differ}: they are not replicas of one volume. To make a writable volume of empty drives, use --md; "
            "--trust-identical skips this check"
        )
    else:
        all_of_them = len(devices) == len(wish.devices)
        between = "the replicas" if all_of_them else " and ".join(one.path for one in devices)
        plan.notes.append(f"no difference was found between {between}: {guard.compared(size)}")
