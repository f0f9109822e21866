# SPDX-License-Identifier: MIT OR Apache-2.0
"""R2 and normalised MAE of forests on simulated co-location: the gray-box features against the weighted mean.

``place_simulated.py TABLE.csv ... [--metric M ...] [--train-rows N] [--seeds N]`` reads tables of `linnet place label`
and prints a JSON line for each table, split, metric and model. Splits: `random` rows (the paper's 75/25, in which rows
of one run are on both sides), `by-run`, `unseen-workload` (no tenant of a test row is in a training run as the tenant
whose metric is learned; neighbours may be), and `few-to-many` (2 to 8 tenants train, 9 to 16 test).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from linnet.place.words import FEATURES, GROUPS, METRICS

Array = npt.NDArray[np.float64]


def load(path: Path) -> tuple[list[dict[str, str]], Array, Array]:
    """Rows, and the features of tenants and of the aggregates of their neighbours."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    own = np.array([[float(row[f"tenant_{name}"]) for name in FEATURES] for row in rows])
    others = np.array([[float(row[f"others_{name}"]) for name in FEATURES] for row in rows])
    return rows, own, others


def plain(features: Array) -> Array:
    """What the weighted mean knows of a workload: size, rate, bandwidth and random ratio of each operation, depth."""
    at = {name: features[:, i] for i, name in enumerate(FEATURES)}
    columns = []
    for op in ("read", "write"):
        groups = [group for group in GROUPS if group.startswith(op)]
        rate = sum(at[f"{group}_rate_mean"] for group in groups)
        bandwidth = sum(at[f"{group}_bandwidth_mean"] for group in groups)
        size = np.divide(bandwidth, rate, out=np.zeros_like(rate), where=rate > 0)
        columns += [size, rate, bandwidth, at[f"{op}_random_ratio"]]
    return np.column_stack([*columns, at["depth"]])


def weighted_mean(rows: list[dict[str, str]], own: Array) -> Array:
    """Means over the neighbours of each row, weighted by their rates (Park et al.)."""
    known = plain(own)
    weight = known[:, 1] + known[:, 5]
    by_run: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        by_run.setdefault(row["run"], []).append(i)
    found = np.zeros_like(known)
    for members in by_run.values():
        for i in members:
            others = [j for j in members if j != i]
            total = weight[others].sum()
            if total > 0:
                found[i] = weight[others] @ known[others] / total
    return found


def splits(rows: list[dict[str, str]], seed: int) -> Iterator[tuple[str, Array, Array]]:
    """Name, rows to train on, rows to test."""
    chance = np.random.default_rng(seed)

    def apart(keys: Array) -> tuple[Array, Array]:
        names = np.unique(keys)
        test = np.isin(keys, chance.choice(names, max(1, len(names) // 4), replace=False))
        return np.flatnonzero(~test), np.flatnonzero(test)

    yield "random", *apart(np.arange(len(rows)))
    yield "by-run", *apart(np.array([int(row["run"]) for row in rows]))
    yield "unseen-workload", *apart(np.array([int(row["workload"]) for row in rows]))
    count = np.array([int(row["tenants"]) for row in rows])
    if count.min() <= 8 < count.max():
        yield "few-to-many", np.flatnonzero(count <= 8), np.flatnonzero(count > 8)


def score(truth: Array, told: Array) -> dict[str, float]:
    """R2, and the mean absolute error as a share of the mean."""
    residual, spread = ((truth - told) ** 2).sum(), ((truth - truth.mean()) ** 2).sum()
    return {"r2": 1 - residual / spread, "nmae": float(np.abs(truth - told).mean() / np.abs(truth).mean())}


def main() -> None:
    """Print the scores."""
    from sklearn.ensemble import RandomForestRegressor

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--metric", action="append", choices=METRICS)
    parser.add_argument("--train-rows", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for path in options.tables:
        rows, own, others = load(path)
        inputs = {
            "gray-box": np.column_stack([own, others]),
            "weighted-mean": np.column_stack([plain(own), weighted_mean(rows, own)]),
        }
        for seed in range(options.seeds):
            for split, train, test in splits(rows, seed):
                for metric in options.metric or METRICS:
                    # Tenants that never do the operation have nothing to predict.
                    alone = np.array([float(row[f"alone_{metric}"]) for row in rows])
                    truth = np.array([float(row[metric]) for row in rows])
                    keep = np.random.default_rng(seed).permutation(train[alone[train] > 0])[: options.train_rows]
                    tried = test[alone[test] > 0]
                    for model, x in inputs.items():
                        forest = RandomForestRegressor(n_estimators=100, random_state=42).fit(x[keep], truth[keep])
                        told = score(truth[tried], forest.predict(x[tried]))
                        head = {"table": path.stem, "split": split, "seed": seed, "metric": metric, "model": model}
                        print(json.dumps(head | {"train": len(keep), "n": len(tried)} | told), flush=True)


if __name__ == "__main__":
    main()
