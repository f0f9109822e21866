# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency of a tenant beside neighbours that keep a fixed number of I/Os outstanding and have no rate.

Within the numbers of neighbours that were seen, each target is a Gaussian process over the number, with curves that all
runs share, of the scheduler, of the neighbours' kind (size, operation), of the mix, and of the mix under a scheduler.

Beyond them, the interactive response-time law says how latency grows (Denning and Buzen, "The operational analysis of
queueing network models", 1978): outstanding I/Os over throughput. If throughput grows as n^g in the number of
neighbours n, the mean grows as n^(1 - g): not at all while the drives keep up, in proportion once they do not. A
quantile follows this law by a share of its own, which is fitted by extrapolating within the numbers that were seen.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from linnet.place.gaussian import Hyper, Kernel, Process, Term, fit
from linnet.place.models.model import LEAST_SPREAD, by_cell, groups_of
from linnet.place.observations import Floats, Observations

SHARES = np.arange(0.0, 1.01, 0.125)
"""Shares of the law that are tried for each target. Nothing makes a quantile grow faster than the mean for long."""
FEW = 0.3
"""Spread that is assumed for each doubling where nothing could be extrapolated, logarithmic."""

_N = (("doublings", "length"),)
KERNEL = Kernel(
    (
        Term(0.7, "constant"),
        Term("shape", "matern", _N),
        Term("scheduler", "matern", _N, same=("scheduler",), gate="beside"),
        Term("kind", "matern", (*_N, ("kib", "kind_length"), ("writes", "kind_length")), gate="beside"),
        Term("mix", "matern", _N, same=("mix",), gate="beside"),
        Term("setting", "matern", _N, same=("setting",), gate="beside"),
        Term("slope", "linear", _N),
        Term("kind_slope", "linear", _N, same=("mix",), gate="beside"),
        Term("setting_slope", "linear", _N, same=("setting",), gate="beside"),
    ),
    (
        Hyper("shape", 0.5, 1.0),
        Hyper("scheduler", 0.3, 1.0),
        Hyper("kind", 0.5, 1.0),
        Hyper("mix", 0.5, 1.0),
        Hyper("setting", 0.3, 1.0),
        Hyper("slope", 0.12, 1.0),
        Hyper("kind_slope", 0.12, 1.0),
        Hyper("setting_slope", 0.12, 1.0),
        Hyper("length", 2.0, 1.0),
        Hyper("kind_length", 1.0, 1.0),
        Hyper("noise", 0.1, 0.7),
    ),
)


class ClosedLoop:
    """See the module."""

    def __init__(self, start: ClosedLoop | None = None) -> None:
        self.processes: list[Process] = start.processes if start else []
        self.known: Observations
        self.share: Floats
        """Share of the law that each target follows."""
        self.drift: Floats
        """Error of the law for each doubling beyond what was seen, logarithmic."""
        self._warm = start is not None

    def fit(self, train: Observations) -> None:
        """Learn from runs."""
        self.known, _ = by_cell(train)
        points = coordinates(self.known)
        starts: list[Process | None] = [*self.processes] if self._warm else [None] * len(train.targets)
        self.processes = [fit(KERNEL, points, self.known.outcomes[:, t], starts[t]) for t in range(len(train.targets))]
        self.share, self.drift = fit_law(self.known)

    def calibrated(self, probes: Observations) -> ClosedLoop:
        """The same model, when these runs are known too."""
        other = ClosedLoop(self)
        other.known = self.known.joined(probes)
        other.share, other.drift = self.share, self.drift
        return other

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`."""
        most = float(self.known.inputs["neighbours"].max())
        beyond = rows.inputs["neighbours"] > most
        inner = rows.take(np.arange(len(rows)))
        inner.inputs["neighbours"] = np.minimum(rows.inputs["neighbours"], most)
        known, asked = coordinates(self.known), coordinates(inner)
        nothing = np.zeros(len(self.known))
        answers = [
            process.given(known, self.known.outcomes[:, t], nothing).predict(asked)
            for t, process in enumerate(self.processes)
        ]
        mean = np.stack([m for m, _ in answers], 1)
        spread = np.stack([s for _, s in answers], 1)
        if beyond.any():
            growth = throughput_growth(self.known)
            usual = float(np.mean(list(growth.values()))) if growth else 0.0
            queue = np.array([1 - growth.get(str(s), usual) for s in rows.labels["setting"]])
            further = np.where(beyond, np.log(rows.inputs["neighbours"].clip(1) / max(most, 1.0)), 0.0)
            mean = mean + self.share * (queue * further)[:, None]
            spread = np.hypot(spread, self.drift * (further / math.log(2))[:, None])
        return mean, np.maximum(spread, LEAST_SPREAD)

    def best_probes(self, candidates: Observations, count: int) -> list[int]:
        """Which runs of one setting to make: those that leave the least variance on average, before any is seen."""
        indices = range(len(candidates))
        if count >= len(candidates):
            return [*indices]
        chosen: list[int] = []
        while len(chosen) < count:
            step = min(2, count - len(chosen))
            rest = [i for i in indices if i not in chosen]
            chosen += min(itertools.combinations(rest, step), key=lambda more: self._left(candidates, [*chosen, *more]))
        return chosen

    def _left(self, candidates: Observations, probed: list[int]) -> float:
        rows = candidates.take(np.array(probed))
        joined = self.known.joined(rows)
        known, asked = coordinates(joined), coordinates(candidates)
        nothing = np.zeros(len(joined))
        values = np.zeros(len(joined))
        return sum(
            float((process.given(known, values, nothing).predict(asked)[1] ** 2).mean()) for process in self.processes
        )


def coordinates(rows: Observations) -> dict[str, NDArray[np.generic]]:
    """Neighbours in doublings, what they do, and whether there are any."""
    count = rows.inputs["neighbours"]
    return {
        "doublings": np.where(count > 0, np.log2(np.maximum(count, 1)) + 1, 0.0),
        "kib": np.log2(np.nan_to_num(rows.inputs["kib"], nan=4.0)) / 4,
        "writes": rows.inputs["writes"],
        "beside": (count > 0).astype(float),
        "scheduler": rows.labels["scheduler"],
        "mix": rows.labels["mix"],
        "setting": rows.labels["setting"],
    }


def throughput_growth(known: Observations) -> dict[str, float]:
    """Exponent g of each setting: how the neighbours' throughput grew between its two largest known numbers, 0..1."""
    found = {}
    for rows in groups_of(known.labels["setting"]):
        some = rows[known.inputs["neighbours"][rows] > 0]
        last = some[np.argsort(known.inputs["neighbours"][some])][-2:]
        if len(last) == 2:
            (few, many), (slow, fast) = known.inputs["neighbours"][last], known.achieved["others_iops"][last]
            if many > few and slow > 0 and fast > 0:
                found[str(known.labels["setting"][rows[0]])] = float(
                    np.clip(math.log(fast / slow) / math.log(many / few), 0, 1)
                )
    return found


def fit_law(known: Observations) -> tuple[Floats, Floats]:
    """Share of the law, and error for each doubling, of each target: extrapolated from fewer neighbours to more.

    Every known number of neighbours but the smallest three is predicted from those below it.
    """
    counts = sorted({float(n) for n in known.inputs["neighbours"] if n > 0})
    queue, further, rest = [], [], []
    for most in counts[1:-1]:
        below = known.take(known.inputs["neighbours"] <= most)
        growth = throughput_growth(below)
        for rows in groups_of(known.labels["setting"]):
            setting = str(known.labels["setting"][rows[0]])
            anchor = rows[known.inputs["neighbours"][rows] == most]
            if setting not in growth or not len(anchor):
                continue
            for row in rows[known.inputs["neighbours"][rows] > most]:
                queue.append(1 - growth[setting])
                further.append(math.log(known.inputs["neighbours"][row] / most))
                rest.append(known.outcomes[row] - known.outcomes[anchor[0]])
    targets = len(known.targets)
    if not rest:
        return np.zeros(targets), np.full(targets, FEW)
    lever, change = np.array(queue) * np.array(further), np.array(rest)
    doublings = np.array(further) / math.log(2)
    errors = np.array([np.abs(change - share * lever[:, None]).mean(0) for share in SHARES])
    # Where no known number of neighbours passes saturation, shares cannot be told apart, and the whole law holds.
    share = SHARES[::-1][errors[::-1].argmin(0)]
    left = (change - share * lever[:, None]) / doublings[:, None]
    return share, np.sqrt((left**2).mean(0))
