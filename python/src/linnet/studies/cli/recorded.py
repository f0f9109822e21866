# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study recorded``: promises that placements break on mixes that real drives ran."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet.cli.options import AsJson
from linnet.cli.output import Bars, print_json, table
from linnet.extras import require
from linnet.place.observations import observe
from linnet.place.splits import FOLDS
from linnet.studies.recorded import KIND, rows_of

COLUMNS = (
    *("source", "slo_percent", "placer", "drives", "violated_percent", "violated_percent_most"),
    *("accepted", "accepted_broken", "refused_kept"),
)


def recorded_command(
    data: Annotated[Path, typer.Option(help="Folder of measured tables (docs/guide/place.md).", show_default=False)],
    slo: Annotated[
        list[float] | None,
        typer.Option(help="Percent by which a latency may pass that of the lightest load; may repeat.", min=0),
    ] = None,
    target: Annotated[str, typer.Option(help="Latency that is promised.")] = "read_latency_p99_us",
    seeds: Annotated[int, typer.Option(help="Shuffles of the division by load.", min=1)] = 5,
    json: AsJson = False,
) -> None:
    """Fill drives to the highest recorded load that each model allows, and count the promises that the record breaks.

    No model has seen the cell that it is asked about, nor the same load of a drive of the same model.

    Example: [bold]linnet study recorded --data colocation/ --slo 50 --slo 100[/]
    """
    require("place", "linnet study recorded")
    found = {source: rows for source, rows in observe(data).items() if source in KIND}
    if not found:
        raise ValueError(f"{data}: neither ssdiq-threads nor icpe-tenants, whose cells differ in load")
    for source, rows in found.items():
        if target not in rows.targets:
            raise typer.BadParameter(f"{source} has {', '.join(rows.targets)}", param_hint="--target")
    with Bars() as bars:
        step = bars.stage("folds", FOLDS * seeds * len(found))
        done = iter(range(1, FOLDS * seeds * len(found) + 1))
        made = list(rows_of(found, target, slo or [50, 100, 150, 200], seeds, lambda: step(next(done))))
    if json:
        print_json({"target": target, "rows": made})
        return
    view = [[f"{row[name]:.1f}" if isinstance(row[name], float) else row[name] for name in COLUMNS] for row in made]
    table(f"promises of {target} on recorded mixes", list(COLUMNS), view, left=3)
