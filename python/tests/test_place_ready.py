# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a question about all drives of a large cluster costs, by what is asked of the model and made for it."""

from pathlib import Path

import numpy as np
import pytest
from linnet.place.allocate import Allocator, Settings
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.limits import Limits
from linnet.place.service.operations import Operations
from linnet.place.service.serve import prepare
from linnet.place.service.state import State
from linnet.place.sheet import SheetModel
from place_made import GB, Line, drive, tenant


def specs(count: int, **sheet: float) -> list[DriveSpec]:
    return [DriveSpec(drive(f"n{i}:a", **sheet), 100 * GB) for i in range(count)]


def test_terms_are_made_before_the_first_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, settle = [0], Limits._settle

    def counted(self: Limits, rows: np.ndarray) -> None:
        made[0] += len(rows)
        settle(self, rows)

    monkeypatch.setattr(Limits, "_settle", counted)

    def asked(do: Operations) -> int:
        made[0] = 0
        do.allocator.may_take(tenant("new", 10, 900.0), np.arange(len(do.cluster.specs)))
        return made[0]

    state = State(tmp_path / "state.db")
    with state.transaction():
        for spec in specs(6):
            state.add_drive(spec)
        for index in range(18):
            state.add_tenant(tenant(f"t{index}", index, 900.0 if index % 3 else None), f"n{index % 6}:a")
    do = prepare(state, SheetModel(), {}, [])
    assert made == [12], "of those that are promised something"
    assert asked(do) == 0
    with state.transaction():
        do.correct([], specs(6, read_latency_us=90.0))
    assert asked(do) == 0, "nor after the state was taken in again"


def test_drives_in_equal_states_are_asked_about_once() -> None:
    model = Line()
    allocator = Allocator(Cluster(), model, Settings())
    allocator.add_drives(specs(40))
    allocator.restore([(tenant(f"t{i}-{j}", 10 * j + 1, 900.0), f"n{i}:a") for i in range(40) for j in range(3)])
    allocator.settle()
    model.asked = 0
    assert allocator.may_take(tenant("new", 10, 900.0), np.arange(40)).all()
    assert model.asked == 1 + 4, "the newcomer alone, and on one drive with its three tenants"


def test_all_drives_get_the_answer_that_each_would_get() -> None:
    chance, allocator = np.random.default_rng(3), Allocator(Cluster(), Line(), Settings())
    allocator.add_drives(specs(40))
    for index in range(80):
        rate, at_most = float(chance.choice([5000, 20_000])), chance.choice([125.0, 140.0, 0.0])
        allocator.put(allocator.add(tenant(f"t{index}", rate, at_most or None, GB)), index % 40)
    newcomer = tenant("new", 10_000, 145.0)
    together = allocator.may_take(newcomer, np.arange(40))
    assert together.tolist() == [bool(allocator.may_take(newcomer, np.array([i]))[i]) for i in range(40)]
    assert 0 < together.sum() < 40 and len(set(allocator.cluster.state.tolist())) < 40
