# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placements whose mixes run on the SSD model."""

from pathlib import Path

import numpy as np
import pytest
from linnet.place import share_forest
from linnet.place.rehearse import rehearse
from linnet.place.share_forest import Runs, ShareForest
from linnet.place.sheet import SheetModel
from linnet.place.trials import Trials
from linnet.studies.placers import METRICS, sets_of
from linnet.studies.violations import REHEARSED, Truth, move, place, rows_of, sought
from linnet.studies.violations_mixes import JUDGED, Mixes
from linnet.studies.violations_models import Guarded, broken


@pytest.fixture(scope="module")
def mixes(tmp_path_factory: pytest.TempPathFactory) -> Mixes:
    return Mixes("sata", 16, 0.3, 1, tmp_path_factory.mktemp("runs") / "runs.jsonl")


def test_a_tenant_alone_loses_nothing_and_all_together_lose_much(mixes: Mixes) -> None:
    for i in range(len(mixes.library)):
        share = mixes.together(frozenset([i]))
        assert np.nanmax(np.abs(share - 1)) == 0, "the same I/Os on the same drive"
    everybody = frozenset(range(16))
    assert np.nanmin(mixes.together(everybody)) < 0.7
    (bad,) = mixes.violated([everybody], 20.0)
    assert bad == {i for i, one in enumerate(broken(mixes.together(everybody, JUDGED), 20.0)) if one} != set()


def test_bandwidths_are_summed_over_windows_with_other_ios(mixes: Mixes) -> None:
    pair = frozenset([1, 2])
    first, second, both = (mixes.together(pair, windows) for windows in ([1], [2], [1, 2]))
    assert (first != second).any(), "other I/Os"
    low, high = np.fmin(first, second), np.fmax(first, second)
    assert ((low <= both + 1e-12) & (both <= high + 1e-12) | np.isnan(both)).all()


def test_who_knows_the_truth_breaks_no_promise(mixes: Mixes) -> None:
    allocator = place(mixes, Truth(mixes), 10.0, "first-fit", range(16))
    sets = [*sets_of(allocator).values()]
    assert sorted(i for one in sets for i in one) == list(range(16))
    assert len(sets) < 16
    assert not any(mixes.violated(sets, 10.0))


def test_moves_mend_a_placement_that_promises_too_much(mixes: Mixes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_forest, "TREES", 20)
    ours = Guarded(mixes.drive, mixes.runs(mixes.drawn(40)))
    ours.margin = -1.0
    allocator = place(mixes, ours, 10.0, "first-fit", range(16))
    before = sum(map(len, mixes.violated([*sets_of(allocator).values()], 10.0)))
    ours.promise(10.0, 0.01)
    strict = ours.margin
    ours.promise(10.0, 0.3)
    assert strict > ours.margin, "fewer violations need a larger margin"
    moves = move(mixes, allocator, 10.0)
    sets = [*sets_of(allocator).values()]
    assert moves > 0 and before > 0
    assert sum(map(len, mixes.violated(sets, 10.0))) < before
    assert sorted(i for one in sets for i in one) == list(range(16)), "nobody is lost on the way"


def test_sought_mixes_lie_nearer_to_a_promise_than_random_ones(mixes: Mixes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_forest, "TREES", 20)
    found = sought(mixes, [10.0], 40, lambda text: None)
    assert len(found) == len(set(found)) == 40
    assert found[:20] == mixes.drawn(20), "half of the runs are of random mixes"
    assert found == sought(mixes, [10.0], 40, lambda text: None), "the same seed seeks the same mixes"

    def broken_share(some: list[frozenset[int]]) -> float:
        return sum(map(len, mixes.violated(some, 10.0))) / sum(map(len, some))

    assert broken_share(found[20:]) < 0.5 * broken_share(found[:20])


def test_runs_are_kept(mixes: Mixes, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first, again = (Mixes("sata", 16, 0.3, 1, path).together(frozenset([1, 2, 3])) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(path.read_text().splitlines()) == 4, "the mix, and each of its tenants alone"


def test_every_placer_has_a_row(mixes: Mixes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_forest, "TREES", 20)
    rows = [*rows_of(mixes, [10.0], 30, 2.0, lambda text: None)]
    by_name = {row["placer"]: row for row in rows}
    assert by_name["the truth known, CP-SAT"]["violated"] == 0
    assert by_name["the truth known, best fit"]["violated_elsewhere"] >= 0
    assert by_name["the truth known, CP-SAT"]["drives"] <= by_name["the truth known, first fit"]["drives"]
    assert {"quota", "weighted mean", "gray-box forest", "linnet", "linnet, random mixes", "linnet, moved"} <= set(
        by_name
    )
    assert by_name["linnet, trials"]["trial_runs"] <= 30 - 30 // 4


def test_trials_place_everybody_where_promises_hold_in_other_windows(
    mixes: Mixes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_forest, "TREES", 20)
    loads = SheetModel().load(mixes.drive, mixes.features)
    order = np.argsort(-loads).tolist()
    known = mixes.runs(mixes.drawn(20))

    def trials_of(runs: int) -> Trials:
        return Trials(mixes, np.array([0.8, 0.8]), REHEARSED, runs, ShareForest(mixes.drive, METRICS, known), known)

    trials = trials_of(300)
    found = rehearse(order, loads, trials, trials.seen(), 16)
    assert sorted(i for drive in found.drives for i in drive) == list(range(16))
    assert len(found.drives) < 16
    shared = [drive for drive in found.drives if len(drive) > 1]
    for drive in shared:
        assert not broken(mixes.together(drive, REHEARSED), 20.0).any(), "a trial has shown it"
    assert found.trials <= trials.runs <= 300
    spent = trials_of(len(REHEARSED) - 1)
    assert len(rehearse(order, loads, spent, spent.seen(), 16).drives) == 16, "without a trial nobody shares a drive"


def test_runs_are_joined(mixes: Mixes) -> None:
    first, second = (mixes.runs(mixes.drawn(count)) for count in (3, 5))
    both = Runs.joined([first, second])
    assert len(both.own) == len(first.own) + len(second.own)
    assert sorted(set(both.run.tolist())) == list(range(8))
