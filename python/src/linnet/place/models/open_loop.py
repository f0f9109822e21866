# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency of a tenant beside tenants with offered rates, on drives that differ.

A drive is in one of two states. Below its capacity for random writes, the queue is short, and latency follows what
garbage collection and programs do to reads at that load. The curve may have any shape, humps too. Above the capacity,
every rate-limited tenant keeps its bounded number of I/Os outstanding, a closed loop, and latency no longer depends on
the offered load. So the model's coordinate is load over capacity, each state has curves of its own, and all loads above
the capacity have the same coordinate.

Reads and writes differ in how latency changes between two loads. A read waits for programs and erases, whose number
rises with the load. A write ends in the drive's buffer as long as this drains as fast as it fills, and waits for the
flash from the load on at which it does not: latency steps from 12 us to milliseconds within one step of the load. A
curve that has a slope everywhere overshoots a step and bends on both sides of it, so latencies of writes have the rough
kernel, which does neither. Latencies of reads have the roughness that is likelier.

The capacity of a drive is measured if one of its known runs achieved less than its offered load, by more than arrivals
at random can miss in a minute, and no other run achieved twice as much. Otherwise it is the data sheet's figure, times
the share of their sheets' figures that measured drives achieve. Each target is a Gaussian process: a curve that all
drives share, plus one of the drive's model, plus one of the drive.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from linnet.place.gaussian import ROUGHNESS, Hyper, Kernel, Points, Process, Term, fit
from linnet.place.models.model import LEAST_SPREAD, by_cell, groups_of
from linnet.place.observations import Floats, Observations

SATURATED = 0.985
"""Share of capacity from which a drive is in its closed loop; arrivals in bursts reach it a little below 1."""
HELD_BACK = 0.97
"""Share of the offered writes below which a known run was held back, hence measured the capacity."""
MINUTE_S = 60.0
"""Length of a measurement, in which offered I/Os are counted."""
CHANCE = 4.0
"""Standard deviations by which the number of arrivals in a minute may fall short by chance: Poisson, its root."""
OF_MOST = 0.5
"""Share of the most that a drive achieved below which a run that was held back says nothing of the capacity."""
HEADROOM = 1.02
"""Least capacity of a drive, over the writes that it was seen to achieve without being held back."""
SHARE_LEAST = 1e-4
"""Share of capacity below which loads are not told apart."""
QUEUE_LIMIT = 0.97
"""Keeps the queue's coordinate, -log(1 - load), finite at capacity."""
PROBE_NOISE = 0.03
"""Relative standard deviation of one minute's latency about that of its whole run."""
WRITE_ORDERS = (0.5,)
"""Orders of the Matérn kernel for latencies of writes; see the module."""

_PLACE = (("load", "length"), ("queue", "queue_length"))
_PLACE_OWN = (("load", "own_length"), ("queue", "queue_length"))
KERNEL = Kernel(
    (
        Term(0.5, "constant", same=("state",)),
        Term("shape", "matern", _PLACE, same=("state",)),
        Term("model_shape", "matern", _PLACE_OWN, same=("state", "model")),
        Term("model_level", "constant", same=("state", "model")),
        Term("drive_shape", "matern", _PLACE_OWN, same=("state", "drive")),
    ),
    (
        Hyper("shape", 0.5, 0.7),
        Hyper("model_shape", 0.5, 0.7),
        Hyper("model_level", 0.5, 0.7),
        Hyper("drive_shape", 0.1, 0.7),
        Hyper("length", 1.5, 0.7),
        Hyper("own_length", 1.5, 0.7),
        Hyper("queue_length", 1.5, 0.7),
        Hyper("noise", 0.03, 1.0),
    ),
)


class OpenLoop:
    """See the module. ``predict`` has one answer for all minutes of a cell."""

    def __init__(self, start: OpenLoop | None = None) -> None:
        self.processes: list[Process] = start.processes if start else []
        self.known: Observations
        self.noise: Floats
        self._warm = start is not None

    def fit(self, train: Observations) -> None:
        """Learn from rows; medians of their cells."""
        self.known, _ = by_cell(train)
        self.noise = np.zeros(len(self.known))
        points = coordinates(self.known, capacities(self.known))
        starts: list[Process | None] = [*self.processes] if self._warm else [None] * len(train.targets)
        self.processes = [
            fit(KERNEL, points, self.known.outcomes[:, t], starts[t], orders_of(target))
            for t, target in enumerate(train.targets)
        ]

    def calibrated(self, probes: Observations) -> OpenLoop:
        """The same model, when these minutes are known too."""
        other = OpenLoop(self)
        other.known = self.known.joined(probes)
        other.noise = np.concatenate([self.noise, np.full(len(probes), PROBE_NOISE)])
        return other

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`."""
        cells, member = by_cell(rows)
        mean, spread = self.at(cells)
        return mean[member], spread[member]

    def at(self, cells: Observations) -> tuple[Floats, Floats]:
        """Mean and spread for each row of ``cells``."""
        capacity = capacities(self.known, cells)
        known, asked = coordinates(self.known, capacity), coordinates(cells, capacity)
        answers = [
            process.given(known, self.known.outcomes[:, t], self.noise).predict(asked)
            for t, process in enumerate(self.processes)
        ]
        spread = np.stack([spread for _, spread in answers], 1)
        cliff = bracket_jumps(known, self.known.outcomes, asked) / math.sqrt(12)
        return np.stack([mean for mean, _ in answers], 1), np.maximum(np.hypot(spread, cliff), LEAST_SPREAD)

    def next_probe(self, candidates: Observations, probes: Observations | None) -> int:
        """Which of the candidate loads of one drive to measure next, given the minutes so far: an index.

        The highest load comes first: it measures the capacity, and thereby latency at every load beyond it. Then the
        load whose latency is least certain; loads beyond a capacity that was measured come last.
        """
        load = candidates.inputs["all_write_pages"]
        if probes is None or not len(probes):
            return int(np.argmax(load))
        model = self.calibrated(probes)
        _, spread = model.at(candidates)
        capacity = capacities(model.known, candidates)
        state = coordinates(candidates, capacity)["state"]
        closed_known = np.any(coordinates(probes, capacity)["state"] == "closed")
        worth = np.where((state == "closed") & closed_known, 0.0, spread.sum(1))
        worth[np.isin(candidates.labels["cell"], list(probes.labels["cell"]))] = -math.inf
        return int(np.argmax(worth))


def orders_of(target: str) -> tuple[float, ...]:
    """Orders of the Matérn kernel that are tried for a target."""
    return WRITE_ORDERS if target.startswith("write_") else ROUGHNESS


def bracket_jumps(known: Points, outcomes: Floats, asked: Points) -> Floats:
    """How much each target changes between the two known loads that enclose an asked one: (n, targets).

    Only known loads of the same drive and state count, and of each target those whose outcome is known. A cliff may
    stand anywhere between the two, and a process with one length scale for all loads cannot express it. For loads
    outside all known ones the answer is 0.
    """
    found = np.zeros((len(asked["load"]), outcomes.shape[1]))
    told = np.isfinite(outcomes)
    if not told.all():
        for which in np.unique(told, axis=1).T:
            same = (told == which[:, None]).all(axis=0)
            some = {name: np.asarray(column)[which] for name, column in known.items()}
            found[:, same] = bracket_jumps(some, outcomes[np.ix_(which, same)], asked)
        return found
    for i, here in enumerate(asked["load"]):
        own = np.flatnonzero((known["drive"] == asked["drive"][i]) & (known["state"] == asked["state"][i]))
        below, above = own[known["load"][own] < here], own[known["load"][own] > here]
        if len(below) and len(above) and not np.any(known["load"][own] == here):
            left, right = below[np.argmax(known["load"][below])], above[np.argmin(known["load"][above])]
            found[i] = np.abs(outcomes[right] - outcomes[left])
    return found


def writes_used(reads: Floats, writes: Floats, read_iops: Floats) -> Floats:
    """Writes in pages per second, with reads counted by what they take of the drive's read rate."""
    share = np.minimum(reads / read_iops, 0.9)
    return np.asarray(writes / (1 - np.nan_to_num(share)), float)


def held_back(offered: Floats, achieved: Floats) -> NDArray[np.bool_]:
    """Whether writes per second that were achieved in a minute are fewer than offered, and not by chance."""
    chance = CHANCE * np.sqrt(offered / MINUTE_S)
    return np.asarray(achieved < offered - np.maximum((1 - HELD_BACK) * offered, chance))


def capacities(known: Observations, asked: Observations | None = None) -> dict[str, float]:
    """Random writes per second, in pages, that each drive of the known and the asked rows can sustain.

    Raises ValueError for a drive that was offered writes and achieved none.
    """
    offered = known.inputs["all_write_pages"]
    achieved = known.achieved["write_pages"]
    back = held_back(offered, achieved)
    used = writes_used(known.inputs["all_read_pages"], achieved, known.inputs["rnd_read_iops"])
    sheet = {**_sheet(known), **(_sheet(asked) if asked else {})}
    measured: dict[str, float] = {}
    ratio: dict[str, float] = {}
    for rows in groups_of(known.labels["drive"]):
        drive = str(known.labels["drive"][rows[0]])
        full = rows[back[rows] & (used[rows] >= OF_MOST * used[rows].max())]
        if len(full):
            measured[drive] = float(np.median(used[full]))
            if not measured[drive]:
                raise ValueError(
                    f"drive {drive}: writes were offered, and none was achieved at any load, so its capacity is not "
                    "known; correct write_iops, or leave the drive out"
                )
            ratio[drive] = measured[drive] / sheet[drive][1]
    ratios = {drive: value for drive, value in ratio.items() if math.isfinite(value)}
    found = dict(measured)
    for drive, (model, figure) in sheet.items():
        if drive in measured:
            continue
        same = [value for other, value in ratios.items() if sheet[other][0] == model]
        usual = math.exp(float(np.mean(np.log(same or list(ratios.values()) or [1.0]))))
        seen = used[known.labels["drive"] == drive]
        least = HEADROOM * float(seen.max()) if len(seen) else 0.0
        guess = figure * usual if math.isfinite(figure) else math.nan
        found[drive] = max(guess, least) if math.isfinite(guess) else least or math.inf
    return found


def _sheet(rows: Observations) -> dict[str, tuple[str, float]]:
    figures = zip(rows.labels["drive"], rows.labels["model"], rows.inputs["rnd_write_iops"], strict=True)
    return {str(drive): (str(model), float(figure)) for drive, model, figure in figures}


def coordinates(rows: Observations, capacity: dict[str, float]) -> dict[str, NDArray[np.generic]]:
    """Where rows stand on their drives: state, load over capacity, and how long its queue would be."""
    room = np.array([capacity[str(drive)] for drive in rows.labels["drive"]])
    used = writes_used(rows.inputs["all_read_pages"], rows.inputs["all_write_pages"], rows.inputs["rnd_read_iops"])
    share = used / room
    closed = share >= SATURATED
    share = np.where(closed, 1.0, np.clip(share, SHARE_LEAST, SATURATED))
    return {**place_of(share, closed), "drive": rows.labels["drive"], "model": rows.labels["model"]}


def place_of(share: Floats, closed: NDArray[np.bool_]) -> dict[str, NDArray[np.generic]]:
    """Coordinates of shares of the capacity; 1 for the closed loop."""
    return {
        "load": np.log(share),
        "queue": -np.log(1 - QUEUE_LIMIT * share),
        "state": np.where(closed, "closed", "open").astype(object),
    }
