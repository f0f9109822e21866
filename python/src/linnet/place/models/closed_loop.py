# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency of a tenant beside neighbours that keep a fixed number of I/Os outstanding and have no rate.

Within the numbers of neighbours that were seen, each target is a Gaussian process over the number, with curves that all
runs share, of the scheduler, of the neighbours' kind (size, operation), of the mix, and of the mix under a scheduler.

A setting of which some runs were made first, as probes, is answered from these alone: other mixes saturate at other
numbers, and their curves bend where this one does not. Its latency is a random walk over the doublings of all tenants,
1 + n, from the tenant alone through its own runs: a straight line between two of them, with the spread of a Brownian
bridge.

Beyond them, latency grows as n^e in the number of neighbours n. The interactive response-time law bounds e (Denning and
Buzen, "The operational analysis of queueing network models", 1978): the mean is outstanding I/Os over throughput, which
does not fall as tenants are added, so e is at most 1, and it is not negative. Two things say where between: the growth
that the quantile itself showed over the last two doublings, and the law with the throughput that was seen, n^(1 - g)
if that grew as n^g. A quantile keeps a share of each. Shares are fitted by extrapolating within the numbers that were
seen. So is the error, whose steps from doubling to doubling are taken as independent.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from linnet.place.gaussian import Hyper, Kernel, Process, Term, fit
from linnet.place.models.model import LEAST_SPREAD, by_cell, groups_of
from linnet.place.observations import Floats, Observations

SHARES = np.arange(0.0, 1.01, 0.125)
"""Shares of each growth that are tried for each target."""
PAIRS = np.array([(own, law) for law in SHARES[::-1] for own in SHARES[::-1]])
"""Shares of the quantile's own growth and of the law, the whole law first."""
BACK = 4.0
"""A quantile's own growth is from a quarter of the largest known number of neighbours to that number."""
FEW = 0.3
"""Spread that is assumed for the first doubling where nothing could be extrapolated, logarithmic."""

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
        """``start`` is a model of more of the data, whose growth beyond the known numbers is kept."""
        self.processes: list[Process] = []
        self.known: Observations
        self.share: Floats
        """Shares of its own growth and of the law's that each target keeps, (targets, 2)."""
        self.drift: Floats
        """Error of the first doubling beyond what was seen, logarithmic."""
        self.probes: Observations | None = None
        """Runs of settings that have answers of their own; they are in ``known`` too."""
        self.walk: Walk
        self._start = start

    def fit(self, train: Observations) -> None:
        """Learn from runs."""
        self.known, _ = by_cell(train)
        points = coordinates(self.known)
        self.processes = [fit(KERNEL, points, self.known.outcomes[:, t]) for t in range(len(train.targets))]
        # Two or three numbers of neighbours say nothing of extrapolation.
        start = self._start
        self.share, self.drift = (start.share, start.drift) if start else fit_growth(self.processes, self.known)
        self.walk = fit_walk(self.known)

    def calibrated(self, probes: Observations) -> ClosedLoop:
        """The same model, when these runs are known too."""
        other = copy.copy(self)
        other.known = self.known.joined(probes)
        beside = probes.take(probes.inputs["neighbours"] > 0)
        other.probes = self.probes.joined(beside) if self.probes is not None else beside
        return other

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`."""
        most = float(self.known.inputs["neighbours"].max())
        further = np.log(np.maximum(rows.inputs["neighbours"] / max(most, 1.0), 1.0))
        mean, spread = self._seen(at_most(rows, most))
        if further.any():
            mean = mean + exponents(growth(self.processes, self.known, rows), self.share) * further[:, None]
            spread = np.hypot(spread, self.drift * np.sqrt(further / math.log(2))[:, None])
        return mean, np.maximum(spread, LEAST_SPREAD)

    def _seen(self, rows: Observations) -> tuple[Floats, Floats]:
        """Means and spreads of rows among the known numbers of neighbours, both (n, targets)."""
        mean, spread = within(self.processes, self.known, rows)
        if self.probes is None:
            return mean, spread
        for setting in groups_of(rows.labels["setting"]):
            own = self.probes.take(self.probes.labels["setting"] == rows.labels["setting"][setting[0]])
            if len(own):
                some = rows.take(setting)
                mean[setting], spread[setting] = self.walk.through(own, self._alone(some), some)
        return mean, spread

    def _alone(self, rows: Observations) -> Floats:
        """Outcomes of the tenant without neighbours under the scheduler of rows, (1, targets)."""
        runs = (self.known.inputs["neighbours"] == 0) & (self.known.labels["scheduler"] == rows.labels["scheduler"][0])
        if runs.any():
            return np.asarray(np.median(self.known.outcomes[runs], axis=0, keepdims=True), float)
        return within(self.processes, self.known, at_most(rows.take(np.array([0])), 0.0))[0]

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


@dataclass(frozen=True)
class Walk:
    """How latencies of one setting change with the number of neighbours, as a random walk; each (targets,)."""

    step: Floats
    """Standard deviation of the change over one doubling, logarithmic."""
    noise: Floats
    """Standard deviation of one run about the walk, logarithmic."""

    def through(self, runs: Observations, alone: Floats, rows: Observations) -> tuple[Floats, Floats]:
        """Means and spreads of rows of a setting, both (n, targets), from runs of it and what it is alone.

        Beyond its largest run the walk stays where it is, and its spread grows.
        """
        at, member = np.unique(np.log2(1 + runs.inputs["neighbours"]), return_inverse=True)
        values = np.array([runs.outcomes[member == i].mean(axis=0) for i in range(len(at))])
        at, values = np.concatenate([[0.0], at]), np.concatenate([alone, values])
        asked = np.log2(1 + rows.inputs["neighbours"])
        above = np.minimum(np.searchsorted(at, asked), len(at) - 1)
        below = np.maximum(above - 1, 0)
        part = np.clip((asked - at[below]) / np.maximum(at[above] - at[below], 1e-12), 0.0, 1.0)
        mean = (1 - part)[:, None] * values[below] + part[:, None] * values[above]
        bridge = part * (1 - part) * (at[above] - at[below]) + np.maximum(asked - at[-1], 0.0)
        # The noise of the row itself, and of the runs at both ends.
        heard = 1 + part**2 + (1 - part) ** 2
        return mean, np.sqrt(bridge[:, None] * self.step**2 + heard[:, None] * self.noise**2)


def fit_walk(known: Observations) -> Walk:
    """From changes between the runs of each setting; noise from runs of the tenant alone under one scheduler."""
    nothing = np.full((1, len(known.targets)), LEAST_SPREAD**2)
    steps, apart = [nothing], [nothing]
    doublings = np.log2(1 + known.inputs["neighbours"])
    for setting in groups_of(known.labels["setting"]):
        rows = setting[np.argsort(doublings[setting], kind="stable")]
        wide = np.diff(doublings[rows])
        steps.append(np.diff(known.outcomes[rows], axis=0)[wide > 0] ** 2 / wide[wide > 0, None])
    alone = known.take(known.inputs["neighbours"] == 0)
    for rows in groups_of(alone.labels["scheduler"]):
        if len(rows) > 1:
            apart.append(alone.outcomes[rows].var(axis=0, ddof=1, keepdims=True))
    step, noise = (np.sqrt(np.concatenate(some).mean(axis=0)) for some in (steps, apart))
    return Walk(step, noise)


def within(processes: Sequence[Process], known: Observations, rows: Observations) -> tuple[Floats, Floats]:
    """Means and spreads of rows among the known numbers of neighbours, both (n, targets)."""
    points, asked = coordinates(known), coordinates(rows)
    nothing = np.zeros(len(known))
    answers = [
        process.given(points, known.outcomes[:, t], nothing).predict(asked) for t, process in enumerate(processes)
    ]
    return np.stack([mean for mean, _ in answers], 1), np.stack([spread for _, spread in answers], 1)


def at_most(rows: Observations, most: float) -> Observations:
    """The same rows with no more neighbours than this."""
    return replace(rows, inputs={**rows.inputs, "neighbours": np.minimum(rows.inputs["neighbours"], most)})


def growth(processes: Sequence[Process], known: Observations, rows: Observations) -> Floats:
    """Exponents of each row and target near the largest known number: its own, and the law's; (n, targets, 2)."""
    most = float(known.inputs["neighbours"].max())
    before = max(most / BACK, 1.0)
    found = np.zeros((len(rows), len(processes), 2))
    if most > before:
        late, _ = within(processes, known, at_most(rows, most))
        early, _ = within(processes, known, at_most(rows, before))
        found[..., 0] = np.clip((late - early) / math.log(most / before), 0.0, 1.0)
    reached = throughput_growth(known)
    usual = float(np.mean(list(reached.values()))) if reached else 0.0
    found[..., 1] = np.array([1 - reached.get(str(name), usual) for name in rows.labels["setting"]])[:, None]
    return found


def exponents(grown: Floats, share: Floats) -> Floats:
    """Exponent of each row and target, (n, targets), from (n, targets, 2) and shares (targets, 2)."""
    return np.asarray(np.minimum((grown * share).sum(-1), 1.0), float)


def throughput_growth(known: Observations) -> dict[str, float]:
    """Exponent g of each setting: how the neighbours' throughput grew between its two largest known numbers, 0..1."""
    found = {}
    for rows in groups_of(known.labels["setting"]):
        some = rows[known.inputs["neighbours"][rows] > 0]
        last = some[np.argsort(known.inputs["neighbours"][some])][-2:]
        if len(last) == 2:
            (few, many), (slow, fast) = known.inputs["neighbours"][last], known.achieved["others_iops"][last]
            if many > few and slow > 0 and fast > 0:
                g = math.log(fast / slow) / math.log(many / few)
                found[str(known.labels["setting"][rows[0]])] = min(max(g, 0.0), 1.0)
    return found


def fit_growth(processes: Sequence[Process], known: Observations) -> tuple[Floats, Floats]:
    """Shares, and error of the first doubling, of each target: extrapolated from fewer neighbours to more.

    Every known number of neighbours but the smallest two is predicted from those below it. The shares are those with
    the least sum of median and mean error: the usual case counts, and so do rare jumps. Where no known number passes
    saturation, shares cannot be told apart, and the whole law holds.
    """
    counts = sorted({float(n) for n in known.inputs["neighbours"] if n > 0})
    grown, change, further = [], [], []
    for most in counts[1:-1]:
        below = known.take(known.inputs["neighbours"] <= most)
        beyond = known.take(known.inputs["neighbours"] > most)
        beyond = beyond.take(np.isin(beyond.labels["setting"], list(set(below.labels["setting"]))))
        grown.append(growth(processes, below, beyond))
        change.append(beyond.outcomes - within(processes, below, at_most(beyond, most))[0])
        further.append(np.log(beyond.inputs["neighbours"] / most)[:, None])
    targets = len(known.targets)
    if not sum(len(one) for one in change):
        return np.tile(PAIRS[0], (targets, 1)), np.full(targets, FEW)
    rows, changed, steps = np.concatenate(grown), np.concatenate(change), np.concatenate(further)
    left = np.array([changed - exponents(rows, pair) * steps for pair in PAIRS])
    cost = np.median(np.abs(left), axis=1) + np.abs(left).mean(axis=1)
    # Differences below rounding do not choose.
    best = (cost <= cost.min(0) + 1e-9).argmax(0)
    errors = left[best, :, np.arange(targets)].T
    return PAIRS[best], np.sqrt((errors**2 / (steps / math.log(2))).mean(0))
