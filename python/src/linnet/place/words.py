# SPDX-License-Identifier: MIT OR Apache-2.0
"""The words of placement: a tenant's profile, a drive's data sheet, and what an interference model answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

OPS = ("read", "write")
"""Operations. A metric's name begins with its own."""

GROUPS = ("read_aligned", "read_unaligned", "write_aligned", "write_unaligned")
"""I/Os by operation, and by whether the size is a multiple of the 4 KiB page."""

PER_GROUP = ("size_bytes_mean", "rate_mean", "rate_std", "bandwidth_mean", "bandwidth_std", "unaligned_ratio")
"""Features of a group: spec/profile.md. Rates in I/Os per second, bandwidths in bytes per second."""

PER_TENANT = ("depth", "read_random_ratio", "write_random_ratio")
"""Features of a tenant as a whole."""

FEATURES = tuple(f"{group}_{name}" for group in GROUPS for name in PER_GROUP) + PER_TENANT
"""Features of a profile, in the order of every array of them (gray-box paper, Table 9): 27."""

METRICS = tuple(
    f"{op}_{name}"
    for op in OPS
    for name in ("bandwidth_mean", "latency_mean_us", "latency_p90_us", "latency_p95_us", "latency_p99_us")
)
"""What the paper predicts of a tenant. A model may know others, such as `read_latency_p50_us`."""


@dataclass(frozen=True)
class Profile:
    """A workload as numbers, by the names of FEATURES; a feature that is absent is zero."""

    name: str
    features: Mapping[str, float]

    def __post_init__(self) -> None:
        unknown = sorted(set(self.features) - set(FEATURES))
        if unknown:
            raise ValueError(f"profile {self.name}: unknown feature {unknown[0]}; spec/profile.md lists them")


@dataclass(frozen=True)
class Drive:
    """A drive as its data sheet has it; a figure that the sheet lacks is NaN."""

    name: str
    model: str
    sheet: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Prediction:
    """A metric's value, and the bounds between which nine of ten outcomes are expected: NaN if nothing tells them."""

    value: float
    low90: float
    high90: float

    @property
    def unsized(self) -> bool:
        """Whether there is a value without an interval."""
        return math.isnan(self.low90) and not math.isnan(self.value)

    def shown(self) -> dict[str, float | None]:
        """As JSON."""
        low, high = (None if math.isnan(end) else end for end in (self.low90, self.high90))
        return {"value": self.value, "low90": low, "high90": high}


class Interference(Protocol):
    """A fitted interference model."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what it predicts."""
        ...

    def predict(
        self, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
    ) -> list[dict[str, Prediction]]:
        """Predict each tenant beside its neighbours on its drive; the three sequences are equally long."""
        ...


@runtime_checkable
class Measured(Protocol):
    """A model that knows where its measurements end."""

    def unmeasured(self, drive: Drive, tenants: Sequence[Profile]) -> str | None:
        """Why nothing is predicted where these tenants share a drive, in words; None where something is."""
        ...


def why_not(model: Interference, drive: Drive, tenants: Sequence[Profile]) -> str:
    """What follows "cannot be predicted": a colon and why, or nothing where the model does not say."""
    said = model.unmeasured(drive, tenants) if isinstance(model, Measured) else None
    return f": {said}" if said else ""
