# SPDX-License-Identifier: MIT OR Apache-2.0
"""When a trial of a mix holds, and how many windows it takes to say so."""

from __future__ import annotations

import numpy as np
import pytest
from linnet.place import share_forest
from linnet.place.moments import WIDTH, Floats
from linnet.place.rehearse import Mix
from linnet.place.share_forest import Runs, ShareForest
from linnet.place.trials import REFIT, Trials

WINDOWS = range(4)
PROMISED = np.array([0.9, 0.8])
PAIR = frozenset([0, 1])


class Table:
    """Two tenants; the second has no second metric. What a mix sees is written down."""

    features = np.random.default_rng(0).uniform(1, 2, (8, WIDTH))
    uses = np.array([[True, True], [True, False]] + [[True, True]] * 6)

    def __init__(self, first: list[float], second: list[float]) -> None:
        self._first, self._second = first, second
        self.asked: list[int] = []

    def share(self, mix: Mix, window: int) -> Floats:
        self.asked.append(window)
        rows = [[self._first[window], self._second[window]], [0.99, np.nan]]
        return np.array((rows * 4)[: len(mix)])


def trials(source: Table, runs_max: int = 100, known_least: float = 0.5) -> Trials:
    mixes: list[Mix] = [frozenset([i, i + 1]) for i in range(5)]
    rng = np.random.default_rng(1)
    known = Runs.of(source.features, mixes, [rng.uniform(known_least, 1, (2, 2)) for _ in mixes])
    return Trials(source, PROMISED, WINDOWS, runs_max, ShareForest(None, ["a", "b"], known), known)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_forest, "TREES", 5)


def test_a_mix_holds_when_everybody_is_surely_above() -> None:
    source = Table([0.93, 0.92, 0.94, 0.93], [0.85, 0.84, 0.86, 0.85])
    stage = trials(source)
    assert stage.holds(PAIR) is True
    assert source.asked == [0, 1, 2, 3] and stage.runs == 4


def test_a_mean_that_is_above_by_chance_does_not_hold() -> None:
    source = Table([0.99, 0.85, 0.99, 0.82], [0.9] * 4)
    assert trials(source).holds(PAIR) is False, "0.9125 on the mean, with a standard error of 0.045"


def test_each_metric_has_its_promise() -> None:
    assert trials(Table([0.95] * 4, [0.79] * 4)).holds(PAIR) is False
    assert trials(Table([0.95] * 4, [0.81] * 4)).holds(PAIR) is True


def test_a_mix_that_is_far_below_is_given_up_at_once() -> None:
    source = Table([0.7, 1.0, 1.0, 1.0], [0.9] * 4)
    stage = trials(source)
    assert stage.holds(PAIR) is False and source.asked == [0] and stage.runs == 1
    source = Table([0.85, 0.85, 1.0, 1.0], [0.9] * 4)
    assert trials(source).holds(PAIR) is False and source.asked == [0, 1], "no doubt is left after two"
    source = Table([0.84, 0.86, 1.0, 1.0], [0.9] * 4)
    assert trials(source).holds(PAIR) is False and source.asked == [0, 1], "five standard errors below"


def test_who_has_nothing_to_do_in_a_window_loses_nothing() -> None:
    assert trials(Table([0.95, np.nan, 0.95, np.nan], [np.nan] * 4)).holds(PAIR) is True
    assert trials(Table([np.nan] * 4, [0.9] * 4)).holds(PAIR) is True


def test_idle_windows_do_not_outweigh_a_busy_one() -> None:
    assert trials(Table([np.nan, np.nan, np.nan, 0.85], [0.9] * 4)).holds(PAIR) is False, (
        "what it has once is too little"
    )
    assert trials(Table([np.nan, np.nan, np.nan, 0.95], [0.9] * 4)).holds(PAIR) is True
    assert trials(Table([np.nan, np.nan, np.nan, 0.89], [0.9] * 4)).holds(PAIR) is False, "three idle ones would do"


def test_no_trial_is_begun_that_cannot_be_finished() -> None:
    source = Table([0.95] * 4, [0.9] * 4)
    stage = trials(source, runs_max=7)
    assert stage.holds(PAIR) is True
    assert stage.holds(frozenset([2, 3])) is None and stage.runs == 4


def test_trials_teach_what_is_asked_later() -> None:
    source = Table([0.6] * 4, [0.9] * 4)
    stage = trials(source, known_least=0.95)
    before = stage.slack([PAIR])[0]
    every = [frozenset([i, j]) for i in range(8) for j in range(i)][:REFIT]
    for mix in every:
        assert stage.holds(mix) is False
    assert before > 0
    assert stage.slack([PAIR])[0] == pytest.approx(0.6 - 0.9, abs=0.2)


def test_what_a_tenant_lacks_makes_no_mix_unsafe() -> None:
    stage = trials(Table([0.95] * 4, [0.9] * 4))
    alone, both = stage.slack([frozenset([1]), frozenset([0, 1])])
    assert np.isfinite([alone, both]).all()
    held = [held for _, held in stage.seen()]
    assert len(held) == 5 and not all(held)
