# SPDX-License-Identifier: MIT OR Apache-2.0
"""Thresholds at asked rates of false revokes."""

from __future__ import annotations

import numpy as np
import pytest
from linnet.studies.revokes import TREE_ONE, figures, threshold_at


def test_a_threshold_allows_as_many_false_revokes_as_asked_and_no_lower_one_does() -> None:
    chance = np.random.default_rng(1)
    score = chance.integers(-3_000, 3_000, 2_000).astype(np.int32)
    slow = chance.random(2_000) < 1 / (1 + np.exp(-score / TREE_ONE))
    for asked in (0.0, 0.005, 0.02, 0.3):
        threshold = threshold_at(score, slow, asked)
        assert figures(score, slow, threshold)["false_revoke"] <= asked
        assert figures(score, slow, threshold - 1)["false_revoke"] > asked


def test_with_few_fast_reads_every_read_may_be_revoked() -> None:
    score = np.array([-5, 3, 7, 9], dtype=np.int32)
    slow = np.array([False, True, True, True])
    assert threshold_at(score, slow, 0.5) == -6
    found = figures(score, slow, -6)
    assert found == pytest.approx({"false_revoke": 0.25, "false_submit": 0.0, "revoked": 1.0})


def test_reads_of_one_score_are_not_divided() -> None:
    score = np.zeros(10, dtype=np.int32)
    slow = np.zeros(10, dtype=bool)
    assert figures(score, slow, threshold_at(score, slow, 0.5))["revoked"] == 0.0
