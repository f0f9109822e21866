# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the studies of placement share: random mixes, the forests that learn from them, and placing all workloads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linnet.place.allocate import Allocator, Settings
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.moments import Floats
from linnet.place.slo import Slo, Tenant
from linnet.place.words import Drive, Interference, Profile
from linnet.studies.place_baselines import Forest

METRICS = ("read_bandwidth_mean", "write_bandwidth_mean")
"""What SLOs are of."""
MIXED = (2, 16)
"""Workloads of a random mix, as the gray-box paper has them."""


def random_mixes(chance: np.random.Generator, workloads: int, count: int) -> list[NDArray[np.intp]]:
    """Indices of the workloads of each mix, all different."""
    low, high = MIXED
    return [chance.choice(workloads, int(chance.integers(low, high + 1)), replace=False) for _ in range(count)]


def forests(own: Floats, others: Floats, shares: Floats) -> dict[str, Forest]:
    """The paper's forest and that of weighted means, by name.

    Fitted on n tenants: features [n, 27] of each and of its neighbours,
    and shares [n, 2] of its bandwidth.
    """
    found = {"weighted mean": Forest(METRICS, weighted_mean=True), "gray-box forest": Forest(METRICS)}
    for forest in found.values():
        forest.fit(own, others, shares)
    return found


def place_all(
    drive: Drive,
    count: int,
    profiles: Sequence[Profile],
    model: Interference,
    slo: float,
    settings: Settings,
    order: Sequence[int] | NDArray[np.intp],
) -> Allocator:
    """Place workloads on ``count`` equal drives, in this order, each where the model allows it for an SLO in percent of
    bandwidth. Tenants are named by their indices.
    """
    allocator = Allocator(Cluster(), model, settings)
    allocator.add_drives([DriveSpec(Drive(f"d{i}", drive.model, drive.sheet), 10**12) for i in range(count)])
    promise = tuple(Slo(metric, degradation_percent=slo) for metric in METRICS)
    for index in order:
        decision = allocator.place(Tenant(str(index), 1, profiles[index], promise))
        assert decision.drive is not None, decision.reasons
    return allocator


def sets_of(allocator: Allocator) -> dict[int, frozenset[int]]:
    """Indices of the workloads on each drive in use, by the drive's row."""
    cluster = allocator.cluster
    return {
        int(drive): frozenset(int(cluster.tenant(int(row)).id) for row in cluster.tenants_on(int(drive)))
        for drive in np.flatnonzero(cluster.count)
    }
