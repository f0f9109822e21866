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

from linnet._native import TenantProfile
from linnet.place.slo import Tenant
from linnet.place.words import FEATURES, GROUPS, Profile

Advice = Literal["none", "reprofile", "rebalance"]
WINDOWS = 12
"""Observations that are remembered of a tenant."""
VIOLATIONS = 3
"""Broken windows among these after which something is done: a single one is chance, as bounds are percentiles."""
LEFT = 0.9
"""Distance in doublings from which a profile has left the stored one: about a factor of two in a mean rate or size.
That is more than :func:`linnet._native.same_workload`: what was placed by a profile is not disturbed for less."""
FLOOR = {"rate": 10.0, "bandwidth": 40_960.0, "size_bytes": 512.0, "depth": 1.0, "ratio": 0.1}
"""Values below these are told as these: a tenant of ten I/Os per second disturbs nobody."""


@dataclass(frozen=True)
class Drift:
    """How far a profile has gone from the stored one."""

    distance: float
    """Doublings of what changed most, as a profile store has it; 0 is the same."""
    feature: str | None
    """The feature that changed most."""
    factor: float
    """By which factor it changed."""

    @property
    def left(self) -> bool:
        """Whether the stored profile no longer describes the tenant."""
        return self.distance > LEFT


def drift(stored: Profile, seen: Profile) -> Drift:
    """Compare profiles. Those that are both below the floor of rates are the same."""
    if max(_rate(stored), _rate(seen)) < FLOOR["rate"]:
        return Drift(0.0, None, 1.0)
    distance, feature = _native_of(stored).difference(_native_of(seen))
    if feature is None:
        return Drift(distance, None, 1.0)
    floor = next(value for part, value in FLOOR.items() if part in feature)
    values = [max(floor, profile.features.get(feature, 0.0)) for profile in (stored, seen)]
    return Drift(distance, feature, values[1] / values[0])


def _rate(profile: Profile) -> float:
    return sum(profile.features.get(f"{group}_rate_mean", 0.0) for group in GROUPS)


def _native_of(profile: Profile) -> TenantProfile:
    # A group without I/Os has no size; a profile that somebody wrote may say one.
    empty = tuple(group for group in GROUPS if not profile.features.get(f"{group}_rate_mean"))
    return TenantProfile.from_features(
        [0.0 if name.startswith(empty) else profile.features.get(name, 0.0) for name in FEATURES]
    )


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


def suffers(windows: list[bool]) -> bool:
    """Whether a tenant's promises were broken so often in its last observations that something is done."""
    return sum(windows[-WINDOWS:]) >= VIOLATIONS


def advise(windows: list[bool], change: Drift | None) -> Advice:
    """What to do, from the last observations (True where a promise was broken) and the drift of the profile.

    A profile that has left is measured again. Promises broken under a profile that still holds are the model's or a
    neighbour's doing: the tenant should move.
    """
    if change is not None and change.left:
        return "reprofile"
    if suffers(windows):
        return "rebalance" if change is not None else "reprofile"
    return "none"
