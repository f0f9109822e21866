# SPDX-License-Identifier: MIT OR Apache-2.0
"""From a sweep to a model: rows and labels, accuracy on what was held out, and the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from linnet import _native
from linnet._native import KnobModel, TuneError
from linnet.readahead.sweep import Counts, Sweep

ACCESSES_LEAST = 8
"""Windows of fewer demands are not rows: the tuner waits for more as well."""
ROWS_PER_RUN = 100
"""A run on many files has a row for each file and window; no run shall outweigh the others."""
EPOCHS = 200
STEPS = 300_000
"""Steps of a training, about a third of a second."""
FOLDS = 5
TOLERANCE = 0.05
"""Throughputs that differ by less are equal: the spread of a run on a shared machine."""

Rows = NDArray[np.float32]
Values = NDArray[np.uint32]


@dataclass(frozen=True)
class Table:
    """Rows of features with what is known about each."""

    rows: Rows
    """Features (n, features)."""
    label_kib: Values
    """The best value of the row's pattern."""
    rule_kib: Values
    """What the rule answers."""
    pattern: NDArray[np.str_]
    run: NDArray[np.int64]
    """Number of the run: rows of one run resemble each other, and are held out together."""
    share: dict[str, dict[int, float]]
    """Throughput of a pattern at a value, as a share of its best."""

    def only(self, chosen: NDArray[np.bool_]) -> Table:
        """Some of the rows."""
        return replace(
            self,
            rows=self.rows[chosen],
            label_kib=self.label_kib[chosen],
            rule_kib=self.rule_kib[chosen],
            pattern=self.pattern[chosen],
            run=self.run[chosen],
        )

    def shares(self, kib: Values) -> NDArray[np.float64]:
        """Throughput at these values, as a share of the best of each row's pattern. Between two values that were
        measured, the one below counts."""
        found = []
        for pattern, value in zip(self.pattern, kib, strict=True):
            known = self.share[str(pattern)]
            at = max((one for one in known if one <= value), default=min(known))
            found.append(known[at])
        return np.asarray(found)


def table(sweep: Sweep, default_kib: int, tolerance: float = TOLERANCE) -> Table:
    """Rows of every window with enough demands, and of every whole run."""
    best = sweep.best(tolerance, default_kib)
    counts: list[Counts] = []
    patterns: list[str] = []
    runs: list[int] = []
    for number, run in enumerate(sweep.runs):
        if not len(run.windows):
            continue
        whole = run.windows.sum(axis=0, keepdims=True, dtype=np.uint64)
        windows = np.concatenate([run.windows, whole])
        windows = windows[windows[:, 0] >= ACCESSES_LEAST]
        if len(windows) > ROWS_PER_RUN:
            # Evenly over the run's time.
            windows = windows[np.linspace(0, len(windows) - 1, ROWS_PER_RUN).astype(int)]
        counts += list(windows)
        patterns += [run.pattern] * len(windows)
        runs += [number] * len(windows)
    if not counts:
        raise TuneError("the observer saw no reads: is the scratch file on the device, and on no overlay?")
    rows, rule_kib = _native.tune_features(np.asarray(counts, dtype=np.uint64))
    rates = sweep.throughput()
    share = {p: {kib: rate / max(by.values()) for kib, rate in by.items()} for p, by in rates.items()}
    labels = np.asarray([best[p] for p in patterns], dtype=np.uint32)
    return Table(rows, labels, rule_kib, np.asarray(patterns), np.asarray(runs), share)


Fit = Callable[[Table], Callable[[Rows], Values]]
"""Learns from a table and gives what decides on rows."""


def model_of(data: Table, parts: str, seed: int, **settings: Any) -> KnobModel:
    """A model fitted to all rows of a table. Few rows are passed more often: otherwise the network stays unsure."""
    settings.setdefault("epochs", min(max(STEPS // max(len(data.rows), 1), EPOCHS), 10 * EPOCHS))
    values, classes = np.unique(data.label_kib, return_inverse=True)
    return KnobModel.fit(data.rows, classes.tolist(), values.tolist(), parts=parts, seed=seed, **settings)


def fitting(parts: str, seed: int, **settings: Any) -> Fit:
    """Fits networks or trees. A table with one label is answered by that."""

    def fit(data: Table) -> Callable[[Rows], Values]:
        if len(set(data.label_kib)) == 1:
            only = int(data.label_kib[0])
            return lambda rows: np.full(len(rows), only, dtype=np.uint32)
        model = model_of(data, parts, seed, **settings)
        return lambda rows: model.decide(rows)[0]

    return fit


def held_out(data: Table, fit: Fit, groups: NDArray[Any], folds: int | None) -> Values:
    """The value for each row by a model that has not seen the row's group: ``folds`` parts, or each group by itself."""
    names = np.unique(groups)
    parts: list[NDArray[Any]] = (
        [names[at::folds] for at in range(folds)] if folds else [names[[at]] for at in range(len(names))]
    )
    found = np.zeros(len(data.rows), dtype=np.uint32)
    for part in parts:
        hidden = np.isin(groups, part)
        if hidden.any() and not hidden.all():
            found[hidden] = fit(data.only(~hidden))(data.rows[hidden])
    return found


def score(data: Table, kib: Values) -> dict[str, float]:
    """How good values are: share of rows with the best value, throughput as a share of the best (mean, and that of the
    worst pattern)."""
    shares = data.shares(kib)
    worst = min(float(shares[data.pattern == name].mean()) for name in np.unique(data.pattern))
    return {
        "accuracy": round(float((kib == data.label_kib).mean()), 4),
        "share_of_best": round(float(shares.mean()), 4),
        "worst_pattern": round(worst, 4),
    }


Parts = Literal["auto", "both", "network", "tree"]


def compare(data: Table, seed: int, default_kib: int, tell: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """Network and tree on rows that they have not seen, beside the rule and the kernel's default: by run (five folds),
    and by pattern (each left out once)."""
    found: dict[str, Any] = {"by_run": {}, "by_pattern": {}}
    steps = 0
    for parts in ("network", "tree"):
        for name, groups, folds in (("by_run", data.run, FOLDS), ("by_pattern", data.pattern, None)):
            found[name][parts] = score(data, held_out(data, fitting(parts, seed), groups, folds))
            steps += 1
            tell(steps)
    for rival, kib in (("rule", data.rule_kib), ("default", np.full(len(data.rows), default_kib, dtype=np.uint32))):
        found["by_run"][rival] = found["by_pattern"][rival] = score(data, kib)
    return found


def choose(found: dict[str, Any], wanted: Parts) -> str:
    """Which parts the file has. The network decides where a file has both; a tree that does better by a hundredth of
    the throughput, on ways of reading that were not trained on, goes alone."""
    if wanted != "auto":
        return wanted
    network, tree = (found["by_pattern"][parts]["share_of_best"] for parts in ("network", "tree"))
    return "tree" if tree > network + 0.01 else "both"


def write(data: Table, parts: str, accuracy: float, seed: int) -> tuple[bytes, Sequence[int]]:
    """The model file, and its values in KiB."""
    if len(set(data.label_kib)) == 1:
        only = int(data.label_kib[0])
        raise TuneError(
            f"{only} KiB is best for every way of reading on this device: there is nothing to choose, so there is no "
            f"model; set that value"
        )
    model = model_of(data, parts, seed)
    return model.to_bytes(accuracy), model.values
