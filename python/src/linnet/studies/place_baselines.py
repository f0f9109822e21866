# SPDX-License-Identifier: MIT OR Apache-2.0
"""What placement is compared with: quota, and the interference model of weighted means.

Both have the interface of :class:`linnet.place.batch.AggregateModel` and so use our allocator: they differ in what they
know of interference, not in how they search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.batch import AggregateModel, ByAggregate
from linnet.place.moments import COLUMN, Floats
from linnet.place.words import GROUPS, Drive

TREES = 100
SEED = 42
"""Of the paper's forests."""


class Quota(ByAggregate):
    """Each tenant reserves its worst case: what the worst neighbours of the same load would do to it.

    The degradation of a tenant is looked up by the load of the drive alone, as the largest that any workload of the
    catalogue suffers from any other workload of it, scaled to that load. That is the overprovisioning that an operator
    without a model of interference must reserve.
    """

    def __init__(
        self, truth: AggregateModel, drive: Drive, catalogue: Floats, metrics: Sequence[str], load: Any
    ) -> None:
        """``truth`` is what neighbours really do; ``catalogue`` [n, 27] the workloads; ``load`` their load, as [n]."""
        self.metrics = tuple(metrics)
        self._truth, self._load = truth, load
        self._grid = np.linspace(0.0, 1.5, 31)
        self._columns = [truth.metrics.index(name) for name in metrics]
        self._worst = np.zeros((len(self._grid), len(metrics)))
        own_load = load(drive, catalogue)
        some = np.linspace(0, len(catalogue) - 1, min(len(catalogue), 40)).astype(int)
        own, others = np.repeat(catalogue[some], len(some), 0), np.tile(catalogue[some], (len(some), 1))
        loads = np.repeat(own_load[some], len(some)), np.tile(own_load[some], len(some))
        alone = self._ask(drive, own, np.zeros_like(own))
        for index, total in enumerate(self._grid):
            scale = np.maximum(0.0, total - loads[0]) / loads[1]
            scaled = moments.to_features(moments.to_moments(others) * scale[:, None])
            self._worst[index] = np.nanmax(1.0 - self._ask(drive, own, scaled) / alone, axis=0)
        self._worst = np.maximum.accumulate(np.maximum(self._worst, 0.0), axis=0)

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """The tenant's bandwidth alone, less the worst that the drive's load can do."""
        out = np.full((len(own), len(self.metrics), 3), np.nan)
        for kind in np.unique(which):
            mine = which == kind
            total = self._load(drives[kind], own[mine]) + self._load(drives[kind], others[mine])
            alone = self._ask(drives[kind], own[mine], np.zeros_like(own[mine]))
            none = ~others[mine].any(axis=1)
            for column in range(len(self.metrics)):
                worst = np.where(none, 0.0, np.interp(total, self._grid, self._worst[:, column]))
                out[mine, column] = (alone[:, column] * (1.0 - worst))[:, None]
        return out

    def _ask(self, drive: Drive, own: Floats, others: Floats) -> Floats:
        found = self._truth.predict_aggregates([drive], np.zeros(len(own), np.intp), own, others)
        return np.asarray(found[:, self._columns, 0])


class Forest(ByAggregate):
    """A forest of the paper for each metric, fitted on runs of one drive type; predicts a share of the bandwidth alone.

    With ``weighted_mean`` it sees of tenant and neighbours what Park et al. have: size, depth, random ratio, rate and
    bandwidth, over reads and writes together; neither burstiness nor alignment. Otherwise all 27 features of both.
    """

    def __init__(self, metrics: Sequence[str], weighted_mean: bool = False) -> None:
        self.metrics = tuple(metrics)
        self._see = weighted_means if weighted_mean else np.asarray
        self._forests: list[Any] = []

    def fit(self, own: Floats, others: Floats, shares: Floats) -> None:
        """Learn from n tenants: features [n, 27] of each and of its neighbours, and shares [n, metrics]."""
        from sklearn.ensemble import RandomForestRegressor

        x = np.hstack([self._see(own), self._see(others)])
        for column in range(len(self.metrics)):
            known = ~np.isnan(shares[:, column])
            forest = RandomForestRegressor(TREES, random_state=SEED)
            self._forests.append(forest.fit(x[known], shares[known, column]))

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """Bandwidths: the tenant's own times the predicted share; a tenant without neighbours has its own."""
        x = np.hstack([self._see(own), self._see(others)])
        none = ~others.any(axis=1)
        out = np.full((len(own), len(self.metrics), 3), np.nan)
        for column, metric in enumerate(self.metrics):
            op = metric.partition("_")[0]
            bandwidth = (
                own[:, COLUMN[f"{op}_aligned_bandwidth_mean"]] + own[:, COLUMN[f"{op}_unaligned_bandwidth_mean"]]
            )
            share = np.ones(len(own))
            if (~none).any():
                share[~none] = self._forests[column].predict(x[~none])
            out[:, column] = np.where(bandwidth > 0, bandwidth * share, np.nan)[:, None]
        return out


def weighted_means(features: Floats) -> Floats:
    """Size, depth, random ratio, rate and bandwidth of tenants as a whole, [n, 5], means weighted by rate."""
    rates = np.stack([features[:, COLUMN[f"{group}_rate_mean"]] for group in GROUPS], axis=1)
    sizes = np.stack([features[:, COLUMN[f"{group}_size_bytes_mean"]] for group in GROUPS], axis=1)
    bandwidths = np.stack([features[:, COLUMN[f"{group}_bandwidth_mean"]] for group in GROUPS], axis=1)
    random = np.stack([features[:, COLUMN[f"{op}_random_ratio"]] for op in ("read", "read", "write", "write")], axis=1)
    rate = rates.sum(axis=1)
    weight = rates / np.maximum(rate, 1e-9)[:, None]
    return np.stack(
        [
            (weight * sizes).sum(axis=1),
            features[:, COLUMN["depth"]],
            (weight * random).sum(axis=1),
            rate,
            bandwidths.sum(axis=1),
        ],
        axis=1,
    )
