# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables from the rows of `linnet study accuracy --everything --out FILE`.

    .venv/bin/python bench/macro/accuracy_tables.py FILE [--cells]

Prints Markdown: geometric means, cells in which linnet is worse, medians; with --cells a line per cell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from linnet.studies.grid import by_cell, enough, missed, ratio, summary
from linnet.studies.kept import kept_rows

MODELS = ("logistic", "trees", "linnos", "heimdall", "linnet")
CAP_US = 9999
"""The largest latency that LinnOS's digits hold. A device whose inflection point is above is overloaded: its history
reads 9999 throughout, and LinnOS sees little else."""

Cells = dict[tuple[Any, ...], dict[str, dict[str, Any]]]


def cell_name(key: tuple[Any, ...]) -> str:
    """Trace, preset and share."""
    trace, preset, share, _ = key
    return f"{trace} on {preset}, {share}" if preset else str(trace)


def auc(value: float | None) -> str:
    """Three digits, or a dash where one class is missing."""
    return "-" if value is None else f"{value:.3f}"


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def means(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """(1 - AUC) of linnet over that of others by group, then the same where LinnOS's digits hold the latencies."""
    head = ("cells", "counted", "/ LinnOS", "/ Heimdall", "/ trees", "Heimdall / LinnOS")
    for title, kept in (
        ("All cells", list(rows)),
        (f"Cells whose inflection point is at most {CAP_US:,} us", [r for r in rows if r["inflection_us"] <= CAP_US]),
    ):
        yield f"{title}:\n"
        yield "| group | " + " | ".join(head) + " |"
        yield "|---" * (len(head) + 1) + "|"
        for line in summary(kept):
            ratios = ["-" if value is None else f"{value:.2f}" for value in list(line.values())[3:]]
            yield f"| {line['group']} | {line['cells']} | {line['counted']} | " + " | ".join(ratios) + " |"
        yield ""


def behind(cells: Cells, theirs: str, by: float) -> Iterator[str]:
    """Cells in which linnet's AUC is below theirs by more than this."""
    yield "| cell | test reads | always fast | linnet | " + theirs + " | difference |"
    yield "|---|---|---|---|---|---|"
    found = [(cell[theirs]["roc_auc"] - cell["linnet"]["roc_auc"], key, cell) for key, cell in told(cells, theirs)]
    for gap, key, cell in sorted(found, key=lambda one: -one[0]):
        if gap > by:
            ours, other = cell["linnet"], cell[theirs]
            few = "" if enough(ours) else " (few)"
            yield (
                f"| {cell_name(key)}{few} | {ours['rows']:,} | {percent(ours['base_rate'])} | {auc(ours['roc_auc'])} "
                f"| {auc(other['roc_auc'])} | {gap:.3f} |"
            )


def told(cells: Cells, model: str) -> list[tuple[tuple[Any, ...], dict[str, dict[str, Any]]]]:
    """Cells in which both have an AUC."""
    return [
        (key, cell)
        for key, cell in cells.items()
        if all(name in cell and cell[name]["roc_auc"] is not None for name in ("linnet", model))
    ]


def middle(cells: Cells) -> Iterator[str]:
    """Medians of each model's figures over the simulated cells with reads enough."""
    keys = ("accuracy", "balanced_accuracy", "roc_auc", "false_submit", "false_revoke")
    yield "| median of simulated cells | accuracy | balanced | ROC-AUC | false submit | false revoke |"
    yield "|---|---|---|---|---|---|"
    kept = [cell for key, cell in cells.items() if key[1] is not None and enough(next(iter(cell.values())))]
    for name in ("always-fast", *MODELS):
        rows = [cell[name] for cell in kept if name in cell]
        shown = [float(np.median([row[key] for row in rows if row[key] is not None])) for key in keys]
        cell = [auc(value) if key == "roc_auc" else percent(value) for key, value in zip(keys, shown, strict=True)]
        yield f"| {name} | " + " | ".join(cell) + " |"


def every(cells: Cells) -> Iterator[str]:
    """A line for each cell: ROC-AUC of each model, and what it costs."""
    yield "| cell | inflection | test reads | always fast | " + " | ".join(MODELS) + " | / LinnOS |"
    yield "|---" * (5 + len(MODELS)) + "|"
    for key, cell in cells.items():
        if not all(name in cell for name in MODELS):
            continue
        ours = cell["linnet"]
        shown = " | ".join(auc(cell[name]["roc_auc"]) for name in MODELS)
        both = all(cell[name]["roc_auc"] is not None for name in ("linnet", "linnos"))
        least = f"{missed(ours) / missed(cell['linnos']):.2f}" if both else "-"
        few = "" if enough(ours) else " (few)"
        yield (
            f"| {cell_name(key)}{few} | p{ours['inflection_percentile']:.1f} {ours['inflection_us']:,.0f} us "
            f"| {ours['rows']:,} | {percent(ours['base_rate'])} | {shown} | {least} |"
        )


def real(cells: Cells) -> Iterator[str]:
    """Every figure of every model on the traces of real SSDs."""
    yield "| trace | model | test reads | always fast | accuracy | balanced | ROC-AUC | false submit | false revoke |"
    yield "|---" * 9 + "|"
    for key, cell in cells.items():
        for name in MODELS if key[1] is None else ():
            row = cell[name]
            rates = [percent(row[k]) for k in ("base_rate", "accuracy", "balanced_accuracy")]
            wrong = [percent(row[k]) for k in ("false_submit", "false_revoke")]
            yield f"| {key[0]} | {name} | {row['rows']:,} | " + " | ".join([*rates, auc(row["roc_auc"]), *wrong]) + " |"


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", action="store_true")
    args = parser.parse_args()
    rows = [row for row in kept_rows(args.file) if row["seed"] == args.seed]
    if not rows:
        print(f"{args.file}: no rows of seed {args.seed}", file=sys.stderr)
        return 1
    cells = by_cell(rows)
    parts: list[tuple[str, Iterator[str]]] = [
        ("Real SSDs", real(cells)),
        ("(1 - AUC) of linnet over that of others, geometric means", means(rows)),
        ("Medians", middle(cells)),
        ("Behind Heimdall", behind(cells, "heimdall", 0.0)),
        ("More than 0.02 behind scikit-learn's trees", behind(cells, "trees", 0.02)),
    ]
    if args.cells:
        parts.append(("Every cell, ROC-AUC", every(cells)))
    for title, lines in parts:
        print(f"## {title}\n")
        print("\n".join(lines) + "\n")
    simulated = [cell for key, cell in told(cells, "linnos") if key[1] is not None and enough(cell["linnet"])]
    print(f"{len(simulated)} simulated cells counted; median ratio to LinnOS ", end="")
    each = [missed(cell["linnet"]) / missed(cell["linnos"]) for cell in simulated]
    if each:
        print(f"{np.median(each):.2f}, geometric mean {ratio(simulated):.2f}, worst {max(each):.2f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
