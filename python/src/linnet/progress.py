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

    def by_stage(self, prefix: str = "") -> Callable[[str, int, int], None]:
        """Progress of work that names its stages: told a stage, its steps done and all of them.

        A stage begins when it is first named, under ``prefix``.
        """
        steps: dict[str, Callable[[int], None]] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in steps:
                steps[stage] = self.stage(prefix + stage, total)
            steps[stage](done)

        return progress
