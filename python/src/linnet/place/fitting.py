# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fits a placement model to measured drives: each target by itself, on any workers, each kept as soon as it is there.

The bytes of the model do not depend on who fitted which target, on processors of one kind: the linear algebra of a
target has one thread, because the last bits of a factorisation depend on how it is divided.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from linnet.place.answers import TARGETS
from linnet.place.cache import Cache
from linnet.place.confidence import BETWEEN
from linnet.place.fitted import NO_INTERVAL, PlacementModel, assembled, own_pages, read_share
from linnet.place.fitted_file import from_bytes, to_bytes
from linnet.place.gaussian import ROUGHNESS
from linnet.place.judge import Question, interval_factors
from linnet.place.label import key_of
from linnet.place.models.model import by_cell
from linnet.place.models.open_loop import KERNEL, OpenLoop
from linnet.place.observations import Observations
from linnet.place.workers import Workers
from linnet.threads import Threads


def fit_model(
    rows: Observations,
    seed: int,
    progress: Callable[[int], None],
    workers: Workers | None = None,
    cache: Cache | None = None,
) -> PlacementModel:
    """Fit to minutes of tenants that have some of TARGETS. ``progress`` is told the targets that are done.

    ``workers`` fit the targets, by default one after the other; a target in ``cache``, of the same rows, seed and
    engine, is not fitted again. Raises ValueError for data of one cell, or none.
    """
    if not len(rows):
        raise ValueError("no row of the data has a latency that a model predicts, of reads or of writes")
    cache = cache or Cache(None)
    digest = _digest(rows)
    keys = [key_of("fit-7", digest, seed, target) for target in rows.targets]
    found: list[Any] = [cache.get(key) for key in keys]
    todo = [t for t, one in enumerate(found) if one is None]
    progress(len(found) - len(todo))
    # One after the other in this process: the work is in Python for the most part.
    with closing((workers or Threads(1)).map(fit_target, (rows, seed), todo)) as made:
        for done, (index, result) in enumerate(made, len(found) - len(todo) + 1):
            found[todo[index]] = result
            cache.put(keys[todo[index]], result)
            progress(done)
    if any(one["known_factor"] is None for one in found):
        raise ValueError("the data have one cell; a model needs several loads, best of several drives")
    known, _ = by_cell(rows)
    return assembled(known, found, read_share(known), own_pages(known))


def model_file(model: PlacementModel) -> bytes:
    """The file of a model, which was read back. Raises ValueError where no reader would take it."""
    data = to_bytes(model)
    try:
        from_bytes(data)
    except ValueError as error:
        raise ValueError(
            f"not written, because the model could not be read: {error}. Look for latencies in the tables that are far "
            "from all others"
        ) from None
    return data


UNTOLD = {
    "centre": 0.0,
    "roughness": ROUGHNESS[0],
    "hyperparameters": KERNEL.usual.tolist(),
    "known_factor": 1.0,
    "new_factor": 1.0,
    "known_parts": [0.0] * len(BETWEEN),
    "new_parts": [0.0] * len(BETWEEN),
}
"""The process of a target that no row has, as writes of tenants that only read: its answers are NaN."""


def fit_target(shared: tuple[Observations, int], target: int) -> dict[str, Any]:
    """The process of one target of the rows, and the factors of its intervals; see :class:`PlacementModel`."""
    from threadpoolctl import threadpool_limits

    rows, seed = shared
    one = Observations(
        rows.source, (rows.targets[target],), rows.outcomes[:, [target]], rows.inputs, rows.labels, rows.achieved
    )
    told = np.isfinite(one.outcomes[:, 0])
    if not told.any():
        return UNTOLD
    with threadpool_limits(1):
        model = OpenLoop()
        model.fit(one)
        known, new = (
            interval_factors(Question(rows.source, split, 0), one, seed, model)[:, 0]
            for split in ("unseen-model-load", "unseen-drive")
        )
    # One drive does not show how far a process errs that was fitted to it alone: at loads that are left out by up to
    # hundreds of its spreads. Nor does one drive model show how others differ.
    if np.isfinite(known[-1]) and len(set(one.labels["drive"][told])) < 2:
        known = np.full_like(known, NO_INTERVAL)
    if np.isnan(new[-1]):
        new = np.full_like(new, NO_INTERVAL)
    (process,) = model.processes
    return {
        "centre": process.centre,
        "roughness": process.roughness,
        "hyperparameters": [float(value) for value in process.theta],
        "known_factor": float(known[-1]) if np.isfinite(known[-1]) else None,
        "new_factor": float(new[-1]),
        "known_parts": [float(part) for part in known[:-1] / known[-1]],
        "new_parts": [float(part) for part in new[:-1] / new[-1]],
    }


def _digest(rows: Observations) -> str:
    """Of everything that a fit follows from."""
    found = hashlib.sha256(json.dumps([rows.source, TARGETS, rows.targets]).encode())
    for part in ({"outcomes": rows.outcomes}, rows.inputs, rows.achieved):
        for name, values in sorted(part.items()):
            found.update(f"{name} {values.shape}".encode() + np.ascontiguousarray(values, np.float64).tobytes())
    for name, labels in sorted(rows.labels.items()):
        found.update(json.dumps([name, [str(label) for label in labels]]).encode())
    return found.hexdigest()
