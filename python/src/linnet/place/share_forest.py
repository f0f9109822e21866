# SPDX-License-Identifier: MIT OR Apache-2.0
"""A forest that learns from runs on one drive what share of its metrics alone a tenant keeps beside others.

Inputs are the gray-box paper's features (Jaliminche et al., SoCC 2023) of the tenant and of its neighbours, with what
the drive's data sheet makes of them where there is one. A share is 1 where neighbours cost nothing, below 1 where a
bandwidth falls or a latency grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.extras import require
from linnet.place import moments
from linnet.place.moments import Floats
from linnet.place.rehearse import Mix
from linnet.place.sheet import SheetModel
from linnet.place.words import Drive

FOLDS = 4
TREES = 100


@dataclass(frozen=True)
class Runs:
    """Tenants of runs: features of each and of its neighbours, shares of its metrics [n, k], and its run."""

    own: Floats
    others: Floats
    shares: Floats
    """NaN for what a tenant lacks."""
    run: NDArray[np.intp]

    @classmethod
    def of(cls, features: Floats, mixes: Sequence[Mix], shares: Sequence[Floats]) -> Runs:
        """Runs of these mixes of workloads with features [n, 27], and the shares [n, k] of each."""
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


class ShareForest:
    """A forest for each column of the shares."""

    def __init__(self, drive: Drive | None, metrics: Sequence[str], runs: Runs) -> None:
        """Learn from runs. ``metrics`` name the columns; the sheet of ``drive`` must have what they need."""
        require("place", "a forest of shares")
        self._drive, self._metrics = drive, metrics
        self._sheets = SheetModel()
        self._forests = self._fit(runs)

    def learn(self, runs: Runs) -> None:
        """Learn from these runs in the place of those before."""
        self._forests = self._fit(runs)

    def shares(self, own: Floats, others: Floats) -> Floats:
        """Predicted shares, [n, k]."""
        return self._ask(self._forests, own, others)

    def held_out(self, runs: Runs) -> Floats:
        """The shares [n, k] of runs as predicted by forests that did not see them, each run whole; NaN stays."""
        guessed = np.full_like(runs.shares, np.nan)
        for fold in range(FOLDS):
            tried = runs.run % FOLDS == fold
            if tried.any():
                forests = self._fit(runs.take(~tried))
                guessed[tried] = self._ask(forests, runs.own[tried], runs.others[tried])
        return np.where(np.isnan(runs.shares), np.nan, guessed)

    def _fit(self, runs: Runs) -> list[Any]:
        from sklearn.ensemble import RandomForestRegressor

        inputs = self._inputs(runs.own, runs.others)
        forests: list[Any] = []
        for column in range(runs.shares.shape[1]):
            known = ~np.isnan(runs.shares[:, column])
            forest = RandomForestRegressor(TREES, random_state=42, min_samples_leaf=2, max_features=0.5)
            # What no tenant has is never asked.
            forests.append(forest.fit(inputs[known], runs.shares[known, column]) if known.any() else None)
        return forests

    def _inputs(self, own: Floats, others: Floats) -> Floats:
        if self._drive is None:
            return np.column_stack([own, others])
        asked = np.zeros(len(own), np.intp)
        found = self._sheets.predict_aggregates([self._drive], asked, own, others)[..., 0]
        alone = self._sheets.predict_aggregates([self._drive], asked, own, np.zeros_like(others))[..., 0]
        columns = [self._sheets.metrics.index(name) for name in self._metrics]
        loads = [self._sheets.load(self._drive, one) for one in (own, others)]
        lost = np.nan_to_num(found[:, columns] / alone[:, columns], nan=1.0)
        return np.column_stack([own, others, *loads, sum(loads), lost])

    def _ask(self, forests: list[Any], own: Floats, others: Floats) -> Floats:
        inputs = self._inputs(own, others)
        none = np.full(len(own), np.nan)
        return np.stack([none if forest is None else forest.predict(inputs) for forest in forests], axis=1)
