# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study informed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet.cli.options import AsJson, Stalls
from linnet.cli.output import Bars, warn
from linnet.studies.cli.options import Keep, Output, Page, Seeds, read_source, tell_ratios
from linnet.studies.informed import ROW, cell_rows, sample, summary, table_of
from linnet.studies.worth_grid import IOS, SourceTraces, changed, every_cell, run_cells


def informed_command(
    traces: Annotated[Path, typer.Option(help="The folder of traces.", exists=True, file_okay=False)],
    cells: Annotated[int, typer.Option(help="Cells of the grid of linnet study worth, drawn at random.", min=1)] = 60,
    seeds: Seeds = 5,
    ios: Annotated[int, typer.Option(help="I/Os of each period, all devices together.", min=300)] = IOS,
    stalls: Stalls = 0.0,
    keep: Keep = None,
    page: Page = None,
    output: Output = None,
    json: AsJson = False,
) -> None:
    """Measure what linnet-best would gain from a model of a given accuracy, up to one that is always right.

    Its trees are replaced by foresight with errors. Cells are drawn from the grid of [bold]linnet study worth[/], those
    whose drives have foresight.

    Example: [bold]linnet study informed --traces traces/ --cells 60 --page informed.md[/]
    """
    grid, lacking = every_cell(traces, seeds, True, ios)
    for file in lacking:
        warn(f"{traces / file} does not exist and is left out of the grid")
    with Bars() as bars:
        rows = run_cells(
            changed(sample(grid, cells), stalls_per_minute=stalls),
            SourceTraces(read_source),
            bars,
            keep,
            warn,
            cell_rows,
            ROW,
        )
    if not rows:
        raise typer.BadParameter("no cell could be run", param_hint="--cells")
    found = {"rows": rows, "summary": summary(rows)}
    tell_ratios(found, "latency as a multiple of the rival's", table_of, output, page, json)
