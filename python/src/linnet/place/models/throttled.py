# SPDX-License-Identifier: MIT OR Apache-2.0
"""A protected job beside a memory hog, under a ceiling of load in percent of the drive's cost model.

Each target is a Gaussian process: a curve over the ceiling that all drives share, a level by the cost model's figures
and the host, and what the model and the drive in its host add. Without a ceiling the drive is in a state of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from linnet.place.gaussian import Hyper, Kernel, Process, Term, fit
from linnet.place.models.model import LEAST_SPREAD
from linnet.place.observations import Floats, Observations
from linnet.tables import COST_MODEL

_FIGURES = tuple((name, "figure_length") for name in COST_MODEL)
_HOST = (("cpus", "host_length"), ("mem_gib", "host_length"), ("size_gb", "host_length"))
KERNEL = Kernel(
    (
        Term(0.5, "constant", same=("state",)),
        Term("shape", "matern", (("ceiling", "length"),), same=("state",)),
        Term("figures", "matern", (*_FIGURES, *_HOST), same=("state",)),
        Term("model_level", "constant", same=("model",)),
        Term("drive_level", "constant", same=("drive",)),
        Term("drive_shape", "matern", (("ceiling", "own_length"),), same=("state", "drive")),
    ),
    (
        Hyper("shape", 0.5, 0.7),
        Hyper("figures", 0.5, 0.7),
        Hyper("model_level", 0.5, 0.7),
        Hyper("drive_level", 0.3, 0.7),
        Hyper("drive_shape", 0.3, 0.7),
        Hyper("length", 1.0, 0.7),
        Hyper("own_length", 0.5, 0.7),
        Hyper("figure_length", 4.0, 0.7),
        Hyper("host_length", 4.0, 0.7),
        Hyper("noise", 0.2, 1.0),
    ),
)


class Throttled:
    """See the module."""

    def __init__(self, start: Throttled | None = None) -> None:
        self.processes: list[Process] = start.processes if start else []
        self._warm = start is not None

    def fit(self, train: Observations) -> None:
        """Learn from runs."""
        points = coordinates(train)
        starts: list[Process | None] = [*self.processes] if self._warm else [None] * len(train.targets)
        self.processes = [fit(KERNEL, points, train.outcomes[:, t], starts[t]) for t in range(len(train.targets))]

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`."""
        points = coordinates(rows)
        answers = [process.predict(points) for process in self.processes]
        return (
            np.stack([mean for mean, _ in answers], 1),
            np.maximum(np.stack([spread for _, spread in answers], 1), LEAST_SPREAD),
        )


def coordinates(rows: Observations) -> dict[str, NDArray[np.generic]]:
    """Ceiling, figures and host as logarithms; a figure that is not known counts as 1."""
    logs = {
        name: np.log(np.maximum(np.nan_to_num(rows.inputs[name], nan=1.0), 1.0))
        for name in (*COST_MODEL, "cpus", "mem_gib", "size_gb")
    }
    return {
        **logs,
        "ceiling": np.log(rows.inputs["load"]),
        "state": np.where(rows.inputs["off"] > 0, "off", "on").astype(object),
        "drive": rows.labels["drive"],
        "model": rows.labels["model"],
    }
