# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study worth``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet._native import workloads
from linnet.cli.options import (
    AsJson,
    ClosedLoop,
    Format,
    Presets,
    Rebuilt,
    Replicas,
    Rerate,
    Seconds,
    Stalls,
    Traces,
    Writes,
    WritesTo,
    checked_presets,
    load_all,
)
from linnet.cli.output import Bars, console, table, warn
from linnet.studies.cli.options import Keep, Output, Page, Seeds, Workloads, chosen_of, delivered, read_source
from linnet.studies.grid import Source
from linnet.studies.worth import LOST, reported_seeds, summary
from linnet.studies.worth_fair import fair
from linnet.studies.worth_grid import IOS, Cell, SourceTraces, changed, every_cell, run_cells, worth_setup
from linnet.studies.worth_page import page_of

COLUMNS = ("trace", "preset", "seed", "metric", "best_rule", "best_rule_us", "learned_us", "oracle_us", "ratio")


def worth_command(
    trace: Traces = None,
    workload: Workloads = None,
    preset: Presets = None,
    replicas: Replicas = 3,
    writes: WritesTo = Writes.all,
    seconds: Seconds = 120.0,
    rerate: Rerate = 1.0,
    seeds: Seeds = 5,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything",
            help="Every workload and every trace of --traces, on arrays of both engines, equal and mixed, under three "
            "loads.",
        ),
    ] = False,
    traces: Annotated[
        Path | None, typer.Option(help="With --everything: the folder of traces.", show_default=False)
    ] = None,
    ios: Annotated[
        int, typer.Option(help="With --everything: I/Os of each period, all devices together.", min=300)
    ] = IOS,
    limit: Annotated[
        int | None, typer.Option(help="With --everything: run the first cells only.", min=1, show_default="all")
    ] = None,
    stalls: Stalls = 0.0,
    rebuilt: Rebuilt = 0,
    closed_loop: ClosedLoop = None,
    keep: Keep = None,
    page: Page = None,
    output: Output = None,
    format: Format = None,
    json: AsJson = False,
) -> None:
    """Compare linnet-best with the best rule that has no model, in every cell and for every figure.

    A ratio below 1 means that the model is better. The best rule is chosen in each cell after the fact. Seeds that
    parameters were chosen with are not used (linnet/studies/split.toml). I/Os of a trace that arrive at the same time
    are put in an order that a hash draws. A run with --keep that was stopped continues where it was.

    Example: [bold]linnet study worth -w az-c -w bs-e --preset consumer-deep --seeds 5 --json[/]

    Example: [bold]linnet study worth --everything --traces traces/ --keep worth.jsonl --page worth.md[/]
    """
    to_all = writes is Writes.all
    if everything:
        if traces is None:
            raise typer.BadParameter("--everything needs the folder of traces", param_hint="--traces")
        if trace or workload or preset:
            raise typer.BadParameter("it chooses traces, workloads and presets itself", param_hint="--everything")
        cells, lacking = every_cell(traces, seeds, to_all, ios)
        cells = cells[:limit]
        for file in lacking:
            warn(f"{traces / file} does not exist and is left out of the grid")
    else:
        cells = asked_cells(trace, workload, checked_presets(preset), replicas, to_all, seeds, rerate, seconds)
    cells = changed(cells, stalls_per_minute=stalls, rebuilt=rebuilt, closed_loop=closed_loop)
    with Bars() as bars:
        given = load_all(trace, format, bars) if trace and not everything else []
        rows = run_cells(cells, SourceTraces(read_source, given), bars, keep, warn)
    if not rows:
        raise typer.BadParameter("no cell could be run", param_hint="--everything" if everything else "--trace")
    found = {"rows": rows, "summary": summary(rows), "fair": fair(rows)}
    if delivered(found, lambda: page_of(rows), output, page, json):
        return
    table("linnet-best against the best rule without a model, us", COLUMNS, [[row[k] for k in COLUMNS] for row in rows])
    lines = found["summary"]
    table("all cells", list(lines[0]), [list(line.values()) for line in lines], left=1)
    losses = [row for row in rows if row["ratio"] > LOST]
    console.print(f"{len(losses)} of {len(rows)} rows are lost by more than 2 %")


def asked_cells(
    trace: list[Path] | None,
    workload: list[str] | None,
    presets: list[str],
    replicas: int,
    writes_to_all: bool,
    seeds: int,
    rate: float,
    seconds: float,
) -> list[Cell]:
    """The cells of the traces and workloads that were named, at the rate that was asked for."""
    sources = [Source("+".join(path.name for path in trace), trace[0])] if trace else []
    sources += [Source(name) for name in chosen_of(workloads(), ",".join(workload), "--workload")] if workload else []
    if not sources:
        raise typer.BadParameter("give --trace once for each device, or --workload", param_hint="--trace")
    return [
        Cell(source, worth_setup(one, replicas, seed, writes_to_all), None, rate, None, seconds)
        for one in presets
        for seed in reported_seeds(seeds)
        for source in sources
    ]
