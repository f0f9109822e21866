# SPDX-License-Identifier: MIT OR Apache-2.0
"""Splits, models and the judge, on drives whose law is known; and on real ones where they are at hand."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from linnet.place import gaussian
from linnet.place import judge as judging
from linnet.place.gaussian import Slopes
from linnet.place.models import open_loop
from linnet.place.models.capacity import Capacity
from linnet.place.models.closed_loop import ClosedLoop, growth
from linnet.place.models.model import by_cell, groups_of, hidden
from linnet.place.models.throttled import Throttled
from linnet.place.observations import Observations, observe
from linnet.place.probing import probe_drive
from linnet.place.scores import blocks_drawn
from linnet.place.splits import against, folds, inner_folds
from linnet.tables import COST_MODEL
from place_tables import DRIVES, read_p99_us, write_icpe, write_ssdiq

P99 = 1
"""Index of the p99 of reads among the targets."""


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    folder = tmp_path_factory.mktemp("drives")
    write_ssdiq(folder)
    return observe(folder)["ssdiq"]


def judged(rows: Observations, split: str, model: str, minutes: int = 0, seeds: int = 1) -> dict:
    """The row of the p99 of reads."""
    found, _ = judging.judge({rows.source: rows}, None, [split], [model], seeds, minutes, lambda done: None)
    (row,) = [one for one in found if one["target"] == "read_latency_p99_us"]
    return row


@pytest.mark.parametrize(
    ("split", "label"), [("unseen-load", "cell"), ("unseen-model-load", "model_load"), ("unseen-drive", "model")]
)
def test_no_group_is_on_both_sides(drives: Observations, split: str, label: str) -> None:
    tried = []
    for fold in folds(split, drives, 42):
        assert not set(fold.train.labels[label]) & set(fold.tried.labels[label])
        tried += list(fold.tried.labels["cell"])
        for inner in inner_folds(split, fold.train, 42):
            assert not set(inner.train.labels[label]) & set(inner.tried.labels[label])
            assert not set(inner.tried.labels["cell"]) & set(fold.tried.labels["cell"])
    assert sorted(tried) == sorted(drives.labels["cell"]), "every row is tried once"


def test_training_on_other_data_leaves_out_what_would_answer(drives: Observations) -> None:
    (fold,) = against("unseen-drive", drives, drives.take(drives.labels["model"] == "A"), 42)
    assert set(fold.train.labels["model"]) == {"B", "C", "D"}
    some = drives.take(drives.inputs["load"] == 50_000)
    (fold,) = against("unseen-load", drives, some, 42)
    assert 50_000 not in set(fold.train.inputs["load"])
    strange = drives.take(drives.labels["model"] == "A")
    others = drives.take(drives.labels["model"] != "A")
    found = against("unseen-load", others, strange, 42)
    assert len(found) == 4
    assert all("A" in set(fold.train.labels["model"]) for fold in found), "other loads of a strange drive train"


def with_twin(drives: Observations) -> Observations:
    """The drives, and b1, another of the model of b0 with the same measurements."""
    twin = drives.take(drives.labels["drive"] == "b0")
    for name in ("drive", "cell", "run"):
        twin.labels[name][:] = [label.replace("b0", "b1") for label in twin.labels[name]]
    return drives.joined(twin)


def test_a_load_is_left_out_of_all_drives_of_a_model(drives: Observations) -> None:
    rows = with_twin(drives)
    for fold in folds("unseen-model-load", rows, 42):
        assert ("B|80000" in fold.tried.labels["model_load"]) == ("b1|80000" in fold.tried.labels["cell"])
        for one in (fold, *inner_folds("unseen-model-load", fold.train, 42)):
            assert not set(one.train.labels["model_load"]) & set(one.tried.labels["model_load"])
    tried = rows.take(np.isin(rows.labels["cell"], ["b0|80000", "b0|90000"]))
    (fold,) = against("unseen-model-load", rows, tried, 42)
    assert not set(fold.train.labels["cell"]) & {"b0|80000", "b0|90000", "b1|80000", "b1|90000"}
    assert "b1|70000" in fold.train.labels["cell"]


@pytest.mark.parametrize(
    ("split", "label", "message"),
    [
        ("unseen-drive", "model", "ssdiq, unseen-drive: one drive model alone cannot be split"),
        ("unseen-model-load", "model_load", "ssdiq, unseen-model-load: one load alone cannot be split"),
    ],
)
def test_what_cannot_be_split_is_named(drives: Observations, split: str, label: str, message: str) -> None:
    one = drives.take(drives.labels[label] == drives.labels[label][0])
    with pytest.raises(ValueError, match=message):
        folds(split, one, 42)


@pytest.mark.slow
def test_ours_finds_the_plateau_and_the_hump_that_a_forest_misses(drives: Observations) -> None:
    ours, forest = (judged(drives, "unseen-load", name) for name in ("linnet", "forest"))
    assert ours["r2"] > 0.93
    assert ours["r2"] > forest["r2"]
    assert 0.8 <= ours["coverage90"] <= 1.0
    kept = [ours[f"kept{percent}"] for percent in (60, 70, 80, 90, 95)]
    assert kept == sorted(kept) and kept[2] >= 0.7 and kept[0] < kept[4]


@pytest.mark.slow
def test_without_the_measured_capacity_the_states_are_confused(
    drives: Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = judged(drives, "unseen-load", "linnet")

    def sheet_alone(known: Observations, asked: Observations | None = None) -> dict[str, Capacity]:
        return {name: Capacity(800_000.0, float(figures[1])) for name, figures in DRIVES.items()}

    monkeypatch.setattr(open_loop, "capacities", sheet_alone)
    assert judged(drives, "unseen-load", "linnet")["r2"] < whole["r2"] - 0.01


def reads_only(drives: Observations) -> Observations:
    """The same minutes, where reads took what writes take: of 800,000 a second, as the sheets have it."""
    share = {name: figures[2] / 800_000 for name, figures in DRIVES.items()}
    each = np.array([share[str(name)] for name in drives.labels["drive"]])
    nothing = np.zeros(len(drives))
    reads = drives.inputs["all_write_pages"] / each
    inputs = drives.inputs | {"all_read_pages": reads, "all_write_pages": nothing}
    achieved = {"read_pages": np.minimum(reads, 800_000.0), "write_pages": nothing}
    return replace(drives, inputs=inputs, achieved=achieved)


def test_reads_are_a_load(drives: Observations) -> None:
    rows = reads_only(drives)
    for name, least in (("linnet", 0.8), ("interpolation", 0.5)):
        assert judged(rows, "unseen-load", name)["r2"] > least, name


@pytest.mark.slow
def test_a_few_minutes_calibrate_a_new_drive(drives: Observations) -> None:
    before, after = (judged(drives, "unseen-drive", "linnet", minutes) for minutes in (0, 6))
    assert after["r2"] > 0.75
    assert after["r2"] > before["r2"] + 0.2
    assert after["n"] < before["n"], "cells that were probed are not tried"


def test_coverage_is_as_uncertain_as_its_few_drive_models() -> None:
    blocks = np.repeat(np.array(["a", "b", "c", "d"], dtype=object), 100)
    alike = np.tile(np.arange(100) < 90, 4)
    assert blocks_drawn(alike, blocks) == (0.9, 0.9)
    apart = np.repeat([True, True, True, False], 100)
    low, high = blocks_drawn(apart, blocks)
    assert low <= 0.25 and high == 1.0, "one model of four is missed as a whole"
    # A model with more rows counts for more.
    assert blocks_drawn(np.array([True] * 9 + [False]), np.array(["a"] * 9 + ["b"], dtype=object)) == (0.0, 1.0)


def test_one_block_has_no_interval_of_its_coverage() -> None:
    assert blocks_drawn(np.arange(10) < 9, np.array(["a"] * 10, dtype=object)) == (None, None)


def test_drives_that_probes_use_up_are_named(mixes: Observations, drives: Observations) -> None:
    few = drives.take((drives.inputs["load"] <= 30_000) | (drives.labels["drive"] == "b0"))
    few = few.take(np.isin(few.labels["drive"], ["a0", "b0", "c0"]))
    row = judged(few, "unseen-drive", "linnet", 3)
    assert row["untried"] == ["a0", "c0"] and row["n"] > 0
    with pytest.raises(ValueError, match="no load is left to try after 15 probes of each of a0, b0, c0; ask for fewer"):
        judged(few, "unseen-drive", "linnet", 15)


def test_the_first_probe_measures_capacity_and_no_outcome_is_seen_before(drives: Observations) -> None:
    tried = drives.take(drives.labels["model"] == "D")
    model = open_loop.OpenLoop()
    model.fit(drives.take(drives.labels["model"] != "D"))
    candidates = hidden(by_cell(tried)[0])
    assert np.isnan(candidates.outcomes).all() and np.isnan(candidates.achieved["write_pages"]).all()
    probes = probe_drive(model, tried, 5)
    assert probes is not None
    assert probes.inputs["load"][0] == 500_000
    assert len(set(probes.labels["cell"])) == 5, "no load is measured twice"
    assert sum(probes.inputs["load"] > 70_000) == 1, "beyond a known capacity nothing changes"
    capacity = open_loop.capacities(model.calibrated(probes).known)
    assert capacity["d0"].writes == pytest.approx(70_000, rel=0.1)
    hump = model.calibrated(probes).at(candidates)[0][:, P99]
    truth = [math.log(read_p99_us("d0", float(load))) for load in candidates.inputs["all_write_pages"]]
    assert np.median(np.abs(hump - truth)) < 0.15


def lightly(drives: Observations, achieved: float) -> Observations:
    """Drive b0, and a minute of it at 10 writes a second, of which a share was achieved."""
    own = drives.take(drives.labels["drive"] == "b0")
    light = own.take(np.array([0]))
    light.labels["cell"][:] = "b0|20"
    light.inputs["all_write_pages"][:] = 10.0
    light.achieved["write_pages"][:] = 10.0 * achieved
    return own.joined(light)


@pytest.mark.parametrize("achieved", [0.95, 0.9, 0.3])
def test_few_writes_say_nothing_of_the_capacity(drives: Observations, achieved: float) -> None:
    """In a minute of ten writes a second, 4 % are missing by chance; in a bad one, the drive stood still."""
    capacity = open_loop.capacities(by_cell(lightly(drives, achieved))[0])
    assert capacity["b0"].writes == pytest.approx(115_000, rel=0.05)
    below = lightly(drives, achieved)
    below = below.take(below.inputs["load"] <= 70_000)
    assert open_loop.capacities(by_cell(below)[0])["b0"].writes == 110_000, "the data sheet's, as no load held it back"


def test_a_drive_that_achieved_nothing_is_refused(drives: Observations) -> None:
    stalled = drives.take(drives.labels["drive"] == "b0")
    stalled.achieved["write_pages"][:] = 0.0
    with pytest.raises(ValueError, match="drive b0: writes were offered, and none was achieved"):
        open_loop.OpenLoop().fit(stalled)


def test_few_runs_of_a_strange_mix_train_for_its_many(mixes: Observations) -> None:
    strange = mixes.labels["mix"] == sorted(set(mixes.labels["mix"]))[0]
    (fold,) = against("few-to-many", mixes.take(~strange), mixes.take(strange), 42)
    assert fold.train.inputs["neighbours"].max() == 8 < fold.tried.inputs["neighbours"].min()
    assert set(fold.tried.labels["setting"]) <= set(fold.train.labels["setting"])
    known = against("few-to-many", mixes, mixes.take(strange), 42)[0].train
    assert len(known) == (mixes.inputs["neighbours"] <= 8).sum(), "what trains already is not joined again"
    most = mixes.take(~strange | (mixes.inputs["neighbours"] > 8))
    same = against("few-to-many", most, mixes.take(strange), 42)[0].train
    assert len(same) == len(fold.train), "many neighbours of the mix that do not train do not keep its few out"


def test_many_neighbours_follow_the_response_time_law(mixes: Observations) -> None:
    row = judged(mixes, "few-to-many", "linnet")
    assert row["median_error"] < 0.2 < judged(mixes, "few-to-many", "forest")["median_error"]
    assert row["coverage90"] >= 0.8
    model = ClosedLoop()
    model.fit(mixes.take(mixes.inputs["neighbours"] <= 8))
    assert model.share[P99].max() > 0.7


def test_latency_grows_no_faster_than_the_neighbours(mixes: Observations) -> None:
    """A step within the known numbers is not a slope: beyond them the response-time law bounds growth."""
    few = mixes.take(mixes.inputs["neighbours"] <= 8)
    few.outcomes[few.inputs["neighbours"] == 8] += math.log(20)
    few.outcomes[few.inputs["neighbours"] == 1] += math.log(20)
    model = ClosedLoop()
    model.fit(few)
    asked = mixes.take(mixes.inputs["neighbours"] >= 8)
    grown = growth(model.processes, model.known, asked)
    assert grown.max() == 1 and grown.min() >= 0
    model.share = np.ones((len(few.targets), 2))
    mean, spread = model.predict(asked)
    for group in groups_of(asked.labels["setting"]):
        rows = group[np.argsort(asked.inputs["neighbours"][group])]
        further = np.log(asked.inputs["neighbours"][rows] / 8)[:, None]
        assert np.all(mean[rows] - mean[rows[0]] <= further + 1e-9)
        assert np.all(np.diff(spread[rows], axis=0) > 0), "further out is less certain"


@pytest.mark.slow
def test_two_runs_place_an_unseen_mix(mixes: Observations) -> None:
    before, after = (judged(mixes, "unseen-mix", "linnet", points) for points in (0, 2))
    # Lines through two runs miss the knee of the law, at four neighbours.
    assert after["r2"] > 0.75 and before["r2"] < 0.2


def test_runs_of_a_setting_are_joined_by_lines(mixes: Observations) -> None:
    """Other mixes, which bend elsewhere, have no say between the runs of a setting."""
    strange = mixes.labels["mix"] == "64K"
    model = ClosedLoop()
    model.fit(mixes.take(~strange))
    setting = mixes.take(mixes.labels["setting"] == "64K|none")
    setting = setting.take(np.argsort(setting.inputs["neighbours"]))
    count = setting.inputs["neighbours"]
    probes = setting.take(np.isin(count, (4, 32)))
    calibrated = model.calibrated(probes)
    mean, spread = calibrated.predict(setting)
    at = np.log2(1 + count)
    alone = float(np.log(90.0))
    through = np.interp(at, [0, *at[np.isin(count, (4, 32))]], [alone, *probes.outcomes[:, P99]])
    np.testing.assert_allclose(mean[:, P99], through, atol=1e-6)
    assert spread[count == 16, P99] > 2 * spread[count == 32, P99], "between runs is less certain than at one"
    assert model.probes is None, "the model itself is what it was"


def test_a_write_that_steps_bends_a_rough_curve_less(drives: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 us up to a load, milliseconds from the next: a curve with a slope everywhere misses the loads beside it."""
    load = drives.inputs["load"]
    low, high = math.log(12), math.log(4000)
    stepped = replace(
        drives,
        targets=("read_latency_p99_us", "write_latency_p99_us"),
        outcomes=np.stack([drives.outcomes[:, P99], np.where(load > 50_000, high, low)], 1),
    )
    off = []
    for orders in ((0.5,), (1.5,)):
        monkeypatch.setattr(open_loop, "WRITE_ORDERS", orders)
        model = open_loop.OpenLoop()
        model.fit(stepped.take(load != 40_000))
        assert model.processes[1].roughness == orders[0]
        off.append(np.abs(model.predict(stepped.take(load == 40_000))[0][:, 1] - low).max())
    assert off[0] < 0.8 * off[1], off


def renamed(rows: Observations, names: dict[str, str]) -> Observations:
    """The same drives under other names; their models too."""
    labels = {**rows.labels, "drive": np.array([names[name] for name in rows.labels["drive"]], dtype=object)}
    labels["cell"] = np.array(
        [f"{names[name]}|{load:.0f}" for name, load in zip(rows.labels["drive"], rows.inputs["load"], strict=True)],
        dtype=object,
    )
    labels["model"] = np.array([f"of {name}" for name in labels["drive"]], dtype=object)
    return replace(rows, labels=labels)


def test_names_and_order_do_not_change_what_is_predicted(drives: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more points than hyperparameters are fitted on."""
    monkeypatch.setattr(gaussian, "MOST", 25)
    rows = drives.take(drives.inputs["minute_s"] == 60)
    rows = replace(rows, targets=rows.targets[:2], outcomes=rows.outcomes[:, :2])
    plain, other = {name: name for name in DRIVES}, dict(zip(DRIVES, ("z", "y", "x", "a"), strict=True))
    found = []
    for names in (plain, other):
        model = open_loop.OpenLoop()
        model.fit(renamed(rows, names))
        found.append(model.predict(renamed(rows, names))[0])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_the_order_of_throttled_runs_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "MOST", 12)
    chance = np.random.default_rng(2)
    names = np.repeat(np.array(["a", "b", "c"], dtype=object), 12)
    inputs = {name: np.repeat(chance.uniform(1e3, 1e5, 3), 12) for name in (*COST_MODEL, "cpus", "mem_gib", "size_gb")}
    inputs |= {"load": np.tile(np.linspace(10.0, 125.0, 12), 3), "off": np.zeros(36)}
    outcomes = chance.normal(size=(36, 1)) + np.log(inputs["load"])[:, None]
    rows = Observations("iocost", ("slowdown",), outcomes, inputs, {"drive": names, "model": names})
    found = []
    for order in (np.arange(36), chance.permutation(36)):
        model = Throttled()
        model.fit(rows.take(order))
        found.append(model.predict(rows))
    np.testing.assert_array_equal(found[0], found[1])


def test_a_drive_without_rows_has_the_cliffs_of_its_model() -> None:
    known = {"load": np.array([0.0, 1.0, 2.0]), "state": np.array(["open"] * 3, dtype=object)}
    known |= {"drive": np.array(["a", "a", "b"], dtype=object), "model": np.array(["A", "A", "B"], dtype=object)}
    asked = {"load": np.full(4, 0.5), "state": np.array(["open"] * 4, dtype=object)}
    asked |= {"drive": np.array(["a", "x", "b", "y"], dtype=object)}
    asked |= {"model": np.array(["A", "A", "B", "Y"], dtype=object)}
    outcomes = np.array([[1.0], [4.0], [9.0]])
    assert open_loop.bracket_jumps(known, outcomes, asked)[:, 0].tolist() == [3.0, 3.0, 0.0, 0.0]


def test_slopes_are_the_derivatives_of_the_covariance() -> None:
    chance = np.random.default_rng(1)
    points = {name: chance.normal(size=12) for name in ("load", "queue", "reads")}
    points |= {name: chance.choice(["x", "y"], 12).astype(object) for name in ("state", "model", "drive")}
    theta = np.log([hyper.median for hyper in open_loop.KERNEL.hypers])
    for roughness in (0.5, 1.5):
        slopes = Slopes(open_loop.KERNEL, points, roughness)
        _, exact = slopes.at(theta)
        for i in range(len(theta)):
            step = 1e-5 * np.eye(len(theta))[i]
            secant = (slopes.at(theta + step)[0] - slopes.at(theta - step)[0]) / 2e-5
            np.testing.assert_allclose(exact[i], secant, atol=1e-8)


@pytest.mark.slow
def test_the_command_has_a_row_for_each_target_and_model(tmp_path: Path, linnet) -> None:
    write_icpe(tmp_path)
    done = linnet("place", "judge", "--data", tmp_path, "--split", "random", "--seeds", 2, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {(row["target"], row["model"]) for row in rows} == {
        (f"read_latency_{name}_us", model)
        for name in ("p50", "p99", "p99_9")
        for model in ("forest", "weighted-mean", "queueing", "interpolation", "linnet")
    }
    assert all(row["leaks"] and row["seeds"] == 2 for row in rows)
    refused = linnet("place", "judge", "--data", tmp_path, "--split", "unseen-drive")
    assert refused.returncode == 1 and "cannot answer unseen-drive" in refused.stderr
    assert linnet("place", "judge", "--data", tmp_path, "--model", "oracle").returncode == 2


@pytest.mark.slow
def test_the_command_says_what_it_left_out_and_what_it_cannot_know(tmp_path: Path, linnet) -> None:
    write_ssdiq(tmp_path, ("a0",), repeats=1)
    path = tmp_path / "ssdiq-threads-1.csv"
    lines = path.read_text().splitlines()
    named = zip(lines[0].split(","), lines[1].split(","), strict=True)
    fields = ["" if name.endswith("_us") else value for name, value in named]
    path.write_text("\n".join([lines[0], ",".join(fields), *lines[2:]]) + "\n")
    asked = ("place", "judge", "--data", tmp_path, "--split", "unseen-load", "--model", "weighted-mean", "--seeds", 1)
    done = linnet(*asked, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dropped"] == {"data": {"ssdiq": {"all latencies are empty": 1}}, "train": {}}
    for row in found["rows"]:
        assert row["coverage90"] > 0 and row["coverage90_low"] is None and row["coverage90_high"] is None
    done = linnet(*asked)
    assert "rows of ssdiq left out: 1 because all latencies are empty" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_real_drives(shared: Path) -> None:
    """A forest has 0.61 for loads that no drive of a model showed, and less than 0 for drives."""
    folder = shared / "colocation"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    rows = observe(folder)["ssdiq"]
    assert judged(rows, "unseen-load", "linnet")["r2"] > 0.85
    assert judged(rows, "unseen-model-load", "linnet", seeds=5)["r2"] > 0.85
    assert judged(rows, "unseen-drive", "linnet", 10)["r2"] > 0.85
