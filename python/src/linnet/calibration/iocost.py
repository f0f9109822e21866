# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads results of resctl-bench's iocost benchmarks: the measurements of a drive.

A file is a list of jobs, as JSON. ``iocost-params`` has six saturation figures of the kernel's linear cost model.
``iocost-qos`` has runs at ceilings of load (*vrate*, percent of that model); in each run an agent took percentiles of
the latency of every second, and the file has percentiles over time of those percentiles. ``iolat[0]["99"]["50"]`` is
the median over the seconds of the p99 of reads. A run has two phases; we read ``stor``, in which the load generator
alone uses the drive, and which ``iocost-tune`` takes its lines (``rlat-99-mean``) from as well.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linnet._native import DeviceError
from linnet.files import read_bounded

BYTES_MAX = 64 << 20
"""Bytes of a result, unpacked. It has a histogram for each of some hundred levels."""

SATURATION = ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")
"""The figures of ``iocost-params``: bytes per second, and requests of 4 KiB per second."""

FIGURES = (1.0, 1e15)
"""What a figure may be."""
LATENCIES_S = (1e-9, 3600.0)
CEILINGS = (1e-3, 1e6)
"""Percent of the cost model."""
CHUNK_PAGES = (1.0, 262_144.0)
"""Pages of 4 KiB that the load generator reads at a time: up to 1 GiB (ours)."""
CHUNK_PAGES_USUAL = 25
"""Where the result does not say: the load generator's own."""


@dataclass(frozen=True)
class Level:
    """Latency of reads in the run at one ceiling of load, in us."""

    vrate: float
    """Ceiling, percent of the cost model."""
    p50: float
    """Median over the seconds of the median."""
    p99: float
    """Median over the seconds of the p99."""
    p50_mean: float
    """Mean over the seconds of the median."""
    p99_mean: float
    """Mean over the seconds of the p99."""
    p50_low: float
    """First decile over the seconds of the median: a quiet second."""


@dataclass(frozen=True)
class Measured:
    """What a result says of a drive."""

    drive: str
    """Model name."""
    figures: dict[str, float]
    """The six of :data:`SATURATION`, and where the file has runs ``unloaded_ns``: a read in a quiet second of the run
    with the lowest ceiling."""
    levels: list[Level]
    """By rising vrate."""
    chunk_bytes: int
    """Reads that the load generator makes of its files."""

    def cost_s(self, size_bytes: int, write: bool) -> float:
        """Time that the linear cost model charges for one random request, in s."""
        bps, iops = (self.figures[name] for name in (("wbps", "wrandiops") if write else ("rbps", "rrandiops")))
        return max(0.0, 1 / iops - 4096 / bps) + size_bytes / bps


def read_result(path: str | Path) -> Measured:
    """Read a result, plain or gzip.

    Raises :class:`linnet.DeviceError`, which says file and field, and :class:`OSError`.
    """
    try:
        jobs = json.loads(read_bounded(Path(path), BYTES_MAX, unpack=True))
    except (ValueError, RecursionError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DeviceError(f"{path}: not JSON of resctl-bench: {error}") from error
    try:
        return _measured(jobs)
    except DeviceError as error:
        raise DeviceError(f"{path}: {error}") from None


def _get(where: str, value: Any, *keys: str) -> Any:
    """A field inside a field; the message names the first that is missing."""
    for key in keys:
        if not isinstance(value, dict) or value.get(key) is None:
            raise DeviceError(f"{where} has no field {key!r}")
        value, where = value[key], f"{where}.{key}"
    return value


def _number(range_: tuple[float, float], where: str, value: Any, *keys: str) -> float:
    found = _get(where, value, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float) or not range_[0] <= found <= range_[1]:
        shown = repr(found) if len(repr(found)) <= 40 else f"{repr(found)[:40]}..."
        raise DeviceError(f"{where}.{'.'.join(keys)} = {shown}: must be a number from {range_[0]:g} to {range_[1]:g}")
    return float(found)


def _list(where: str, value: Any, *keys: str) -> list[Any]:
    found = _get(where, value, *keys)
    if not isinstance(found, list):
        raise DeviceError(f"{where}.{'.'.join(keys)}: must be a list")
    return found


def _object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DeviceError(f"{where}: must be an object")
    return value


def _measured(jobs: Any) -> Measured:
    if not isinstance(jobs, list):
        raise DeviceError("a result of resctl-bench is a list of jobs")
    by_kind = {}
    for i, job in enumerate(jobs):
        kind = _get(f"job {i}", job, "spec", "kind")
        if not isinstance(kind, str):
            raise DeviceError(f"job {i}.spec.kind: must be text")
        by_kind[kind] = job
    params = by_kind.get("iocost-params")
    if params is None:
        raise DeviceError("no job of kind iocost-params, which has the saturation figures")
    model = _get("iocost-params", params, "record", "model")
    figures = {name: _number(FIGURES, "iocost-params.record.model", model, name) for name in SATURATION}
    levels: list[Level] = []
    chunk_pages = float(CHUNK_PAGES_USUAL)
    qos = by_kind.get("iocost-qos")
    if qos is not None:
        levels = _levels(qos)
        sysinfo, where = _object("iocost-qos.sysinfo", _get("iocost-qos", qos, "sysinfo")), "iocost-qos.sysinfo.hashd"
        hashd = _object(where, sysinfo.get("hashd") or {})
        if hashd.get("chunk_pages") is not None:
            chunk_pages = _number(CHUNK_PAGES, where, hashd, "chunk_pages")
    if levels:
        figures["unloaded_ns"] = levels[0].p50_low * 1000
    drive = str(_get("iocost-params", params, "sysinfo", "sysreqs_report", "scr_dev_model")).strip()
    return Measured(drive, figures, levels, int(chunk_pages) * 4096)


def _levels(qos: dict[str, Any]) -> list[Level]:
    runs = _list("iocost-qos", qos, "record", "runs")
    results = _list("iocost-qos", qos, "result", "runs")
    levels = []
    for i, (run, result) in enumerate(zip(runs, results, strict=False)):
        where, of_run = f"iocost-qos.result.runs[{i}]", f"iocost-qos.record.runs[{i}]"
        if run is None or result is None or not _object(of_run, run).get("qos"):
            continue
        latencies = _get(where, result, "stor", "iolat")
        if not isinstance(latencies, list) or not latencies:
            raise DeviceError(f"{where}.stor.iolat: must be a list, reads first")
        reads, at = latencies[0], f"{where}.stor.iolat[0]"

        def us(percentile: str, over_time: str, reads: Any = reads, at: str = at) -> float:
            return 1e6 * _number(LATENCIES_S, at, reads, percentile, over_time)

        levels.append(
            Level(
                vrate=_number(CEILINGS, of_run, run, "qos", "max"),
                p50=us("50", "50"),
                p99=us("99", "50"),
                p50_mean=us("50", "mean"),
                p99_mean=us("99", "mean"),
                p50_low=us("50", "10"),
            )
        )
    return sorted(levels, key=lambda level: level.vrate)
