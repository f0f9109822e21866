# SPDX-License-Identifier: MIT OR Apache-2.0
"""What predictions of measured drives are worth: errors, and how often their intervals hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place.confidence import CONFIDENCES
from linnet.place.models.model import groups_of
from linnet.place.observations import Floats, Labels, Observations
from linnet.place.splits import FIRST_SEED

LEVELS = tuple(2 * percent / 100 - 1 for percent in CONFIDENCES[1:])
"""Shares of the outcomes that intervals are made for: one side of each holds at a confidence above 50 %."""
DRAWS = 1000
"""Resamples that a coverage's uncertainty is of."""
ENOUGH = 10
"""Fewest rows of a drive whose coverage says anything of intervals that miss one in ten."""


@dataclass
class Answers:
    """Predictions of the rows that were tried, in one seed."""

    outcomes: list[Floats] = field(default_factory=list)
    means: list[Floats] = field(default_factory=list)
    widths: list[Floats] = field(default_factory=list)
    """Half widths of the intervals, [LEVELS, rows, targets], logarithmic; NaN where none could be made."""
    blocks: list[Labels] = field(default_factory=list)
    """What rows have in common, so that they err together: the drive model, or the mix."""
    drives: list[Labels] = field(default_factory=list)
    """See :func:`drives_of`."""

    untried: list[str] = field(default_factory=list)
    """Drives, or settings of mixes, whose every row was probed."""
    probes: int = 0
    """Most minutes or runs that were measured of one of these."""

    def add(self, rows: Observations, mean: Floats, widths: Floats) -> None:
        """Append the answers for rows."""
        self.blocks.append(rows.labels["model" if "model" in rows.labels else "mix"])
        self.drives.append(drives_of(rows))
        self.outcomes.append(rows.outcomes)
        self.means.append(mean)
        self.widths.append(widths)

    def of(self, target: int) -> tuple[Floats, Floats, Floats]:
        """Outcomes [rows], means [rows] and half widths [LEVELS, rows] of a target, of rows whose outcome is known."""
        known = self.known(target)
        return (
            np.concatenate([values[:, target] for values in self.outcomes])[known],
            np.concatenate([values[:, target] for values in self.means])[known],
            np.concatenate([values[:, :, target] for values in self.widths], axis=1)[:, known],
        )

    def known(self, target: int) -> NDArray[np.bool_]:
        """Whether each row's outcome is known."""
        return np.asarray(np.isfinite(np.concatenate([values[:, target] for values in self.outcomes])))

    def unanswered(self, target: int) -> int:
        """How many rows whose outcome is known have no prediction."""
        return int(np.isnan(self.of(target)[1]).sum())


def drives_of(rows: Observations) -> Labels:
    """The drive of each row, or the mix: what levels and coverage are taken of apart."""
    return rows.labels["drive" if "drive" in rows.labels else "mix"]


def score(answers: Answers, target: int) -> dict[str, Any]:
    """R2 of logarithms, quantiles of the relative error, and the share of outcomes within their intervals.

    ``r2_within`` is of what varies within drives, or mixes: differences between them, which a few probes
    show, count in ``r2`` alone.
    ``n_interval`` counts the outcomes that have an interval: coverage is of these, and None where there are none.
    ``coverage90_low`` and ``_high``: 95 % interval of that share (bootstrap over drive models, or over mixes).
    ``interval90_factor``: from the predicted value to the interval's ends, at the median. ``kept60`` to ``kept95``:
    share of the outcomes at or below what is predicted at that confidence.
    """
    truth, mean, widths = answers.of(target)
    blocks, drives = (np.concatenate(labels)[answers.known(target)] for labels in (answers.blocks, answers.drives))
    width = widths[-1]
    error = np.abs(np.expm1(mean - truth))
    squared = float(((truth - mean) ** 2).sum())
    around = _squares(truth)
    around_own = sum(_squares(truth[rows]) for rows in groups_of(drives))
    known = np.isfinite(width)
    within = (np.abs(truth - mean) <= width)[known]
    low, high = blocks_drawn(within, blocks[known]) if known.any() else (None, None)
    return {
        "n": len(truth),
        "n_interval": int(known.sum()),
        "r2": 1 - squared / around if around > 0 else None,
        "r2_within": 1 - squared / around_own if around_own > 0 else None,
        "median_error": float(np.median(error)),
        "p90_error": float(np.quantile(error, 0.9)),
        "coverage90": float(within.mean()) if known.any() else None,
        "coverage90_low": low,
        "coverage90_high": high,
        "interval90_factor": float(np.exp(np.median(width[known]))) if known.any() else None,
        **{
            f"kept{percent}": float((truth <= mean + far)[known].mean()) if known.any() else None
            for percent, far in zip(CONFIDENCES[1:], widths, strict=True)
        },
    }


def _squares(values: Floats) -> float:
    """Sum of squares about the mean."""
    return float(((values - values.mean()) ** 2).sum())


def least_covered(seeds: Sequence[Answers], target: int) -> float | None:
    """Least share of outcomes within 90 % intervals over drives, or mixes, of :data:`ENOUGH` rows or more.

    None where no drive has so many, or there are no intervals.
    """
    kept: dict[str, list[bool]] = {}
    for seed in seeds:
        truth, mean, widths = seed.of(target)
        within = np.abs(truth - mean) <= widths[-1]
        drives = np.concatenate(seed.drives)[seed.known(target)]
        for drive, one, width in zip(drives, within, widths[-1], strict=True):
            if np.isfinite(width):
                kept.setdefault(str(drive), []).append(bool(one))
    shares = [sum(one) / len(one) for one in kept.values() if len(one) >= ENOUGH]
    return min(shares, default=None)


def blocks_drawn(within: NDArray[np.bool_], blocks: Labels) -> tuple[float, float] | tuple[None, None]:
    """The 0.025 and 0.975 quantiles of the mean of ``within`` over as many blocks drawn with replacement.

    None of one block, which says nothing of how blocks differ.
    """
    groups = groups_of(blocks)
    if len(groups) < 2:
        return None, None
    inside, rows = (np.array([part[group].sum() for group in groups], float) for part in (within, np.ones(len(within))))
    drawn = np.random.default_rng(FIRST_SEED).integers(0, len(groups), (DRAWS, len(groups)))
    low, high = np.quantile(inside[drawn].sum(1) / rows[drawn].sum(1), (0.025, 0.975))
    return float(low), float(high)
