# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials on the SSD model, for ``linnet study violations``: the stage of :mod:`linnet.place.rehearse`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linnet.place.moments import Floats
from linnet.place.rehearse import Mix
from linnet.place.sheet import SheetModel
from linnet.studies.violations_mixes import Mixes
from linnet.studies.violations_models import TOLERANCE, Guarded, Runs

REHEARSED = tuple(range(6, 12))
"""Windows of trials."""
REFIT = 20
"""Trials after which forests are fitted anew."""
GUARD = 2.0
"""Standard errors of the mean over windows from which a trial is sure of a tenant."""


class Staging:
    """A drive that is set aside for trials (:class:`linnet.place.rehearse.Stage`), and what is learned from them.

    A mix runs in the windows REHEARSED, until a tenant is sure to have less than was promised. It holds if every tenant
    is sure to have it.
    """

    def __init__(self, mixes: Mixes, random: Sequence[Mix], slo: float, runs_max: int, model: bool = True) -> None:
        """``runs_max`` bounds the windows run in trials. Without ``model``, a mix is as safe as its load is small."""
        self._mixes, self._random, self._slo, self._runs_max, self._model = mixes, random, slo, runs_max, model
        self._promised = 1 - slo / 100 - TOLERANCE
        self._tried: dict[Mix, Floats] = {}
        self._loads = SheetModel().load(mixes.drive, mixes.features)
        runs = mixes.runs(random)
        self._forests = Guarded(mixes.drive, runs)
        slack = _least(self._forests.held_out, runs.run) - self._promised if model else self.slack(random)
        self.seen = [*zip(slack.tolist(), _least(runs.shares, runs.run) >= self._promised, strict=True)]
        self.runs = 0

    def slack(self, mixes: Sequence[Mix]) -> Floats:
        """How far the tenant of which least is left is predicted to be above its promise."""
        if not self._model:
            return -np.array([self._loads[sorted(mix)].sum() for mix in mixes])
        lacks = [np.where(self._mixes.alone[sorted(mix)] > 0, 0.0, math.nan) for mix in mixes]
        asked = Runs.of(self._mixes.features, mixes, lacks)
        return _least(self._forests.shares(asked.own, asked.others) + asked.shares, asked.run) - self._promised

    def holds(self, mix: Mix) -> bool | None:
        """Run a mix on the SSD model."""
        if self.runs + len(REHEARSED) > self._runs_max:
            return None
        shares: list[Floats] = []
        for window in REHEARSED:
            # Who has nothing to do in a window loses nothing.
            shares.append(np.nan_to_num(self._mixes.together(mix, [window]), nan=1.0))
            if self._hopeless(np.stack(shares)):
                break
        self.runs += len(shares)
        held = len(shares) == len(REHEARSED) and self._safe(np.stack(shares))
        self._tried[mix] = self._mixes.together(mix, REHEARSED[: len(shares)])
        if self._model and len(self._tried) % REFIT == 0:
            tried = Runs.of(self._mixes.features, [*self._tried], [*self._tried.values()])
            self._forests.learn(Runs.joined([self._mixes.runs(self._random), tried]))
        return held

    def _hopeless(self, shares: Floats) -> bool:
        """Whether more windows will not help: of shares [windows, n, 2]."""
        mean = shares.mean(axis=0)
        if len(shares) == 1:
            return bool((mean < self._promised - self._slo / 100).any())
        return bool((mean + GUARD * _error(shares) < self._promised).any())

    def _safe(self, shares: Floats) -> bool:
        return not (shares.mean(axis=0) - GUARD * _error(shares) < self._promised).any()


def _error(shares: Floats) -> Floats:
    """Standard errors [n, 2] of means of shares [windows, n, 2]."""
    return np.asarray(shares.std(axis=0, ddof=1) / math.sqrt(len(shares)))


def _least(shares: Floats, run: NDArray[np.intp]) -> Floats:
    """The least share of each run; what a tenant lacks does not count."""
    found = np.full(int(run.max()) + 1, np.inf)
    np.minimum.at(found, run, np.nan_to_num(shares, nan=1.0).min(axis=1))
    return found
