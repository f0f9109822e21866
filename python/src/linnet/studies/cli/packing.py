# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study packing``: drives that workloads need at each SLO, and the promises that each placer breaks."""

from __future__ import annotations

from typing import Annotated

import typer

from linnet.cli.options import AsJson, Seed
from linnet.cli.output import errors, print_json, table
from linnet.extras import require
from linnet.studies.packing import Study, rows_of


def packing_command(
    workloads: Annotated[int, typer.Option(help="Workloads to be placed.", min=2)] = 1000,
    slo: Annotated[
        list[float] | None, typer.Option(help="SLO, percent of bandwidth; may repeat.", min=0, max=100)
    ] = None,
    forests: Annotated[bool, typer.Option(help="Also fit and use the forests, which takes minutes.")] = True,
    seconds: Annotated[float, typer.Option(help="Time of each solver run.", min=1)] = 20.0,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Count the drives that workloads need at each SLO, and the tenants whose SLO each placement breaks.

    The model of data sheets plays the drive: these are not violations of a real one.

    Example: [bold]linnet study packing --workloads 100 --slo 5 --no-forests[/]
    """
    require("study", "linnet study packing")
    rows = []
    for row in rows_of(Study(workloads, seed), slo or [0, 1, 2, 5, 10, 20], forests, seconds, _say):
        rows.append(row)
        _say(f"{row['slo_percent']:g} % {row['placer']}: {row['drives']} drives, {row['violated']} violated")
    if json:
        print_json({"workloads": workloads, "seed": seed, "rows": rows})
        return
    columns = ["slo_percent", "placer", "drives", "violated"]
    table(f"{workloads} workloads", columns, [[row[name] for name in columns] for row in rows], left=2)


def _say(text: str) -> None:
    errors.print(text, style="dim", markup=False)
