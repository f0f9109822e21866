# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trust in the legs of a volume above md (``spec/md-volume.md``): who gets it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from linnet.dm import DmError, md
from linnet.dm.host import Host
from linnet.dm.volume import volume
from linnet.files import write_whole

SPARE = "spare"


@dataclass(frozen=True)
class Verdict:
    """What a leg has after `linnet dm trust`."""

    state: str
    """``trusted``, ``pending`` until the next write has reached it, ``untrusted``, or ``spare``."""
    reason: str | None = None
    """Why it is untrusted."""


def trust(host: Host, name: str, generations: list[int], ask: Callable[[], list[dict[str, Any]]]) -> list[Verdict]:
    """Give trust to each leg that md says holds everything; for each leg what it has then.

    ``generations`` were read before: if a leg has lost its trust since, the kernel refuses it. ``ask`` gives the status
    of the legs afterwards. Raises ``DmError`` if the device is no volume above md.
    """
    one = volume(host, name)
    if len(generations) != len(one.legs):
        raise DmError(f"{name}: {len(generations)} generations for {len(one.legs)} legs; the table has changed")
    of = md.array(host, one.array)
    members = {member.number: member for member in of.members}
    strangers = [host.name(number) for number in members if number not in dict(one.legs)]
    why = md.unfit(of) or (f"{of.name} has members that are no legs: {', '.join(strangers)}" if strangers else None)
    why = why or _unrepaired(host, name, of)
    given: list[Verdict | None] = []
    for k, (number, offset) in enumerate(one.legs):
        member = members.get(number)
        if member and md.is_spare(member):
            given.append(Verdict(SPARE))  # md writes nothing to it
            continue
        reason = why or (md.unfit_member(member, offset) if member else f"it is no member of {of.name}")
        if reason is None:
            try:
                host.run(["dmsetup", "message", name, "0", "trust", str(k), str(generations[k])])
            except DmError as error:
                reason = f"{error}; something happened to it meanwhile, try again"
        given.append(Verdict("untrusted", reason) if reason else None)
    # What the kernel took may be pending, or lost since.
    return [verdict or _found(leg) for verdict, leg in zip(given, ask(), strict=True)]


def _unrepaired(host: Host, name: str, of: md.Array) -> str | None:
    """Why md must compare the members first, in words. The note of it stays, over a restart too, until md has."""
    noted, kept = host.must_repair(name)
    if not noted.exists() and not kept.exists():
        return None
    if md.text_of(of.directory / "last_sync_action") != "repair":
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_whole(kept, "", follow=False)
        except OSError as error:
            raise DmError(f"{kept}: {error.strerror}") from error
        return (
            f"one member of {of.name} was being rebuilt when the array was last stopped uncleanly, and the others may "
            f"differ in what was being written: echo repair >/sys/block/{of.name}/md/sync_action, and try again when "
            "that has ended"
        )
    for note in (noted, kept):
        note.unlink(missing_ok=True)
    return None


def _found(leg: dict[str, Any]) -> Verdict:
    lost = f"it has lost its trust since ({leg['why']}), try again" if leg["trust"] == "untrusted" else None
    return Verdict(leg["trust"], lost)
