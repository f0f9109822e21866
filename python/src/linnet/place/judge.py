# SPDX-License-Identifier: MIT OR Apache-2.0
"""How well interference models answer an operator's questions, on measured drives.

Every model sees the same rows. Its 90 % intervals are conformal (Vovk et al., *Algorithmic Learning in a Random World*,
2005; normalised as by Papadopoulos et al., 2008): the model's own spread times a factor, the 0.9 quantile of error
over spread on training rows that were held out by the same kind of split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linnet.place.confidence import CONFIDENCES
from linnet.place.models.closed_loop import ClosedLoop
from linnet.place.models.make import make
from linnet.place.models.model import Model, groups_of, known_medians
from linnet.place.models.open_loop import OpenLoop
from linnet.place.observations import Floats, Observations
from linnet.place.probing import probe
from linnet.place.scores import LEVELS, Answers, least_covered, score
from linnet.place.splits import (
    FIRST_SEED,
    LEAKING,
    Fold,
    Undivided,
    against,
    applies,
    folds,
    held_out,
    inner_folds,
    parts,
    probed,
    shuffles,
)

HALF_STEP_US = 0.5
"""Half of what latencies are recorded in: nobody knows one better."""
ROWS_FOR_INTERVALS = 400
"""Training rows of a forest whose errors size intervals: more of a cell's rows say the same."""


@dataclass(frozen=True)
class Question:
    """One split of one source."""

    source: str
    split: str
    minutes: int
    """Probe minutes of each new drive, or probe points of each new setting of a mix."""
    hold_out: int = 0
    """One in so many loads of these is tried and never probed; 0: what was not probed is tried."""
    phase: int = 0
    """Rank of the first load that is held out."""


def judge(
    data: dict[str, Observations],
    train: dict[str, Observations] | None,
    splits: Sequence[str],
    models: Sequence[str],
    seeds: int,
    minutes: int,
    progress: Callable[[int], None],
    hold_out: int = 0,
    skip: Sequence[Undivided] = (),
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows for each source, split, target and model, and which of them there are none of: see :func:`_lacking`.

    ``progress`` is told how many folds are done: see :func:`work`. Every ``hold_out``-th load of a new drive or mix is
    tried whatever is probed, and never probed; 0: what is not probed is tried. What :func:`undivided` found may be left
    out by ``skip``. Raises Undivided for what is not, and ValueError where nothing at all is left to try, or no model
    can answer.
    """
    rows: list[dict[str, Any]] = []
    absent: list[dict[str, Any]] = []
    nothing: list[str] = []
    done = 0
    for split, source in _asked_of(data, splits, skip):
        tried = data[source]
        question = Question(source, split, *((minutes, hold_out) if probed(split, source) else (0, 0)))
        answers: dict[str, list[Answers]] = {name: [] for name in models}
        for seed in _seeds(split, seeds, question.hold_out):
            asked = replace(question, phase=seed - FIRST_SEED)
            every = _division(split, tried, train, source, seed)
            for name in models:
                answers[name].append(Answers())
            for fold in every:
                answer_fold(asked, fold, models, seed, answers)
                done += 1
                progress(done)
        found = [row for name in models for row in _rows(question, tried.targets, name, answers[name])]
        if not found and any(seed.outcomes for seed in answers[models[0]]):
            nothing.append(
                f"{source}, {split}: {', '.join(models)} needs measurements of what is tried; let it probe "
                "(--probe-minutes), or ask another model"
            )
        elif not found:
            names = ", ".join(sorted({name for seed in answers[models[0]] for name in seed.untried}))
            after = f" after {minutes} probes of each of {names}; ask for fewer (--probe-minutes), or" if names else ";"
            nothing.append(f"{source}, {split}: no load is left to try{after} give measurements of more loads")
        rows += found
        absent += [one for name in models for one in _lacking(question, tried, name, answers[name])]
    if nothing and not rows:
        raise ValueError("; ".join(nothing))
    return rows, absent


def _asked_of(
    data: dict[str, Observations], splits: Sequence[str], skip: Sequence[Undivided] = ()
) -> list[tuple[str, str]]:
    """Splits, and sources that they apply to."""
    left = {(one.split, one.source) for one in skip}
    return [
        (split, source) for split in splits for source in data if applies(split, source) and (split, source) not in left
    ]


def undivided(
    data: dict[str, Observations], train: dict[str, Observations] | None, splits: Sequence[str]
) -> list[Undivided]:
    """Which splits cannot divide which sources that they apply to, and why."""
    found = []
    for split, source in _asked_of(data, splits):
        try:
            _division(split, data[source], train, source, FIRST_SEED)
        except Undivided as error:
            found.append(error)
    return found


def work(
    data: dict[str, Observations],
    train: dict[str, Observations] | None,
    splits: Sequence[str],
    seeds: int,
    hold_out: int = 0,
    skip: Sequence[Undivided] = (),
) -> int:
    """Number of folds that :func:`judge` will answer."""
    return sum(
        len(_division(split, data[source], train, source, seed))
        for split, source in _asked_of(data, splits, skip)
        for seed in _seeds(split, seeds, hold_out if probed(split, source) else 0)
    )


def _seeds(split: str, seeds: int, hold_out: int) -> range:
    # Where loads are held out, a seed is a phase, and there are no more phases than that.
    return range(FIRST_SEED, FIRST_SEED + (seeds if shuffles(split) else min(seeds, hold_out) or 1))


def _division(
    split: str, tried: Observations, train: dict[str, Observations] | None, source: str, seed: int
) -> list[Fold]:
    if train is None:
        return folds(split, tried, seed)
    if source not in train:
        raise ValueError(f"--train has no table of {source}, which --data has; add it, or judge without --train")
    found = against(split, train[source], tried, seed)
    if any(not len(fold.train) or not len(fold.tried) for fold in found):
        raise Undivided(
            source,
            split,
            "no row is left to train or to try; --train must have other drive models, mixes or loads than --data, "
            "since rows that would give the answer away do not train",
        )
    return found


@dataclass(frozen=True)
class Part:
    """Rows that are tried together, what was measured for them first, and the rows that are left."""

    ours: Model | None
    """Our model, fitted to ``train`` and not to the probes; None where nobody asks it."""
    train: Observations
    probes: Observations | None
    rows: Observations


def _parts(question: Question, fold: Fold, asked: bool, start: Model | None) -> tuple[list[Part], list[str]]:
    """Parts of which rows are left, and the names of the others; ``asked``: whether ours is to answer."""
    ours = None
    # All models get the minutes that ours asks for: rivals with everything but the idea.
    if asked or question.minutes:
        ours = make("linnet", question.source, start)
        ours.fit(fold.train)
    found: list[Part] = []
    untried: list[str] = []
    apart = question.minutes or question.hold_out
    for tried in parts(question.split, fold.tried) if apart else [fold.tried]:
        probes, rest, open_to_probes = None, tried, tried
        if question.hold_out:
            held = held_out(tried, question.hold_out, question.phase)
            rest, open_to_probes = tried.take(held), tried.take(~held)
        if question.minutes and len(open_to_probes) and isinstance(ours, OpenLoop | ClosedLoop):
            probes, left = probe(ours, open_to_probes, question.minutes)
            rest = rest if question.hold_out else tried.take(left)
        if len(rest):
            found.append(Part(ours, fold.train, probes, rest))
        elif len(tried):
            untried.append(str(tried.labels["drive" if "drive" in tried.labels else "setting"][0]))
    return found, untried


def answer_fold(
    question: Question, fold: Fold, models: Sequence[str], seed: int, answers: dict[str, list[Answers]]
) -> None:
    """Add to the last answers of each model those for the rows of a fold that are tried."""
    asked = "linnet" in models
    outer, untried = _parts(question, fold, asked, None)
    for name in models:
        answers[name][-1].untried.extend(untried)
        probes = [len(part.probes) for part in outer if part.probes is not None]
        answers[name][-1].probes = max([answers[name][-1].probes, *probes])
    if not outer:
        return
    inner = [
        part
        for one in inner_folds(fold.asks or question.split, fold.train, seed)
        for part in _parts(question, one, asked, outer[0].ours)[0]
    ]
    for name in models:
        factors = _factors(name, inner, len(fold.tried.targets))
        for part in outer:
            mean, spread = _fitted(name, part).predict(part.rows)
            answers[name][-1].add(part.rows, mean, spread * factors[:, None])


def interval_factors(question: Question, train: Observations, seed: int, start: Model) -> Floats:
    """What our model's spread is multiplied by for an interval, [LEVELS, targets]; NaN without groups to hold out.

    Where latency hardly changes, held-out errors are 0. The widest interval is at least half a recording step to each
    side, at the median of the rows held out.
    """
    inner = [part for one in inner_folds(question.split, train, seed) for part in _parts(question, one, True, start)[0]]
    factors = _factors("linnet", inner, len(train.targets))
    if inner:
        step = [
            np.log1p(HALF_STEP_US / np.exp(part.rows.outcomes)) / _fitted("linnet", part).predict(part.rows)[1]
            for part in inner
        ]
        least = known_medians(np.concatenate(step))
        factors[-1] = np.where(np.isnan(least), factors[-1], np.maximum(factors[-1], least))
    return factors


def _fitted(name: str, part: Part, thinned: bool = False) -> Model:
    """A model that knows the part's training rows and probes."""
    if name == "linnet":
        ours = part.ours
        assert ours is not None
        if part.probes is not None and isinstance(ours, OpenLoop | ClosedLoop):
            return ours.calibrated(part.probes)
        return ours
    model = make(name, part.train.source)
    train = _thinned(part.train) if thinned else part.train
    model.fit(train if part.probes is None else train.joined(part.probes))
    return model


def _factors(name: str, inner: Sequence[Part], targets: int) -> Floats:
    """What the model's spread is multiplied by, [LEVELS, targets]; NaN without inner folds."""
    scores: list[list[Floats]] = [[] for _ in range(targets)]
    cells = [0] * targets
    for part in inner:
        mean, spread = _fitted(name, part, thinned=True).predict(part.rows)
        off = np.abs(part.rows.outcomes - mean) / spread
        for target, told in enumerate(np.isfinite(off).T):
            scores[target].append(off[told, target])
            cells[target] += len(set(part.rows.labels["cell"][told]))
    factors = np.full((len(LEVELS), targets), math.nan)
    for target, count in enumerate(cells):
        if count:
            # Rows of a cell repeat each other: cells count as the sample of the finite-sample quantile. A value between
            # two rows is no less than the row that the rule asks for.
            shares = [min(1.0, math.ceil((count + 1) * level) / count) for level in LEVELS]
            factors[:, target] = np.quantile(np.concatenate(scores[target]), shares)
    return factors


def _thinned(rows: Observations) -> Observations:
    """Every cell with as large a share of its rows: by their number, not by how cells happen to follow each other."""
    every = max(1, len(rows) // ROWS_FOR_INTERVALS)
    kept = np.concatenate([cell[::every] for cell in groups_of(rows.labels["cell"])])
    return rows.take(np.sort(kept))


def _rows(question: Question, targets: Sequence[str], name: str, seeds: Sequence[Answers]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for target, target_name in enumerate(targets):
        asked = _asked(seeds, target)
        if not asked or any(seed.unanswered(target) for seed in asked):
            continue
        scored = [score(seed, target) for seed in asked]
        rows.append(
            {
                "source": question.source,
                "split": question.split,
                "target": target_name,
                "model": name,
                "n": scored[0]["n"],
                "n_interval": scored[0]["n_interval"],
                **{
                    key: _mean([one[key] for one in scored])
                    for key in (
                        *("r2", "r2_within", "median_error", "p90_error"),
                        *("coverage90", "coverage90_low", "coverage90_high", "interval90_factor"),
                        *(f"kept{percent}" for percent in CONFIDENCES[1:]),
                    )
                },
                "coverage90_least": least_covered(asked, target),
                "r2_least": _least([one["r2"] for one in scored], min),
                "r2_most": _least([one["r2"] for one in scored], max),
                "seeds": len(scored),
                "probe_minutes": max(seed.probes for seed in seeds),
                "hold_out": question.hold_out,
                "untried": sorted({name for seed in seeds for name in seed.untried}),
                "leaks": question.split in LEAKING,
            }
        )
    return rows


def _asked(seeds: Sequence[Answers], target: int) -> list[Answers]:
    """The seeds in which rows that have an outcome were tried."""
    return [seed for seed in seeds if seed.outcomes and seed.known(target).any()]


def _lacking(question: Question, tried: Observations, name: str, seeds: Sequence[Answers]) -> list[dict[str, Any]]:
    """Targets that the data have and a model has no row of, since it left some of what was tried unanswered.

    ``n`` counts what was tried in the seed with most unanswered, and ``unanswered`` those; both are 0 where every row
    with the target was probed.
    """
    found = []
    for target, target_name in enumerate(tried.targets):
        if not np.isfinite(tried.outcomes[:, target]).any():
            continue
        counts = ((seed.unanswered(target), int(seed.known(target).sum())) for seed in _asked(seeds, target))
        unanswered, n = max(counts, default=(0, 0))
        if unanswered or not n:
            place = {"source": question.source, "split": question.split, "target": target_name}
            found.append(place | {"model": name, "n": n, "unanswered": unanswered})
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _least(values: Sequence[float | None], which: Callable[[list[float]], float]) -> float | None:
    known = [value for value in values if value is not None]
    return which(known) if known else None


def ceiling(data: dict[str, Observations]) -> list[dict[str, Any]]:
    """What repeating a run predicts: each minute by the median of the cell's other runs, where there are repeats."""
    rows = []
    for source, tried in data.items():
        answers = Answers()
        for cell in groups_of(tried.labels["cell"]):
            runs = tried.labels["run"][cell]
            for run in sorted(set(runs)):
                own, others = cell[runs == run], cell[runs != run]
                if len(others):
                    mean = known_medians(tried.outcomes[others])
                    part = tried.take(own)
                    unknown = np.full((len(LEVELS), *part.outcomes.shape), np.nan)
                    answers.add(part, np.broadcast_to(mean, part.outcomes.shape), unknown)
        if answers.outcomes:
            rows += _rows(Question(source, "repeatability", 0), tried.targets, "other-repeats", [answers])
    return rows
