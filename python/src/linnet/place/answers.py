# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a fitted model says of a tenant, once the latency of a measured I/O at the drive's load is known."""

from __future__ import annotations

import math

import numpy as np

from linnet.place import moments
from linnet.place.observations import PAGE, SSDIQ_COLUMN, SSDIQ_DEPTH, Floats
from linnet.place.words import OPS, Drive

TARGETS = tuple(SSDIQ_COLUMN)
"""Latencies that a fitted model predicts."""
QUANTILES = ("p50", "p90", "p95", "p99", "p99_9")
BANDWIDTHS = ("read_bandwidth_mean", "write_bandwidth_mean")
ROUNDING = 1e-9
"""Sums of rates that differ by less than this share are equal."""
OUTSTANDING = float(SSDIQ_DEPTH)
"""I/Os that a tenant without a depth has outstanding at most, as the tenants of the tables had."""


def pages_of(features: Floats) -> Floats:
    """Pages of 4 KiB that the mean read and write of tenants with features [n, 27] fill, [n, 2]; 0 where none is."""
    rates, sizes = features[:, moments.RATE], np.maximum(features[:, moments.SIZE], 1.0)
    rate, total = ((one[:, :2].sum(axis=1), one[:, 2:].sum(axis=1)) for one in (rates, rates * sizes))
    mean = np.divide(
        np.stack(total, 1), np.stack(rate, 1), out=np.zeros((len(features), 2)), where=np.stack(rate, 1) > 0
    )
    return np.asarray(np.ceil(mean / PAGE * (1 - ROUNDING)), float)


def depths_of(features: Floats) -> Floats:
    """I/Os that tenants with features [n, 27] have outstanding at most, [n]."""
    depth = features[:, moments.COLUMN["depth"]]
    return np.where(depth > 0, np.maximum(depth, 1.0), OUTSTANDING)


def page_us(drive: Drive, op: str) -> float:
    """Time in which the drive's sheet transfers a page, us; 0 if it says nothing."""
    sequential, random = (drive.sheet.get(name, math.nan) for name in (f"seq_{op}_mbs", f"rnd_{op}_iops"))
    rate = sequential * 1e6 / PAGE if sequential > 0 else random
    return 1e6 / rate if rate > 0 else 0.0


def answers(own: Floats, mean: Floats, width: Floats, transfer_us: Floats) -> Floats:
    """Predictions [n, metrics, 3] of tenants with features [n, 27]; NaN for an operation that a tenant lacks.

    ``transfer_us`` [n, 2] is added to the latencies of reads and of writes.
    """
    rates, sizes = own[:, moments.RATE], own[:, moments.BANDWIDTH]
    rate = {"read": rates[:, :2].sum(axis=1), "write": rates[:, 2:].sum(axis=1)}
    bandwidth = {"read": sizes[:, :2].sum(axis=1), "write": sizes[:, 2:].sum(axis=1)}
    # Value, low90, high90.
    bounds = np.exp(np.stack([mean, mean - width, mean + width], axis=-1))
    for index, op in enumerate(OPS):
        bounds[:, [t for t, name in enumerate(TARGETS) if name.startswith(op)]] += transfer_us[:, index, None, None]
    # Little's law: rate times mean latency is what the tenant has outstanding, which is bounded: by its depth, and at
    # least by one.
    bound = depths_of(own)[:, None]
    means = [TARGETS.index(f"{op}_latency_mean_us") for op in OPS]
    outstanding = sum(
        # Nothing may be known of an operation that a tenant lacks.
        np.where(rate[op][:, None] > 0, rate[op][:, None] * bounds[:, t] / 1e6, 0.0)
        for op, t in zip(OPS, means, strict=True)
    )
    share = np.minimum(1.0, bound / np.maximum(outstanding, 1e-300))
    out = np.full((len(own), len(TARGETS) + len(BANDWIDTHS), 3), math.nan)
    for index, op in enumerate(OPS):
        # Each quantile was learned apart; a higher one is never below a lower one.
        rising = [TARGETS.index(f"{op}_latency_{name}_us") for name in QUANTILES]
        bounds[:, rising] = np.maximum.accumulate(bounds[:, rising], axis=1)
        mine = [t for t, name in enumerate(TARGETS) if name.startswith(op)]
        busy = rate[op] > 0
        out[np.ix_(busy, mine)] = bounds[np.ix_(busy, mine)]
        # The longest latency leaves the least bandwidth.
        full = np.where(bandwidth[op] > 0, bandwidth[op], rate[op] * PAGE)
        out[busy, len(TARGETS) + index] = (full[:, None] * share[:, [0, 2, 1]])[busy]
    return out
