# SPDX-License-Identifier: MIT OR Apache-2.0
"""The wide ceiling: boosted trees on everything that a host can see of one device, some two hundred numbers.

The engine describes each read (:func:`linnet._native.wide_rows`); the features of ``linnet`` and of Heimdall are added.
How strongly the trees are regularised, how many there are, and whether columns that drift are left out, is chosen on
the last part of the training rows, by time: what changes from one part to the next must not be learnt. Then they are
fitted to all training rows. No test row is used before the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet._native import Study, Trace, wide_rows
from linnet.extras import require

VALIDATED = 0.25
"""Share of the training rows, the latest, that settings are chosen on."""
ROUNDS = 200
FITS = 2
"""Fits of other seeds, whose answers are averaged."""
STEP = 10
"""Rounds between two looks at the validation part."""


@dataclass(frozen=True)
class Strength:
    """One setting of the trees."""

    leaves: int
    least_rows: int
    ridge: float
    features: float
    """Share of the features that a split may choose among."""
    drift: float = 1.0
    """Columns that drift further over the training rows than this are left out (:func:`drift_of`)."""


STRENGTHS = (
    Strength(15, 50, 10.0, 0.3),
    Strength(15, 50, 10.0, 0.3, drift=0.2),
    Strength(7, 100, 30.0, 0.2),
    Strength(7, 100, 30.0, 0.2, drift=0.2),
)


def drift_of(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """How far each column moves from the first to the second half of the rows: 0 not at all, 1 altogether.

    It is |2 AUC - 1| of the column as a sign of the half. Addresses and totals move, and what trees learn of them is of
    no use later.
    """
    half = len(rows) // 2
    found = np.empty(rows.shape[1])
    for k in range(rows.shape[1]):
        ordered = np.sort(rows[:half, k])
        below = np.searchsorted(ordered, rows[half:, k]) + np.searchsorted(ordered, rows[half:, k], side="right")
        found[k] = abs(float(below.mean()) / max(half, 1) - 1)
    return found


def boosted(of: Strength, rounds: int, seed: int) -> Any:
    """Trees of this strength."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=rounds,
        learning_rate=0.08,
        max_leaf_nodes=of.leaves,
        min_samples_leaf=of.least_rows,
        l2_regularization=of.ridge,
        max_features=of.features,
        early_stopping=False,
        random_state=seed,
    )


def parts_of(study: Study, trace: Trace, test: Trace | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The rows of the training and of the test part. A study leaves out the first reads, which have no history."""
    counts = len(study.train()[1]), len(study.test()[1])
    rows = wide_rows(trace)
    if test is not None:
        return rows[len(rows) - counts[0] :], wide_rows(test)[-counts[1] :]
    rows = rows[len(rows) - sum(counts) :]
    return rows[: counts[0]], rows[counts[0] :]


def chosen(rows: NDArray[np.float32], slow: NDArray[np.bool_], seed: int) -> tuple[Strength, int]:
    """The strength and the number of rounds with the highest area under the curve on the latest training rows."""
    from sklearn.metrics import roc_auc_score

    drift = drift_of(rows)
    cut = round(len(rows) * (1 - VALIDATED))
    early, late = slow[:cut], slow[cut:]
    if len(np.unique(early)) < 2 or len(np.unique(late)) < 2:
        return STRENGTHS[-1], ROUNDS // 4
    best = (-1.0, STRENGTHS[-1], STEP)
    for of in STRENGTHS:
        kept = rows[:, drift <= of.drift]
        if kept.shape[1] == 0:
            continue
        model = boosted(of, ROUNDS, seed).fit(kept[:cut], early)
        for rounds, score in enumerate(model.staged_decision_function(kept[cut:]), 1):
            if rounds % STEP == 0:
                best = max(best, (float(roc_auc_score(late, score)), of, rounds), key=lambda one: one[0])
    return best[1], best[2]


def ceiling_scores(study: Study, trace: Trace, test: Trace | None, seed: int) -> NDArray[np.float64] | None:
    """The chance that each test read is slow, by the ceiling; nothing where there is one class to learn."""
    require("study", "the model 'ceiling'")
    from threadpoolctl import threadpool_limits

    slow = study.train()[1]
    if len(np.unique(slow)) < 2:
        return None
    rows, later = (
        np.hstack([wide, part[0]["linnet"], part[0]["heimdall"]]).astype(np.float32)
        for wide, part in zip(parts_of(study, trace, test), (study.train(), study.test()), strict=True)
    )
    # scikit-learn cannot cut a column into bins that has no number in the rows it is fitted to.
    known = np.isfinite(rows[: round(len(rows) * (1 - VALIDATED))]).any(axis=0)
    rows, later = (np.where(np.isfinite(part), part, np.nan)[:, known] for part in (rows, later))
    with threadpool_limits(limits=1):
        of, rounds = chosen(rows, slow, seed)
        kept = drift_of(rows) <= of.drift
        fits = [boosted(of, rounds, seed + k).fit(rows[:, kept], slow) for k in range(FITS)]
        scores: NDArray[np.float64] = np.mean([fit.predict_proba(later[:, kept])[:, 1] for fit in fits], axis=0)
    return scores
