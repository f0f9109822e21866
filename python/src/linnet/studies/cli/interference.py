# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study interference``: the gray-box paper's sensitivity experiments on modelled drives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet.cli.options import AsJson
from linnet.cli.output import Bars, print_json, table
from linnet.extras import require
from linnet.files import check_target, write_whole
from linnet.studies.cli.options import Page, chosen_of
from linnet.studies.interference import RATES, ROW, STATES, TIMES, cases, rows_of
from linnet.studies.interference_page import TITLES, figure_of, page_of, summary
from linnet.studies.kept import Kept


def interference_command(
    drive: Annotated[str | None, typer.Option(help="nvme, sata, or both.", show_default="nvme,sata")] = None,
    state: Annotated[
        str | None, typer.Option(help="State of the drive: new, used, or both.", show_default="new,used")
    ] = None,
    figure: Annotated[
        str | None, typer.Option(help="Figures of the paper, separated by commas.", show_default="3 to 10")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="Append each run to this file of JSON lines; what it has is not run again."),
    ] = None,
    page: Page = None,
    pictures: Annotated[
        Path | None, typer.Option(help="Draw interference-DRIVE.svg into this folder.", file_okay=False, exists=True)
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure what a reader loses to a neighbour that varies one property: the gray-box paper's Figures 3 to 10.

    Each statement of the paper is held against the modelled drive, new and used; what reads waited for is beside it.

    Example: [bold]linnet study interference --drive sata --figure 6,9[/]
    """
    if pictures is not None:
        require("report", "--pictures")
    drives = chosen_of(list(RATES), drive, "--drive")
    states = [one for one in STATES if one in chosen_of(list(STATES), state, "--state")]
    figures = [int(one) for one in chosen_of([str(n) for n in TITLES], figure, "--figure")]
    names = [f"interference-{one}.svg" for one in drives] if pictures is not None else []
    for name in names:
        check_target((pictures or Path()) / name)
    kept = Kept(keep, ROW)
    with Bars() as bars:
        step = bars.stage("runs", sum(len(list(cases(one, figures))) for one in drives) * len(states) * len(TIMES))
        done = 0

        def made(row: dict[str, object]) -> None:
            nonlocal done
            kept.add([row])
            done += 1
            step(done)

        rows = rows_of(drives, states, figures, kept.before, made)
    for one, name in zip(drives, names, strict=False):
        write_whole((pictures or Path()) / name, figure_of(rows, one))
    if page is not None:
        write_whole(page, page_of(rows, names))
    found = summary(rows)
    if json:
        print_json({"rows": rows, **found})
        return
    columns = ["figure", "drive", "state", "depths", "paper", "model", "agrees", "waits"]
    table("the paper's statements", columns, [[one[name] for name in columns] for one in found["verdicts"]], left=8)
