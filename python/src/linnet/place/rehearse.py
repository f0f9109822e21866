# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placement by trials: mixes run on a drive that is set aside, before any tenant is put beside others.

A model of interference errs most where a placer decides, near a promise, so a margin that keeps promises leaves drives
half empty. Here the model only says what is worth a trial, and the trial decides. Tenants come one by one, those of
most load first. Each joins the drives in use in the order of the chance that all promises hold there, which the
outcomes so far of mixes with the same *slack*, the model's distance to the nearest promise, give; the first trial that
holds keeps it. Then drives are emptied in the same way. Parts of a mix that held are taken to hold, and mixes with a
part that failed to fail: no tenant gains by a neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from linnet.place.moments import Floats

Mix = frozenset[int]
"""Indices of tenants that share a drive."""
LEAST = 0.1
"""Chance below which a mix is not worth a trial."""
EVEN = 0.5
"""Chance of a mix of which nothing is known."""
SHARE = 2.0
"""Runs that a tenant may take, in shares of an equal one of those that are left: if the first took all, the last would
have drives of their own."""
ALIKE = 20
"""Outcomes of the nearest slacks that a chance is counted from."""


class Stage(Protocol):
    """Where mixes are tried."""

    def slack(self, mixes: Sequence[Mix]) -> Floats:
        """How far each mix is from breaking a promise by what is known so far, [n]; the larger, the safer."""
        ...

    def holds(self, mix: Mix) -> bool | None:
        """Run a mix: whether all promises hold. Nothing where no trial is left."""
        ...

    @property
    def left(self) -> int:
        """Runs that trials may still take."""
        ...


@dataclass
class Rehearsed:
    """Tenants that share drives, all of whose promises held."""

    drives: list[Mix]
    trials: int
    held: int
    """Trials in which all promises held."""
    short: bool
    """Whether a tenant has a drive of its own because there were not enough runs to try more drives for it."""


class Chances:
    """The chance that a mix holds, from the outcomes of mixes with a slack like its own."""

    def __init__(self, seen: Collection[tuple[float, bool]] = ()) -> None:
        self._slack = [slack for slack, _ in seen]
        self._held = [held for _, held in seen]

    def learn(self, slack: float, held: bool) -> None:
        """Take in an outcome."""
        self._slack.append(slack)
        self._held.append(held)

    def of(self, slack: Floats) -> Floats:
        """Chances [n] at these slacks [n]: of the ALIKE nearest outcomes, with one more of each kind.

        What is safer than all that failed has even chances at least: first trials are those of the heaviest tenants,
        and would otherwise end all others.
        """
        known, held = np.array(self._slack), np.array(self._held, np.float64)
        if len(known) < ALIKE:
            return np.full(len(slack), EVEN)
        safest_failed = known[held == 0].max(initial=-np.inf)
        order = np.argsort(known, kind="stable")
        known, held = known[order], held[order]
        sums = np.concatenate([[0.0], np.cumsum(held)])
        # The window of ALIKE outcomes around each slack, by place.
        first = np.clip(np.searchsorted(known, slack) - ALIKE // 2, 0, len(known) - ALIKE)
        found = (sums[first + ALIKE] - sums[first] + 1) / (ALIKE + 2)
        return np.asarray(np.where(slack > safest_failed, np.maximum(found, EVEN), found))


def rehearse(
    order: Sequence[int],
    loads: Floats,
    stage: Stage,
    seen: Collection[tuple[float, bool]] = (),
    tenants_max: int = 64,
    progress: Callable[[int], None] = lambda placed: None,
) -> Rehearsed:
    """Put tenants on as few drives as trials allow.

    ``order`` has their indices, which are those of ``loads``; ``seen`` are slacks of mixes that ran before, and whether
    they held. A tenant for which no trial is left goes where a trial has shown that it fits, or has a drive of its own.
    """
    search = _Search(loads, stage, Chances(seen), tenants_max)
    for placed, tenant in enumerate(order):
        if not search.insert(tenant, SHARE * stage.left / (len(order) - placed)):
            search.drives.append(frozenset([tenant]))
        progress(placed + 1)
    short = search.short
    search.empty()
    return Rehearsed(search.drives, search.trials, search.held, short)


class _Search:
    def __init__(self, loads: Floats, stage: Stage, chances: Chances, tenants_max: int) -> None:
        self.drives: list[Mix] = []
        self.trials = self.held = 0
        self._loads, self._stage, self._chances, self._tenants_max = loads, stage, chances, tenants_max
        self._good: list[Mix] = []
        self._bad: list[Mix] = []
        self._spent = self.short = False

    def insert(self, tenant: int, runs_max: float) -> bool:
        """Put a tenant on a drive in use, by one trial or as many as take so many runs; whether one was found.

        The drives are left with the fullest first.
        """
        self.drives.sort(key=self._load, reverse=True)
        joined = [drive | {tenant} for drive in self.drives]
        known = [self._known(mix) for mix in joined]
        if True in known:
            place = known.index(True)
            self.drives[place] = joined[place]
            return True
        asked = [place for place, answer in enumerate(known) if answer is None]
        if not asked or self._spent:
            self.short |= bool(asked)
            return False
        slack = self._stage.slack([joined[place] for place in asked])
        chance = self._chances.of(slack)
        before = self._stage.left
        for at in np.lexsort((-slack, -chance)):
            if chance[at] < LEAST:
                break
            if self._spent or before - self._stage.left > runs_max:
                self.short = True
                break
            if self._try(joined[asked[at]], float(slack[at])):
                self.drives[asked[at]] = joined[asked[at]]
                return True
        return False

    def empty(self) -> None:
        """Empty drives, the least loaded first; one whose tenants do not all find another drive stays as it was."""
        for drive in sorted(self.drives, key=self._load):
            before = list(self.drives)
            if drive not in self.drives:
                # It took a tenant of another.
                continue
            self.drives.remove(drive)
            if not all(self.insert(tenant, np.inf) for tenant in sorted(drive, key=lambda one: -self._loads[one])):
                self.drives = before

    def _load(self, mix: Mix) -> float:
        return float(self._loads[sorted(mix)].sum())

    def _known(self, mix: Mix) -> bool | None:
        if any(mix <= good for good in self._good):
            return True
        if len(mix) > self._tenants_max or any(bad <= mix for bad in self._bad):
            return False
        return None

    def _try(self, mix: Mix, slack: float) -> bool:
        held = self._stage.holds(mix)
        if held is None:
            self._spent = True
            return False
        self.trials += 1
        self.held += held
        self._chances.learn(slack, held)
        (self._good if held else self._bad).append(mix)
        return held
