# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measured cells of a drive that several threads share, in tables as those of SSD-iq (Haas et al., PVLDB 18(11)).

A cell is one drive under one load: threads of 4 KiB requests, whose offered rates the tables have. What the tables do
not have is taken as in SSD-iq: random offsets on a full drive in steady state, and at most 64 requests of a thread in
flight. Latencies are those of tenant 0, from submission to completion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linnet.extras import require
from linnet.tables import AMOUNT, APART, FLAG, LATENCY, RANGES, SHEET, VICTIM, Columns, check_ranges, read_table

STEMS = ("ssdiq-threads", "ssdiq-drives")
HELD = ("capacity_gb", "seq_read_mbs")
"""Figures of the data sheet that the layout comes from."""
QUANTILES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
"""Names of columns, and what they are."""
JUDGED = ("p50", "p99", "p99_9")
"""Quantiles that are reported."""
DEPTH = 64
"""Most requests of a thread in flight."""
BYTES = 4096
"""Size of a request."""
CELLS_MAX = 10
"""Most cells that a fit may see."""


Thread = tuple[float, float, bool, int]
"""Offered requests per second, share of writes, Poisson arrivals, :data:`DEPTH`: as :meth:`linnet.Device.tenants`
takes a thread."""


def ssdiq(load: float) -> tuple[Thread, ...]:
    """The threads with which SSD-iq makes a load, ``rate_iops``.

    The first has 10,000 requests per second at equal intervals, half of them reads. Six with 99 % writes share the
    load less 5,000. So all together offer 5,000 per second more than the load, and 99 % of the load and 50 are writes.
    """
    each = (load - 10_000.0 / 2) / 6
    return ((10_000.0, 0.5, False, DEPTH),) + ((each, 0.99, True, DEPTH),) * 6


@dataclass(frozen=True)
class Cell:
    """One drive under one load: medians over the recorded minutes of all repeats."""

    drive: str
    load: float
    """What the tables call the load, ``rate_iops``: a name of the cell. :attr:`offered` is what the threads offer."""
    threads: tuple[Thread, ...]
    """That of tenant 0 first."""
    read_us: Mapping[str, float]
    """Keys of :data:`QUANTILES`."""
    write_us: Mapping[str, float]
    iops: float
    """Achieved I/Os per second of all threads."""

    @property
    def offered(self) -> float:
        """Offered I/Os per second of all threads."""
        return sum(iops for iops, *_ in self.threads)

    @property
    def as_ssdiq(self) -> bool:
        """Whether the threads are those of SSD-iq."""
        return self.threads == ssdiq(self.load)


@dataclass(frozen=True)
class Drive:
    """What the tables say of one drive."""

    name: str
    model: str
    sheet: Mapping[str, float]
    """Figures of the data sheet, keys of :data:`linnet.tables.SHEET`."""
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
    offered = ("bs_bytes", "poisson", "off_read_iops", "off_write_iops")
    needed = (*("drive", "model", "rate_iops", "repeat", "tenant", "t_end_s"), *offered, "read_iops", "write_iops")
    parts = [read_table(file, (*needed, *latencies)) for file in threads]
    ranges = RANGES[STEMS[0]] | dict.fromkeys(latencies, replace(LATENCY, empty=True, only=VICTIM))
    for file, part in zip(threads, parts, strict=True):
        check_ranges(file, part, ranges | {"rate_iops": AMOUNT, "poisson": FLAG})
        if len(other := np.flatnonzero(part["bs_bytes"] != BYTES)):
            raise ValueError(
                f"{file}: row {other[0] + 1}: bs_bytes is {part['bs_bytes'][other[0]]:g}; the fit knows requests of "
                f"{BYTES:,} bytes alone. Leave out the load"
            )
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    sheets = read_table(drives[0], ("drive", "model", *SHEET))
    check_ranges(drives[0], sheets, RANGES[STEMS[1]])
    found = {}
    for place, name in enumerate(sheets["drive"]):
        of = rows["drive"] == name
        if of.any():
            sheet = {key: float(sheets[key][place]) for key in SHEET}
            if empty := [key for key in HELD if np.isnan(sheet[key])]:
                raise ValueError(f"{drives[0]}: row {place + 1}: {empty[0]} is empty; the layout of the drive needs it")
            try:
                cells = tuple(cell(rows, of, str(name), load) for load in np.unique(rows["rate_iops"][of]).tolist())
            except ValueError as error:
                raise ValueError(f"{', '.join(map(str, threads))}: {error}") from None
            found[str(name)] = Drive(str(name), str(sheets["model"][place]), sheet, cells)
    return found


def cell(rows: Columns, of: np.ndarray, drive: str, load: float) -> Cell:
    """One cell of the rows of a drive. Raises ValueError, which names drive, load and column."""
    here, what = of & (rows["rate_iops"] == load), f"drive {drive}, rate_iops {load:g}"
    victim = here & (rows["tenant"] == 0)
    if not victim.any():
        raise ValueError(f"{what}: no rows of tenant 0, whose latency is fitted")
    tenants, counts = np.unique(rows["tenant"][here], return_counts=True)
    if len(uneven := np.flatnonzero(counts != counts[0])):
        raise ValueError(
            f"{what}: tenant 0 has {counts[0]} rows and tenant {tenants[uneven[0]]:.0f} has {counts[uneven[0]]}; every "
            "minute has a row of each tenant, and another set of tenants another rate_iops"
        )
    read, write = (
        {name: recorded(rows, victim, f"{op}_{name}_us", what) for name in QUANTILES} for op in ("read", "write")
    )
    total = sum(
        float(np.median((rows["read_iops"] + rows["write_iops"])[here & (rows["tenant"] == tenant)]))
        for tenant in tenants
    )
    each = [thread(rows, here & (rows["tenant"] == tenant), f"{what}: tenant {tenant:.0f}") for tenant in tenants]
    if each[0][0] == 0:
        raise ValueError(f"{what}: off_read_iops and off_write_iops of tenant 0, whose latency is fitted, are 0")
    # Tenants that offer nothing are no threads.
    threads, usual = tuple(one for one in each if one[0]), ssdiq(load)
    # The tables have rates rounded to a tenth, and SSD-iq adds up to 2 to the load of a repeat.
    same = len(threads) == len(usual) and all(
        abs(ours[0] - theirs[0]) < 1 and abs(ours[0] * ours[1] - theirs[0] * theirs[1]) < 1 and ours[2] == theirs[2]
        for ours, theirs in zip(threads, usual, strict=True)
    )
    return Cell(drive, load, usual if same else threads, read, write, total)


def thread(rows: Columns, own: NDArray[np.bool_], what: str) -> Thread:
    """What a tenant offers in a cell. Raises ValueError if its minutes differ by more than :data:`APART`."""
    columns = ("off_read_iops", "off_write_iops", "poisson")
    for name in columns:
        least, most = float(rows[name][own].min()), float(rows[name][own].max())
        if most - least > APART * most:
            raise ValueError(
                f"{what}: {name} is {least:g} in one minute and {most:g} in another; another load has another rate_iops"
            )
    reads, writes, poisson = (float(np.median(rows[name][own])) for name in columns)
    return reads + writes, writes / max(reads + writes, 1e-9), bool(poisson), DEPTH


def recorded(rows: Columns, victim: NDArray[np.bool_], name: str, what: str) -> float:
    """The median of a column of tenant 0. Raises ValueError if all its fields are empty."""
    there = rows[name][victim]
    there = there[~np.isnan(there)]
    if not len(there):
        raise ValueError(f"{what}: {name} of tenant 0 is empty in every minute; the fit needs it")
    return float(np.median(there))


def chosen(cells: Sequence[Cell], count: int) -> list[int]:
    """Indices of the cells that a fit sees: evenly spread over the loads, the lowest and the highest among them.

    The rule looks at no latency. It leaves the others for judging.
    """
    return sorted({round(at) for at in np.linspace(0, len(cells) - 1, min(count, CELLS_MAX, len(cells)))})
