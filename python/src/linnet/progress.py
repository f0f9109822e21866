# SPDX-License-Identifier: MIT OR Apache-2.0
"""What long work tells of its progress."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """Receives the progress of long work. This one ignores it; the command line draws bars."""

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """Begin a stage of ``total`` steps; the function returned is told the steps done so far."""
        del name, total
        return lambda done: None
