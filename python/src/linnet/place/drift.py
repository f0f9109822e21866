# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether a tenant still is what its stored profile says, and what to do if not.

Two signs: promises that were measured to be broken, and a profile of what runs now that has left the stored one.
Nothing here reads a clock: windows are counted, so steps of the clock change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from linnet.place.slo import Tenant
from linnet.place.words import GROUPS, PER_TENANT, Profile

Advice = Literal["none", "reprofile", "rebalance"]
WINDOWS = 12
"""Observations that are remembered of a tenant."""
VIOLATIONS = 3
"""Broken windows among these after which something is done: a single one is chance, as bounds are percentiles."""
LEFT = 0.29
"""Distance from which a profile has left the stored one. Rates and bandwidths, with their deviations, that double or
halve give 3 log(2) / 7 = 0.297; a tenth more gives 0.04."""
FLOOR = {"rate": 10.0, "bandwidth": 40_960.0, "size_bytes": 512.0, "depth": 1.0, "ratio": 0.1}
"""Differences between values below these do not count: a tenant of ten I/Os per second disturbs nobody."""


@dataclass(frozen=True)
class Drift:
    """How far a profile has gone from the stored one."""

    distance: float
    """Mean over features of the log of the ratio, weighted by the share of the group's I/Os; 0 is the same."""
    feature: str | None
    """The feature that changed most."""
    factor: float
    """By which factor it changed."""

    @property
    def left(self) -> bool:
        """Whether the stored profile no longer describes the tenant."""
        return self.distance > LEFT


def drift(stored: Profile, seen: Profile) -> Drift:
    """Compare profiles. Groups without I/O in both do not count; a group counts as much as its larger share of I/Os."""
    weights = {group: max(_share(stored, group), _share(seen, group)) for group in GROUPS}
    total, weight_sum = 0.0, 0.0
    worst: tuple[float, str | None, float] = (0.0, None, 1.0)
    for group, weight in weights.items():
        for name in ("size_bytes_mean", "rate_mean", "rate_std", "bandwidth_mean", "unaligned_ratio"):
            feature = f"{group}_{name}"
            ratio = _log_ratio(stored, seen, feature, name)
            total += weight * abs(ratio)
            weight_sum += weight
            if weight * abs(ratio) > worst[0]:
                worst = (weight * abs(ratio), feature, math.exp(ratio))
    for name in PER_TENANT:
        weight = 1.0
        if name != "depth":
            op = name.partition("_")[0]
            weight = max(_share(p, f"{op}_aligned") + _share(p, f"{op}_unaligned") for p in (stored, seen))
        ratio = _log_ratio(stored, seen, name, name)
        total += weight * abs(ratio)
        weight_sum += weight
        if weight * abs(ratio) > worst[0]:
            worst = (weight * abs(ratio), name, math.exp(ratio))
    return Drift(total / weight_sum if weight_sum else 0.0, worst[1], worst[2])


def _share(profile: Profile, group: str) -> float:
    rates = [profile.features.get(f"{one}_rate_mean", 0.0) for one in GROUPS]
    return profile.features.get(f"{group}_rate_mean", 0.0) / sum(rates) if sum(rates) else 0.0


def _log_ratio(stored: Profile, seen: Profile, feature: str, name: str) -> float:
    floor = next(value for part, value in FLOOR.items() if part in name)
    values = [max(floor, profile.features.get(feature, 0.0)) for profile in (stored, seen)]
    return math.log(values[1] / values[0])


def broken(tenant: Tenant, measured: Mapping[str, float], alone: Mapping[str, float]) -> list[str]:
    """SLOs that measured metrics break, in words. ``alone`` has what the tenant gets alone, for degradations."""
    found = []
    for slo in tenant.slos:
        if slo.metric not in measured:
            continue
        limit, value = slo.limit(alone.get(slo.metric, math.nan)), measured[slo.metric]
        if (value < limit) if slo.at_least else (value > limit):
            found.append(f"{slo.metric} is {value:g}, promised {limit:g}")
    return found


def advise(windows: list[bool], change: Drift | None) -> Advice:
    """What to do, from the last observations (True where a promise was broken) and the drift of the profile.

    A profile that has left is measured again. Promises broken under a profile that still holds are the model's or a
    neighbour's doing: the tenant should move.
    """
    if change is not None and change.left:
        return "reprofile"
    if sum(windows[-WINDOWS:]) >= VIOLATIONS:
        return "rebalance" if change is not None else "reprofile"
    return "none"
