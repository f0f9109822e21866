# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study``: the tables behind the claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from linnet._native import Trace
from linnet.cli.learn import RATES, measured, rates
from linnet.cli.options import AsJson, Format, Preset, Seed, Share, Traces, check_preset, load_all, parse_policies
from linnet.cli.output import Bars, print_json, table
from linnet.cli.study_drift import drift_command
from linnet.experiment import Experiment, Setup
from linnet.study import MODELS, accuracy

app = typer.Typer(help="The tables behind the claims: accuracy of models, latency of policies.", no_args_is_help=True)

app.command("drift")(drift_command)

Shares = Annotated[str | None, typer.Option(help="Device-wide shares, separated by commas.", show_default=False)]
POLICIES = ("baseline", "shortest-queue", "c3", "hedge-p95", "linnos+hl", "linnet-best", "oracle")


def chosen_of(known: Sequence[str], text: str | None, hint: str) -> list[str]:
    """The names of a comma-separated list, all for none."""
    names = [name.strip() for name in text.split(",")] if text else list(known)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"unknown {name!r}; known: {', '.join(known)}", param_hint=hint)
    return names


@app.command("accuracy")
def accuracy_command(
    trace: Traces = None,
    preset: Preset = None,
    share: Share = None,
    model: Annotated[str | None, typer.Option(help="Models, separated by commas.", show_default="all")] = None,
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Judge every model on the later half of each trace, beside always submitting and a ceiling for the features.

    Example: [bold]linnet study accuracy -t nvme0.csv[/]
    """
    check_preset(preset)
    names = chosen_of(MODELS, model, "--model")
    rows: list[dict[str, Any]] = []
    with Bars() as bars:
        for one in load_all(trace, format, bars):
            for log in measured([one], preset, share, seed, bars):
                step = bars.stage(f"studying {log.name}", 1)
                found = accuracy(log, names, seed)
                step(1)
                rows += [{"preset": preset, "share": share, "seed": seed} | row for row in found]
    if json:
        print_json({"rows": rows})
        return
    shown = [[row["trace"], row["model"], *rates(row)] for row in rows]
    table("accuracy on the later half, by time", ["trace", "model", "rows", *RATES], shown, left=2)


@app.command("latency")
def latency_command(
    trace: Traces = None,
    preset: Preset = "consumer-deep",
    share: Shares = None,
    policy: Annotated[str | None, typer.Option(help="Policies, separated by commas.")] = ",".join(POLICIES),
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Run policies across device-wide shares, one row for each.

    Example: [bold]linnet study latency -t msnfs.trace.zst --share 0.25,0.9[/]
    """
    check_preset(preset)
    names = parse_policies(policy)
    shares: list[float | None] = [None]
    if share:
        try:
            shares = [float(part) for part in share.split(",")]
        except ValueError as error:
            raise typer.BadParameter(f"{share!r} is no list of numbers", param_hint="--share") from error
    rows: list[dict[str, Any]] = []
    with Bars() as bars:
        traces: list[Trace] = load_all(trace, format, bars)
        base = Setup(preset=preset or "consumer-deep", seed=seed)
        for one in shares:
            experiment = Experiment(traces, replace(base, device_wide_share=one), progress=bars)
            rows += [{"share": one} | outcome.row for outcome in experiment.compare(names)]
    if json:
        print_json({"rows": rows})
        return
    keys = ["share", "policy", "mean_us", "p95_us", "p99_us", "p999_us", "extra_io_share"]
    table("latency in us", keys, [[row[k] for k in keys] for row in rows], left=2)
