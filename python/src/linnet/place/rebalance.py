# SPDX-License-Identifier: MIT OR Apache-2.0
"""Advice on moves: first moves that mend broken promises, then moves that empty a drive.

Nothing is changed. If the moves are made in their order, the model allows each of them at its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from linnet.place.allocate import Allocator

EMPTIED_MAX = 200
"""So many of the least loaded drives are tried, at most."""


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
    drives_before: int
    """Drives that have tenants."""
    drives_after: int

    @property
    def bytes_moved(self) -> int:
        """What the moves copy."""
        return sum(move.capacity_bytes for move in self.moves)


def rebalance(
    allocator: Allocator, moves_max: int = 100, progress: Callable[[int, int], None] = lambda done, total: None
) -> Advice:
    """Advise at most ``moves_max`` moves. Staging drives are left alone."""
    cluster = allocator.cluster
    used = np.flatnonzero((cluster.count > 0) & ~cluster.staging)
    broken = dict(zip(used.tolist(), allocator.checker.count_broken(used).tolist(), strict=True))
    before = cluster.drives_used
    moves: list[Move] = []
    total, after = sum(broken.values()), 0
    with allocator.trial():
        for drive in (d for d, count in broken.items() if count):
            moves += _mend(allocator, drive, moves_max - len(moves))
            after += len(allocator.breaches(drive))
        lightest = used[np.argsort([allocator.load(int(drive)) for drive in used], kind="stable")][:EMPTIED_MAX]
        for done, drive in enumerate(lightest):
            progress(done, len(lightest))
            if len(moves) >= moves_max:
                break
            moves += _empty(allocator, int(drive), moves_max - len(moves))
        left = cluster.drives_used
    return Advice(moves, total, after, before, left)


def _mend(allocator: Allocator, drive: int, moves_max: int) -> list[Move]:
    """Move tenants off a drive until it has no broken promise.

    Of the tenants that another drive can take, the one whose move mends most promises goes first, of equals the one
    with least capacity.
    """
    cluster = allocator.cluster
    moves: list[Move] = []
    while len(moves) < moves_max and (count := len(allocator.breaches(drive))):
        mending: list[tuple[int, int, int]] = []
        for row in cluster.tenants_on(drive).copy():
            capacity = cluster.tenant(int(row)).capacity_bytes
            allocator.take(int(row))
            left = len(allocator.breaches(drive))
            allocator.put(int(row), drive)
            if left < count:
                mending.append((left, capacity, int(row)))
        for left, _, row in sorted(mending, key=lambda one: one[:2]):
            move = _move(allocator, row, drive, f"{count - left} of {count} broken promises would hold")
            if move is not None:
                moves.append(move)
                break
        else:
            break
    return moves


def _empty(allocator: Allocator, drive: int, moves_max: int) -> list[Move]:
    """Move all tenants off a drive onto others that have tenants, or none of them."""
    cluster = allocator.cluster
    rows = [int(row) for row in cluster.tenants_on(drive)]
    if not rows or len(rows) > moves_max:
        return []
    moves: list[Move] = []
    homes: list[tuple[int, int]] = []
    for row in sorted(rows, key=lambda one: -cluster.tenant(one).capacity_bytes):
        move = _move(allocator, row, drive, f"empties {cluster.specs[drive].drive.name}", opened=False)
        if move is None:
            for placed, home in reversed(homes):
                allocator.take(placed)
                allocator.put(placed, home)
            return []
        homes.append((row, drive))
        moves.append(move)
    return moves


def _move(allocator: Allocator, row: int, drive: int, reason: str, opened: bool = True) -> Move | None:
    """Move a tenant to the drive that placement chooses. With ``opened`` false, that drive must have tenants."""
    cluster = allocator.cluster
    allocator.take(row)
    decision = allocator.place_row(row, but=drive)
    target = int(cluster.drive_of[row])
    if decision.drive is None or (not opened and cluster.count[target] == 1):
        if decision.drive is not None:
            allocator.take(row)
        allocator.put(row, drive)
        return None
    tenant = cluster.tenant(row)
    source = cluster.specs[drive].drive.name
    return Move(tenant.id, source, decision.drive, tenant.capacity_bytes, reason)
