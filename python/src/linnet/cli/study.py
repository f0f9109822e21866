# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study``: the tables behind the claims."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet._native import Trace, defects, presets, workloads
from linnet.cli.learn import RATES, rates
from linnet.cli.options import (
    AsJson,
    Format,
    Seed,
    Traces,
    complete_preset,
    complete_workload,
    load,
    load_all,
    parse_policies,
)
from linnet.cli.output import Bars, print_json, table, warn
from linnet.cli.study_drift import drift_command
from linnet.cli.study_probing import probing_command
from linnet.cli.study_shapes import shapes_command
from linnet.experiment import Experiment, Setup, periods
from linnet.grid import MAX_READS, SHARES, Cell, Source, every_cell, run_cells, summary
from linnet.latency import limit as limit_of
from linnet.latency import summary as summary_of_latency
from linnet.latency import with_ways
from linnet.study import MODELS, MORE_MODELS

app = typer.Typer(help="The tables behind the claims: accuracy of models, latency of policies.", no_args_is_help=True)

app.command("drift")(drift_command)
app.command("probing")(probing_command)
app.command("shapes")(shapes_command)

Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        help="Table 1 workloads to make and run, separated by commas; may be repeated.",
        autocompletion=complete_workload,
        show_default=False,
    ),
]
Shares = Annotated[str | None, typer.Option(help="Device-wide shares, separated by commas.", show_default=False)]
POLICIES = ("baseline", "shortest-queue", "c3", "hedge-p95", "linnos+hl", "linnet-best", "oracle")


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
        raise typer.BadParameter(f"{text!r} is no list of numbers", param_hint=hint) from error
    for one in shares:
        if not 0 <= one <= 1:
            raise typer.BadParameter(f"{one} is not a share; shares are 0 to 1", param_hint=hint)
    return [*dict.fromkeys(shares)]


@app.command("accuracy")
def accuracy_command(
    trace: Traces = None,
    workload: Workloads = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="SSD model presets, separated by commas, or all; none uses the traces' own latencies.",
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
        int, typer.Option(help="Reads of each simulated device, half to learn from and half to judge on.", min=100)
    ] = MAX_READS,
    defect: Annotated[
        str | None, typer.Option(help=f"Published defects to commit: {', '.join(defects())}.", show_default=False)
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
            "--out", "-o", help="Append rows to this file of JSON lines; skip what it has.", show_default=False
        ),
    ] = None,
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Judge every model on the same later reads of each device, beside always submitting and a ceiling.

    The first half of a trace learns and the later half judges, unfiltered; a workload is made as two periods. Without
    --preset the traces' own latencies count, all of them. A run with --out that was stopped goes on where it was.

    Example: [bold]linnet study accuracy -t nvme0.csv[/]

    Example: [bold]linnet study accuracy -w az-e --preset enterprise-wide --share 0.5,0.9[/]

    Example: [bold]linnet study accuracy --everything --traces traces/ --out accuracy.jsonl[/]
    """
    names = chosen_of(MODELS, model, "--model", MORE_MODELS)
    committed = chosen_of(defects(), defect, "--defect") if defect else []
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
            warn(f"{traces / file} is not there; the grid is smaller by it")
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
                    f"{source.name} carries no latencies; add --preset to run it through the SSD model",
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
    table(
        "(1 - AUC) of linnet over that of others, geometric means",
        ["cells", "n", "counted", "/ LinnOS", "/ Heimdall", "/ trees", "Heimdall / LinnOS"],
        [list(line.values()) for line in summary(rows)],
    )


@app.command("latency")
def latency_command(
    trace: Traces = None,
    workload: Workloads = None,
    preset: Annotated[
        str, typer.Option(help="SSD model presets, separated by commas, or all.", autocompletion=complete_preset)
    ] = "consumer-deep",
    share: Shares = None,
    policy: Annotated[str | None, typer.Option(help="Policies, separated by commas.")] = ",".join(POLICIES),
    seconds: Annotated[float, typer.Option(help="Length of a --workload, both periods together.", min=1)] = 120.0,
    limit: Annotated[bool, typer.Option("--limit", help="Also ask boosted trees how far a host could go.")] = False,
    format: Format = None,
    seed: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    json: AsJson = False,
) -> None:
    """Run policies across presets and device-wide shares, and tell how far each goes from baseline to oracle.

    The last lines are geometric means over all cells. --limit adds how far boosted trees go that see of every
    replica what a host can see (limit), and linnet-best's own choices beside them, in the same states (step); both
    choose once and never send a second copy.

    Example: [bold]linnet study latency -t msnfs.trace.zst --share 0.25,0.9[/]
    """
    names = parse_policies(policy)
    arrays = list(presets()) if preset == "all" else chosen_of(presets(), preset, "--preset")
    made = chosen_of(workloads(), ",".join(workload), "--workload") if workload else []
    try:
        seeds = [int(part) for part in seed.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{seed!r} is no list of whole numbers", param_hint="--seed") from error
    rows: list[dict[str, Any]] = []
    with Bars() as bars:
        traces: list[Trace] = load_all(trace, format, bars) if trace or not made else []
        for array, one, number in product(arrays, numbers_of(share, "--share"), seeds):
            setup = Setup(preset=array, seed=number, device_wide_share=one)
            experiments = [Experiment(traces, setup, progress=bars)] if traces else []
            for name in made:
                train, test = periods(name, seconds, setup)
                experiments.append(Experiment(train, setup, name, progress=bars, test=test))
            for experiment in experiments:
                rows += cell_rows(experiment, one, names, limit)
    lines = summary_of_latency(rows)
    if json:
        print_json({"rows": rows, "summary": lines})
        return
    ways = [key for key in ("way_mean", "way_p999", "limit_mean", "limit_p999") if any(key in row for row in rows)]
    keys = ["trace", "preset", "share", "policy", "mean_us", "p99_us", "p999_us", "extra_io_share"]
    shown = [[row[k] for k in keys] + [percent_of(row.get(k)) for k in ways] for row in rows]
    table("latency in us, and the way from baseline to oracle", keys + ways, shown, left=4)
    if len({(row["trace"], row["preset"], row["share"], row["seed"]) for row in rows}) > 1 and lines:
        keys = ["policy", "cells", "mean", "p99", "p999", "extra_io_share"]
        ways = ["way_mean", "way_p99", "way_p999"]
        shown = [[line[k] for k in keys] + [percent_of(line[k]) for k in ways] for line in lines]
        table("over the baseline's, geometric means; most extra I/O", keys + ways, shown, left=1)


def cell_rows(experiment: Experiment, share: float | None, names: Sequence[str], limits: bool) -> list[dict[str, Any]]:
    """The rows of one cell; with limits, those stand in the row of linnet-best, or else of the last policy."""
    outcomes = with_ways([{"share": share} | outcome.row for outcome in experiment.compare(names)])
    if limits:
        at = names.index("linnet-best") if "linnet-best" in names else len(names) - 1
        outcomes[at] |= limit_of(experiment, seed=experiment.setup.seed)
    return outcomes


def percent_of(part: float | None) -> str:
    """A share in percent; a dash for none."""
    return "-" if part is None else f"{100 * part:.0f} %"
