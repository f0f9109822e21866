# SPDX-License-Identifier: MIT OR Apache-2.0
"""The capacity of a drive and the coordinates of its load, by the rules and numbers of spec/place-model.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from linnet.place.models.capacity import Capacity, capacities, held_back
from linnet.place.models.open_loop import USUAL_DEPTH, coordinates, shares
from linnet.place.observations import Observations

NAN = math.nan


def rows(*given: tuple[str, str, float, float, float, float, float]) -> Observations:
    """Rows of drive, model, offered reads and writes, achieved writes, and random reads and writes of the sheet."""
    drive, model, *numbers = (np.array(column, dtype=object) for column in zip(*given, strict=True))
    reads, offered, achieved, read_iops, write_iops = (column.astype(float) for column in numbers)
    inputs = {"all_read_pages": reads, "all_write_pages": offered, "rnd_read_iops": read_iops}
    inputs |= {"rnd_write_iops": write_iops, "depth": np.full(len(drive), USUAL_DEPTH)}
    labels, outcomes = {"drive": drive, "model": model}, np.zeros((len(drive), 0))
    return Observations("ssdiq", (), outcomes, inputs, labels, {"write_pages": achieved, "read_pages": reads.copy()})


def writes(*runs: tuple[float, float], drive: str = "a0", model: str = "A", sheet: float = NAN) -> Observations:
    """Runs of offered and achieved writes on one drive."""
    return rows(*((drive, model, 0.0, offered, achieved, NAN, sheet) for offered, achieved in runs))


@pytest.mark.parametrize(
    ("offered", "least"),
    [
        (60.0, 56.0),  # 1 I/O per second has a deviation of 1, four of which are more than 3 % of 60
        (240.0, 232.0),
        (60_000.0, 58_200.0),  # 97 %: four deviations are 126
        (0.0, 0.0),
    ],
)
def test_a_run_is_held_back_below_97_percent_and_beyond_chance(offered: float, least: float) -> None:
    achieved = np.array([least + 0.001, least - 0.001])
    assert held_back(np.full(2, offered), achieved).tolist() == [False, True]
    assert held_back(np.array([60.0, 0.0]), np.array([56.0, 0.0])).tolist() == [False, False]


@pytest.mark.parametrize(
    ("known", "capacity"),
    [
        # The median of the runs that were held back, those that were not left aside.
        (writes((100e3, 80e3), (100e3, 85e3), (100e3, 93e3), (60e3, 60e3), (60e3, 59e3)), 85e3),
        # A run below half of the most that was achieved says nothing.
        (writes((100e3, 80e3), (100e3, 40e3)), 60e3),
        (writes((100e3, 80e3), (100e3, 39_999.0)), 80e3),
        # Overload sustains less than was served just below it: 2 % above that.
        (writes((90e3, 90e3), (100e3, 70e3), (120e3, 72e3)), 91_800.0),
        (writes((80e3, 79e3), (100e3, 80e3), (120e3, 80e3)), 80e3),
        # By more than 2 %: less is chance.
        (writes((81e3, 80.5e3), (100e3, 79e3), (120e3, 79e3)), 79e3),
        (writes((90e3, 90e3), (100e3, 44_999.0), (100e3, 46e3)), 91_800.0),
        # Where reads take a quarter of the drive, too.
        (rows(("a0", "A", 0.0, 90e3, 90e3, 500e3, NAN), ("a0", "A", 125e3, 100e3, 45e3, 500e3, NAN)), 91_800.0),
        # Never held back: 2 % above the most that was achieved, or the data sheet if that is more.
        (writes((60e3, 60e3)), 61_200.0),
        (writes((60e3, 60e3), sheet=50e3), 61_200.0),
        (writes((60e3, 60e3), sheet=61_300.0), 61_300.0),
        # Reads take their share of the drive, at most nine tenths of it.
        (rows(("a0", "A", 250e3, 100e3, 40e3, 500e3, NAN)), 80e3),
        (rows(("a0", "A", 499e3, 100e3, 4e3, 500e3, NAN)), 40e3),
        (rows(("a0", "A", 250e3, 100e3, 40e3, NAN, NAN)), 40e3),
    ],
)
def test_the_capacity_of_a_drive_by_its_runs(known: Observations, capacity: float) -> None:
    assert {name: one.writes for name, one in capacities(known).items()} == {"a0": pytest.approx(capacity, rel=1e-12)}


def test_the_capacity_of_another_drive_is_its_sheet_times_what_drives_achieve_of_theirs() -> None:
    # Shares of 0.9 and 0.4; their geometric mean is 0.6. A drive without a figure has no share.
    known = writes((100e3, 45e3), sheet=50e3).joined(writes((100e3, 20e3), drive="b0", model="B", sheet=50e3))
    known = known.joined(writes((100e3, 70e3), drive="c0", model="C"))
    asked = [("a1", "A", 100e3), ("d0", "D", 100e3), ("c1", "C", NAN)]
    found = capacities(known, rows(*((drive, model, 0.0, 0.0, NAN, NAN, sheet) for drive, model, sheet in asked)))
    wanted = {"a0": 45e3, "b0": 20e3, "c0": 70e3, "a1": 90e3, "d0": 60e3, "c1": math.inf}
    assert {drive: one.writes for drive, one in found.items()} == {
        drive: pytest.approx(capacity, rel=1e-12) for drive, capacity in wanted.items()
    }


def test_reads_take_their_share_of_the_drive() -> None:
    known = rows(*(("a0", "A", reads, 20e3, NAN, NAN, NAN) for reads in (0.0, 100e3, 900e3, 2e6)))
    np.testing.assert_allclose(shares(known, {"a0": Capacity(1e6, 80e3)}), [0.25, 0.35, 1.15, 2.25], rtol=1e-12)
    np.testing.assert_allclose(shares(known, {"a0": Capacity(math.inf, 80e3)}), [0.25] * 4, rtol=1e-12)


def mixed(*runs: tuple[float, float, float, float], sheet: tuple[float, float] = (1e6, 100e3)) -> Observations:
    """Runs of offered reads and writes, and achieved reads and writes, on one drive."""
    reads, writes_, read, written = (list(column) for column in zip(*runs, strict=True))
    found = rows(*(("a0", "A", *one, *sheet) for one in zip(reads, writes_, written, strict=True)))
    found.achieved["read_pages"][:] = read
    return found


@pytest.mark.parametrize(
    ("known", "reads", "writes_"),
    [
        # Reads alone, held back; writes have their sheet.
        (mixed((2e6, 0.0, 0.8e6, 0.0)), 0.8e6, 100e3),
        # No run is held back: the sheet, and no less than was achieved.
        (mixed((0.7e6, 0.0, 0.7e6, 0.0)), 1e6, 100e3),
        (mixed((2e6, 0.0, 2e6, 0.0)), 2.04e6, 100e3),
        # Both at half of what they offer: what reads leave is writes', since these take more.
        (mixed((1e6, 200e3, 0.25e6, 50e3)), 1e6, 50e3 / 0.75),
        # Reads take more.
        (mixed((2e6, 50e3, 0.6e6, 15e3)), 0.6e6 / 0.85, 100e3),
        # Each measures its own, and they have to agree: 0.75 and 0.25 of 800,000 and of 80,000.
        (mixed((1.2e6, 40e3, 0.6e6, 20e3), (400e3, 120e3, 0.2e6, 60e3)), 0.8e6, 80e3),
        # Without data sheets, the more I/Os are those that are measured.
        (mixed((2e6, 10e3, 0.5e6, 2.5e3), sheet=(NAN, NAN)), 0.5e6, math.inf),
        (mixed((10e3, 200e3, 5e3, 100e3), sheet=(NAN, NAN)), math.inf, 100e3),
    ],
)
def test_reads_and_writes_measure_what_they_take_most_of(known: Observations, reads: float, writes_: float) -> None:
    found = capacities(known)["a0"]
    assert (found.reads, found.writes) == (pytest.approx(reads, rel=0.02), pytest.approx(writes_, rel=0.02))


def test_a_drive_that_achieved_no_read_is_refused() -> None:
    with pytest.raises(ValueError, match="drive a0: reads were offered, and none was achieved"):
        capacities(mixed((1e6, 0.0, 0.0, 0.0)))


def test_loads_served_before_a_collapse_are_below_the_capacity() -> None:
    known = writes((50e3, 50e3), (90e3, 90e3), (100e3, 70e3), (200e3, 72e3))
    assert coordinates(known, capacities(known))["state"].tolist() == ["open", "open", "closed", "closed"]


def test_the_coordinates_of_a_load() -> None:
    given = [0.0, 50e3, 98_499.0, 98_500.0, 400e3]
    found = coordinates(writes(*((offered, NAN) for offered in given)), {"a0": Capacity(math.inf, 100e3)})
    assert found["state"].tolist() == ["open", "open", "open", "closed", "closed"]
    load = np.log([1e-4, 0.5, 0.98499, 1.0, 1.0])
    np.testing.assert_allclose(found["load"].astype(float), load, rtol=1e-9)
    # -log(1 - 0.97 load).
    queue = [9.70047046e-05, 0.6635883783184009, 3.110925415881284, 3.506557897319981, 3.506557897319981]
    np.testing.assert_allclose(found["queue"].astype(float), queue, rtol=1e-8)


def test_the_coordinate_of_reads_begins_at_three_percent() -> None:
    given = rows(
        *(("a0", "A", reads, writes_, NAN, NAN, NAN) for reads, writes_ in ((30e3, 0), (230e3, 0), (1e6, 1e5)))
    )
    found = coordinates(given, {"a0": Capacity(1e6, 100e3)})
    # The last is held back to half of what it offers.
    np.testing.assert_allclose(found["reads"], [0.0, 0.2 / 0.23, 0.47], atol=1e-12)
    np.testing.assert_allclose(np.exp(found["load"].astype(float)), [0.03, 0.23, 1.0])


def test_outstanding_ios_count_in_the_closed_state() -> None:
    given = writes((50e3, NAN), (200e3, NAN), (200e3, NAN), (200e3, NAN))
    given.inputs["depth"][:] = [896, 896, 224, NAN]
    found = coordinates(given, {"a0": Capacity(math.inf, 100e3)})
    np.testing.assert_allclose(found["queued"], np.log([1, 2, 0.5, 1]), atol=1e-12)
