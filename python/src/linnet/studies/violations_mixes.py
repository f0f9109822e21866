# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads on one modelled drive, and what tenants of any mix of them see.

A run is a *window*: in one window a tenant offers the same I/Os alone and beside any neighbours, so that the difference
is interference alone, and in each window it offers others. Bandwidths are summed over the windows that are asked for: a
packing that fits the bursts of one window breaks promises in the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from linnet.place import moments
from linnet.place.cache import Cache
from linnet.place.label import Labeller, Plan, key_of
from linnet.place.moments import Floats
from linnet.place.rehearse import Mix
from linnet.place.share_forest import Runs
from linnet.place.words import METRICS as SEEN
from linnet.place.words import Drive, Profile
from linnet.studies.placers import METRICS, random_mixes
from linnet.studies.violations_models import broken
from linnet.threads import Threads

COLUMNS = [SEEN.index(name) for name in METRICS]
SHEETS = {
    "sata": {"seq_read_mbs": 512.0, "seq_write_mbs": 400.0, "rnd_read_iops": 95e3, "rnd_write_iops": 40e3},
    "nvme": {"seq_read_mbs": 6000.0, "seq_write_mbs": 860.0, "rnd_read_iops": 1e6, "rnd_write_iops": 2e5},
}
"""Round figures of the modelled drives, as a data sheet would have them: they order candidates."""
SHARE = (0.03, 0.6)
"""Bandwidth of workloads as a share of the drive's peak: some four of them load a drive."""
WARM_S = 0.2
"""All runs begin with the same preconditioned drive, so that only the mix differs. Its reserve is full."""
LEARNED = (0,)
"""The window of the runs that placers learn from."""
JUDGED = tuple(range(1, 6))
"""Windows in which placements are judged."""
STRIDE = 1_000_000
"""Between the seeds of one workload in one window and in the next."""


class Mixes:
    """A library of workloads on one modelled drive, and what tenants of any mix see."""

    def __init__(self, drive: str, workloads: int, seconds: float, seed: int, cache: Path | None) -> None:
        plan = Plan(drive, workloads=workloads, share=SHARE, seconds=seconds, warm_s=WARM_S, seed=seed)
        self._labeller = Labeller(plan)
        self._cache = Cache(cache)
        self._known: dict[tuple[Mix, int], Floats] = {}
        self.drive = Drive(drive, drive, SHEETS[drive])
        self.seed = seed
        self.library = self._labeller.library(lambda stage, done, of: None)
        self.features = np.array([member.features for member in self.library])
        self.profiles = [
            Profile(str(i), dict(zip(moments.COLUMN, map(float, row), strict=True)))
            for i, row in enumerate(self.features)
        ]
        self.alone: Floats = np.array([member.alone for member in self.library])[:, COLUMNS]
        self.uses = self.alone > 0

    def together(self, mix: Mix, windows: Sequence[int] = LEARNED) -> Floats:
        """Bandwidth of each member, in order, as a share of what it has alone, [n, 2]; NaN for what it lacks."""
        members = sorted(mix)
        seen = np.sum([self._seen(mix, window) for window in windows], axis=0)
        alone = np.sum([[self._seen(frozenset([i]), window)[0] for i in members] for window in windows], axis=0)
        share: Floats = np.full_like(seen, math.nan)
        np.divide(seen, alone, out=share, where=alone > 0)
        return share

    def share(self, mix: Mix, window: int) -> Floats:
        """See :class:`linnet.place.trials.Source`."""
        return self.together(mix, [window])

    def _seen(self, mix: Mix, window: int) -> Floats:
        """Bytes per second of each member in a window, [n, 2]."""
        if (mix, window) not in self._known:
            members, plan, drive = sorted(mix), self._labeller.plan, self._labeller.drive
            # In window 0 member i has seed i + 1, as in the library's runs alone.
            loads = [(self.library[i].load, i + 1 + STRIDE * window) for i in members]
            key = key_of("mix", self._labeller.about, plan.seed, plan.warm_s, plan.seconds, loads)
            seen = self._cache.get(key)
            if seen is None:
                rows, _ = drive.run_loads(loads, plan.seconds, plan.warm_s)
                seen = [row[:-1] for row in rows]
                self._cache.put(key, seen)
            # Who has nothing to do in a window has no bandwidth in it.
            self._known[mix, window] = np.nan_to_num(np.array(seen, np.float64)[:, COLUMNS])
        return self._known[mix, window]

    def violated(self, mixes: Sequence[Mix], slo: float, windows: Sequence[int] = JUDGED) -> list[Mix]:
        """Members of each mix whose bandwidth falls by more than ``slo`` percent."""
        shares = Threads(2).in_order(lambda mix: self.together(mix, windows), mixes)
        return [
            frozenset(np.array(sorted(mix))[broken(share, slo)].tolist())
            for mix, share in zip(mixes, shares, strict=True)
        ]

    def drawn(self, count: int) -> list[Mix]:
        """Random mixes of 2 to 16 as the paper makes them."""
        chance = np.random.default_rng(self.seed)
        return [frozenset(mix.tolist()) for mix in random_mixes(chance, len(self.library), count)]

    def runs(self, mixes: Sequence[Mix]) -> Runs:
        """What the tenants of these mixes see in the window that placers learn from."""
        return Runs.of(self.features, mixes, Threads(2).in_order(self.together, mixes))
