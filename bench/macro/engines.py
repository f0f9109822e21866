# SPDX-License-Identifier: MIT OR Apache-2.0
"""Does the ranking of the policies survive a change of the SSD model?

    .venv/bin/python bench/macro/engines.py [--out DIR] [--traces DIR] [--ios N] [--seeds 0,1]

Each Table 1 workload and five real traces run under every policy on the timeline engine and on the queued engine, whose
rules are MQSim's, with the same layout and times and with garbage collection on. Policies are ranked by mean, p99 and
p99.9 on each engine; Spearman's rank correlation says how similar the two orders are. The oracle is left out, because
answers of the queued engine cannot be known in advance. Writes engines.md and engines.json; cells that are already in
there are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from compare_all import ARRAYS, MEAN_IOPS, REAL
from linnet import _native
from linnet._native import Trace
from linnet.experiment import Experiment, Setup, periods
from recordings import add_traces

METRICS = ("mean_us", "p99_us", "p999_us")
POLICIES = tuple(name for name in _native.policies() if name != "oracle")
RECORDS = {"hadoop": 200_000}
"""How many of a real trace's first records run, 30,000 unless said here: Hadoop's first reads come late."""


def cells(traces: Path | None, ios: int, seed: int) -> Iterator[tuple[str, str, Experiment, Experiment]]:
    """Name, array, and the experiment on either engine, on the same I/Os."""
    for name in _native.workloads():
        setup = Setup(preset=ARRAYS[name[-1]], seed=seed)
        train, test = periods(name, 2 * ios / MEAN_IOPS[name] / 3, setup)
        queued = replace(setup, preset=f"{setup.preset}-queued")
        yield name, setup.preset, Experiment(train, setup, name, test=test), Experiment(train, queued, name, test=test)
    for name, (file, factors) in REAL.items() if traces else ():
        trace = Trace.read(traces / file).named(name)
        if len(trace) > RECORDS.get(name, 30_000):
            trace = trace.split(RECORDS.get(name, 30_000) / len(trace))[0]
        trace = trace.rerate(factors[-1])
        setup = Setup(preset="consumer-deep", seed=seed)
        queued = replace(setup, preset="consumer-deep-queued")
        label = f"{name} x{factors[-1]}"
        yield label, setup.preset, Experiment([trace], setup, label), Experiment([trace], queued, label)


def ranks(values: Iterable[float]) -> list[float]:
    """1 for the least; equal values share the mean of their ranks."""
    given = list(values)
    return [sum(v < own for v in given) + (sum(v == own for v in given) + 1) / 2 for own in given]


def spearman(a: Iterable[float], b: Iterable[float]) -> float:
    """Rank correlation; 0 where one of the two is all ties."""
    x, y = ranks(a), ranks(b)
    mean = (len(x) + 1) / 2
    spread = math.sqrt(sum((i - mean) ** 2 for i in x) * sum((j - mean) ** 2 for j in y))
    return sum((i - mean) * (j - mean) for i, j in zip(x, y, strict=True)) / spread if spread else 0.0


def row_of(name: str, preset: str, seed: int, experiments: tuple[Experiment, Experiment]) -> dict[str, Any]:
    """Both engines' figures of one cell."""
    begun = time.process_time()
    by_engine = []
    for experiment in experiments:
        experiment.learn()
        by_engine.append({o.row["policy"]: o.row for o in experiment.compare(POLICIES)})
    gc = by_engine[1]["baseline"]
    return {
        "trace": name,
        "preset": preset,
        "seed": seed,
        "reads": gc["reads"],
        "waf": gc["waf"],
        "reads_behind_gc": gc["reads_behind_gc"],
        "cpu_s": round(time.process_time() - begun, 1),
        "timeline": {p: {m: by_engine[0][p][m] for m in METRICS} for p in POLICIES},
        "queued": {p: {m: by_engine[1][p][m] for m in METRICS} for p in POLICIES},
    }


def order(row: dict[str, Any], engine: str, metric: str) -> list[float]:
    """The policies' figures on one engine."""
    return [row[engine][p][metric] for p in POLICIES]


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown: one line a cell, then the policies over all cells."""
    yield (
        "Rank correlation of the policies between the two engines (1: the same order), and the first policy on the "
        "timeline / queued engine.\n"
    )
    yield "| workload | array | seed | reads | WAF | behind GC | mean | p99 | p99.9 | first by mean | first by p99.9 |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        alike = [f"{spearman(order(row, 'timeline', m), order(row, 'queued', m)):.2f}" for m in METRICS]
        first = [
            " / ".join(min(POLICIES, key=lambda p, e=e, m=m: row[e][p][m]) for e in ("timeline", "queued"))
            for m in ("mean_us", "p999_us")
        ]
        behind = 100 * row["reads_behind_gc"] / max(row["reads"], 1)
        head = [
            row["trace"],
            row["preset"],
            str(row["seed"]),
            f"{row['reads']:,}",
            f"{row['waf']:.2f}",
            f"{behind:.1f} %",
        ]
        yield "| " + " | ".join(head + alike + first) + " |"
    yield "\nLatency relative to the baseline, geometric mean over the cells, with the rank in brackets.\n"
    yield "| policy | mean, timeline | queued | p99, timeline | queued | p99.9, timeline | queued |"
    yield "|---|---|---|---|---|---|---|"
    share = {
        (e, m): [geometric_mean(r[e][p][m] / r[e]["baseline"][m] for r in rows) for p in POLICIES]
        for e in ("timeline", "queued")
        for m in METRICS
    }
    rank = {key: ranks(values) for key, values in share.items()}
    for i, policy in enumerate(POLICIES):
        columns = [f"{share[e, m][i]:.3f} ({rank[e, m][i]:.0f})" for m in METRICS for e in ("timeline", "queued")]
        yield f"| {policy} | " + " | ".join(columns) + " |"
    alike = ", ".join(f"{m[:-3]} {spearman(share['timeline', m], share['queued', m]):.2f}" for m in METRICS)
    yield f"\nRank correlation of these orders: {alike}."


def main() -> int:
    """Run every cell and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench/engines"))
    add_traces(parser)
    parser.add_argument("--ios", type=int, default=30_000, help="I/Os of each period of a Table 1 workload")
    parser.add_argument("--seeds", default="0")
    args = parser.parse_args()
    kept = args.out / "engines.json"
    rows = json.loads(kept.read_text()) if kept.exists() else []
    there = {(row["trace"], row["seed"]) for row in rows}
    args.out.mkdir(parents=True, exist_ok=True)
    for seed in map(int, args.seeds.split(",")):
        for name, preset, *pair in cells(args.traces, args.ios, seed):
            if (name, seed) in there:
                continue
            rows.append(row_of(name, preset, seed, (pair[0], pair[1])))
            print(f"{name} on {preset}, seed {seed}: {rows[-1]['cpu_s']} s", flush=True)
            kept.write_text(json.dumps(rows, indent=1) + "\n")
            (args.out / "engines.md").write_text("\n".join(tables(rows)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
