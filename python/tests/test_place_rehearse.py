# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placement by trials, on drives whose truth is a sum of loads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from linnet.place import rehearse as search
from linnet.place.moments import Floats
from linnet.place.rehearse import ALIKE, Chances, Mix, rehearse

ROOM = 1.0


class Sums:
    """A drive holds what loads sum to, and the model knows that sum but for an error of each mix."""

    def __init__(self, loads: Floats, error: float, trials: int = 10**6) -> None:
        self._loads, self._error, self._trials = loads, error, trials
        self.tried: list[Mix] = []

    def truly(self, mix: Mix) -> bool:
        return bool(self._loads[sorted(mix)].sum() <= ROOM)

    def slack(self, mixes: Sequence[Mix]) -> Floats:
        return np.array(
            [ROOM - self._loads[sorted(mix)].sum() + self._error * np.sin(7.0 * sum(mix) + len(mix)) for mix in mixes]
        )

    @property
    def left(self) -> int:
        return self._trials - len(self.tried)

    def holds(self, mix: Mix) -> bool | None:
        if not self.left:
            return None
        assert mix not in self.tried, "what is known is not tried again"
        self.tried.append(mix)
        return self.truly(mix)


@pytest.fixture
def loads() -> Floats:
    return np.random.default_rng(5).uniform(0.05, 0.6, 60)


def order_of(loads: Floats) -> list[int]:
    return np.argsort(-loads).tolist()


@pytest.mark.parametrize("error", [0.0, 0.1, 0.5])
def test_every_drive_holds_whatever_the_model_believes(loads: Floats, error: float) -> None:
    stage = Sums(loads, error)
    found = rehearse(order_of(loads), loads, stage)
    assert sorted(i for drive in found.drives for i in drive) == list(range(60))
    assert all(stage.truly(drive) for drive in found.drives)
    assert (found.trials, found.held) == (len(stage.tried), sum(map(stage.truly, stage.tried)))
    assert len(found.drives) <= 1.15 * np.ceil(loads.sum())


def test_a_better_model_packs_tighter_by_trials_that_hold_more_often() -> None:
    drives, held = np.zeros(2), np.zeros(2)
    for seed in range(4):
        loads = np.random.default_rng(seed).uniform(0.05, 0.6, 60)
        for i, error in enumerate((0.0, 2.0)):
            found = rehearse(order_of(loads), loads, Sums(loads, error))
            drives[i] += len(found.drives)
            held[i] += found.held / found.trials
    assert drives[0] < drives[1]
    assert held[0] > 1.3 * held[1]


def test_without_a_trial_left_tenants_share_no_unproven_drive(loads: Floats) -> None:
    stage = Sums(loads, 0.1, trials=20)
    found = rehearse(order_of(loads), loads, stage)
    assert found.trials == 20
    assert all(stage.truly(drive) for drive in found.drives)
    assert len(rehearse(order_of(loads), loads, Sums(loads, 0.1, trials=0)).drives) == 60


def test_few_trials_are_shared_among_the_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    def drives() -> int:
        count = 0
        for seed in range(5, 9):
            loads = np.random.default_rng(seed).uniform(0.05, 0.6, 60)
            count += len(rehearse(order_of(loads), loads, Sums(loads, 0.5, trials=60)).drives)
        return count

    shared = drives()
    monkeypatch.setattr(search, "SHARE", 1e9)
    assert shared < 0.9 * drives(), "the last tenants would have drives of their own"


def test_a_drive_takes_no_more_tenants_than_it_may() -> None:
    loads = np.full(12, 0.01)
    found = rehearse(range(12), loads, Sums(loads, 0.0), tenants_max=4)
    assert sorted(map(len, found.drives)) == [4, 4, 4]


def test_a_drive_is_emptied_as_a_whole_or_not_at_all() -> None:
    # In the order given, the two of 0.5 are put beside small ones; together they fill a drive.
    loads = np.array([0.3, 0.3, 0.5, 0.5, 0.2, 0.2])
    found = rehearse([0, 1, 2, 3, 4, 5], loads, Sums(loads, 0.0))
    assert len(found.drives) == 2
    full = np.array([0.6, 0.6, 0.6])
    assert len(rehearse([0, 1, 2], full, Sums(full, 0.0)).drives) == 3


def test_chances_follow_outcomes_of_like_slack() -> None:
    chances = Chances()
    assert chances.of(np.array([0.0])).tolist() == [0.5], "nothing is known yet"
    for i in range(100):
        chances.learn(i / 100, i >= 50)
    low, middle, high = chances.of(np.array([0.0, 0.5, 1.0]))
    assert low == pytest.approx(1 / (ALIKE + 2)) and high == pytest.approx((ALIKE + 1) / (ALIKE + 2))
    assert low < middle < high
