# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writable volumes above md raid1 (``spec/md-volume.md``): made new, put around an existing array, taken off again.

A volume consists of the device NAME above an array, and of devices NAME-leg0, NAME-leg1, ..., one between the array
and each drive. The array keeps the data; without the volume it is an ordinary array on the drives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from linnet.dm import DmError, guard, md
from linnet.dm.guard import Device
from linnet.dm.host import SECTOR, Host
from linnet.dm.md import number_of, text_of
from linnet.dm.mdadm_conf import barred, free_array
from linnet.dm.plan import Describe, Forget, Plan, Run, Wish, described_as, install_model, least_length, tolerated
from linnet.dm.status import per_device
from linnet.dm.table import REPLICAS_MAX, VOLUME_NAME, check_device_name, check_hedge, check_policy

MIB_SECTORS = 2048
UUID = re.compile(r"^uuid=(.*)$", re.MULTILINE)
STARTER = "/usr/lib/linnet/volume"


@dataclass(frozen=True)
class Volume:
    """What the table of a volume says."""

    name: str
    array: tuple[int, int]
    legs: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    """Number and data offset of each leg."""


def volume(host: Host, name: str) -> Volume:
    """The volume of this name. Raises ``DmError`` if there is none."""
    if (found := above_md(host, name)) is None:
        raise DmError(f"{name}: no volume above md; `dmsetup table --target linnet` lists them")
    return found


def above_md(host: Host, name: str) -> Volume | None:
    """The volume of this name; None if the device is another, or not there."""
    lines = per_device(host.run(["dmsetup", "table", "--target", "linnet", check_device_name(name)]), name)
    words = lines.get(name, "").split()
    if len(words) < 6 or words[2:4] != ["linnet", "md"]:
        return None
    count = int(words[5])
    places = words[6 : 6 + 2 * count]
    return Volume(name, number_of(words[4]), [(number_of(places[2 * k]), int(places[2 * k + 1])) for k in range(count)])


def _leg_name(name: str, k: int) -> str:
    return f"{name}-leg{k}"


def _is_leg(name: str, own: str) -> bool:
    """Is this the name of a leg of the volume ``name``?"""
    before, _, k = own.rpartition("-leg")
    return before == name and k.isdigit()


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
    if (host.root / STARTER[1:]).exists():
        # udev saw the array before the volume, and gave it the links to what it holds.
        if host.program("udevadm"):
            plan.steps.append(Run(["udevadm", "trigger", "--action=change", f"--name-match={path}"]))
    else:
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


def _taken(host: Host, name: str) -> list[str]:
    """Why a new volume cannot have this name."""
    found = described_as(host, name)
    if not VOLUME_NAME.fullmatch(name):
        found.append(
            f"{name}: mdadm takes names of at most 32 letters, digits and any of ._-, the first no dot or dash"
        )
    for own in sorted((host.root / "sys/block").glob("dm-*/dm/name")):
        if (there := text_of(own)) == name or _is_leg(name, there):
            left = f"; `dmsetup remove {there}` if it is left of a command that failed" if there != name else ""
            found.append(f"there is a device-mapper device {there}; give another name{left}")
    return found


def _barred(host: Host, name: str, count: int) -> list[str]:
    """Why nothing would assemble the array on its legs at boot."""
    return barred(host, [_leg_name(name, k) for k in range(count)], f"DEVICE /dev/mapper/{name}-leg*")


def create(host: Host, wish: Wish, dry_run: bool) -> Plan:
    """The plan that makes a new array of drives, and a volume above it. The drives are overwritten.

    With ``dry_run``, each drive that cannot be examined gives a warning. Where a drive is absent, or the drives are too
    small, the plan has refusals and no steps.
    """
    name = check_device_name(wish.name)
    if wish.read_only or wish.revoke or wish.ioprio is not None or wish.trust_identical or wish.out:
        raise DmError("--md excludes --read-only, --revoke, --ioprio, --trust-identical and --out")
    if not 2 <= len(wish.devices) <= REPLICAS_MAX:
        raise DmError(f"{len(wish.devices)} drives; an array has 2 to {REPLICAS_MAX}")
    plan = Plan(refusals=_taken(host, name))
    there = _looked_up(host, dict.fromkeys((*wish.devices, *wish.overwrite)), plan)
    drives = [there[path] for path in wish.devices if path in there]
    named = {there[path].number for path in wish.overwrite if path in there}
    plan.refusals += [*_barred(host, name, len(wish.devices)), *guard.same_twice(host, drives)]
    plan.warnings += guard.shared_disks(host, drives)
    for drive in drives:
        with tolerated(plan, dry_run):
            _check_free(host, drive, drive.number in named, plan)
    if len(drives) < len(wish.devices):
        return plan
    for number in named - {drive.number for drive in drives}:
        plan.refusals.append(f"--overwrite-data-on: {host.name(number)} is none of the drives")
    sectors = least_length(drives, plan)
    if not wish.smallest and (large := [one.path for one in drives if one.size_bytes > 2 * sectors * SECTOR]):
        plan.refusals.append(
            f"more than half of {', '.join(large)} would stay unused; if the size of the smallest drive is meant, say "
            "so: --smallest"
        )
    # The same place for the data on every drive, known before there is an array.
    offset = 16 * MIB_SECTORS if sectors >= 8192 * MIB_SECTORS else MIB_SECTORS
    size = (sectors - offset) // 128 * 128
    if size < MIB_SECTORS:
        plan.refusals.append(f"the smallest drive has {sectors * SECTOR:,} bytes, too few for an array")
        return plan
    words = _arguments(host, plan, wish)
    _module(host, plan)
    # A superblock of another array would give the new leg to md before we do.
    plan.steps += [Run(["wipefs", "--all", drive.path], same=drive) for drive in drives if drive.number in named]
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
    plan.recovery = (
        f"if {host.description(name)} is there, `linnet dm start {name}` goes on; to go back, take off what there is: "
        f"`mdadm --stop {path}` if that was made, {name}-legK with `dmsetup remove`, and the description. A drive that "
        "mdadm has written to needs --overwrite-data-on the next time"
    )
    return plan


def _looked_up(host: Host, paths: Iterable[str], plan: Plan) -> dict[str, Device]:
    """The drives that are there, by path; each of the others is refused."""
    found = {}
    for path in paths:
        try:
            found[path] = guard.device(host, path)
        except (DmError, OSError) as error:
            plan.refusals.append(str(error))
    return found


def _check_free(host: Host, drive: Device, expendable: bool, plan: Plan) -> None:
    """Refuse a drive that is in use, or holds data that are not expendable."""
    used = guard.in_use(host, drive)
    plan.refusals += [*used, *guard.write_protected(host, drive)]
    # Nothing is read from a drive that is in use: what it holds is changing.
    if not used and not expendable and (found := guard.data_on(host, drive)):
        plan.refusals.append(
            f"{drive.path} would be OVERWRITTEN, and it holds {found}. If that may be lost, say so: "
            f"--overwrite-data-on {drive.path}. To keep the data of an array: linnet dm adopt"
        )


def adopt(
    host: Host,
    path: str,
    name: str | None = None,
    policy: str = "linnet-best",
    models: list[Path] | None = None,
    hedge: int | None = None,
) -> Plan:
    """The plan that puts a volume around an existing array. No data is moved.

    Unless a name is given it is ``linnet-`` and the kernel's name of the array.
    """
    device = guard.device(host, path)
    of = md.array(host, device.number)
    name = check_device_name(f"linnet-{of.name}" if name is None else name)
    plan = Plan(refusals=[*_taken(host, name), *guard.in_use(host, device), *_adopted(host, of)])
    plan.refusals += _barred(host, name, len(of.members))
    version = text_of(of.directory / "metadata_version")
    if version and not version.startswith("1."):
        plan.refusals.append(
            f"{of.name} has metadata {version}, which tells nobody where a drive begins; 1.0 to 1.2 do"
        )
    # An array that waits for its first write may be stopped as well.
    if reason := md.unfit(of, (*md.RUNNING, "read-auto", "readonly")):
        plan.refusals.append(reason)
    if (lacking := text_of(of.directory / "degraded")) != "0":
        plan.refusals.append(f"{of.name} is degraded: members missing or not in sync: {lacking or 'unknown'}")
    if not 2 <= len(of.members) <= REPLICAS_MAX:
        plan.refusals.append(f"{of.name} has {len(of.members)} members; a volume has 2 to {REPLICAS_MAX}")
    for member in of.members:
        drive = host.name(member.number)
        if md.is_spare(member):
            plan.refusals.append(f"{drive} is a spare; take it out before: mdadm --remove {of.path} /dev/{drive}")
        elif reason := md.unfit_member(member, member.offset):
            plan.refusals.append(f"{drive}: {reason}")
        if host.sysfs(member.number).exists():
            plan.refusals += guard.write_protected(host, guard.device_of(host, member.number))
    if parts := guard.partitioned(host, device):
        plan.refusals.append(
            f"{of.name} has {parts}: below a volume they have no devices, so what they hold could not be mounted. "
            "Partition the drives, and make an array of one file system of each"
        )
    elif (holds := host.signature(path)) and "LVM2_member" in holds:
        plan.warnings.append(
            f"{of.path} is a physical volume of LVM, which will find it on the array and on the volume: keep it from "
            "the array (global_filter in lvm.conf, or lvmdevices), or logical volumes may go around the volume"
        )
    plan.warnings += [
        f"{file} names {word}, which is busy below a volume: it should name what that holds, by UUID=, or "
        f"/dev/mapper/{name}"
        for file, word in guard.mentions(host, device)
    ]
    members = [f"/dev/{host.name(member.number)}" for member in of.members]
    words = _arguments(host, plan, Wish(name, members, models or (), policy, hedge=hedge))
    _module(host, plan)
    # First: without the description, udev would give the drives to md again.
    plan.provisional = Describe(host.description(name), of.path, words)
    plan.steps.append(plan.provisional)
    plan.holds = name
    plan.steps.append(Run(["mdadm", "--stop", of.path]))
    for k, member in enumerate(of.members):
        major, minor = member.number
        _leg(plan, name, k, f"{major}:{minor}", host.sectors(member.number))
    legs = [f"/dev/mapper/{_leg_name(name, k)}" for k in range(len(members))]
    plan.steps.append(Run(["mdadm", "--assemble", of.path, *legs]))
    _top(host, plan, name, of.path, of.sectors, [member.offset for member in of.members], words)
    plan.recovery = (
        f"`linnet dm start {name}` goes on from there; to go back, take off what there is of "
        f"{name}-legK with `dmsetup remove`, remove {host.description(name)}, and then "
        f"`mdadm --assemble {of.path} {' '.join(members)}`"
    )
    return plan


def _adopted(host: Host, of: md.Array) -> list[str]:
    """Why an array belongs to a volume already."""
    again = "; `linnet dm start {0}` puts the volume above it"
    found = []
    if names := described(host):
        uuid = _plain(md.uuid(host, of.path))
        for name in names:
            known = UUID.search(host.description(name).read_text(errors="replace"))
            if known and _plain(known[1]) == uuid:
                found.append(f"{host.description(name)} describes {of.name} already{again.format(name)}")
    for member in of.members:
        if _drive_below(host, leg := text_of(host.sysfs(member.number) / "dm/name")):
            name = leg.rpartition("-leg")[0]
            way = again.format(name) if name in names else f"; `dmsetup remove {leg}` once {of.name} is stopped"
            found.append(f"{host.name(member.number)} is the leg {leg} already{way}")
    return found


def _plain(uuid: str) -> str:
    """The digits of a UUID: md and blkid group them differently."""
    return re.sub("[:-]", "", uuid).strip().lower()


def _drive_below(host: Host, leg: str) -> list[str]:
    """Number of the drive below a leg, and where the leg begins there; empty for any other device."""
    lines = per_device(host.run(["dmsetup", "table", "--target", "linnet-leg", leg]), leg) if leg else {}
    words = lines.get(leg, "").split()
    return words[3:] if words[2:3] == ["linnet-leg"] else []


def release(host: Host, name: str) -> Plan:
    """The plan that takes a volume off: what is left is the array on its drives."""
    one = volume(host, name)
    of = md.array(host, one.array)
    own = guard.device(host, f"/dev/mapper/{name}")
    plan = Plan(refusals=guard.in_use(host, own))
    plan.warnings += [
        f"{file} names {word}, which goes: it should name what that holds, by UUID=, or {of.path}"
        for file, word in guard.mentions(host, own)
    ]
    if (action := text_of(of.directory / "sync_action")) not in ("idle", ""):
        plan.warnings.append(f"{of.name} is busy ({action}); it goes on after it is assembled again")
    legs, drives = [], []
    members = {member.number: member for member in of.members}
    for k, (number, _) in enumerate(one.legs):
        leg = text_of(host.sysfs(number) / "dm/name")
        if number not in members and not _is_leg(name, leg):
            # Removed under the volume, whose table keeps the number. Another device may have it since.
            there = f"; {leg or host.name(number)} has its number now, and stays" if host.sysfs(number).exists() else ""
            plan.warnings.append(f"leg {k} of {name} has gone{there}; {of.name} is assembled without its drive")
            continue
        below = _drive_below(host, leg)
        if below[1:] != ["0"]:
            raise DmError(f"{leg or host.name(number)}: no leg that begins where its drive begins; release it by hand")
        legs.append(leg)
        drive = number_of(below[0])
        if number not in members:
            plan.warnings.append(f"{leg} is no member of {of.name}; {host.name(drive)} stays as it is")
        elif host.sysfs(drive).exists():
            drives.append(f"/dev/{host.name(drive)}")
            plan.refusals += _held_by_others(host, drive, number)
        elif "faulty" in (state := text_of(members[number].directory / "state")):
            plan.warnings.append(f"the drive of {leg} has gone; {of.name} is assembled without it")
        else:
            plan.refusals.append(
                f"the drive of {leg} has gone, and {of.name} calls it {state}: mdadm --fail {of.path} /dev/mapper/{leg}"
            )
    strangers = [host.name(number) for number in members if number not in dict(one.legs)]
    if strangers:
        plan.refusals.append(f"{of.name} has members that are no legs of {name}: {', '.join(strangers)}")
    if not drives:
        plan.refusals.append(f"no drive of {of.name} is here")
    plan.steps = [Run(["dmsetup", "remove", "--retry", name]), Run(["mdadm", "--stop", of.path])]
    plan.steps += [Run(["dmsetup", "remove", "--retry", leg]) for leg in legs]
    plan.steps.append(Run(["mdadm", "--assemble", of.path, *drives]))
    plan.steps.append(Forget(host.description(name)))
    plan.holds = name
    plan.recovery = f"`linnet dm start {name}` puts the volume together again"
    return plan


def _held_by_others(host: Host, drive: tuple[int, int], leg: tuple[int, int]) -> list[str]:
    """Why md could not take a drive when its leg is gone."""
    own = host.sysfs(leg).name
    others = sorted(one.name for one in (host.sysfs(drive) / "holders").glob("*") if one.name != own)
    return [f"{host.name(drive)} is in use beside its leg, by {', '.join(others)}"] if others else []


def described(host: Host) -> list[str]:
    """The volumes that are started at boot, by name."""
    return sorted(path.stem for path in host.description("x").parent.glob("*.conf"))


def start(host: Host, names: list[str], degraded: bool) -> Plan:
    """The plan that puts described volumes together, as udev does at boot. A started one is left alone.

    One that cannot be started keeps none of the others. With ``degraded``, an array is started that lacks members which
    it had last.
    """
    known = described(host)
    plan, stopped = Plan(), []
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
            stopped.append(name)
            plan.notes.append(f"reads go through md until `linnet dm trust {name}`, and a first write after that")
    if stopped:
        plan.steps.append(Run([*(["env", "DEGRADED=1"] if degraded else []), STARTER, "start", *stopped]))
    return plan
