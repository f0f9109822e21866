# SPDX-License-Identifier: MIT OR Apache-2.0
"""What scores say of single drives."""

import math

import numpy as np
import pytest
from linnet.place.scores import LEVELS, Answers, least_covered, score


def answers(drive: list[str], truth: list[float], mean: list[float], width: float) -> Answers:
    """Of one target, with one width for all."""
    names, rows = np.array(drive, dtype=object), np.array(truth)[:, None]
    widths = np.full((len(LEVELS), len(truth), 1), width)
    return Answers([rows], [np.array(mean)[:, None]], [widths], [names], [names])


def test_what_varies_within_drives_has_a_score_of_its_own() -> None:
    """A model that knows each drive's level and nothing else looks good over drives that differ."""
    truth = [0.0, 1.0, 0.0, 1.0, 10.0, 11.0, 10.0, 11.0]
    levels = answers(["a"] * 4 + ["b"] * 4, truth, [0.5] * 4 + [10.5] * 4, 1.0)
    found = score(levels, 0)
    assert found["r2"] > 0.98 and found["r2_within"] == pytest.approx(0.0)
    flat = answers(["a"] * 2 + ["b"] * 2, [1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0], 1.0)
    assert score(flat, 0)["r2_within"] is None


def test_the_drive_whose_intervals_fail_is_not_hidden_by_the_others() -> None:
    drive = ["a"] * 40 + ["b"] * 10 + ["c"] * 9
    truth = [0.0] * 40 + [0.0] * 4 + [2.0] * 6 + [2.0] * 9
    one = answers(drive, truth, [0.0] * 59, 1.0)
    assert least_covered([one], 0) == pytest.approx(0.4), "c has too few rows to say"
    assert least_covered([answers(drive, truth, truth, math.nan)], 0) is None
