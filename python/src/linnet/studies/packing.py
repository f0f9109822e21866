# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many drives workloads need, and whose SLOs break: section 6.2 of the gray-box paper, with the truth beside.

The truth is a model that plays the drive: whatever it answers happens. The placers see of it what they can: quota the
worst case at each load, forests runs of 2 to 16 workloads with their outcomes, the perfect model all. Degradation is of
bandwidth, reads and writes, against the workload alone on the drive. Any model of aggregates can be the truth; with
outcomes of the SSD model or of real drives the same code counts real violations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.allocate import Policy, Settings
from linnet.place.batch import VALUE, AggregateModel
from linnet.place.moments import Floats
from linnet.place.sheet import SheetModel
from linnet.place.words import Drive, Interference
from linnet.studies.packing_bound import caps_of, cover, lower_bound
from linnet.studies.place_baselines import Quota
from linnet.studies.placers import METRICS, place_all, random_mixes, sets_of
from linnet.studies.placers import forests as fitted
from linnet.studies.placing import sheet, workload

READS = 20_000.0
"""Typical reads per second of a workload: some six of them load a drive."""
MIXES = 60
"""Workloads that the bound tries as the mildest neighbours."""
BOUND = "lower bound, among the mixes tried"
"""The row of the bound; a milder mix that was not tried could do with fewer drives."""
RUNS = 500
"""Runs of 2 to 16 workloads that forests learn from."""
TOLERANCE = 1e-9
ORDERS = 3
"""Random orders, beside the heaviest first, whose packings the best cover is chosen from."""


@dataclass(frozen=True)
class Placed:
    """A packing: drives in use, and tenants whose bandwidth the truth lowers by more than they were promised."""

    drives: int
    violated: int
    sets: list[frozenset[int]]


class Study:
    """One catalogue of workloads on one drive type."""

    def __init__(self, workloads: int, seed: int, truth: AggregateModel | None = None) -> None:
        chance = np.random.default_rng(seed)
        self.drive: Drive = sheet(1)
        self.profiles = [workload(chance, f"w{index}", READS) for index in range(workloads)]
        self.features = moments.rows(self.profiles)
        self.truth: Any = truth or SheetModel()
        self._sheets = SheetModel()
        self.loads = self.load(self.drive, self.features)
        self._columns = [self.truth.metrics.index(name) for name in METRICS]
        self.alone = self.ask(self.features, np.zeros_like(self.features))
        self.chance = chance

    def load(self, drive: Drive, features: Floats) -> Floats:
        """Share of the drive's time that workloads ask for."""
        return self._sheets.load(drive, features)

    def ask(self, own: Floats, others: Floats) -> Floats:
        """True bandwidths [n, 2] of tenants beside neighbours."""
        found = self.truth.predict_aggregates([self.drive], np.zeros(len(own), np.intp), own, others)
        return np.asarray(found[:, self._columns, VALUE])

    def degradation(self, rows: NDArray[np.intp], others: Floats) -> Floats:
        """True degradation of workloads beside neighbours, the worse of reads and writes, as a share."""
        return np.asarray(np.nanmax(1.0 - self.ask(self.features[rows], others) / self.alone[rows], axis=1))

    def runs(self) -> tuple[Floats, Floats, Floats]:
        """Runs as the paper makes them: features of each tenant, of its neighbours, and the share of its bandwidth."""
        own, others, rows = [], [], []
        every = moments.to_moments(self.features)
        for chosen in random_mixes(self.chance, len(self.features), RUNS):
            total = every[chosen].sum(axis=0)
            own.append(self.features[chosen])
            others.append(moments.to_features(total - every[chosen]))
            rows.append(chosen)
        x, beside, which = np.vstack(own), np.vstack(others), np.concatenate(rows)
        return x, beside, self.ask(x, beside) / self.alone[which]

    def place(
        self,
        model: Interference,
        slo: float,
        policy: Policy,
        order: NDArray[np.intp] | None = None,
        exact: bool = False,
    ) -> Placed:
        """Place all workloads with a model and count what breaks."""
        settings = Settings(policy=policy, load_max=4.0, alone_max=math.inf, tenants_max=64, exact=exact)
        given = range(len(self.profiles)) if order is None else order
        allocator = place_all(self.drive, len(self.profiles), self.profiles, model, slo, settings, given)
        sets = [*sets_of(allocator).values()]
        return Placed(len(sets), self.violated(sets, slo), sets)

    def violated(self, sets: list[frozenset[int]], slo: float) -> int:
        """Tenants of a packing whose true degradation passes the SLO."""
        every = moments.to_moments(self.features)
        count = 0
        for one in sets:
            rows = np.array(sorted(one), np.intp)
            others = every[rows].sum(axis=0) - every[rows]
            others[others < 1e-9 * every[rows].sum(axis=0)] = 0.0
            count += int((self.degradation(rows, moments.to_features(others)) > slo / 100 + TOLERANCE).sum())
        return count

    def bound(self, slo: float, seconds: float) -> int:
        """No packing of the truth has fewer drives if the mildest neighbours are among the mixes tried."""
        chosen = np.linspace(0, len(self.features) - 1, min(MIXES, len(self.features))).astype(int)

        def holds(rows: NDArray[np.intp], others: Floats, loads: Floats) -> NDArray[np.bool_]:
            del loads
            return np.asarray(self.degradation(rows, moments.to_features(others)) <= slo / 100 + TOLERANCE)

        mixes = moments.to_moments(self.features[chosen])
        beside = caps_of(holds, len(self.features), mixes, self.loads[chosen])
        return lower_bound(self.loads, self.loads + beside, seconds=seconds)


def rows_of(
    study: Study, slos: list[float], forests: bool, seconds: float, stage: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """A row for each SLO and placer: drives, and tenants violated under the truth."""
    models: dict[str, tuple[Interference, Policy]] = {
        "quota": (Quota(study.truth, study.drive, study.features, METRICS, study.load), "first-fit"),
        "perfect, first fit": (study.truth, "first-fit"),
        "perfect, best fit": (study.truth, "best-fit"),
    }
    if forests:
        stage("fitting forests")
        models |= {name: (forest, "first-fit") for name, forest in fitted(*study.runs()).items()}
    for slo in slos:
        best: list[frozenset[int]] = []
        packings: list[list[frozenset[int]]] = []
        for name, (model, policy) in models.items():
            stage(f"{slo:g} %: {name}")
            found = study.place(model, slo, policy)
            if name.startswith("perfect"):
                best += found.sets
                packings.append(found.sets)
            yield {"slo_percent": slo, "placer": name, "drives": found.drives, "violated": found.violated}
        for index in range(ORDERS + 1):
            stage(f"{slo:g} %: packing {index + 1} of {ORDERS + 1}")
            heavy = np.argsort(-study.loads, kind="stable")
            order = heavy if index == 0 else study.chance.permutation(len(heavy))
            packings.append(study.place(study.truth, slo, "best-fit" if index else "first-fit", order).sets)
            best += packings[-1]
        stage(f"{slo:g} %: CP-SAT")
        # A subset of an allowed set is taken to be allowed: it has less load. violated() checks it.
        packed = cover(len(study.profiles), best, seconds, start=sorted(packings, key=len)[0])
        violated = study.violated(packed.sets, slo)
        yield {"slo_percent": slo, "placer": "CP-SAT packing", "drives": len(packed.sets), "violated": violated}
        yield {"slo_percent": slo, "placer": BOUND, "drives": study.bound(slo, seconds), "violated": None}
