# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models by name. Ours has one form for each kind of tenants: with rates, without, behind a ceiling of load."""

from __future__ import annotations

from linnet.place.models.closed_loop import ClosedLoop
from linnet.place.models.forest import Forest, WeightedMean
from linnet.place.models.interpolation import Interpolation
from linnet.place.models.model import Model
from linnet.place.models.open_loop import OpenLoop
from linnet.place.models.queueing import Queueing
from linnet.place.models.throttled import Throttled

RIVALS: dict[str, type[Model]] = {
    "forest": Forest,
    "weighted-mean": WeightedMean,
    "queueing": Queueing,
    "interpolation": Interpolation,
}


def make(name: str, source: str, start: Model | None = None) -> Model:
    """A model to be fitted. ``start`` is one of the same kind that was fitted to more rows; each says what it keeps."""
    if name in RIVALS:
        return RIVALS[name]()
    if source == "ssdiq":
        return OpenLoop(start if isinstance(start, OpenLoop) else None)
    if source == "icpe":
        return ClosedLoop(start if isinstance(start, ClosedLoop) else None)
    return Throttled(start if isinstance(start, Throttled) else None)
