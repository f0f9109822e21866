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
from linnet.place.confidence import stated, towards, undisturbed, unknown_level, unsized
from linnet.place.limits import Limits, Terms
from linnet.place.moments import Floats
from linnet.place.slo import Slo, not_measured
from linnet.place.words import Interference, Prediction, Profile, why_not

RESIDUE = 1e-9
"""What a subtraction leaves of a sum below this share of it is rounding."""
DRIVES_AT_ONCE = 2048
"""Drives in one question about a whole cluster: keeps its arrays in the processor's cache."""


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
        if math.isnan(self.compared) and self.predicted.unsized:
            return f"{self.tenant}: {self.metric} {unsized(self.confidence_percent)}"
        if math.isnan(self.compared):
            return f"{self.tenant}: {self.metric} cannot be predicted on this drive{self.why}"
        over = "below" if "_bandwidth_" in self.metric else "above"
        number = f"{self.compared:.4g}{stated(self.confidence_percent)}"
        return f"{self.tenant}: {self.metric} {number} is {over} {self.limit:.4g}"


class Checker:
    """Asks the model about tenants of a cluster."""

    def __init__(self, cluster: Cluster, model: Interference) -> None:
        self.cluster = cluster
        self.model = model
        self._limits = Limits(cluster, model)

    def copied(self, cluster: Cluster) -> Checker:
        """A checker of a copy of the cluster. The model is the same, and may then be asked by two threads."""
        made = copied(self)
        made.cluster, made._limits = cluster, self._limits.copied(cluster)
        return made

    def learn(self, rows: NDArray[np.intp]) -> None:
        """Take in tenants and their SLOs."""
        for tenant in (self.cluster.tenant(int(row)) for row in rows):
            if said := self.unpromisable(tenant.slos):
                raise ValueError(f"tenant {tenant.id}: {said}")
        self._limits.learn(rows)

    def settle(self) -> None:
        """Get ready for questions about the whole cluster."""
        self._limits.settle()

    def unpromisable(self, slos: Iterable[Slo]) -> str | None:
        """Why the model cannot promise one of these; None where it can promise all."""
        for slo in slos:
            if slo.metric not in self._limits.column:
                return f"the model does not predict {slo.metric}; it predicts {', '.join(self.model.metrics)}"
            if said := unknown_level(self.model, slo.confidence_percent):
                return said
        return None

    def alone(self, rows: NDArray[np.intp], kind: int) -> Floats:
        """Predictions of tenants alone on a kind of drive, [n, metrics, 3]."""
        return self._limits.alone(rows, kind)

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
        terms = self._limits.terms(rows, drives)
        return self._over(rows, terms, self._compared(rows, drives, terms, predicted))

    def _over(self, rows: NDArray[np.intp], terms: Terms, value: Floats) -> NDArray[np.bool_]:
        limits, limit = self._limits, terms.limit
        over: NDArray[np.bool_] = np.where(limits.least[rows], value < limit, value > limit)
        # What cannot be predicted, or not compared, cannot be promised.
        over |= (np.isnan(value) | np.isnan(limit)) & limits.uses[rows]
        over &= limits.metric[rows] != NONE
        return over

    def _compared(self, rows: NDArray[np.intp], drives: NDArray[np.intp], terms: Terms, predicted: Floats) -> Floats:
        """What is predicted at the confidence of each SLO, which its limit is compared with, [n, slots].

        NaN beside a tenant of unknown workload.
        """
        metric, asked = self._limits.metric[rows], np.arange(len(rows))[:, None]
        end = predicted[asked, metric, np.where(self._limits.least[rows], LOW, HIGH)]
        found = towards(predicted[asked, metric, VALUE], end, terms.part)
        if np.isfinite(terms.alone).any():
            same = undisturbed(terms.alone, predicted[asked, metric])
            found = np.where(same, terms.alone[..., VALUE], found)
        found[self.cluster.homes_of(self.cluster.unknown)[drives]] = np.nan
        return found

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
        terms = self._limits.terms(rows, drives)
        compared = self._compared(rows, drives, terms, predicted)
        over = self._over(rows, terms, compared)
        why = ""
        if over.any():
            there = [self.cluster.profile(int(row)) for row in rows]
            unknown = not_measured(self.cluster.tenant(int(row)) for row in self.cluster.tenants_on(drive))
            why = unknown or why_not(self.model, self.cluster.kinds[self.cluster.kind[drive]], there)
        found = []
        for index, slot in zip(*np.nonzero(over), strict=True):
            row, column = rows[index], self._limits.metric[rows[index], slot]
            tenant = self.cluster.tenant(int(row))
            said = Prediction(*map(float, predicted[index, column]))
            metric, number, sure = self.model.metrics[column], compared[index, slot], tenant.slos[slot]
            found.append(
                Breach(
                    tenant.id,
                    metric,
                    float(terms.limit[index, slot]),
                    said,
                    float(number),
                    sure.confidence_percent,
                    why,
                )
            )
        return found
