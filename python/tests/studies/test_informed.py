# SPDX-License-Identifier: MIT OR Apache-2.0
"""The study of what a model of a given accuracy would be worth."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from linnet._native import PolicyError, informed
from linnet.experiment import Experiment, Setup, periods
from linnet.learning import FitSettings
from linnet.studies.informed import AUCS, BEST, HEDGED, OURS, distance, summary, table_of


@pytest.fixture(scope="module")
def learnt() -> Experiment:
    setup = Setup("consumer-deep", 3, 0, writes_to_all=True, fit=FitSettings(epochs=1))
    train, test = periods("bs-c", 24.0, setup)
    experiment = Experiment(train, setup, "bs-c", test=test)
    experiment.learn()
    return experiment


def run(experiment: Experiment, between: float | None, overdue: bool = False) -> tuple[Any, float | None, float]:
    models = [fitted.model for fitted in experiment.fitted]
    slow_ns = [round(1000 * fitted.report["slow_above_us"]) for fitted in experiment.fitted]
    return informed(
        experiment.array, experiment.run_part, models, between, slow_ns, overdue=overdue, **experiment.run_settings()
    )


def test_distances() -> None:
    assert distance(0.5) == 0
    assert distance(0.9) == pytest.approx(1.8124, abs=1e-4)
    assert distance(1.0) == math.inf


def test_with_its_trees_it_is_linnet_best(learnt: Experiment) -> None:
    own, compared, slow = run(learnt, None)
    best = learnt.run(OURS).row
    assert {name: own.row()[name] for name in ("mean_us", "p99_us", "p999_us", "extra_io")} == {
        name: best[name] for name in ("mean_us", "p99_us", "p999_us", "extra_io")
    }
    assert compared is not None and 0.5 < compared < 1
    assert 0 < slow < 0.5


def test_what_is_always_right_compares_without_error(learnt: Experiment) -> None:
    found = {auc: run(learnt, distance(auc)) for auc in (0.5, 0.9, 1.0)}
    aucs = [found[auc][1] for auc in (0.5, 0.9, 1.0)]
    assert aucs == sorted(aucs) and aucs[2] == 1.0
    chance, good, perfect = (found[auc][0].row()["mean_us"] for auc in (0.5, 0.9, 1.0))
    assert perfect < 0.95 * chance and perfect < good < chance


def test_a_drive_that_owes_an_answer_is_avoided() -> None:
    setup = Setup("consumer-deep", 3, 0, writes_to_all=True, stalls_per_minute=30.0, fit=FitSettings(epochs=1))
    train, test = periods("az-c", 20.0, setup)
    experiment = Experiment(train, setup, "az-c", test=test)
    experiment.learn()
    own = run(experiment, None, overdue=True)[0].row()
    assert own["mean_us"] < 0.8 * experiment.run(HEDGED).row["mean_us"]


def test_it_says_what_it_needs(learnt: Experiment) -> None:
    with pytest.raises(PolicyError, match="2 latencies above which a read is slow, for 3 devices"):
        informed(learnt.array, learnt.run_part, [], 1.0, [1, 1])


def test_ratios_are_to_the_rivals_of_the_cell() -> None:
    key = {"trace": "t", "preset": "p", "writes": "all", "seed": 1, "load": "busy", "slow_share": 0.1}

    def row(policy: str, us: float, compared: float | None = None) -> dict[str, Any]:
        return key | {"policy": policy, "compared_auc": compared, "mean_us": us, "p99_us": us, "p999_us": us}

    lines = summary([row(BEST, 50), row(HEDGED, 100), row("AUC 0.9", 75, 0.95)])
    assert lines[2]["mean to ewma-hedged"] == pytest.approx(0.75)
    assert lines[2]["p999 to best rule"] == pytest.approx(1.5)
    assert "| AUC 0.9 | 0.950 | 0.750, 0.750, 0.750 | 1.500, 1.500, 1.500 |" in table_of(lines)


@pytest.mark.slow
def test_the_command(tmp_path: Path, linnet: Any, shared: Path) -> None:
    words = ("study", "informed", "--traces", shared / "traces", "--cells", "2", "--ios", "6000", "--json")
    found = json.loads(linnet(*words, "--page", str(tmp_path / "page.md")).stdout)
    assert {line["policy"] for line in found["summary"]} >= {BEST, HEDGED, OURS, *(f"AUC {auc:g}" for auc in AUCS)}
    assert "| linnet-best | 0." in (tmp_path / "page.md").read_text()
