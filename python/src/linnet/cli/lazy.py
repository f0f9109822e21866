# SPDX-License-Identifier: MIT OR Apache-2.0
"""Command groups of the laboratory. ``linnet --help`` lists them; calling one of their commands imports them."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

GROUPS = {
    "bench": ("linnet.studies.cli.bench", "How fast the engine is on this machine."),
    "study": (
        "linnet.studies.cli",
        "Experiments behind the published results: accuracy of models, latency of policies.",
    ),
}
"""Name, module with a Typer ``app``, and help of each."""


class LazyGroup(TyperGroup):
    """A group that imports the commands of its module when they are first needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands."""
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or nothing."""
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands:
            module, _ = GROUPS[str(self.name)]
            self.commands.update(get_group(importlib.import_module(module).app).commands)


def register(app: typer.Typer) -> None:
    """Add the groups of this module."""
    for name, (_, text) in GROUPS.items():
        app.add_typer(typer.Typer(cls=LazyGroup, help=text, no_args_is_help=True), name=name)
