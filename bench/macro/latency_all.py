# SPDX-License-Identifier: MIT OR Apache-2.0
"""Latency of policies on every Table 1 workload and real trace across device-wide shares.

    .venv/bin/python bench/macro/latency_all.py [--out DIR] [--ios N] [--share 0.75,0.9] [--seed 0,1] [--limit]

Gains over the baseline are given as a share of what the oracle gains; --limit adds an estimate of what any predictor
could gain. Writes latency.json and latency.md, which is kept in bench/runs/DATE-MACHINE. Finished rows are in
latency.jsonl, so that a run that was stopped continues there.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import compare_all
from linnet import _native
from linnet.experiment import Setup
from linnet.studies.latency import limit, summary, with_ways
from recordings import add_traces

POLICIES = (
    "baseline",
    "shortest-queue",
    "ewma-inflight",
    "ewma-hedged",
    "c3",
    "hedge-p95",
    "linnos+hl",
    "linnet-best",
    "linnet+hl",
    "oracle",
)


def percent(part: float | None) -> str:
    """A share in percent; a dash for none."""
    return "-" if part is None else f"{100 * part:.0f} %"


def markdown(rows: list[dict[str, Any]], parts: dict[str, list[dict[str, Any]]]) -> str:
    """Summaries of each part, then linnet-best in every cell."""
    lines = []
    for title, part in parts.items():
        if not part:
            continue
        lines += [
            f"\n## {title}\n",
            "| policy | mean | p99 | p99.9 | gain, mean | gain, p99 | gain, p99.9 | highest extra I/O |",
        ]
        lines.append("|---" * 8 + "|")
        for s in summary(part):
            ways = " | ".join(percent(s[k]) for k in ("way_mean", "way_p99", "way_p999"))
            values = " | ".join(f"{s[k]:.3f}" for k in ("mean", "p99", "p999"))
            lines.append(f"| {s['policy']} | {values} | {ways} | {100 * s['extra_io_share']:.1f} % |")
    lines += ["\n## linnet-best in each cell: share of the possible gain, and the limit\n"]
    keys = ("way_mean", "way_p999", "step_mean", "step_p999", "limit_mean", "limit_p999")
    names = [key.replace("way_", "gain_") for key in keys]
    lines.append("| workload | array | share | seed | reads | " + " | ".join(names) + " |")
    lines.append("|---" * (5 + len(keys)) + "|")
    for r in rows:
        if r["policy"] == "linnet-best":
            cells = " | ".join(percent(r.get(k)) for k in keys)
            lines.append(f"| {r['trace']} | {r['preset']} | {r['share']} | {r['seed']} | {r['reads']:,} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run every cell that is missing and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench/latency"))
    add_traces(parser)
    parser.add_argument("--seed", default="0", help="seeds of devices, periods and training; rows of each")
    parser.add_argument("--share", default="0.75,0.9,0.5,0.25")
    parser.add_argument("--ios", type=int, default=compare_all.IOS, help="I/Os of each period of a Table 1 workload")
    parser.add_argument("--limit", action="store_true")
    args = parser.parse_args()
    compare_all.IOS = args.ios
    args.out.mkdir(parents=True, exist_ok=True)
    kept = args.out / "latency.jsonl"
    rows: list[dict[str, Any]] = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(r["seed"], r["share"], r["trace"], r["preset"]) for r in rows}
    traces = args.traces if args.traces.is_dir() else None
    seeds = [int(part) for part in args.seed.split(",")]
    for seed, share in product(seeds, [float(part) for part in args.share.split(",")]):
        for experiment in compare_all.experiments(traces, Setup(seed=seed, device_wide_share=share)):
            key = (seed, share, experiment.name, experiment.setup.preset)
            if key in done:
                continue
            print(*key, file=sys.stderr, flush=True)
            try:
                own = with_ways([{"share": share} | o.row for o in experiment.compare(POLICIES)])
                if args.limit:
                    own[POLICIES.index("linnet-best")] |= limit(experiment, seed=seed)
            except _native.LearnError as error:
                print(f"skipped: {key}: {error}", file=sys.stderr)
                continue
            rows += own
            with kept.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in own)
    table1 = set(_native.workloads())
    shares = sorted({r["share"] for r in rows})
    upper = [r for r in rows if r["share"] >= 0.75]
    parts = {"All rows": rows, "Rows at share 0.75 and above": upper}
    parts["Table 1 workloads, 0.75 and above"] = [r for r in upper if r["trace"] in table1]
    parts["Real traces, 0.75 and above"] = [r for r in upper if r["trace"] not in table1]
    parts |= {f"Share {share}": [r for r in rows if r["share"] == share] for share in shares}
    if len(seeds) > 1:
        parts |= {f"Seed {seed}, 0.75 and above": [r for r in upper if r["seed"] == seed] for seed in seeds}
    head = f"# Latency across shares, seed {args.seed}\n\nCommand: `{' '.join(['.venv/bin/python', *sys.argv])}`\n"
    (args.out / "latency.md").write_text(head + markdown(rows, parts))
    (args.out / "latency.json").write_text(json.dumps({"seeds": seeds, "ios": args.ios, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
