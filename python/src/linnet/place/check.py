# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether every tenant of a drive keeps its SLOs, as the interference model predicts; for many drives at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.batch import HIGH, LOW, VALUE, AggregateModel, SumModel, predict_sets
from linnet.place.cluster import NONE, Cluster, copied
from linnet.place.confidence import parts, stated, towards, undisturbed, unknown_level
from linnet.place.moments import Floats
from linnet.place.slo import Slo
from linnet.place.words import Interference, Prediction, Profile, why_not

Slots = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]
"""Rows, slots and kinds of drives that are broadcast to [n, slots]."""
RESIDUE = 1e-9
"""What a subtraction leaves of a sum below this share of it is rounding."""
DRIVES_AT_ONCE = 2048
"""Drives in one question about a whole cluster: keeps its arrays in the processor's cache."""
ALONE_MAX = 1_000_000
"""Answers about tenants alone that are kept."""


@dataclass(frozen=True)
class Breach:
    """A promise that would not hold: whose, on what, the limit, what is predicted, and the number that passes it."""

    tenant: str
    metric: str
    limit: float
    predicted: Prediction
    compared: float
    """What is predicted at the promise's confidence."""
    confidence_percent: int
    why: str = ""
    """What :func:`linnet.place.words.why_not` says of a metric that is not predicted."""

    def text(self) -> str:
        """In words."""
        if math.isnan(self.compared):
            return f"{self.tenant}: {self.metric} cannot be predicted on this drive{self.why}"
        over = "below" if "_bandwidth_" in self.metric else "above"
        number = f"{self.compared:.4g}{stated(self.confidence_percent)}"
        return f"{self.tenant}: {self.metric} {number} is {over} {self.limit:.4g}"


class Checker:
    """Asks the model about tenants of a cluster. It keeps each tenant's limits on each kind of drive."""

    def __init__(self, cluster: Cluster, model: Interference) -> None:
        self.cluster = cluster
        self.model = model
        self._column = {name: index for index, name in enumerate(model.metrics)}
        self._metric: NDArray[np.intp] = np.full((0, 1), NONE, np.intp)
        self._least: NDArray[np.bool_] = np.zeros((0, 1), np.bool_)
        self._uses: NDArray[np.bool_] = np.zeros((0, 1), np.bool_)
        self._limit: Floats = np.zeros((0, 1, 0))
        self._part: Floats = np.zeros((0, 1, 0))
        self._by_itself: Floats = np.zeros((0, 1, 0, 3))
        """Predictions alone, for degradations at a confidence; NaN for other SLOs."""
        self._alone: dict[tuple[np.uint64, int], Floats] = {}

    def copied(self, cluster: Cluster) -> Checker:
        """A checker of a copy of the cluster. The model is the same, and may then be asked by two threads."""
        made = copied(self)
        made.cluster = cluster
        return made

    def learn(self, rows: NDArray[np.intp]) -> None:
        """Take in tenants: their SLOs, and what they have alone on each kind of drive."""
        slos = [self.cluster.tenant(int(row)).slos for row in rows]
        for row, promised in zip(rows, slos, strict=True):
            if said := self.unpromisable(promised):
                raise ValueError(f"tenant {self.cluster.tenant(int(row)).id}: {said}")
        if len(self._alone) > ALONE_MAX:
            self._alone.clear()
        self._fit(max((len(one) for one in slos), default=0))
        self._metric[rows] = NONE
        self._ask_alone(rows)
        for kind in range(len(self.cluster.kinds)):
            alone = self.alone(rows, kind)
            drive = self.cluster.kinds[kind]
            way = {c: parts(self.model, drive, c) for c in {slo.confidence_percent for each in slos for slo in each}}
            for index, (row, promised) in enumerate(zip(rows, slos, strict=True)):
                for slot, slo in enumerate(promised):
                    column = self._column[slo.metric]
                    self._metric[row, slot] = column
                    self._least[row, slot] = slo.at_least
                    self._uses[row, slot] = moments.uses(self.cluster.features[row], slo.metric)
                    self._limit[row, slot, kind] = slo.limit(alone[index, column, VALUE])
                    self._part[row, slot, kind] = way[slo.confidence_percent][column]
                    self._by_itself[row, slot, kind] = alone[index, column] if slo.unsure_against_alone else np.nan

    def unpromisable(self, slos: Iterable[Slo]) -> str | None:
        """Why the model cannot promise one of these; None where it can promise all."""
        for slo in slos:
            if slo.metric not in self._column:
                return f"the model does not predict {slo.metric}; it predicts {', '.join(self.model.metrics)}"
            if said := unknown_level(self.model, slo.confidence_percent):
                return said
        return None

    def alone(self, rows: NDArray[np.intp], kind: int) -> Floats:
        """Predictions of tenants alone on a kind of drive, [n, metrics, 3]."""
        keys = [(self.cluster.signature[row], kind) for row in rows]
        asked = [index for index, key in enumerate(keys) if key not in self._alone]
        if asked:
            chosen = rows[asked]
            features = self.cluster.features[chosen]
            which = np.full(len(chosen), kind, np.intp)
            if isinstance(self.model, AggregateModel | SumModel):
                found = self._alone_at_once(which, features)
            else:
                drives = [self.cluster.kinds[kind]] * len(chosen)
                profiles = [self.cluster.profile(int(row)) for row in chosen]
                found = predict_sets(self.model, drives, profiles, [()] * len(chosen))
            self._alone.update({keys[index]: one for index, one in zip(asked, found, strict=True)})
        return np.array([self._alone[key] for key in keys]).reshape(len(rows), len(self.model.metrics), 3)

    def _ask_alone(self, rows: NDArray[np.intp]) -> None:
        """Ask about all kinds of drives at once, where the model can: small questions cost as much as larger ones."""
        if not isinstance(self.model, AggregateModel | SumModel):
            return
        kinds = range(len(self.cluster.kinds))
        pairs = [
            (row, kind) for row in rows for kind in kinds if (self.cluster.signature[row], kind) not in self._alone
        ]
        if not pairs:
            return
        chosen, which = np.transpose(pairs)
        features = self.cluster.features[chosen]
        found = self._alone_at_once(which, features)
        for row, kind, one in zip(chosen, which, found, strict=True):
            self._alone[self.cluster.signature[row], int(kind)] = one

    def _alone_at_once(self, which: NDArray[np.intp], features: Floats) -> Floats:
        if isinstance(self.model, SumModel):
            return self.model.predict_sums(self.cluster.kinds, which, features, self.model.sums(features))
        assert isinstance(self.model, AggregateModel)
        return self.model.predict_aggregates(self.cluster.kinds, which, features, np.zeros_like(features))

    def predict(self, rows: NDArray[np.intp], drives: NDArray[np.intp], newcomer: int = NONE) -> Floats:
        """Predict tenants on drives, each beside the drive's other tenants and the newcomer, [n, metrics, 3]."""
        cluster = self.cluster
        if isinstance(self.model, AggregateModel):
            there = cluster.drive_of[rows] == drives
            total = cluster.moments[drives]
            if newcomer != NONE:
                joins = (rows != newcomer) & (cluster.drive_of[newcomer] != drives)
                total = total + np.where(joins[:, None], cluster.own[newcomer], 0.0)
            others = total - np.where(there[:, None], cluster.own[rows], 0.0)
            others[others < RESIDUE * total] = 0.0
            features = moments.to_features(others)
            return self.model.predict_aggregates(cluster.kinds, cluster.kind[drives], cluster.features[rows], features)
        if isinstance(self.model, SumModel):
            total = self._totals(self.model, rows, drives, newcomer)
            return self.model.predict_sums(cluster.kinds, cluster.kind[drives], cluster.features[rows], total)
        sets = [self._neighbours(int(row), int(drive), newcomer) for row, drive in zip(rows, drives, strict=True)]
        profiles = [cluster.profile(int(row)) for row in rows]
        return predict_sets(self.model, [cluster.kinds[cluster.kind[drive]] for drive in drives], profiles, sets)

    def _totals(self, model: SumModel, rows: NDArray[np.intp], drives: NDArray[np.intp], newcomer: int) -> Floats:
        """Sums over all tenants of each drive, with the newcomer, and with the tenant that is asked about."""
        cluster = self.cluster
        asked, place = np.unique(drives, return_inverse=True)
        there = cluster.slots[asked, : int(cluster.count[asked].max(initial=0))]
        at, column = np.nonzero(there != NONE)
        sums = model.sums(cluster.features[there[at, column]])
        each = np.zeros((len(asked), sums.shape[1]))
        np.add.at(each, at, sums)
        total: Floats = each[place]
        if newcomer != NONE:
            joins = cluster.drive_of[newcomer] != drives
            total[joins] += model.sums(cluster.features[[newcomer]])
        absent = (cluster.drive_of[rows] != drives) & (rows != newcomer)
        if absent.any():
            total[absent] += model.sums(cluster.features[rows[absent]])
        return total

    def _neighbours(self, row: int, drive: int, newcomer: int) -> list[Profile]:
        there = [int(other) for other in self.cluster.tenants_on(drive) if other != row]
        if newcomer not in (NONE, row) and newcomer not in there:
            there.append(newcomer)
        return [self.cluster.profile(other) for other in there]

    def broken(self, rows: NDArray[np.intp], drives: NDArray[np.intp], predicted: Floats) -> NDArray[np.bool_]:
        """Which SLOs of these tenants the predictions break, [n, slots]."""
        slots = self._slots(rows, drives)
        value, limit = self._compared(rows, slots, predicted), self._limit[slots]
        over: NDArray[np.bool_] = np.where(self._least[rows], value < limit, value > limit)
        # What cannot be predicted, or not compared, cannot be promised.
        over |= (np.isnan(value) | np.isnan(limit)) & self._uses[rows]
        over &= self._metric[rows] != NONE
        return over

    def _compared(self, rows: NDArray[np.intp], slots: Slots, predicted: Floats) -> Floats:
        """What is predicted at the confidence of each SLO, which its limit is compared with, [n, slots]."""
        metric, asked = self._metric[rows], np.arange(len(rows))[:, None]
        end = predicted[asked, metric, np.where(self._least[rows], LOW, HIGH)]
        found, alone = towards(predicted[asked, metric, VALUE], end, self._part[slots]), self._by_itself[slots]
        if np.isfinite(alone).any():
            found = np.where(undisturbed(alone, predicted[asked, metric]), alone[..., VALUE], found)
        return found

    def _slots(self, rows: NDArray[np.intp], drives: NDArray[np.intp]) -> Slots:
        """Where the SLOs of tenants on drives are in arrays of [rows, slots, kinds]."""
        return rows[:, None], np.arange(self._metric.shape[1]), self.cluster.kind[drives][:, None]

    def fits(self, newcomer: int, drives: NDArray[np.intp]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Where a newcomer may go: whether all SLOs hold, and whether those of the drive's own tenants do."""
        rows, places = self.askers(newcomer, drives)
        predicted = self.predict(rows, drives[places], newcomer)
        over: NDArray[np.bool_] = self.broken(rows, drives[places], predicted).any(axis=1)  # type: ignore[assignment]
        own = over[: len(drives)]
        others = np.zeros(len(drives), np.bool_)
        np.logical_or.at(others, places[len(drives) :], over[len(drives) :])
        return ~(own | others), ~others

    def askers(self, newcomer: int, drives: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The newcomer once for each drive, then all tenants of the drives; with each, the index into ``drives``."""
        width = int(self.cluster.count[drives].max(initial=0))
        slots = self.cluster.slots[drives, :width]
        there = slots != NONE
        places = np.repeat(np.arange(len(drives)), there.sum(axis=1))
        rows = np.concatenate([np.full(len(drives), newcomer, np.intp), slots[there]])
        return rows, np.concatenate([np.arange(len(drives)), places])

    def count_broken(self, drives: NDArray[np.intp]) -> NDArray[np.intp]:
        """How many promises to the tenants of each of these drives the model sees broken."""
        counts = np.zeros(len(drives), np.intp)
        for at in range(0, len(drives), DRIVES_AT_ONCE):
            part = drives[at : at + DRIVES_AT_ONCE]
            slots = self.cluster.slots[part]
            places, columns = np.nonzero(slots != NONE)
            rows = slots[places, columns]
            if len(rows):
                over = self.broken(rows, part[places], self.predict(rows, part[places]))
                np.add.at(counts, at + places, over.sum(axis=1))
        return counts

    def breaches(self, drive: int, newcomer: int = NONE) -> list[Breach]:
        """Promises that would not hold on a drive, with the newcomer if one is given."""
        one = np.array([drive], np.intp)
        rows = self.cluster.tenants_on(drive) if newcomer == NONE else self.askers(newcomer, one)[0]
        if not len(rows):
            return []
        drives = np.full(len(rows), drive, np.intp)
        predicted = self.predict(rows, drives, newcomer)
        over = self.broken(rows, drives, predicted)
        compared = self._compared(rows, self._slots(rows, drives), predicted)
        there = [self.cluster.profile(int(row)) for row in rows]
        why = why_not(self.model, self.cluster.kinds[self.cluster.kind[drive]], there) if over.any() else ""
        found = []
        for index, slot in zip(*np.nonzero(over), strict=True):
            row, column = rows[index], self._metric[rows[index], slot]
            limit = self._limit[row, slot, self.cluster.kind[drive]]
            tenant = self.cluster.tenant(int(row))
            said = Prediction(*map(float, predicted[index, column]))
            metric, number, sure = self.model.metrics[column], compared[index, slot], tenant.slos[slot]
            found.append(Breach(tenant.id, metric, float(limit), said, float(number), sure.confidence_percent, why))
        return found

    def _fit(self, slots: int) -> None:
        """Make room for all rows, kinds and SLOs; limits on new kinds are learned for the tenants that are there."""
        rows, kinds = len(self.cluster.tenants), len(self.cluster.kinds)
        have_rows, have_slots, have_kinds = self._limit.shape
        slots = max(slots, have_slots)
        if (rows, slots, kinds) == self._limit.shape:
            return
        metric = np.full((rows, slots), NONE, np.intp)
        least, uses = np.zeros((rows, slots), np.bool_), np.zeros((rows, slots), np.bool_)
        limit, part = np.full((rows, slots, kinds), np.nan), np.zeros((rows, slots, kinds))
        alone = np.full((rows, slots, kinds, 3), np.nan)
        metric[:have_rows, :have_slots], least[:have_rows, :have_slots] = self._metric, self._least
        uses[:have_rows, :have_slots] = self._uses
        limit[:have_rows, :have_slots, :have_kinds] = self._limit
        part[:have_rows, :have_slots, :have_kinds] = self._part
        alone[:have_rows, :have_slots, :have_kinds] = self._by_itself
        self._metric, self._least, self._uses = metric, least, uses
        self._limit, self._part, self._by_itself = limit, part, alone
        if kinds > have_kinds and have_rows:
            known = np.array([row for row in range(have_rows) if self.cluster.tenants[row] is not None], np.intp)
            if len(known):
                self.learn(known)
