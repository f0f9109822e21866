# SPDX-License-Identifier: MIT OR Apache-2.0
"""How well models predict what tenants see of each other, on simulated co-location: R2 and errors of ten metrics.

The runs are those of ``linnet place label``. The paper's forest (Jaliminche et al., SoCC 2023: 100 trees, seed 42, one
for each metric) sees the features of a tenant and the aggregate of its neighbours; the ablations lack one kind of
feature; ``weighted mean`` has what Park et al. use. Metrics of an operation are learned and tried on the tenants that
use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.label import Member, Runs
from linnet.place.moments import COLUMN, Floats
from linnet.place.sheet import SheetModel
from linnet.place.words import GROUPS, METRICS, PER_GROUP, Drive
from linnet.studies.kept import CONTENT, NUMBER, Kinds
from linnet.studies.violations_mixes import SHEETS

SPLITS = ("random", "by-run", "unseen-workload", "few-to-many")
UNSEEN_TRACE = "unseen-trace"
"""A split more, where workloads are samples of traces: those of one trace resemble each other."""
FEW = 8
"""Most tenants of the training runs of few-to-many."""
TREES, SEED = 100, 42
MODELS = ("gray-box", "without burstiness", "without offset", "without size", "weighted mean", "linnet")
ABLATIONS = MODELS[1:4]
ROW: Kinds = {
    **{"runs": int, "workloads": int, "seconds": NUMBER, "seed": int},
    **{"drive": str, "split": str, "shuffle": int, "metric": str, "model": str},
    **{"train": int, "n": int, "r2": NUMBER, "mae": NUMBER, "mae_of_mean": NUMBER},
}
"""What a row has."""
OF_TRACES: Kinds = {"traces": list, CONTENT: str}
"""And where the workloads are samples of traces."""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Seen:
    """n tenants of runs on one drive."""

    drive: str
    own: Floats
    """[n, 27]"""
    others: Floats
    """[n, 27]: aggregate of the neighbours."""
    plain_own: Floats
    """[n, 9], as :func:`plain`."""
    plain_others: Floats
    """[n, 9]: means over the neighbours, weighted by their rates (Park et al.)."""
    alone: Floats
    """[n, 10]: metrics when the tenant has the drive to itself."""
    metrics: Floats
    """[n, 10]"""
    run: Indices
    workload: Indices
    trace: NDArray[np.str_]
    """[n]: the trace of which the workload is a sample; empty for synthetic ones."""
    tenants: Indices


def seen_of(drive: str, library: Sequence[Member], runs: Runs) -> Seen:
    """The tenants of all runs."""
    features = np.array([member.features for member in library])
    every, blind = moments.to_moments(features), plain(features)
    parts: list[tuple[Floats, Floats]] = []
    for run in runs:
        rows = np.array(run.members, np.intp)
        # Each tenant's row leaves the tenant itself out.
        beside = 1.0 - np.eye(len(rows))
        parts.append((beside @ every[rows], plain_means(blind[rows], beside)))
    workload = np.concatenate([np.array(run.members, np.intp) for run in runs])
    counts = np.array([len(run.members) for run in runs])
    return Seen(
        drive,
        features[workload],
        moments.to_features(np.vstack([others for others, _ in parts])),
        blind[workload],
        np.vstack([means for _, means in parts]),
        np.array([library[i].alone for i in workload]),
        np.array([row for run in runs for row in run.seen]),
        np.repeat(np.arange(len(runs)), counts),
        workload,
        np.array([member.source for member in library])[workload],
        np.repeat(counts, counts),
    )


def _bandwidths(op: str) -> list[int]:
    """Columns of the features whose sum is the bandwidth of an operation."""
    return [COLUMN[f"{group}_bandwidth_mean"] for group in GROUPS if group.startswith(op)]


def plain(features: Floats) -> Floats:
    """What the weighted mean knows of workloads [n, 27]: size, rate, bandwidth and random ratio of each operation, and
    depth, [n, 9].
    """
    columns = []
    for op in ("read", "write"):
        groups = [group for group in GROUPS if group.startswith(op)]
        rate = sum(features[:, COLUMN[f"{group}_rate_mean"]] for group in groups)
        bandwidth = sum(features[:, at] for at in _bandwidths(op))
        size = np.divide(bandwidth, rate, out=np.zeros_like(rate), where=rate > 0)
        columns += [size, rate, bandwidth, features[:, COLUMN[f"{op}_random_ratio"]]]
    return np.column_stack([*columns, features[:, COLUMN["depth"]]])


def plain_means(blind: Floats, chosen: Floats) -> Floats:
    """Means, weighted by their rates, of those of n tenants that each row of ``chosen``, [m, n] of 0 and 1, has.

    ``blind`` is as :func:`plain`; [m, 9], zero where the tenants have no rate.
    """
    share = chosen * (blind[:, 1] + blind[:, 5])
    total = share.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(share, total, out=np.zeros_like(share), where=total > 0) @ blind)


def merged(features: Floats) -> Floats:
    """Features [n, 27] without classes of sizes: the aligned and unaligned I/Os of an operation together, [n, 15]."""
    both = moments.to_moments(features)
    columns = []
    for op in ("read", "write"):
        parts = [[both[:, COLUMN[f"{op}_{kind}_{name}"]] for name in PER_GROUP] for kind in ("aligned", "unaligned")]
        total = dict(zip(PER_GROUP, (a + b for a, b in zip(*parts, strict=True)), strict=True))
        rate = total["rate_mean"]
        for name in ("size_bytes_mean", "unaligned_ratio"):
            total[name] = np.divide(total[name], rate, out=np.zeros_like(rate), where=rate > 0)
        for name in ("rate_std", "bandwidth_std"):
            total[name] = np.sqrt(total[name])
        columns += [*total.values(), features[:, COLUMN[f"{op}_random_ratio"]]]
    return np.column_stack([*columns, features[:, COLUMN["depth"]]])


def _without(rows: Seen, columns: Indices) -> Floats:
    return np.hstack([np.delete(rows.own, columns, axis=1), np.delete(rows.others, columns, axis=1)])


INPUTS: dict[str, Callable[[Seen], Floats]] = {
    "gray-box": lambda rows: np.hstack([rows.own, rows.others]),
    "without burstiness": lambda rows: _without(rows, moments.STD),
    "without offset": lambda rows: _without(rows, moments.UNALIGNED),
    "without size": lambda rows: np.hstack([merged(rows.own), merged(rows.others)]),
    "weighted mean": lambda rows: np.hstack([rows.plain_own, rows.plain_others]),
}
"""What each forest sees."""


def ours(rows: Seen) -> Floats:
    """What ``linnet`` sees: the gray-box features, and more.

    Those of the whole drive, tenant and neighbours together; the metrics of the tenant alone, which its stay on the
    staging drive measures; the load that tenant and neighbours are to the drive by its data sheet; and what the formula
    of data sheets makes of them, as ratios to what it gives for the tenant alone.
    """
    drive = Drive(rows.drive, rows.drive, SHEETS[rows.drive])
    sheets = SheetModel()
    which = np.zeros(len(rows.own), np.intp)
    beside = sheets.predict_aggregates([drive], which, rows.own, rows.others)[..., 0]
    alone = sheets.predict_aggregates([drive], which, rows.own, np.zeros_like(rows.others))[..., 0]
    ratio = np.divide(beside, alone, out=np.ones_like(beside), where=alone > 0)
    loads = [sheets.load(drive, one) for one in (rows.own, rows.others)]
    whole = moments.to_features(moments.to_moments(rows.own) + moments.to_moments(rows.others))
    ratio = np.nan_to_num(ratio, nan=1.0, posinf=1.0)
    return np.column_stack([rows.own, rows.others, whole, np.nan_to_num(rows.alone), *loads, sum(loads), ratio])


def predict(model: str, rows: Seen, column: int, train: Indices, tried: Indices) -> Floats:
    """Values of a metric for the rows that are tried."""
    from sklearn.ensemble import RandomForestRegressor

    truth = rows.metrics[:, column]
    if model != "linnet":
        x = INPUTS[model](rows)
        return _asked(RandomForestRegressor(n_estimators=TREES, random_state=SEED), x, truth, train, tried)
    x = ours(rows)
    forest = RandomForestRegressor(n_estimators=TREES, random_state=SEED, min_samples_leaf=2, max_features=0.4)
    if METRICS[column].endswith("bandwidth_mean"):
        # Tenants differ by orders of magnitude in what they offer, not in the share of it that neighbours take. What
        # one got when it was alone is no base: with bursts that are longer than the measurement, it is chance.
        offered = np.maximum(sum(rows.own[:, at] for at in _bandwidths(METRICS[column].split("_")[0])), 1e-9)
        return _asked(forest, x, truth / offered, train, tried) * offered[tried]
    # Errors of latencies are relative.
    return np.asarray(np.exp(_asked(forest, x, np.log(np.maximum(truth, 1.0)), train, tried)))


def _asked(forest: Any, x: Floats, y: Floats, train: Indices, tried: Indices) -> Floats:
    forest.set_params(n_jobs=2).fit(x[train], y[train])
    # Threads add the trees' answers in the order in which they come, and the last bits depend on it.
    return np.asarray(forest.set_params(n_jobs=1).predict(x[tried]))


def split_of(rows: Seen, name: str, seed: int) -> tuple[Indices, Indices]:
    """Rows to train on, and rows to be tried.

    ``random`` is the paper's 75/25 of rows, in which tenants of one run are on both sides. ``by-run`` divides runs;
    ``unseen-workload`` the workloads whose metrics are learned, so that those tried were neighbours at most, and
    ``unseen-trace`` the traces of which they are samples; ``few-to-many`` trains on runs of at most 8 tenants and tries
    the others.
    """
    if name == "few-to-many":
        few = rows.tenants <= FEW
        if few.all() or not few.any():
            raise ValueError(f"{name} needs runs of at most {FEW} tenants and of more")
        return np.flatnonzero(few), np.flatnonzero(~few)
    keys: NDArray[Any] = {
        "random": np.arange(len(rows.run)),
        "by-run": rows.run,
        "unseen-workload": rows.workload,
        UNSEEN_TRACE: rows.trace,
    }[name]
    names = np.unique(keys)
    if len(names) < 2:
        raise ValueError(f"{name} needs samples of at least two traces")
    tried = np.isin(keys, np.random.default_rng(seed).choice(names, max(1, len(names) // 4), replace=False))
    return np.flatnonzero(~tried), np.flatnonzero(tried)


def measured(rows: Seen, column: int) -> NDArray[np.bool_]:
    """Rows that have a metric: tenants that do the operation alone, and of which something was measured."""
    return np.asarray((rows.alone[:, column] > 0) & np.isfinite(rows.metrics[:, column]))


def score(truth: Floats, told: Floats) -> dict[str, float]:
    """R2, the mean absolute error in the metric's unit, and that error as a share of the mean."""
    spread = float(((truth - truth.mean()) ** 2).sum())
    error = float(np.abs(truth - told).mean())
    return {
        "r2": round(1 - float(((truth - told) ** 2).sum()) / max(spread, 1e-300), 5),
        "mae": float(f"{error:.6g}"),
        "mae_of_mean": round(error / float(np.abs(truth).mean()), 5),
    }


def tasks(
    models: Sequence[str], splits: Sequence[str], ablate: Sequence[str], shuffles: int
) -> Iterator[tuple[str, int, str, str]]:
    """Split, shuffle, metric, model. Ablations are tried in the splits of ``ablate``; few-to-many has no shuffles."""
    for split in splits:
        for shuffle in range(1 if split == "few-to-many" else shuffles):
            for model in models:
                if model not in ABLATIONS or split in ablate:
                    for metric in METRICS:
                        yield split, shuffle, metric, model


def score_of(rows: Seen, task: tuple[str, int, str, str]) -> dict[str, Any]:
    """The score of a task: split, shuffle, metric, model. ``n`` rows were tried."""
    split, shuffle, metric, model = task
    column = METRICS.index(metric)
    train, test = (part[measured(rows, column)[part]] for part in split_of(rows, split, shuffle))
    told = predict(model, rows, column, train, test)
    head = {"drive": rows.drive, "split": split, "shuffle": shuffle, "metric": metric, "model": model}
    return {**head, "train": len(train), "n": len(test), **score(rows.metrics[test, column], told)}
