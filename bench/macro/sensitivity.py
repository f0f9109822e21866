# SPDX-License-Identifier: MIT OR Apache-2.0
"""Inflection point, LinnOS's recall and ROC-AUC as the device-wide share of the SSD model goes from 0 to 1.

    .venv/bin/python bench/macro/sensitivity.py [--seeds N] [--figure FILE.svg] [--json]

Table 1 workloads through each preset (`linnet.studies.sensitivity.SWEPT`); one period is for training, another
for testing. The same seeds give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from linnet.studies.sensitivity import figure, markdown, sweep


def main() -> int:
    """Print one row for each preset, workload and share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 1 to this")
    parser.add_argument("--figure", type=Path, help="draw the rows as SVG")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.seeds < 1:
        parser.error("--seeds must be at least 1")
    seeds = range(1, args.seeds + 1)
    rows = sweep(
        seeds=seeds,
        told=lambda row: print(f"{row['preset']}, {row['workload']}, {row['share']}: done", file=sys.stderr),
    )
    if args.figure is not None:
        args.figure.write_text(figure(rows))
    print(json.dumps(rows, indent=1) if args.json else markdown(rows), end="" if not args.json else "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
