# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles of workloads (spec/profile.md), from traces of any known format and from fio job files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from linnet import _native
from linnet._native import TenantProfile, Trace, TraceError
from linnet.files import read_bounded
from linnet.lenient import left_out
from linnet.place import moments
from linnet.place.words import FEATURES, Profile

WINDOW_MS = 100.0
"""Default width of the windows of the standard deviations; docs/design/profile.md has the study."""

STREAMS = 32
"""Default number of latest I/Os that a sequential I/O may continue."""

JOB_FILES = (".fio", ".job")
"""Endings of fio job files."""

JOB_BYTES_MAX = 1 << 20
"""Longest fio job file."""

_PLAIN = ("csv", "tsv", "txt", "log", "trace", "trc", "vscsitrace", "zst", "zstd", "gz")
"""Endings of text, of traces of any format, and of compression. Readers go by what a file has, not by its name."""
_FORMATS = [part for name, _ in _native.trace_formats() for part in (name, name.rpartition("-")[2])]
TRACE_SUFFIX = re.compile(rf"\.(blktrace\.\d+|{'|'.join((*_PLAIN, *_FORMATS))})$", re.IGNORECASE)
"""Endings that say how a trace is written: what stands before them names the workload. A CPU's part of a blktrace is
read with the others.
"""

TenantFrom = Literal["device"] | None


@dataclass(frozen=True)
class Phase:
    """A phase of a workload: its intervals in seconds, and its own profile."""

    number: int
    intervals: tuple[tuple[float, float], ...]
    profile: TenantProfile


@dataclass(frozen=True)
class Measured:
    """A workload's profile, and where it comes from."""

    name: str
    source: str
    profile: TenantProfile
    tenant: int | None = None
    phases: tuple[Phase, ...] = field(default=())

    def words(self) -> Profile:
        """The profile as models and placement take it: the features that are not zero, by name."""
        return Profile(self.name, features_of(self.profile))

    def row(self) -> dict[str, Any]:
        """The profile as JSON; every feature is there."""
        profile = self.profile
        found: dict[str, Any] = {
            "name": self.name,
            "source": self.source,
            "tenant": self.tenant,
            "features": _all(profile),
            "ios": profile.ios,
            "duration_s": profile.duration_s,
            "window_ms": profile.window_ms,
            "windows": profile.windows,
            "depth_from": profile.depth_from,
            "signature": profile.signature,
            "burstiness": [
                {"window_ms": width, "windows": count, "read_rate_std": reads, "write_rate_std": writes}
                for width, count, reads, writes in profile.by_window
                if count >= 2
            ],
        }
        if self.phases:
            found["phases"] = [
                {
                    "phase": phase.number,
                    "intervals_s": [list(one) for one in phase.intervals],
                    "features": _all(phase.profile),
                }
                for phase in self.phases
            ]
        return found


def _all(profile: TenantProfile) -> dict[str, float]:
    return dict(zip(FEATURES, profile.features.tolist(), strict=True))


def features_of(profile: TenantProfile) -> dict[str, float]:
    """Features that are not zero, by name."""
    return {name: value for name, value in _all(profile).items() if value}


def from_file(
    path: str | os.PathLike[str],
    format: str | None = None,
    lenient: bool = False,
    tenant_from: TenantFrom = None,
    window_ms: float = WINDOW_MS,
    streams: int = STREAMS,
    progress: Callable[[int, int], bool | None] | None = None,
) -> tuple[list[Measured], list[str]]:
    """Profile the tenants of a trace, read by arrival in bounded memory, or the jobs of a fio job file.

    A trace that is far out of order is sorted in the directory for temporary files. Returns the profiles and the
    reader's warnings, with what ``lenient`` left out. ``progress(bytes, total bytes)`` may return False to stop. Raises
    TraceError with file, record and field, TenantError for a job file that declares no load, OSError for a long one.
    """
    path = Path(path)
    if path.suffix in JOB_FILES:
        try:
            text = read_bounded(path, JOB_BYTES_MAX).decode()
        except UnicodeDecodeError as error:
            raise TraceError(f"{path}: not a fio job file: {error.reason} at byte {error.start}") from error
        jobs = _native.declared_profiles(path, text)
        return [Measured(name, str(path), profile) for name, profile in jobs], []
    found, _, skipped, warnings = _native.profile_file(path, format, lenient, tenant_from, window_ms, streams, progress)
    lost = left_out(skipped) if lenient else None
    return _named(path, found), warnings if lost is None else [*warnings, lost]


def with_phases(
    path: str | os.PathLike[str],
    format: str | None = None,
    tenant_from: TenantFrom = None,
    window_ms: float = WINDOW_MS,
    streams: int = STREAMS,
    trace: Trace | None = None,
) -> list[Measured]:
    """Profile the tenants of a trace, and each phase of a tenant that has several. Holds the trace in memory.

    ``trace`` is what ``path`` has, if it is read already.
    """
    path = Path(path)
    trace = Trace.read(path, format, tenant_from=tenant_from) if trace is None else trace
    whole = _named(path, _native.profile_trace(trace, window_ms, streams))
    found = []
    for one in whole:
        parts: dict[int, list[tuple[float, float]]] = {}
        for number, start, end in one.profile.phases():
            parts.setdefault(number, []).append((start, end))
        phases = []
        for number, intervals in parts.items() if len(parts) > 1 else ():
            own = dict(_native.profile_trace(trace, window_ms, streams, intervals=intervals))
            if one.tenant in own:
                phases.append(Phase(number, tuple(intervals), own[one.tenant]))
        found.append(Measured(one.name, one.source, one.profile, one.tenant, tuple(phases)))
    return found


def workload_name(path: Path) -> str:
    """A trace's file name without the endings that say how it is written."""
    name = path.name
    while (shorter := TRACE_SUFFIX.sub("", name)) not in (name, ""):
        name = shorter
    return name


def _named(path: Path, found: Sequence[tuple[int, TenantProfile]]) -> list[Measured]:
    stem = workload_name(path)
    if len(found) == 1:
        tenant, profile = found[0]
        return [Measured(stem, str(path), profile, tenant)]
    return [Measured(f"{stem}:{tenant}", str(path), profile, tenant) for tenant, profile in found]


def aggregate(profiles: Sequence[Profile], name: str = "neighbours") -> Profile:
    """One profile of several, as if their bursts were independent (spec/profile.md); of none, zeros."""
    whole = _native.aggregate_features(moments.rows(profiles))
    return Profile(name, {feature: value for feature, value in zip(FEATURES, whole.tolist(), strict=True) if value})
