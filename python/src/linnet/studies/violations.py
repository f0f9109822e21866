# SPDX-License-Identifier: MIT OR Apache-2.0
"""Promises that placements really break when their mixes run on the SSD model.

The workloads are those of ``linnet place label``. Every placer sees profiles and outcomes of as many co-location runs:
of random mixes, or half of them of mixes that placements sought (``sought``), or most of them trials (``rehearse``);
what drives show before tenants are moved comes on top. Then each
drive of its placement is run, and tenants count as violated whose bandwidth falls short of what they have alone by more
than they were promised.

Placers learn from one window of the mixes and are judged by others (:mod:`linnet.studies.violations_mixes`). The placer
that knows the truth has run every mix in the windows of the judge before it decides: what prediction could gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from linnet.place.allocate import Allocator, Policy, Settings
from linnet.place.label import TENANTS_MAX
from linnet.place.rehearse import Mix, rehearse
from linnet.place.share_forest import ShareForest
from linnet.place.sheet import SheetModel
from linnet.place.trials import TOLERANCE, Trials
from linnet.place.words import Drive, Interference, Prediction, Profile
from linnet.studies.packing_bound import cover
from linnet.studies.place_baselines import Forest
from linnet.studies.placers import METRICS, forests, place_all, sets_of
from linnet.studies.violations_mixes import JUDGED, Mixes
from linnet.studies.violations_models import ByLoad, Guarded, Worst

ALLOWED, TRIED = 0.01, 0.1
"""Shares of violated tenants that ``linnet`` sets its margin for: to leave tenants there, and to move them later."""
ROUNDS = 4
"""Rounds of moves at most, each after all drives have run."""
SOUGHT_ROUNDS = 4
"""Rounds of mixes that placements sought, each by what was learned until then."""
REHEARSED = range(6, 12)
"""Windows of trials."""
ELSEWHERE = range(50, 55)
"""Windows that the placer which knows the truth has not seen."""
WATCHED = 12
"""First window in which drives run before tenants are moved; each round has as many as the judge."""


@dataclass(frozen=True)
class Truth:
    """Runs the mix before it answers."""

    mixes: Mixes
    metrics: tuple[str, ...] = field(default=METRICS)

    def predict(
        self, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
    ) -> list[dict[str, Prediction]]:
        """Bandwidths as measured; an I/O after the end of the run is forgiven."""
        del drives
        found = []
        for tenant, beside in zip(tenants, neighbours, strict=True):
            mix = frozenset({int(tenant.name), *(int(one.name) for one in beside)})
            share = np.minimum(self.mixes.together(mix, JUDGED)[sorted(mix).index(int(tenant.name))] + TOLERANCE, 1.0)
            has = self.mixes.alone[int(tenant.name)]
            found.append(
                {
                    metric: Prediction(*[float(has[column] * (share[column] if beside else 1.0))] * 3)
                    for column, metric in enumerate(METRICS)
                    if has[column] > 0
                }
            )
        return found


def place(mixes: Mixes, model: Interference, slo: float, policy: Policy, order: Sequence[int]) -> Allocator:
    """Place all workloads of the library, each on a drive that the model allows."""
    settings = Settings(policy=policy, load_max=8.0, alone_max=math.inf, tenants_max=TENANTS_MAX)
    return place_all(mixes.drive, 2 * len(mixes.library), mixes.profiles, model, slo, settings, order)


def sought(mixes: Mixes, slos: Sequence[float], count: int, stage: Callable[[str], None]) -> list[Mix]:
    """Mixes to learn from: half of them random, the others those of drives that are nearly full.

    In each round half of the workloads, in random order, are placed for one of the SLOs by what the runs so far teach,
    with little margin, and the mixes of these placements are run. They lie near a promise, where a placer decides, and
    they are those that its model likes, whose errors random mixes do not show.
    """
    chance = np.random.default_rng([mixes.seed, count])
    found = mixes.drawn(count // 2)
    for done in range(SOUGHT_ROUNDS):
        stage(f"running mixes that placements seek, round {done + 1} of {SOUGHT_ROUNDS}")
        ours = Guarded(mixes.drive, mixes.runs(found))
        want = count // 2 + (count - count // 2) * (done + 1) // SOUGHT_ROUNDS
        while len(found) < want:
            slo = float(chance.choice(np.asarray(slos)))
            ours.promise(slo, TRIED)
            order = chance.permutation(len(mixes.library))[: len(mixes.library) // 2].tolist()
            policy: Policy = "first-fit" if chance.random() < 0.5 else "best-fit"
            sets = sets_of(place(mixes, ours, slo, policy, order)).values()
            new = [one for one in sets if len(one) > 1 and one not in found]
            if not new:
                # Nothing is placed together: random mixes are as good.
                new = [one for one in mixes.drawn(2 * count) if one not in found]
            if not new:
                return found
            found += [new[i] for i in chance.permutation(len(new))[: want - len(found)]]
    return found


def move(mixes: Mixes, allocator: Allocator, slo: float) -> int:
    """Let the drives run, and move the heaviest tenant off each where a promise broke; returns the moves.

    A tenant goes where the model allows it; the drive that it left is not asked. At most ROUNDS times.
    """
    moves = 0
    for done in range(ROUNDS):
        sets = sets_of(allocator)
        windows = range(WATCHED + done * len(JUDGED), WATCHED + (done + 1) * len(JUDGED))
        violated = mixes.violated([*sets.values()], slo, windows)
        suffering = [drive for drive, bad in zip(sets, violated, strict=True) if bad]
        if not suffering:
            break
        for drive in suffering:
            loads = {i: allocator.load_with(mixes.profiles[i], drive) for i in sets[drive]}
            row = allocator.cluster.row_of(str(max(loads, key=lambda i: loads[i])))
            allocator.take(row)
            allocator.place_row(row, but=[drive])
            moves += 1
    return moves


def rows_of(
    mixes: Mixes, slos: Sequence[float], runs: int, seconds: float, stage: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """A row for each SLO and placer: drives, tenants violated on the SSD model, moves."""
    stage(f"running {runs} random mixes")
    learned = mixes.runs(mixes.drawn(runs))
    near = mixes.runs(sought(mixes, slos, runs, stage))
    stage("fitting")
    fitted: dict[str, Interference] = {**forests(learned.own, learned.others, learned.shares)}
    sought_forest = Forest(METRICS)
    sought_forest.fit(near.own, near.others, near.shares)
    fitted["gray-box forest, sought mixes"] = sought_forest
    ours, ablated, truth = Guarded(mixes.drive, near), Guarded(mixes.drive, learned), Truth(mixes)
    known = mixes.runs(mixes.drawn(runs // 4))
    given = range(len(mixes.library))
    loads = SheetModel().load(mixes.drive, mixes.features)
    heavy = np.argsort(-loads, kind="stable").tolist()
    for slo in slos:
        ours.promise(slo, ALLOWED)
        ablated.promise(slo, ALLOWED)

        def row(name: str, sets: Sequence[Mix], moves: int = 0, slo: float = slo) -> dict[str, Any]:
            violated = sum(map(len, mixes.violated(sets, slo)))
            percent = 100 * violated / len(mixes.library)
            return {
                **{"slo_percent": slo, "placer": name, "drives": len(sets)},
                **{"violated": violated, "violated_percent": round(percent, 1), "moves": moves},
            }

        models: list[tuple[str, Interference, Policy, Sequence[int]]] = [
            ("quota", Worst(learned), "first-fit", given),
            *((name, forest, "first-fit", given) for name, forest in fitted.items()),
            ("linnet, random mixes", ablated, "best-fit", heavy),
            ("linnet", ours, "best-fit", heavy),
        ]
        for name, model, policy, order in models:
            stage(f"{slo:g} %: {name}")
            allocator = place(mixes, model, slo, policy, order)
            yield row(name, [*sets_of(allocator).values()])
        for name, one in (("linnet, random mixes", ablated), ("linnet", ours)):
            one.promise(slo, TRIED)
            allocator = place(mixes, one, slo, "best-fit", heavy)
            yield row(f"{name}, to be moved", [*sets_of(allocator).values()])
            moves = move(mixes, allocator, slo)
            yield row(f"{name}, moved", [*sets_of(allocator).values()], moves)
        for name, by_model in (("linnet, trials", True), ("trials by load", False)):
            stage(f"{slo:g} %: {name}")
            learner = ShareForest(mixes.drive, METRICS, known) if by_model else ByLoad(mixes.drive)
            promised = np.full(len(METRICS), 1 - slo / 100 - TOLERANCE)
            trials = Trials(mixes, promised, REHEARSED, runs - runs // 4, learner, known)
            found = rehearse(heavy, loads, trials, trials.seen(), TENANTS_MAX)
            yield row(name, found.drives) | {"trials": found.trials, "trial_runs": trials.runs}
        packings = []
        for policy, order in (("first-fit", given), ("best-fit", heavy)):
            stage(f"{slo:g} %: the truth known, {policy}")
            packings.append([*sets_of(place(mixes, truth, slo, policy, order)).values()])
            elsewhere = sum(map(len, mixes.violated(packings[-1], slo, ELSEWHERE)))
            yield row(f"the truth known, {policy.replace('-', ' ')}", packings[-1]) | {"violated_elsewhere": elsewhere}
        stage(f"{slo:g} %: CP-SAT")
        allowed = [one for packing in packings for one in packing]
        best = cover(len(mixes.library), allowed, seconds, start=sorted(packings, key=len)[0])
        yield row("the truth known, CP-SAT", best.sets)
