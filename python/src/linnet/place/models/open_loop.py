# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency of a tenant beside tenants with offered rates, on drives that differ.

A drive is in one of two states. Below its capacity, the queue is short, and latency follows what garbage collection and
programs do to reads at that load. The curve may have any shape, humps too. Above the capacity, every rate-limited
tenant keeps its bounded number of I/Os outstanding, a closed loop, and latency no longer depends on the offered load.
So the model's coordinate is load over capacity, each state has curves of its own, and all loads above the capacity have
the same coordinate.

Load is the share of the drive that writes take, plus the one that reads take. Equal shares are not alike: writes
collect garbage. So the part of the load that is reads beyond 3 % of the drive is a coordinate too. Where no row reads
more, it tells nothing apart.

In the closed loop latency is what is outstanding over what the drive achieves (Little's law). So it grows as the sum of
the tenants' depths, in proportion to what was measured at another sum. Too few to fill the drive leave it in the open
state, so they see no less than at its highest load.

Reads and writes differ in how latency changes between two loads. A read waits for programs and erases, whose number
rises with the load. A write ends in the drive's buffer as long as this drains as fast as it fills, and waits for the
flash from the load on at which it does not: latency steps from 12 us to milliseconds within one step of the load. A
curve that has a slope everywhere overshoots a step and bends on both sides of it, so latencies of writes have the rough
kernel, which does neither. Latencies of reads have the roughness that is likelier.

Each target is a Gaussian process: a curve that all drives share, plus one of the drive's model, plus one of the drive.
The probes of a model that did not train also set its level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place.gaussian import ROUGHNESS, Hyper, Kernel, Points, Process, Term, fit
from linnet.place.models.capacity import Capacity, capacities, rooms
from linnet.place.models.model import LEAST_SPREAD, by_cell
from linnet.place.observations import Floats, Observations

SATURATED = 0.985
"""Share of capacity from which a drive is in its closed loop; arrivals in bursts reach it a little below 1."""
SHARE_LEAST = 1e-4
"""Share of capacity below which loads are not told apart."""
READS_LEAST = 0.03
"""Share of the drive up to which reads are not told from writes of the same share."""
QUEUE_LIMIT = 0.97
"""Keeps the queue's coordinate, -log(1 - load), finite at capacity."""
PROBE_NOISE = 0.03
"""Relative standard deviation of one minute's latency about that of its whole run."""
WRITE_ORDERS = (0.5,)
"""Orders of the Matérn kernel for latencies of writes; see the module."""

READS_LENGTH = "reads_length"
"""The hyperparameter that older files lack."""
USUAL_DEPTH = 448.0
"""Outstanding I/Os for which closed loops are learned: those of seven tenants of 64."""

_PLACE = (("load", "length"), ("queue", "queue_length"), ("reads", READS_LENGTH))
_PLACE_OWN = (("load", "own_length"), ("queue", "queue_length"), ("reads", READS_LENGTH))
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
        Hyper(READS_LENGTH, 0.5, 0.7),
        Hyper("noise", 0.03, 1.0),
    ),
)

PROBED = Kernel((*KERNEL.terms, Term(1.0, "constant", same=("state", "model"), gate="new")), KERNEL.hypers)
"""With a level for each drive model that did not train: the hyperparameters were fitted without it and, where the known
ones are alike, would hold one that is ten times as fast to their level between its probes.
"""


class OpenLoop:
    """See the module. ``predict`` has one answer for all minutes of a cell."""

    def __init__(self, start: OpenLoop | None = None) -> None:
        self.processes: list[Process] = start.processes if start else []
        self.known: Observations
        self.noise: Floats
        """Of each known row: 0 of those that trained."""
        self._warm = start is not None
        self._before: OpenLoop | None = None
        """The same model before its probes."""

    def fit(self, train: Observations) -> None:
        """Learn from rows; medians of their cells."""
        self.__dict__.pop("conditioned", None)
        self.known, _ = by_cell(train)
        self.noise = np.zeros(len(self.known))
        points = coordinates(self.known, capacities(self.known))
        starts: list[Process | None] = [*self.processes] if self._warm else [None] * len(train.targets)
        self.processes = [
            fit(KERNEL, points, learned(self.known, points)[:, t], starts[t], orders_of(target))
            for t, target in enumerate(train.targets)
        ]

    def calibrated(self, probes: Observations) -> OpenLoop:
        """The same model, when these minutes are known too."""
        other = OpenLoop(self)
        other._before = self
        other.processes = [replace(process, kernel=PROBED) for process in self.processes]
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
        known, asked = self._points(self.known, capacity), self._points(cells, capacity)
        values = learned(self.known, known)
        firsts = self._before.conditioned if self._before else [None] * len(self.processes)
        processes = [
            process.given(known, values[:, t], self.noise, first)
            for t, (process, first) in enumerate(zip(self.processes, firsts, strict=True))
        ]
        answers = [process.predict(asked) for process in processes]
        mean = np.stack([mean for mean, _ in answers], 1)
        spread = np.stack([spread for _, spread in answers], 1)
        cliff = bracket_jumps(known, values, asked) / math.sqrt(12)
        least = least_queued(self.known)
        few = asked["queued"] < least
        ends = np.full_like(mean, -math.inf)
        if few.any():
            open_ = np.zeros(int(few.sum()), bool)
            labels = {name: asked[name][few] for name in ("drive", "model", "new")}
            end = {**place_of(np.full(len(open_), SATURATED), open_, asked["reads"][few]), **labels}
            ends[few] = np.stack([process.predict(end)[0] for process in processes], 1)
        mean = with_queue(mean, asked["queued"], least, ends)
        return mean, np.maximum(np.hypot(spread, cliff), LEAST_SPREAD)

    @cached_property
    def conditioned(self) -> list[Process]:
        """The processes at the known rows: what those that know probes too begin with."""
        points = self._points(self.known, capacities(self.known))
        values = learned(self.known, points)
        return [process.given(points, values[:, t], self.noise) for t, process in enumerate(self.processes)]

    def _points(self, rows: Observations, capacity: Mapping[str, Capacity]) -> dict[str, NDArray[Any]]:
        """:func:`coordinates`, and ``new``: 1 for rows of a drive model that did not train, else 0."""
        trained = self.known.labels["model"][self.noise == 0]
        new = ~np.isin(rows.labels["model"], list(set(trained)))
        return {**coordinates(rows, capacity), "new": new.astype(float)}

    def next_probe(self, candidates: Observations, probes: Observations | None) -> int:
        """Which of the candidate loads of one drive to measure next, given the minutes so far: an index.

        The highest load comes first: it measures the capacity, and thereby latency at every load beyond it. Then the
        load whose latency is least certain; loads beyond a capacity that was measured come last.
        """
        if probes is None or not len(probes):
            pages = candidates.inputs["all_read_pages"] + candidates.inputs["all_write_pages"]
            return int(np.lexsort((pages, shares(candidates, capacities(self.known, candidates))))[-1])
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

    Only known loads of the same drive and state count or, for a drive that has none, those of its model; and of each
    target those whose outcome is known. A cliff may stand anywhere between the two, and a process with one length scale
    for all loads cannot express it. For loads outside all known ones the answer is 0.
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
        same = "drive" if np.any(known["drive"] == asked["drive"][i]) else "model"
        own = np.flatnonzero((known[same] == asked[same][i]) & (known["state"] == asked["state"][i]))
        below, above = own[known["load"][own] < here], own[known["load"][own] > here]
        if len(below) and len(above) and not np.any(known["load"][own] == here):
            left, right = below[np.argmax(known["load"][below])], above[np.argmin(known["load"][above])]
            found[i] = np.abs(outcomes[right] - outcomes[left])
    return found


def shares(rows: Observations, capacity: Mapping[str, Capacity]) -> Floats:
    """Share of their drives that the offered loads of rows take; above 1 they are held back."""
    return rooms(rows, capacity).share(rows.inputs["all_read_pages"], rows.inputs["all_write_pages"])


def coordinates(rows: Observations, capacity: Mapping[str, Capacity]) -> dict[str, NDArray[Any]]:
    """Where rows stand on their drives: state, load over capacity, how long its queue would be, and the share of reads.

    ``queued`` is what the logarithm of latency has more than :data:`USUAL_DEPTH` outstanding I/Os would give it.
    """
    share = shares(rows, capacity)
    closed = share >= SATURATED
    reads = rows.inputs["all_read_pages"] / rooms(rows, capacity).reads
    return {
        **place_of(np.where(closed, 1.0, np.clip(share, SHARE_LEAST, SATURATED)), closed, reads_of(reads, share)),
        "queued": queued(closed, rows.inputs["depth"]),
        "drive": rows.labels["drive"],
        "model": rows.labels["model"],
    }


def reads_of(reads: Floats, share: Floats) -> Floats:
    """Coordinate of reads that ask for a share ``reads`` of a drive of which all tenants ask for ``share``: 0 to 1."""
    beyond = np.maximum(reads / np.maximum(share, 1.0) - READS_LEAST, 0.0)
    return np.asarray(beyond / np.clip(share, SHARE_LEAST, 1.0), float)


def queued(closed: NDArray[np.bool_], depth: Floats) -> Floats:
    """Logarithm of outstanding I/Os over the usual ones in a closed loop; 0 where they are not known, and below it."""
    known = np.where(np.isnan(depth), USUAL_DEPTH, depth)
    return np.where(closed, np.log(known / USUAL_DEPTH), 0.0)


def least_queued(known: Observations) -> float:
    """``queued`` of the fewest outstanding I/Os of known rows."""
    depth = known.inputs["depth"]
    return math.log(float(np.min(depth[~np.isnan(depth)], initial=USUAL_DEPTH)) / USUAL_DEPTH)


def with_queue(mean: Floats, queued: Floats, least: float, ends: Floats) -> Floats:
    """Latencies of rows, [n, targets], with what ``queued`` [n] adds.

    With fewer outstanding I/Os than were measured, which add ``least``, latency is no less than ``ends``, that at the
    end of the open state, unless it was measured.
    """
    return np.asarray(np.maximum(mean + queued[:, None], np.minimum(mean + least, ends)), float)


def learned(known: Observations, points: Points) -> Floats:
    """Outcomes as a process has them: what they would be with the usual number of outstanding I/Os."""
    return np.asarray(known.outcomes - points["queued"][:, None], float)


def place_of(share: Floats, closed: NDArray[np.bool_], reads: Floats) -> dict[str, NDArray[Any]]:
    """Coordinates of shares of the capacity, 1 for the closed loop, with that of :func:`reads_of`."""
    return {
        "reads": reads,
        "load": np.log(share),
        "queue": -np.log(1 - QUEUE_LIMIT * share),
        "state": np.where(closed, "closed", "open").astype(object),
    }
