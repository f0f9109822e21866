# SPDX-License-Identifier: MIT OR Apache-2.0
"""What every interference model can do, and what several of them use."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from linnet.place.observations import Floats, Labels, Observations

NAMES = ("forest", "weighted-mean", "queueing", "interpolation", "linnet")
LEAST_SPREAD = 0.005
"""Relative error below which no model may be sure: the tables have steps of about this size."""


class Model(Protocol):
    """A model of one source."""

    def fit(self, train: Observations) -> None:
        """Learn from rows."""
        ...

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """Logarithms of the targets, and the relative size of the error to expect of each: both (n, targets).

        Reads inputs and labels, never outcomes. Only the ratios of the sizes matter: intervals are made of them and of
        errors on rows that were held out.
        """
        ...


def groups_of(labels: Labels) -> list[NDArray[np.intp]]:
    """Indices of the rows of each label, by label."""
    _, first, member = np.unique(labels.astype(str), return_index=True, return_inverse=True)
    order = np.argsort(member, kind="stable")
    return np.split(order, np.cumsum(np.bincount(member))[:-1]) if len(first) else []


def known_medians(outcomes: Floats) -> Floats:
    """Median of each target's known outcomes, (targets,) of (n, targets); NaN where there is none."""
    found = np.median(outcomes, axis=0)
    for target in np.flatnonzero(np.isnan(found)):
        # Minutes that lack an outcome say nothing of it.
        told = outcomes[np.isfinite(outcomes[:, target]), target]
        if len(told):
            found[target] = np.median(told)
    return np.asarray(found, float)


def by_cell(rows: Observations) -> tuple[Observations, NDArray[np.intp]]:
    """One row for each cell, medians of its rows; and for each row the index of its cell."""
    groups = groups_of(rows.labels["cell"])
    member = np.empty(len(rows), np.intp)
    for i, group in enumerate(groups):
        member[group] = i
    first = rows.take(np.array([group[0] for group in groups]))

    def median(values: Floats) -> Floats:
        return np.array([np.median(values[group], axis=0) for group in groups])

    return (
        replace(
            first,
            outcomes=np.array([known_medians(rows.outcomes[group]) for group in groups]),
            inputs={name: median(values) for name, values in rows.inputs.items()},
            achieved={name: median(values) for name, values in rows.achieved.items()},
        ),
        member,
    )


def hidden(rows: Observations) -> Observations:
    """The same rows without what came of them."""
    return replace(
        rows,
        outcomes=np.full_like(rows.outcomes, np.nan),
        achieved={name: np.full_like(values, np.nan) for name, values in rows.achieved.items()},
    )
