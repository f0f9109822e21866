# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measured cells of a drive that several threads share: what SSD-iq (Haas et al., PVLDB 18(11)) recorded.

A cell is one drive under one load. Seven threads of 4 KiB requests at random offsets use a full drive in steady state,
each with at most 64 requests in flight: the first 10,000 per second at equal intervals, half of them reads; the others
Poisson, 99 % writes. Latencies are those of the first thread, from submission to completion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linnet.extras import require
from linnet.place.tables import LATENCY, RANGES, SHEET, VICTIM, Columns, check_ranges, read_table

STEMS = ("ssdiq-threads", "ssdiq-drives")
HELD = ("capacity_gb", "seq_read_mbs")
"""Figures of the data sheet that the layout comes from."""
QUANTILES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
"""Names of columns, and what they are."""
JUDGED = ("p50", "p99", "p99_9")
"""Quantiles that are reported."""
DEPTH = 64
"""Most requests of a thread in flight."""
VICTIM_IOPS = 10_000.0
WRITERS = 6
WRITER_SHARE = 0.99
CELLS_MAX = 10
"""Most cells that a fit may see."""


@dataclass(frozen=True)
class Cell:
    """One drive under one load: medians over the recorded minutes of all repeats."""

    drive: str
    load: float
    """Offered I/Os per second of all threads."""
    read_us: Mapping[str, float]
    """Keys of :data:`QUANTILES`."""
    write_us: Mapping[str, float]
    iops: float
    """Achieved I/Os per second of all threads."""

    def threads(self) -> list[tuple[float, float, bool, int]]:
        """The threads as :meth:`linnet.Device.tenants` takes them."""
        each = (self.load - VICTIM_IOPS / 2) / WRITERS
        return [(VICTIM_IOPS, 0.5, False, DEPTH)] + [(each, WRITER_SHARE, True, DEPTH)] * WRITERS


@dataclass(frozen=True)
class Drive:
    """What the tables say of one drive."""

    name: str
    model: str
    sheet: Mapping[str, float]
    """Figures of the data sheet, keys of :data:`linnet.place.tables.SHEET`."""
    cells: tuple[Cell, ...]
    """By rising load."""


def read_drives(paths: Sequence[Path]) -> dict[str, Drive]:
    """Drives by name, from a folder or the files of it: tables ``ssdiq-threads*`` and ``ssdiq-drives*``.

    Raises ValueError, which names the file and what it lacks; :class:`linnet.extras.MissingExtra` without pyarrow.
    """
    require("place", "reading measured tables")
    files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    threads, drives = ([file for file in files if file.name.startswith(stem)] for stem in STEMS)
    if not threads or not drives:
        where = ", ".join(map(str, paths))
        raise ValueError(f"{where}: a fit needs the tables {STEMS[0]}*.csv[.zst] and {STEMS[1]}.csv[.zst]")
    latencies = [f"{op}_{name}_us" for op in ("read", "write") for name in QUANTILES]
    needed = ("drive", "model", "rate_iops", "repeat", "tenant", "t_end_s", "read_iops", "write_iops", *latencies)
    parts = [read_table(file, needed) for file in threads]
    ranges = RANGES[STEMS[0]] | dict.fromkeys(latencies, replace(LATENCY, empty=True, only=VICTIM))
    for file, part in zip(threads, parts, strict=True):
        check_ranges(file, part, ranges)
    rows = {name: np.concatenate([part[name] for part in parts]) for name in needed}
    sheets = read_table(drives[0], ("drive", "model", *SHEET))
    check_ranges(drives[0], sheets, RANGES[STEMS[1]])
    found = {}
    for place, name in enumerate(sheets["drive"]):
        of = rows["drive"] == name
        if of.any():
            sheet = {key: float(sheets[key][place]) for key in SHEET}
            if empty := [key for key in HELD if np.isnan(sheet[key])]:
                raise ValueError(f"{drives[0]}: row {place + 1}: {empty[0]} is empty; the layout of the drive needs it")
            cells = tuple(cell(rows, of, str(name), load) for load in np.unique(rows["rate_iops"][of]))
            found[str(name)] = Drive(str(name), str(sheets["model"][place]), sheet, cells)
    return found


def cell(rows: Columns, of: np.ndarray, drive: str, load: float) -> Cell:
    """One cell of the rows of a drive."""
    here = of & (rows["rate_iops"] == load)
    victim = here & (rows["tenant"] == 0)
    if not victim.any():
        raise ValueError(f"drive {drive}, load {load:.0f}: no rows of tenant 0, whose latency is fitted")
    read, write = (
        {
            name: recorded(rows[f"{op}_{name}_us"][victim], f"drive {drive}, load {load:.0f}, {op} {name}")
            for name in QUANTILES
        }
        for op in ("read", "write")
    )
    total = sum(
        float(np.median((rows["read_iops"] + rows["write_iops"])[here & (rows["tenant"] == tenant)]))
        for tenant in np.unique(rows["tenant"][here])
    )
    return Cell(drive, float(load), read, write, total)


def recorded(values: NDArray[np.float64], what: str) -> float:
    """The median of what was recorded. Raises ValueError if nothing was."""
    there = values[~np.isnan(values)]
    if not len(there):
        raise ValueError(f"{what}: not recorded in any minute")
    return float(np.median(there))


def chosen(cells: Sequence[Cell], count: int) -> list[int]:
    """Indices of the cells that a fit sees: evenly spread over the loads, the lowest and the highest among them.

    The rule looks at no latency. It leaves the others for judging.
    """
    return sorted({round(at) for at in np.linspace(0, len(cells) - 1, min(count, CELLS_MAX, len(cells)))})
