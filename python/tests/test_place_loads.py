# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which minutes are one load, within a folder and across folders, and what trains where loads of two folders meet."""

from pathlib import Path

import numpy as np
import pytest
from linnet.place.models.model import by_cell
from linnet.place.observations import Observations, observe, together
from linnet.place.splits import against
from linnet.tables import NEEDED
from place_tables import LOADS, write_ssdiq

COLUMN = {name: at for at, name in enumerate(NEEDED["ssdiq-threads"])}
FILE = "ssdiq-threads-1.csv"


def changed(folder: Path, loads: tuple[int, ...] = LOADS, part: int = 1, writes: float = 1.0, **columns) -> None:
    """Write these loads (thousands) of a folder's table as part ``part``: others' writes times ``writes``, columns by
    functions of the row.
    """
    head, *lines = [line.split(",") for line in (folder / FILE).read_text().splitlines()]
    kept = [line for line in lines if float(line[COLUMN["rate_iops"]]) / 1000 in loads]
    for line in kept:
        if line[COLUMN["tenant"]] != "0":
            line[COLUMN["off_write_iops"]] = str(float(line[COLUMN["off_write_iops"]]) * writes)
        if part > 1:
            line[COLUMN["run"]] += f"-{part}"
        for name, function in columns.items():
            line[COLUMN[name]] = str(function(line))
    path = folder / FILE.replace("1", str(part))
    path.write_text("\n".join(",".join(line) for line in [head, *kept]) + "\n")


def cells(rows: Observations) -> set[str]:
    return set(rows.labels["cell"])


def rated(line: list[str]) -> float:
    """A rate as it was measured: a little another in each repeat."""
    return float(line[COLUMN["rate_iops"]]) + float(line[COLUMN["repeat"]])


def test_repeats_with_measured_rates_are_one_load(tmp_path: Path) -> None:
    write_ssdiq(tmp_path, ("a0",))
    changed(tmp_path, rate_iops=rated)
    rows = observe(tmp_path)["ssdiq"]
    assert cells(rows) == {f"a0|{load}000" for load in LOADS}
    assert set(rows.inputs["load"]) == {load * 1000.0 for load in LOADS}, "loads that are held out are whole cells"


def test_names_of_small_rates_do_not_meet(tmp_path: Path) -> None:
    write_ssdiq(tmp_path, ("a0",), repeats=1)
    rates = {50_000.0: 0.6, 100_000.0: 1.4}
    changed(tmp_path, (50, 100), rate_iops=lambda line: rates[float(line[COLUMN["rate_iops"]])])
    rows = observe(tmp_path)["ssdiq"]
    assert cells(rows) == {"a0|0.6", "a0|1.4"}
    assert len(by_cell(rows)[0]) == 2


@pytest.mark.parametrize("split", ["unseen-load", "unseen-model-load"])
def test_a_load_that_is_tried_does_not_train_under_another_name(tmp_path: Path, split: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_ssdiq(one, ("a0", "b0"))
    # Less is offered at the same rates: the first kind, by ascending figures, so those of `two` are the second kind.
    changed(one, (20, 50), part=2, writes=0.9)
    write_ssdiq(two, ("a0",), repeats=1)
    changed(two, (20, 50))
    train, tried = observe(one)["ssdiq"], observe(two)["ssdiq"]
    assert {"a0|50000", "a0|50000/2"} <= cells(train) and cells(tried) == {"a0|20000", "a0|50000"}
    (fold,) = against(split, train, tried, 42)
    assert len(fold.tried) == len(tried)
    own = fold.train.take(fold.train.labels["drive"] == "a0")
    offered = [rows.inputs["all_write_pages"] for rows in (own, fold.tried)]
    assert not np.isclose(offered[0][:, None], offered[1], rtol=0.05).any(), "no row that trains gives it away"
    lighter = own.inputs["load"] == 50_000
    assert len(own.take(lighter)) == 6, "the other load of the rate trains"


def test_loads_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, writes in ((one, 1.0), (two, 0.5)):
        write_ssdiq(folder, ("a0",), repeats=1)
        changed(folder, writes=writes, run=lambda line, folder=folder: f"{folder.name}-{line[COLUMN['run']]}")
    places = [(folder.name, observe(folder)["ssdiq"]) for folder in (one, two)]
    assert cells(places[0][1]) == cells(places[1][1])
    rows = together(places)
    assert len(cells(rows)) == 2 * len(LOADS)
    known, _ = by_cell(rows)
    at = np.isin(known.labels["cell"], ["a0|50000", "a0|50000/2"])
    whole = 0.99 * 45_000.0
    assert sorted(known.inputs["all_write_pages"][at]) == pytest.approx([5000 + whole / 2, 5000 + whole])


def test_one_load_of_a_strange_drive_is_tried(tmp_path: Path) -> None:
    write_ssdiq(tmp_path, ("a0", "b0"), repeats=1)
    rows = observe(tmp_path)["ssdiq"]
    train = rows.take(rows.labels["drive"] == "b0")
    tried = rows.take((rows.labels["drive"] == "a0") & (rows.inputs["load"] == 50_000))
    for split in ("unseen-load", "unseen-model-load"):
        (fold,) = against(split, train, tried, 42)
        assert set(fold.train.labels["drive"]) == {"b0"} and len(fold.train) == len(train)
        assert len(fold.tried) == len(tried) == 3
