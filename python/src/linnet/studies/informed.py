# SPDX-License-Identifier: MIT OR Apache-2.0
"""What linnet-best would gain from a model of a given accuracy: foresight with errors in the place of its trees.

The AUC of a score is the probability that it is higher for a slow read than for a fast one. Scores that are normal with
equal variance, d standard deviations apart, have the AUC Phi(d / sqrt 2).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from linnet._native import informed
from linnet.experiment import ORACLE, Experiment
from linnet.studies.kept import NUMBER, Kinds
from linnet.studies.worth import METRICS, OURS, interval, rules
from linnet.studies.worth_grid import QUEUED, Cell

AUCS = (0.5, 0.8, 0.9, 0.95, 0.98, 1.0)
HEDGED = "ewma-hedged"
BEST = "best rule"
OVERDUE = "overdue rule"
"""ewma-hedged that avoids drives whose oldest read in flight is older than the hedge delay."""
ROW: Kinds = {
    **{"policy": str, **dict.fromkeys(METRICS, NUMBER)},
    **dict.fromkeys(("compared_auc", "slow_share"), NUMBER | None),
}
"""What a row has beside its cell."""


def distance(auc: float) -> float:
    """How many standard deviations apart the scores of slow and fast reads are, for 0.5 <= auc <= 1."""
    return math.inf if auc >= 1 else math.sqrt(2) * NormalDist().inv_cdf(auc)


def sample(cells: Sequence[Cell], count: int) -> list[Cell]:
    """``count`` cells whose drives have foresight, drawn at random and always the same, in their order."""
    able = [place for place, cell in enumerate(cells) if cell.setup.preset not in QUEUED]
    chosen = random.Random(0).sample(able, min(count, len(able)))
    return [cells[place] for place in sorted(chosen)]


def cell_rows(experiment: Experiment, writes: str) -> list[dict[str, Any]]:
    """The rows of one cell: the latencies of each rival and each accuracy.

    ``compared_auc`` is the AUC of what a policy compares, wait and score together, and ``slow_share`` the share of slow
    answers among all candidates. Those of linnet-best are of a run with its trees in the place of foresight. A read is
    slow above the latency that the trees are fitted to. If a drive has no model there are no rows.
    """
    by = {outcome.row["policy"]: outcome.row for outcome in experiment.compare([*rules(), OURS, ORACLE])}
    found = [one for one in experiment.fitted if one]
    if len(found) < len(experiment.fitted):
        return []
    models = experiment.models()
    slow_ns = [round(1000 * one.report["slow_above_us"]) for one in found]
    settings = experiment.run_settings()
    runs = {name: by[name] for name in (HEDGED, OURS, ORACLE)}
    scores: dict[str, float | None] = {OURS: None, OVERDUE: None} | {f"AUC {auc:g}": distance(auc) for auc in AUCS}
    for name, between in scores.items():
        settings["overdue"] = name == OVERDUE
        run, compared, slow = informed(experiment.array, experiment.run_part, models, between, slow_ns, **settings)
        runs[name] = run.row() | {"compared_auc": compared, "slow_share": slow}
    cell = {
        "trace": experiment.name,
        "preset": experiment.setup.preset,
        "writes": writes,
        "seed": experiment.setup.seed,
    }
    runs[BEST] = {metric: min(by[name][metric] for name in rules()) for metric in METRICS}
    return [
        cell | {"policy": name} | {figure: row.get(figure) for figure in (*METRICS, "compared_auc", "slow_share")}
        for name, row in runs.items()
    ]


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each policy and figure: the geometric means of its ratios to ewma-hedged and to the best rule of the cell.

    ``compared`` is the mean of ``compared_auc``. Ratios to the best rule have the interval of
    :func:`linnet.studies.worth.interval`.
    """
    names = ("trace", "preset", "writes", "seed", "load")

    def cell(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in names)

    rivals = {rival: {cell(row): row for row in rows if row["policy"] == rival} for rival in (HEDGED, BEST)}
    lines = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        aucs = [row["compared_auc"] for row in own if row["compared_auc"] is not None]
        line: dict[str, Any] = {"policy": policy, "cells": len(own), "compared": float(np.mean(aucs)) if aucs else None}
        for metric in METRICS:
            name = metric.removesuffix("_us")
            for rival, of in rivals.items():
                logs = np.log([row[metric] / of[cell(row)][metric] for row in own])
                line[f"{name} to {rival}"] = float(np.exp(logs.mean()))
            line[f"{name} low95, high95"] = interval(logs, [row["trace"] for row in own], [row["seed"] for row in own])
        lines.append(line)
    return lines


def table_of(lines: Sequence[dict[str, Any]]) -> str:
    """The summary as a table in Markdown."""
    head = f"| scores | AUC with the wait | to {HEDGED} | to the best rule of each cell | 95 % intervals of these |\n"
    text = head + "|---|---|---|---|---|\n"
    names = [metric.removesuffix("_us") for metric in METRICS]
    for line in lines:
        hedged, best = (", ".join(f"{line[f'{name} to {rival}']:.3f}" for name in names) for rival in (HEDGED, BEST))
        ranges = "; ".join("{:.3f} to {:.3f}".format(*line[f"{name} low95, high95"]) for name in names)
        compared = "-" if line["compared"] is None else f"{line['compared']:.3f}"
        text += f"| {line['policy']} | {compared} | {hedged} | {best} | {ranges} |\n"
    return text
