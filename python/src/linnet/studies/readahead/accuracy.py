# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cross-validation and permutation importance of two sets of features, by the same networks and trees.

Three questions, each for a network and for a tree. *Workload, by rows*: KML's own protocol, ten folds of single rows;
rows of one run resemble each other, so this flatters. *Workload, by runs*: whole runs are held out. *Value, by
workloads*: each workload is left out in turn. Nobody can name a workload that was never seen, so what counts there is
the throughput of the predicted value as a share of the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.readahead.fitting import Rows, Table, Values, fitting, held_out, model_of, score
from linnet.studies.readahead.training import Recorded

ROW_FOLDS = 10
RUN_FOLDS = 5
REPEATS = 5
"""Permutations of each feature."""
PARTS = ("network", "tree")


def by_workload(recorded: Recorded) -> Table:
    """The table with the workload's number as the label."""
    numbers = np.unique(recorded.workload, return_inverse=True)[1].astype(np.uint32)
    return replace(recorded.data, label_kib=numbers)


def mixed_rows(count: int, seed: int) -> NDArray[np.int64]:
    """A group for each row, in an order of the seed: folds of single rows."""
    return np.random.default_rng(seed).permutation(count)


def scores(recorded: Recorded, seed: int, **settings: Any) -> Iterator[dict[str, Any]]:
    """One row of results for network and tree."""
    named = by_workload(recorded)
    for parts in PARTS:
        fit = fitting(parts, seed, **settings)
        by_rows = held_out(named, fit, mixed_rows(len(named.rows), seed), ROW_FOLDS)
        by_runs = held_out(named, fit, named.run, RUN_FOLDS)
        value_runs = held_out(recorded.data, fit, recorded.data.run, RUN_FOLDS)
        value_left = held_out(recorded.data, fit, recorded.workload, None)
        yield {
            "features": recorded.name,
            "decider": parts,
            "rows": len(named.rows),
            "workload_by_rows": share_right(named, by_rows),
            "workload_by_runs": share_right(named, by_runs),
            "value_by_runs": score(recorded.data, value_runs),
            "value_by_workloads": score(recorded.data, value_left),
        }


def share_right(data: Table, found: Values) -> float:
    """Share of rows whose label was found."""
    return round(float((found == data.label_kib).mean()), 4)


def importance(recorded: Recorded, parts: str, seed: int) -> list[dict[str, Any]]:
    """How much the accuracy on held-out runs falls when one feature of these is permuted: mean and deviation."""
    data = by_workload(recorded)
    chance = np.random.default_rng(seed)
    drops: dict[str, list[float]] = {name: [] for name in recorded.features}
    for fold in range(RUN_FOLDS):
        hidden = np.isin(data.run, np.unique(data.run)[fold::RUN_FOLDS])
        seen, held = data.only(~hidden), data.only(hidden)
        if not len(held.rows) or len(set(seen.label_kib)) < 2:
            continue
        model = model_of(seen, parts, seed)
        base = float((model.decide(held.rows)[0] == held.label_kib).mean())
        for at, name in enumerate(recorded.features):
            for _ in range(REPEATS):
                drops[name].append(base - _permuted(model.decide, held, at, chance))
    return [
        {
            "features": recorded.name,
            "feature": name,
            "drop": round(float(np.mean(d)), 4),
            "std": round(float(np.std(d)), 4),
        }
        for name, d in sorted(drops.items(), key=lambda item: -np.mean(item[1]))
    ]


Decide = Callable[[Rows], tuple[Values, NDArray[np.float64]]]


def _permuted(decide: Decide, held: Table, at: int, chance: np.random.Generator) -> float:
    rows = held.rows.copy()
    rows[:, at] = chance.permutation(rows[:, at])
    return float((decide(rows)[0] == held.label_kib).mean())
