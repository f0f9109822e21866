# SPDX-License-Identifier: MIT OR Apache-2.0
"""How sure a promise can be: from the predicted value, as likely passed as kept, to the far end of its 90 % interval.

A model that was sized on held-out errors also knows how far towards that end each level between lies. Errors of
interference models have long tails: four of five lie in the first third of the interval, or nearer.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from linnet.place.moments import Floats
from linnet.place.words import Drive

VALUE_PERCENT, END_PERCENT = 50, 95
BETWEEN = (60, 70, 80, 90)
CONFIDENCES = (VALUE_PERCENT, *BETWEEN, END_PERCENT)
"""In percent: at 50 the predicted value has to keep the promise, at 95 the far end of the 90 % interval, beyond which
one outcome in twenty is expected."""


@runtime_checkable
class GradedModel(Protocol):
    """A model that knows the levels between its values and the ends of its intervals."""

    def parts(self, drive: Drive) -> Floats | None:
        """Of the way from value to end, what each level takes, [BETWEEN, metrics], 0..1; None in old model files."""
        ...


def parts(model: Any, drive: Drive, percent: int) -> Floats:
    """Of the logarithmic way from the value to the far end of the interval, what this confidence takes, by metric.

    Raises ValueError if the model does not know the level.
    """
    if percent in (VALUE_PERCENT, END_PERCENT):
        return np.full(len(model.metrics), float(percent == END_PERCENT))
    known = model.parts(drive) if isinstance(model, GradedModel) else None
    if known is None:
        raise ValueError(
            f"confidence_percent {percent}: this model knows {VALUE_PERCENT} and {END_PERCENT} only; "
            "`linnet place fit` makes a model that knows those between"
        )
    found: Floats = known[BETWEEN.index(percent)]
    return found


def towards(value: Floats, end: Floats, part: Floats) -> Floats:
    """What lies that part of the way from value to end, on a logarithmic scale; all of one shape."""
    found = np.where(part == 0, value, end)
    between = np.flatnonzero((part > 0) & (part < 1) & (value > 0) & (end > 0))
    if len(between):
        way = part.flat[between]
        found.flat[between] = np.exp((1 - way) * np.log(value.flat[between]) + way * np.log(end.flat[between]))
    return found
