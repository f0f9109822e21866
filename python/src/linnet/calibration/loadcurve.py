# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency of a modelled drive against load, measured as resctl-bench measures a real drive.

A ceiling of load (*vrate*) is the percentage of time that the linear cost model grants per second. The file does not
have the requests of the benchmark's generator below that ceiling, so the mix here is an assumption: :data:`MIX`.
Arrivals are Poisson and do not wait for answers. Those of the benchmark do, so beyond saturation the two differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from linnet._native import DeviceError, quantiles_ns
from linnet.calibration.calibrate import Calibrated, Parameters, build, calibrate, trace
from linnet.calibration.iocost import Level, Measured

LOADS = (5.0, 10.0, 15.0, 25.0, 35.0, 50.0, 75.0, 100.0)
"""Percent of the cost model."""
NEAR = 10.0
"""A measured run is compared with a load at most this many points away."""
RATES = (1.0, 2e6)
"""I/Os per second that a load may be: percentiles of a second need some, and memory holds :data:`SECONDS`."""
SECONDS = 12
WARM_UP = 2
"""Seconds that are not counted."""
WRITE_BYTES = 64 * 1024
WRITES = (False, False, True)
MIX = (("page read", 0.50), ("chunk read", 0.25), ("write", 0.25))
"""Shares of requests: faults and swap-ins of 4 KiB, chunks of the generator's files, swapped-out clusters of 64 KiB."""
WRITE_REGION = 1 / 32
"""Writes go round this share of the drive in order, as swap space is allotted (ours; swap was 1-2 % of the drives)."""
TAIL: dict[str, tuple[Any, ...]] = {
    "read_priority": ("none", "over-queued", "suspend"),
    "flush_watermark": (0.5, 0.25, 0.125, 0.0625),
}
"""What shapes the tail: what reads do about internal work, and how much of the buffer is programmed at once."""


def rate(measured: Measured, load: float) -> float:
    """I/Os per second of the mix at a load, percent of the cost model.

    Raises :class:`linnet.DeviceError`, which names the figure that limits it, for a rate outside :data:`RATES`.
    """
    sizes, shares = (4096, measured.chunk_bytes, WRITE_BYTES), [share for _, share in MIX]
    parts = [share * measured.cost_s(size, write) for share, size, write in zip(shares, sizes, WRITES, strict=True)]
    per_second = load / 100 / sum(parts)
    if not RATES[0] <= per_second <= RATES[1]:
        # Of the kind of request that takes most of the time, the figure that charges most of it.
        of = parts.index(max(parts))
        bps, iops = ("wbps", "wrandiops") if WRITES[of] else ("rbps", "rrandiops")
        by_bytes = sizes[of] / measured.figures[bps]
        name = bps if 2 * by_bytes * shares[of] > parts[of] else iops
        raise DeviceError(
            f"{name} = {measured.figures[name]:g}: at load {load:g} % the cost model grants {per_second:.3g} I/Os per "
            f"second; latency against load is modelled from {RATES[0]:g} to {RATES[1]:,.0f}"
        )
    return per_second


def curve(params: Mapping[str, Any], measured: Measured, loads: Sequence[float], seed: int) -> list[dict[str, float]]:
    """A row for each load: percentiles of read latency in every second, then median and mean over the seconds, us.

    Raises :class:`linnet.DeviceError` for a load that cannot be modelled.
    """
    drive = build(params, seed)
    pages = drive.capacity_bytes // 4096
    sizes = np.asarray([4096, measured.chunk_bytes, WRITE_BYTES])
    if sizes.max() >= drive.capacity_bytes:
        raise DeviceError(
            f"chunk_pages = {measured.chunk_bytes // 4096}: the modelled drive has {pages:,} pages; hold a larger one"
        )
    writes = np.asarray(WRITES)
    shares = np.asarray([share for _, share in MIX])
    rows = []
    for load in loads:
        chance = np.random.Generator(np.random.PCG64([seed, round(load * 100)]))
        per_second = rate(measured, load)
        count = int(per_second * SECONDS)
        arrive = np.cumsum(chance.exponential(1e9 / per_second, count)).astype(np.uint64)
        kind = np.searchsorted(np.cumsum(shares)[:-1], chance.random(count), side="right")
        offset = chance.integers(0, pages - sizes.max() // 4096, count) * 4096
        written = kind == 2
        clusters = max(1, int(drive.capacity_bytes * WRITE_REGION) // WRITE_BYTES)
        offset[written] = np.arange(written.sum()) % clusters * WRITE_BYTES
        log = drive.run([trace(arrive, writes[kind], offset, sizes[kind])]).log().columns()
        seconds = log["arrive_ns"] // np.uint64(1_000_000_000)
        reads = log["op"] == 0
        each = np.asarray(
            [
                quantiles_ns(log["latency_ns"][reads & (seconds == s)], [0.5, 0.99])
                for s in range(WARM_UP, SECONDS)
                if (reads & (seconds == s)).any()
            ],
            dtype=float,
        )
        if not len(each):
            raise DeviceError(f"load {load:g} %: no read in {SECONDS - WARM_UP} s, at {per_second:.3g} I/Os per second")
        (p50, p99), (p50_mean, p99_mean) = np.median(each, axis=0) / 1000, np.mean(each, axis=0) / 1000
        rows.append(
            {
                "load": load,
                "ios_per_second": per_second,
                "p50_us": float(p50),
                "p99_us": float(p99),
                "p50_mean_us": float(p50_mean),
                "p99_mean_us": float(p99_mean),
            }
        )
    return rows


def nearest(levels: Sequence[Level], load: float) -> Level | None:
    """The measured run nearest to a load; None where there is none near."""
    level = min(levels, key=lambda one: abs(one.vrate - load), default=None)
    return level if level is not None and abs(level.vrate - load) <= NEAR else None


def beneath(rows: Sequence[Mapping[str, float]], level: Level) -> Mapping[str, float]:
    """The modelled load, not above the ceiling of a measured run, whose median is nearest to the measured one.

    A ceiling is not a load: the load below it was not recorded, and the median is the best estimate of it.
    """
    allowed = [row for row in rows if row["load"] <= level.vrate] or [min(rows, key=lambda row: row["load"])]
    return min(allowed, key=lambda row: abs(np.log(row["p50_us"] / level.p50)))


def off(rows: Sequence[Mapping[str, float]], levels: Sequence[Level]) -> float:
    """Mean distance of p50 and p99 from the measured ones, run by run, as a natural logarithm."""
    pairs = [(beneath(rows, level), level) for level in levels]
    logs = [
        abs(np.log(modelled / real))
        for row, level in pairs
        for modelled, real in ((row["p50_us"], level.p50), (row["p99_us"], level.p99))
    ]
    return float(np.mean(logs))


def fit(
    measured: Measured,
    start: Parameters,
    fixed: Mapping[str, Any] | None = None,
    seed: int = 1,
    told: Callable[[str], None] | None = None,
) -> tuple[Calibrated, list[dict[str, float]]]:
    """Calibrate, choose what shapes the tail by latency against load, and calibrate again from there.

    :data:`TAIL` has the values that are tried, each with each; keys in ``fixed`` stay. Gives the parameters and the
    curve with them; without runs in the result the first calibration is the last, and the curve is empty. Raises
    :class:`linnet.DeviceError`, first of all for a load of :data:`LOADS` that cannot be modelled.
    """
    held = dict(fixed or {})
    for load in LOADS if measured.levels else ():
        rate(measured, load)
    found = calibrate(measured, start, held, seed, told)
    if not measured.levels:
        return found, []
    tried = {key: [held[key]] if key in held else list(values) for key, values in TAIL.items()}
    best: tuple[float, Parameters] = (float("inf"), {})
    for values in itertools.product(*tried.values()):
        change = dict(zip(tried, values, strict=True))
        distance = off(curve(found.params | change, measured, LOADS, seed), measured.levels)
        if told is not None:
            told(f"{change}: latency off by a factor of {np.exp(distance):.2f}")
        if distance < best[0]:
            best = (distance, change)
    again = calibrate(measured, found.params | best[1], held | best[1], seed, told)
    return again, curve(again.params, measured, LOADS, seed)
