# SPDX-License-Identifier: MIT OR Apache-2.0
"""Thresholds at asked rates of false revokes."""

from __future__ import annotations

import numpy as np
import pytest
from linnet.experiment import Experiment, Setup, periods
from linnet.learning import FitSettings
from linnet.studies.revokes import TREE_ONE, figures, latency_rows, summary, threshold_at


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


def test_a_lower_rate_of_false_revokes_revokes_less_and_sends_no_second_copies() -> None:
    setup = Setup("consumer-deep", 3, 1, fit=FitSettings(epochs=1))
    train, test = periods("az-e", 4.0, setup)
    rows = latency_rows(Experiment(train, setup, "az-e", test=test), "own")
    by = {row["policy"]: row for row in rows}
    rates = [by[f"revoke, {asked}"]["revoked"] for asked in ("0.5 %", "1 %", "2 %", "5 %")]
    assert rates == sorted(rates) and 0 < rates[0] < rates[-1]
    assert all(row["extra_io_share"] == 0 for name, row in by.items() if name.startswith("revoke"))
    unsteered = [by[f"revoke, {asked}"]["unsteered"] for asked in ("0.5 %", "1 %", "2 %", "5 %")]
    assert unsteered == sorted(unsteered) and unsteered[0] < unsteered[-1] < 1
    lines = {line["policy"]: line for line in summary(rows)}
    assert lines["baseline"]["mean"] == 1 and lines["baseline"]["revoked"] is None
    assert lines["revoke, even odds"]["revoked"] == by["revoke, even odds"]["revoked"]
