# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the model is worth: linnet-best against the best rule that has no model, cell by cell.

A cell is a workload or trace, the presets of an array, a seed, and where writes go. In each cell, and for each figure,
the best of all rules is taken after the fact, so the rival is better than any rule that an operator could fix in
advance. ``clone`` is left out, because it doubles the reads that the drives serve.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet._native import policies
from linnet.experiment import LEARNED, ORACLE, Experiment, share_of_gain
from linnet.studies.kept import NUMBER, Kinds

METRICS = ("mean_us", "p99_us", "p999_us")
OURS = "linnet-best"
EXPECTED = "linnet-expected"
"""The same model, with replicas compared by expected latency."""
WON = 0.95
"""Below this ratio to the best rule, the model wins the cell."""
LOST = 1.02
"""Above it, the model loses the cell."""
FRUGAL = 0.025
"""A rule that sends at most this share of reads more than the baseline twice is frugal; ours sends up to 0.02 and a
burst. In overload the baseline sends reads twice, too: after their time-out."""
RESAMPLES = 2_000
"""Bootstrap samples of an interval."""
_US = ("best_rule_us", "learned_us", "ewma_hedged_us", "trees_only_us", "frugal_rule_us", "expected_us")
_SHARES = ("ratio", "extra_io_share", "best_rule_extra_io_share")
ROW: Kinds = {
    **dict.fromkeys(("engine", "metric", "best_rule", "frugal_rule"), str),
    **dict.fromkeys((*_US, *_SHARES), NUMBER),
    **{"oracle_us": NUMBER | None, "way": NUMBER | None, "rules_us": dict, "reads": int},
}
"""What a row has beside its cell."""


@cache
def split() -> dict[str, Any]:
    """Seeds and traces of tuning and of reporting: ``split.toml`` beside this file."""
    with files("linnet.studies").joinpath("split.toml").open("rb") as file:
        return tomllib.load(file)


def reported_seeds(count: int) -> list[int]:
    """The first ``count`` seeds that nothing was tuned on."""
    seeds = split()["seeds"]
    return [seeds["reported_from"] + k * seeds["reported_step"] for k in range(count)]


def rules() -> list[str]:
    """Policies without a model that send about as many reads as they are asked."""
    return [name for name in policies() if name not in LEARNED and name not in (ORACLE, "clone")]


def cell_rows(experiment: Experiment, writes: str) -> list[dict[str, Any]]:
    """The rows of one cell, one for each metric."""
    names = [*rules(), "trees-only", OURS, EXPECTED]
    if experiment.array.foresight:
        names.append(ORACLE)
    by = {outcome.row["policy"]: outcome.row for outcome in experiment.compare(names)}
    rows = []
    for metric in METRICS:
        best = min(rules(), key=lambda name: by[name][metric])
        most = by["baseline"]["extra_io_share"] + FRUGAL
        thrifty = [name for name in rules() if by[name]["extra_io_share"] <= most]
        frugal = min(thrifty, key=lambda name: by[name][metric])
        rule_us, own_us = by[best][metric], by[OURS][metric]
        oracle_us = by[ORACLE][metric] if ORACLE in by else None
        rows.append(
            {
                "trace": experiment.name,
                "preset": experiment.setup.preset,
                "engine": experiment.array.engine,
                "writes": writes,
                "seed": experiment.setup.seed,
                "metric": metric.removesuffix("_us"),
                "best_rule": best,
                "best_rule_us": rule_us,
                "learned_us": own_us,
                "oracle_us": oracle_us,
                "ratio": own_us / rule_us if rule_us else 1.0,
                "way": share_of_gain(rule_us, own_us, oracle_us),
                "ewma_hedged_us": by["ewma-hedged"][metric],
                "trees_only_us": by["trees-only"][metric],
                "extra_io_share": by[OURS]["extra_io_share"],
                "best_rule_extra_io_share": by[best]["extra_io_share"],
                "frugal_rule": frugal,
                "frugal_rule_us": by[frugal][metric],
                "expected_us": by[EXPECTED][metric],
                "rules_us": {name: by[name][metric] for name in rules()},
                "reads": by[OURS]["reads"],
            }
        )
    return rows


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each metric: cells won by more than 5 %, lost by more than 2 %, and the geometric mean with its interval.

    The interval is that of :func:`interval`.
    """
    lines = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        own = [row for row in rows if row["metric"] == metric]
        ratios = np.array([row["ratio"] for row in own])
        low, high = interval(np.log(ratios), [row["trace"] for row in own], [row["seed"] for row in own])
        lines.append(
            {
                "metric": metric,
                "cells": len(own),
                "won_by_5": int((ratios < WON).sum()),
                "lost_by_2": int((ratios > LOST).sum()),
                "ratio_geomean": float(np.exp(np.log(ratios).mean())),
                "low95": low,
                "high95": high,
            }
        )
    return lines


def interval(logs: NDArray[np.float64], traces: Sequence[str], seeds: Sequence[int]) -> tuple[float, float]:
    """The geometric mean's 95 % interval, by a bootstrap over traces and seeds at once.

    Cells of one trace are alike, and so are cells of one seed, which share drives. A sample draws traces and, apart
    from them, seeds, both with replacement; a cell counts as often as its trace was drawn times as often as its seed
    was (Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1, 2007). Cells of one trace and one seed are
    drawn one by one.
    """
    chance = np.random.default_rng(0)
    trace_names, trace = np.unique(np.array(traces), return_inverse=True)
    seed_names, seed = np.unique(np.array(seeds), return_inverse=True)
    if len(trace_names) == len(seed_names) == 1:
        means = logs[chance.integers(len(logs), size=(RESAMPLES, len(logs)))].mean(axis=1)
    else:
        sums, counts = (np.zeros((len(trace_names), len(seed_names))) for _ in range(2))
        np.add.at(sums, (trace, seed), logs)
        np.add.at(counts, (trace, seed), 1)
        of_traces, of_seeds = (
            chance.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
            for count in (len(trace_names), len(seed_names))
        )
        total, cells = (np.einsum("rt,ts,rs->r", of_traces, table, of_seeds) for table in (sums, counts))
        # A sample may have only seeds that its traces were not run with.
        means = total[cells > 0] / cells[cells > 0]
    low, high = np.exp(np.quantile(means, (0.025, 0.975)))
    return float(low), float(high)
