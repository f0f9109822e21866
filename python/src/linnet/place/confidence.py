# SPDX-License-Identifier: MIT OR Apache-2.0
"""How sure a promise is to be kept.

At 50 % the predicted value decides: the outcome is as likely above it as below. At 95 % the far end of the 90 %
interval decides. For the levels between, the model file says how far from the value towards that end each lies,
measured on held-out errors. Errors of interference models have long tails: four of five lie in the first third of the
interval.

A promise against the tenant alone is judged by the same end, against the predicted value alone. The ends of the two
intervals are not compared with each other: on recorded drives the errors at two loads are hardly correlated, so they do
not cancel in the ratio. They are one error where neighbours change nothing, as on an empty drive. There the tenant gets
what it gets alone, at any confidence.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from linnet.place.moments import Floats
from linnet.place.words import Drive, Interference

VALUE_PERCENT, END_PERCENT = 50, 95
BETWEEN = (60, 70, 80, 90)
CONFIDENCES = (VALUE_PERCENT, *BETWEEN, END_PERCENT)
"""In percent. At 95, one outcome in twenty is expected beyond the end of the interval."""
ROUNDING = 1e-9
"""Share of a prediction below which a difference is rounding: models sum over a drive's tenants in several orders."""


@runtime_checkable
class GradedModel(Protocol):
    """A model that knows the levels between its values and the ends of its intervals."""

    def parts(self, drive: Drive) -> Floats | None:
        """Where each level lies between value (0) and end (1), [BETWEEN, metrics]; None in old model files."""
        ...


def stated(percent: int) -> str:
    """A confidence as text says it after a number; nothing at 50 %, where the number is the prediction itself."""
    return "" if percent == VALUE_PERCENT else f" at {percent} %"


def unsized(percent: int) -> str:
    """What is said of a promise at this confidence where a model has a value and no interval."""
    return f"cannot be promised{stated(percent)}: too few drives were measured for the model to have intervals here"


def unknown_level(model: Interference, percent: int) -> str | None:
    """Why a model cannot promise at this confidence; None where it can."""
    if percent in (VALUE_PERCENT, END_PERCENT):
        return None
    if isinstance(model, GradedModel) and model.parts(Drive("", "")) is not None:
        return None
    return (
        f"confidence_percent {percent}: this model knows {VALUE_PERCENT} and {END_PERCENT} only; "
        "`linnet place fit` makes a model that knows those between"
    )


def parts(model: Interference, drive: Drive, percent: int) -> Floats:
    """Where this confidence lies between the value (0) and the far end of the interval (1), for each metric.

    The scale between the two is logarithmic.

    Raises ValueError if the model does not know the level.
    """
    if percent in (VALUE_PERCENT, END_PERCENT):
        return np.full(len(model.metrics), float(percent == END_PERCENT))
    if said := unknown_level(model, percent):
        raise ValueError(said)
    assert isinstance(model, GradedModel)
    known = model.parts(drive)
    assert known is not None
    found: Floats = known[BETWEEN.index(percent)]
    return found


def undisturbed(alone: Floats, beside: Floats) -> NDArray[np.bool_]:
    """Where predictions [..., 3] beside others are those of the tenant alone, [...]."""
    # Of what has no interval the value tells.
    return np.asarray(np.isclose(beside, alone, rtol=ROUNDING, atol=0.0, equal_nan=True).all(axis=-1))


def towards(value: Floats, end: Floats, part: Floats) -> Floats:
    """Interpolates between value (part 0) and end (part 1) on a logarithmic scale; the arrays have one shape."""
    found = np.where(part == 0, value, end)
    between = np.flatnonzero((part > 0) & (part < 1) & (value > 0) & (end > 0))
    if len(between):
        share = part.flat[between]
        found.flat[between] = np.exp((1 - share) * np.log(value.flat[between]) + share * np.log(end.flat[between]))
    return found
