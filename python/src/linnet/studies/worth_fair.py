# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fair rivals of what learns: the best rule that could have been fixed in advance, and what hindsight adds to a rival.

The best of many rules in a cell is partly the luckiest one. How much is found by choosing on some seeds and judging on
others: the seeds of each combination of trace, array, load and writes are divided into two halves, in turn, and the
rule for a cell is chosen on the half that the cell is not in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linnet.studies.worth import EXPECTED, OURS, summary

Row = dict[str, Any]


class Rivals(NamedTuple):
    """The cells of one metric that have the figures of all rules."""

    names: list[str]
    """The rules."""
    log_us: NDArray[np.float64]
    """Logarithm of each rule's latency, shape (cells, rules)."""
    own: list[Row]
    """The rows, one for each cell."""
    half: NDArray[np.int64]
    """Which half of the seeds of its combination a cell is in."""
    combination: NDArray[np.int64]
    """Number of its combination."""


def rivals(rows: Sequence[Row], metric: str) -> Rivals | None:
    """The cells of a metric that can be compared: those of combinations with at least two seeds."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["metric"] == metric and row.get("rules_us"):
            key = (row["trace"], row["preset"], row.get("load"), row.get("asked_rate"), row["writes"])
            groups.setdefault(key, []).append(row)
    kept = [sorted(own, key=lambda row: row["seed"]) for own in groups.values() if len(own) > 1]
    if not kept:
        return None
    own = [row for group in kept for row in group]
    names = [name for name in own[0]["rules_us"] if all(name in row["rules_us"] for row in own)]
    table = [[max(row["rules_us"][name], 1e-3) for name in names] for row in own]
    half = [place % 2 for group in kept for place in range(len(group))]
    combination = [number for number, group in enumerate(kept) for _ in group]
    return Rivals(names, np.log(np.array(table)), own, np.array(half), np.array(combination))


def best_of(given: Rivals, cells: NDArray[np.bool_]) -> int:
    """The rule with the lowest geometric mean over these cells.

    Cells differ by orders of magnitude, rules within a cell do not: in a mean of logarithms each cell weighs the same.
    """
    return int(given.log_us[cells].mean(axis=0).argmin())


def of_combination(given: Rivals) -> NDArray[np.int64]:
    """The rule for each cell, chosen on the other half of the seeds of its combination."""
    chosen = np.zeros(len(given.own), dtype=np.int64)
    for number in np.unique(given.combination):
        for half in (0, 1):
            same = given.combination == number
            chosen[same & (given.half == half)] = best_of(given, same & (given.half != half))
    return chosen


def single(given: Rivals) -> NDArray[np.int64]:
    """The rule for each cell, chosen on the other half of the seeds of all other traces; of its own if it has none."""
    traces = np.array([row["trace"] for row in given.own])
    chosen = np.zeros(len(given.own), dtype=np.int64)
    for trace in np.unique(traces):
        others = traces != trace
        for half in (0, 1):
            apart = given.half != half
            chosen[(traces == trace) & ~apart] = best_of(given, apart & others if others.any() else apart)
    return chosen


def fair(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What learns against rivals that hindsight does not favour, and hindsight itself, for each metric.

    ``rival`` is ``hindsight``, the best rule of each cell after the fact; ``combination``, the rule chosen on other
    seeds of the same trace, array and load; ``single``, one rule chosen on other seeds of all other traces.
    ``ratio_geomean`` is the latency of ``policy``, linnet-best or linnet-expected, over the rival's, paired by cell,
    with its bootstrap interval over traces and cells. ``hindsight_geomean`` is the rival's latency over that of the
    best rule of its cell: for ``combination`` the winner's noise of hindsight. ``rules`` counts the rules taken.
    """
    lines: list[dict[str, Any]] = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        given = rivals(rows, metric)
        if given is None:
            continue
        best = given.log_us.argmin(axis=1)
        kinds = {
            "hindsight": best,
            "combination": of_combination(given),
            "single": single(given),
        }
        cells = np.arange(len(given.own))
        learned = {OURS: "learned_us", EXPECTED: "expected_us"}
        for policy, column in learned.items():
            if any(column not in row for row in given.own):
                continue
            own = np.log([max(row[column], 1e-3) for row in given.own])
            for kind, chosen in kinds.items():
                rival = given.log_us[cells, chosen]
                ratios = np.exp(own - rival)
                paired = [row | {"ratio": float(ratio)} for row, ratio in zip(given.own, ratios, strict=True)]
                names, counts = np.unique(np.array(given.names)[chosen], return_counts=True)
                order = np.argsort(-counts, kind="stable")
                lines.append(
                    summary(paired)[0]
                    | {
                        "policy": policy,
                        "rival": kind,
                        "hindsight_geomean": float(np.exp((rival - given.log_us[cells, best]).mean())),
                        "rules": {str(names[k]): int(counts[k]) for k in order},
                    }
                )
    return lines
