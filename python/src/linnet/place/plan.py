# SPDX-License-Identifier: MIT OR Apache-2.0
"""A placement of recorded tenants, found by trials on a modelled drive.

Each trace is a tenant that runs at its own rate. It is cut into windows of equal length: the first teaches the forest
by random mixes, the last judges the placement, and trials run in those between. A trace begins with its first I/O, so
bursts coincide as they were recorded only where recordings began at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from linnet._native import SharedDrive, TenantError, Trace, profile_trace
from linnet.place.label import Progress
from linnet.place.moments import BANDWIDTH, Floats
from linnet.place.rehearse import Mix, rehearse
from linnet.place.share_forest import Runs, ShareForest
from linnet.place.slo import Slo
from linnet.place.trials import TOLERANCE, Trials
from linnet.place.words import METRICS
from linnet.threads import Threads

TENANTS_MAX = 16
"""Tenants that the model runs on one drive."""
FOREST_SHARE, MIXES_PER_TENANT = 4, 5
"""Random mixes take one in FOREST_SHARE of the runs, and there are at most so many for each tenant."""
WARM_SHARE = 0.1
"""Part of a window that is not measured."""


@dataclass(frozen=True)
class Windows:
    """How traces are cut."""

    seconds: float = 2.0
    trial: int = 6
    """Windows of trials."""

    @property
    def count(self) -> int:
        """Windows of a trace: one to learn from, those of trials, and one to judge by."""
        return self.trial + 2


@dataclass(frozen=True)
class Planned:
    """Drives that the tenants need."""

    drives: list[Mix]
    trials: int
    held: int
    runs: int
    """Runs of mixes: random ones, and windows of trials."""
    short: bool
    """See :class:`linnet.place.rehearse.Rehearsed`."""
    judged: int
    """Tenants with a promise and I/O in the window that no trial saw."""
    missed: list[tuple[int, str, float]]
    """Those of them that had less than was promised: the metric, and the share they had."""


class Tenants:
    """Traces on one modelled drive; see :class:`linnet.place.trials.Source`."""

    def __init__(
        self, traces: Sequence[Trace], drive: str, metrics: Sequence[str], windows: Windows, depth: int, seed: int
    ) -> None:
        """``depth`` bounds the outstanding I/Os of a tenant.

        Raises TenantError for a trace that is too short or has several tenants.
        """
        self._drive, self._depth, self._windows = SharedDrive(drive, seed), depth, windows
        self._columns = [METRICS.index(metric) for metric in metrics]
        self._at_least = np.array(["_bandwidth_" in metric for metric in metrics])
        self._parts: list[list[Trace]] = []
        self._alone: dict[tuple[int, int], Floats] = {}
        features = []
        for trace in traces:
            length_ns = round(windows.count * windows.seconds * 1e9)
            arrive_ns = trace.columns()["arrive_ns"]
            if not len(arrive_ns) or int(arrive_ns[-1]) < length_ns * (windows.count - 1) / windows.count:
                lasts = f"{int(arrive_ns[-1]) / 1e9:.3g} s" if len(arrive_ns) else "nothing"
                raise TenantError(
                    f"{trace.name}: the trace has {lasts}, and {windows.count} windows of {windows.seconds:g} s are "
                    "asked for; give a longer trace, fewer --windows or --seconds"
                )
            whole = trace.split_at(length_ns)[0]
            # What the judge sees teaches nothing.
            before_s = (windows.count - 1) * windows.seconds
            profiles = profile_trace(whole.split_at(round(before_s * 1e9))[0], end_s=before_s)
            if len(profiles) > 1:
                raise TenantError(f"{trace.name}: the trace has {len(profiles)} tenants; give a trace for each")
            features.append(profiles[0][1].features)
            self._parts.append([_window(whole, i, windows.seconds) for i in range(windows.count)])
        self.features = np.array(features)
        self.loads = self.features[:, BANDWIDTH].sum(axis=1)
        self.uses = np.zeros((len(traces), len(metrics)), np.bool_)

    def measure_alone(self, progress: Callable[[int], None]) -> None:
        """Run every tenant alone in every window, which what mixes see is compared with."""
        pieces = [(i, window) for i in range(len(self._parts)) for window in range(self._windows.count)]
        with closing(Threads().map(lambda _, one: self._run([one[0]], one[1]), None, pieces)) as made:
            for done, (index, seen) in enumerate(made):
                self._alone[pieces[index]] = seen[0]
                self.uses[pieces[index][0]] |= seen[0] > 0
                progress(done + 1)

    def share(self, mix: Mix, window: int) -> Floats:
        """What neighbours leave of bandwidths, and of the inverse of latencies, [m, k]."""
        members = sorted(mix)
        alone = np.array([self._alone[i, window] for i in members])
        if len(members) == 1:
            return np.where(alone > 0, 1.0, np.nan)
        seen = self._run(members, window)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self._at_least, seen / alone, alone / seen)
        # No I/O of it completed beside others.
        share[np.isnan(seen)] = 0.0
        return np.where(alone > 0, share, np.nan)

    def _run(self, members: Sequence[int], window: int) -> Floats:
        """Metrics of members in a window, [m, k]; NaN for one that has no I/O then."""
        seconds = self._windows.seconds
        begun = round(WARM_SHARE * seconds * 1e9)
        parts = [self._parts[i][window] for i in members]
        busy = [j for j, part in enumerate(parts) if len(part) and int(part.columns()["arrive_ns"][-1]) >= begun]
        seen = np.full((len(members), len(self._columns)), np.nan)
        if busy:
            rows = self._drive.run([(parts[j], self._depth) for j in busy], WARM_SHARE * seconds, seconds)
            seen[busy] = np.array(rows)[:, self._columns]
        return seen


def _window(trace: Trace, index: int, seconds: float) -> Trace:
    begin, end = (round(edge * seconds * 1e9) for edge in (index, index + 1))
    upto = trace.split_at(end)[0]
    return upto.split_at(begin)[1] if begin else upto


def plan(tenants: Tenants, slos: Sequence[Slo], windows: Windows, runs: int, seed: int, progress: Progress) -> Planned:
    """Put tenants on as few drives as promises of so much less than alone allow, by so many runs at most."""
    count = len(tenants.loads)
    tenants.measure_alone(lambda done: progress("running tenants alone", done, count * windows.count))
    if count == 1:
        return Planned([frozenset([0])], 0, 0, 0, False, 1, [])
    chance = np.random.default_rng(seed)
    most = min(count, TENANTS_MAX)
    drawn = [
        frozenset(chance.choice(count, int(chance.integers(2, most + 1)), replace=False).tolist())
        for _ in range(min(runs // FOREST_SHARE, MIXES_PER_TENANT * count))
    ]
    # Few tenants make few mixes.
    drawn = list(dict.fromkeys(drawn))
    shares: list[Floats] = [np.zeros(0)] * len(drawn)
    with closing(Threads().map(lambda _, mix: tenants.share(mix, 0), None, drawn)) as made:
        for done, (index, share) in enumerate(made):
            shares[index] = share
            progress("running random mixes", done + 1, len(drawn))
    known = Runs.of(tenants.features, drawn, shares)
    promised = np.array([_promised(slo) for slo in slos])
    forest = ShareForest(None, [slo.metric for slo in slos], known)
    trial = range(1, 1 + windows.trial)
    trials = Trials(tenants, promised, trial, runs - len(drawn), forest, known)
    found = rehearse(
        np.argsort(-tenants.loads, kind="stable").tolist(),
        tenants.loads,
        trials,
        trials.seen(),
        TENANTS_MAX,
        lambda placed: progress("placing by trials", placed, count),
    )
    judged, missed = 0, []
    for drive in found.drives:
        left = tenants.share(drive, windows.count - 1)
        judged += int((~np.isnan(left)).any(axis=1).sum())
        for tenant, row in zip(sorted(drive), left, strict=True):
            missed += [(tenant, slo.metric, float(x)) for slo, x, p in zip(slos, row, promised, strict=True) if x < p]
    ran = len(drawn) + trials.runs
    return Planned(found.drives, found.trials, found.held, ran, found.short, judged, missed)


def _promised(slo: Slo) -> float:
    """The share that an SLO of a degradation leaves of what a tenant has alone."""
    assert slo.degradation_percent is not None
    change = slo.degradation_percent / 100
    return (1 - change if slo.at_least else 1 / (1 + change)) - TOLERANCE
