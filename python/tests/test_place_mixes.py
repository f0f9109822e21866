# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of tenants without rates: which rows are tried as a mix, and what neighbours of several kinds are."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from linnet.place import judge as judging
from linnet.place.observations import Observations, observe
from linnet.place.splits import against, folds, inner_folds
from linnet.tables import NEEDED
from place_tables import write_csv, write_icpe


def alone(rows: Observations) -> np.ndarray:
    return rows.inputs["neighbours"] == 0


def test_a_run_without_neighbours_is_of_no_mix(mixes: Observations) -> None:
    """It has twins among the runs of other mixes, so it trains, and a mix is scored on runs that are of it."""
    found = folds("unseen-mix", mixes, 42)
    assert len(found) == 3
    for fold in found:
        for one in (fold, *inner_folds("unseen-mix", fold.train, 42)):
            assert not alone(one.tried).any() and alone(one.train).sum() == alone(mixes).sum()
            beside = one.train.labels["mix"][~alone(one.train)]
            assert not set(beside) & set(one.tried.labels["mix"])
    assert sum(len(fold.tried) for fold in found) == (~alone(mixes)).sum()
    (row, *_), _ = judging.judge({"icpe": mixes}, None, ["unseen-mix"], ["queueing"], 1, 0, lambda done: None)
    assert row["n"] == (~alone(mixes)).sum()
    only = mixes.take(alone(mixes) | (mixes.labels["mix"] == "4K"))
    with pytest.raises(ValueError, match="icpe, unseen-mix: one mix alone cannot be split"):
        folds("unseen-mix", only, 42)


def test_a_strange_mix_is_tried_beside_its_tenant_alone(mixes: Observations) -> None:
    strange = mixes.labels["mix"] == "64K"
    (fold,) = against("unseen-mix", mixes.take(~strange), mixes.take(strange), 42)
    assert not alone(fold.tried).any() and alone(fold.train).sum() == alone(mixes).sum()
    (fold,) = against("unseen-mix", mixes, mixes.take(strange), 42)
    assert alone(fold.train).sum() == alone(mixes).sum(), "a run that both have trains once"
    assert "64K" not in set(fold.train.labels["mix"][~alone(fold.train)])


def test_the_tenant_alone_is_one_load_of_all_mixes(mixes: Observations) -> None:
    for fold in folds("unseen-load", mixes, 42):
        for one in (fold, *inner_folds("unseen-load", fold.train, 42)):
            sides = [set(side.labels["scheduler"][alone(side)]) for side in (one.train, one.tried)]
            assert not sides[0] & sides[1]
    (fold,) = against("unseen-load", mixes, mixes.take(mixes.labels["run"] == "4K/none/0"), 42)
    assert set(fold.train.labels["scheduler"][alone(fold.train)]) == {"kyber"}


def test_neighbours_of_several_kinds_are_summed_for_each_run(tmp_path: Path) -> None:
    """One mix by name, with one reader of 4 KiB and as many writers of 64 KiB as there are other neighbours."""
    write_icpe(tmp_path)
    rewrite(tmp_path / "icpe-tenants.csv", lambda row: row["tenant"] != "0" and row["mix"] == "4K", one_reader)
    rows = observe(tmp_path)["icpe"]
    for count in (1, 2, 4):
        (at,) = np.flatnonzero(rows.labels["run"] == f"4K/none/{count}")
        assert rows.inputs["kib"][at] == pytest.approx((4 + 64 * (count - 1)) / count)
        assert rows.inputs["writes"][at] == pytest.approx((count - 1) / count)
        assert rows.achieved["others_kib"][at] == pytest.approx(1e5 * (4 + 64 * (count - 1)))


def test_a_tenant_whose_writes_were_measured_is_refused(tmp_path: Path) -> None:
    """Its latency was reported, and learned, as that of reads."""
    write_icpe(tmp_path)
    writing = {"op": "write"}
    rewrite(tmp_path / "icpe-tenants.csv", lambda row: row["run"] == "4K/none/2", lambda row: writing)
    with pytest.raises(ValueError, match="run 4K/none/2: op of tenant 0 is write"):
        observe(tmp_path)


def one_reader(row: dict[str, str]) -> dict[str, str]:
    return {"op": "read", "bs_kib": "4"} if row["tenant"] == "1" else {"op": "write", "bs_kib": "64"}


def rewrite(
    path: Path, which: Callable[[dict[str, str]], bool], fields: Callable[[dict[str, str]], dict[str, str]]
) -> None:
    """Other fields in some rows of a table."""
    with path.open() as file:
        rows = [row | fields(row) if which(row) else row for row in csv.DictReader(file)]
    write_csv(path, rows, NEEDED["icpe-tenants"])
