# SPDX-License-Identifier: MIT OR Apache-2.0
"""Advice on moves: those that mend broken promises, then those off staging drives, then those that empty a drive.

Promises that were observed to be broken come first, since the model does not see what is wrong on these drives: the
tenant moves or, where no drive takes it, the heaviest of its neighbours that one takes. No move leads to such a drive.

Nothing is changed. If the moves are made in their order, the model allows each of them at its turn.

No tenant moves twice, as each move copies what it stores: a drive that got a tenant is not emptied. Drives are emptied
onto the fullest that may take their tenants, which would be the last to be emptied, so that this keeps few of them.

Promises that cannot be mended cost most, since every drive is asked about them. So it is remembered whom no drive took:
an equal tenant is then asked about only on drives that have lost a tenant since, as no drive gets better by getting
fuller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from linnet.place.allocate import Allocator, Policy

EMPTIED_MAX = 200
"""So many of the least loaded drives are tried, at most."""
LEFT_MAX = 16
"""If more drives have lost a tenant since one was refused, all are asked again: together they cost less."""


@dataclass(frozen=True)
class Move:
    """One tenant to another drive."""

    tenant: str
    source: str
    target: str
    capacity_bytes: int
    reason: str


@dataclass(frozen=True)
class Advice:
    """Moves, and what they gain."""

    moves: list[Move]
    broken_before: int
    """Promises that are broken now, by the model."""
    broken_after: int
    drives_observed_broken: int
    """Drives on which promises were observed to be broken: a tenant there suffers, as the cluster has it."""
    drives_before: int
    """Drives that have tenants."""
    drives_after: int
    complete: bool
    """False if the time was over before every drive was looked at."""

    @property
    def bytes_moved(self) -> int:
        """What the moves copy."""
        return sum(move.capacity_bytes for move in self.moves)


def rebalance(
    allocator: Allocator,
    moves_max: int = 100,
    progress: Callable[[int, int], None] = lambda done, total: None,
    late: Callable[[], bool] = lambda: False,
) -> Advice:
    """Advise at most ``moves_max`` moves. A tenant that is to be measured stays on its staging drive.

    When ``late`` says so, the moves that were found by then are the answer. It is asked before each search for a drive;
    the promises that are broken are counted in any case.
    """
    cluster = allocator.cluster
    used = np.flatnonzero((cluster.count > 0) & ~cluster.staging)
    observed = np.flatnonzero(cluster.homes_of(cluster.suffers) & ~cluster.staging).tolist()
    broken = dict(zip(used.tolist(), allocator.checker.count_broken(used).tolist(), strict=True))
    before = cluster.drives_used
    total = after = sum(broken.values())
    search = _Search(allocator, moves_max, late, observed)
    with allocator.trial():
        for drive in observed:
            if not search.goes_on():
                break
            search.relieve(drive)
            left = search.count(drive)
            after += left - broken[drive]
            broken[drive] = left
        for drive in (d for d, count in broken.items() if count):
            if not search.goes_on():
                break
            search.mend(drive)
            after += search.count(drive) - broken[drive]
        for drive in np.flatnonzero((cluster.count > 0) & cluster.staging).tolist():
            search.settle(drive)
        lightest = used[np.argsort([allocator.load(int(drive)) for drive in used], kind="stable")][:EMPTIED_MAX]
        for done, drive in enumerate(lightest):
            progress(done, len(lightest))
            if not search.goes_on():
                break
            search.empty(int(drive))
        left = cluster.drives_used
    return Advice(search.moves, total, after, len(observed), before, left, not search.was_late)


class _Search:
    """Makes moves inside a trial."""

    def __init__(self, allocator: Allocator, moves_max: int, late: Callable[[], bool], shunned: Sequence[int]) -> None:
        """No move leads to a drive that is ``shunned``."""
        self._allocator, self._moves_max, self._late, self._shunned = allocator, moves_max, late, shunned
        self.moves: list[Move] = []
        self.was_late = False
        self._got: set[int] = set()
        """Drives that got a tenant."""
        self._left: list[int] = []
        """Drives that lost a tenant, in the order of the moves."""
        self._refused: dict[tuple[int, int, bool], tuple[int, int]] = {}
        """Whom no drive took: by what it asks for, the drive that was not asked, and how many had lost one by then."""

    def goes_on(self) -> bool:
        """Whether there may be another move."""
        self.was_late = self.was_late or self._late()
        return not self.was_late and len(self.moves) < self._moves_max

    def count(self, drive: int) -> int:
        """Broken promises to the tenants of a drive."""
        return int(self._allocator.checker.count_broken(np.array([drive], np.intp))[0])

    def relieve(self, drive: int) -> None:
        """Move the tenants off a drive to which promises were observed to be broken there.

        If one of them has nowhere to go, the heaviest other tenant that has moves, once for all of them.
        """
        allocator, cluster = self._allocator, self._allocator.cluster
        rows = [int(row) for row in cluster.tenants_on(drive)]
        stay = []
        for row in sorted(row for row in rows if cluster.suffers[row]):
            if not self.goes_on():
                return
            if not self._move(row, drive, "promises to it were observed to be broken"):
                stay.append(cluster.tenant(row).id)
        if not stay:
            return
        loads = {row: allocator.loads_of(row)[cluster.kind[drive]] for row in rows if not cluster.suffers[row]}
        reason = f"promises to {stay[0]} were observed to be broken beside it"
        for row in sorted(loads, key=lambda one: (-loads[one], one)):
            if not self.goes_on() or self._move(row, drive, reason):
                return

    def mend(self, drive: int) -> None:
        """Move tenants off a drive until it has no broken promise.

        Of the tenants that another drive can take, the one whose move mends most promises goes first, of equals the one
        with least capacity.
        """
        allocator, cluster = self._allocator, self._allocator.cluster
        while self.goes_on() and (count := self.count(drive)):
            mending: list[tuple[int, int, int]] = []
            for row in cluster.tenants_on(drive).copy():
                allocator.take(int(row))
                left = self.count(drive)
                allocator.put(int(row), drive)
                if left < count:
                    mending.append((left, cluster.tenant(int(row)).capacity_bytes, int(row)))
            for left, _, row in sorted(mending):
                if not self.goes_on() or self._move(
                    row, drive, f"{count - left} of {count} broken promises would hold"
                ):
                    break
            else:
                break

    def settle(self, drive: int) -> None:
        """Move tenants off a staging drive that have been measured, and had no room elsewhere then."""
        cluster = self._allocator.cluster
        measured = [int(row) for row in cluster.tenants_on(drive) if cluster.tenant(int(row)).profile is not None]
        for row in sorted(measured):
            if not self.goes_on():
                break
            self._move(row, drive, f"was measured on {cluster.specs[drive].drive.name}, and has room elsewhere")

    def empty(self, drive: int) -> None:
        """Move all tenants off a drive onto others that have tenants, or none of them."""
        allocator, cluster = self._allocator, self._allocator.cluster
        rows = [int(row) for row in cluster.tenants_on(drive)]
        first, got = len(self.moves), set(self._got)
        if not rows or len(rows) > self._moves_max - first or drive in got:
            return
        went: list[int] = []
        for row in sorted(rows, key=lambda one: (-cluster.tenant(one).capacity_bytes, one)):
            if not self.goes_on() or not self._move(row, drive, f"empties {cluster.specs[drive].drive.name}", False):
                for placed in reversed(went):
                    allocator.take(placed)
                    allocator.put(placed, drive)
                del self.moves[first:]
                self._got = got
                return
            went.append(row)

    def _move(self, row: int, drive: int, reason: str, opened: bool = True) -> bool:
        """Move a tenant to the drive that placement chooses. With ``opened`` false, to the fullest that has tenants."""
        allocator, cluster = self._allocator, self._allocator.cluster
        tenant = cluster.tenant(row)
        key = (int(cluster.signature[row]), tenant.capacity_bytes, opened)
        allocator.take(row)
        but = [drive, *self._shunned]
        for only in self._worth_asking(key, drive):
            policy: Policy | None = None if opened else "best-fit"
            name = allocator.place_row(row, only, but, explained=False, policy=policy).drive
            if name is not None and (opened or cluster.count[cluster.drive_of[row]] > 1):
                self._left.append(drive)
                self._got.add(int(cluster.drive_of[row]))
                self.moves.append(Move(tenant.id, cluster.specs[drive].drive.name, name, tenant.capacity_bytes, reason))
                return True
            if name is not None:
                allocator.take(row)
        self._refused[key] = drive, len(self._left)
        allocator.put(row, drive)
        return False

    def _worth_asking(self, key: tuple[int, int, bool], drive: int) -> Sequence[int | None]:
        """Drives about which a tenant should be asked one by one; one element that is None stands for all together."""
        if key not in self._refused:
            return [None]
        source, at = self._refused[key]
        fresh = {source, *self._left[at:]} - {drive}
        return [None] if len(fresh) > LEFT_MAX else sorted(fresh)
