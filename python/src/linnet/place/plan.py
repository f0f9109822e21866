# SPDX-License-Identifier: MIT OR Apache-2.0
"""A placement of recorded tenants, found by trials on a drive: a modelled one, or a real one that is set aside.

Each trace is a tenant that runs at its own rate. It is cut into windows of equal length: the first teaches the forest
by random mixes, the last judges the placement, and trials run in those between. A trace begins with its first I/O, so
bursts coincide as they were recorded only where recordings began at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet._native import StagingDrive, TenantError, Trace, profile_trace
from linnet.place.label import TENANTS_MAX, Progress
from linnet.place.moments import BANDWIDTH, Floats
from linnet.place.rehearse import Mix, rehearse
from linnet.place.share_forest import Runs, ShareForest
from linnet.place.slo import Slo
from linnet.place.staging import Stage, threads_of
from linnet.place.trials import TOLERANCE, Trials
from linnet.place.words import METRICS

FOREST_SHARE, MIXES_PER_TENANT = 4, 5
"""Random mixes take one in FOREST_SHARE of the runs, and there are at most so many for each tenant."""
CHECKED = 3
"""Tenants of most load that run alone once more at the end, on a real drive."""
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
    changed: float = 0.0
    """By which share a tenant's metric alone differs between the end and the beginning: what became of a real drive."""


class Tenants:
    """Traces on one drive; see :class:`linnet.place.trials.Source`."""

    def __init__(
        self, traces: Sequence[Trace], drive: Stage, metrics: Sequence[str], windows: Windows, depth: int
    ) -> None:
        """``depth`` bounds the outstanding I/Os of a tenant.

        Raises TenantError for a trace that is too short, has several tenants, or writes where it may not.
        """
        self._drive, self._depth, self._windows = drive, depth, windows
        self.threads = threads_of(drive)
        self._columns = [METRICS.index(metric) for metric in metrics]
        self._at_least = np.array(["_bandwidth_" in metric for metric in metrics])
        self._parts: list[list[Trace]] = []
        self.longest_s = 0.0
        self._alone: dict[tuple[int, int], Floats] = {}
        features = []
        for trace in traces:
            if isinstance(drive, StagingDrive) and not drive.writable and (trace.columns()["op"] != 0).any():
                raise TenantError(
                    f"{trace.name}: the trace has writes, and what is on the staging drive may not be overwritten; "
                    "allow it with --overwrite, or give traces of reads"
                )
            last_s = _last_ns(trace) / 1e9
            # What the judge sees teaches nothing.
            before_s = (windows.count - 1) * windows.seconds
            if last_s < before_s:
                lasts = f"{last_s:.3g} s" if len(trace) else "nothing"
                raise TenantError(
                    f"{trace.name}: the trace has {lasts}, and {windows.count} windows of {windows.seconds:g} s are "
                    "asked for; give a longer trace, fewer --windows or --seconds"
                )
            self.longest_s = max(self.longest_s, last_s)
            profiles = profile_trace(trace.split_at(round(before_s * 1e9))[0], end_s=before_s)
            if len(profiles) > 1:
                raise TenantError(f"{trace.name}: the trace has {len(profiles)} tenants; give a trace for each")
            features.append(profiles[0][1].features)
            self._parts.append(_cut(trace, windows))
        measured_ns = round(WARM_SHARE * windows.seconds * 1e9)
        self._busy = [[_last_ns(part) >= measured_ns for part in parts] for parts in self._parts]
        self.features = np.array(features)
        self.loads = self.features[:, BANDWIDTH].sum(axis=1)
        self.uses = np.zeros((len(traces), len(metrics)), np.bool_)

    def measure_alone(self, progress: Callable[[int], None]) -> None:
        """Run every tenant alone in every window, which what mixes see is compared with."""
        pieces = [(i, window) for i in range(len(self._parts)) for window in range(self._windows.count)]
        found = self.threads.in_order(lambda one: self._run([one[0]], one[1])[0][0], pieces, progress)
        for (tenant, window), seen in zip(pieces, found, strict=True):
            self._alone[tenant, window] = seen
            self.uses[tenant] |= seen > 0

    def changed(self) -> float:
        """Run the busiest tenants alone in the last window once more: the largest change of a metric, as a share.

        A modelled drive does not change: 0.
        """
        if not isinstance(self._drive, StagingDrive):
            return 0.0
        window, most = self._windows.count - 1, 0.0
        for tenant in np.argsort(-self.loads)[:CHECKED].tolist():
            (seen,), _ = self._run([tenant], window)
            before = self._alone[tenant, window]
            there = (before > 0) & (seen > 0)
            most = max(most, float(np.abs(np.log(seen[there] / before[there])).max(initial=0.0)))
        return float(np.expm1(most))

    def share(self, mix: Mix, window: int) -> Floats:
        """What neighbours leave of bandwidths, and of the inverse of latencies, [m, k]."""
        members = sorted(mix)
        alone = np.array([self._alone[i, window] for i in members])
        if len(members) == 1:
            return np.where(alone > 0, 1.0, np.nan)
        seen, idle = self._run(members, window)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self._at_least, seen / alone, alone / seen)
        # No I/O of it completed beside others.
        share[np.isnan(seen)] = 0.0
        share[idle] = np.nan
        return np.where(alone > 0, share, np.nan)

    def _run(self, members: Sequence[int], window: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Metrics of members in a window, [m, k], and who had no I/O then; they have NaN."""
        seconds = self._windows.seconds
        busy = [place for place, i in enumerate(members) if self._busy[i][window]]
        seen = np.full((len(members), len(METRICS)), np.nan)
        if busy:
            offered = [(self._parts[members[place]][window], self._depth) for place in busy]
            seen[busy] = np.array(self._drive.run(offered, WARM_SHARE * seconds, seconds))[:, : len(METRICS)]
        return seen[:, self._columns], np.isnan(seen).all(axis=1)


def _last_ns(trace: Trace) -> int:
    """The last arrival; below 0 for a trace without I/O."""
    return trace.last_ns if len(trace) else -1


def _cut(trace: Trace, windows: Windows) -> list[Trace]:
    """The windows of a trace, each from 0."""
    parts = []
    for _ in range(windows.count):
        part, trace = trace.split_at(round(windows.seconds * 1e9))
        parts.append(part)
    return parts


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
    shares = tenants.threads.in_order(
        lambda mix: tenants.share(mix, 0), drawn, lambda done: progress("running random mixes", done, len(drawn))
    )
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
    return Planned(found.drives, found.trials, found.held, ran, found.short, judged, missed, tenants.changed())


def _promised(slo: Slo) -> float:
    """The share that an SLO of a degradation leaves of what a tenant has alone."""
    limit = slo.limit(1.0)
    return (limit if slo.at_least else 1 / limit) - TOLERANCE
