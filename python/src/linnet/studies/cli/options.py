# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that several studies share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet._native import Trace
from linnet.cli.options import complete_workload, load
from linnet.cli.output import Bars, destination, print_json, table
from linnet.files import write_whole
from linnet.studies.grid import SHARES, Source

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

Seeds = Annotated[int, typer.Option(help="Number of seeds; none of them was used for tuning.", min=1)]
Keep = Annotated[
    Path | None,
    typer.Option(
        help="Append the rows of each cell to this file of JSON lines; cells that it has are not run again.",
        show_default=False,
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(help="Write the result as a page in Markdown to this file.", callback=destination, show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Also write the JSON to a file.", callback=destination, show_default=False),
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


def read_source(source: Source) -> Trace:
    """Read the recording or generate the workload that a source names; pass on the reader's warnings."""
    return load(source.path or Path(source.name), source.format, Bars())


def delivered(
    found: dict[str, Any], text: Callable[[], str], output: Path | None, page: Path | None, json: bool
) -> bool:
    """Write what was found to the files that were asked for, and print it as JSON if that was; whether it was."""
    if output is not None:
        write_whole(output, dumps(found, indent=1) + "\n")
    if page is not None:
        write_whole(page, text())
    if json:
        print_json(found)
    return json


def tell_ratios(
    found: dict[str, list[dict[str, Any]]],
    title: str,
    table_of: Callable[[Sequence[dict[str, Any]]], str],
    output: Path | None,
    page: Path | None,
    json: bool,
) -> None:
    """Write rows and summary where they were asked for; without JSON, print the summary without its intervals."""
    lines = found["summary"]
    if delivered(found, lambda: table_of(lines), output, page, json):
        return
    columns = [name for name in lines[0] if "95" not in name]
    shown = [[f"{line[k]:.3f}" if isinstance(line[k], float) else line[k] for k in columns] for line in lines]
    table(title, columns, shown, left=1)
