# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables in which some latencies were not recorded, as those of a tenant that only reads."""

import math
from pathlib import Path

import numpy as np
import pytest
from linnet.place import judge as judging
from linnet.place import moments
from linnet.place.answers import TARGETS
from linnet.place.fitted_file import from_bytes
from linnet.place.fitting import fit_model, model_file
from linnet.place.models.model import NAMES
from linnet.place.observations import Observations, observe, together
from linnet.tables import NEEDED, THREAD_QUANTILES
from place_tables import tenant, write_iocost, write_ssdiq

WRITE = 3
"""Index of the p99 of writes among the targets."""


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    folder = tmp_path_factory.mktemp("drives")
    write_ssdiq(folder, ("a0", "b0"), repeats=1)
    return observe(folder)["ssdiq"]


def reading(folder: Path) -> Observations:
    """The same drives with all targets, and no latency of writes of tenant 0."""
    write_ssdiq(folder, ("a0", "b0"), repeats=1)
    path = folder / "ssdiq-threads-1.csv"
    columns = NEEDED["ssdiq-threads"]
    empty = [columns.index(f"write_{name}_us") for name in THREAD_QUANTILES]
    head, *lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines:
        if line[columns.index("tenant")] == "0":
            for column in empty:
                line[column] = ""
    path.write_text("\n".join(",".join(line) for line in [head, *lines]) + "\n")
    return observe(folder, TARGETS)["ssdiq"]


def judged(rows: Observations, models: tuple[str, ...]) -> dict[tuple[str, str], dict]:
    found, absent = judging.judge({"ssdiq": rows}, None, ["unseen-load"], models, 1, 0, lambda done: None)
    assert not absent
    return {(row["model"], row["target"]): row for row in found}


@pytest.mark.parametrize("models", [("queueing", "interpolation"), pytest.param(NAMES, marks=pytest.mark.slow)])
def test_reads_are_judged_where_writes_were_not_recorded(drives: Observations, models: tuple[str, ...]) -> None:
    whole = judged(drives, models)
    reads = drives.take(np.arange(len(drives)))
    reads.outcomes[:, WRITE] = math.nan
    found = judged(reads, models)
    assert set(found) == {key for key in whole if key[1].startswith("read_")}
    for key, row in found.items():
        assert row == whole[key]


@pytest.mark.parametrize("models", [("queueing", "interpolation"), pytest.param(NAMES, marks=pytest.mark.slow)])
def test_each_latency_is_judged_by_the_rows_that_have_it(drives: Observations, models: tuple[str, ...]) -> None:
    some = drives.take(np.arange(len(drives)))
    lacking = some.inputs["minute_s"] == 120
    some.outcomes[lacking, WRITE] = math.nan
    for (_, target), row in judged(some, models).items():
        assert row["n"] == len(some) - (lacking.sum() if target.startswith("write_") else 0)
        assert math.isfinite(row["r2"]) and 0 <= row["coverage90"] <= 1
    cells = len(set(some.labels["cell"]))
    best = {row["target"]: row["n"] for row in judging.ceiling({"ssdiq": some.take(~lacking)})}
    assert not best or max(best.values()) <= 2 * cells


@pytest.mark.parametrize("column", [0, 2])
def test_protected_runs_that_lack_one_outcome_have_the_others(tmp_path: Path, column: int) -> None:
    names = ("lat_imp_mean", "prot_read_p50_mean_us", "prot_read_p99_mean_us", "prot_read_p99_9_mean_us")
    write_iocost(tmp_path, **{names[column]: ""})
    rows = observe(tmp_path)["iocost"]
    assert len(rows) == 4 and not rows.dropped
    assert np.isnan(rows.outcomes).sum() == 1 == np.isnan(rows.outcomes[:, column]).sum()
    models = ("queueing", "interpolation", "linnet")
    found, absent = judging.judge({"iocost": rows}, None, ["unseen-load"], models, 1, 0, lambda done: None)
    assert not absent
    for row in found:
        assert row["n"] == (3 if row["target"] == rows.targets[column] else 4)
        assert math.isfinite(row["median_error"])


def test_a_latency_that_nobody_can_answer_is_named(drives: Observations) -> None:
    """Writes of one cell alone: where it is tried, no model has seen any."""
    one = drives.take(np.arange(len(drives)))
    other = one.labels["cell"] != "a0|50000"
    one.outcomes[other, WRITE] = math.nan
    models = ("queueing", "interpolation")
    found, absent = judging.judge({"ssdiq": one}, None, ["unseen-load"], models, 1, 0, lambda done: None)
    write, reads = one.targets[WRITE], [name for name in one.targets if name.startswith("read_")]
    assert {(row["target"], row["model"]) for row in found} == {(name, model) for name in reads for model in models}
    of = {"source": "ssdiq", "split": "unseen-load", "target": write, "n": 3, "unanswered": 3}
    assert absent == [of | {"model": model} for model in models]


def test_a_latency_of_which_nothing_is_left_to_try_is_named(drives: Observations) -> None:
    one = drives.take(np.arange(len(drives)))
    one.outcomes[one.inputs["load"] < 500_000, WRITE] = math.nan
    # The first minute that is asked for is of the highest load.
    found, absent = judging.judge({"ssdiq": one}, None, ["unseen-drive"], ["queueing"], 1, 1, lambda done: None)
    assert one.targets[WRITE] not in {row["target"] for row in found}
    (lacking,) = absent
    assert lacking["target"] == one.targets[WRITE] and lacking["n"] == lacking["unanswered"] == 0


def test_a_score_says_how_many_outcomes_have_an_interval(drives: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    (row, *_), _ = judging.judge({"ssdiq": drives}, None, ["unseen-load"], ["queueing"], 1, 0, lambda done: None)
    assert row["n_interval"] == row["n"] == len(drives)
    inner = judging.inner_folds
    told: list[int] = []

    def first(*asked: object) -> list:
        told.append(len(told))
        return inner(*asked) if told[-1] == 0 else []

    monkeypatch.setattr(judging, "inner_folds", first)
    (row, *_), _ = judging.judge({"ssdiq": drives}, None, ["unseen-load"], ["queueing"], 1, 0, lambda done: None)
    assert 0 < row["n_interval"] < row["n"] and 0 <= row["coverage90"] <= 1
    monkeypatch.setattr(judging, "inner_folds", lambda *asked: [])
    (row, *_), _ = judging.judge({"ssdiq": drives}, None, ["unseen-load"], ["queueing"], 1, 0, lambda done: None)
    assert row["n_interval"] == 0 and row["coverage90"] is None


def test_a_minute_that_two_folders_have_is_found(tmp_path: Path) -> None:
    rows = reading(tmp_path)
    assert len(rows) == 90 and np.isnan(rows.outcomes).any() and not rows.dropped
    with pytest.raises(ValueError, match="is also in one; give it once"):
        together([("one", rows), ("two", rows)])


@pytest.mark.slow
def test_a_model_of_reads_answers_for_reads(tmp_path: Path) -> None:
    rows = reading(tmp_path / "reads")
    write_ssdiq(tmp_path / "all", ("a0", "b0"), repeats=1)
    whole = fit_model(observe(tmp_path / "all", TARGETS)["ssdiq"], 42, lambda done: None)
    model = from_bytes(model_file(fit_model(rows, 42, lambda done: None)))
    drive, reader, writer = model.drives["a0"], tenant("r", 5000.0, 0.0), tenant("w", 1000.0, 30_000.0)
    (said,), (known,) = (one.predict([drive], [reader], [[writer]]) for one in (model, whole))
    for name in [*TARGETS, "read_bandwidth_mean"]:
        if name.startswith("read"):
            assert math.isfinite(said[name].value) and said[name] == known[name]
    assert model.unmeasured(drive, [reader]) is None
    assert np.isfinite(model.sums(moments.rows([reader, writer]))).all(), "what may be outstanding, too"
    (said,) = model.predict([drive], [writer], [[reader]])
    assert all(math.isnan(one.value) for name, one in said.items() if name.startswith("write_latency"))
    assert model.unmeasured(drive, [writer]) == "no latency of writes was measured"
