# SPDX-License-Identifier: MIT OR Apache-2.0
"""What policies gain as a share of what the oracle gains, and an estimate of what any predictor on a host could gain.

A cell is a workload or trace on one preset at one device-wide share. Its *limit* is estimated by boosted trees: at each
read of linnet-best's own run they see every replica as a host does, and learn what each would have answered. They
choose one replica for each read of the later part; nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet._native import Trace, counterfactual, quantiles_ns
from linnet.experiment import Experiment, share_of_gain
from linnet.extras import require

FIGURES = ("mean_us", "p99_us", "p999_us")
ROWS = 8_000
"""Reads, evenly over the training part, that the limit's trees learn from."""


def with_ways(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one cell with ``way_mean``, ``way_p99``, ``way_p999``, given that baseline and oracle are there."""
    by = {row["policy"]: row for row in rows}
    base, limit = by.get("baseline"), by.get("oracle")
    if base is None or limit is None:
        return list(rows)
    name = {figure: "way_" + figure.removesuffix("_us") for figure in FIGURES}
    return [row | {name[f]: share_of_gain(base[f], row[f], limit[f]) for f in FIGURES} for row in rows]


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per policy: geometric means over all cells relative to the baseline, and the share of the gain."""
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["trace"], row["preset"], row["share"], row["seed"]), {})[row["policy"]] = row
    whole = [cell for cell in cells.values() if "baseline" in cell and "oracle" in cell]
    lines = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        line: dict[str, Any] = {"policy": policy, "cells": len(whole)}
        if not whole:
            continue
        for figure in FIGURES:
            own, best = (
                float(np.exp(np.mean([np.log(cell[name][figure] / cell["baseline"][figure]) for cell in whole])))
                for name in (policy, "oracle")
            )
            short = figure.removesuffix("_us")
            line |= {short: own, "way_" + short: share_of_gain(1.0, own, best)}
        line["extra_io_share"] = max(cell[policy]["extra_io_share"] for cell in whole)
        lines.append(line)
    return lines


def figures(latency_us: NDArray[np.float64]) -> dict[str, float]:
    """Mean and p99.9."""
    (p999,) = quantiles_ns(np.rint(1000 * latency_us).astype(np.uint64), [0.999])
    return {"mean": float(np.sort(latency_us).mean()), "p999": p999 / 1000}


def limit(experiment: Experiment, policy: str = "linnet-best", seed: int = 0) -> dict[str, float | None]:
    """What boosted trees gain on the states that ``policy`` meets, and what its own choices gain there.

    ``limit_*``: the trees' choices. ``step_*``: those of the policy without its hedges. Both are of one step: what a
    choice does to later reads is left out, as it is in the oracle that they are measured by.
    """
    require("study", "the limit")
    from sklearn.ensemble import HistGradientBoostingRegressor

    models = experiment.models()
    setup = experiment.setup

    def counterfactual_part(
        part: Sequence[Trace],
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.uint8]]:
        return counterfactual(
            experiment.array, part, policy, models, setup.seed, setup.failover_ns, writes_to_all=setup.writes_to_all
        )

    seen, took, _ = counterfactual_part(experiment.train_part)
    few = np.unique(np.linspace(0, len(seen) - 1, min(ROWS, len(seen))).astype(int))
    model = HistGradientBoostingRegressor(
        max_iter=100, max_leaf_nodes=15, learning_rate=0.1, early_stopping=False, random_state=seed
    )
    # The root: means count, and stalls of a second must not be all that counts.
    model.fit(seen[few].reshape(-1, seen.shape[2]), np.sqrt(took[few].reshape(-1)))
    seen, took, chosen = counterfactual_part(experiment.test_part)
    expected = model.predict(seen.reshape(-1, seen.shape[2])).reshape(took.shape)
    every = np.arange(len(took))
    base, best = figures(took[:, 0]), figures(took.min(axis=1))
    found: dict[str, float | None] = {}
    for prefix, choice in (("limit", expected.argmin(axis=1)), ("step", chosen)):
        own = figures(took[every, choice])
        found |= {f"{prefix}_{name}": share_of_gain(base[name], own[name], best[name]) for name in base}
    return found
