# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study paths``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet._native import workloads
from linnet.cli.options import AsJson, Replicas, Writes, WritesTo, checked_presets
from linnet.cli.output import Bars, warn
from linnet.experiment import Experiment
from linnet.studies.cli.options import Keep, Output, Page, Seeds, Workloads, chosen_of, read_source, tell_ratios
from linnet.studies.grid import Source
from linnet.studies.paths import ROW, cell_rows, summary, table_of
from linnet.studies.worth import reported_seeds
from linnet.studies.worth_grid import IOS, LOADS, MIXED, Cell, SourceTraces, recordings, run_cells, worth_setup

PRESETS = ("970-evo", "600p", MIXED[0])


def paths_command(
    workload: Workloads = None,
    traces: Annotated[
        Path | None, typer.Option(help="A folder of traces: its recordings are run, too.", show_default=False)
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(help="SSD model preset, or one for each replica, separated by commas; may be repeated."),
    ] = None,
    replicas: Replicas = 3,
    writes: WritesTo = Writes.all,
    seeds: Seeds = 5,
    ios: Annotated[int, typer.Option(help="I/Os of each cell's period, all devices together.", min=300)] = IOS,
    keep: Keep = None,
    page: Page = None,
    output: Output = None,
    json: AsJson = False,
) -> None:
    """Measure the parts of a path selector's score: what each CPU keeps, size classes, sampling, age, I/Os in flight.

    Each variant changes one part of a score without a model. Ratios above 1 mean that it is slower than the base. Loads
    are light, busy and overload, as in [bold]linnet study worth[/].

    Example: [bold]linnet study paths -w az-c -w bs-e --preset 970-evo --seeds 2[/]
    """
    sources = [Source(name) for name in chosen_of(workloads(), ",".join(workload) if workload else None, "--workload")]
    if traces is not None:
        found_there, lacking = recordings(traces)
        sources += found_there
        for file in lacking:
            warn(f"{traces / file} does not exist and is left out")
    to_all = writes is Writes.all
    cells = [
        Cell(source, worth_setup(one, replicas, seed, to_all), load, 1.0, ios)
        for one in checked_presets(preset or list(PRESETS))
        for seed in reported_seeds(seeds)
        for source in sources
        for load in LOADS
    ]
    with Bars() as bars:
        step, done = bars.stage("cells", len(cells)), count(1)

        def rows_of(experiment: Experiment, writes: str) -> list[dict[str, Any]]:
            rows = cell_rows(experiment, writes)
            step(next(done))
            return rows

        rows = run_cells(cells, SourceTraces(read_source), bars, keep, warn, rows_of, ROW)
    if not rows:
        raise typer.BadParameter("no cell could be run", param_hint="--traces")
    found = {"rows": rows, "summary": summary(rows)}
    tell_ratios(found, "latency as a multiple of the base's", table_of, output, page, json)
