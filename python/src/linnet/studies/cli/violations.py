# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study violations``: promises that placements break when their mixes run on the SSD model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from linnet.cli.options import AsJson, Seed
from linnet.cli.output import appended, errors, print_json, table
from linnet.extras import require
from linnet.studies.violations import rows_of
from linnet.studies.violations_mixes import Mixes


def violations_command(
    drive: Annotated[Literal["sata", "nvme"], typer.Option(help="Modelled drive.")] = "sata",
    workloads: Annotated[int, typer.Option(help="Workloads to be placed.", min=16)] = 100,
    slo: Annotated[
        list[float] | None, typer.Option(help="SLO, percent of bandwidth; may repeat.", min=0, max=100)
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs that each placer learns from.", min=20)] = 1500,
    seconds: Annotated[float, typer.Option(help="Measured length of a run.", min=0.1)] = 2.0,
    solver_seconds: Annotated[float, typer.Option(help="Time of each solver run.", min=1)] = 10.0,
    cache: Annotated[Path | None, typer.Option(help="File of runs that were made already.", callback=appended)] = None,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Place workloads by several models, run every drive's mix on the SSD model, and count the tenants that suffer.

    Example: [bold]linnet study violations --workloads 40 --runs 100 --slo 5[/]
    """
    require("study", "linnet study violations")
    rows = []
    for row in rows_of(Mixes(drive, workloads, seconds, seed, cache), slo or [5, 10, 20], runs, solver_seconds, _say):
        rows.append(row)
        _say(f"{row['slo_percent']:g} % {row['placer']}: {row['drives']} drives, {row['violated']} violated")
    if json:
        print_json({"drive": drive, "workloads": workloads, "runs": runs, "seed": seed, "rows": rows})
        return
    columns = ["slo_percent", "placer", "drives", "violated", "violated_percent", "moves"]
    table(f"{workloads} workloads on {drive}", columns, [[row[name] for name in columns] for row in rows], left=2)


def _say(text: str) -> None:
    errors.print(text, style="dim", markup=False)
