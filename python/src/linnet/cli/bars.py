# SPDX-License-Identifier: MIT OR Apache-2.0
"""Progress bars, which only a terminal needs: its module of Rich takes as long to import as all of a short command."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


def bars(console: Console) -> Progress:
    """Bars with rates on this console, which vanish at the end."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.speed or 0
        for unit, scale in (("M", 1e6), ("k", 1e3)):
            if speed >= scale:
                return Text(f"{speed / scale:.1f} {unit}/s", style="dim")
        return Text(f"{speed:.0f} /s", style="dim")
