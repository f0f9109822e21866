# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scores of interference models on simulated co-location."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import _native, write_trace
from linnet.cli import app
from linnet.place import moments
from linnet.place.label import Labeller, Plan
from linnet.place.words import METRICS
from linnet.studies import colocation
from linnet.studies.colocation import SPLITS, UNSEEN_TRACE, Seen, seen_of, split_of
from linnet.studies.colocation_page import means
from typer.testing import CliRunner

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
PLAN = Plan("sata", 24, (2, 12), 16, seconds=0.1, warm_s=0.02)


@pytest.fixture(scope="module")
def rows() -> Seen:
    labeller = Labeller(PLAN, threads=2)
    library = labeller.library(lambda *_: None)
    return seen_of("sata", library, labeller.runs(library, lambda *_: None))


def test_neighbours_are_aggregated_as_the_profiles_are(rows: Seen) -> None:
    for row in (0, 7, len(rows.run) - 1):
        beside = (rows.run == rows.run[row]) & (np.arange(len(rows.run)) != row)
        np.testing.assert_allclose(rows.others[row], _native.aggregate_features(rows.own[beside]), rtol=1e-6, atol=1e-6)
        rate = rows.plain_own[beside][:, [1, 5]].sum(axis=1)
        np.testing.assert_allclose(rows.plain_others[row], np.average(rows.plain_own[beside], axis=0, weights=rate))


def test_merged_classes_keep_rates_and_bandwidths(rows: Seen) -> None:
    both = colocation.merged(rows.own)
    assert both.shape[1] == 15
    read = rows.own[:, moments.RATE[:2]].sum(axis=1)
    np.testing.assert_allclose(both[:, 1], read)
    np.testing.assert_allclose(both[:, 0] * both[:, 1], rows.own[:, moments.BANDWIDTH[:2]].sum(axis=1), rtol=1e-6)


def test_splits_keep_apart_what_they_name(rows: Seen) -> None:
    for name in SPLITS:
        train, tried = split_of(rows, name, 1)
        assert len(train) and len(tried) and not set(train) & set(tried)
    for name, keys in (("by-run", rows.run), ("unseen-workload", rows.workload)):
        train, tried = split_of(rows, name, 1)
        assert not set(keys[train]) & set(keys[tried])
    train, tried = split_of(rows, "few-to-many", 0)
    assert rows.tenants[train].max() <= 8 < rows.tenants[tried].min()
    traces = Seen(**{**vars(rows), "trace": np.array(["a", "b", "c"])[rows.workload % 3]})
    train, tried = split_of(traces, UNSEEN_TRACE, 1)
    assert not set(traces.trace[train]) & set(traces.trace[tried]) and len(train) and len(tried)
    with pytest.raises(ValueError, match="unseen-trace needs samples of at least two traces"):
        split_of(rows, UNSEEN_TRACE, 1)
    leaking = [set(rows.run[part]) for part in split_of(rows, "random", 1)]
    assert leaking[0] & leaking[1]


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forests of tests that ask what they see, and not how well they predict."""
    monkeypatch.setattr(colocation, "TREES", 10)


@pytest.mark.usefixtures("few_trees")
def test_no_model_sees_what_it_is_tried_on(rows: Seen) -> None:
    train, tried = split_of(rows, "by-run", 0)
    train, tried = (part[colocation.measured(rows, 0)[part]] for part in (train, tried))
    changed = Seen(**{**vars(rows), "metrics": rows.metrics.copy()})
    changed.metrics[tried] *= -7.0
    for model in colocation.MODELS:
        first = colocation.predict(model, rows, 0, train, tried)
        np.testing.assert_array_equal(first, colocation.predict(model, changed, 0, train, tried))


def test_ablations_lack_their_features_only(rows: Seen) -> None:
    full = colocation.INPUTS["gray-box"](rows).shape[1]
    assert full - colocation.INPUTS["without burstiness"](rows).shape[1] == 2 * 8
    assert full - colocation.INPUTS["without offset"](rows).shape[1] == 2 * 4
    assert colocation.INPUTS["without size"](rows).shape[1] == 2 * 15


def test_errors_are_relative_to_the_forest_of_the_same_shuffle() -> None:
    scores = [
        {"drive": "sata", "split": "random", "shuffle": n, "metric": METRICS[0], "model": model}
        | {"r2": 0.5, "mae": mae, "mae_of_mean": 0.1, "n": 3, "train": 9}
        for n, forest in enumerate((2.0, 8.0))
        for model, mae in (("gray-box", forest), ("linnet", 1.0))
    ]
    assert {row["model"]: row["mae_of_graybox"] for row in means(scores)} == {"gray-box": 1.0, "linnet": 0.312}


@pytest.mark.usefixtures("few_trees")
def test_the_command_keeps_scores_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Until the drive is steady, a warm-up computes a hundred times what is measured here.
    monkeypatch.setattr("linnet.studies.cli.colocation.Plan", partial(Plan, warm_s=PLAN.warm_s))
    keep = tmp_path / "scores.jsonl"
    ask = ["study", "colocation", "--drive", "sata", "--runs", "20", "--workloads", "16", "--seconds", "0.1"]
    ask += ["--model", "weighted mean", "--split", "few-to-many", "--keep", str(keep), "--json"]
    first = CliRunner().invoke(app, ask, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    before = keep.read_bytes()
    assert len(before.splitlines()) == len(METRICS)
    # The last score is made again, from the runs that were kept.
    keep.write_bytes(b"".join(before.splitlines(keepends=True)[:-1]))
    runs = (tmp_path / "scores.jsonl.runs").read_bytes()
    again = CliRunner().invoke(app, ask, catch_exceptions=False)
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert keep.read_bytes() == before and (tmp_path / "scores.jsonl.runs").read_bytes() == runs


def test_scores_of_traces_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def score_of(files: tuple[str, ...], task: tuple[str, int, str, str]) -> dict[str, object]:
        tried.append(files)
        head = dict(zip(("split", "shuffle", "metric", "model"), task, strict=True))
        return {"drive": "sata", **head, "train": 9, "n": 3, "r2": 0.5, "mae": 1.0, "mae_of_mean": 0.1}

    monkeypatch.setattr("linnet.studies.cli.colocation._label", lambda plan, *rest: plan.traces)
    monkeypatch.setattr("linnet.studies.cli.colocation.score_of", score_of)
    for number in (1, 2, 1):
        path = tmp_path / f"o{number}" / "odd.csv"
        path.parent.mkdir(exist_ok=True)
        write_trace(device_trace(number, 100), path)
        ask = ["study", "colocation", "--drive", "sata", "-t", str(path), "--model", "linnet", "--split", "by-run"]
        done = CliRunner().invoke(app, [*ask, "--keep", str(tmp_path / "scores.jsonl"), "--json"])
        assert done.exit_code == 0, done.output
    assert len(set(tried)) == 2 and len(tried) == 2 * len(METRICS)
