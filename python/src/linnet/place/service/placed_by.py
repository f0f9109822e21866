# SPDX-License-Identifier: MIT OR Apache-2.0
"""By which model file the tenants of a state are placed. The state has its path and checksum, not the model."""

from __future__ import annotations

from linnet.place.service.state import State
from linnet.place.words import Interference


def origin(model: Interference) -> tuple[str, str] | None:
    """Path and checksum of a model's file; None of a model that has none."""
    return getattr(model, "origin", None)


def other_model(state: State, model: Interference) -> str | None:
    """What is to be said where a state's tenants were placed by another model file than this; None where not."""
    kept, given = state.model(), origin(model)
    if kept is None or (given and given[1] == kept[1]):
        return None
    said = f"{state.path}: its tenants were placed by the model {kept[0]} (checksum {kept[1]})"
    if given:
        return f"{said}, not by {given[0]} ({given[1]})"
    return f"{said}; give it as --model. Without it a data sheet alone says what a drive can do"
