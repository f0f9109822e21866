# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ways of reading a file that a calibration runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """One way of reading. Lengths are in pages of 4 KiB."""

    how: str
    """mmap or pread."""
    order: str
    """seq, reverse, random, runs, strided, mixed."""
    block: int = 1
    """Pages of one read."""
    length: int = 1
    """runs: pages of a run; strided: pages from one read to the next."""

    @property
    def name(self) -> str:
        """As tables show it."""
        size = f" {4 * self.block} KiB" if self.how == "pread" else ""
        length = f" {self.length}" if self.order in ("runs", "strided") else ""
        return f"{self.how} {self.order}{length}{size}"


QUICK = (
    Pattern("mmap", "seq"),
    Pattern("mmap", "reverse"),
    Pattern("mmap", "random"),
    Pattern("mmap", "runs", length=16),
    Pattern("pread", "seq", block=4),
    Pattern("pread", "random"),
    Pattern("pread", "runs", length=16),
    Pattern("mmap", "mixed"),
)
"""The least that shows every order."""

FULL = (
    *QUICK,
    Pattern("mmap", "runs", length=4),
    Pattern("mmap", "runs", length=64),
    Pattern("mmap", "strided", length=8),
    Pattern("mmap", "strided", length=64),
    Pattern("pread", "seq", block=32),
    Pattern("pread", "reverse", block=4),
    Pattern("pread", "random", block=4),
    Pattern("pread", "runs", length=64),
    Pattern("pread", "strided", length=8),
    Pattern("pread", "mixed"),
)
"""Run lengths and strides about the powers of two between which the best value changes."""
