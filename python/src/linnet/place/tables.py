# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads tables of measured co-location: CSV, plain or compressed with zstd, from a folder.

A table is a file STEM.csv or STEM.csv.zst; STEM-1, STEM-2 and so on are parts of one table. What a row is, and which
columns are needed, stands beside each stem in :data:`NEEDED`; other columns are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
TEXT = {"drive", "model", "run", "mix", "scheduler", "op", "family", "result"}
"""Columns of text; all others are numbers."""


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
                found.setdefault(stem, []).append(path)
    if not found:
        wanted = ", ".join(f"{stem}.csv[.zst]" for stem in stems)
        raise ValueError(f"{folder}: no table here; a table is a file of one of these names: {wanted}")
    return {stem: _joined([read_table(path, NEEDED[stem]) for path in paths]) for stem, paths in found.items()}


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
