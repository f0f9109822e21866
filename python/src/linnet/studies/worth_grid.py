# SPDX-License-Identifier: MIT OR Apache-2.0
"""The cells of ``linnet study worth``: traces, arrays, loads and seeds, run one by one and kept as JSON lines.

The rate of a load is found for each trace and array on a tuning seed, so that every array is loaded and none is flooded
by a trace that was recorded on something faster. **busy** is the highest power of two at which half of the baseline's
reads take less than twice what they take on an idle array, **light** an eighth of it, and **over** four times it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from linnet import _native
from linnet._native import Array, Trace, synth, workloads
from linnet.experiment import Experiment, Setup, periods
from linnet.learning import FitSettings
from linnet.progress import Progress
from linnet.streams import spread
from linnet.studies.grid import ARRIVALS, REAL_SSD, Source, content_of
from linnet.studies.kept import CONTENT, NUMBER, Kept, Kinds
from linnet.studies.worth import ROW, cell_rows, reported_seeds, split

LOADS = {"light": 0.125, "busy": 1.0, "over": 4.0}
"""Rates as multiples of the busy one."""
IDLE_IOPS = 1
"""I/Os per second on each device at which an array is taken to be idle."""
BUSY = 2.0
"""Median read latency of a busy array, as a multiple of an idle one's."""
DOUBLINGS = 24
MIXED = ("970-evo,970-evo,600p", "consumer-deep,enterprise-wide,sata")
RECORDED = ("d7-p5520", "cm7-r", "pe8110", "7450-pro", "pe8110,d7-p5520,cm7-r")
"""Fitted to data-centre drives under co-location."""
QUEUED = (
    "consumer-deep-queued",
    "enterprise-wide-queued",
    "consumer-deep-queued,consumer-deep-queued,enterprise-wide-queued",
)
ARRAYS = (
    *("970-evo", QUEUED[0], RECORDED[0], MIXED[0], RECORDED[1], "enterprise-wide", QUEUED[1], RECORDED[2], "600p"),
    *(RECORDED[4], MIXED[1], QUEUED[2], RECORDED[3], "consumer-deep"),
)
TURNS = ("busy", "over", "busy", "light")
"""Loads, as the grid goes through them."""
SMALL = ("ycsb-nvme", "msr-1006", "msr-105", "msr-1370")
"""Recordings of 6,000 I/Os or fewer: a tenth of a per cent of them is a handful."""
IOS = 30_000
"""I/Os of each period, all devices together; one period is for training and one for testing. Half on the queued engine,
which takes ten times as long."""
CELL: Kinds = {
    **{"trace": str, "preset": str, "replicas": int, "writes": str, "seed": int, "load": str | None},
    **{"asked_rate": NUMBER, "rate": NUMBER, "ios": int | None, "seconds": NUMBER | None, "continued": bool},
}
"""What a row has of its cell."""
CHANGED: Kinds = {CONTENT: str, "stalls_per_minute": NUMBER | None, "rebuilt": int | None, "closed_loop": int | None}
"""What it may have."""


@dataclass(frozen=True)
class Cell:
    """One experiment."""

    source: Source
    setup: Setup
    load: str | None
    """A key of :data:`LOADS`; without one ``rate`` is taken as it is."""
    rate: float
    ios: int | None
    """I/Os of each period; without it the traces are taken whole, and a workload for ``seconds``."""
    seconds: float = 120.0

    def key(self) -> dict[str, Any]:
        """What names the cell in its rows."""
        return {
            "trace": self.source.name,
            "preset": self.setup.preset,
            "replicas": self.setup.replicas,
            "writes": "all" if self.setup.writes_to_all else "own",
            "seed": self.setup.seed,
            "load": self.load,
            "asked_rate": self.rate,
            "ios": self.ios,
            "seconds": None if self.ios else self.seconds,
            "continued": self.setup.continued,
            "stalls_per_minute": self.setup.stalls_per_minute or None,
            "rebuilt": self.setup.rebuilt or None,
            "closed_loop": self.setup.closed_loop,
        }


def worth_setup(preset: str, replicas: int, seed: int, writes_to_all: bool) -> Setup:
    """The set-up of a cell. No compared policy asks the network of LinnOS, so one pass over its rows is enough."""
    return Setup(preset, replicas, seed, writes_to_all=writes_to_all, continued=True, fit=FitSettings(epochs=1))


def changed(cells: Sequence[Cell], **settings: Any) -> list[Cell]:
    """The same cells with other fields of their set-up. Rates are those of the loads without these."""
    return [replace(cell, setup=replace(cell.setup, **settings)) for cell in cells]


def every_cell(folder: Path, seeds: int, writes_to_all: bool, ios: int = IOS) -> tuple[list[Cell], list[str]]:
    """The whole grid, and the files that ``folder`` lacks.

    The order goes round all sources, and from round to round to the next array and load, all seeds of a combination
    together, so that a run that was stopped has seen something of each and has all seeds of what it saw.
    """
    found, lacking = recordings(folder)
    sources = [*map(Source, workloads()), *found]
    cells = []
    for turn in range(len(ARRAYS)):
        for place, source in enumerate(sources):
            array, load = ARRAYS[(turn + place) % len(ARRAYS)], TURNS[(turn + place // 2) % len(TURNS)]
            for seed in reported_seeds(seeds):
                count = ios // 2 if array in QUEUED else ios
                cells.append(Cell(source, worth_setup(array, 3, seed, writes_to_all), load, 1.0, count))
    return cells, lacking


def recordings(folder: Path) -> tuple[list[Source], list[str]]:
    """The recordings of a folder that are long enough, and the files that it lacks."""
    files = {name: file for name, file in (REAL_SSD | ARRIVALS).items() if name not in SMALL}
    lacking = [file for file in files.values() if not (folder / file).exists()]
    return [Source(name, folder / file) for name, file in files.items() if file not in lacking], lacking


class SourceTraces:
    """The traces of sources, each read once; ``given`` stands for every source."""

    def __init__(self, read: Callable[[Source], Trace], given: Sequence[Trace] = ()) -> None:
        self._read, self._given = read, given
        self._known: dict[Source, list[Trace]] = {}

    def __call__(self, source: Source) -> Sequence[Trace]:
        """Return what was given, or read the source if it was not read before."""
        if self._given:
            return self._given
        if source not in self._known:
            self._known[source] = [self._read(source)]
        return self._known[source]


def parts(cell: Cell, seed: int, load: Callable[[Source], Sequence[Trace]]) -> tuple[list[Trace], list[Trace] | None]:
    """Traces of a cell at the recorded rate: one for training and one for testing, or one to be split."""
    if cell.source.path is None:
        name, setup = cell.source.name, replace(cell.setup, seed=seed)
        return periods(name, cell.seconds if cell.ios is None else 2 * cell.ios / iops(name, setup.replicas), setup)
    traces = load(cell.source)
    if cell.ios is not None:
        traces = [first_records(trace, 2 * cell.ios // len(traces)) for trace in traces]
    return [trace.without_ties(seed) for trace in traces], None


def iops(workload: str, devices: int) -> float:
    """I/Os per second of a Table 1 workload on all devices, counted in ten seconds of it."""
    seconds = 10.0
    return max(1.0, sum(map(len, synth(workload, seconds=seconds, devices=devices, seed=0))) / seconds)


def first_records(trace: Trace, count: int) -> Trace:
    """The first ``count`` records."""
    if len(trace) <= count:
        return trace
    columns = trace.columns()
    return Trace.from_columns(trace.name, **{name: column[:count].copy() for name, column in columns.items()})


def busy_rate(cell: Cell, load: Callable[[Source], Sequence[Trace]]) -> float:
    """The rate of a busy array for this trace and these drives, on the first tuning seed."""
    seed = split()["seeds"]["tuning"][0]
    first, _ = parts(cell, seed, load)
    setup = cell.setup
    streams = spread(first, setup.replicas)
    array = Array(setup.preset, setup.replicas, seed, setup.device_wide_share)
    span_s: float = max(np.ptp(stream.columns()["arrive_ns"].astype(float)) for stream in streams) / 1e9

    def median(rate: float) -> float:
        own = [stream.rerate(rate) for stream in streams]
        run = array.run(own, "baseline", [], seed=seed, writes_to_all=setup.writes_to_all)
        return float(np.median(run.latency_ns().astype(float)))

    rate: float = 2.0 ** round(np.log2(IDLE_IOPS * max(span_s, 1e-3) / max(map(len, streams))))
    idle = median(rate)
    for _ in range(DOUBLINGS):
        if median(2 * rate) > BUSY * idle:
            break
        rate *= 2
    return rate


class Counted(Progress):
    """Progress whose stages say which cell they belong to."""

    def __init__(self, progress: Progress, cell: str):
        self.progress, self.cell = progress, cell

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """Begin a stage."""
        return self.progress.stage(f"{self.cell} {name}", total)


def run_cells(
    cells: Sequence[Cell],
    load: Callable[[Source], Sequence[Trace]],
    progress: Progress,
    keep: Path | None = None,
    skipped: Callable[[str], None] = lambda text: None,
    rows_of: Callable[[Experiment, str], list[dict[str, Any]]] | None = None,
    row: Kinds = ROW,
) -> list[dict[str, Any]]:
    """Rows of all cells. With ``keep`` each cell's are appended to it, and what it has already is not run again.

    ``rows_of`` gives the rows of a cell's experiment, by default those of the worth of the model; its other argument
    says where writes go: ``all`` or ``own``. ``row`` is what these rows have.
    """
    kept = Kept(keep, {**CELL, **row}, CHANGED, together=(*CELL, CONTENT))
    rows: list[dict[str, Any]] = []
    busy: dict[tuple[Any, ...], float] = {}
    contents: dict[Source, dict[str, str]] = {}
    for place, cell in enumerate(cells, 1):
        if cell.source not in contents:
            contents[cell.source] = content_of(cell.source, load)
        # An old row without a digest may be of any trace of that name: it is not that of a trace, which has one.
        key = cell.key() | {CONTENT: None} | contents[cell.source]
        found = [one for one in kept.before if all(one.get(name) == value for name, value in key.items())]
        if not found:
            rate = cell.rate
            if cell.load is not None:
                of = (cell.source, cell.setup.preset, cell.setup.replicas, cell.setup.writes_to_all, cell.ios)
                rate = LOADS[cell.load] * (busy[of] if of in busy else busy.setdefault(of, busy_rate(cell, load)))
            try:
                ready = experiment(cell, rate, load, Counted(progress, f"{place}/{len(cells)}"))
                told = cell.key() | contents[cell.source] | {"rate": rate}
                found = [one | told for one in (rows_of or cell_rows)(ready, told["writes"])]
            except _native.Error as error:
                skipped(f"{cell.source.name} on {cell.setup.preset}, seed {cell.setup.seed}: {error}")
                continue
            kept.add(found)
        rows += found
    return rows


def experiment(cell: Cell, rate: float, load: Callable[[Source], Sequence[Trace]], progress: Progress) -> Experiment:
    """The experiment of a cell at this rate."""
    first, second = parts(cell, cell.setup.seed, load)
    first = [trace.rerate(rate) for trace in first]
    second = second and [trace.rerate(rate) for trace in second]
    return Experiment(first, cell.setup, cell.source.name, progress, second)
