# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a fitted model answers for one kind of drive, as curves over its load.

The answers of :class:`linnet.place.models.open_loop.OpenLoop` for one drive depend on two numbers: the load over the
capacity, and the part of it that is reads. They are computed at steps of 0.2 % of the load and of 1/32 of the part, a
block of steps when one of it is first asked for, and interpolated between. So a question costs no Gaussian
process once a load nearby was asked about. What is outstanding on a full drive is added after.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from linnet.place.models.capacity import capacities
from linnet.place.models.model import LEAST_SPREAD
from linnet.place.models.open_loop import (
    SATURATED,
    SHARE_LEAST,
    OpenLoop,
    bracket_jumps,
    coordinates,
    learned,
    least_queued,
    place_of,
    queued,
    reads_of,
    with_queue,
)
from linnet.place.observations import Floats, Observations

STEPS = 4600
"""Steps of the open loop: from SHARE_LEAST to SATURATED, 0.2 % each."""
BLOCK = 64
"""Steps that are computed together: one costs nearly as much."""
CLOSED = STEPS + 1
"""Index of the closed loop, where latency does not depend on the load."""
READ_STEPS = 32
"""Steps of the part of reads, from 0 to 1."""
FIRST = math.log(SHARE_LEAST)
STEP = (math.log(SATURATED) - FIRST) / STEPS


class Curve:
    """See the module. Answers are kept as they are computed; two threads that fill one curve write the same numbers."""

    def __init__(self, model: OpenLoop, drive: Observations) -> None:
        """``drive`` is one row that says the drive, its model and its sheet."""
        capacity = capacities(model.known, drive)
        self._drive = drive
        self._points = coordinates(model.known, capacity)
        self._values = learned(model.known, self._points)
        self._processes = [
            process.given(self._points, self._values[:, t], model.noise) for t, process in enumerate(model.processes)
        ]
        self.capacity = capacity[str(drive.labels["drive"][0])]
        """What the drive sustains."""
        self._counted = bool(np.isfinite(model.known.inputs["depth"]).any())
        self._least = least_queued(model.known)
        self._lines: dict[int, tuple[Floats, Floats]] = {}

    def full(self, reads: Floats, writes: Floats) -> NDArray[np.bool_]:
        """Whether the drive is in its closed loop at these loads in pages per second."""
        return np.asarray(self.capacity.share(reads, writes) >= SATURATED)

    def at(self, reads: Floats, writes: Floats, outstanding: Floats) -> tuple[Floats, Floats]:
        """Mean and spread of the targets, [n, targets], at these loads in pages per second.

        ``outstanding`` I/Os are those of all tenants at most; NaN where they are not known.
        """
        share = self.capacity.share(reads, writes)
        full = share >= SATURATED
        where = (np.log(np.clip(share, SHARE_LEAST, SATURATED)) - FIRST) / STEP
        below = np.minimum(where.astype(np.intp), STEPS - 1)
        above = below + 1
        weight = (where - below)[:, None]
        below[full] = above[full] = CLOSED
        part = np.clip(reads_of(reads / self.capacity.reads, share), 0.0, 1.0) * READ_STEPS
        found = np.zeros((2, len(share), len(self._processes)))
        ends = np.zeros_like(found[0])
        for line in np.unique(np.concatenate([np.floor(part), np.ceil(part)])).astype(int):
            near = np.maximum(1 - np.abs(part - line), 0.0)
            mine = np.flatnonzero(near)
            low, high = below[mine], above[mine]
            tables = self._filled(line, np.unique(np.concatenate([low, high, [STEPS]])))
            for of, table in zip(found, tables, strict=True):
                of[mine] += near[mine, None] * ((1 - weight[mine]) * table[low] + weight[mine] * table[high])
            ends[mine] += near[mine, None] * tables[0][STEPS]
        more = queued(full, outstanding if self._counted else np.full(len(share), np.nan))
        ends[more >= self._least] = -math.inf
        return with_queue(found[0], more, self._least, ends), found[1]

    def _filled(self, line: int, wanted: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Mean and spread at all steps of the load, [steps, targets], for one part of reads; filled where wanted."""
        if line not in self._lines:
            none = np.full((CLOSED + 1, len(self._processes)), np.nan)
            self._lines.setdefault(line, (none, none.copy()))
        mean_of, spread_of = self._lines[line]
        lacking = wanted[np.isnan(spread_of[wanted, -1])]
        if not len(lacking):
            return mean_of, spread_of
        blocks = np.unique(lacking // BLOCK)[:, None] * BLOCK + np.arange(BLOCK)
        lacking = blocks[blocks <= CLOSED]
        names = {name: np.full(len(lacking), self._drive.labels[name][0], dtype=object) for name in ("drive", "model")}
        share = np.exp(FIRST + STEP * np.minimum(lacking, STEPS))
        reads = np.full(len(lacking), line / READ_STEPS)
        asked = {**place_of(np.where(lacking == CLOSED, 1.0, share), lacking == CLOSED, reads), **names}
        cliff = bracket_jumps(self._points, self._values, asked) / math.sqrt(12)
        for t, process in enumerate(self._processes):
            mean, spread = process.predict(asked)
            spread_of[lacking, t] = np.maximum(np.hypot(spread, cliff[:, t]), LEAST_SPREAD)
            mean_of[lacking, t] = mean
        return mean_of, spread_of
