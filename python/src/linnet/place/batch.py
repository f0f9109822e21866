# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interference models asked about many candidates at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.moments import Floats
from linnet.place.words import Drive, Interference, Prediction, Profile

VALUE, LOW, HIGH = range(3)
"""Last axis of predictions: the value, and the bounds of its 90 % interval."""


@runtime_checkable
class AggregateModel(Protocol):
    """A model that needs no more of the neighbours than their aggregate, and answers in arrays."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what it predicts."""
        ...

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """Predict n tenants.

        ``which`` [n] is the index of each tenant's drive in ``drives``; ``own`` and ``others`` [n, 27] are features of
        the tenant and of the aggregate of its neighbours. The answer is [n, metrics, 3]: value, low90, high90.
        """
        ...


@runtime_checkable
class SumModel(Protocol):
    """A model that needs no more of all tenants of a drive than the sum of a few numbers of each."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what it predicts."""
        ...

    def sums(self, features: Floats) -> Floats:
        """What each tenant with features [n, 27] adds, [n, k]."""
        ...

    def predict_sums(self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, total: Floats) -> Floats:
        """Predict n tenants.

        ``which`` [n] is the index of each tenant's drive in ``drives``, ``own`` [n, 27] are its features, and ``total``
        [n, k] is the sum over all tenants of its drive, its own included. The answer is [n, metrics, 3].
        """
        ...


def predict_sets(
    model: Interference, drives: Sequence[Drive], tenants: Sequence[Profile], sets: Sequence[Sequence[Profile]]
) -> Floats:
    """Ask a model that wants the neighbours themselves; the answer is [n, metrics, 3], NaN where it says nothing."""
    out = np.full((len(tenants), len(model.metrics), 3), np.nan)
    if not tenants:
        return out
    for index, answer in enumerate(model.predict(drives, tenants, sets)):
        for column, metric in enumerate(model.metrics):
            if metric in answer:
                one = answer[metric]
                out[index, column] = one.value, one.low90, one.high90
    return out


class ByAggregate:
    """Gives a model of aggregates the interface of :class:`linnet.place.words.Interference`."""

    def predict(
        self: AggregateModel,
        drives: Sequence[Drive],
        tenants: Sequence[Profile],
        neighbours: Sequence[Sequence[Profile]],
    ) -> list[dict[str, Prediction]]:
        """Predict each tenant beside its neighbours on its drive."""
        own = moments.rows(tenants)
        others = np.zeros_like(own)
        for index, profiles in enumerate(neighbours):
            others[index] = moments.aggregated(moments.rows(profiles))
        found = self.predict_aggregates(drives, np.arange(len(drives)), own, others)
        return [
            {
                metric: Prediction(*map(float, found[index, column]))
                for column, metric in enumerate(self.metrics)
                if not np.isnan(found[index, column, VALUE])
            }
            for index in range(len(tenants))
        ]
