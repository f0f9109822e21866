# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of readahead_grid.py: medians of the runs, shares of the best static value and of the default."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

TUNERS = ("kml", "rule", "model")
SHIPPED = "as shipped"
"""The default value, and RocksDB's own advice RANDOM at open."""
COMPARED = (*TUNERS, SHIPPED)
ALLOWED = "What the device allows in the second half"
Cell = tuple[str, str, str]


def cells(runs: list[dict[str, str]], column: str) -> dict[Cell, dict[str, list[float]]]:
    """The runs of every cell (device, how, workload), by setting."""
    found: dict[Cell, dict[str, list[float]]] = {}
    for run in runs:
        cell = (run["device"], run["how"], run["workload"])
        found.setdefault(cell, {}).setdefault(run["setting"], []).append(float(run[column]))
    return found


def medians(cell: dict[str, list[float]]) -> dict[str, float]:
    """The median of each setting."""
    return {setting: statistics.median(values) for setting, values in cell.items()}


def oracle(by: dict[str, float]) -> tuple[str, float]:
    """The best static value, with the default among them. Of several rounds it is the one with the best median."""
    static = {name: ops for name, ops in by.items() if name not in COMPARED}
    name = max(static, key=lambda one: static[one])
    return name, static[name]


def spread(values: list[float]) -> str:
    """Half the range of a setting's runs, as a share of their median; empty where there is one run."""
    return f" ±{100 * (max(values) - min(values)) / 2 / statistics.median(values):.0f} %" if len(values) > 1 else ""


def _compared(runs: list[dict[str, str]]) -> tuple[str, ...]:
    """The columns: the tuners, and RocksDB as shipped where it was run."""
    return COMPARED if any(run["setting"] == SHIPPED for run in runs) else TUNERS


def _rows(runs: list[dict[str, str]], column: str) -> Iterator[str]:
    compared = _compared(runs)
    yield (
        "| device | read | workload | runs | default, ops/s | best static | "
        + " | ".join(f"{name}: of best, of default" for name in compared)
        + " |"
    )
    yield "|---|---|---|---|---|---|" + "---|" * len(compared)
    for (device, how, workload), cell in sorted(cells(runs, column).items()):
        by = medians(cell)
        if "default 128" not in by:
            continue
        name, best = oracle(by)
        base = by["default 128"]
        off = {setting: spread(values) for setting, values in cell.items()}
        shares = [f"{by[t] / best:.2f}, {by[t] / base:.2f}{off[t]}" if t in by else "not run" for t in compared]
        count = min(len(values) for values in cell.values())
        yield (
            f"| {device} | {how} | {workload} | {count} | {base:,.0f}{off['default 128']} | "
            f"{name.removeprefix('static ')}: {best:,.0f}{off[name]} | {' | '.join(shares)} |"
        )


def _summary(runs: list[dict[str, str]], column: str) -> Iterator[str]:
    yield "| setting | cells | of best static: least, median | 0.95 or more | of default: least | 0.97 or more |"
    yield "|---|---|---|---|---|---|"
    for tuner in _compared(runs):
        of_best, of_base = [], []
        for cell in cells(runs, column).values():
            by = medians(cell)
            if tuner in by and "default 128" in by:
                of_best.append(by[tuner] / oracle(by)[1])
                of_base.append(by[tuner] / by["default 128"])
        if of_best:
            yield (
                f"| {tuner} | {len(of_best)} | {min(of_best):.2f}, {statistics.median(of_best):.2f} | "
                f"{sum(one >= 0.95 for one in of_best)} | {min(of_base):.2f} | {sum(one >= 0.97 for one in of_base)} |"
            )


def table(runs: list[dict[str, str]]) -> str:
    """Whole runs; second halves, in which a tuner has decided; and what the device allows, which other work on the
    machine does not change."""
    text = ["Medians. ± is half the range of a setting's runs, as a share of their median.", ""]
    for column, title in (("ops", "Whole runs"), ("settled", "Second halves"), ("allowed_settled", ALLOWED)):
        text += [f"### {title}", "", *_summary(runs, column), "", *_rows(runs, column), ""]
    return "\n".join(text)
