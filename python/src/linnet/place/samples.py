# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads of recorded traces: samples of ten seconds, each of which is a workload (the gray-box paper, section 6)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from linnet._native import TenantError, Trace

SAMPLE_S = 10.0
IOS_LEAST = 50
"""A sample with fewer I/Os says little of a workload, and is left out."""


@dataclass(frozen=True)
class Sample:
    """A part of a trace; a trace that is shorter than a sample is one as a whole."""

    source: str
    """Name of the trace."""
    ios: Trace
    """Arrivals begin at 0."""


def beginning(sample: Trace, size_bytes: float) -> Trace:
    """The first I/Os of a sample that move so many bytes, IOS_LEAST at least; small ones count as a page.

    A run that is shorter than a sample would see another part of it than the profile does.
    """
    columns = sample.columns()
    arrive_ns = columns["arrive_ns"]
    moved = np.cumsum(np.maximum(columns["size_bytes"], 4096.0))
    # Clocks of traces are coarse: the last I/O arrives later than the first.
    count = max(
        int(np.searchsorted(moved, size_bytes)), IOS_LEAST, int(np.searchsorted(arrive_ns, arrive_ns[0], "right"))
    )
    return sample if count >= len(sample) else sample.split_at(int(arrive_ns[count]) + 1)[0]


def samples(traces: Sequence[str], count: int, seed: int) -> list[Sample]:
    """``count`` samples, in turn of each trace while it has any, drawn without overlap.

    Raises TenantError if the traces have fewer, and TraceError if one cannot be read.
    """
    chance = random.Random(f"samples {seed}")
    turns = itertools.zip_longest(*(_samples_of(trace, chance) for trace in traces))
    found = list(itertools.islice((sample for turn in turns for sample in turn if sample), count))
    if len(found) < count:
        raise TenantError(
            f"the traces have {len(found)} samples of {SAMPLE_S:g} s with {IOS_LEAST} I/Os or more, and {count} "
            "workloads are asked for; give more traces, or fewer --workloads"
        )
    return found


def _samples_of(path: str, chance: random.Random) -> Iterator[Sample]:
    whole = Trace.read(path)
    arrive_ns = whole.columns()["arrive_ns"]
    seconds = float(arrive_ns[-1]) / 1e9 if len(arrive_ns) else 0.0
    parts = [part for part in whole.slices(max(1, round(seconds / SAMPLE_S))) if len(part) >= IOS_LEAST]
    chance.shuffle(parts)
    for part in parts:
        yield Sample(whole.name, part)
