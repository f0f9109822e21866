# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writable volumes above md raid1 (``spec/md-volume.md``): made new, put around an existing array, taken off again.

A volume consists of the device NAME above an array, and of devices NAME-leg0, NAME-leg1, ..., one between the array
and each drive. The array keeps the data; without the volume it is an ordinary array on the drives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from linnet.dm import DmError, guard
from linnet.dm.guard import SECTOR, Device
from linnet.dm.host import Host
from linnet.dm.plan import Describe, Forget, Plan, Run, Wish, install_model
from linnet.dm.status import per_device
from linnet.dm.table import REPLICAS_MAX, check_device_name, check_hedge, check_policy

MIB_SECTORS = 2048
NAME_MAX = 32
"""Letters of an array's name in its superblock."""
RUNNING = ("clean", "active", "active-idle", "write-pending")
STARTER = "/usr/lib/linnet/volume"


@dataclass(frozen=True)
class Member:
    """A member of an array, as sysfs shows it."""

    directory: Path
    number: tuple[int, int]
    offset: int
    """Sector at which its data begins."""


@dataclass(frozen=True)
class Array:
    """An md array, as sysfs shows it."""

    name: str
    directory: Path
    sectors: int
    members: list[Member]

    @property
    def path(self) -> str:
        """Its device."""
        return f"/dev/{self.name}"


def _words(path: Path) -> str:
    """A file of sysfs; empty if it is not there."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(":")
    return int(major), int(minor)


def array(host: Host, number: tuple[int, int]) -> Array:
    """The array of this device number. Members are in the order of their slots."""
    own = host.sysfs(number)
    if not (own / "md").exists():
        raise DmError(f"{host.name(number)} is not an md array")
    found = []
    for directory in (own / "md").glob("dev-*"):
        slot = _words(directory / "slot")
        about = _words(directory / "block" / "dev")
        if about:
            rank = int(slot) if slot.isdigit() else REPLICAS_MAX
            found.append((rank, Member(directory, _number(about), int(_words(directory / "offset") or 0))))
    members = [member for _, member in sorted(found, key=lambda one: (one[0], one[1].number))]
    return Array(own.name, own / "md", int(_words(own / "size") or 0), members)


def unfit(one: Array, states: tuple[str, ...] = RUNNING) -> str | None:
    """Why no leg of an array can be trusted now, in words."""
    said = {name: _words(one.directory / name) for name in ("level", "array_state", "resync_start", "sync_action")}
    behind, position = _words(one.directory / "bitmap/backlog"), _words(one.directory / "reshape_position")
    reasons = {
        f"level {said['level'] or 'unknown'}, not raid1": said["level"] != "raid1",
        f"state {said['array_state'] or 'unknown'}, so it is not running for writes": said["array_state"] not in states,
        f"not been resynced since it was last stopped uncleanly (resync_start {said['resync_start']})": (
            said["resync_start"] != "none"
        ),
        f"work to do: {said['sync_action'] or 'unknown'}": said["sync_action"] != "idle",
        "a reshape to finish": position not in ("none", ""),
        f"write-behind (backlog {behind}), which cannot be followed": behind not in ("", "0"),
    }
    return next((f"{one.name} has {reason}" for reason, applies in reasons.items() if applies), None)


def unfit_member(member: Member, offset: int) -> str | None:
    """Why a member cannot be trusted now, in words."""
    if (state := _words(member.directory / "state")) != "in_sync":
        return f"md calls it {state or 'gone'}, not in_sync alone"
    for name in ("bad_blocks", "unacknowledged_bad_blocks"):
        if not (member.directory / name).exists():
            return f"md does not show its {name}"
        if _words(member.directory / name):
            return f"md has {name} of it; fail it and add it anew"
    if member.offset != offset:
        return f"its data begins at sector {member.offset}, and the volume reads at {offset}"
    return None


# ---- the volume's own table ----


@dataclass(frozen=True)
class Volume:
    """What the table of a volume says."""

    name: str
    array: tuple[int, int]
    legs: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    """Number and data offset of each leg."""


def volume(host: Host, name: str) -> Volume:
    """The volume of this name."""
    lines = per_device(host.run(["dmsetup", "table", "--target", "linnet", check_device_name(name)]), name)
    words = lines.get(name, "").split()
    if len(words) < 6 or words[2:4] != ["linnet", "md"]:
        raise DmError(f"{name}: no volume above md; `dmsetup table --target linnet` lists them")
    count = int(words[5])
    places = words[6 : 6 + 2 * count]
    return Volume(name, _number(words[4]), [(_number(places[2 * k]), int(places[2 * k + 1])) for k in range(count)])


# ---- trust ----


def trust(host: Host, name: str, generations: list[int]) -> list[str | None]:
    """Give trust to each leg that md says holds everything; for each leg None, or why not.

    ``generations`` were read before: if a leg has lost its trust since, the kernel refuses it.
    """
    one = volume(host, name)
    if len(generations) != len(one.legs):
        raise DmError(f"{name}: {len(generations)} generations for {len(one.legs)} legs; the table has changed")
    of = array(host, one.array)
    members = {member.number: member for member in of.members}
    strangers = [host.name(number) for number in members if number not in dict(one.legs)]
    why = unfit(of) or (f"{of.name} has members that are no legs: {', '.join(strangers)}" if strangers else None)
    results: list[str | None] = []
    for k, (number, offset) in enumerate(one.legs):
        reason = why
        if reason is None:
            member = members.get(number)
            reason = unfit_member(member, offset) if member else f"it is no member of {of.name}"
        if reason is None:
            try:
                host.run(["dmsetup", "message", name, "0", "trust", str(k), str(generations[k])])
            except DmError as error:
                reason = f"{error}; something happened to it meanwhile, try again"
        results.append(reason)
    return results


# ---- plans ----


def _leg_name(name: str, k: int) -> str:
    return f"{name}-leg{k}"


def _module(host: Host, plan: Plan) -> None:
    if not host.module_loaded():
        plan.steps.append(Run(["modprobe", "dm-linnet"]))


def _leg(plan: Plan, name: str, k: int, drive: str, sectors: int) -> None:
    plan.steps.append(Run(["dmsetup", "create", _leg_name(name, k), "--table", f"0 {sectors} linnet-leg {drive} 0"]))


def _top(host: Host, plan: Plan, name: str, path: str, sectors: int, offsets: list[int], words: list[str]) -> None:
    places = [f"/dev/mapper/{_leg_name(name, k)} {offset}" for k, offset in enumerate(offsets)]
    line = " ".join(map(str, [0, sectors, "linnet md", path, len(offsets), *places, len(words), *words]))
    plan.steps.append(Run(["dmsetup", "create", name, "--table", line]))
    plan.notes.append(f"reads go through md until `linnet dm trust {name}`, and a first write after that")
    if not (host.root / STARTER[1:]).exists():
        plan.notes.append(
            f"{STARTER} is not installed (make kernel-install, or the package linnet-dkms): at boot the array starts "
            "without the volume"
        )


def _arguments(host: Host, plan: Plan, wish: Wish) -> list[str]:
    words = ["policy", check_policy(wish.policy)]
    if len(wish.models) not in (0, 1, len(wish.devices)):
        raise DmError(f"{len(wish.models)} models for {len(wish.devices)} drives; give one for all or one for each")
    if wish.hedge is not None:
        words += ["hedge", str(check_hedge(wish.hedge, 1))]
    names = [install_model(plan, host, file) for file in wish.models]
    if len(names) == 1:
        words += ["model", names[0]]
    else:
        words += [word for k, one in enumerate(names) for word in (f"model:{k}", one)]
    return words


def free_array(host: Host) -> str:
    """The first number that no array has."""
    k = 0
    while (host.root / f"sys/block/md{k}").exists():
        k += 1
    return f"md{k}"


def _taken(host: Host, name: str) -> list[str]:
    """Why a new volume cannot have this name."""
    found = []
    if len(name) > NAME_MAX:
        found.append(f"{name}: mdadm takes names of at most {NAME_MAX} letters")
    if (described := host.description(name)).exists():
        found.append(f"{described} describes a volume of this name; `linnet dm release {name}` takes it off")
    for own in sorted((host.root / "sys/block").glob("dm-*/dm/name")):
        if (there := _words(own)) == name or there.startswith(f"{name}-leg"):
            found.append(f"there is a device-mapper device {there}; give another name")
    return found


def create(host: Host, wish: Wish) -> Plan:
    """The plan that makes a new array of drives, and a volume above it. The drives are overwritten."""
    name = check_device_name(wish.name)
    if wish.read_only or wish.revoke or wish.ioprio is not None or wish.trust_identical or wish.out:
        raise DmError("--md excludes --read-only, --revoke, --ioprio, --trust-identical and --out")
    if not 2 <= len(wish.devices) <= REPLICAS_MAX:
        raise DmError(f"{len(wish.devices)} drives; an array has 2 to {REPLICAS_MAX}")
    plan = Plan(refusals=_taken(host, name))
    drives = [guard.device(host, path) for path in wish.devices]
    plan.refusals += guard.same_twice(host, drives)
    plan.warnings += guard.shared_disks(host, drives)
    for drive in drives:
        plan.refusals += guard.in_use(host, drive)
    if not plan.refusals:
        _overwritten(host, wish, drives, plan)
    sectors = min(drive.size_bytes for drive in drives) // SECTOR
    # The same place for the data on every drive, known before there is an array.
    offset = 16 * MIB_SECTORS if sectors >= 8192 * MIB_SECTORS else MIB_SECTORS
    size = (sectors - offset) // 128 * 128
    if size < MIB_SECTORS:
        raise DmError(f"the smallest drive has {sectors * SECTOR:,} bytes, too few for an array")
    words = _arguments(host, plan, wish)
    _module(host, plan)
    for k, drive in enumerate(drives):
        _leg(plan, name, k, drive.word, drive.size_bytes // SECTOR)
    path = f"/dev/{free_array(host)}"
    legs = [f"/dev/mapper/{_leg_name(name, k)}" for k in range(len(drives))]
    made = ["mdadm", "--create", path, "--run", "--name", name, "--level", "1", "--metadata", "1.2"]
    made += ["--bitmap", "internal", "--data-offset", f"{offset // 2}K", "--size", f"{size // 2}K"]
    plan.steps.append(Run([*made, "--raid-devices", str(len(drives)), *legs]))
    plan.steps.append(Describe(host.description(name), path, words))
    plan.holds = name
    _top(host, plan, name, path, size, [offset] * len(drives), words)
    plan.notes.append(f"{path} resyncs first; the volume can be used meanwhile")
    return plan


def _overwritten(host: Host, wish: Wish, drives: list[Device], plan: Plan) -> None:
    named = {host.number(path) for path in wish.overwrite}
    for drive in drives:
        if drive.number not in named and (found := guard.data_on(host, drive)):
            plan.refusals.append(
                f"{drive.path} would be OVERWRITTEN, and it holds {found}. If that may be lost, say so: "
                f"--overwrite-data-on {drive.path}. To keep the data of an array: linnet dm adopt"
            )
    for number in named - {drive.number for drive in drives}:
        plan.refusals.append(f"--overwrite-data-on: {host.name(number)} is none of the drives")


def adopt(
    host: Host,
    path: str,
    name: str,
    policy: str = "linnet-best",
    models: list[Path] | None = None,
    hedge: int | None = None,
) -> Plan:
    """The plan that puts a volume around an existing array. No data is moved."""
    check_device_name(name)
    device = guard.device(host, path)
    of = array(host, device.number)
    plan = Plan(refusals=[*_taken(host, name), *guard.in_use(host, device)])
    version = _words(of.directory / "metadata_version")
    if version and not version.startswith("1."):
        plan.refusals.append(
            f"{of.name} has metadata {version}, which tells nobody where a drive begins; 1.0 to 1.2 do"
        )
    # An array that waits for its first write may be stopped as well.
    if reason := unfit(of, (*RUNNING, "read-auto", "readonly")):
        plan.refusals.append(reason)
    if not 2 <= len(of.members) <= REPLICAS_MAX:
        plan.refusals.append(f"{of.name} has {len(of.members)} members; a volume has 2 to {REPLICAS_MAX}")
    for member in of.members:
        if reason := unfit_member(member, member.offset):
            plan.refusals.append(f"{host.name(member.number)}: {reason}")
        if host.name(member.number).startswith("dm-"):
            plan.warnings.append(f"{host.name(member.number)} is a device-mapper device; is {of.name} adopted already?")
    members = [f"/dev/{host.name(member.number)}" for member in of.members]
    words = _arguments(host, plan, Wish(name, members, models or (), policy, hedge=hedge))
    _module(host, plan)
    # First: without the description, udev would give the drives to md again.
    plan.steps.append(Describe(host.description(name), of.path, words))
    plan.holds = name
    plan.steps.append(Run(["mdadm", "--stop", of.path]))
    for k, member in enumerate(of.members):
        major, minor = member.number
        _leg(plan, name, k, f"{major}:{minor}", host.sectors(member.number))
    legs = [f"/dev/mapper/{_leg_name(name, k)}" for k in range(len(members))]
    plan.steps.append(Run(["mdadm", "--assemble", of.path, *legs]))
    _top(host, plan, name, of.path, of.sectors, [member.offset for member in of.members], words)
    plan.notes.append(
        f"if a step fails, `linnet dm start {name}` goes on from there; to go back, take off what there is of "
        f"{name}-legK with `dmsetup remove`, remove {host.description(name)}, and then "
        f"`mdadm --assemble {of.path} {' '.join(members)}`"
    )
    return plan


def release(host: Host, name: str) -> Plan:
    """The plan that takes a volume off: what is left is the array on its drives."""
    one = volume(host, name)
    of = array(host, one.array)
    own = guard.device(host, f"/dev/mapper/{name}")
    plan = Plan(refusals=guard.in_use(host, own))
    if (action := _words(of.directory / "sync_action")) not in ("idle", ""):
        plan.warnings.append(f"{of.name} is busy ({action}); it goes on after it is assembled again")
    legs, drives = [], []
    for number, _ in one.legs:
        leg = _words(host.sysfs(number) / "dm/name")
        lines = per_device(host.run(["dmsetup", "table", "--target", "linnet-leg", leg]), leg)
        words = lines.get(leg, "").split()
        if len(words) != 5 or words[4] != "0":
            raise DmError(f"{leg or host.name(number)}: no leg that begins where its drive begins; release it by hand")
        legs.append(leg)
        drives.append(f"/dev/{host.name(_number(words[3]))}")
    known = {number for number, _ in one.legs}
    strangers = [host.name(member.number) for member in of.members if member.number not in known]
    if strangers:
        plan.refusals.append(f"{of.name} has members that are no legs of {name}: {', '.join(strangers)}")
    plan.steps = [Run(["dmsetup", "remove", name]), Run(["mdadm", "--stop", of.path])]
    plan.steps += [Run(["dmsetup", "remove", leg]) for leg in legs]
    plan.steps.append(Run(["mdadm", "--assemble", of.path, *drives]))
    plan.steps.append(Forget(host.description(name)))
    plan.holds = name
    return plan


def described(host: Host) -> list[str]:
    """The volumes that are started at boot, by name."""
    return sorted(path.stem for path in host.description("x").parent.glob("*.conf"))


def start(host: Host, names: list[str]) -> Plan:
    """The plan that puts described volumes together, as udev does at boot. A started one is left alone."""
    known = described(host)
    plan = Plan()
    running = {path.read_text().strip() for path in (host.root / "sys/block").glob("dm-*/dm/name")}
    for name in names:
        if check_device_name(name) not in known:
            raise DmError(
                f"{name}: there is no {host.description(name)}; described are: {', '.join(known) or 'none'}. "
                "`linnet dm create --md` and `linnet dm adopt` describe a volume"
            )
        if name in running:
            plan.notes.append(f"{name} is started")
        else:
            plan.steps.append(Run([STARTER, "start", name]))
            plan.notes.append(f"reads go through md until `linnet dm trust {name}`, and a first write after that")
    return plan
