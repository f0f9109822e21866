# SPDX-License-Identifier: MIT OR Apache-2.0
"""False revokes asked for and had: where the trees' score is cut, instead of at even odds.

A threshold of the score is the lowest at which the share of reads that are fast, and would be revoked, does not exceed
the share asked for on reads whose outcome is known. Which reads these are decides whether the rate holds later: on
reads that the trees were fitted to, slow and fast ones look easier to separate than they are on later reads.

What an application gains that sends a revoked read to the next replica is measured beside policies that choose among
the replicas at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet._native import Trace, inflight_rows
from linnet.experiment import Experiment, own_models
from linnet.learning import FitSettings, fit
from linnet.studies.worth import METRICS, interval

ASKED = (0.005, 0.01, 0.02, 0.05)
"""False revokes as shares of all reads."""
FITTED_ON = 0.375
"""Share of the reads that the trees are fitted to where later ones choose the threshold."""
TREE_ONE = 1024
"""What the trees count a logarithm of odds in (``LINNET_TREE_ONE`` of the core)."""
TRAINED_ON = 0.5
"""Share of the reads that are known; the rest is for testing."""
RULES = ("baseline", "ewma-inflight", "ewma-hedged", "linnet-best")
"""Policies without revokes, for comparison."""
TREES = "linnet+hl"
"""Asks the trees of one replica after another, and revokes what they call slow."""
NETWORK = "linnos"
"""The same with the network of LinnOS."""


def threshold_at(score: NDArray[np.int32], slow: NDArray[np.bool_], asked: float) -> int:
    """The lowest score above which at most ``asked`` of these reads are fast. A read above it would be revoked."""
    fast = np.sort(score[~slow])[::-1]
    most = int(asked * len(score))
    # Above the score of the fast read that comes next there are at most as many as allowed.
    return int(fast[most]) if most < len(fast) else int(score.min()) - 1


def figures(score: NDArray[np.int32], slow: NDArray[np.bool_], threshold: int) -> dict[str, float]:
    """Shares of all reads: fast and above the threshold, slow and not above it, above it."""
    above = score > threshold
    return {
        "false_revoke": float((above & ~slow).mean()),
        "false_submit": float((~above & slow).mean()),
        "revoked": float(above.mean()),
    }


def revoke_rates(trace: Trace, seed: int = 0, schema: str = "linnet-1") -> list[dict[str, Any]]:
    """Rates on the later half of a device's I/Os with latencies, for thresholds chosen on the earlier half.

    One row for even odds (``asked`` is ``None``), then one for each of :data:`ASKED` and each way to choose:
    ``fitted``, on the rows that the trees were fitted to, or ``later``, on the last quarter of the earlier half, which
    these trees have not seen. ``asked`` and the rates are shares of all reads; ``threshold`` is in natural log-odds.
    """
    # The rows below are those of the fits.
    trace = trace.without_ties(seed)
    rows: list[dict[str, Any]] = []
    for chosen_on, share in (("fitted", TRAINED_ON), ("later", FITTED_ON)):
        model = fit([trace], seed, FitSettings(epochs=1, train_share=share, schema=schema))[0].model
        features, slow, _ = inflight_rows(trace, model.inflection_ns, schema)
        score = model.scores(features)
        cut, known = round(share * len(score)), round(TRAINED_ON * len(score))
        held = slice(0, known) if chosen_on == "fitted" else slice(cut, known)
        if chosen_on == "fitted":
            rows.append({"chosen_on": None, "asked": None, "threshold": 0.0} | figures(score[known:], slow[known:], 0))
        for asked in ASKED:
            threshold = threshold_at(score[held], slow[held], asked)
            own = {"chosen_on": chosen_on, "asked": asked, "threshold": threshold / TREE_ONE}
            rows.append(own | figures(score[known:], slow[known:], threshold))
    return [{"trace": trace.name} | row for row in rows]


def latency_rows(experiment: Experiment, writes: str) -> list[dict[str, Any]]:
    """The rows of one cell: policies without revokes, then revokes by the network, and by the trees at each rate.

    A revoked read goes to the next replica, after the time that a revoke takes; no second copies are sent. ``revoked``
    counts revokes and ``false_revoke`` those of reads that would have been fast, as shares of all reads; ``unsteered``
    is the latter on the log of the same reads under the baseline, where nothing is revoked. Without a model for each
    drive there are no rows.
    """
    plain = experiment.setup
    runs = {outcome.row["policy"]: outcome.row for outcome in experiment.compare(RULES)}
    if None in experiment.fitted:
        return []
    runs[f"revoke, {NETWORK}"] = revoking(experiment, NETWORK)
    for asked in (None, *ASKED):
        if asked is not None:
            experiment.setup = replace(plain, fit=replace(plain.fit, epochs=1, false_revoke=asked))
            experiment.learn()
        row = revoking(experiment, TREES) | {"unsteered": unsteered(experiment)}
        runs[f"revoke, {'even odds' if asked is None else f'{100 * asked:g} %'}"] = row
    cell = {"trace": experiment.name, "preset": plain.preset, "writes": writes, "seed": plain.seed}
    figures = (*METRICS, "p50_us", "false_revoke", "unsteered", "revoked", "extra_io_share")
    return [cell | {"policy": name} | {figure: row.get(figure) for figure in figures} for name, row in runs.items()]


def revoking(experiment: Experiment, policy: str) -> dict[str, Any]:
    """The row of a policy that revokes, without its second copies."""
    settings = experiment.run_settings() | {"hedges": False}
    row = experiment.array.run(experiment.run_part, policy, experiment.models(), **settings).row()
    return row | {"revoked": row["revokes"] / max(row["reads"], 1)}


def unsteered(experiment: Experiment) -> float:
    """False revokes as a share of the reads of the test part, by each drive's trees on the baseline's log of it."""
    own = [report["linnet"] for report in own_models(experiment.reports()).values()]
    return float(np.average([one["false_revoke"] for one in own], weights=[one["rows"] for one in own]))


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each policy: geometric means of its latencies as multiples of the baseline's, with their 95 % intervals.

    ``false_revoke``, ``unsteered`` and ``revoked`` are means over the cells that have them.
    """
    cells = ("trace", "preset", "writes", "seed", "load")
    of = {tuple(row.get(name) for name in cells): row for row in rows if row["policy"] == RULES[0]}
    lines = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        line: dict[str, Any] = {"policy": policy, "cells": len(own)}
        for metric in METRICS:
            logs = np.log([row[metric] / of[tuple(row.get(name) for name in cells)][metric] for row in own])
            line[metric.removesuffix("_us")] = float(np.exp(logs.mean()))
            line[f"{metric.removesuffix('_us')} low95, high95"] = interval(
                logs, [row["trace"] for row in own], [row["seed"] for row in own]
            )
        for share in ("revoked", "false_revoke", "unsteered"):
            known = [row[share] for row in own if row[share] is not None]
            line[share] = float(np.mean(known)) if known else None
        lines.append(line)
    return lines
