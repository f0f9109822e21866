# SPDX-License-Identifier: MIT OR Apache-2.0
"""md arrays and their members as sysfs shows them, and whether a leg may be trusted by that (``spec/md-volume.md``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from linnet.dm import DmError
from linnet.dm.host import Host

RUNNING = ("clean", "active", "active-idle", "write-pending")


@dataclass(frozen=True)
class Member:
    """A member of an array, as sysfs shows it."""

    directory: Path
    number: tuple[int, int]
    offset: int
    """Sector at which its data begins."""
    slot: int | None
    """Its place in the array; a spare, or a member that failed, has none."""


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


def text_of(path: Path) -> str:
    """A file of sysfs; empty if it is not there."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def number_of(text: str) -> tuple[int, int]:
    """A device number, as sysfs and table lines write it."""
    major, _, minor = text.partition(":")
    return int(major), int(minor)


def array(host: Host, number: tuple[int, int]) -> Array:
    """The array of this device number. Members are in the order of their slots, then those without one."""
    own = host.sysfs(number)
    if not (own / "md").exists():
        raise DmError(f"{host.name(number)} is not an md array")
    found = []
    for directory in (own / "md").glob("dev-*"):
        text = text_of(directory / "slot")
        slot = int(text) if text.isdigit() else None
        if about := text_of(directory / "block" / "dev"):
            found.append(Member(directory, number_of(about), int(text_of(directory / "offset") or 0), slot))
    found.sort(key=lambda one: (one.slot is None, one.slot or 0, one.number))
    return Array(own.name, own / "md", int(text_of(own / "size") or 0), found)


def uuid(host: Host, path: str) -> str:
    """The UUID of a running array, as mdadm writes it. Raises ``DmError`` if mdadm does not tell it."""
    said = host.run(["mdadm", "--detail", "--export", path])
    found = next((line[8:] for line in said.splitlines() if line.startswith("MD_UUID=")), None)
    if found is None:
        raise DmError(f"mdadm --detail --export {path}: no MD_UUID, so the volume cannot be described")
    return found


def is_spare(member: Member) -> bool:
    """Does it wait for a member to fail?"""
    return member.slot is None and text_of(member.directory / "state") == "spare"


def unfit(one: Array, states: tuple[str, ...] = RUNNING) -> str | None:
    """Why no leg of an array can be trusted now, in words."""
    said = {name: text_of(one.directory / name) for name in ("level", "array_state", "resync_start", "sync_action")}
    bitmap = {name: text_of(one.directory / "bitmap" / name) for name in ("backlog", "location", "metadata")}
    behind, position = bitmap["backlog"], text_of(one.directory / "reshape_position")
    reasons = {
        f"level {said['level'] or 'unknown'}, not raid1": said["level"] != "raid1",
        f"state {said['array_state'] or 'unknown'}, so it is not running for writes": said["array_state"] not in states,
        f"not been resynced since it was last stopped uncleanly (resync_start {said['resync_start']})": (
            said["resync_start"] != "none"
        ),
        f"work to do: {said['sync_action'] or 'unknown'}": said["sync_action"] != "idle",
        "a reshape to finish": position not in ("none", ""),
        "a clustered bitmap, so other machines write to its drives": bitmap["metadata"] == "clustered",
        "its bitmap in a file, without which nothing assembles it at boot": bitmap["location"] == "file",
        f"write-behind (backlog {behind}), which cannot be followed": behind not in ("", "0"),
    }
    return next((f"{one.name} has {reason}" for reason, applies in reasons.items() if applies), None)


def unfit_member(member: Member, offset: int) -> str | None:
    """Why a member cannot be trusted now, in words."""
    if (state := text_of(member.directory / "state")) != "in_sync":
        return f"md calls it {state or 'gone'}, not in_sync alone"
    for name in ("bad_blocks", "unacknowledged_bad_blocks"):
        if not (member.directory / name).exists():
            return f"md does not show its {name}"
        if text_of(member.directory / name):
            return f"md has {name} of it; fail it and add it anew"
    if member.offset != offset:
        return f"its data begins at sector {member.offset}, and the volume reads at {offset}"
    return None
