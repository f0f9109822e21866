# SPDX-License-Identifier: MIT OR Apache-2.0
"""Predicted latency quantiles: how good they are, and whether they hold.

    .venv/bin/python bench/macro/quantiles.py [--traces DIR] [--seed N] [--json]

The first half of each trace is for training, the second for testing, unfiltered. The model's table is compared with a
constant prediction (the quantiles of the training half) and with scikit-learn's boosted trees on the quantile loss, on
the same sixteen features, one ensemble per quantile, as a ceiling. Loss is the mean pinball loss relative to that of
the constant prediction. Within is the share of reads that took no longer than predicted.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from linnet import FitSettings, Trace, fit
from linnet._native import Array, inflight_rows, synth
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

sys.path.insert(0, str(Path(__file__).parent))
from real_accuracy import FILES
from recordings import add_traces

SHARES = np.array([0.5, 0.9, 0.95, 0.99, 0.999])
SIMULATED = (
    ("az-e", "enterprise-wide", 0.75, 20.0),
    ("az-c", "consumer-deep", 0.5, 200.0),
    ("bs-c", "consumer-deep", 0.75, 200.0),
    ("co-e", "enterprise-wide", 0.9, 20.0),
)


def recorded(folder: Path) -> list[Trace]:
    """The traces with latencies of real SSDs."""
    return [Trace.read(folder / file).named(file.removesuffix(".zst").split("per_50k.")[-1]) for file in FILES]


def simulated(seed: int) -> list[Trace]:
    """What the first of three modelled drives answers under the baseline policy."""
    traces = []
    for workload, preset, share, seconds in SIMULATED:
        array = Array(preset, 3, seed, share)
        log = array.run(synth(workload, seconds, 3, seed), "baseline", [], log=True).logs()[0]
        traces.append(log.named(f"{workload} on {preset}, share {share}"))
    return traces


def quantiles(latency_ns: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Nearest-rank quantiles."""
    ordered = np.sort(latency_ns)
    return ordered[np.ceil(SHARES * len(ordered)).astype(int) - 1].astype(float)


def losses(latency_ns: NDArray[np.uint64], told: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean pinball loss of each quantile."""
    missed = latency_ns[:, None].astype(float) - told
    return np.where(missed > 0, SHARES * missed, (SHARES - 1) * missed).mean(axis=0)


def boosted(features: NDArray[np.uint8], latency_ns: NDArray[np.uint64], seed: int, later: NDArray[np.uint8]) -> Any:
    """Scikit-learn's boosting, one ensemble for each quantile, on log latency; crossings are sorted out."""
    told = []
    for share in SHARES:
        model = HistGradientBoostingRegressor(loss="quantile", quantile=share, random_state=seed)
        told.append(np.exp(model.fit(features, np.log(latency_ns + 1.0)).predict(later)))
    return np.sort(np.array(told).T, axis=1)


def rows_of(trace: Trace, seed: int) -> list[dict[str, Any]]:
    """One row per kind of prediction."""
    # The rows below are those of the fit.
    trace = trace.without_ties(seed)
    model = fit([trace], seed, FitSettings())[0].model
    features, _, latency_ns = inflight_rows(trace, model.inflection_ns)
    cut = round(len(features) / 2)
    later, took = features[cut:], latency_ns[cut:]
    predictions = {
        "constant": np.tile(quantiles(latency_ns[:cut]), (len(took), 1)),
        "table": model.predict_latency(later).astype(float),
        "boosted": boosted(features[:cut], latency_ns[:cut], seed, later),
    }
    base = losses(took, predictions["constant"])
    return [
        {
            "trace": trace.name,
            "prediction": name,
            "rows": len(took),
            "loss": (losses(took, told) / base).tolist(),
            "within": (took[:, None] <= told).mean(axis=0).tolist(),
        }
        for name, told in predictions.items()
    ]


def main() -> int:
    """Print one row per trace and prediction, then the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_traces(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    groups = {"simulated": simulated(args.seed)}
    if args.traces.is_dir():
        groups = {"real": recorded(args.traces)} | groups
    else:
        print(f"skipped: no directory {args.traces}; simulated rows only", file=sys.stderr)
    rows = [{"group": group} | row for group, traces in groups.items() for t in traces for row in rows_of(t, args.seed)]
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    names = [f"p{100 * share:g}" for share in SHARES]
    heads = [f"{what} {name}" for what in ("loss", "within") for name in names]
    print(f"| trace | prediction | reads | {' | '.join(heads)} |")
    print("|---" * (3 + 2 * len(names)) + "|")
    for row in rows:
        cells = [f"{x:.2f}" for x in row["loss"]] + [f"{100 * x:.1f} %" for x in row["within"]]
        print(f"| {row['trace']} | {row['prediction']} | {row['rows']:,} | {' | '.join(cells)} |")
    for group in groups:
        for name in ("constant", "table", "boosted"):
            own = [row for row in rows if (row["group"], row["prediction"]) == (group, name)]
            loss = np.exp(np.mean(np.log([row["loss"] for row in own]), axis=0))
            off = np.mean(np.abs(np.array([row["within"] for row in own]) - SHARES), axis=0)
            cells = [f"{x:.2f}" for x in loss] + [f"{100 * x:.1f}" for x in off]
            print(f"| {group}: geometric mean; points off | {name} | | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
