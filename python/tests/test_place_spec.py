# SPDX-License-Identifier: MIT OR Apache-2.0
"""A placement model's file read as spec/place-model.md says, without the library's reader and processes."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linnet.place.fitted import PlacementModel
from linnet.place.fitted_file import from_bytes, to_bytes
from linnet.place.models.capacity import capacities
from linnet.place.observations import Floats, Observations

HYPER = ("shape", "model_shape", "model_level", "drive_shape", "length", "own_length", "queue_length", "reads_length")


class Point:
    """A drive, its model, and the coordinates of the table."""

    def __init__(self, drive: str, kind: str, shares: tuple[float, float], depth: float) -> None:
        reads, load = shares
        self.drive, self.kind, self.closed = drive, kind, load >= 0.985
        used = 1.0 if self.closed else min(max(load, 1e-4), 0.985)
        self.load, self.queue = math.log(used), -math.log(1 - 0.97 * used)
        self.reads = max(reads / max(load, 1.0) - 0.03, 0.0) / min(max(load, 1e-4), 1.0)
        self.more = math.log(depth / 448) if self.closed and depth > 0 else 0.0


def covariance(a: Point, b: Point, hyper: dict[str, float], roughness: float) -> float:
    """The sum of the five terms."""

    def matern(length: str) -> float:
        pairs = (("load", length), ("queue", "queue_length"), ("reads", "reads_length"))
        d = math.sqrt(sum(((getattr(a, name) - getattr(b, name)) / hyper[of]) ** 2 for name, of in pairs))
        return math.exp(-d) if roughness == 0.5 else (1 + math.sqrt(3) * d) * math.exp(-math.sqrt(3) * d)

    if a.closed != b.closed:
        return 0.0
    found = 0.25 + hyper["shape"] ** 2 * matern("length")
    if a.kind == b.kind:
        found += hyper["model_shape"] ** 2 * matern("own_length") + hyper["model_level"] ** 2
    if a.drive == b.drive:
        found += hyper["drive_shape"] ** 2 * matern("own_length")
    return found


class Target:
    """One target of the head, with the rows that have its latency."""

    def __init__(self, head: dict[str, Any], rows: list[Point], column: Floats) -> None:
        *logs, self.noise = map(math.exp, head["hyperparameters"])
        self.hyper, self.rough, self.centre = dict(zip(HYPER, logs, strict=True)), head["roughness"], head["centre"]
        told = [(row, value - row.more) for row, value in zip(rows, column, strict=True) if value != -1000]
        self.rows, self.y = [row for row, _ in told], np.array([value for _, value in told])
        matrix = np.array([[covariance(a, b, self.hyper, self.rough) for b in self.rows] for a in self.rows])
        self.inverse = np.linalg.inv(matrix + (self.noise**2 + 1e-8) * np.eye(len(told)))

    def at(self, asked: Point) -> tuple[float, float]:
        """Mean and spread at a point."""
        k = np.array([covariance(asked, row, self.hyper, self.rough) for row in self.rows])
        mean = self.centre + k @ self.inverse @ (self.y - self.centre)
        prior = 0.25 + sum(self.hyper[name] ** 2 for name in HYPER[:4])
        variance = max(prior - k @ self.inverse @ k, 0.0) + self.noise**2
        return mean + asked.more, max(math.sqrt(variance + self.jump(asked) ** 2 / 12), 0.005)

    def jump(self, asked: Point) -> float:
        """Between the rows that enclose the point."""
        same = "drive" if any(row.drive == asked.drive for row in self.rows) else "kind"
        own = [
            (row.load, y)
            for row, y in zip(self.rows, self.y, strict=True)
            if row.closed == asked.closed and getattr(row, same) == getattr(asked, same)
        ]
        below, above = [one for one in own if one[0] < asked.load], [one for one in own if one[0] > asked.load]
        if not below or not above or any(load == asked.load for load, _ in own):
            return 0.0
        return float(min(above)[1] - max(below)[1])


def shares_of(rows: Observations, known: Observations) -> list[tuple[float, float]]:
    """Of each row, what its reads take of the drive, and what all take."""
    room = capacities(known, rows)
    found = []
    for i, drive in enumerate(map(str, rows.labels["drive"])):
        reads = float(rows.inputs["all_read_pages"][i] / room[drive].reads)
        found.append((reads, reads + float(rows.inputs["all_write_pages"][i] / room[drive].writes)))
    return found


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize(
    "of_drive",
    [lambda name, kind: (name, kind), lambda name, kind: ("", kind), lambda name, kind: ("", "other")],
    ids=["drive of the file", "another of its model", "another model"],
)
def test_the_process_is_that_of_the_specification(
    placement_model: PlacementModel, lacks: bool, of_drive: Callable[[str, str], tuple[str, str]]
) -> None:
    fitted = copy.copy(placement_model.latency)
    if lacks:
        outcomes = fitted.known.outcomes.copy()
        outcomes[::3, 2] = math.nan
        fitted.known = replace(fitted.known, outcomes=outcomes)
    file = to_bytes(replace(placement_model, latency=fitted))
    latency = from_bytes(file).latency
    length = int.from_bytes(file[12:16], "little")
    head = json.loads(file[28 : 28 + length])
    count = int.from_bytes(file[20:24], "little")
    columns = np.frombuffer(file[28 + length : -4], "<f8").reshape(-1, count)
    assert len(columns) == 8 + len(head["targets"])
    drives = [(head["drives"][int(i)]["name"], head["drives"][int(i)]["model"]) for i in columns[0]]
    rows = [
        Point(*drive, shares, depth)
        for drive, shares, depth in zip(drives, shares_of(latency.known, latency.known), columns[5], strict=True)
    ]
    assert (columns[8:] == -1000).any() == lacks
    some = latency.known.take(np.arange(0, count, 5))
    # Other loads than those of the rows, some with more reads.
    writes = some.inputs["all_write_pages"] * 1.07
    reads = some.inputs["all_read_pages"] * 1.07 + np.arange(len(some)) % 3 * writes / 2
    other = [of_drive(name, kind) for name, kind in zip(some.labels["drive"], some.labels["model"], strict=True)]
    asked = replace(
        some,
        inputs={**some.inputs, "all_read_pages": reads, "all_write_pages": writes},
        labels={
            "drive": np.array([name for name, _ in other], dtype=object),
            "model": np.array([kind for _, kind in other], dtype=object),
            "cell": np.array([f"cell {i:04}" for i in range(len(other))], dtype=object),
        },
    )
    mean, spread = latency.at(asked)
    targets = [Target(target, rows, column) for target, column in zip(head["targets"], columns[8:], strict=True)]
    for i, shares in enumerate(shares_of(asked, latency.known)):
        point = Point(*other[i], shares, float(asked.inputs["depth"][i]))
        for t, target in enumerate(targets):
            told = pytest.approx((mean[i, t], spread[i, t]), rel=1e-6)
            assert target.at(point) == told, (i, head["targets"][t]["name"], shares)
