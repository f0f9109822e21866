# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials on a drive that is set aside: the stage of :mod:`linnet.place.rehearse`, which learns from what it runs.

A mix runs in several *windows*, in each of which the tenants offer other I/Os, until a tenant is sure to have less than
was promised. It holds if every tenant is sure to have it. Sure is GUARD standard errors of the mean over windows: a
packing that fits the bursts of one window breaks promises in the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from linnet.place.moments import Floats
from linnet.place.rehearse import Mix
from linnet.place.share_forest import Runs, ShareForest

GUARD = 2.0
REFIT = 20
"""Trials after which the forest is fitted anew."""


class Source(Protocol):
    """Tenants, and what they see of the drive."""

    features: Floats
    """Of each tenant, [n, 27]."""
    uses: NDArray[np.bool_]
    """Which metrics each tenant has, [n, k]."""

    def share(self, mix: Mix, window: int) -> Floats:
        """Run a mix: the share that each member, in order, keeps of its metrics alone, [m, k]; NaN for none."""
        ...


class Trials:
    """The stage: what is known of mixes, and trials of more."""

    def __init__(
        self, source: Source, promised: Floats, windows: Sequence[int], runs_max: int, forest: ShareForest, runs: Runs
    ) -> None:
        """Every tenant is promised the shares ``promised`` [k] of its metrics alone.

        ``forest`` was fitted to ``runs``; ``runs_max`` bounds the windows that trials run in.
        """
        self._source, self._promised, self._windows, self._runs_max = source, promised, windows, runs_max
        self._forest, self._known = forest, runs
        self._tried: dict[Mix, Floats] = {}
        self.runs = 0

    @property
    def left(self) -> int:
        """Runs that trials may still take."""
        return self._runs_max - self.runs

    def seen(self) -> list[tuple[float, bool]]:
        """Slacks of the runs that the forest was fitted to, as if it had not been, and whether each held."""
        slack = _least(self._forest.held_out(self._known) - self._promised, self._known.run)
        held = _least(self._known.shares - self._promised, self._known.run) >= 0
        return [*zip(slack.tolist(), held.tolist(), strict=True)]

    def slack(self, mixes: Sequence[Mix]) -> Floats:
        """How far the tenant of which least is left is predicted to be above its promise."""
        uses = [np.where(self._source.uses[sorted(mix)], 0.0, np.nan) for mix in mixes]
        asked = Runs.of(self._source.features, mixes, uses)
        return _least(self._forest.shares(asked.own, asked.others) + asked.shares - self._promised, asked.run)

    def holds(self, mix: Mix) -> bool | None:
        """Run a mix; nothing where the runs that are left do not suffice for all windows."""
        if self.left < len(self._windows):
            return None
        shares: list[Floats] = []
        for window in self._windows:
            # Who has nothing to do in a window loses nothing.
            shares.append(np.nan_to_num(self._source.share(mix, window), nan=1.0))
            if self._hopeless(np.stack(shares)):
                break
        self.runs += len(shares)
        mean = np.mean(shares, axis=0)
        held = len(shares) == len(self._windows) and bool((mean - self._sure(np.stack(shares)) >= self._promised).all())
        self._tried[mix] = np.where(self._source.uses[sorted(mix)], mean, np.nan)
        if len(self._tried) % REFIT == 0:
            self._learn()
        return held

    def _learn(self) -> None:
        tried = Runs.of(self._source.features, [*self._tried], [*self._tried.values()])
        self._forest.learn(Runs.joined([self._known, tried]))

    def _hopeless(self, shares: Floats) -> bool:
        """Whether more windows will not help, of shares [windows, m, k]: after one, who loses twice what it may."""
        sure = self._sure(shares) if len(shares) > 1 else 1 - self._promised
        return bool((shares.mean(axis=0) + sure < self._promised).any())

    @staticmethod
    def _sure(shares: Floats) -> Floats:
        if len(shares) == 1:
            return np.zeros(shares.shape[1:])
        return np.asarray(GUARD * shares.std(axis=0, ddof=1) / math.sqrt(len(shares)))


def _least(slack: Floats, run: NDArray[np.intp]) -> Floats:
    """The least of each run; what a tenant lacks does not count."""
    found = np.full(int(run.max()) + 1, np.inf)
    np.minimum.at(found, run, np.nan_to_num(slack, nan=np.inf).min(axis=1))
    return found
