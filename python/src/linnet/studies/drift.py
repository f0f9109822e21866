# SPDX-License-Identifier: MIT OR Apache-2.0
"""A device that changes: a model trained once, one that is monitored, and one trained again and again.

The Rust crate ``linnet-learn`` (``Drift``) detects changes and replaces models; this is its front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linnet import _native
from linnet._native import Array, Trace

MODELS = ("linnet", "linnos")
STRATEGIES = ("once", "drift", "always")
"""Trained on the first window; monitored; trained on the last window after every half window, without a test."""
FIGURES = ("roc_auc", "balanced_accuracy", "accuracy", "merit", "own_accuracy")
REST_NS = 10_000_000
"""Gap between two parts of a joined trace, in which the queues of the first part empty."""


def one_after_the_other(parts: Sequence[Trace]) -> Trace:
    """A trace in which each part begins when the I/Os of the one before have ended."""
    if len(parts) == 1:
        return parts[0]
    held: dict[str, list[Any]] = {}
    origin = 0
    for part in parts:
        columns = part.columns()
        took = np.where(columns["latency_ns"] == np.iinfo(np.uint64).max, 0, columns["latency_ns"])
        end = int((columns["arrive_ns"] + took).max()) if len(part) else 0
        columns["arrive_ns"] = columns["arrive_ns"] + np.uint64(origin)
        for name, column in columns.items():
            held.setdefault(name, []).append(column)
        origin += end + REST_NS
    name = "+".join(part.name for part in parts)
    return Trace.from_columns(name, **{key: np.concatenate(columns) for key, columns in held.items()})


def on_drive(trace: Trace, preset: str, share: float | None, seed: int) -> Trace:
    """The trace with the latencies of one modelled drive."""
    return Array(preset, 1, seed, share).run([trace], "baseline", [], seed=seed, log=True).logs()[0]


def study(
    trace: Trace,
    model: str = "linnet",
    window: int = 6_000,
    margin: float = 0.02,
    seed: int = 0,
    block_ms: float = 250.0,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Replay a trace with latencies under the three strategies; every read is tested and none is revoked.

    Gives ``chunks`` (half a window of reads each, with the figures of every strategy; slow is what the inflection point
    of these reads says), ``happenings`` (fits, alarms, swaps, rejections, rollbacks), ``checks`` and
    ``checks_of_calibration`` among them (the first ones have no reference yet), ``fits`` and the ``mean`` over the
    chunks.
    Raises :class:`linnet.LearnError` for a trace too short.
    """
    found = _native.drift_study(trace, model, window, margin, seed, int(1e6 * block_ms), progress)
    found["mean"] = {
        name: {figure: mean([chunk[name][figure] for chunk in found["chunks"]]) for figure in FIGURES}
        for name in STRATEGIES
    }
    return {"trace": trace.name, "model": model, "window": window, "margin": margin, "seed": seed} | found


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of those that there are: a stretch that is all fast has no ROC-AUC."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
