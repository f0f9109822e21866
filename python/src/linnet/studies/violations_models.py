# SPDX-License-Identifier: MIT OR Apache-2.0
"""What placers of ``linnet study violations`` learn from runs: the worst that was seen, and forests with a margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.batch import ByAggregate
from linnet.place.moments import Floats
from linnet.place.rehearse import Mix
from linnet.place.sheet import SheetModel
from linnet.place.words import Drive
from linnet.studies.placers import METRICS

TOLERANCE = 0.001
"""An I/O that completes just after the end of a run is not interference."""
MARGINS = np.arange(0.0, 0.5, 0.005)
FOLDS = 4
TREES = 100


@dataclass(frozen=True)
class Runs:
    """Tenants of runs: features of each and of its neighbours, shares of its bandwidth, and its run."""

    own: Floats
    others: Floats
    shares: Floats
    run: NDArray[np.intp]

    @classmethod
    def of(cls, features: Floats, mixes: Sequence[Mix], shares: Sequence[Floats]) -> Runs:
        """Runs of these mixes of workloads with features [n, 27], and the shares [n, 2] of each."""
        rows = [sorted(mix) for mix in mixes]
        every = moments.to_moments(features)
        others = [every[row].sum(axis=0) - every[row] for row in rows]
        return cls(
            features[np.concatenate(rows)],
            moments.to_features(np.vstack(others)),
            np.vstack(shares),
            np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """The runs of several, one after the other."""
        before = np.cumsum([0, *(int(part.run.max()) + 1 for part in parts)])
        return cls(
            np.concatenate([part.own for part in parts]),
            np.concatenate([part.others for part in parts]),
            np.concatenate([part.shares for part in parts]),
            np.concatenate([part.run + first for part, first in zip(parts, before, strict=False)]),
        )

    def take(self, rows: NDArray[np.bool_]) -> Runs:
        """These rows."""
        return Runs(self.own[rows], self.others[rows], self.shares[rows], self.run[rows])


def broken(share: Floats, slo: float) -> NDArray[np.bool_]:
    """Whether any of the shares [n, 2] is below what the SLO promises; NaN is not."""
    return np.asarray((share < 1 - slo / 100 - TOLERANCE).any(axis=1))


class Worst(ByAggregate):
    """Quota: each tenant reserves the worst that any tenant of the runs suffered at the same load or a smaller one."""

    metrics = METRICS

    def __init__(self, runs: Runs) -> None:
        self._sheets = SheetModel()
        self._runs = runs

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """The tenant's bandwidth, less the worst at the drive's load."""
        (drive,) = drives
        known = self._sheets.load(drive, self._runs.own) + self._sheets.load(drive, self._runs.others)
        order = np.argsort(known)
        worst = np.minimum.accumulate(np.nan_to_num(self._runs.shares[order], nan=1.0), axis=0)
        load = self._sheets.load(drive, own) + self._sheets.load(drive, others)
        at = np.searchsorted(known[order], load, side="right") - 1
        share = np.where(at[:, None] >= 0, worst[np.maximum(at, 0)], 1.0)
        share[~others.any(axis=1)] = 1.0
        return _bandwidths(own, share)


class Guarded(ByAggregate):
    """Ours: gray-box features with what the drive's data sheet makes of them, and a margin for each SLO.

    The margin is the least at which, of the tenants that would be accepted, at most a given share is violated; on runs
    that were held out.
    """

    metrics = METRICS

    def __init__(self, drive: Drive, runs: Runs) -> None:
        self._drive = drive
        self._sheets = SheetModel()
        guessed = np.full_like(runs.shares, math.nan)
        for fold in range(FOLDS):
            tried = runs.run % FOLDS == fold
            forests = self._fit(runs.take(~tried))
            guessed[tried] = self._ask(forests, runs.own[tried], runs.others[tried])
        self.held_out = np.where(np.isnan(runs.shares), math.nan, guessed)
        self._shares = runs.shares
        self._forests = self._fit(runs)
        self.margin = 0.0

    def promise(self, slo: float, allowed: float) -> None:
        """Choose the margin for an SLO in percent and a share of tenants that may be violated."""
        bad = broken(self._shares, slo)
        for margin in MARGINS:
            accepted = ~broken(self.held_out - margin, slo)
            # One violation more than was seen: few accepted tenants prove little.
            if (bad[accepted].sum() + 1) <= allowed * (accepted.sum() + 1):
                self.margin = float(margin)
                return
        self.margin = float(MARGINS[-1])

    def learn(self, runs: Runs) -> None:
        """Fit the forests to these runs; the margin and what is known of runs held out stay."""
        self._forests = self._fit(runs)

    def shares(self, own: Floats, others: Floats) -> Floats:
        """Predicted shares [n, 2], without the margin."""
        return self._ask(self._forests, own, others)

    def _fit(self, runs: Runs) -> list[Any]:
        from sklearn.ensemble import RandomForestRegressor

        inputs = self._inputs(runs.own, runs.others)
        forests = []
        for column in range(len(METRICS)):
            known = ~np.isnan(runs.shares[:, column])
            forest = RandomForestRegressor(TREES, random_state=42, min_samples_leaf=2, max_features=0.5)
            forests.append(forest.fit(inputs[known], runs.shares[known, column]))
        return forests

    def _inputs(self, own: Floats, others: Floats) -> Floats:
        asked = np.zeros(len(own), np.intp)
        found = self._sheets.predict_aggregates([self._drive], asked, own, others)[..., 0]
        alone = self._sheets.predict_aggregates([self._drive], asked, own, np.zeros_like(others))[..., 0]
        columns = [self._sheets.metrics.index(name) for name in METRICS]
        loads = [self._sheets.load(self._drive, one) for one in (own, others)]
        lost = np.nan_to_num(found[:, columns] / alone[:, columns], nan=1.0)
        return np.column_stack([own, others, *loads, sum(loads), lost])

    def _ask(self, forests: list[Any], own: Floats, others: Floats) -> Floats:
        inputs = self._inputs(own, others)
        return np.stack([forest.predict(inputs) for forest in forests], axis=1)

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """The tenant's bandwidth times the predicted share, less the margin."""
        share = self._ask(self._forests, own, others) - self.margin
        share[~others.any(axis=1)] = 1.0
        return _bandwidths(own, share)


def _bandwidths(own: Floats, share: Floats) -> Floats:
    offered = own[:, moments.BANDWIDTH]
    full = np.stack([offered[:, :2].sum(axis=1), offered[:, 2:].sum(axis=1)], axis=1)
    return np.asarray(np.where(full > 0, full * share, math.nan)[..., None].repeat(3, axis=2))
