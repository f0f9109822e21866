# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study worth``."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet._native import Trace, workloads
from linnet.cli.compare import Writes
from linnet.cli.options import AsJson, Format, Replicas, Traces, check_preset, complete_preset, load_all
from linnet.cli.output import Bars, console, destination, print_json, table
from linnet.experiment import Experiment, Setup, periods
from linnet.files import write_whole
from linnet.studies.cli.options import Workloads, chosen_of
from linnet.studies.worth import cell_rows, reported_seeds, summary, without_ties

COLUMNS = ("trace", "preset", "seed", "metric", "best_rule", "best_rule_us", "learned_us", "oracle_us", "ratio")


def worth_command(
    trace: Traces = None,
    workload: Workloads = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="Preset or parameter file, of either engine; may be repeated. As many as replicas, separated by "
            "commas, give each device its own.",
            autocompletion=complete_preset,
            show_default="consumer-deep",
        ),
    ] = None,
    replicas: Replicas = 3,
    writes: Annotated[Writes, typer.Option(help="Send writes to all replicas, or to their stream's own device.")] = (
        Writes.all
    ),
    seconds: Annotated[float, typer.Option(help="Length of a --workload, both periods together.", min=1)] = 120.0,
    rerate: Annotated[float, typer.Option(help="Multiply the I/O rate of the traces by this factor.", min=1e-6)] = 1.0,
    seeds: Annotated[int, typer.Option(help="Number of seeds; none of them was used for tuning.", min=1)] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also write the JSON to a file.", callback=destination, show_default=False),
    ] = None,
    format: Format = None,
    json: AsJson = False,
) -> None:
    """Compare linnet-best with the best rule that has no model, in every cell and for every figure.

    A ratio below 1 means that the model is better. The best rule is chosen in each cell after the fact. Seeds that
    parameters were chosen with are not used (linnet/studies/split.toml).

    Example: [bold]linnet study worth -w az-c -w bs-e --preset consumer-deep --seeds 5 --json[/]
    """
    presets = preset or ["consumer-deep"]
    for name in (name for one in presets for name in one.split(",")):
        check_preset(name.strip())
    made = chosen_of(workloads(), ",".join(workload), "--workload") if workload else []
    if not trace and not made:
        raise typer.BadParameter("give --trace once for each device, or --workload", param_hint="--trace")
    rows: list[dict[str, Any]] = []
    with Bars() as bars:
        traces: list[Trace] = load_all(trace, format, bars) if trace else []
        for one in presets:
            for seed in reported_seeds(seeds):
                setup = Setup(preset=one, replicas=replicas, seed=seed, writes_to_all=writes is Writes.all)
                if traces:
                    shuffled = [without_ties(trace, seed).rerate(rerate) for trace in traces]
                    rows += cell_rows(Experiment(shuffled, setup, progress=bars), writes.value)
                for name in made:
                    train, test = periods(name, seconds, setup)
                    train, test = ([trace.rerate(rerate) for trace in part] for part in (train, test))
                    rows += cell_rows(Experiment(train, setup, name, bars, test), writes.value)
    found = {"rows": rows, "summary": summary(rows)}
    if output is not None:
        write_whole(output, dumps(found, indent=1) + "\n")
    if json:
        print_json(found)
        return
    table("linnet-best against the best rule without a model, us", COLUMNS, [[row[k] for k in COLUMNS] for row in rows])
    lines = found["summary"]
    table("all cells", list(lines[0]), [list(line.values()) for line in lines], left=1)
    losses = [row for row in rows if row["ratio"] > 1.02]
    console.print(f"{len(losses)} of {len(rows)} rows are lost by more than 2 %")
