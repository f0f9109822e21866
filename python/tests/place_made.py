# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives, tenants and a model with a known answer, for the tests of placement."""

from collections.abc import Sequence

import numpy as np
from linnet.place.slo import Slo, Tenant
from linnet.place.words import Drive, Prediction, Profile

GB = 10**9
SHEET = {
    "seq_read_mbs": 6800.0,
    "seq_write_mbs": 1400.0,
    "rnd_read_iops": 530_000.0,
    "rnd_write_iops": 85_000.0,
    "read_latency_us": 80.0,
    "write_latency_us": 15.0,
}


def label_words(runs: int, workloads: int) -> list[str]:
    """Options of ``linnet place label`` for runs that take a moment."""
    words = f"--drive sata --runs {runs} --workloads {workloads} --tenants 2-4 --seconds 0.1 --warm-seconds 0.02"
    return words.split()


def drive(name: str, model: str = "made", **sheet: float) -> Drive:
    return Drive(name, model, SHEET | sheet)


def profile(name: str, reads: float, writes: float = 0.0, size: float = 4096.0, burst: float = 0.2) -> Profile:
    """A tenant of random I/O."""
    features = {"depth": 8.0, "read_random_ratio": 1.0, "write_random_ratio": 1.0}
    for op, rate in (("read", reads), ("write", writes)):
        features |= {
            f"{op}_aligned_size_bytes_mean": size,
            f"{op}_aligned_rate_mean": rate,
            f"{op}_aligned_rate_std": burst * rate,
            f"{op}_aligned_bandwidth_mean": rate * size,
            f"{op}_aligned_bandwidth_std": burst * rate * size,
        }
    return Profile(name, features)


def chance_profile(chance: np.random.Generator, name: str, scale: float = 8000.0) -> Profile:
    """A profile as a catalogue of tenants might have."""
    reads = scale * chance.lognormal(0, 0.8)
    return profile(
        name, reads, reads * chance.uniform(0, 0.5), 4096.0 * 2 ** chance.integers(0, 4), chance.uniform(0, 0.6)
    )


def tenant(name: str, reads: float, at_most: float | None = None, capacity: int = 10 * GB) -> Tenant:
    slos = () if at_most is None else (Slo("read_latency_mean_us", bound=at_most),)
    return Tenant(name, capacity, profile(name, reads), slos)


class Line:
    """Read latency is 100 us and 1 us more for each 1000 reads/s on the drive. Counts its questions."""

    metrics = ("read_latency_mean_us",)

    def __init__(self) -> None:
        self.asked = 0

    def predict(
        self, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
    ) -> list[dict[str, Prediction]]:
        found = []
        for mine, others in zip(tenants, neighbours, strict=True):
            self.asked += 1
            rate = sum(one.features.get("read_aligned_rate_mean", 0.0) for one in (mine, *others))
            value = 100.0 + rate / 1000.0
            found.append({"read_latency_mean_us": Prediction(value, value * 0.9, value * 1.1)})
        return found
