# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that several studies share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from linnet.cli.options import complete_workload
from linnet.studies.grid import SHARES

Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        help="Table 1 workloads to generate and run, separated by commas; may be repeated.",
        autocompletion=complete_workload,
        show_default=False,
    ),
]


def chosen_of(known: Sequence[str], text: str | None, hint: str, more: Sequence[str] = ()) -> list[str]:
    """The names of a comma-separated list, all of ``known`` for none; ``more`` are known too."""
    names = [name.strip() for name in text.split(",")] if text else list(known)
    for name in names:
        if name not in known and name not in more:
            raise typer.BadParameter(f"unknown {name!r}; known: {', '.join([*known, *more])}", param_hint=hint)
    return list(dict.fromkeys(names))


def numbers_of(text: str | None, hint: str) -> list[float | None]:
    """The shares of a comma-separated list; that of the preset for none."""
    if text is None or text == "all":
        return [None] if text is None else [*SHARES]
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of numbers", param_hint=hint) from error
    for one in shares:
        if not 0 <= one <= 1:
            raise typer.BadParameter(f"{one} is not a share; shares are 0 to 1", param_hint=hint)
    return [*dict.fromkeys(shares)]
