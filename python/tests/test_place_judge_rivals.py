# SPDX-License-Identifier: MIT OR Apache-2.0
"""Straight lines through what was measured, loads that are held out, and what scores say of single drives."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from linnet.place import judge as judging
from linnet.place.models import make as making
from linnet.place.models.forest import Forest, WeightedMean
from linnet.place.models.interpolation import Interpolation
from linnet.place.observations import Observations, observe
from linnet.place.scores import LEVELS, Answers, least_covered, score
from linnet.place.splits import held_out
from linnet.tables import NEEDED
from place_tables import of_drive, read_p99_us, write_iocost, write_ssdiq

P99 = 1
"""Index of the p99 of reads among the targets."""


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    folder = tmp_path_factory.mktemp("drives")
    write_ssdiq(folder, noise=0.0)
    return observe(folder)["ssdiq"]


def lines(known: Observations, asked: Observations) -> np.ndarray:
    """Logarithms of the p99 of reads."""
    model = Interpolation()
    model.fit(known)
    return model.predict(asked)[0][:, P99]


def test_lines_go_through_known_loads_and_are_flat_above_the_capacity(drives: Observations) -> None:
    known = of_drive(drives, "b0", 20, 80, 150)
    between = lines(known, of_drive(drives, "b0", 40))
    three = [of_drive(drives, "b0", load).inputs for load in (20, 40, 80)]
    writes = np.array([one["all_write_pages"][0] for one in three])
    # Both take their share of the drive: of 115,000 writes, which it achieves, and 800,000 reads, by its sheet.
    loads = writes / 115e3 + np.array([one["all_read_pages"][0] for one in three]) / 800e3
    left, right = (math.log(read_p99_us("b0", load)) for load in writes[[0, 2]])
    share = math.log(loads[1] / loads[0]) / math.log(loads[2] / loads[0])
    np.testing.assert_allclose(between, left + share * (right - left), atol=1e-4)
    # 150,000 is held back at 115,000, so latency there is that of every load beyond.
    np.testing.assert_allclose(lines(known, of_drive(drives, "b0", 120, 500)), math.log(read_p99_us("b0", 150_000)))
    np.testing.assert_allclose(lines(known, of_drive(drives, "b0", 10)), left, err_msg="flat below what is known")


def test_only_the_drive_or_its_model_answers(drives: Observations) -> None:
    known = of_drive(drives, "b0", 20, 80, 150)
    assert np.isnan(lines(known, of_drive(drives, "a0", 20))).all()
    twin = of_drive(drives, "b0", 20, 80, 150)
    twin.labels["drive"][:] = "b1"
    np.testing.assert_allclose(lines(known, twin), lines(known, known))


def test_lines_of_a_mix_begin_at_the_tenant_alone(mixes: Observations) -> None:
    own = (mixes.labels["mix"] == "64K") & (mixes.labels["scheduler"] == "none")
    probe = own & (mixes.inputs["neighbours"] == 8)
    alone = (mixes.labels["mix"] == "4K") & (mixes.inputs["neighbours"] == 0)
    asked = mixes.take(own & (mixes.inputs["neighbours"] == 2))
    share = math.log2(3) / math.log2(9)
    expected = math.log(90.0) + share * (mixes.outcomes[probe, P99] - math.log(90.0))
    np.testing.assert_allclose(lines(mixes.take(probe | alone), asked), expected)
    assert np.isnan(lines(mixes.take(alone), asked)).all(), "the tenant alone says nothing of neighbours"


def test_who_knows_nothing_of_a_new_drive_has_no_row(drives: Observations) -> None:
    few = drives.take(np.isin(drives.labels["drive"], ["b0", "c0"]))
    models = ["queueing", "interpolation"]
    rows, absent = judging.judge({"ssdiq": few}, None, ["unseen-drive"], models, 1, 0, lambda done: None)
    assert {row["model"] for row in rows} == {"queueing"}
    of = {"source": "ssdiq", "split": "unseen-drive", "model": "interpolation"}
    assert absent == [of | {"target": name, "n": len(few), "unanswered": len(few)} for name in few.targets]
    with pytest.raises(ValueError, match="unseen-drive: interpolation needs measurements of what is tried"):
        judging.judge({"ssdiq": few}, None, ["unseen-drive"], ["interpolation"], 1, 0, lambda done: None)


@pytest.mark.parametrize("model", [Forest, WeightedMean])
def test_neighbours_of_large_blocks_are_other_neighbours(
    drives: Observations, tmp_path: Path, model: type[Forest]
) -> None:
    write_ssdiq(tmp_path, noise=0.0)
    path = tmp_path / "ssdiq-threads-1.csv"
    tenant, size = (NEEDED["ssdiq-threads"].index(name) for name in ("tenant", "bs_bytes"))
    head, *lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines:
        line[size] = "65536" if line[tenant] != "0" else "4096"
    path.write_text("\n".join(",".join(line) for line in [head, *lines]) + "\n")
    small, large = (model().features(rows) for rows in (drives, observe(tmp_path)["ssdiq"]))
    changed = np.flatnonzero((small != large).any(axis=0))
    assert len(changed)
    np.testing.assert_allclose(large[:, changed], 16 * small[:, changed], err_msg="bandwidths of the others")


def test_a_busy_neighbour_weighs_more_than_idle_ones(tmp_path: Path) -> None:
    """Of one writer of 30,000 a second, in 8 KiB, and five of 100: the means by rate are nearly those of the first."""
    write_ssdiq(tmp_path, ("b0",), noise=0.0, repeats=1)
    path = tmp_path / "ssdiq-threads-1.csv"
    at = {name: column for column, name in enumerate(NEEDED["ssdiq-threads"])}
    head, *lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines:
        if line[at["tenant"]] != "0":
            busy = line[at["tenant"]] == "1"
            line[at["off_read_iops"]] = "0"
            line[at["off_write_iops"]] = "30000" if busy else "100"
            line[at["bs_bytes"]] = "8192" if busy else "4096"
    path.write_text("\n".join(",".join(line) for line in [head, *lines]) + "\n")
    rates, pages = np.array([30000.0, *[100.0] * 5]), np.array([2, *[1] * 5])
    rate, writes, bandwidth, depth = WeightedMean().features(observe(tmp_path)["ssdiq"])[0, 4:8]
    assert rate == pytest.approx((rates**2).sum() / rates.sum())
    assert bandwidth == pytest.approx((rates * rates * pages).sum() / rates.sum() * 4096)
    assert (writes, depth) == (1.0, 64.0)


def test_every_cell_has_its_share_of_the_rows_that_size_intervals(
    drives: Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "ROWS_FOR_INTERVALS", 110)
    few = judging._thinned(drives)
    _, counts = np.unique(few.labels["cell"].astype(str), return_counts=True)
    assert len(counts) == len(set(drives.labels["cell"])) and set(counts) == {2}, "two of six minutes"
    kept = judging._thinned(drives.take(np.arange(len(drives)) > 0))
    others = few.labels["cell"] != drives.labels["cell"][0]
    np.testing.assert_array_equal(
        kept.inputs["minute_s"][kept.labels["cell"] != drives.labels["cell"][0]],
        few.inputs["minute_s"][others],
        err_msg="a row that one cell lacks changes no other cell's",
    )


def test_held_out_loads_are_the_same_for_every_number_of_probes(drives: Observations) -> None:
    phases = [held_out(drives.take(drives.labels["drive"] == "b0"), 3, phase) for phase in range(3)]
    assert (sum(phase.astype(int) for phase in phases) == 1).all()
    few = drives.take(np.isin(drives.labels["drive"], ["b0", "c0"]))
    found = {}
    for minutes in (1, 6, 12):
        asked = ({"ssdiq": few}, None, ["unseen-drive"], ["interpolation"], 5, minutes, lambda done: None, 3)
        found[minutes] = {row["target"]: row for row in judging.judge(*asked)[0]}["read_latency_p99_us"]
    assert [row["n"] for row in found.values()] == [len(few) / 3] * 3
    assert [row["probe_minutes"] for row in found.values()] == [1, 6, 10], "ten of fifteen loads may be probed"
    assert all(row["seeds"] == row["hold_out"] == 3 and not row["untried"] for row in found.values())
    assert found[1]["r2"] < found[6]["r2"] <= 1


def test_a_load_that_is_held_out_is_never_probed(drives: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, float]] = []

    def probe(model: object, tried: Observations, minutes: int) -> tuple[Observations, np.ndarray]:
        seen.extend(zip(tried.labels["drive"], tried.inputs["load"], strict=True))
        return tried.take(np.arange(minutes)), np.ones(len(tried), bool)

    monkeypatch.setattr(judging, "probe", probe)
    few = drives.take(np.isin(drives.labels["drive"], ["b0", "c0"]))
    judging.judge({"ssdiq": few}, None, ["unseen-drive"], ["interpolation"], 1, 2, lambda done: None, 3)
    loads = np.unique(few.inputs["load"])
    assert seen and not {load for _, load in seen} & set(loads[::3])


@pytest.mark.parametrize("minutes", [0, 2])
def test_ours_is_fitted_only_where_it_is_asked(
    drives: Observations, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    made: list[str] = []

    def make(name: str, *rest: object) -> object:
        made.append(name)
        return making.make(name, *rest)

    monkeypatch.setattr(judging, "make", make)
    few = drives.take(np.isin(drives.labels["drive"], ["b0", "c0"]))
    judging.judge({"ssdiq": few}, None, ["unseen-drive"], ["queueing"], 1, minutes, lambda done: None)
    assert ("linnet" in made) == (minutes > 0), "it chooses the minutes that all models get"


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


def test_probes_that_nobody_can_choose_are_not_reported(tmp_path: Path) -> None:
    write_iocost(tmp_path)
    rows = observe(tmp_path)["iocost"]
    other = rows.take(np.arange(len(rows)))
    for label in ("drive", "model", "cell", "run", "model_load"):
        other.labels[label] = np.array([f"other {name}" for name in other.labels[label]], dtype=object)
    asked = ({"iocost": rows.joined(other)}, None, ["unseen-drive"], ["queueing"], 1, 5, lambda done: None, 3)
    found, _ = judging.judge(*asked)
    assert {(row["probe_minutes"], row["hold_out"], row["n"]) for row in found} == {(0, 0, 2 * len(rows))}


@pytest.mark.slow
def test_the_command_holds_loads_out(tmp_path: Path, linnet) -> None:
    write_ssdiq(tmp_path, ("b0", "c0"), repeats=1)
    asked = ("place", "judge", "--data", tmp_path, "--model", "interpolation", "--hold-out", 3, "--probe-minutes", 4)
    done = linnet(*asked, "--split", "unseen-drive", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {(row["hold_out"], row["probe_minutes"]) for row in rows} == {(3, 4)}
    assert all("r2_within" in row and "coverage90_least" in row for row in rows)
    refused = linnet(*asked, "--split", "unseen-load")
    assert refused.returncode == 2 and "only unseen-drive and unseen-mix probe" in refused.stderr


@pytest.mark.slow
def test_the_command_says_what_has_no_row(tmp_path: Path, linnet) -> None:
    write_ssdiq(tmp_path, ("b0", "c0"), repeats=1)
    done = linnet("place", "judge", "--data", tmp_path, "--model", "interpolation,queueing", "--split", "unseen-drive")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "interpolation has no row of read_latency_p50_us, read_latency_p99_us," in said
    assert "write_latency_p99_us: it knows nothing of 90 of the 90 that are tried" in said
