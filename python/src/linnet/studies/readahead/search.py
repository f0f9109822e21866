# SPDX-License-Identifier: MIT OR Apache-2.0
"""Searches settings of the network: by ourselves, or by Ray Tune (`linnet[ray]`) on several processes.

The trials follow from the seed alone, and each trains with the same seed: both ways give the same result in any order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from linnet._native import LearnError, ModelError
from linnet.readahead.fitting import Table, fitting, held_out, score
from linnet.studies.readahead.accuracy import RUN_FOLDS

HIDDEN = ((15, 5), (8,), (16,), (16, 8), (32,), (32, 16))
ACTIVATIONS = ("sigmoid", "relu")
EPOCHS = (50, 100, 200, 400)
LEARNING_RATE = (0.002, 0.1)
MOMENTUM = (0.0, 0.99)

Trial = dict[str, Any]


def trials(count: int, seed: int) -> list[Trial]:
    """Settings to try. The first are those that the product uses, so that a search never ends below them."""
    chance = np.random.default_rng(seed)
    found: list[Trial] = [
        {"hidden": [15, 5], "activation": "sigmoid", "epochs": 200, "learning_rate": 0.02, "momentum": 0.9}
    ]
    while len(found) < count:
        low, high = np.log(LEARNING_RATE)
        found.append(
            {
                "hidden": list(HIDDEN[chance.integers(len(HIDDEN))]),
                "activation": ACTIVATIONS[chance.integers(len(ACTIVATIONS))],
                "epochs": int(EPOCHS[chance.integers(len(EPOCHS))]),
                "learning_rate": round(float(np.exp(chance.uniform(low, high))), 5),
                "momentum": round(float(chance.uniform(*MOMENTUM)), 3),
            }
        )
    return found


def merit(data: Table, trial: Trial, seed: int) -> dict[str, float]:
    """Scores of the values on held-out runs. Settings at which training diverges score 0."""
    try:
        return score(data, held_out(data, fitting("network", seed, **trial), data.run, RUN_FOLDS))
    except (LearnError, ModelError):
        return {"accuracy": 0.0, "share_of_best": 0.0, "worst_pattern": 0.0}


def search(data: Table, count: int, seed: int, tell: Callable[[int], None]) -> list[Trial]:
    """Every trial with its scores, best first."""
    found = []
    for done, trial in enumerate(trials(count, seed), 1):
        found.append({**trial, **merit(data, trial, seed)})
        tell(done)
    return ranked(found)


def search_with_ray(data: Table, count: int, seed: int, processes: int) -> list[Trial]:
    """The same trials by Ray Tune."""
    import ray  # noqa: PLC0415
    from ray import tune  # noqa: PLC0415

    every = trials(count, seed)
    ray.init(num_cpus=processes, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        shared = ray.put(data)

        def run(config: dict[str, Any]) -> dict[str, float]:
            return merit(ray.get(shared), every[config["trial"]], seed)

        space = {"trial": tune.grid_search(list(range(count)))}
        results = tune.Tuner(run, param_space=space, run_config=tune.RunConfig(verbose=0)).fit()
        if results.errors:
            raise results.errors[0]
        scored = [(results[at].config or {}, results[at].metrics or {}) for at in range(len(results))]
    finally:
        ray.shutdown()
    keys = ("accuracy", "share_of_best", "worst_pattern")
    return ranked([{**every[config["trial"]], **{k: metrics[k] for k in keys}} for config, metrics in scored])


def ranked(found: list[Trial]) -> list[Trial]:
    """Best first; among equals the smaller network, then the order of the settings' text."""
    return sorted(found, key=lambda t: (-t["share_of_best"], -t["accuracy"], sum(t["hidden"]), str(sorted(t.items()))))
