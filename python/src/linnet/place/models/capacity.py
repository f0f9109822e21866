# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a drive sustains of reads and of writes, by its known runs or its data sheet.

Reads and writes share a drive: each takes its rate over what the drive sustains of it alone, and the drive is full
where the two shares add up to 1. So a run that achieved less than its offered load measures the operation that takes
more of the drive, once the share of the other is known. It has to fall short by more than arrivals at random can in a
minute, and no other run may have achieved twice as much. Some drives sustain less under overload than they serve just
below it; there the capacity is what was served. An operation that no run measures has the data sheet's figure, times
the share of their sheets' figures that measured drives achieve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet.place.models.model import groups_of
from linnet.place.observations import Floats, Observations
from linnet.place.words import OPS

HELD_BACK = 0.97
"""Share of the offered I/Os below which a known run was held back, hence measured the capacity."""
MINUTE_S = 60.0
"""Length of a measurement, in which offered I/Os are counted."""
CHANCE = 4.0
"""Standard deviations by which the number of arrivals in a minute may fall short by chance: Poisson, its root."""
OF_MOST = 0.5
"""Share of the most that a drive achieved below which a run that was held back says nothing of the capacity."""
HEADROOM = 1.02
"""Least capacity of a drive, over what it was seen to achieve without being held back. Where overload sustains no less
than that over this, the two differ by chance.
"""
OTHERS_MOST = 0.9
"""Largest share of the drive that the other operation is taken to have while one is measured."""
ROUNDS = 4
"""In which the capacities for reads and for writes follow from each other; the error halves at least twice in each."""


@dataclass(frozen=True)
class Capacity:
    """Pages of 4 KiB per second that a drive, or each of several, sustains of each operation alone.

    Infinite where nothing tells.
    """

    reads: float | Floats
    writes: float | Floats

    def share(self, reads: Floats, writes: Floats) -> Floats:
        """Share of the drive that pages per second take; more than 1 is not sustained."""
        return np.asarray(reads / self.reads + writes / self.writes, float)


def held_back(offered: Floats, achieved: Floats) -> NDArray[np.bool_]:
    """Whether I/Os per second that were achieved in a minute are fewer than offered, and not by chance."""
    chance = CHANCE * np.sqrt(offered / MINUTE_S)
    return np.asarray(achieved < offered - np.maximum((1 - HELD_BACK) * offered, chance))


def capacities(known: Observations, asked: Observations | None = None) -> dict[str, Capacity]:
    """What each drive of the known and the asked rows can sustain.

    Raises ValueError for a drive that was offered I/Os of one kind and achieved none.
    """
    sheet = {**_sheets(known), **(_sheets(asked) if asked else {})}
    measured: dict[str, Mapping[str, float]] = {}
    seen: dict[str, Mapping[str, float]] = {}
    for rows in groups_of(known.labels["drive"]):
        drive = str(known.labels["drive"][rows[0]])
        measured[drive], seen[drive] = _measured(drive, known.take(rows), sheet[drive].figures)
    found = {op: _all(op, sheet, measured, seen) for op in OPS}
    return {drive: Capacity(found["read"][drive], found["write"][drive]) for drive in sheet}


def rooms(rows: Observations, capacity: Mapping[str, Capacity]) -> Capacity:
    """What the drive of each row sustains."""
    room = [capacity[str(drive)] for drive in rows.labels["drive"]]
    return Capacity(np.array([one.reads for one in room]), np.array([one.writes for one in room]))


@dataclass(frozen=True)
class _Sheet:
    model: str
    figures: Mapping[str, float]
    """Random I/Os per second by operation; NaN where the sheet lacks it."""


def _sheets(rows: Observations) -> dict[str, _Sheet]:
    figures = (rows.labels["drive"], rows.labels["model"], *(rows.inputs[f"rnd_{op}_iops"] for op in OPS))
    return {
        str(drive): _Sheet(str(model), {"read": float(reads), "write": float(writes)})
        for drive, model, reads, writes in zip(*figures, strict=True)
    }


def _measured(drive: str, rows: Observations, sheet: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """What the rows of one drive measure of each operation, and the most that it served without being held back."""
    offered = {op: rows.inputs[f"all_{op}_pages"] for op in OPS}
    achieved = {op: rows.achieved[f"{op}_pages"] for op in OPS}
    back = {op: held_back(offered[op], achieved[op]) for op in OPS}
    reads = _reads_take_more(offered, sheet)
    # Where one operation alone is held back, it has what the other leaves; where both are, the larger one is measured.
    measures = {"read": back["read"] & ~(back["write"] & ~reads), "write": back["write"] & ~(back["read"] & reads)}
    mostly = {"read": reads, "write": ~reads}
    room = {op: figure if figure > 0 else math.inf for op, figure in sheet.items()}
    found: dict[str, float] = {}
    most: dict[str, float] = {}
    for _ in range(ROUNDS):
        for op, other in (("write", "read"), ("read", "write")):
            used = achieved[op] / (1 - np.minimum(achieved[other] / room[other], OTHERS_MOST))
            full = used[measures[op] & (used >= OF_MOST * used.max())]
            if len(full):
                room[op] = found[op] = float(np.median(full))
                if not found[op]:
                    raise ValueError(
                        f"drive {drive}: {op}s were offered, and none was achieved at any load, so its capacity is not "
                        f"known; correct {op}_iops, or leave the drive out"
                    )
            most[op] = float(used[mostly[op] & ~back[op]].max(initial=0.0))
            if op in found and most[op] > HEADROOM * found[op]:
                # Overload sustains less than was served just below it, where the drive was not in its closed loop.
                room[op] = found[op] = HEADROOM * most[op]
    return found, most


def _reads_take_more(offered: Mapping[str, Floats], sheet: Mapping[str, float]) -> NDArray[np.bool_]:
    """In which rows reads take more of the drive than writes; without data sheets, in which there are more of them."""
    reads, writes = (offered[op] / sheet[op] for op in OPS)
    if math.isnan(sheet["write"]):
        return offered["read"] > offered["write"] if math.isnan(sheet["read"]) else reads > 0.5
    return offered["read"] > offered["write"] if math.isnan(sheet["read"]) else reads > writes


def _all(
    op: str,
    sheet: Mapping[str, _Sheet],
    measured: Mapping[str, Mapping[str, float]],
    seen: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Capacity for one operation of every drive."""
    ratios = {drive: found[op] / sheet[drive].figures[op] for drive, found in measured.items() if op in found}
    ratios = {drive: value for drive, value in ratios.items() if math.isfinite(value)}
    found: dict[str, float] = {}
    for drive, one in sheet.items():
        if op in measured.get(drive, {}):
            found[drive] = measured[drive][op]
            continue
        same = [value for other, value in ratios.items() if sheet[other].model == one.model]
        usual = math.exp(float(np.mean(np.log(same or list(ratios.values()) or [1.0]))))
        least = HEADROOM * seen.get(drive, {}).get(op, 0.0)
        guess = one.figures[op] * usual
        found[drive] = max(guess, least) if math.isfinite(guess) else least or math.inf
    return found
