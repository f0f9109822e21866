# SPDX-License-Identifier: MIT OR Apache-2.0
"""What placers of ``linnet study violations`` learn from runs: the worst that was seen, and forests with a margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.batch import ByAggregate
from linnet.place.moments import Floats
from linnet.place.share_forest import Runs, ShareForest
from linnet.place.sheet import SheetModel
from linnet.place.trials import TOLERANCE
from linnet.place.words import Drive
from linnet.studies.placers import METRICS

MARGINS = np.arange(0.0, 0.5, 0.005)


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
        self._forest = ShareForest(drive, METRICS, runs)
        self._held_out = self._forest.held_out(runs)
        self._shares = runs.shares
        self.margin = 0.0

    def promise(self, slo: float, allowed: float) -> None:
        """Choose the margin for an SLO in percent and a share of tenants that may be violated."""
        bad = broken(self._shares, slo)
        for margin in MARGINS:
            accepted = ~broken(self._held_out - margin, slo)
            # One violation more than was seen: few accepted tenants prove little.
            if (bad[accepted].sum() + 1) <= allowed * (accepted.sum() + 1):
                self.margin = float(margin)
                return
        self.margin = float(MARGINS[-1])

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """The tenant's bandwidth times the predicted share, less the margin."""
        share = self._forest.shares(own, others) - self.margin
        share[~others.any(axis=1)] = 1.0
        return _bandwidths(own, share)


class ByLoad:
    """What trials are compared with: a mix is as safe as its load by the data sheet is small; nothing is learned."""

    def __init__(self, drive: Drive) -> None:
        self._loads = partial(SheetModel().load, drive)

    def learn(self, runs: Runs) -> None:
        """Learn nothing."""

    def shares(self, own: Floats, others: Floats) -> Floats:
        """Less for more load: only the order counts."""
        return -np.stack([self._loads(own) + self._loads(others)] * len(METRICS), axis=1)

    def held_out(self, runs: Runs) -> Floats:
        """The same: nothing was learned of the runs."""
        return self.shares(runs.own, runs.others)


def _bandwidths(own: Floats, share: Floats) -> Floats:
    offered = own[:, moments.BANDWIDTH]
    full = np.stack([offered[:, :2].sum(axis=1), offered[:, 2:].sum(axis=1)], axis=1)
    return np.asarray(np.where(full > 0, full * share, math.nan)[..., None].repeat(3, axis=2))
