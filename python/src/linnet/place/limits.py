# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the SLOs of tenants come to on drives, in the metrics' units.

A degradation is against the tenant alone on a drive of the same kind, so its limit differs from kind to kind. Kept are
the limits of each tenant on the kind of drive that it is on, and those on all kinds of the tenants that were last asked
about elsewhere: newcomers, and tenants that may move. So memory grows with the tenants and with the kinds, not with
their product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.batch import VALUE, AggregateModel, SumModel, predict_sets
from linnet.place.cluster import NONE, Cluster, copied
from linnet.place.confidence import parts
from linnet.place.moments import Floats
from linnet.place.words import Interference

ALONE_MAX = 100_000
"""Predictions of a tenant alone on a kind of drive that are kept: some 50 MB."""
SETTLED_AT_ONCE = 1 << 15
"""Tenants whose terms are made at once: bounds what is kept of predictions alone meanwhile."""
ELSEWHERE_MAX = 250_000
"""SLOs times kinds of drives whose limits are kept for tenants that were asked about elsewhere: some 30 MB."""


@dataclass(frozen=True)
class Terms:
    """What SLOs come to on drives; NaN where a row has fewer SLOs."""

    limit: Floats
    """In the metric's unit, [n, slots]."""
    part: Floats
    """Where the SLO's confidence lies between the predicted value and the end of its interval, [n, slots]."""
    alone: Floats
    """Predictions alone, for degradations at a confidence; NaN for other SLOs, [n, slots, 3]."""

    @staticmethod
    def none(rows: int, slots: int) -> Terms:
        """Room for ``rows`` with ``slots`` SLOs each."""
        return Terms(np.full((rows, slots), np.nan), np.zeros((rows, slots)), np.full((rows, slots, 3), np.nan))

    def at(self, rows: NDArray[np.intp]) -> Terms:
        """Copies of these rows."""
        return Terms(self.limit[rows], self.part[rows], self.alone[rows])

    def set(self, rows: NDArray[np.intp], other: Terms) -> None:
        """Put another's rows in the place of these, which may have more slots."""
        slots = other.limit.shape[1]
        self.limit[rows, :slots], self.part[rows, :slots] = other.limit, other.part
        self.alone[rows, :slots] = other.alone


class Limits:
    """The limits of a cluster's tenants."""

    def __init__(self, cluster: Cluster, model: Interference) -> None:
        self.cluster = cluster
        self.model = model
        self.column = {name: index for index, name in enumerate(model.metrics)}
        self.metric: NDArray[np.intp] = np.full((0, 1), NONE, np.intp)
        """Column of each SLO's metric in predictions, [rows, slots]; NONE where a row has fewer SLOs."""
        self.least: NDArray[np.bool_] = np.zeros((0, 1), np.bool_)
        """Whether the metric must stay above the limit."""
        self.uses: NDArray[np.bool_] = np.zeros((0, 1), np.bool_)
        """Whether the tenant has I/O that the metric is of."""
        self._home = Terms.none(0, 1)
        self._kind: NDArray[np.intp] = np.zeros(0, np.intp)
        """The kind of drive for which a row's terms in ``_home`` hold; NONE for none."""
        self._elsewhere: dict[np.uint64, Terms] = {}
        """Terms on all kinds by the tenant's signature."""
        self._elsewhere_size = 0
        self._alone: dict[tuple[int, int], Floats] = {}
        self._way: dict[int, Floats] = {}
        """Parts of confidences, [kinds, metrics]."""

    def copied(self, cluster: Cluster) -> Limits:
        """Those of a copy of the cluster. Terms on all kinds are never changed, so they may be shared."""
        made = copied(self)
        made.cluster, made._home = cluster, self._home.at(np.arange(len(self._kind)))
        return made

    def learn(self, rows: NDArray[np.intp]) -> None:
        """Take in the SLOs of tenants, which the model can promise. It is asked when a limit is first needed."""
        slos = [self.cluster.tenant(int(row)).slos for row in rows]
        self._fit(max((len(one) for one in slos), default=0))
        self.metric[rows] = NONE
        self._kind[rows] = NONE
        for row, promised in zip(rows, slos, strict=True):
            for slot, slo in enumerate(promised):
                self.metric[row, slot] = self.column[slo.metric]
                self.least[row, slot] = slo.at_least
                self.uses[row, slot] = moments.uses(self.cluster.features[row], slo.metric)

    def settle(self) -> None:
        """Make the terms of all tenants on the drives that they are on, which the first question would wait for."""
        rows = np.flatnonzero((self.cluster.drive_of != NONE) & (self.metric[:, 0] != NONE))
        rows = rows[self._lacking(rows, self.cluster.kind[self.cluster.drive_of[rows]])]
        for at in range(0, len(rows), SETTLED_AT_ONCE):
            self._settle(rows[at : at + SETTLED_AT_ONCE])

    def terms(self, rows: NDArray[np.intp], drives: NDArray[np.intp]) -> Terms:
        """What the SLOs of tenants come to on drives, theirs or others."""
        kinds = self.cluster.kind[drives]
        there = self.cluster.drive_of[rows] == drives
        lacking = self._lacking(rows, kinds)
        if (fresh := lacking & there).any():
            self._settle(np.unique(rows[fresh]))
            lacking &= ~there
        found = self._home.at(rows)
        if lacking.any():
            at = np.flatnonzero(lacking)
            for row in np.unique(rows[at]):
                mine = at[rows[at] == row]
                found.set(mine, self._on_all_kinds(int(row)).at(kinds[mine]))
        return found

    def alone(self, rows: NDArray[np.intp], kind: int) -> Floats:
        """Predictions of tenants alone on a kind of drive, [n, metrics, 3]."""
        return self._alone_on(rows, np.full(len(rows), kind, np.intp))

    def _lacking(self, rows: NDArray[np.intp], kinds: NDArray[np.intp]) -> NDArray[np.bool_]:
        lacking: NDArray[np.bool_] = (self._kind[rows] != kinds) & (self.metric[rows, 0] != NONE)
        return lacking

    def _settle(self, rows: NDArray[np.intp]) -> None:
        """Keep the terms of tenants on the drives that they are on."""
        kinds = self.cluster.kind[self.cluster.drive_of[rows]]
        known = np.array([self._known(self.cluster.signature[row]) for row in rows], np.bool_)
        for row, kind in zip(rows[known], kinds[known], strict=True):
            terms = self._elsewhere[self.cluster.signature[row]]
            self._home.set(np.array([row]), terms.at(np.array([kind])))
        fresh, where = rows[~known], kinds[~known]
        alone = self._alone_on(fresh, where)
        for index, row in enumerate(fresh):
            at = slice(index, index + 1)
            self._home.set(np.array([row]), self._computed(int(row), where[at], alone[at]))
        self._kind[rows] = kinds

    def _known(self, signature: np.uint64) -> bool:
        found = self._elsewhere.get(signature)
        return found is not None and len(found.limit) == len(self.cluster.kinds)

    def _on_all_kinds(self, row: int) -> Terms:
        """Terms of one tenant on each kind of drive. One question: small ones cost as much as larger ones."""
        signature = self.cluster.signature[row]
        if not self._known(signature):
            if self._elsewhere_size > ELSEWHERE_MAX:
                self._elsewhere.clear()
                self._elsewhere_size = 0
            kinds = np.arange(len(self.cluster.kinds))
            alone = self._asked(np.full(len(kinds), row, np.intp), kinds)
            self._elsewhere[signature] = self._computed(row, kinds, alone)
            self._elsewhere_size += self._elsewhere[signature].limit.size
        return self._elsewhere[signature]

    def _computed(self, row: int, kinds: NDArray[np.intp], alone: Floats) -> Terms:
        """Terms of one tenant on kinds of drives, where it has alone what is predicted, [kinds, metrics, 3]."""
        slos = self.cluster.tenant(row).slos
        terms = Terms.none(len(kinds), len(slos))
        for slot, slo in enumerate(slos):
            column = self.column[slo.metric]
            terms.limit[:, slot] = [slo.limit(one) for one in alone[:, column, VALUE].tolist()]
            terms.part[:, slot] = self._parts(slo.confidence_percent)[kinds, column]
            if slo.unsure_against_alone:
                terms.alone[:, slot] = alone[:, column]
        return terms

    def _parts(self, percent: int) -> Floats:
        known = self._way.get(percent, np.zeros((0, len(self.column))))
        if fresh := self.cluster.kinds[len(known) :]:
            known = np.vstack([known, [parts(self.model, drive, percent) for drive in fresh]])
            self._way[percent] = known
        return known

    def _alone_on(self, rows: NDArray[np.intp], kinds: NDArray[np.intp]) -> Floats:
        """Predictions of each tenant alone on the kind beside it, [n, metrics, 3]; equal tenants are asked for once."""
        if len(self._alone) > ALONE_MAX:
            self._alone.clear()
        keys = list(zip(self.cluster.signature[rows].tolist(), kinds.tolist(), strict=True))
        asked = {key: index for index, key in enumerate(keys) if key not in self._alone}
        if asked:
            at = np.array(list(asked.values()))
            self._alone.update(zip(asked, self._asked(rows[at], kinds[at]), strict=True))
        return np.array([self._alone[key] for key in keys]).reshape(len(rows), len(self.column), 3)

    def _asked(self, rows: NDArray[np.intp], kinds: NDArray[np.intp]) -> Floats:
        features = self.cluster.features[rows]
        if isinstance(self.model, SumModel):
            return self.model.predict_sums(self.cluster.kinds, kinds, features, self.model.sums(features))
        if isinstance(self.model, AggregateModel):
            return self.model.predict_aggregates(self.cluster.kinds, kinds, features, np.zeros_like(features))
        profiles = [self.cluster.profile(int(row)) for row in rows]
        return predict_sets(self.model, [self.cluster.kinds[kind] for kind in kinds], profiles, [()] * len(rows))

    def _fit(self, slots: int) -> None:
        """Make room for all rows and SLOs."""
        rows = len(self.cluster.tenants)
        have_rows, have_slots = self.metric.shape
        slots = max(slots, have_slots)
        if (rows, slots) == (have_rows, have_slots):
            return
        metric, home = np.full((rows, slots), NONE, np.intp), Terms.none(rows, slots)
        least, uses = np.zeros((rows, slots), np.bool_), np.zeros((rows, slots), np.bool_)
        metric[:have_rows, :have_slots], least[:have_rows, :have_slots] = self.metric, self.least
        uses[:have_rows, :have_slots] = self.uses
        home.set(np.arange(have_rows), self._home)
        self.metric, self.least, self.uses, self._home = metric, least, uses, home
        self._kind = np.append(self._kind, np.full(rows - have_rows, NONE, np.intp))
