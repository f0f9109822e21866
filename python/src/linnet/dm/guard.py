# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that protect existing data before a command changes anything.

A device is refused when it is in use, whatever the command would do to it: mounted, used as swap, held by another
device, or claimed by the kernel. A device that would be overwritten is refused when it holds data. Replicas that are
read as one volume are refused when their bytes differ. Each check returns reasons in words; no reason means go ahead.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from linnet.dm import DmError
from linnet.dm.host import SECTOR, Host
from linnet.dm.md import text_of
from linnet.dm.table import check_device_path

MIB = 1 << 20
SAMPLE = 4096
SAMPLES = 1024
"""Places at which replicas are compared, besides both ends."""
BY_CONTENT = tuple(f"/dev/disk/by-{what}/" for what in ("uuid", "label", "partuuid", "partlabel"))
"""Links that lead to what holds something: the array, or the volume above it."""


@dataclass(frozen=True)
class Device:
    """A block device as named by the user."""

    path: str
    number: tuple[int, int]
    size_bytes: int

    @property
    def word(self) -> str:
        """What a table line calls it: its number, which no later change of the path can turn into another device."""
        return f"{self.number[0]}:{self.number[1]}"


def device(host: Host, path: str) -> Device:
    """Look a device up."""
    check_device_path(path)
    number = host.number(path)
    return Device(path, number, host.sectors(number) * SECTOR)


def device_of(host: Host, number: tuple[int, int]) -> Device:
    """The device of this number."""
    return Device(f"/dev/{host.name(number)}", number, host.sectors(number) * SECTOR)


def _family(host: Host, number: tuple[int, int]) -> list[Path]:
    """The device in sysfs, its partitions, and the disk it is a partition of."""
    own = host.sysfs(number)
    found = [own, *sorted(child.parent for child in own.glob("*/partition"))]
    return [*found, own.parent] if (own / "partition").exists() else found


def disk(host: Host, number: tuple[int, int]) -> str:
    """The name of the disk that a device is, or is a partition of."""
    own = host.sysfs(number)
    return own.parent.name if (own / "partition").exists() else own.name


def in_use(host: Host, one: Device) -> list[str]:
    """Why a device may not be taken."""
    reasons = []
    family = _family(host, one.number)
    # The disk of a partition may be lent only as a whole; its other partitions are not ours.
    numbers = {(path / "dev").read_text().strip() for path in family if (path / "dev").exists()}
    numbers.add(f"{one.number[0]}:{one.number[1]}")
    for number, source, where in host.mounts():
        if number in numbers or _names(host, source, numbers):
            reasons.append(f"{one.path} is mounted on {where}")
    reasons += [f"{one.path} is used as swap" for name in host.swaps() if _names(host, name, numbers)]
    for path in family:
        holders = sorted(holder.name for holder in (path / "holders").glob("*"))
        if holders:
            reasons.append(f"{one.path} is in use: {path.name} is held by {', '.join(holders)}")
    for loop, source in host.loops():
        # A loop device does not claim what it stands on.
        if _names(host, source, numbers):
            reasons.append(f"{one.path} is in use: {loop} stands on it")
    if not reasons and host.busy(one.path):
        reasons.append(f"{one.path} is in use: a mount, an array or another target has claimed it")
    return reasons


def write_protected(host: Host, one: Device) -> list[str]:
    """Why a device may not be written, in words. The kernel keeps a target that has opened it from no write."""
    disk_of = host.sysfs(one.number).parent if (host.sysfs(one.number) / "partition").exists() else None
    for path in (host.sysfs(one.number), *([disk_of] if disk_of else [])):
        if (path / "ro").exists() and (path / "ro").read_text().strip() == "1":
            return [f"{one.path} is read-only: blockdev --setrw /dev/{path.name.replace('!', '/')}"]
    return []


def partitioned(host: Host, one: Device) -> str | None:
    """What partitions a device has, in words; nothing where it has none."""
    if found := sorted(child.parent.name for child in host.sysfs(one.number).glob("*/partition")):
        return f"the partitions {', '.join(found)}"
    known = host.signature(one.path)
    return known if known and known.startswith("a partition table") else None


def _names(host: Host, name: str, numbers: set[str]) -> bool:
    """Does this path name one of the devices?"""
    if not name.startswith("/"):
        return False
    try:
        major, minor = host.number(name)
    except DmError:
        return False
    return f"{major}:{minor}" in numbers


def mentions(host: Host, one: Device) -> list[tuple[Path, str]]:
    """Where fstab and crypttab name a device, and not what it holds: the file, and the name."""
    found = []
    for file, field in ((host.root / "etc/fstab", 0), (host.root / "etc/crypttab", 1)):
        for line in text_of(file).splitlines():
            words = line.split()
            if len(words) <= field or words[0].startswith("#") or words[field].startswith(BY_CONTENT):
                continue
            if _names(host, words[field], {one.word}):
                found.append((file, words[field]))
    return found


def places(size_bytes: int) -> list[tuple[int, int]]:
    """Both ends and samples between them: offset and size. The same for every device of this size."""
    ends = [(0, min(MIB, size_bytes))]
    if size_bytes > MIB:
        ends.append((max(MIB, size_bytes - MIB), min(MIB, size_bytes - MIB)))
    chance = random.Random(size_bytes)
    blocks = size_bytes // SAMPLE
    inside = sorted({chance.randrange(blocks) for _ in range(SAMPLES)}) if blocks else []
    return ends + [(block * SAMPLE, SAMPLE) for block in inside]


def compared(size_bytes: int) -> str:
    """What a comparison at :func:`places` looked at, in words."""
    seen = sum(size for _, size in places(size_bytes))
    if seen >= size_bytes:
        return "all bytes were compared"
    return (
        f"{seen / MIB:.1f} MiB of {size_bytes / MIB:,.0f} MiB were compared, both ends and up to {SAMPLES} places of "
        f"{SAMPLE // 1024} KiB between; what differs elsewhere was not seen"
    )


def data_on(host: Host, one: Device) -> str | None:
    """What a device holds, in words; nothing when it looks empty. It is read at both ends and at a thousand places."""
    if known := host.signature(one.path):
        return known
    for offset, size in places(one.size_bytes):
        found = host.read(one.path, offset, size)
        if found.count(0) != len(found):
            return f"bytes other than zero within {size // 1024} KiB of offset {offset}"
    return None


def difference(host: Host, devices: list[Device], size_bytes: int, begins: list[int] | None = None) -> str | None:
    """Where replicas differ, in words; nothing when they agree at every place looked at.

    ``begins`` has the byte of each device at which its data begin: 0 if it is not given.
    """
    (first, start), *others = zip(devices, begins or [0] * len(devices), strict=True)
    for offset, size in places(size_bytes):
        expected = host.read(first.path, start + offset, size)
        for other, begin in others:
            if host.read(other.path, begin + offset, size) != expected:
                return f"{other.path} and {first.path} differ within {size // 1024} KiB of offset {offset}"
    return None


def same_twice(host: Host, devices: list[Device]) -> list[str]:
    """Devices that have bytes in common: one and the same, by one path or two, or a disk with its own partition."""
    reasons = []
    for i, one in enumerate(devices):
        for other in devices[:i]:
            if one.number == other.number:
                reasons.append(f"{one.path} and {other.path} are the same device")
            elif host.sysfs(other.number) in host.sysfs(one.number).parents:
                reasons.append(f"{one.path} is a partition of {other.path}")
            elif host.sysfs(one.number) in host.sysfs(other.number).parents:
                reasons.append(f"{other.path} is a partition of {one.path}")
            elif known := _shared_drive(host, one, other):
                reasons.append(f"{one.path} and {other.path} are two paths to one drive, {known}")
    return reasons


def _shared_drive(host: Host, one: Device, other: Device) -> str | None:
    """The drive of which two devices have the same bytes, such as a disk, and a partition of its other path."""
    first, second = host.extent(one.number), host.extent(other.number)
    if first is None or second is None or first[0] != second[0]:
        return None
    return first[0] if first[1] < second[2] and second[1] < first[2] else None


def shared_disks(host: Host, devices: list[Device]) -> list[str]:
    """Replicas that fail, and stall, together."""
    disks: dict[str, list[str]] = {}
    for one in devices:
        disks.setdefault(disk(host, one.number), []).append(one.path)
    return [
        f"{' and '.join(paths)} are partitions of one disk, {name}: it stalls and fails as one"
        for name, paths in disks.items()
        if len(paths) > 1
    ]
