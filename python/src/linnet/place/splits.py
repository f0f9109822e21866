# SPDX-License-Identifier: MIT OR Apache-2.0
"""How observations are divided into training rows and rows to be tried.

Drives of one model answer for each other. So there are two questions about a load: ``unseen-load`` leaves it out of one
drive, and a twin may show it; ``unseen-model-load`` leaves it out of all drives of the model. Mixes of one host share
the runs of a tenant alone: these are one load under each scheduler, and of no mix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet.place.observations import Observations, named

LOADS = {"unseen-load": "cell", "unseen-model-load": "model_load"}
"""Splits by load, and the label of what is left out together."""
SPLITS = ("random", *LOADS, "unseen-drive", "few-to-many", "unseen-mix")
NEW = ("unseen-drive", "unseen-mix")
"""Splits that try something new, which may be measured first."""
LEAKING = ("random",)
"""Splits by row: rows of one run are on both sides, so they measure memory."""
FOLDS = 4
FIRST_SEED = 42
FEW = 8
"""Most neighbours in the training rows of few-to-many."""


class Undivided(ValueError):
    """Rows of a source that a split cannot divide into some that train and some that are tried."""

    def __init__(self, source: str, split: str, why: str) -> None:
        super().__init__(f"{source}, {split}: {why}")
        self.source, self.split, self.why = source, split, why


@dataclass(frozen=True)
class Fold:
    """Training rows, and rows to be tried."""

    train: Observations
    tried: Observations
    asks: str | None = None
    """The split whose question the rows that are tried ask of these that train; None: that of the fold's own split."""


def applies(split: str, source: str) -> bool:
    """Whether a source can answer a split's question."""
    return {
        "random": True,
        "unseen-load": True,
        "unseen-model-load": source in ("ssdiq", "iocost"),
        "unseen-drive": source in ("ssdiq", "iocost"),
        "few-to-many": source == "icpe",
        "unseen-mix": source == "icpe",
    }[split]


def shuffles(split: str) -> bool:
    """Whether a seed changes the division."""
    return split in ("random", *LOADS)


def probed(split: str, source: str) -> bool:
    """Whether something new is measured first, if minutes are given. No model chooses among ceilings of iocost."""
    return split in NEW and source != "iocost"


def folds(split: str, rows: Observations, seed: int) -> list[Fold]:
    """All folds of one seed. Raises Undivided, whatever the seed is."""
    return list(_folds(split, rows, seed))


def _folds(split: str, rows: Observations, seed: int) -> Iterator[Fold]:
    if split == "random":
        order = np.random.default_rng(seed).permutation(len(rows))
        cut = round(0.75 * len(rows))
        yield Fold(rows.take(order[:cut]), rows.take(order[cut:]))
    elif split != "few-to-many":
        yield from _by_group(split, rows, FOLDS if split in LOADS else None, seed)
    else:
        few = rows.inputs["neighbours"] <= FEW
        if few.all() or not few.any():
            raise Undivided(
                rows.source, split, f"it needs runs of at most {FEW} neighbours and of more, and all are of one kind"
            )
        yield Fold(rows.take(few), rows.take(~few))


def _label(split: str, rows: Observations) -> str:
    """Label of the groups that a split keeps together."""
    # The tenant alone under a scheduler is one load, whichever mix it was recorded for.
    if split in LOADS and rows.source == "icpe":
        return "model_load"
    return {**LOADS, "unseen-drive": "model", "unseen-mix": "mix"}[split]


def _of_group(split: str, rows: Observations) -> NDArray[np.bool_]:
    """Rows that a split's groups have; a run without neighbours is of no mix, whatever it is called, so it trains."""
    return rows.inputs["neighbours"] > 0 if split == "unseen-mix" else np.ones(len(rows), bool)


def _by_group(split: str, rows: Observations, count: int | None, seed: int) -> Iterator[Fold]:
    label, of_group = _label(split, rows), _of_group(split, rows)
    names = np.array(sorted(set(rows.labels[label][of_group])), dtype=object)
    if len(names) < 2:
        what = {"model": "drive model", "mix": "mix"}.get(label, "load")
        raise Undivided(
            rows.source,
            split,
            f"one {what} alone cannot be split; give more, train on other data (--train), or ask other questions "
            "(--split)",
        )
    np.random.default_rng(seed).shuffle(names)
    for part in np.array_split(names, min(count or len(names), len(names))):
        tried = of_group & np.isin(rows.labels[label], list(part))
        yield Fold(rows.take(~tried), rows.take(tried))


def inner_folds(split: str, train: Observations, seed: int) -> list[Fold]:
    """Folds of the training rows that ask the same question, for intervals; none where there are too few groups."""
    if split == "few-to-many":
        counts = sorted({float(n) for n in train.inputs["neighbours"] if n > 0})
        found = []
        for most in counts[1:-1]:
            below: NDArray[np.bool_] = train.inputs["neighbours"] <= most
            found.append(Fold(train.take(below), train.take(~below)))
        return found
    if split == "random":
        order = np.random.default_rng(seed).permutation(len(train))
        return [Fold(train.take(np.setdiff1d(order, part)), train.take(part)) for part in np.array_split(order, FOLDS)]
    if len(set(train.labels[_label(split, train)][_of_group(split, train)])) < 2:
        return []
    return list(_by_group(split, train, FOLDS, seed))


def against(split: str, train: Observations, tried: Observations, seed: int) -> list[Fold]:
    """Folds when other data train: those rows train, all of ``tried`` are tried.

    Training rows that would answer the question in advance are left out: of the same cell or load of a drive model, of
    the same drive model or mix, or of more neighbours. Loads of drives that the training data lack are tried fold by
    fold, with the drives' other loads; many neighbours of a mix and scheduler that they lack, with its runs of few; a
    mix, with its runs without neighbours. One such load alone is tried without others. Loads are those of both sets
    together, whatever they are called in each. ``random`` then asks for other loads, or for other drives or mixes, and
    its folds say which.
    """
    both = named(train.joined(tried))
    train, tried = (both.take(rows) for rows in np.split(np.arange(len(both)), [len(train)]))
    if shuffles(split):
        label = "cell" if split == "random" else _label(split, tried)
        train = train.take(~np.isin(train.labels[label], list(set(tried.labels[label]))))
        name, new = ("setting", "unseen-mix") if "setting" in tried.labels else ("drive", "unseen-drive")
        strange = ~np.isin(tried.labels[name], list(set(train.labels[name])))
        asks = "unseen-load" if split == "random" else None
        found = [] if strange.all() else [Fold(train, tried.take(~strange), asks)]
        if strange.any():
            others = tried.take(strange)
            if split == "random" or len(set(others.labels[label])) < 2:
                return [*found, Fold(train, others, new)]
            more = _by_group(split, others, FOLDS, seed)
            found += [Fold(train.joined(fold.train), fold.tried) for fold in more]
        return found
    if split == "few-to-many":
        train = train.take(train.inputs["neighbours"] <= FEW)
        many = tried.inputs["neighbours"] > FEW
        own = ~many & ~np.isin(tried.labels["setting"], list(set(train.labels["setting"])))
        return [Fold(train.joined(tried.take(own)), tried.take(many))]
    label, of_group = _label(split, tried), _of_group(split, tried)
    told = _of_group(split, train) & np.isin(train.labels[label], list(set(tried.labels[label])))
    train = train.take(~told)
    if not of_group.all():
        own = ~of_group & ~np.isin(tried.labels["run"], list(set(train.labels["run"])))
        train = train.joined(tried.take(own))
    return [Fold(train, tried.take(of_group))]


def parts(split: str, tried: Observations) -> list[Observations]:
    """What is calibrated apart: each drive; each setting of a mix, since a host has one scheduler; else all rows."""
    label = {"unseen-drive": "drive", "unseen-mix": "setting"}.get(split)
    if label is None:
        return [tried]
    return [tried.take(tried.labels[label] == name) for name in sorted(set(tried.labels[label]))]


def held_out(tried: Observations, every: int, phase: int) -> NDArray[np.bool_]:
    """Rows of every ``every``-th load of one drive or setting, from that of rank ``phase`` on: those never probed."""
    loads = np.unique(tried.inputs["load"])
    return np.isin(tried.inputs["load"], loads[phase::every])
