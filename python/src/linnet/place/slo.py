# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a tenant is promised, and what it asks for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from linnet.place.confidence import CONFIDENCES, VALUE_PERCENT, stated
from linnet.place.words import GROUPS, METRICS, Profile

SLOS_MAX = 8
"""SLOs of one tenant."""


def contradiction(features: Mapping[str, float]) -> str | None:
    """Why features cannot be those of a workload, by the name of the one that is missing; nothing if they can."""
    for group in GROUPS:
        rate = features.get(f"{group}_rate_mean", 0.0)
        if rate:
            if not features.get(f"{group}_size_bytes_mean", 0.0):
                return f"{group}_size_bytes_mean: zero or absent, but {group}_rate_mean is {rate:g}"
            continue
        for name in ("bandwidth_mean", "bandwidth_std", "rate_std"):
            if value := features.get(f"{group}_{name}", 0.0):
                return f"{group}_rate_mean: zero or absent, but {group}_{name} is {value:g}"
    return None


def idle(features: Mapping[str, float]) -> bool:
    """Whether a workload has no I/O."""
    return not any(features.get(f"{group}_rate_mean", 0.0) for group in GROUPS)


@dataclass(frozen=True)
class Slo:
    """A bound on one metric: a latency stays below it, a bandwidth above it.

    Either ``bound``, in the metric's unit, or ``degradation_percent``: how much worse than alone on the same drive,
    a latency in percent longer, a bandwidth in percent lower.
    """

    metric: str
    bound: float | None = None
    degradation_percent: float | None = None
    confidence_percent: int = VALUE_PERCENT

    def __post_init__(self) -> None:
        if self.metric not in METRICS and "_latency_" not in self.metric and "_bandwidth_" not in self.metric:
            raise ValueError(f"slo: unknown metric {self.metric!r}; known: {', '.join(METRICS)}")
        if (self.bound is None) == (self.degradation_percent is None):
            raise ValueError(f"slo on {self.metric}: give bound or degradation_percent, one of them")
        value = self.bound if self.bound is not None else self.degradation_percent
        assert value is not None
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"slo on {self.metric}: {value} is not a number from 0 up")
        if self.degradation_percent is not None and self.at_least and self.degradation_percent > 100:
            raise ValueError(f"slo on {self.metric}: a bandwidth falls by at most 100 %, not {value} %")
        if self.confidence_percent not in CONFIDENCES:
            known = ", ".join(map(str, CONFIDENCES))
            raise ValueError(
                f"slo on {self.metric}: confidence_percent is {self.confidence_percent}, not one of {known}"
            )

    @property
    def at_least(self) -> bool:
        """Whether the metric must stay above the bound: bandwidths; latencies stay below."""
        return "_bandwidth_" in self.metric

    @property
    def unsure_against_alone(self) -> bool:
        """Whether it is a degradation at a confidence, which always holds where the tenant gets what it gets alone."""
        return self.degradation_percent is not None and self.confidence_percent != VALUE_PERCENT

    def limit(self, alone: float) -> float:
        """The bound in the metric's unit, where the tenant alone has ``alone``; NaN if that is needed and NaN."""
        if self.bound is not None:
            return self.bound
        assert self.degradation_percent is not None
        change = self.degradation_percent / 100
        return alone * (1 - change if self.at_least else 1 + change)

    def text(self) -> str:
        """In words, as tables show it."""
        sure = stated(self.confidence_percent)
        if self.bound is not None:
            return f"{self.metric} {'>=' if self.at_least else '<='} {self.bound:g}{sure}"
        return f"{self.metric} {'-' if self.at_least else '+'}{self.degradation_percent:g} %{sure}"


@dataclass(frozen=True)
class Asked:
    """The profile that a tenant asked for room with: a stored one by its name, its own features, or none."""

    profile_name: str | None = None
    features: str | None = None
    """A digest of its own features."""

    @classmethod
    def by(cls, profile: Profile | None, named: bool) -> Asked:
        """With this profile, which is a stored one if ``named``."""
        if profile is None or named:
            return cls(None if profile is None else profile.name)
        values = sorted((name, float(value)) for name, value in profile.features.items() if value)
        return cls(features=hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest())


@dataclass(frozen=True)
class Tenant:
    """Who asks for room. Without a profile its workload is unknown, and it goes to a staging drive."""

    id: str
    capacity_bytes: int
    profile: Profile | None = None
    slos: tuple[Slo, ...] = ()
    asked: Asked | None = None
    """With which profile it asked, as that may be another by now. None where that is not known."""

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("tenant: the id is empty")
        if self.capacity_bytes < 0:
            raise ValueError(f"tenant {self.id}: capacity_bytes is {self.capacity_bytes}, below zero")
        if len(self.slos) > SLOS_MAX:
            raise ValueError(f"tenant {self.id}: {len(self.slos)} SLOs; at most {SLOS_MAX}")
        if self.profile is not None:
            for name, value in self.profile.features.items():
                if not math.isfinite(value) or value < 0:
                    raise ValueError(f"tenant {self.id}: feature {name} is {value}; give a number from 0 up")


def not_measured(tenants: Iterable[Tenant]) -> str:
    """What follows "cannot be predicted" where these share a drive: a colon and whose workload is unknown.

    Nothing where all are known.
    """
    unknown = sorted(one.id for one in tenants if one.profile is None)
    if not unknown:
        return ""
    more = len(unknown) - 1
    return f": {unknown[0]} {f'and {more} more are' if more else 'is'} not measured"


def unusable(tenant: Tenant) -> str | None:
    """Why a tenant cannot be placed by its profile, which would be taken as idle; nothing if it can."""
    if tenant.profile is None:
        return None
    name, features = tenant.profile.name, tenant.profile.features
    if said := contradiction(features):
        return f"profile {name}: {said}"
    if tenant.slos and idle(features):
        return f"profile {name}: no rate_mean is above 0, so nothing can be promised; give a measured profile or no SLO"
    return None
