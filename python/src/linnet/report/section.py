# SPDX-License-Identifier: MIT OR Apache-2.0
"""One experiment as the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.experiment import Experiment, Outcome, own_models


@dataclass(frozen=True)
class Section:
    """One experiment: rows, latency distributions, models and parameters."""

    title: str
    rows: list[dict[str, Any]]
    latency_ns: dict[str, NDArray[np.uint64]]
    models: list[dict[str, Any] | None]
    device_latency_ns: list[NDArray[np.uint64]]
    parameters: dict[str, Any]

    @property
    def own(self) -> dict[int, dict[str, Any]]:
        """The models of the devices that have one of their own, by device."""
        return own_models(self.models)

    @classmethod
    def of(cls, experiment: Experiment, outcomes: Sequence[Outcome]) -> Section:
        """The section of a finished experiment."""
        setup = experiment.setup
        return cls(
            title=f"{experiment.name} on {setup.replicas} x {setup.preset}",
            rows=[o.row for o in outcomes],
            latency_ns={o.row["policy"]: o.latency_ns for o in outcomes},
            models=experiment.reports(),
            device_latency_ns=experiment.profile_latency_ns,
            parameters=experiment.parameters(),
        )
