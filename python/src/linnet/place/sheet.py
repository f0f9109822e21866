# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interference from a drive's data sheet alone: a queue whose servers are the drive's parallel units.

It needs no measurement of the drive, so placement works on the first day; a fitted model replaces it. What it
assumes:

- An I/O occupies the drive for the larger of one I/O at the sheet's random rate and its bytes at the sequential rate;
  sequential I/Os cost their bytes alone. The sheet's random-write rate is that of a drive in steady state, so it holds
  the cost of garbage collection.
- Work is done in pages of 4 KiB. A size or offset that is not a multiple of the page touches one page more, and a write
  then reads that page first.
- Reads and writes share the drive: the shares of its time that all tenants ask for add up to the load.
- A read waits for the die that has its page, so the chance that it waits is the load. It waits for other reads only:
  programs and erases are suspended for reads. A write may go to any die, so it waits only if all are busy. The number
  of dies is estimated by Little's law from the sheet: rate of random reads times their latency. Both waits follow
  Sakasegawa's approximation for bursty arrivals; the tail of the wait is exponential.
- In windows whose demand passes what the drive can do, the excess is lost bandwidth. Demand of a window is normal, with
  the mean and the deviation of the tenants' profiles.
- A tenant that keeps its queue depth full gets its depth divided by its latency, in I/Os per second.

Past saturation a latency only says "far too slow": in truth the tenants' queue depths bound it, which this model
ignores.

The intervals are not fitted: a latency is divided and multiplied by ``latency_factor``, and the interval of a bandwidth
widens with the bandwidth that is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linnet.place.batch import ByAggregate
from linnet.place.moments import COLUMN, Floats
from linnet.place.words import GROUPS, METRICS, Drive

PAGE = 4096.0
RATES = ("seq_read_mbs", "seq_write_mbs", "rnd_read_iops", "rnd_write_iops")
SHEET = (*RATES, "read_latency_us", "write_latency_us")
"""Figures that the model reads: 1e6 bytes/s, I/Os of 4 KiB per second, microseconds."""
USUAL = {"read_latency_us": 80.0, "write_latency_us": 15.0}
"""For sheets without latencies: usual ones of NVMe drives. Most sheets print 75 to 90 and 10 to 25."""
PERCENTILES = {"p90": 0.90, "p95": 0.95, "p99": 0.99}
FULL = 0.999
"""Load from which the wait is that of a full drive: the formula has no value at 1."""


def lacks_rates(drive: Drive) -> bool:
    """Whether the load of a drive cannot be judged: its sheet lacks a figure that it is counted from."""
    return any(math.isnan(drive.sheet.get(name, math.nan)) for name in RATES)


def dropped(old: Drive, new: Drive) -> str | None:
    """What is said of figures of a drive that were known and are left out; nothing where there are none."""
    names = [name for name in SHEET if name in old.sheet and name not in new.sheet]
    if not names:
        return None
    said = f"drive {new.name}: not known any more: {', '.join(names)}"
    if lacks_rates(new) and not lacks_rates(old):
        said += "; its load cannot be judged without, so it is told as 0 and keeps no tenant out"
    return said


class SheetModel(ByAggregate):
    """Predicts METRICS from the drive's data sheet. NaN where a drive's tenants need a figure that its sheet lacks."""

    metrics = METRICS

    def __init__(self, latency_factor: float = 3.0) -> None:
        """``latency_factor`` is the half-width of the interval of latencies, as a factor.

        It is a plain statement of how little a data sheet says about one drive's tail, not a fitted quantile.
        """
        if not latency_factor >= 1:
            raise ValueError(f"latency_factor {latency_factor}: give a factor from 1 up")
        self.latency_factor = latency_factor

    def load(self, drive: Drive, features: Floats) -> Floats:
        """Share of the drive's time that workloads with these features, [..., 27], ask for, [...]."""
        sheet = np.broadcast_to(_sheets([drive]), (*features.shape[:-1], 1, len(SHEET)))[..., 0, :]
        reads, writes, _ = _work(sheet, features)
        return np.asarray(reads + writes)

    def predict_aggregates(
        self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, others: Floats
    ) -> Floats:
        """See :class:`linnet.place.batch.AggregateModel`."""
        sheet = _sheets(drives)[which]
        own_reads, own_writes, own_variance = _work(sheet, own)
        reads, writes, variance = _work(sheet, others)
        load = own_reads + own_writes + reads + writes
        variance = variance + own_variance
        lost = _lost(load, np.sqrt(variance))
        out = np.full((len(own), len(METRICS), 3), np.nan)
        for index, op in enumerate(("read", "write")):
            size, rate = _operation(own, op)
            latency = self._latencies(op, sheet, size, load, variance)
            busy = rate > 0
            # A tenant that fills its depth alone finishes no faster than its latency lets it.
            alone = self._latencies(op, sheet, size, own_reads + own_writes, own_variance)
            # Steady neighbours make the load as a whole less bursty; a bursty tenant's own I/Os still come together.
            latency = [np.maximum(*both) for both in zip(latency, alone, strict=True)]
            closed = np.clip(rate * alone[0] * 1e-6 / np.maximum(own[:, COLUMN["depth"]], 1e-9), 0.0, 1.0)
            slower = 1.0 - closed * (1.0 - np.minimum(1.0, alone[0] / latency[0]))
            bandwidth = rate * size * slower * (1.0 - lost)
            column = index * 5
            most = rate * size
            spread = (most - bandwidth) * (self.latency_factor - 1.0)
            out[:, column] = np.stack([bandwidth, np.maximum(0.0, bandwidth - spread), most], axis=-1)
            for offset, value in enumerate(latency, start=1):
                out[:, column + offset] = np.stack(
                    [value, value / self.latency_factor, value * self.latency_factor], axis=-1
                )
            out[~busy, column : column + 5] = np.nan
        return out

    def _latencies(self, op: str, sheet: Floats, size: Floats, load: Floats, variance: Floats) -> list[Floats]:
        """Mean, p90, p95 and p99 in microseconds."""
        column = 0 if op == "read" else 1
        service = sheet[:, 4 + column] + size / sheet[:, column]  # bytes over MB/s are microseconds
        dies = np.maximum(1.0, sheet[:, 2] * sheet[:, 4] * 1e-6)
        servers = np.ones_like(dies) if op == "read" else dies
        full = np.clip(load, 0.0, FULL)
        burst = 1.0 + variance / np.maximum(load, 1e-9) ** 2
        step = sheet[:, 4] if op == "read" else dies / sheet[:, 3] * 1e6
        waits = full ** (np.sqrt(2 * (servers + 1)) - 1)
        wait = burst / 2 * waits / (servers * (1 - full)) * step
        # Past saturation the queue grows until the tenants' depth stops it: the wait keeps rising with the load.
        wait = wait * np.maximum(1.0, load)
        # The wait of those that wait at all is exponential with this mean.
        waiting = np.maximum(waits, 1e-12)
        some = wait / waiting
        found = [service + wait]
        for quantile in PERCENTILES.values():
            found.append(service + some * np.maximum(0.0, np.log(waiting / (1 - quantile))))
        return found


def offered(drive: Drive, features: Floats) -> str:
    """What a workload with these features, [27], offers, beside what the drive's data sheet has, in words."""
    sheet, found = _sheets([drive])[0], []
    for column, op in enumerate(("read", "write")):
        (size,), (rate,) = _operation(features[None], op)
        if rate > 0:
            found.append(
                f"{rate:,.0f} {op}s/s ({size * rate / 1e6:,.0f} MB/s), and the data sheet has "
                f"{sheet[2 + column]:,.0f} random ones/s and {sheet[column]:,.0f} MB/s"
            )
    return "; ".join(found)


def _sheets(drives: Sequence[Drive]) -> Floats:
    found = [[drive.sheet.get(name, math.nan) for name in SHEET] for drive in drives]
    out = np.array(found, dtype=float).reshape(len(drives), len(SHEET))
    for name, value in USUAL.items():
        column = out[:, SHEET.index(name)]
        column[np.isnan(column)] = value
    return out


def _operation(features: Floats, op: str) -> tuple[Floats, Floats]:
    """Mean size in bytes and I/Os per second of an operation."""
    groups = (f"{op}_aligned", f"{op}_unaligned")
    rates = [features[:, COLUMN[f"{group}_rate_mean"]] for group in groups]
    sizes = [features[:, COLUMN[f"{group}_size_bytes_mean"]] for group in groups]
    rate = rates[0] + rates[1]
    total = rates[0] * sizes[0] + rates[1] * sizes[1]
    return np.divide(total, rate, out=np.zeros_like(rate), where=rate > 0), rate


def _work(sheet: Floats, features: Floats) -> tuple[Floats, Floats, Floats]:
    """Load by reads and by writes, and the variance of the load: shares of the drive's time."""
    nothing = np.zeros(features.shape[:-1])
    loads = {"read": nothing, "write": nothing}
    variance = nothing
    read_page = np.maximum(1.0 / sheet[..., 2], PAGE / (sheet[..., 0] * 1e6))
    for group in GROUPS:
        op, _, aligned = group.partition("_")
        column = 0 if op == "read" else 1
        size = features[..., COLUMN[f"{group}_size_bytes_mean"]]
        rate = features[..., COLUMN[f"{group}_rate_mean"]]
        deviation = features[..., COLUMN[f"{group}_rate_std"]]
        offset = features[..., COLUMN[f"{group}_unaligned_ratio"]]
        random = features[..., COLUMN[f"{op}_random_ratio"]]
        split = np.minimum(1.0, offset + (1.0 if aligned == "unaligned" else 0.0))
        touched = size + PAGE * split * (0.5 if aligned == "unaligned" else 1.0)
        streamed = touched / (sheet[..., column] * 1e6)
        cost = random * np.maximum(1.0 / sheet[..., 2 + column], streamed) + (1 - random) * streamed
        if op == "write":
            cost = cost + split * read_page
        # A figure that the sheet lacks matters only to those that need it.
        loads[op] = loads[op] + np.where(rate > 0, rate * cost, 0.0)
        variance = variance + np.where(deviation > 0, deviation * cost, 0.0) ** 2
    return loads["read"], loads["write"], variance


def _lost(load: Floats, deviation: Floats) -> Floats:
    """Share of the demand that finds the drive full, where the demand of a window is normal."""
    narrow = np.maximum(deviation, 1e-9)
    z = (1.0 - load) / narrow
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    excess = narrow * (density - z * _above(z))
    return np.asarray(np.clip(excess / np.maximum(load, 1e-9), 0.0, 1.0))


def _above(z: Floats) -> Floats:
    """Chance that a standard normal is above z, within 7.5e-8 (Abramowitz and Stegun, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * poly
    return np.where(z >= 0, tail, 1.0 - tail)
