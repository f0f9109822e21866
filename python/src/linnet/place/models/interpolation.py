# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an operator can do without a model: draw straight lines through what was measured of the drive itself.

Logarithms of latency are interpolated over the logarithm of the load, between the medians of the drive's known cells,
and are flat beyond them. Load and capacity are our model's, by the drive's own runs, and so is what outstanding I/Os do
above the capacity. A drive that was not measured is answered for by the others of its model. For mixes the line is over
log2(1 + n), through the runs of the mix under the scheduler and that of the tenant alone, which any mix under the
scheduler shows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from linnet.place.models.capacity import Capacity, capacities
from linnet.place.models.model import by_cell, groups_of
from linnet.place.models.open_loop import SHARE_LEAST, queued, shares
from linnet.place.observations import Floats, Observations


class Interpolation:
    """See the module."""

    def __init__(self) -> None:
        self._known: Observations

    def fit(self, train: Observations) -> None:
        """Keep medians of cells."""
        self._known, _ = by_cell(train)

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`. NaN where nothing that could answer was measured."""
        mean = np.full((len(rows), len(rows.targets)), np.nan)
        for asked in groups_of(rows.labels["setting" if rows.source == "icpe" else "drive"]):
            known = self._known.take(_own(self._known, rows.take(asked[:1])))
            if not len(known):
                continue
            capacity = capacities(known, rows.take(asked)) if rows.source == "ssdiq" else {}
            (at, before), (where, after) = (_placed(some, capacity) for some in (known, rows.take(asked)))
            for t in range(len(rows.targets)):
                told = np.isfinite(known.outcomes[:, t])
                points = np.unique(at[told])
                values = [np.median((known.outcomes[:, t] - before)[told & (at == point)]) for point in points]
                mean[asked, t] = np.interp(where, points, values) + after if len(points) else np.nan
        return mean, np.ones_like(mean)


def _own(known: Observations, one: Observations) -> NDArray[np.bool_]:
    """Which of the known cells answer for the drive, or the mix under a scheduler, of one row."""

    def same(label: str) -> NDArray[np.bool_]:
        return np.asarray(known.labels[label] == one.labels[label][0])

    if known.source == "icpe":
        found = same("setting")
        beside = found & (known.inputs["neighbours"] > 0)
        return found | (same("scheduler") & (known.inputs["neighbours"] == 0)) if beside.any() else beside
    return same("drive") if same("drive").any() else same("model")


def _placed(rows: Observations, capacity: Mapping[str, Capacity]) -> tuple[Floats, Floats]:
    """Place of rows on the line, and what is added to its value there."""
    if rows.source != "ssdiq":
        return _coordinate(rows), np.zeros(len(rows))
    share = np.clip(shares(rows, capacity), SHARE_LEAST, 1.0)
    # Offered loads of one setting differ by chance between minutes.
    return np.log(share).round(6), queued(share == 1, rows.inputs["depth"])


def _coordinate(rows: Observations) -> Floats:
    if rows.source == "icpe":
        return np.log2(1 + rows.inputs["neighbours"])
    return np.asarray(np.log(np.maximum(rows.inputs["load"], 1.0)).round(6), float)
