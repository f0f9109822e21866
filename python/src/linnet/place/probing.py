# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measurements of a new drive or mix that a model may ask for, played back from recorded runs.

A minute of a drive is the first full minute of the first recorded run at that load, with whatever the drive still
carries from the load before it; a minute that is asked for again is the next of that run. A point of a mix is one
recorded run. What a model chooses from has no outcomes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from linnet.place.models.closed_loop import ClosedLoop
from linnet.place.models.model import by_cell, hidden
from linnet.place.models.open_loop import OpenLoop
from linnet.place.observations import Observations

Mask = NDArray[np.bool_]


def probe(model: OpenLoop | ClosedLoop, tried: Observations, minutes: int) -> tuple[Observations | None, Mask]:
    """What ``minutes`` of one drive, or points of one setting, give; and which rows are of cells not measured."""
    if isinstance(model, ClosedLoop):
        return probe_setting(model, tried, minutes)
    found = probe_drive(model, tried, minutes)
    seen = set(found.labels["cell"]) if found is not None else set()
    return found, ~np.isin(tried.labels["cell"], list(seen))


def probe_drive(model: OpenLoop, tried: Observations, minutes: int) -> Observations | None:
    """Minutes of one drive, each chosen by what those before it showed."""
    candidates = hidden(by_cell(tried)[0])
    found: Observations | None = None
    for _ in range(min(minutes, len(candidates))):
        cell = candidates.labels["cell"][model.next_probe(candidates, found)]
        minute = first_minute(tried, str(cell))
        found = minute if found is None else found.joined(minute)
    return found


def first_minute(tried: Observations, cell: str) -> Observations:
    """The first minute of the first run of a cell."""
    rows = np.flatnonzero(tried.labels["cell"] == cell)
    order = np.lexsort((tried.inputs["minute_s"][rows], tried.inputs["repeat"][rows]))
    return tried.take(rows[order[:1]])


def probe_setting(model: ClosedLoop, tried: Observations, points: int) -> tuple[Observations | None, Mask]:
    """Runs of one setting of a mix, chosen before any is seen. A run without neighbours says nothing of a mix."""
    beside = np.flatnonzero(tried.inputs["neighbours"] > 0)
    if not points or not len(beside):
        return None, np.ones(len(tried), bool)
    chosen = beside[model.best_probes(hidden(tried.take(beside)), points)]
    left = np.ones(len(tried), bool)
    left[chosen] = False
    return tried.take(chosen), left
