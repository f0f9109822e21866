# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long one placement takes in a cluster whose drives have tenants already."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linnet._native import quantiles_ns
from linnet.place.allocate import Allocator, Settings
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.sheet import SheetModel
from linnet.place.slo import Slo, Tenant
from linnet.place.words import Drive, Interference, Profile

TB = 10**12
CATALOGUE = 2000
"""Profiles that the tenants of the cluster have. Newcomers have others."""
SLOS = (
    (Slo("read_bandwidth_mean", degradation_percent=5.0), Slo("read_latency_p99_us", degradation_percent=100.0)),
    (Slo("read_bandwidth_mean", degradation_percent=10.0),),
    (Slo("read_latency_p99_us", bound=1000.0),),
)
STRICT = (Slo("read_latency_mean_us", degradation_percent=0.0),)
"""What only an empty drive can promise: every other drive refuses, so the model is asked as often as it may be."""
SHEETS = (
    ("consumer", 5000.0, 3000.0, 500_000.0, 60_000.0),
    ("read-intensive", 6800.0, 1400.0, 530_000.0, 85_000.0),
    ("mixed-use", 6500.0, 4000.0, 900_000.0, 200_000.0),
)
"""Kinds of drives: sequential reads and writes in MB/s, random reads and writes per second. Typical of data sheets."""


def sheet(kind: int) -> Drive:
    """A drive of one of the SHEETS."""
    name, *values = SHEETS[kind]
    names = ("seq_read_mbs", "seq_write_mbs", "rnd_read_iops", "rnd_write_iops")
    return Drive(name, name, dict(zip(names, values, strict=True)))


def workload(chance: np.random.Generator, name: str, reads: float = 8000.0) -> Profile:
    """A tenant as drawn: rates spread over an order of magnitude, sizes of 4 to 64 KiB, every burstiness up to 60 %."""
    features = {"depth": float(chance.integers(1, 33)), "read_random_ratio": chance.uniform(0.3, 1.0)}
    features["write_random_ratio"] = chance.uniform(0.1, 1.0)
    rate = reads * chance.lognormal(0.0, 0.8)
    for op, share in (("read", 1.0), ("write", chance.uniform(0.02, 0.5))):
        size, burst = 4096.0 * 2 ** chance.integers(0, 5), chance.uniform(0.05, 0.6)
        features |= {
            f"{op}_aligned_size_bytes_mean": size,
            f"{op}_aligned_rate_mean": share * rate,
            f"{op}_aligned_rate_std": burst * share * rate,
            f"{op}_aligned_bandwidth_mean": share * rate * size,
            f"{op}_aligned_bandwidth_std": burst * share * rate * size,
        }
    return Profile(name, features)


def filled(drives: int, seed: int, settings: Settings | None = None, model: Interference | None = None) -> Allocator:
    """A cluster of which every drive but one in a hundred has one to seven tenants."""
    chance = np.random.default_rng(seed)
    allocator = Allocator(Cluster(), model or SheetModel(), settings)
    kinds = chance.integers(0, len(SHEETS), drives)
    sheets = [sheet(kind) for kind in range(len(SHEETS))]
    allocator.add_drives(
        [DriveSpec(Drive(f"d{i}", sheets[k].model, sheets[k].sheet), 4 * TB) for i, k in enumerate(kinds)]
    )
    catalogue = [workload(chance, f"w{index}") for index in range(CATALOGUE)]
    counts = np.where(chance.random(drives) < 0.01, 0, chance.integers(1, 8, drives))
    sizes = chance.integers(50, 500, int(counts.sum())) * 10**9
    profiles, slos = chance.integers(0, CATALOGUE, len(sizes)), chance.integers(0, len(SLOS), len(sizes))
    homes = np.repeat(np.arange(drives), counts)
    allocator.restore(
        [
            (Tenant(f"t{i}", int(sizes[i]), catalogue[profiles[i]], SLOS[slos[i]]), f"d{homes[i]}")
            for i in range(len(sizes))
        ]
    )
    return allocator


def measure(
    allocator: Allocator,
    newcomers: int,
    seed: int,
    strict: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Place and remove newcomers one by one: a row with milliseconds of the wall's clock and of the processor's."""
    chance = np.random.default_rng(seed + 1)
    slos = (STRICT,) if strict else SLOS
    wall, processor, asked, refused = [], [], [], 0
    for index in range(newcomers):
        profile = workload(chance, f"n{index}")
        tenant = Tenant(f"n{index}", int(chance.integers(50, 500)) * 10**9, profile, slos[index % len(slos)])
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        decision = allocator.place(tenant)
        wall.append(time.perf_counter_ns() - began)
        processor.append(time.thread_time_ns() - busy)
        asked.append(decision.asked)
        if decision.drive is None:
            refused += 1
        else:
            allocator.remove(tenant.id)
        progress(index + 1)
    return {
        "drives": len(allocator.cluster),
        "tenants": allocator.cluster.placed,
        "policy": allocator.settings.policy,
        "newcomers": "strict" if strict else "usual",
        "placements": newcomers,
        "refused": refused,
        "asked_median": float(np.median(asked)),
        "asked_max": max(asked),
        **_milliseconds(wall, "ms"),
        **_milliseconds(processor, "cpu_ms"),
    }


def _milliseconds(took_ns: list[int], name: str) -> dict[str, float]:
    median, p99 = quantiles_ns(np.array(took_ns, np.uint64), [0.5, 0.99])
    return {f"{name}_median": round(median / 1e6, 3), f"{name}_p99": round(p99 / 1e6, 3)}
