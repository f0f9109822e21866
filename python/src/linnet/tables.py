# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads tables of measured co-location: CSV, plain or compressed with zstd, from a folder.

A table is a file STEM.csv or STEM.csv.zst; STEM-1, STEM-2 and so on are parts of one table. What a row is, and which
columns are needed, stands beside each stem in :data:`NEEDED`; other columns are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.extras import require

Columns = dict[str, NDArray[Any]]
"""A table: equally long arrays; text columns are of objects, the others float64 with NaN where nothing was recorded."""

SHEET = ("capacity_gb", "pcie_gen", "seq_read_mbs", "seq_write_mbs", "rnd_read_iops", "rnd_write_iops", "dwpd")
"""Figures of a data sheet: GB, generation, MB/s, I/Os per second of 4 KiB, drive writes per day."""

COST_MODEL = ("model_rbps", "model_rseqiops", "model_rrandiops", "model_wbps", "model_wseqiops", "model_wrandiops")
"""Saturation figures of a drive as iocost's cost model has them: bytes/s and requests/s of 4 KiB."""

THREAD_QUANTILES = ("avg", "p50", "p90", "p95", "p99", "p99_9")
"""Latencies of a tenant's minute that are read, in us, for reads and for writes."""

APART = 0.05
"""Relative difference of a figure up to which two minutes were offered the same: arrivals at random differ by less."""

NEEDED: dict[str, tuple[str, ...]] = {
    # One tenant thread, one minute.
    "ssdiq-threads": (
        *("drive", "model", "rate_iops", "repeat", "run", "tenant", "t_end_s", "bs_bytes", "poisson"),
        *("off_read_iops", "off_write_iops", "read_iops", "write_iops"),
        *(f"{op}_{name}_us" for op in ("read", "write") for name in THREAD_QUANTILES),
    ),
    # One drive: figures of its data sheet.
    "ssdiq-drives": ("drive", "model", *SHEET),
    # One tenant of one run.
    "icpe-tenants": (
        *("mix", "run", "scheduler", "neighbours", "tenant", "op", "bs_kib", "iodepth", "n_devices", "iops"),
        *("clat_p50_us", "clat_p99_us", "clat_p99_9_us"),
    ),
    # One run of a protected job beside a memory hog, at one ceiling of load.
    "iocost-qos": (
        *("model", "family", "result", "run", "prot_ok", "throttle_off", "vrate_max", "lat_imp_mean"),
        *("size_gb", "cpus", "mem_gib", *COST_MODEL),
        *(f"prot_read_{name}_mean_us" for name in ("p50", "p99", "p99_9")),
    ),
}
PACKED = "gz|bz2|xz|zip|7z|lz4|zst|zstd"
"""Endings of compressed files."""
TEXT = {"drive", "model", "run", "mix", "scheduler", "op", "family", "result"}
"""Columns of text; all others are numbers."""
KEYS = {
    "ssdiq-threads": ("drive", "run", "tenant", "t_end_s"),
    "ssdiq-drives": ("drive",),
    "icpe-tenants": ("run", "tenant"),
    "iocost-qos": ("run",),
}
"""Columns that no two rows of a table may have alike."""


@dataclass(frozen=True)
class Range:
    """Numbers that a column may have."""

    least: float = 0.0
    over: bool = False
    """Whether ``least`` itself is refused."""
    most: float = 1e15
    whole: bool = False
    empty: bool = False
    only: tuple[tuple[str, float], ...] = ()
    """The rows that are meant: those whose columns have these values."""

    def __str__(self) -> str:
        what = "a whole number" if self.whole else "a number"
        return f"{what} {'above' if self.over else 'from'} {self.least:g}{' up' if self.over else ''} to {self.most:g}"

    def bad(self, table: Columns, name: str) -> NDArray[np.bool_]:
        """The rows of a table that are out of range."""
        values = table[name]
        good = (values > self.least if self.over else values >= self.least) & (values <= self.most)
        if self.whole:
            good &= values == np.floor(values)
        if self.empty:
            good |= np.isnan(values)
        meant = np.ones(len(values), bool)
        for column, value in self.only:
            meant &= table[column] == value
        return np.asarray(meant & ~good)


COUNT = Range(whole=True)
RATE = Range()
AMOUNT = Range(over=True)
FIGURE = Range(over=True, empty=True)
FLAG = Range(most=1, whole=True)
VICTIM = (("tenant", 0.0),)
PROTECTED = (("prot_ok", 1.0),)
LATENCY = Range(least=0.001, most=3.6e9)
"""From a nanosecond to an hour, in us."""

RANGES: dict[str, dict[str, Range]] = {
    "ssdiq-threads": {
        **{"rate_iops": RATE, "repeat": COUNT, "tenant": COUNT, "t_end_s": AMOUNT, "bs_bytes": AMOUNT},
        **dict.fromkeys(("off_read_iops", "off_write_iops", "read_iops", "write_iops"), RATE),
        **{
            f"{op}_{name}_us": replace(LATENCY, empty=True, only=VICTIM)
            for op in ("read", "write")
            for name in THREAD_QUANTILES
        },
    },
    "ssdiq-drives": dict.fromkeys(SHEET, FIGURE),
    "icpe-tenants": {
        **{
            "neighbours": COUNT,
            "tenant": COUNT,
            "bs_kib": AMOUNT,
            "iodepth": AMOUNT,
            "n_devices": AMOUNT,
            "iops": RATE,
        },
        **{f"clat_{name}_us": replace(LATENCY, only=VICTIM) for name in ("p50", "p99", "p99_9")},
    },
    "iocost-qos": {
        **{"prot_ok": replace(FLAG, empty=True), "throttle_off": FLAG},
        "vrate_max": replace(AMOUNT, only=(*PROTECTED, ("throttle_off", 0.0))),
        "lat_imp_mean": Range(least=-1, over=True, empty=True, only=PROTECTED),
        **dict.fromkeys(("size_gb", "cpus", "mem_gib", *COST_MODEL), FIGURE),
        **{
            f"prot_read_{name}_mean_us": replace(LATENCY, empty=True, only=PROTECTED)
            for name in ("p50", "p99", "p99_9")
        },
    },
}
"""What numbers are of a measurement, by table and column."""


def read_tables(folder: Path, stems: Sequence[str] = tuple(NEEDED)) -> dict[str, Columns]:
    """The tables of a folder, those of ``stems`` that it has.

    Raises ValueError, which names file and column, for a table that cannot be used; :class:`linnet.extras.MissingExtra`
    without pyarrow; OSError.
    """
    require("place", "reading measured tables")
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        for stem in stems:
            if re.fullmatch(rf"{re.escape(stem)}(-\d+)?\.csv(\.zst)?", path.name):
                if path.with_suffix("") in found.get(stem, ()):
                    raise ValueError(
                        f"{folder}: {path.stem} and {path.name} are one part of a table twice; remove one of the files"
                    )
                found.setdefault(stem, []).append(path)
            elif re.fullmatch(rf"{re.escape(stem)}([-_]\d+)?\.csv(\.({PACKED}))?", path.name, re.IGNORECASE):
                raise ValueError(
                    f"{path}: named like a part of {stem}, but not read; a part is {stem}.csv or {stem}-NUMBER.csv, "
                    "plain or compressed as .csv.zst. Rename or convert it, or move it out of the folder"
                )
    if not found:
        wanted = ", ".join(f"{stem}.csv[.zst]" for stem in stems)
        raise ValueError(f"{folder}: no table here; a table is a file of one of these names: {wanted}")
    tables = {}
    for stem, paths in found.items():
        parts = [read_table(path, NEEDED[stem]) for path in paths]
        for path, part in zip(paths, parts, strict=True):
            check_ranges(path, part, RANGES[stem])
        tables[stem] = _joined(parts)
        _check_once(paths, [len(part[NEEDED[stem][0]]) for part in parts], tables[stem], KEYS[stem])
    return tables


def check_ranges(path: Path, table: Columns, ranges: dict[str, Range]) -> None:
    """Raise ValueError for the first number out of range, of the columns that the table has."""
    for name, range_ in ranges.items():
        if name not in table:
            continue
        bad = np.flatnonzero(range_.bad(table, name))
        if len(bad):
            value = table[name][bad[0]]
            raise ValueError(
                f"{path}: row {bad[0] + 1}: {name} is {'empty' if np.isnan(value) else f'{value:g}'}; it must be "
                f"{range_}. Correct it, or leave out the measurement"
            )


def same(one: Any, other: Any) -> bool:
    """Whether two fields are equal, or both empty."""
    return bool(one == other) or (not isinstance(one, str) and bool(np.isnan(one) and np.isnan(other)))


def _check_once(paths: Sequence[Path], sizes: Sequence[int], table: Columns, key: Sequence[str]) -> None:
    """Raise ValueError for a row of a key that an earlier row has."""
    seen: dict[tuple[Any, ...], int] = {}
    for row, values in enumerate(zip(*(table[name] for name in key), strict=True)):
        first = seen.setdefault(values, row)
        if first == row:
            continue
        starts = np.cumsum([0, *sizes])

        def place(row: int, starts: NDArray[np.intp] = starts) -> str:
            part = int(np.searchsorted(starts, row, side="right")) - 1
            return f"{paths[part]}: row {row - starts[part] + 1}"

        what = ", ".join(
            f"{name} {value if name in TEXT else format(value, 'g')}" for name, value in zip(key, values, strict=True)
        )
        differs = [name for name, column in table.items() if not same(column[first], column[row])]
        raise ValueError(
            f"{place(row)}: {what} is also in {place(first)}, "
            + (f"with another {differs[0]} ({table[differs[0]][first]})" if differs else "the same row")
            + "; leave one of them out"
        )


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_table(path: Path, needed: Sequence[str]) -> Columns:
    """The needed columns of one CSV file."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {name: pa.string() if name in TEXT else pa.float64() for name in needed}
    empty = ["", "NaN", "nan"]
    convert = csv.ConvertOptions(
        column_types=kinds, include_columns=list(needed), null_values=empty, strings_can_be_null=True
    )
    # One thread: only then does the reader name the row of a bad value.
    reading = csv.ReadOptions(use_threads=False)
    try:
        with pa.OSFile(str(path)) as raw:
            plain = pa.CompressedInputStream(raw, "zstd") if path.suffix == ".zst" else raw
            table = csv.read_csv(plain, read_options=reading, convert_options=convert)
    except KeyError as error:
        raise ValueError(f"{path}: no column {error}; a row needs {', '.join(needed)}") from error
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    if not table.num_rows:
        raise ValueError(f"{path}: has a header and no rows")
    columns: Columns = {}
    for name in needed:
        column = table.column(name)
        if name in TEXT and column.null_count:
            raise ValueError(f"{path}: row {1 + column.to_pylist().index(None)}: {name} is empty; it names a group")
        values = column.to_numpy(zero_copy_only=False)
        columns[name] = values.astype(object) if name in TEXT else values.astype(np.float64)
    return columns
