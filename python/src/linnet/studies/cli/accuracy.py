# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study accuracy``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet._native import Trace, defects, presets, workloads
from linnet.cli.learn import RATES, rates
from linnet.cli.options import AsJson, Format, Seed, Traces, complete_preset, load
from linnet.cli.output import Bars, print_json, table, warn
from linnet.extras import require
from linnet.studies.accuracy import CEILING, MODELS, MORE_MODELS
from linnet.studies.cli.options import Workloads, chosen_of, numbers_of
from linnet.studies.grid import MAX_READS, SHARES, Cell, Source, every_cell, run_cells, summary


def accuracy_command(
    trace: Traces = None,
    workload: Workloads = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="SSD model presets, separated by commas, or all. Without it, the traces' own latencies are used.",
            autocompletion=complete_preset,
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            help=f"Device-wide shares, separated by commas, or all ({', '.join(map(str, SHARES))}).",
            show_default="preset",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"Models, separated by commas: {', '.join([*MODELS, *MORE_MODELS])}.", show_default=",".join(MODELS)
        ),
    ] = None,
    max_reads: Annotated[
        int, typer.Option(help="Reads of each simulated device, half for training and half for testing.", min=100)
    ] = MAX_READS,
    defect: Annotated[
        str | None, typer.Option(help=f"Published defects to reproduce: {', '.join(defects())}.", show_default=False)
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--everything", help="Every trace of --traces and every workload, on every preset and share."),
    ] = False,
    traces: Annotated[
        Path | None, typer.Option(help="With --everything: the folder of traces.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Append rows to this file of JSON lines; rows that it has are not computed again.",
            show_default=False,
        ),
    ] = None,
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Test every model on the same later reads of each device, beside always submitting and a ceiling.

    The first half of a trace is for training and the second for testing, unfiltered; a workload is generated as two
    periods. Without --preset the traces' own latencies are used, all of them. A run with --out that was stopped
    continues where it was.

    Example: [bold]linnet study accuracy -t nvme0.csv[/]

    Example: [bold]linnet study accuracy -w az-e --preset enterprise-wide --share 0.5,0.9[/]

    Example: [bold]linnet study accuracy -t nvme0.csv --model linnos,linnet,ceiling[/]

    Example: [bold]linnet study accuracy --everything --traces traces/ --out accuracy.jsonl[/]
    """
    require("study", "linnet study accuracy")
    names = chosen_of(MODELS, model, "--model", MORE_MODELS)
    committed = chosen_of(defects(), defect, "--defect") if defect else []
    if CEILING in names and committed:
        raise typer.BadParameter(
            f"the model {CEILING!r} has no published defects; leave one out", param_hint="--defect"
        )
    chosen: list[str | None] = (
        [*chosen_of(presets(), None if preset == "all" else preset, "--preset")] if preset else []
    )
    shares = numbers_of(share, "--share")
    if everything:
        if traces is None:
            raise typer.BadParameter("--everything needs the folder of traces", param_hint="--traces")
        known = [name for name in chosen if name] or presets()
        cells, lacking = every_cell(traces, known, [s for s in shares if s is not None] or SHARES, seed)
        for file in lacking:
            warn(f"{traces / file} does not exist and is left out of the grid")
    else:
        sources = [Source(path.name, path, format) for path in trace or []]
        made = [Source(name) for one in workload or [] for name in one.split(",")]
        for one in made:
            if one.name not in workloads():
                raise typer.BadParameter(
                    f"unknown workload {one.name!r}; known: {', '.join(workloads())}", param_hint="--workload"
                )
        if not sources and not made:
            raise typer.BadParameter("give --trace, --workload or --everything", param_hint="--trace")
        if made and not chosen:
            raise typer.BadParameter("a workload needs an SSD model to run on", param_hint="--preset")
        cells = [
            Cell(s, p, one if p else None, seed) for s in sources + made for p in chosen or [None] for one in shares
        ]
        cells = list(dict.fromkeys(cells))
    with Bars() as bars:
        loaded: dict[Source, Trace] = {}

        def load_once(source: Source) -> Trace:
            if source not in loaded:
                loaded[source] = load(source.path or Path(source.name), source.format, Bars())
            if not any(c.preset for c in cells if c.source == source) and not loaded[source].has_latency:
                raise typer.BadParameter(
                    f"{source.name} has no latencies; add --preset to run it through the SSD model",
                    param_hint="--trace",
                )
            return loaded[source]

        step = bars.stage("devices", len(cells))
        rows = run_cells(cells, load_once, names, max_reads, out, step, warn, committed)
    if json:
        print_json({"rows": rows, "summary": summary(rows)})
        return
    shown = [[row["trace"], row["preset"], row["share"], row["model"], *rates(row)] for row in rows]
    if not everything:
        columns = ["trace", "preset", "share", "model", "rows", *RATES]
        table("accuracy on later reads", columns, shown, left=4)
    names = ["cells", "n", "counted", "/ LinnOS", "/ Heimdall", "/ trees", "Heimdall / LinnOS"]
    lines = summary(rows)
    if any("against_ceiling" in line for line in lines):
        names.append("/ ceiling")
    table(
        "(1 - AUC) of linnet divided by that of others, geometric means",
        names,
        [[*line.values(), *[None] * (len(names) - len(line))] for line in lines],
    )
