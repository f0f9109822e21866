# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every trace and workload on every preset and share: the cells of ``linnet study accuracy``, and their summary.

Rows are kept in a file of JSON lines, a cell at a time, so that a run that was stopped continues there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from linnet._native import Array, LearnError, Trace, synth, workloads
from linnet.studies.accuracy import CEILING, FIGURES, accuracy
from linnet.studies.kept import CONTENT, NUMBER, Kept, Kinds, digest_of

SHARES = (0.25, 0.5, 0.75, 0.9)
"""Device-wide shares that a claim must hold across."""
MAX_READS = 20_000
"""Reads of each simulated cell unless asked otherwise: half for training, half for testing."""
REAL_SSD = {
    "flashnet-537": "flashnet-nvme/tencent.cut.per_50k.most_rand_iops.537.trace.zst",
    "flashnet-490": "flashnet-nvme/tencent.cut.per_50k.rw_60_40.490.trace.zst",
    "flashnet-379": "flashnet-nvme/tencent.cut.per_50k.rw_75_25.379.trace.zst",
    "hadoop-sata": "blktrace-satassd-hadoop/eternity9.sdb.DC.blkparse.txt.zst",
    "ycsb-nvme": "blktrace-nvme-ycsb/sample.blkparse.txt.zst",
}
"""Traces with the latencies of real SSDs; no simulator is involved."""
ARRIVALS = {
    "msr-1006": "msr/msr.cut.per_10k.most_thpt_rand_iops.1006.first6000.trace.zst",
    "msr-105": "msr/msr.cut.per_10k.rw_20_80.105.first6000.trace.zst",
    "msr-1370": "msr/msr.cut.per_10k.rw_40_60.1370.first6000.trace.zst",
    "msnfs": "msprod/msnfs.first90s.trace.zst",
    "dtrs": "msprod/dtrs.first200s.trace.zst",
    "websearch": "mqsim/wsrch-small.trace.zst",
    "cloudphysics": "cloudphysics/cloudPhysicsIO.first80000.csv.zst",
    "postmark": "disksim-ssd/ssd-postmark-aligned2.trace.zst",
}
"""Real traces without latencies, which run on the SSD model."""
STRIDE = 7
"""Devices from one source's to the next's in a round of the grid."""
FEW = 50
"""A cell with fewer slow or fewer fast test reads is shown but not included in means."""
FLOOR = 1e-4
"""Lowest 1 - AUC in a ratio; below it a handful of pairs decides."""

NEEDED: Kinds = {
    **{"trace": str, "preset": str | None, "share": NUMBER | None, "seed": int, "max_reads": int | None},
    **dict.fromkeys(FIGURES, NUMBER | None),
    **{"model": str, "rows": int, "base_rate": NUMBER},
}
"""What a row has."""
OPTIONAL: Kinds = {CONTENT: str, "defects": list}
"""What a row may have."""


@dataclass(frozen=True)
class Source:
    """Where a cell's I/Os come from."""

    name: str
    path: Path | None = None
    """A trace file; a Table 1 workload where there is none."""
    format: str | None = None


@dataclass(frozen=True)
class Cell:
    """One device: a source, on the SSD model unless ``preset`` is none."""

    source: Source
    preset: str | None
    share: float | None
    seed: int

    def key(self) -> dict[str, Any]:
        """What names the cell in a row."""
        return {"trace": self.source.name, "preset": self.preset, "share": self.share, "seed": self.seed}


def every_cell(
    folder: Path, presets: Sequence[str], shares: Sequence[float], seed: int
) -> tuple[list[Cell], list[str]]:
    """The whole grid, and the files that ``folder`` lacks.

    The order goes round all sources, presets and shares, so that a run that was stopped has seen something of each.
    """
    lacking = [file for file in [*REAL_SSD.values(), *ARRIVALS.values()] if not (folder / file).exists()]
    there = {name: folder / file for name, file in (REAL_SSD | ARRIVALS).items() if file not in lacking}
    real = [Cell(Source(name, there[name]), None, None, seed) for name in REAL_SSD if name in there]
    sources = [Source(name) for name in workloads()]
    sources += [Source(name, there[name]) for name in ARRIVALS if name in there]
    devices = [(preset, share) for preset in presets for share in shares]
    simulated = [
        Cell(source, *devices[(turn + STRIDE * i) % len(devices)], seed)
        for turn in range(len(devices))
        for i, source in enumerate(sources)
    ]
    return real + simulated, lacking


def first_reads(trace: Trace, reads: int | None) -> Trace:
    """The trace up to its read of this number."""
    columns = trace.columns()
    places = np.flatnonzero(columns["op"] == 0)
    if reads is None or len(places) <= reads:
        return trace
    end = int(places[reads])
    return Trace.from_columns(trace.name, **{name: column[:end].copy() for name, column in columns.items()})


def two_periods(workload: str, reads: int, seed: int) -> tuple[Trace, Trace]:
    """Two independent periods of a Table 1 workload for one device, each with its peak, with about this many reads."""
    probe = synth(workload, seconds=30, devices=1, seed=2 * seed)[0]
    rate = max(1, int((probe.columns()["op"] == 0).sum())) / 30
    seconds = max(1.0, reads / 2 / rate)
    first, second = (synth(workload, seconds=seconds, devices=1, seed=2 * seed + k)[0] for k in (0, 1))
    return first, second


@cache
def device(preset: str, seed: int, share: float | None) -> Array:
    """One drive, preconditioned; that takes longer than a run, and every run starts from a copy of it."""
    return Array(preset, 1, seed, share)


def on_device(trace: Trace, cell: Cell) -> Trace:
    """The trace with the latencies that the SSD model gives it under the baseline policy."""
    array = device(str(cell.preset), cell.seed, cell.share)
    return array.run([trace], "baseline", [], seed=cell.seed, log=True).logs()[0]


def study_cell(
    cell: Cell,
    load: Callable[[Source], Trace],
    models: Sequence[str],
    max_reads: int | None,
    defects: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """A row for each model in one cell."""
    test = None
    if cell.source.path is None:
        first, second = two_periods(cell.source.name, max_reads or MAX_READS, cell.seed)
        trace, test = on_device(first, cell), on_device(second, cell)
    else:
        # Recordings may list I/Os as they completed: in ties the order would tell which was slow.
        trace = first_reads(load(cell.source).without_ties(cell.seed), max_reads)
        if cell.preset is not None:
            trace = on_device(trace, cell)
    told = {"max_reads": max_reads} | ({"defects": list(defects)} if defects else {})
    return [row | cell.key() | told for row in accuracy(trace, models, cell.seed, test, defects)]


def content_of(source: Source, load: Callable[[Source], Sequence[Trace]]) -> dict[str, str]:
    """What tells a trace from others of its name; nothing for a workload, whose name says all."""
    return {} if source.path is None else {CONTENT: digest_of(load(source))}


def run_cells(
    cells: Sequence[Cell],
    load: Callable[[Source], Trace],
    models: Sequence[str],
    max_reads: int | None,
    out: Path | None = None,
    told: Callable[[int], None] = lambda done: None,
    skipped: Callable[[str], None] = lambda text: None,
    defects: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Rows of all cells. With ``out`` each cell's are appended to it, and what it has already is not run again.

    Other rows that ``out`` has are given too, except those of another trace with the name of one of these.
    """
    kept = Kept(out, NEEDED, OPTIONAL)
    rows: list[dict[str, Any]] = []

    def name(row: dict[str, Any]) -> tuple[Any, ...]:
        keys = ("trace", "preset", "share", "seed", "max_reads", "model")
        # An old row without a digest may be of any trace of that name: it is not that of a trace, which has one.
        return (*(row[k] for k in keys), row.get(CONTENT), *map(str, row.get("defects", ())))

    have = {name(row) for row in kept.before}
    contents: dict[Source, dict[str, str]] = {}
    for done, cell in enumerate(cells):
        told(done)
        if cell.source not in contents:
            contents[cell.source] = content_of(cell.source, lambda source: [load(source)])
        content = contents[cell.source]
        # Traces of real latencies are few and count most: they are taken whole.
        limit = None if cell.preset is None else max_reads
        of = {"max_reads": limit, "defects": defects} | cell.key() | content
        wanted = [model for model in dict.fromkeys(models) if name(of | {"model": model}) not in have]
        if not wanted:
            continue
        try:
            found = [row | content for row in study_cell(cell, load, wanted, limit, defects)]
        except LearnError as error:
            skipped(f"{' '.join(str(v) for v in cell.key().values())}: {error}")
            continue
        kept.add(found)
        have.update(map(name, found))
        rows += found
    told(len(cells))
    asked = {(source.name, content.get(CONTENT)) for source, content in contents.items()}
    names = {trace for trace, _ in asked}
    before = [row for row in kept.before if row["trace"] not in names or (row["trace"], row.get(CONTENT)) in asked]
    return before + rows


# ---- what the rows add up to ----


def by_cell(rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, dict[str, Any]]]:
    """Rows by cell, then by model. Traces of the same name have their digests in it."""
    contents: dict[str, set[str]] = {}
    for row in rows:
        if CONTENT in row:
            contents.setdefault(row["trace"], set()).add(row[CONTENT])
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        trace = row["trace"]
        if CONTENT in row and len(contents[trace]) > 1:
            trace = f"{trace} {row[CONTENT]}"
        cells.setdefault((trace, row["preset"], row["share"], row["seed"]), {})[row["model"]] = row
    return cells


def enough(row: dict[str, Any]) -> bool:
    """Whether a cell has reads enough of both kinds for its figures to mean something."""
    slow = round((1 - row["base_rate"]) * row["rows"])
    return bool(min(slow, row["rows"] - slow) >= FEW)


def missed(row: dict[str, Any]) -> float:
    """1 - AUC, not below :data:`FLOOR`."""
    return max(FLOOR, 1.0 - float(row["roc_auc"]))


def ratio(cells: Sequence[dict[str, dict[str, Any]]], ours: str = "linnet", theirs: str = "linnos") -> float | None:
    """Geometric mean over cells of ours (1 - AUC) over theirs."""
    both = [cell for cell in cells if ours in cell and theirs in cell and enough(cell[ours])]
    if not both:
        return None
    return float(np.exp(np.mean([np.log(missed(cell[ours]) / missed(cell[theirs])) for cell in both])))


def groups(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, dict[str, Any]]]]]:
    """Cells by what claims are made of: real SSDs; each share; shares of one half and above; each preset; simulated."""
    found = by_cell(rows).items()
    yield "real SSDs", [cell for (_, preset, _, _), cell in found if preset is None]
    simulated = [(preset, share, cell) for (_, preset, share, _), cell in found if preset is not None]
    for one in sorted({share for _, share, _ in simulated if share is not None}):
        yield f"share {one}", [cell for _, share, cell in simulated if share == one]
    yield "share 0.5 and above", [cell for _, share, cell in simulated if share is not None and share >= 0.5]
    for name in dict.fromkeys(preset for preset, _, _ in simulated):
        yield name, [cell for preset, _, cell in simulated if preset == name]
    yield "all simulated", [cell for _, _, cell in simulated]


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each group: cells, geometric means of (1 - AUC) against LinnOS, Heimdall and the ceilings."""
    found = []
    for name, cells in groups(rows):
        counted = [cell for cell in cells if "linnet" in cell and enough(cell["linnet"])]
        if not counted:
            continue
        line: dict[str, Any] = {"group": name, "cells": len(cells), "counted": len(counted)}
        for theirs in ("linnos", "heimdall", "trees"):
            line[f"against_{theirs}"] = ratio(counted, "linnet", theirs)
        line["heimdall_against_linnos"] = ratio(counted, "heimdall", "linnos")
        if any(CEILING in cell for cell in counted):
            line["against_ceiling"] = ratio(counted, "linnet", CEILING)
        found.append(line)
    return found
