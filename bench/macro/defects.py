# SPDX-License-Identifier: MIT OR Apache-2.0
"""What each published defect does to the figures that LinnOS and Heimdall would report, on traces of real SSDs.

    .venv/bin/python bench/macro/defects.py [--traces DIR] [--max-reads N] [--seed N] [--json]

Each row has one defect; the last row has all that apply to the model. Heimdall is tested by its own labels here, as
published. The row "none" is the same model without defects.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from linnet._native import Trace
from linnet.studies.accuracy import accuracy
from linnet.studies.grid import MAX_READS, REAL_SSD, first_reads
from recordings import add_traces, parse_or_skip

BOTH = ("random-split", "threshold-over-all", "hard-auc")
OF = {
    "heimdall": (*BOTH, "test-filtered", "look-ahead", "queue-by-submit"),
    "linnos": (*BOTH, "serving-reads-only", "snapshot-at-completion", "serving-without-self", "millisecond-times"),
}
"""Published defects of each model (``crates/study/src/defects.rs`` says what they are)."""


def cases(model: str) -> list[tuple[str, tuple[str, ...]]]:
    """Names and defects of the rows of one model."""
    return [("none", ()), *((name, (name,)) for name in OF[model]), ("all of them", OF[model])]


def main() -> int:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_traces(parser)
    parser.add_argument("--max-reads", type=int, default=MAX_READS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parse_or_skip(parser)
    read = {name: Trace.read(args.traces / file).named(name) for name, file in REAL_SSD.items()}
    traces = [first_reads(trace, args.max_reads).named(name) for name, trace in read.items()]
    rows: list[dict[str, Any]] = []
    for model in OF:
        for case, defects in cases(model):
            for trace in traces:
                row = accuracy(trace, [model], args.seed, defects=defects)[0]
                rows.append({"case": case} | row)
            print(f"{model}: {case}", file=sys.stderr, flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    print(tables(rows))
    return 0


def tables(rows: list[dict[str, Any]]) -> str:
    """ROC-AUC and accuracy of each case on each trace, and their means."""
    lines: list[str] = []
    for model in OF:
        prefix = "own_" if model == "heimdall" else ""
        lines += [f"\n### {model}\n", "| defect | " + " | ".join(REAL_SSD) + " | mean |"]
        lines.append("|---" * (len(REAL_SSD) + 2) + "|")
        for case, _ in cases(model):
            found = [row for row in rows if (row["model"], row["case"]) == (model, case)]
            aucs, rights = ([row[prefix + key] for row in found] for key in ("roc_auc", "accuracy"))
            pairs = [*zip(aucs, rights, strict=True), (sum(aucs) / len(aucs), sum(rights) / len(rights))]
            lines.append(f"| {case} | " + " | ".join(f"{auc:.3f}, {100 * right:.1f} %" for auc, right in pairs) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
