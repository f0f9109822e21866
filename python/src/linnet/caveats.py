# SPDX-License-Identifier: MIT OR Apache-2.0
"""What must be known to read latencies, as sentences, which are empty where there is nothing to say."""

from __future__ import annotations

FEW_READS = 10_000
"""Below this, p99.99 is the slowest read."""


def few_reads(reads: int) -> str:
    """How many reads there are, where so few decide the highest percentiles."""
    if not 0 < reads < FEW_READS:
        return ""
    return f"only {reads:,} read{'s' if reads > 1 else ''}, so the highest percentiles depend on a handful of them"
