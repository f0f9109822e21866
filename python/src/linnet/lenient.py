# SPDX-License-Identifier: MIT OR Apache-2.0
"""What lenient reading of a trace leaves out, in words."""

from __future__ import annotations

from collections.abc import Mapping

INVALID = ("malformed", "truncated", "absurd time")
"""Reasons for which lenient reading leaves records out (spec/trace-record.md)."""


def left_out(skipped: Mapping[str, int]) -> str | None:
    """How many invalid records were left out, of all that were skipped for a reason; None for none."""
    found = {reason: skipped[reason] for reason in INVALID if skipped.get(reason)}
    if not found:
        return None
    parts = ", ".join(f"{reason} {count:,}" for reason, count in found.items())
    return f"invalid records were left out: {sum(found.values()):,} ({parts})"
