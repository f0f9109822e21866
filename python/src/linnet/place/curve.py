# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a fitted model answers for one kind of drive, as curves over its load.

The answers of :class:`linnet.place.models.open_loop.OpenLoop` for one drive depend on one number, the load over the
capacity. They are computed at steps of 0.2 % of the load, a block of steps when one of it is first asked for, and
interpolated between. So a question costs no Gaussian process once a load nearby was asked about.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from linnet.place.models.model import LEAST_SPREAD
from linnet.place.models.open_loop import (
    SATURATED,
    SHARE_LEAST,
    OpenLoop,
    bracket_jumps,
    capacities,
    coordinates,
    place_of,
    writes_used,
)
from linnet.place.observations import Floats, Observations

STEPS = 4600
"""Steps of the open loop: from SHARE_LEAST to SATURATED, 0.2 % each."""
BLOCK = 64
"""Steps that are computed together: one costs nearly as much."""
CLOSED = STEPS + 1
"""Index of the closed loop, where latency does not depend on the load."""
FIRST = math.log(SHARE_LEAST)
STEP = (math.log(SATURATED) - FIRST) / STEPS


class Curve:
    """See the module. Answers are kept as they are computed; two threads that fill one curve write the same numbers."""

    def __init__(self, model: OpenLoop, drive: Observations) -> None:
        """``drive`` is one row that says the drive, its model and its sheet."""
        capacity = capacities(model.known, drive)
        self._drive = drive
        self._points = coordinates(model.known, capacity)
        self._outcomes = model.known.outcomes
        self._processes = [
            process.given(self._points, model.known.outcomes[:, t], model.noise)
            for t, process in enumerate(model.processes)
        ]
        self.capacity = capacity[str(drive.labels["drive"][0])]
        """Random writes that the drive sustains, pages per second."""
        self._mean: Floats = np.full((CLOSED + 1, len(model.processes)), np.nan)
        self._spread: Floats = self._mean.copy()

    def at(self, reads: Floats, writes: Floats) -> tuple[Floats, Floats]:
        """Mean and spread of the targets, [n, targets], at these loads in pages per second."""
        share = writes_used(reads, writes, self._drive.inputs["rnd_read_iops"]) / self.capacity
        where = (np.log(np.clip(share, SHARE_LEAST, SATURATED)) - FIRST) / STEP
        below = np.minimum(where.astype(np.intp), STEPS - 1)
        above = below + 1
        weight = (where - below)[:, None]
        full = share >= SATURATED
        below[full] = above[full] = CLOSED
        self._fill(np.unique(np.concatenate([below, above])))
        mean = (1 - weight) * self._mean[below] + weight * self._mean[above]
        spread = (1 - weight) * self._spread[below] + weight * self._spread[above]
        return mean, spread

    def _fill(self, wanted: NDArray[np.intp]) -> None:
        lacking = wanted[np.isnan(self._spread[wanted, -1])]
        if not len(lacking):
            return
        blocks = np.unique(lacking // BLOCK)[:, None] * BLOCK + np.arange(BLOCK)
        lacking = blocks[blocks <= CLOSED]
        names = {name: np.full(len(lacking), self._drive.labels[name][0], dtype=object) for name in ("drive", "model")}
        share = np.exp(FIRST + STEP * np.minimum(lacking, STEPS))
        asked = {**place_of(np.where(lacking == CLOSED, 1.0, share), lacking == CLOSED), **names}
        cliff = bracket_jumps(self._points, self._outcomes, asked) / math.sqrt(12)
        for t, process in enumerate(self._processes):
            mean, spread = process.predict(asked)
            self._spread[lacking, t] = np.maximum(np.hypot(spread, cliff[:, t]), LEAST_SPREAD)
            self._mean[lacking, t] = mean
