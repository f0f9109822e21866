# SPDX-License-Identifier: MIT OR Apache-2.0
"""Promises that placements break on recorded mixes: every placer chooses among cells that real drives ran.

A kind is a drive, or a mix under an I/O scheduler, and its cells differ in load. A placer fills each drive of a kind up
to the highest load at which its model says that every promise holds, and that cell's recorded outcome says who suffers.
The model has not seen the cell: cells are divided into folds, and those of a fold are predicted by a model of the
others. Cells of one load on drives of one model are in one fold. The lightest cell of each kind is known to all
placers, as what the tenant has on a staging drive.

Promises are two: a quantile of the latency of tenant 0 passes that of the lightest cell by at most the SLO, and the
writers beside it get what they offer. Choosing the highest load seeks out the mixes that a model likes too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place.confidence import CONFIDENCES
from linnet.place.judge import Question, answer_fold
from linnet.place.models.capacity import capacities
from linnet.place.models.make import make
from linnet.place.models.model import by_cell, groups_of
from linnet.place.models.open_loop import shares
from linnet.place.observations import Floats, Observations
from linnet.place.scores import LEVELS, Answers
from linnet.place.splits import FIRST_SEED, Fold, folds

KIND = {"ssdiq": "drive", "icpe": "setting"}
"""Label of what is a kind of drive, by source."""
MODELS = ("weighted-mean", "forest", "linnet")
SHARE = "write_share"
"""Share of the offered writes that all tenants achieved."""
SHARE_LEAST = 0.95
"""Of the offered writes: what is promised. Poisson arrivals in a minute are within 1 %."""
DEMAND = {"ssdiq": 10_000_000.0, "icpe": 1_000.0}
"""Load of each kind that is to be placed: offered I/Os per second; neighbours."""
SPLIT = "unseen-model-load"


def promised(rows: Observations, target: str) -> Observations:
    """The rows with a latency as a target, and the share of writes where rates were offered."""
    latency = rows.outcomes[:, rows.targets.index(target)]
    if "write_pages" not in rows.achieved:
        return replace(rows, targets=(target,), outcomes=latency[:, None])
    offered = np.maximum(rows.inputs["all_write_pages"], 1e-9)
    share = np.log(np.clip(rows.achieved["write_pages"] / offered, 1e-6, 1.0))
    return replace(rows, targets=(target, SHARE), outcomes=np.column_stack([latency, share]))


@dataclass(frozen=True)
class Cells:
    """Cells of a source in ascending order of kind and load, n of them."""

    rows: Observations
    of: list[NDArray[np.intp]]
    """Rows of each cell."""
    kind: NDArray[Any]
    load: Floats
    seen: Floats
    """[n, targets]: medians of what was recorded, logarithmic."""
    base: NDArray[np.intp]
    """The lightest cell of the kind of each cell."""

    @property
    def lightest(self) -> NDArray[np.bool_]:
        """Which cells are the lightest of their kinds."""
        return np.asarray(self.base == np.arange(len(self.load)))

    def broken(self, values: Floats, slo: float) -> NDArray[np.bool_]:
        """Which promises values [n, targets] of the cells break, [n, targets]; ``slo`` in percent."""
        return broken(values, self.seen[self.base], slo)


def broken(values: Floats, base: Floats, slo: float) -> NDArray[np.bool_]:
    """Which promises logarithms [n, targets] break, where the lightest cell had ``base`` [n, targets] or [targets]."""
    columns = [values[:, 0] > base[..., 0] + math.log1p(slo / 100)]
    if values.shape[1] > 1:
        columns.append(values[:, 1] < math.log(SHARE_LEAST))
    return np.column_stack(columns)


def cells_of(rows: Observations) -> Cells:
    """The cells of rows."""
    label = KIND[rows.source]
    groups = groups_of(rows.labels["cell"])
    groups.sort(key=lambda group: (str(rows.labels[label][group[0]]), float(rows.inputs["load"][group[0]])))
    kind = np.array([rows.labels[label][group[0]] for group in groups], dtype=object)
    seen = np.array([np.median(rows.outcomes[group], axis=0) for group in groups])
    first = {name: i for i, name in reversed([*enumerate(kind)])}
    load = np.array([float(rows.inputs["load"][group[0]]) for group in groups])
    return Cells(rows, groups, kind, load, seen, np.array([first[name] for name in kind], np.intp))


def guesses(
    cells: Cells, seed: int, models: Sequence[str], progress: Callable[[], None]
) -> dict[str, tuple[Floats, Floats]]:
    """Logarithms of the targets, [n, targets], and half widths of intervals, [LEVELS, n, targets], of models that have
    not seen the cell. ``quota`` has what the worst cell of the same load or less suffered, and no width.
    """
    rows = cells.rows
    number = {str(rows.labels["cell"][group[0]]): i for i, group in enumerate(cells.of)}
    known = np.isin(rows.labels["cell"].astype(str), [name for name, i in number.items() if cells.lightest[i]])
    base, others = rows.take(known), rows.take(~known)
    none = np.zeros((len(LEVELS), *cells.seen.shape))
    found = {name: (cells.seen.copy(), none.copy()) for name in (*models, "quota")}
    for fold in folds(SPLIT, others, seed):
        train, tried = base.joined(fold.train), fold.tried
        at = np.array([number[str(name)] for name in tried.labels["cell"]], np.intp)
        for name in models:
            mean, widths = _told(name, Fold(train, tried), seed)
            for i in np.unique(at):
                found[name][0][i] = np.median(mean[at == i], axis=0)
                found[name][1][:, i] = np.median(widths[:, at == i], axis=1)
        hidden = np.unique(at)
        found["quota"][0][hidden] = worst(cells, hidden)
        progress()
    return found


def _told(name: str, fold: Fold, seed: int) -> tuple[Floats, Floats]:
    """A model's logarithms of the targets, [n, targets], and half widths of its intervals, [LEVELS, n, targets], for
    the rows tried.

    The intervals of the rivals are 0: a forest does not say where it is unsure.
    """
    train, tried = fold.train, fold.tried
    if name != "linnet":
        rival = make(name, tried.source)
        rival.fit(train)
        mean, _ = rival.predict(tried)
        return mean, np.zeros((len(LEVELS), *mean.shape))
    answers = {name: [Answers()]}
    answer_fold(Question(tried.source, SPLIT, 0), Fold(_latency(train), _latency(tried)), [name], seed, answers)
    (mean,), (widths,) = answers[name][0].means, answers[name][0].widths
    if SHARE not in tried.targets:
        return mean, widths
    # Ours predicts no share: beyond the capacity that it measured or inferred, writers get that.
    need = shares(tried, capacities(by_cell(train)[0], tried))
    return np.column_stack([mean, -np.log(np.maximum(need, 1.0))]), np.append(widths, np.zeros_like(widths), axis=2)


def _latency(rows: Observations) -> Observations:
    return replace(rows, targets=rows.targets[:1], outcomes=rows.outcomes[:, :1])


def worse(cells: Cells) -> Floats:
    """Which way each target gets worse, [targets]: latency upwards, the share of writes downwards."""
    return np.where(np.arange(cells.seen.shape[1]) == 0, 1.0, -1.0)


def worst(cells: Cells, hidden: NDArray[np.intp]) -> Floats:
    """What a reservation for the worst case allows for: the largest loss, over the lightest cell of its kind, of all
    cells of the same load or less that are not hidden, [len(hidden), targets]. Loads count as shares of data sheets.
    """
    loss, way = np.abs(cells.seen - cells.seen[cells.base]), worse(cells)
    sheet = cells.rows.inputs.get("rnd_write_iops")
    room = np.ones(len(cells.load)) if sheet is None else np.array([sheet[group[0]] for group in cells.of])
    load = cells.load / room
    shown = np.setdiff1d(np.arange(len(load)), hidden)
    return np.array([
        cells.seen[cells.base[i]] + way * loss[shown[load[shown] <= load[i]]].max(axis=0, initial=0.0) for i in hidden
    ])  # fmt: skip


def chosen(cells: Cells, allowed: NDArray[np.bool_]) -> NDArray[np.intp]:
    """For each kind the cell of the highest load that is allowed, at least the lightest."""
    allowed = allowed | cells.lightest
    return np.array([np.flatnonzero(allowed & (cells.base == base))[-1] for base in np.unique(cells.base)], np.intp)


def suffered(cells: Cells, slo: float) -> Floats:
    """Share of the recorded runs of each cell in which a promise broke, by the run's median minute, [n]."""
    found = np.zeros(len(cells.of))
    labels, outcomes = cells.rows.labels["run"], cells.rows.outcomes
    for i, group in enumerate(cells.of):
        runs = [group[labels[group] == run] for run in sorted(set(labels[group]))]
        seen = np.array([np.median(outcomes[run], axis=0) for run in runs])
        found[i] = 0.0 if cells.lightest[i] else broken(seen, cells.seen[cells.base[i]], slo).any(axis=1).mean()
    return found


def placed(cells: Cells, choice: NDArray[np.intp], broke: Floats) -> dict[str, float]:
    """Drives for the demand of every kind when each is filled to its chosen cell, and the percentage of the drives on
    which a promise broke. ``broke`` is of :func:`suffered`: every run of a cell counts alike.
    """
    # A drive whose lightest cell has no neighbours holds one of them alone, away from tenant 0.
    drives = np.ceil(DEMAND[cells.rows.source] / np.maximum(cells.load[choice], 1.0))
    percent = 100 * float((drives * broke[choice]).sum()) / float(drives.sum())
    return {"drives": float(drives.sum()), "violated_percent": percent}


def rows_of(
    data: dict[str, Observations], target: str, slos: Sequence[float], seeds: int, progress: Callable[[], None]
) -> Iterator[dict[str, Any]]:
    """A row for each source, SLO and placer: drives and violations are means over the shuffles.

    ``accepted`` counts the cells, besides the lightest, that the model allows; ``accepted_broken`` those of them in
    which a recorded run broke a promise; ``refused_kept`` those that it refuses and in which all runs kept all.
    """
    for source in KIND:
        if source not in data:
            continue
        cells = cells_of(promised(data[source], target))
        tried = ~cells.lightest
        shuffles = [guesses(cells, FIRST_SEED + i, MODELS, progress) for i in range(seeds)]
        for slo in slos:
            broke = suffered(cells, slo)
            good = broke == 0
            allowed: dict[str, list[Any]] = {"quota": [], **{name: [] for name in MODELS}}
            allowed |= {f"linnet at {percent} %": [] for percent in CONFIDENCES[1:]} | {"bound": [good]}
            for found in shuffles:
                for name, (mean, widths) in found.items():
                    allowed[name].append(~cells.broken(mean, slo).any(axis=1))
                    if name == "linnet":
                        for percent, width in zip(CONFIDENCES[1:], widths, strict=True):
                            end = mean + worse(cells) * width
                            allowed[f"linnet at {percent} %"].append(~cells.broken(end, slo).any(axis=1))
            for name, each in allowed.items():
                packed = [placed(cells, chosen(cells, one), broke) for one in each]
                yield {
                    "source": source,
                    "target": target,
                    "slo_percent": slo,
                    "placer": name,
                    "cells": int(tried.sum()),
                    **{key: float(np.mean([one[key] for one in packed])) for key in ("drives", "violated_percent")},
                    "violated_percent_most": max(one["violated_percent"] for one in packed),
                    "accepted": float(np.mean([(one & tried).sum() for one in each])),
                    "accepted_broken": float(np.mean([(one & tried & ~good).sum() for one in each])),
                    "refused_kept": float(np.mean([(~one & tried & good).sum() for one in each])),
                    "seeds": len(each),
                }
