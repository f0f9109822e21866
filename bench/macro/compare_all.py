# SPDX-License-Identifier: MIT OR Apache-2.0
"""The full comparison: every policy and the oracle, on Table 1 workloads and real traces, on both arrays.

    .venv/bin/python bench/macro/compare_all.py [--out DIR] [--traces DIR] [--seed N,N]

Writes compare.json (rows of each seed, and the models of the first; the same seeds give the same bytes) and compare.md
(the tables, of geometric means over the seeds), which is kept in bench/runs/DATE-MACHINE.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from linnet import _native
from linnet._native import Trace
from linnet.cli.output import percent
from linnet.experiment import Experiment, Setup, periods, share_of_gain
from recordings import add_traces

IOS = 300_000
"""I/Os of each period of a Table 1 workload, all three devices together; one period trains, one tests."""
MEAN_IOPS = {
    "az-c": 745,
    "bi-c": 361,
    "bs-c": 114,
    "co-c": 113,
    "az-e": 13_000,
    "bi-e": 2_400,
    "bs-e": 1_300,
    "co-e": 2_500,
}
ARRAYS = {"c": "consumer-deep", "e": "enterprise-wide"}
REAL = {
    "msnfs": ("msprod/msnfs.first90s.trace.zst", (1, 10)),
    "dtrs": ("msprod/dtrs.first200s.trace.zst", (1, 10)),
    "postmark": ("disksim-ssd/ssd-postmark-aligned2.trace.zst", (1, 4)),
    "hadoop": ("blktrace-satassd-hadoop/eternity9.sdb.DC.blkparse.txt.zst", (1,)),
    "tencent-rw6040": ("flashnet-nvme/tencent.cut.per_50k.rw_60_40.490.trace.zst", (1,)),
}
"""Real traces and the factors by which their I/O rate is multiplied."""
COLUMNS = ("mean_us", "p95_us", "p99_us", "p999_us", "p9999_us")
SHARES = ("extra_io_share", "false_submit", "false_revoke")


def experiments(traces: Path | None, base: Setup) -> Iterator[Experiment]:
    """Each experiment, ready to run."""
    for name in _native.workloads():
        setup = replace(base, preset=ARRAYS[name[-1]])
        train, test = periods(name, 2 * IOS / MEAN_IOPS[name] / 3, setup)
        yield Experiment(train, setup, name, test=test)
    if traces is None:
        return
    for name, (file, factors) in REAL.items():
        if not (traces / file).exists():
            print(f"skipped: {file} is not in {traces}", file=sys.stderr)
            continue
        trace = Trace.read(traces / file).named(name)
        for factor in factors:
            for preset in ARRAYS.values():
                yield Experiment([trace.rerate(factor)], replace(base, preset=preset), f"{name} x{factor}")


def over_seeds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each experiment and policy: geometric means of latencies, and means of shares, over the seeds."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["preset"], row["policy"]), []).append(row)
    return [
        own[0]
        | {name: geometric_mean(row[name] for row in own) for name in COLUMNS}
        | {name: sum(row[name] for row in own) / len(own) for name in SHARES}
        for own in groups.values()
    ]


def tables(rows: list[dict[str, Any]], models: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Markdown: all experiments together, one table for each, hedging against LinnOS+HL, inflection points."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in over_seeds(rows):
        groups.setdefault((row["trace"], row["preset"]), []).append(row)
    yield from together(list(groups.values()))
    yield "## Latency in us, and the gain on the mean as a share of the oracle's\n"
    for (trace, preset), group in groups.items():
        by = {r["policy"]: r for r in group}
        base, limit = by["baseline"], by["oracle"]
        yield f"### {trace} on 3 x {preset}: {base['reads']:,} reads\n"
        yield "| policy | mean | p95 | p99 | p99.9 | p99.99 | gain | extra I/O | false submit | false revoke |"
        yield "|---|---|---|---|---|---|---|---|---|---|"
        for r in group:
            cells = [f"{r[c]:,.0f}" for c in COLUMNS]
            gain = percent(share_of_gain(base["mean_us"], r["mean_us"], limit["mean_us"]), 0)
            errors = [f"{100 * r[k]:.2f} %" for k in SHARES]
            yield (f"| {r['policy']} | " + " | ".join([*cells, gain, *errors]) + " |")
        yield ""
    yield "## In short: mean, and p99 below it, in us\n"
    short = (
        "baseline",
        "hedge-p95",
        "hedge-ip",
        "heur-adv",
        "c3",
        "ewma-inflight",
        "linnos",
        "linnos+hl",
        "linnet-best",
        "oracle",
    )
    yield "| workload | array | " + " | ".join(short) + " |"
    yield "|---|---" + "|---" * len(short) + "|"
    for (trace, preset), group in groups.items():
        by = {r["policy"]: r for r in group}
        yield (f"| {trace} | {preset} | " + " | ".join(f"{by[p]['mean_us']:,.0f}" for p in short) + " |")
        yield "| | p99 | " + " | ".join(f"{by[p]['p99_us']:,.0f}" for p in short) + " |"
    yield "\n## LinnOS+HL against hedging at p95, on mean latency (the paper: 9.6 to 79.6 % lower)\n"
    yield "| workload | array | hedge-p95 mean us | linnos+hl mean us | lower by | best simple policy | its mean us |"
    yield "|---|---|---|---|---|---|---|"
    for (trace, preset), group in groups.items():
        by = {r["policy"]: r for r in group}
        hedge, ours = by["hedge-p95"]["mean_us"], by["linnos+hl"]["mean_us"]
        simple = min((by[p] for p in ("random", "shortest-queue", "ewma-inflight", "c3")), key=lambda r: r["mean_us"])
        yield (
            f"| {trace} | {preset} | {hedge:,.0f} | {ours:,.0f} | {100 * (1 - ours / hedge):.1f} % "
            f"| {simple['policy']} | {simple['mean_us']:,.0f} |"
        )
    yield "\n## Inflection points (the paper's Table 2: p72.0 to p98.5) and held-out accuracy of the biased model\n"
    yield (
        "| workload | array | device | inflection | us | rows | always fast | accuracy | balanced | ROC-AUC "
        "| false submit | false revoke |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for key, reports in models.items():
        trace, preset = key.split("|")
        for device, report in enumerate(reports):
            point, e = report["inflection"], report["biased"]
            auc = "-" if e["roc_auc"] is None else f"{e['roc_auc']:.3f}"
            shares = [f"{100 * e[k]:.1f} %" for k in ("base_rate", "accuracy", "balanced_accuracy")]
            errors = [f"{100 * e[k]:.2f} %" for k in ("false_submit", "false_revoke")]
            yield (
                f"| {trace} | {preset} | {device} | p{point['percentile']:.1f} | {point['latency_us']:,.0f} "
                f"| {e['rows']:,} | " + " | ".join([*shares, auc, *errors]) + " |"
            )


def together(groups: list[list[dict[str, Any]]]) -> Iterator[str]:
    """Geometric means over all experiments, relative to the baseline."""
    yield "## Geometric means over all experiments, relative to the baseline\n"
    yield "| policy | mean | p95 | p99 | p99.9 | p99.99 | extra I/O |"
    yield "|---|---|---|---|---|---|---|"
    found = [{row["policy"]: row for row in group} for group in groups]
    for policy in found[0]:
        cells = [f"{geometric_mean(by[policy][c] / by['baseline'][c] for by in found):.2f}" for c in COLUMNS]
        extra = sum(by[policy]["extra_io_share"] for by in found) / len(found)
        yield f"| {policy} | " + " | ".join([*cells, f"{100 * extra:.1f} %"]) + " |"
    yield ""


def merged(
    kept: Path, seeds: list[int], rows: list[dict[str, Any]], models: dict[str, list[dict[str, Any]]]
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """New rows in place of those of the same cell and policy, and the rest of an earlier run with these seeds.

    Rows of a policy that ran both times must agree: that shows that the other rows still hold. Without an earlier run
    there is nothing to keep.
    """
    if not kept.exists():
        return rows, models
    old = json.loads(kept.read_text())
    if old["seeds"] != seeds:
        raise SystemExit(f"{kept} has seeds {old['seeds']}, not {seeds}")
    new = {(r["seed"], r["trace"], r["preset"], r["policy"]): r for r in rows}
    for r in old["rows"]:
        again = new.get((r["seed"], r["trace"], r["preset"], r["policy"]))
        if again and r["policy"] in ("baseline", "oracle") and again["mean_us"] != r["mean_us"]:
            raise SystemExit(f"{r['trace']} on {r['preset']}: the {r['policy']} is not what it was; run every policy")
    order = {name: i for i, name in enumerate(_native.policies())}
    cells = list(dict.fromkeys((r["seed"], r["trace"], r["preset"]) for r in old["rows"]))
    found = {(r["seed"], r["trace"], r["preset"], r["policy"]): r for r in old["rows"]} | new
    kept_rows = sorted(
        found.values(), key=lambda r: (cells.index((r["seed"], r["trace"], r["preset"])), order[r["policy"]])
    )
    return kept_rows, old["models"] | models


def main() -> int:
    """Run everything and write the two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench/compare"))
    add_traces(parser)
    parser.add_argument("--seed", default="0", help="seeds of devices, periods and training, separated by commas")
    parser.add_argument("--share", type=float)
    parser.add_argument("--only", help="run only the experiments whose name begins with this")
    parser.add_argument(
        "--policy", help="run only these policies, separated by commas, and keep the other rows of --out"
    )
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    models: dict[str, list[dict[str, Any]]] = {}
    seeds = [int(seed) for seed in args.seed.split(",")]
    for seed in seeds:
        base = Setup(seed=seed, device_wide_share=args.share)
        for experiment in experiments(args.traces if args.traces.is_dir() else None, base):
            name, preset = experiment.name, experiment.setup.preset
            if args.only and not name.startswith(args.only):
                continue
            print(f"{name} on {preset}, seed {seed}", file=sys.stderr, flush=True)
            try:
                rows += [outcome.row for outcome in experiment.compare(args.policy and args.policy.split(","))]
            except _native.LearnError as error:
                print(f"skipped: {name} on {preset}, seed {seed}: {error}", file=sys.stderr)
                continue
            models.setdefault(f"{name}|{preset}", experiment.reports())
    args.out.mkdir(parents=True, exist_ok=True)
    if args.policy:
        rows, models = merged(args.out / "compare.json", seeds, rows, models)
    slim = {k: [{n: v for n, v in r.items() if n != "boost"} for r in reports if r] for k, reports in models.items()}
    (args.out / "compare.json").write_text(json.dumps({"seeds": seeds, "rows": rows, "models": slim}, indent=1) + "\n")
    head = f"# Comparison, seeds {args.seed}\n\nCommand: `{' '.join(['.venv/bin/python', *sys.argv])}`\n"
    (args.out / "compare.md").write_text("\n".join([head, *tables(rows, models)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
