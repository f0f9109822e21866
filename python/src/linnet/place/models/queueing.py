# SPDX-License-Identifier: MIT OR Apache-2.0
"""A plain queueing formula: latency is a constant plus a multiple of the time that theory says an I/O waits.

With offered rates, the wait is that of M/M/1 at the data sheet's rate of random writes, and at most that of the closed
loop: all I/Os that may be outstanding, over that rate. Without rates it is the closed loop's, over the bandwidth that
the training runs reached. With a ceiling of load it is M/M/1's at the ceiling. Constant and multiple are fitted for
each target.
"""

from __future__ import annotations

import math

import numpy as np

from linnet.place.observations import Floats, Observations

STEPS = 60
"""Multiples that are tried, between 0.001 and 1000; the constant then follows from the median."""
FULL = 0.999
CEILING = 125.0
"""Percent of the cost model at which a drive counts as full: the largest ceiling that the benchmark sets."""


class Queueing:
    """See the module."""

    def __init__(self) -> None:
        self._bandwidth = 1.0
        self._terms: list[tuple[float, float]] = []

    def fit(self, train: Observations) -> None:
        """Learn constant and multiple of each target from all rows that have it."""
        if train.source == "icpe":
            self._bandwidth = float(np.max(train.achieved["others_kib"]) or 1.0)
        wait = self._wait(train)
        self._terms = [_line(wait, train.outcomes[:, target]) for target in range(len(train.targets))]

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`."""
        wait = self._wait(rows)
        mean = np.stack([np.log(constant + multiple * wait) for constant, multiple in self._terms], 1)
        return mean, np.ones_like(mean)

    def _wait(self, rows: Observations) -> Floats:
        """Microseconds; for iocost in units of a service time."""
        known = rows.inputs
        if rows.source == "ssdiq":
            usual = float(np.nanmedian(known["rnd_write_iops"])) if np.isfinite(known["rnd_write_iops"]).any() else 1e5
            capacity = np.nan_to_num(known["rnd_write_iops"], nan=usual)
            load = np.minimum(known["all_write_pages"] / capacity, FULL)
            return np.asarray(np.minimum(load / (1 - load), known["depth"]) / capacity * 1e6, float)
        if rows.source == "icpe":
            return np.asarray(known["depth"] * np.nan_to_num(known["kib"]) / self._bandwidth * 1e6, float)
        load = np.minimum(known["load"] / CEILING, FULL)
        return np.asarray(load / (1 - load), float)


def _line(wait: Floats, outcomes: Floats) -> tuple[float, float]:
    """Constant and multiple with the least squared error of logarithms; NaN if no outcome is known."""
    told = np.isfinite(outcomes)
    if not told.any():
        return math.nan, math.nan
    wait, outcomes = wait[told], outcomes[told]
    best = (np.inf, 1.0, 0.0)
    for base in np.exp(np.quantile(outcomes, [0.02, 0.05, 0.1, 0.2, 0.35, 0.5])):
        for multiple in np.concatenate([[0.0], np.logspace(-3, 3, STEPS)]):
            error = float(((np.log(base + multiple * wait) - outcomes) ** 2).sum())
            best = min(best, (error, float(base), float(multiple)))
    return best[1], best[2]
