# SPDX-License-Identifier: MIT OR Apache-2.0
"""The studies of drift, probing and shapes: their results have the promised form and repeat exactly."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import LearnError, Trace, write_trace
from linnet._native import history_rows, training_rows
from linnet.studies.drift import STRATEGIES, one_after_the_other, study

FIGURES = {"rows", "base_rate", "accuracy", "balanced_accuracy", "roc_auc", "false_submit", "false_revoke"}


def slower(trace: Trace, factor: int) -> Trace:
    """The same reads on a device that takes longer for each."""
    columns = trace.columns()
    columns["latency_ns"] = columns["latency_ns"] * np.uint64(factor)
    columns["arrive_ns"] = columns["arrive_ns"] * np.uint64(factor)
    return Trace.from_columns("slower", **columns)


def test_parts_follow_each_other_without_meeting() -> None:
    first, second = device_trace(reads=500), device_trace(seed=1, reads=500)
    whole = one_after_the_other([first, second]).columns()
    ends = whole["arrive_ns"][:500] + whole["latency_ns"][:500]
    assert len(whole["arrive_ns"]) == 1000
    assert whole["arrive_ns"][500] > ends.max()


def test_a_device_that_slows_down_is_noticed_and_learned_again() -> None:
    trace = one_after_the_other([device_trace(reads=8000), slower(device_trace(seed=2, reads=8000), 8)])
    found = study(trace, window=1200, block_ms=0)
    happened = [one["what"] for one in found["happenings"]]
    assert happened[0] == "fitted"
    assert "alarm" in happened
    assert set(found["mean"]) == set(found["fits"]) == set(STRATEGIES)
    assert set(found["chunks"][0]["drift"]) == FIGURES | {"merit", "own_accuracy"}
    assert 0 < found["checks_of_calibration"] < found["checks"]
    assert found["fits"]["once"] == 1 < found["fits"]["drift"] < found["fits"]["always"]
    last = found["chunks"][-1]
    assert last["drift"]["own_accuracy"] >= last["once"]["own_accuracy"]
    with pytest.raises(LearnError, match="rows"):
        study(device_trace(reads=1000), window=1200)


def test_the_commands_give_json_figures_and_clear_errors(linnet, tmp_path: Path) -> None:
    file, picture = tmp_path / "made.parquet", tmp_path / "drift.svg"
    write_trace(device_trace(reads=8000), file)
    command = ["study", "drift", "-t", file, "--window", 1200, "--block-ms", 0, "--figure", picture, "--json"]
    first = linnet(*command)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["window"] == 1200
    assert linnet(*command).stdout == first.stdout
    assert picture.read_text().startswith("<svg")
    for wrong in (["drift"], ["drift", "-t", file, "--model", "x"], ["probing", "--probe-share", "2"], ["shapes"]):
        done = linnet("study", *wrong)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_shapes_have_accuracy_and_cost(linnet, tmp_path: Path) -> None:
    file = tmp_path / "made.parquet"
    write_trace(device_trace(reads=3000), file)
    done = linnet("study", "shapes", "-t", file, "--shape", "A,31-16,linnet", "--epochs", 2, "--blocks", 11, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["shape"] for row in found["rows"]] == ["A", "31-16", "linnet"]
    assert all(set(row) == FIGURES | {"trace", "shape"} for row in found["rows"])
    costs = {one["shape"]: one for one in found["costs"]}
    assert costs["A"]["parameters"] == 17 * 128 + 128 + 128 * 2 + 2
    assert all(ns["submit"] > 0 for one in costs.values() for ns in one["ns"].values())


def test_four_remembered_reads_are_the_rows_that_serve() -> None:
    trace = device_trace(reads=500)
    for ours, theirs in zip(history_rows(trace, 4, 1_000_000), training_rows(trace, 1_000_000), strict=True):
        assert np.array_equal(ours, theirs)
    digits, _ = history_rows(trace, 10, 1_000_000)
    assert digits.shape[1] == 73


def test_probing_estimates_what_peeks_know(linnet) -> None:
    command = ["study", "probing", "-w", "az-e", "--preset", "enterprise-wide", "--seconds", 4, "--policy", "linnos"]
    done = linnet(*command, "--probe-share", "0.2", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    value, low, high = row["false_of_tosses"]
    assert low < value < high
    # Fixed seed, so this is no chance: the interval covers the truth here.
    assert low <= row["false_of_tosses_truth"] <= high
    assert 0.15 < row["probes"] / row["tosses"] < 0.25
