# SPDX-License-Identifier: MIT OR Apache-2.0
"""Co-location runs: what each of 2 to 16 tenants of a drive sees, beside the profiles of all. Training data.

A library of workloads is drawn once: synthetic ones, or samples of recorded traces. Each is profiled from its offered
I/Os and run alone; then runs put random members of the library on one drive together. Every run is kept in a cache by
its content, so that an interrupted command continues, and a longer one begins where a shorter one ended.

A run is measured on a drive that is in a steady state under its tenants: they overwrite their parts until write
amplification is steady, without time passing, and run until the drive's reserve of free pages is. A tenant that has no
I/O outstanding while it is measured has no metrics: they are NaN, as are latencies of what did not complete. On a real
drive (:mod:`linnet.place.staging`) nobody sees whether the state is steady.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import itertools
import json
import math
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from linnet import _native
from linnet._native import SharedDrive, StagingDrive, TenantError, TenantLoad
from linnet.place.cache import Cache
from linnet.place.samples import beginning, samples
from linnet.place.staging import Stage, fill, identity, open_drive, threads_of
from linnet.place.words import FEATURES, METRICS
from linnet.place.workers import Work, Workers
from linnet.threads import Threads

TENANTS_MAX = 16
"""Tenants that the model runs on one drive."""

PEAKS = {"nvme": 3e9, "sata": 4e8}
"""Bandwidth of mixed I/O that loads are drawn for, bytes per second (Table 1 of the gray-box paper)."""

DEPTH = FEATURES.index("depth")
PROFILED_S = 10.0
"""Length of the sample that a workload's profile is computed from (the paper, section 5)."""

PROFILED_IOS = 300_000
"""The sample of a faster workload ends after about so many I/Os, but not before 2 s."""

Progress = Callable[[str, int, int], None]
"""Receives a stage, the steps done and all steps."""


@dataclass(frozen=True)
class Plan:
    """Which runs to make."""

    drive: str = "nvme"
    """nvme, sata, or a preset or parameter file of the SSD model's timeline engine; the path of a ``staging`` drive."""
    runs: int = 1000
    tenants: tuple[int, int] = (2, TENANTS_MAX)
    workloads: int = 200
    """Workloads in the library."""
    share: tuple[float, float] = (0.005, 0.2)
    """Least and most mean bandwidth of a workload, as a share of the drive's peak; drawn log-uniformly."""
    seconds: float = 1.0
    """Measured part of a run."""
    warm_s: float | None = None
    """Warm-up of a preconditioned drive; without, until the drive is in a steady state under the tenants."""
    seed: int = 0
    peak: float | None = None
    """Bytes per second that the shares are of; that of the drive by default."""
    traces: tuple[str, ...] = ()
    """Files of which workloads are samples, at the drawn bandwidths; without, workloads are synthetic."""
    staging: bool = False
    """Run on a real drive that is set aside. It does not say when it is steady: the warm-up is a second by default."""
    overwrite: bool = False
    """Whether what is on it may be lost."""
    fill: bool = True
    """Whether it is written as a whole before, where it may be."""

    def check(self) -> None:
        """Raise TenantError for a plan that cannot be made."""
        low, high = self.tenants
        if not 1 <= low <= high <= TENANTS_MAX:
            raise TenantError(f"tenants {low}-{high}: give 1 to {TENANTS_MAX}, the least first")
        if self.workloads < high:
            raise TenantError(f"{self.workloads} workloads for runs of {high} tenants; give at least {high}")
        if not 0 < self.share[0] <= self.share[1] <= 10:
            raise TenantError(f"share {self.share[0]}-{self.share[1]}: give 0 to 10, the least first")
        if not 0.01 <= self.seconds <= 3600 or not 0 <= (self.warm_s or 0) <= 3600:
            raise TenantError(f"{self.seconds} s after {self.warm_s} s: give 0.01 to 3600 s after 0 to 3600 s")
        if self.peak is not None and not 0 < self.peak < float("inf"):
            raise TenantError(f"peak {self.peak:g}: give the drive's bandwidth in bytes per second, above 0")
        if self.peak is None and (self.staging or self.drive not in PEAKS):
            raise TenantError(f"drive {self.drive}: give its peak bandwidth; it is known for {', '.join(PEAKS)}")


@dataclass(frozen=True)
class Member:
    """A workload of the library."""

    load: TenantLoad
    features: npt.NDArray[np.float64]
    """Its profile; the depth is that of its run alone."""
    alone: tuple[float, ...]
    """Its metrics when it has the drive to itself."""
    source: str = ""
    """Name of the trace of which it is a sample; empty for a synthetic workload."""


@dataclass(frozen=True)
class Run:
    """Tenants on one drive: numbers of the library, in their places, and what each saw."""

    members: tuple[int, ...]
    seeds: tuple[int, ...]
    seen: tuple[tuple[float, ...], ...]
    warm_s: float
    steady: bool
    """Whether the drive was in a steady state when it was measured; false for a warm-up of a given length."""
    machine: tuple[float, float] = (0.0, 0.0)
    """What this machine added on a real drive; see :attr:`linnet._native.StagingDrive.machine`."""

    @property
    def idle(self) -> int:
        """Tenants that had nothing to do while they were measured."""
        return sum(all(map(math.isnan, row)) for row in self.seen)


Drawn = tuple[tuple[int, ...], tuple[int, ...]]
"""The members of a run and their seeds."""


class Runs:
    """The runs of a plan, in its order. Each is drawn again and read from the cache, which must be open."""

    def __init__(self, count: int, drawn: Callable[[], Iterator[tuple[str, Drawn]]], cache: Cache) -> None:
        self._count, self._drawn, self._cache = count, drawn, cache

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Run]:
        for key, (members, seeds) in self._drawn():
            found = self._cache.get(key)
            machine = found.get("machine", (0.0, 0.0))
            yield Run(
                members, seeds, tuple(map(tuple, found["seen"])), found["warm_s"], found["steady"], tuple(machine)
            )


def key_of(*parts: object) -> str:
    """The key of a result: a digest of everything that it follows from, the engine included."""
    text = json.dumps([_native.__version__, _native.__commit__, *map(str, parts)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Drives:
    """What runs of a plan need: its drive, and the loads of its library."""

    def __init__(self, plan: Plan) -> None:
        plan.check()
        self.plan = plan
        self.drive: Stage = (
            open_drive(plan.drive, plan.overwrite) if plan.staging else SharedDrive(plan.drive, plan.seed)
        )
        self.about = _about(self.drive, plan)
        chance = random.Random(f"library {plan.seed}")
        peak = plan.peak or PEAKS[plan.drive]
        low, high = np.log(plan.share)
        self.loads: list[TenantLoad] = []
        recorded = samples(plan.traces, plan.workloads, plan.seed) if plan.traces else []
        self.sources = [sample.source for sample in recorded] or [""] * plan.workloads
        for number in range(plan.workloads):
            share = float(np.exp(chance.uniform(low, high)))
            if recorded:
                ios = beginning(recorded[number].ios, share * peak * plan.seconds)
                load = TenantLoad.recorded(ios, share, peak, 1 << chance.randint(1, 7))
            else:
                load = TenantLoad.draw(chance.randrange(2**53), share, peak)
            self.loads.append(load)
        if plan.staging and not plan.overwrite and any(load.writes for load in self.loads):
            whose = "a workload of the traces" if recorded else "a synthetic workload"
            raise TenantError(
                f"{whose} writes, and what is on {plan.drive} may not be overwritten; allow it with --overwrite, or "
                "give traces of reads"
            )

    def member(self, number: int) -> dict[str, Any]:
        """Profile and metrics alone of a member of the library."""
        load, plan, space = self.loads[number], self.plan, self.drive.space_bytes
        seed = number + 1
        short = load.trace(2.0, space, seed)
        rate = max(1.0, len(short) / 2.0)
        length = min(PROFILED_S, max(2.0, PROFILED_IOS / rate))
        sample = load.trace(length, space, seed)
        profiles = _native.profile_trace(sample, end_s=length) if len(sample) else []
        features = profiles[0][1].features if profiles else np.zeros(len(FEATURES))
        ((*alone, depth),), _ = self.drive.run_loads([(load, seed)], plan.seconds, plan.warm_s)
        features[DEPTH] = np.nan_to_num(depth)
        return {"features": features.tolist(), "alone": alone}

    def together(self, members: tuple[int, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
        """What each of several members sees."""
        loads = [(self.loads[member], seed) for member, seed in zip(members, seeds, strict=True)]
        seen, warmed = self.drive.run_loads(loads, self.plan.seconds, self.plan.warm_s)
        found = {"seen": [row[:-1] for row in seen], "warm_s": warmed["seconds"], "steady": bool(warmed["steady"])}
        if self.plan.staging:
            found["machine"] = [warmed["late_us_p99"], warmed["waited_share"]]
        return found


def _about(drive: Stage, plan: Plan) -> str:
    """What results depend on."""
    if isinstance(drive, SharedDrive):
        return drive.parameters
    how = "filled" if plan.overwrite and plan.fill else "as it was"
    return f"{identity(plan.drive)}, {drive.space_bytes} bytes a tenant, {how}"


_DRIVES: dict[Plan, Drives] = {}
_DRIVES_LOCK = threading.Lock()


def _drives_of(plan: Plan) -> Drives:
    """Made once in each process: preconditioning a drive takes as long as many runs, and a real one opens once."""
    with _DRIVES_LOCK:
        if plan not in _DRIVES:
            _DRIVES.clear()
            _DRIVES[plan] = Drives(plan)
        return _DRIVES[plan]


def _member(plan: Plan, number: int) -> dict[str, Any]:
    return _drives_of(plan).member(number)


def _together(plan: Plan, run: Drawn) -> dict[str, Any]:
    return _drives_of(plan).together(*run)


class Labeller:
    """Makes the runs of a plan."""

    def __init__(
        self, plan: Plan, cache: Path | None = None, threads: int | None = None, workers: Workers | None = None
    ) -> None:
        """``workers`` do the runs; by default ``threads`` of this process."""
        plan.check()
        self.plan = plan
        self._drives = _drives_of(plan)
        self.drive, self.about = self._drives.drive, self._drives.about
        self.cache = Cache(cache)
        self._workers = workers or threads_of(self.drive, threads)

    def fill(self, progress: Progress) -> None:
        """Write a real drive that may be overwritten as a whole, where the plan says so and the cache does not know
        that it was done."""
        key = key_of("filled", self.about)
        if isinstance(self.drive, StagingDrive) and self.drive.writable and self.plan.fill and not self.cache.get(key):
            fill(self.drive, progress)
            self.cache.put(key, True)

    def library(self, progress: Progress) -> list[Member]:
        """The workloads, profiled and run alone."""
        loads, plan = self._drives.loads, self.plan
        self._check_room()

        def pieces() -> Iterator[tuple[str, int]]:
            for number, load in enumerate(loads):
                words = ("alone", self.about, plan.seed, plan.warm_s, plan.seconds, number, load)
                yield key_of(*words), number

        self._make("workloads", progress, len(loads), pieces, _member)
        found = (self.cache.get(key) for key, _ in pieces())
        return [
            Member(load, np.array(value["features"]), tuple(value["alone"]), source)
            for load, value, source in zip(loads, found, self._drives.sources, strict=True)
        ]

    def _check_room(self) -> None:
        """Raise TenantError if the latencies of the runs that threads make at a time cannot be held in memory."""
        if not isinstance(self._workers, Threads):
            return
        at_once, seconds = self._workers.count, self.plan.seconds
        busiest = sorted((load.rate for load in self._drives.loads), reverse=True)[: self.plan.tenants[1]]
        if self.plan.staging:
            seconds += StagingDrive.WARM_S if self.plan.warm_s is None else self.plan.warm_s
        records = int(sum(busiest) * seconds) * at_once
        if self.plan.staging and records > StagingDrive.IOS_MAX:
            raise TenantError(
                f"a run has up to {records:,} I/Os, and {StagingDrive.IOS_MAX:,} are the most on a real drive; give "
                "fewer --seconds or --tenants, or a lower --peak"
            )
        room = _native.record_room()
        if room is not None and records > room[0]:
            raise TenantError(
                f"{at_once} runs at a time of up to {self.plan.tenants[1]} tenants for {seconds:g} s hold up to "
                f"{records:,} I/Os, and {room[0]:,} fit {room[1]}; give fewer --seconds, --tenants or --threads"
            )

    def runs(self, library: Sequence[Member], progress: Progress) -> Runs:
        """Make the co-location runs; they are read from the cache when they are asked for."""
        drawn = functools.partial(self._drawn, library)
        self._make("runs", progress, self.plan.runs, drawn, _together)
        return Runs(self.plan.runs, drawn, self.cache)

    def _drawn(self, library: Sequence[Member]) -> Iterator[tuple[str, Drawn]]:
        """Every run of the plan with its key. A longer plan begins with the runs of a shorter one."""
        plan = self.plan
        chance = random.Random(f"runs {plan.seed}")
        for _ in range(plan.runs):
            count = chance.randint(*plan.tenants)
            members = tuple(chance.sample(range(len(library)), count))
            seeds = tuple(chance.randrange(2**53) for _ in members)
            shared = ("run", self.about, plan.seed, plan.warm_s, plan.seconds)
            yield key_of(*shared, *([library[member].load for member in members], seeds)), (members, seeds)

    def _make(
        self, stage: str, progress: Progress, count: int, pieces: Callable[[], Iterator[tuple[str, Any]]], work: Work
    ) -> None:
        """Work on the pieces that are not in the cache, which keeps each result at once."""
        missing = bytearray(not self.cache.has(key) for key, _ in pieces())
        done = count - sum(missing)
        progress(stage, done, count)
        keys: dict[int, str] = {}

        def todo() -> Iterator[Any]:
            for index, (key, piece) in enumerate(itertools.compress(pieces(), missing)):
                keys[index] = key
                yield piece

        made = self._workers.map(work, self.plan, todo())
        with closing(made):
            for index, result in made:
                self.cache.put(keys.pop(index), result)
                done += 1
                progress(stage, done, count)


def summary(runs: Iterable[Run]) -> dict[str, float]:
    """How long warm-ups were, how many runs were not steady after theirs, and how many tenants were idle."""
    warm, unsteady, idle = [], 0, 0
    for run in runs:
        warm.append(run.warm_s)
        unsteady, idle = unsteady + (not run.steady), idle + run.idle
    return {"warm_s_median": float(np.median(warm)), "warm_s_max": max(warm), "unsteady": unsteady, "idle": idle}


def worst_machine(runs: Iterable[Run]) -> tuple[float, float]:
    """The most that this machine added to a run: see :attr:`Run.machine`."""
    late, waited = zip(*(run.machine for run in runs), strict=True)
    return max(late), max(waited)


COLUMNS = (
    *("run", "drive", "tenants", "tenant", "workload"),
    *(f"tenant_{name}" for name in FEATURES),
    *(f"others_{name}" for name in FEATURES),
    *METRICS,
    *(f"alone_{name}" for name in METRICS),
    *("warm_s", "steady"),
)
"""Columns of the table: one row for each tenant of each run."""


GROUP_ROWS = 65_536
"""Rows of a group of a Parquet table, which are in memory at a time."""


def rows(drive: str, library: Sequence[Member], runs: Iterable[Run]) -> Iterator[list[Any]]:
    """Rows of the table, in the order of ``COLUMNS``. ``others`` is the aggregate of the tenant's neighbours."""
    for number, run in enumerate(runs):
        features = np.array([library[member].features for member in run.members])
        for place, member in enumerate(run.members):
            others = _native.aggregate_features(np.delete(features, place, axis=0))
            own = library[member]
            yield [
                *(number, drive, len(run.members), place, member),
                *own.features.tolist(),
                *others.tolist(),
                *run.seen[place],
                *own.alone,
                *(run.warm_s, int(run.steady)),
            ]


def write_table(
    file: BinaryIO, drive: str, library: Sequence[Member], runs: Iterable[Run], parquet: bool = False
) -> int:
    """Write the table as CSV or Parquet, a part at a time; returns its rows."""
    table, count = rows(drive, library, runs), 0
    if parquet:
        import pyarrow
        import pyarrow.parquet

        writer = None
        while part := list(itertools.islice(table, GROUP_ROWS)):
            columns = {name: [row[i] for row in part] for i, name in enumerate(COLUMNS)}
            # All groups have the types of the first.
            group = pyarrow.table(columns, schema=writer.schema if writer else None)
            writer = writer or pyarrow.parquet.ParquetWriter(file, group.schema, compression="zstd")
            writer.write_table(group)
            count += len(part)
        if writer is not None:
            writer.close()
        return count
    text = io.TextIOWrapper(file, newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for row in table:
        lines.writerow(row)
        count += 1
    # The caller closes the file.
    text.detach()
    return count
