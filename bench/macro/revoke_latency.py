# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read latencies of applications that revoke, by the rate of false revokes that the trees were fitted for.

    .venv/bin/python bench/macro/revoke_latency.py [--traces DIR] [--cells N] [--ios N] [--keep ROWS.jsonl] [--json]

Cells are drawn from the grid of ``linnet study worth``; a read that is revoked goes to the next replica.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from linnet.cli.output import Bars, warn
from linnet.learning import FitSettings
from linnet.studies.cli.options import read_source
from linnet.studies.informed import sample
from linnet.studies.revokes import latency_rows, summary
from linnet.studies.worth import METRICS
from linnet.studies.worth_grid import SourceTraces, changed, every_cell, run_cells
from recordings import add_traces, parse_or_skip

NAMES = [metric.removesuffix("_us") for metric in METRICS]


def percent(share: float | None) -> str:
    """A share in percent; a dash for none."""
    return "-" if share is None else f"{100 * share:.1f} %"


def table_of(title: str, rows: list[dict[str, Any]]) -> list[str]:
    """A summary as a table in Markdown."""
    lines = [
        f"\n## {title}\n",
        f"| policy | cells | {' | '.join(NAMES)} | 95 % intervals | revoked | false revokes | unsteered |",
    ]
    lines.append("|---" * (len(NAMES) + 6) + "|")
    for line in summary(rows):
        figures = " | ".join(f"{line[name]:.3f}" for name in NAMES)
        ranges = "; ".join("{:.3f} to {:.3f}".format(*line[f"{name} low95, high95"]) for name in NAMES)
        shares = " | ".join(percent(line[name]) for name in ("revoked", "false_revoke", "unsteered"))
        lines.append(f"| {line['policy']} | {line['cells']} | {figures} | {ranges} | {shares} |")
    return lines


def main() -> int:
    """Run the cells that are missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_traces(parser)
    parser.add_argument("--cells", type=int, default=60, help="cells of the grid, drawn at random")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--ios", type=int, default=12_000, help="I/Os of each period, all devices together")
    parser.add_argument("--keep", type=Path, help="rows are appended to it; a run that was stopped continues there")
    parser.add_argument("--json", action="store_true")
    args = parse_or_skip(parser)
    grid, lacking = every_cell(args.traces, args.seeds, True, args.ios)
    for file in lacking:
        warn(f"{args.traces / file} does not exist and is left out of the grid")
    # The network is compared, too, so it is trained as long as by default.
    cells = changed(sample(grid, args.cells), fit=FitSettings())
    with Bars() as bars:
        rows = run_cells(cells, SourceTraces(read_source), bars, args.keep, warn, latency_rows)
    if args.json:
        print(json.dumps({"rows": rows, "summary": summary(rows)}, indent=1))
        return 0
    parts = {"All cells": rows}
    parts["Arrays of equal drives"] = [row for row in rows if "," not in row["preset"]]
    parts["Arrays of different drives"] = [row for row in rows if "," in row["preset"]]
    parts |= {f"Load: {load}": [row for row in rows if row["load"] == load] for load in ("light", "busy", "over")}
    print("\n".join(line for title, part in parts.items() if part for line in table_of(title, part)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
