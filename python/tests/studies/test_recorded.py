# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placements judged by recorded cells."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from linnet.cli import app
from linnet.place.models import forest
from linnet.place.observations import Observations, observe
from linnet.studies import recorded
from linnet.studies.recorded import SHARE, Cells, cells_of, chosen, guesses, placed, promised, rows_of, suffered
from place_tables import DRIVES, LOADS, read_p99_us, write_icpe, write_ssdiq
from typer.testing import CliRunner

P99 = "read_latency_p99_us"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Observations]:
    folder = tmp_path_factory.mktemp("tables")
    write_ssdiq(folder)
    write_icpe(folder)
    return observe(folder)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forest is a model beside ours, and its accuracy is no subject here."""
    monkeypatch.setattr(forest, "TREES", 10)


@pytest.fixture(scope="module")
def cells(data: dict[str, Observations]) -> Cells:
    return cells_of(promised(data["ssdiq"], P99))


def test_cells_are_in_order_and_know_the_lightest_of_their_drive(cells: Cells) -> None:
    assert cells.rows.targets == (P99, SHARE)
    assert cells.load.tolist() == [load * 1000.0 for _ in DRIVES for load in LOADS]
    assert cells.load[cells.base].tolist() == [10_000.0] * len(cells.load)
    assert (cells.kind[cells.base] == cells.kind).all()


def test_the_record_breaks_promises_where_the_law_does(cells: Cells) -> None:
    broke = suffered(cells, 100.0)
    for i, (name, load) in enumerate(zip(cells.kind, cells.load, strict=True)):
        writes = 5000 + 0.99 * (load - 5000)
        capacity, loss = DRIVES[name][2], read_p99_us(name, writes) / read_p99_us(name, 5000 + 0.99 * 5000)
        assert broke[i] in (0.0, 1.0), "repeats differ by 1 % of noise here"
        if abs(loss - 2) > 0.1 and abs(writes / capacity - 1) > 0.06:
            assert broke[i] == (loss > 2 or writes > capacity), (name, load)


def test_a_run_counts_by_its_median_minute(cells: Cells) -> None:
    cell = next(i for i in range(len(cells.load)) if not cells.lightest[i] and suffered(cells, 100.0)[i] == 0)
    outcomes = cells.rows.outcomes.copy()
    group = cells.of[cell]
    one = group[cells.rows.labels["run"][group] == cells.rows.labels["run"][group[0]]]
    outcomes[one[0], 0] += 5
    single = replace(cells, rows=replace(cells.rows, outcomes=outcomes))
    assert suffered(single, 100.0)[cell] == 0
    outcomes[one[1], 0] += 5
    assert suffered(single, 100.0)[cell] == 0.5, "two of three minutes of one run of two"


def test_drives_are_filled_to_the_highest_allowed_cell(cells: Cells) -> None:
    allowed = cells.load == 50_000
    choice = chosen(cells, allowed)
    assert cells.load[choice].tolist() == [50_000] * len(DRIVES)
    assert cells.load[chosen(cells, np.zeros(len(allowed), bool))].tolist() == [10_000] * len(DRIVES)
    broke = np.zeros(len(allowed))
    broke[choice[0]] = 0.5
    found = placed(cells, choice, broke)
    assert found == {"drives": 200 * len(DRIVES), "violated_percent": 12.5}


def test_nobody_has_seen_the_cell_that_it_is_asked_about(data: dict[str, Observations]) -> None:
    rows = promised(data["ssdiq"], P99)
    cells = cells_of(rows.take(np.isin(rows.labels["drive"], ("b0", "c0"))))
    before = guesses(cells, 42, recorded.MODELS, lambda: None)
    # A cell on which nothing else depends but what is told of it: neither a base, nor beyond the capacity.
    cell = next(i for i in range(len(cells.load)) if cells.load[i] == 60_000 and cells.kind[i] == "c0")
    outcomes, achieved = cells.rows.outcomes.copy(), cells.rows.achieved
    outcomes[cells.of[cell], 0] += 2
    changed = cells_of(replace(cells.rows, outcomes=outcomes, achieved=achieved))
    after = guesses(changed, 42, recorded.MODELS, lambda: None)
    for name in after:
        np.testing.assert_array_equal(before[name][0][cell], after[name][0][cell], err_msg=name)
        assert not np.array_equal(before[name][0], after[name][0]), f"{name}: others learn from the cell"


def test_the_bound_breaks_nothing_and_ours_needs_fewer_drives_than_quota(data: dict[str, Observations]) -> None:
    rows = [*rows_of(data, P99, [100.0], 1, lambda: None)]
    ends = [f"linnet at {percent} %" for percent in (60, 70, 80, 90, 95)]
    assert {row["source"] for row in rows} == {"ssdiq", "icpe"}
    for source in ("ssdiq", "icpe"):
        by_name = {row["placer"]: row for row in rows if row["source"] == source}
        assert set(by_name) == {"quota", *recorded.MODELS, *ends, "bound"}
        assert by_name["bound"]["violated_percent"] == by_name["bound"]["accepted_broken"] == 0
        accepted = [by_name[name]["accepted"] for name in ("linnet", *ends)]
        assert accepted == sorted(accepted, reverse=True)
    ours = {row["placer"]: row for row in rows if row["source"] == "ssdiq"}
    assert ours["linnet"]["drives"] < ours["quota"]["drives"]
    assert ours["linnet at 95 %"]["accepted"] < ours["linnet"]["accepted"]
    assert ours["linnet"]["accepted_broken"] <= 0.1 * ours["linnet"]["accepted"]


def test_the_command_prints_rows_and_refuses_an_unknown_target(tmp_path: Path, linnet) -> None:
    write_icpe(tmp_path)
    words = ("study", "recorded", "--data", str(tmp_path), "--slo", "100", "--seeds", "1")
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert len(json.loads(done.stdout)["rows"]) == 10
    assert "read_latency_p99_us" in linnet(*words, "--target", "nothing").stderr
