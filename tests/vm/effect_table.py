# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print effect.sh's results as the table of docs/guide/dm-effect.md, in milliseconds of the slowed world."""

import argparse
import json
from pathlib import Path


def main() -> int:
    """One row per measurement; p99 also against the primary's on the same device or file system."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--scale", type=float, required=True)
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.results.read_text().splitlines()]
    primary = {row["where"]: row for row in rows if row["policy"] == "primary"}
    print(f"time slowed {args.scale:g} times; {rows[0]['reads']} reads each; milliseconds\n")
    print("| on | policy | mean | p50 | p95 | p99 | p99.9 | p99 / primary's | extra I/O | failed |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        times = " | ".join(f"{row[key] / 1000:.1f}" for key in ("mean_us", "p50_us", "p95_us", "p99_us", "p999_us"))
        ratio = row["p99_us"] / primary[row["where"]]["p99_us"]
        extra = f"{100 * row['extra_io']:.1f} %"
        print(f"| {row['where']} | {row['policy']} | {times} | {ratio:.2f} | {extra} | {row['failed']} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
