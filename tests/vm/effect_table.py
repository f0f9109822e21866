# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print the results of effect.sh as the tables of docs/results/dm-effect.md, in microseconds of the drives' time.

All rounds of a policy count as one sample. For virtual time the table also has the p99 that a measurement of a single
GC cycle would give, and how often it is above half of the primary's, over all pairs of cycles. The rows are written to
DIR/dm-effect.json.
"""

import argparse
import csv
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any

QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
COUNTS = ("reads", "failed", "revokes", "hedges", "target_reads")
TIMES = ["mean", "p50", "p95", "p99", "p99.9"]
HEAD = ["policy", *TIMES, "p99 / primary's", "hedged", "revoked", "p99 by round", "failed"]

Cells = Callable[[dict[str, Any], dict[str, Any]], list[str]]


def load(path: Path) -> list[dict[str, Any]]:
    """One row per line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def latencies(path: Path) -> list[int]:
    """The latencies of the reads that were answered."""
    with path.open() as lines:
        return [int(read["latency_ns"]) for read in csv.DictReader(lines) if int(read["result"]) > 0]


def merged(rounds: list[dict[str, Any]], reads: Path, scale: float) -> dict[str, Any]:
    """Merge the rows of a policy's rounds into one. Quantiles are exact, by nearest rank."""
    one = rounds[0]
    names = [f"{row['where']}.{row['policy']}.{row['round']}.csv" for row in rounds]
    ordered = sorted(ns for name in names for ns in latencies(reads / name))
    row = {key: one[key] for key in ("where", "policy")} | {key: sum(r[key] for r in rounds) for key in COUNTS}
    row["hedged"], row["revoked"] = row["hedges"] / row["reads"], row["revokes"] / row["reads"]
    row["mean_us"] = sum(ordered) / len(ordered) / 1000 / scale
    for key, share in QUANTILES.items():
        row[key] = ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1000 / scale
    row["p99_us_by_round"] = [r["p99_us"] / scale for r in rounds]
    return row


def line(cells: list[str]) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(cells) + " |")


def cells_of(row: dict[str, Any], primary: dict[str, Any]) -> list[str]:
    """The cells below HEAD, or below the head for virtual time, which has GC cycles instead of rounds."""
    times = [f"{row[key]:,.0f}" for key in ("mean_us", *QUANTILES)]
    ratio = f"{row['p99_us'] / primary['p99_us']:.2f}"
    shares = [f"{100 * row[key]:.1f} %" if row[key] else "-" for key in ("hedged", "revoked")]
    if "p99_us_by_round" in row:
        parts = [", ".join(f"{p99:,.0f}" for p99 in row["p99_us_by_round"])]
    else:
        cycles = row["p99_us_by_stretch"]
        pairs = [own > base / 2 for own in cycles for base in primary["p99_us_by_stretch"]]
        parts = [f"{min(cycles):,.0f}-{median(cycles):,.0f}-{max(cycles):,.0f}", f"{100 * mean(pairs):.0f} %"]
    return [row["policy"], *times, ratio, *shares, *parts, str(row["failed"])]


def print_table(head: list[str], rows: Iterable[list[str]]) -> None:
    """Print a table of these cells, and a blank line."""
    line(head)
    line(["---"] * len(head))
    for cells in rows:
        line(cells)
    print()


def print_places(rows: list[dict[str, Any]], kernel: str, head: list[str], cells: Cells) -> None:
    """Print a table for each place that was read; ``cells`` makes those of a row from it and the place's first row."""
    for where in dict.fromkeys(row["where"] for row in rows):
        here = [row for row in rows if row["where"] == where]
        print(f"{where}, Linux {kernel}, {here[0]['reads']:,} reads each:\n")
        print_table(head, [cells(row, here[0]) for row in here])


def a_row_a_line(out: dict[str, Any]) -> str:
    """JSON with one line per row of results."""
    fields = []
    for name, value in out.items():
        rows = ",\n".join(json.dumps(row) for row in value) if isinstance(value, list) else None
        fields.append(f"{json.dumps(name)}: " + (json.dumps(value) if rows is None else f"[\n{rows}\n]"))
    return "{\n" + ",\n".join(fields) + "\n}\n"


def main() -> int:
    """Print tables for the raw device, for each file system, and for virtual time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where effect.sh has left its results")
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--scale", type=float, required=True)
    args = parser.parse_args()
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in load(args.directory / "results.jsonl"):
        groups.setdefault((row["where"], row["policy"]), []).append(row)
    rows = [merged(rounds, args.directory / "reads", args.scale) for rounds in groups.values()]
    virtual = load(args.directory / "virtual.jsonl")
    for row in virtual:
        row |= {key: row[key] / args.scale for key in ("mean_us", *QUANTILES)}
        row["p99_us_by_stretch"] = [p99 / args.scale for p99 in row["p99_us_by_stretch"]]
    out = {"kernel": args.kernel, "time_scale": args.scale, "rows": rows, "virtual": virtual}
    (args.directory / "dm-effect.json").write_text(a_row_a_line(out))
    print_places(rows, args.kernel, HEAD, cells_of)
    print(f"Virtual time, {virtual[0]['reads']:,} reads each:\n")
    at = HEAD.index("p99 by round")
    head = [*HEAD[:at], "p99 of a GC cycle: lowest, median, highest", "above half", *HEAD[at + 1 :]]
    print_table(head, [cells_of(row, virtual[0]) for row in virtual])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
