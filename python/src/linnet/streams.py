# SPDX-License-Identifier: MIT OR Apache-2.0
"""The streams of an array: one trace for each device, on one time axis.

Most of what makes the replicas of a read slow together are bursts that reach all devices at one moment. Each trace
begins at its own first I/O, so traces of one recording are put back where their common clock has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from linnet import _native
from linnet._native import Trace

APART = "the traces may not have begun together"
"""What is doubtful of traces without a common clock."""


def spread(traces: Sequence[Trace], devices: int) -> list[Trace]:
    """One trace for each device: fewer traces than devices are cut into equal time slices."""
    if not traces:
        raise _native.Error("no trace given")
    if len(traces) > devices:
        raise _native.Error(
            f"{len(traces)} traces for {devices} device{'s' if devices > 1 else ''}: give one trace for each device, "
            f"or set replicas to {len(traces)}"
        )
    share, more = divmod(devices, len(traces))
    slices: list[Trace] = []
    for i, trace in enumerate(traces):
        pieces = share + (i < more)
        slices += [trace] if pieces == 1 else trace.slices(pieces)
    return slices


class Together(NamedTuple):
    """Traces of one array, as far as their clocks tell how they lie beside each other."""

    traces: list[Trace]
    """On a common clock, all begin where the first of them does. Otherwise each begins at its own first I/O."""
    end_ns: int | None
    """When the last of them ends; ``None`` without a common clock."""
    note: str | None
    """Why traces that were recorded may lie beside each other otherwise than on the devices."""

    def split(self, share: float) -> list[tuple[Trace, Trace]]:
        """Each trace in two at this share of its time, on a common clock all at one moment."""
        if self.end_ns is None:
            return [trace.split(share) for trace in self.traces]
        return [trace.split_at(int(self.end_ns * share)) for trace in self.traces]


def together(traces: Sequence[Trace], devices: int | None = None) -> Together:
    """Put traces where their common clock has them, and cut them into slices where there are more ``devices``.

    Traces that were made begin together. Slices are other times of one trace, so no clock tells how they lie.
    """
    given = list(traces) if devices is None else spread(traces, devices)
    if len(traces) < 2 or all(trace.made for trace in traces) or one_recording(traces):
        return Together(given, None, None)
    if len(given) > len(traces):
        return Together(given, None, f"{APART}: there are fewer than devices, so they are cut into slices of time")
    origins = [trace.origin_ns for trace in traces]
    known = [origin for origin in origins if origin is not None]
    if len(known) < len(traces):
        lacking = next(trace for trace, origin in zip(traces, origins, strict=True) if origin is None)
        why = f"{lacking.name} ({lacking.format}) does not tell when it began on a clock that others share"
        return Together(given, None, f"{APART}: {why}")
    if not any(known):
        return Together(given, None, f"{APART}: all begin at 0, as files do that were converted")
    ends = [origin + trace.last_ns for trace, origin in zip(traces, known, strict=True)]
    if max(known) > min(ends):
        return Together(given, None, f"{APART}: by their clocks they are of different times")
    delays = [origin - min(known) for origin in known]
    placed = [trace.delayed(by_ns) if by_ns else trace for trace, by_ns in zip(given, delays, strict=True)]
    return Together(placed, max(ends) - min(known), None)


def one_recording(traces: Sequence[Trace]) -> bool:
    """Whether all are one trace that was given several times."""
    return len({(trace.name, len(trace), trace.origin_ns, trace.last_ns) for trace in traces}) == 1
