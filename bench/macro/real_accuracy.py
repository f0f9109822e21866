# SPDX-License-Identifier: MIT OR Apache-2.0
"""Accuracy on the traces that have latencies of real SSDs. No simulator: label, split by time, fit, evaluate.

    .venv/bin/python bench/macro/real_accuracy.py [--traces DIR] [--seed N] [--json]

The first half of each trace is for training, and the inflection point is found on it alone. The second half is for
testing, unfiltered.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from linnet import FitSettings, LearnError, Trace, fit
from recordings import add_traces, parse_or_skip

FILES = (
    "flashnet-nvme/tencent.cut.per_50k.most_rand_iops.537.trace.zst",
    "flashnet-nvme/tencent.cut.per_50k.rw_60_40.490.trace.zst",
    "flashnet-nvme/tencent.cut.per_50k.rw_75_25.379.trace.zst",
    "blktrace-satassd-hadoop/eternity9.sdb.DC.blkparse.txt.zst",
    "blktrace-nvme-ycsb/sample.blkparse.txt.zst",
)


def main() -> int:
    """Print one row for each trace and training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_traces(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=FitSettings.epochs)
    parser.add_argument("--json", action="store_true")
    args = parse_or_skip(parser)
    rows = []
    for file in FILES:
        name = "/".join((Path(file).parent.name, Path(file).name.removeprefix("tencent.cut.per_50k.").split(".")[0]))
        try:
            fitted = fit(
                [Trace.read(args.traces / file).named(name)],
                args.seed,
                FitSettings(epochs=args.epochs),
                unbiased=True,
            )
        except LearnError as error:
            print(f"skipped: {name}: {error}", file=sys.stderr)
            continue
        report = fitted[0].report
        for training in ("biased", "unbiased"):
            rows.append(
                {
                    "trace": name,
                    "training": training,
                    "inflection": report["inflection"],
                    **report[training],
                }
            )
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    print(
        "| trace | training | inflection | rows | always fast | accuracy | balanced | ROC-AUC | false submit "
        "| false revoke |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        point = f"p{r['inflection']['percentile']:.1f} = {r['inflection']['latency_us']:,.0f} us"
        shares = [f"{100 * r[k]:.1f} %" for k in ("base_rate", "accuracy", "balanced_accuracy")]
        errors = [f"{100 * r[k]:.2f} %" for k in ("false_submit", "false_revoke")]
        auc = "-" if r["roc_auc"] is None else f"{r['roc_auc']:.3f}"
        print(
            f"| {r['trace']} | {r['training']} | {point} | {r['rows']:,} | "
            + " | ".join([*shares, auc, *errors])
            + " |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
