# SPDX-License-Identifier: MIT OR Apache-2.0
"""What must be known to read latencies, as sentences, which are empty where there is nothing to say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linnet._native import Trace

FEW_READS = 10_000
"""Below this, p99.99 is the slowest read."""


def few_reads(reads: int) -> str:
    """How many reads there are, where so few decide the highest percentiles."""
    if not 0 < reads < FEW_READS:
        return ""
    return f"only {reads:,} read{'s' if reads > 1 else ''}, so the highest percentiles depend on a handful of them"


def folded(traces: Sequence[Trace], capacity_bytes: int) -> str:
    """How many I/Os lie beyond the end of the modelled drives, the smallest of which has ``capacity_bytes``."""
    beyond = sum(int((trace.columns()["offset_bytes"] >= capacity_bytes).sum()) for trace in traces)
    if not beyond:
        return ""
    return (
        f"{beyond:,} of {sum(map(len, traces)):,} I/Os lie beyond the end of the modelled drive, "
        f"{capacity_bytes / 2**30:.1f} GiB, and go to where they are modulo its size"
    )
