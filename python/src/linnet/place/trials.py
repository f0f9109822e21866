# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials on a drive that is set aside: the stage of :mod:`linnet.place.rehearse`, which learns from what it runs.

A mix runs in several *windows*, in each of which the tenants offer other I/Os: a packing that fits the bursts of one
window breaks promises in the next. It holds if every tenant has what was promised on the mean over the windows in which
it has I/O, with confidence SURE by Student's t. One that has I/O in a single window must have it there. A mix is given
up when a tenant is DOUBT standard errors below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from linnet.place.moments import Floats
from linnet.place.rehearse import Mix
from linnet.place.share_forest import Runs

SURE = 0.95
DOUBT = 2.0
TOLERANCE = 0.001
"""A share lost that is no interference: an I/O that completes just after the end of a run."""
REFIT = 20
"""Trials from one fit of the forest to the next."""


class Source(Protocol):
    """Tenants, and what they see of the drive."""

    features: Floats
    """Of each tenant, [n, 27]."""
    uses: NDArray[np.bool_]
    """Which metrics each tenant has, [n, k]."""

    def share(self, mix: Mix, window: int) -> Floats:
        """Run a mix: the share that each member, in order, keeps of its metrics alone, [m, k]; NaN for none."""
        ...


class Learner(Protocol):
    """Predicts shares from runs, as :class:`linnet.place.share_forest.ShareForest` does."""

    def learn(self, runs: Runs) -> None:
        """Learn from these runs in the place of those before."""
        ...

    def shares(self, own: Floats, others: Floats) -> Floats:
        """Predicted shares, [n, k]."""
        ...

    def held_out(self, runs: Runs) -> Floats:
        """The shares [n, k] of runs, predicted as if they had not been learned from."""
        ...


class Trials:
    """The stage: what is known of mixes, and trials of more."""

    def __init__(
        self, source: Source, promised: Floats, windows: Sequence[int], runs_max: int, learner: Learner, runs: Runs
    ) -> None:
        """Every tenant is promised the shares ``promised`` [k] of its metrics alone.

        ``learner`` has learned from ``runs``; ``runs_max`` bounds the windows that trials run in.
        """
        self._source, self._promised, self._windows, self._runs_max = source, promised, windows, runs_max
        self._learner, self._known = learner, runs
        self._tried: dict[Mix, Floats] = {}
        self.runs = 0

    @property
    def left(self) -> int:
        """Runs that trials may still take."""
        return self._runs_max - self.runs

    def seen(self) -> list[tuple[float, bool]]:
        """Slacks of the runs that were learned from, as if they had not been, and whether each held."""
        slack = _least(self._learner.held_out(self._known) - self._promised, self._known.run)
        held = _least(self._known.shares - self._promised, self._known.run) >= 0
        # A metric that few tenants have may be missing where a forest learned.
        return [(one, kept) for one, kept in zip(slack.tolist(), held.tolist(), strict=True) if np.isfinite(one)]

    def slack(self, mixes: Sequence[Mix]) -> Floats:
        """How far the tenant of which least is left is predicted to be above its promise."""
        uses = [np.where(self._source.uses[sorted(mix)], 0.0, np.nan) for mix in mixes]
        asked = Runs.of(self._source.features, mixes, uses)
        return _least(self._learner.shares(asked.own, asked.others) + asked.shares - self._promised, asked.run)

    def holds(self, mix: Mix) -> bool | None:
        """Run a mix; nothing where the runs that are left do not suffice for all windows."""
        if self.left < len(self._windows):
            return None
        shares: list[Floats] = []
        for window in self._windows:
            shares.append(self._source.share(mix, window))
            if self._hopeless(np.stack(shares)):
                break
        self.runs += len(shares)
        held = len(shares) == len(self._windows) and self._safe(np.stack(shares))
        self._tried[mix] = _summary(np.stack(shares))[0]
        if len(self._tried) % REFIT == 0:
            self._learn()
        return held

    def _learn(self) -> None:
        tried = Runs.of(self._source.features, [*self._tried], [*self._tried.values()])
        self._learner.learn(Runs.joined([self._known, tried]))

    def _hopeless(self, shares: Floats) -> bool:
        """Whether more windows will not help, of shares [windows, m, k]: after one, who loses twice what it may."""
        mean, error, count = _summary(shares)
        doubt = np.where(count > 1, DOUBT * error, 1 - self._promised)
        return bool((mean + doubt < self._promised).any())

    def _safe(self, shares: Floats) -> bool:
        from scipy.stats import t

        mean, error, count = _summary(shares)
        sure = np.where(count > 1, t.ppf(SURE, np.maximum(count - 1, 1)) * error, 0.0)
        return not bool((mean - sure < self._promised).any())


def _summary(shares: Floats) -> tuple[Floats, Floats, Floats]:
    """Means over the windows with I/O, their standard errors, and the count of these windows, each [m, k].

    NaN is the mean of no window.
    """
    there = ~np.isnan(shares)
    count = there.sum(axis=0)
    some = np.maximum(count, 1)
    mean = np.where(there, shares, 0.0).sum(axis=0) / some
    squares = np.where(there, shares - mean, 0.0) ** 2
    error = np.sqrt(squares.sum(axis=0) / np.maximum(count - 1, 1) / some)
    return np.where(count > 0, mean, np.nan), error, count.astype(np.float64)


def _least(slack: Floats, run: NDArray[np.intp]) -> Floats:
    """The least of each run; what a tenant lacks does not count."""
    found = np.full(int(run.max()) + 1, np.inf)
    np.minimum.at(found, run, np.nan_to_num(slack, nan=np.inf).min(axis=1))
    return found
