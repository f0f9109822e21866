# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study latency``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any

import typer

from linnet._native import Trace, presets, workloads
from linnet.cli.options import AsJson, Format, Seconds, Traces, complete_preset, load_all, parse_policies
from linnet.cli.output import Bars, print_json, table
from linnet.experiment import Experiment, Setup, periods
from linnet.extras import require
from linnet.studies.cli.options import Workloads, chosen_of, numbers_of
from linnet.studies.latency import limit as limit_of
from linnet.studies.latency import summary, with_ways

Shares = Annotated[str | None, typer.Option(help="Device-wide shares, separated by commas.", show_default=False)]
POLICIES = ("baseline", "shortest-queue", "c3", "hedge-p95", "linnos+hl", "linnet-best", "oracle")


def latency_command(
    trace: Traces = None,
    workload: Workloads = None,
    preset: Annotated[
        str, typer.Option(help="SSD model presets, separated by commas, or all.", autocompletion=complete_preset)
    ] = "consumer-deep",
    share: Shares = None,
    policy: Annotated[str, typer.Option(help="Policies, separated by commas.")] = ",".join(POLICIES),
    seconds: Seconds = 120.0,
    limit: Annotated[
        bool,
        typer.Option("--limit", help="Also estimate, by boosted trees, what any predictor on the host could gain."),
    ] = False,
    format: Format = None,
    seed: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0",
    json: AsJson = False,
) -> None:
    """Run policies across presets and device-wide shares, and compare their gains with the oracle's.

    The columns way_... are shares of the possible gain: the gain over the baseline divided by the oracle's. The last
    lines are geometric means over all cells. --limit adds the gain of boosted trees that see everything a host can see
    of every replica (limit), and that of linnet-best's own choices in the same states (step). Both choose once and
    never send a second copy.

    Example: [bold]linnet study latency -t msnfs.trace.zst --share 0.25,0.9[/]
    """
    if limit:
        require("study", "--limit")
    names = parse_policies([policy])
    arrays = list(presets()) if preset == "all" else chosen_of(presets(), preset, "--preset")
    made = chosen_of(workloads(), ",".join(workload), "--workload") if workload else []
    try:
        seeds = [int(part) for part in seed.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{seed!r} is not a list of whole numbers", param_hint="--seed") from error
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
    lines = summary(rows)
    if json:
        print_json({"rows": rows, "summary": lines})
        return
    ways = [key for key in ("way_mean", "way_p999", "limit_mean", "limit_p999") if any(key in row for row in rows)]
    keys = ["trace", "preset", "share", "policy", "mean_us", "p99_us", "p999_us", "extra_io_share"]
    shown = [[row[k] for k in keys] + [percent_of(row.get(k)) for k in ways] for row in rows]
    table("latency in us, and the share of the possible gain", keys + ways, shown, left=4)
    if len({(row["trace"], row["preset"], row["share"], row["seed"]) for row in rows}) > 1 and lines:
        keys = ["policy", "cells", "mean", "p99", "p999", "extra_io_share"]
        ways = ["way_mean", "way_p99", "way_p999"]
        shown = [[line[k] for k in keys] + [percent_of(line[k]) for k in ways] for line in lines]
        table("relative to the baseline, geometric means; highest extra I/O", keys + ways, shown, left=1)


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
