# SPDX-License-Identifier: MIT OR Apache-2.0
"""The study of what the model is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from linnet import Trace
from linnet._native import policies
from linnet.experiment import DEPLOYED, LEARNED, overview
from linnet.studies import worth


def row(trace: str, ratio: float, metric: str = "mean") -> dict[str, object]:
    return {"trace": trace, "metric": metric, "ratio": ratio}


def test_reported_seeds_and_tuning_seeds_are_apart() -> None:
    assert not set(worth.reported_seeds(1_000)) & set(worth.split()["seeds"]["tuning"])
    assert worth.reported_seeds(3) == [100, 101, 102]


def test_the_rules_have_no_model_and_the_rival_has_our_hedge_and_probe() -> None:
    rules = worth.rules()
    assert {"ewma-hedged", "md-raid1", "shortest-queue", "baseline"} <= set(rules)
    assert not {"linnet-best", "linnos", "trees-only", "oracle", "clone"} & set(rules)


def test_what_the_overview_leaves_out_is_known_to_the_engine() -> None:
    assert set(policies()) >= DEPLOYED | LEARNED
    assert not DEPLOYED & set(overview()) and {"baseline", "linnet-best", "oracle"} <= set(overview())


def test_wins_losses_and_the_mean_are_counted_per_metric() -> None:
    rows = [row("a", 0.90), row("a", 0.96), row("b", 1.03), row("b", 1.01), row("a", 0.5, "p99")]
    mean, p99 = worth.summary(rows)
    assert (mean["cells"], mean["won_by_5"], mean["lost_by_2"]) == (4, 1, 1)
    assert mean["ratio_geomean"] == pytest.approx((0.90 * 0.96 * 1.03 * 1.01) ** 0.25)
    assert mean["low95"] < mean["ratio_geomean"] < mean["high95"]
    assert (p99["ratio_geomean"], p99["low95"], p99["high95"]) == (0.5, 0.5, 0.5)


def test_cells_of_one_trace_do_not_narrow_the_interval() -> None:
    apart = worth.summary([row(str(k), 0.8 + 0.4 * (k % 2)) for k in range(20)])[0]
    together = worth.summary([row(str(k % 2), 0.8 + 0.4 * (k % 2)) for k in range(20)])[0]
    assert together["high95"] - together["low95"] > 2 * (apart["high95"] - apart["low95"])


def test_ties_are_broken_by_a_hash_and_nothing_else_moves() -> None:
    arrive = np.array([5, 5, 5, 5, 9, 9, 20], dtype=np.uint64)
    count = len(arrive)
    trace = Trace.from_columns(
        "ties",
        arrive,
        np.zeros(count, np.uint8),
        np.arange(count, dtype=np.uint64) * 4096,
        np.full(count, 4096, np.uint32),
        np.zeros(count, np.uint32),
        np.full(count, 80_000, np.uint64),
    )
    orders = {tuple(worth.without_ties(trace, seed).columns()["offset_bytes"] // 4096) for seed in range(20)}
    assert len(orders) > 5
    for order in orders:
        assert sorted(order[:4]) == [0, 1, 2, 3] and sorted(order[4:6]) == [4, 5] and order[6] == 6


@pytest.mark.slow
def test_the_command_answers_with_rows_and_a_summary(linnet: Callable[..., Any]) -> None:
    result = linnet("study", "worth", "-w", "bs-c", "--seconds", "4", "--seeds", "1", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [row["metric"] for row in found["rows"]] == ["mean", "p99", "p999"]
    for row_ in found["rows"]:
        assert row_["writes"] == "all" and row_["seed"] == 100 and row_["engine"] == "timelines"
        assert row_["ratio"] == pytest.approx(row_["learned_us"] / row_["best_rule_us"])
        assert row_["best_rule_us"] <= row_["ewma_hedged_us"]
    assert [line["cells"] for line in found["summary"]] == [1, 1, 1]
