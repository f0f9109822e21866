# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reproduces Table 3 of LinnOS: what history, width and depth of the network gain, and what they cost.

Every network is trained by LinnOS's training on the same rows and tested on the later half of each trace, unfiltered.
With a history of four reads the rows are those used for serving. Other histories exist for this study alone
(``history_rows``); they consist of digits from the same tracker.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linnet import _native
from linnet._native import Network, Trace, history_rows, train_network
from linnet.extras import require_bench
from linnet.learning import FitSettings, fit
from linnet.studies.accuracy import evaluated


class Shape(NamedTuple):
    """A network of the study."""

    history: int
    """Completed reads that it remembers: R."""
    hidden: tuple[int, ...]
    """Sizes of its hidden layers."""
    note: str
    """What the paper calls it."""


SHAPES: dict[str, Shape] = {
    "A": Shape(2, (128,), "Table 3, A"),
    "B": Shape(3, (256,), "Table 3, B"),
    "linnos": Shape(4, (256,), "the paper's own"),
    "C": Shape(4, (256, 256), "Table 3, C: one more layer, of a width that is not given"),
    "D": Shape(10, (256, 512, 256), "Table 3, D"),
    "31-16": Shape(4, (16,), ""),
    "31-64": Shape(4, (64,), ""),
    "31-128-16": Shape(4, (128, 16), "Heimdall's layers on LinnOS's digits"),
}
TREES = "linnet"
"""The trees of ``linnet-1``: no network, and features of their own."""
UNTRAINED = "E"
"""Table 3's E: 2,048 inputs, block offsets among them, that the paper does not describe. Timed only."""
E_LAYERS = (2048, 512, 512, 512, 512, 512, 2)
FIGURES = ("rows", "base_rate", "accuracy", "balanced_accuracy", "roc_auc", "false_submit", "false_revoke")


def accuracies(
    trace: Trace,
    names: Sequence[str],
    seed: int = 0,
    epochs: int = FitSettings.epochs,
    max_rows: int | None = None,
    step: Callable[[int], object] = lambda done: None,
) -> tuple[list[dict[str, Any]], dict[str, Network]]:
    """Figures of every shape on a trace with latencies, and the networks."""
    # The rows below are those of the fit.
    trace = trace.without_ties(seed)
    fitted = fit([trace], seed, FitSettings(epochs=1, max_rows=1000))[0]
    inflection_ns = fitted.model.inflection_ns
    rows: list[dict[str, Any]] = []
    networks: dict[str, Network] = {}
    for done, name in enumerate(names):
        if name == TREES:
            found = fitted.report["linnet"]
        elif name in SHAPES:
            shape = SHAPES[name]
            digits, slow = history_rows(trace, shape.history, inflection_ns)
            cut = len(slow) // 2
            pick = np.arange(cut) if max_rows is None or max_rows >= cut else np.arange(max_rows) * cut // max_rows
            networks[name] = train_network(digits[pick], slow[pick], list(shape.hidden), epochs, 128, 5.0, seed)
            score = networks[name].scores(digits[cut:]).astype(float)
            found = evaluated(slow[cut:], score > 0, score)
        else:
            continue
        rows.append({"trace": trace.name, "shape": name} | {key: found[key] for key in FIGURES})
        step(done + 1)
    return rows, networks


def untrained(layers: Sequence[int], seed: int) -> Network:
    """Random weights: how long a network takes does not depend on them."""
    chance = np.random.default_rng(seed)
    made = [
        (chance.integers(-140, 141, (outputs, inputs)), np.zeros(outputs, np.int64))
        for inputs, outputs in itertools.pairwise(layers)
    ]
    return Network.from_integers(made, [1] * len(made))


def cost(name: str, network: Network | None, blocks: int, seed: int = 1) -> dict[str, Any]:
    """What one decision costs in each build of the core, in nanoseconds, with warm caches.

    ``network`` None measures the trees. In the result, ``submit`` is what an arriving read waits for: the incremental
    network if it applies, else the whole network. ``network`` is the whole network in any case. ``complete`` is the
    work when a read ends, of the incremental network or of the in-flight tracker.
    """
    require_bench("the cost of a network")
    rows = [json.loads(row) for row in _native.bench_network(network, blocks, seed)]
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["state"] != "hot" or row["remembered"]:
            continue
        if row["inputs"] == ("uniform" if row["path"] in ("plain", "network") else "realistic"):
            found.setdefault(row["build"], {})[row["path"]] = row["ns_median"]
    for build in found.values():
        build.setdefault("submit", build.get("network", 0.0))
    layers = [] if network is None else [weights.shape for weights, _ in network.layers()]
    parameters = sum(outputs * inputs + outputs for outputs, inputs in layers)
    return {"shape": name, "parameters": parameters, "ns": found}


def means(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The mean figures of each shape over all traces."""
    result: dict[str, dict[str, float]] = {}
    for name in names:
        own = [row for row in rows if row["shape"] == name]
        if own:
            keys = ("accuracy", "balanced_accuracy", "roc_auc")
            result[name] = {key: float(np.mean([row[key] for row in own if row[key] is not None])) for key in keys}
    return result
