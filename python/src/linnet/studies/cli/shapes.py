# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study shapes``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from linnet._native import Network
from linnet.cli.learn import measured
from linnet.cli.options import AsJson, Format, Preset, Seed, Share, Traces, check_preset, load_all, picture_destination
from linnet.cli.output import Bars, percent, print_json, table
from linnet.extras import require, require_bench
from linnet.files import write_whole
from linnet.learning import FitSettings
from linnet.studies.shapes import E_LAYERS, SHAPES, TREES, UNTRAINED, accuracies, cost, means, untrained
from linnet.studies.shapes_figure import shapes_svg

KNOWN = (*SHAPES, UNTRAINED, TREES)


def shapes_command(
    trace: Traces = None,
    preset: Preset = None,
    share: Share = None,
    shape: Annotated[str | None, typer.Option(help="Shapes, separated by commas.", show_default="all")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training rows.", min=1)] = FitSettings.epochs,
    max_rows: Annotated[
        int | None, typer.Option(help="Train on at most this many rows.", min=1, show_default="all")
    ] = None,
    blocks: Annotated[int, typer.Option(help="Blocks of 64 calls that are timed; 0 for none.", min=0)] = 1001,
    figure: Annotated[
        Path | None,
        typer.Option(help="Write a figure to this .svg file.", callback=picture_destination, show_default=False),
    ] = None,
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Measure what history, width and depth gain and cost: Table 3 of LinnOS, its models A to E and ours.

    Each trace is split by time: the first half is for training, the second for testing, unfiltered.

    Example: [bold]linnet study shapes -t nvme0.csv --shape A,linnos,linnet --figure shapes.svg[/]
    """
    check_preset(preset)
    if figure is not None and figure.suffix != ".svg":
        raise typer.BadParameter(f"{figure}: give a name that ends in .svg", param_hint="--figure")
    names = [name.strip() for name in shape.split(",")] if shape else list(KNOWN)
    for name in names:
        if name not in KNOWN:
            raise typer.BadParameter(f"unknown {name!r}; known: {', '.join(KNOWN)}", param_hint="--shape")
    require("study", "linnet study shapes")
    if figure is not None:
        require("report", "--figure")
    if blocks:
        require_bench("timing (--blocks 0 leaves it out)")
    rows: list[dict[str, Any]] = []
    costs: list[dict[str, Any]] = []
    with Bars() as bars:
        networks: dict[str, Network] = {}
        for one in load_all(trace, format, bars):
            for log in measured([one], preset, share, seed, bars):
                step = bars.stage(f"training on {log.name}", len(names))
                found, networks = accuracies(log, names, seed, epochs, max_rows, step)
                rows += found
        if UNTRAINED in names and blocks:
            networks[UNTRAINED] = untrained(E_LAYERS, seed)
        step = bars.stage("timing", len(names))
        for done, name in enumerate(names if blocks else []):
            costs.append(cost(name, networks.get(name), blocks))
            step(done + 1)
    mean = means(rows, names)
    if figure is not None:
        write_whole(figure, shapes_svg(mean, costs))
    if json:
        print_json({"rows": rows, "mean": mean, "costs": costs, "epochs": epochs, "max_rows": max_rows, "seed": seed})
        return
    keys = ("base_rate", "accuracy", "balanced_accuracy")
    shown = [[r["trace"], r["shape"], r["rows"], *(percent(r[k]) for k in keys), r["roc_auc"]] for r in rows]
    table("accuracy on the later half, by time", ["trace", "shape", "rows", *keys, "roc_auc"], shown, left=2)
    builds = ("avx512", "avx2", "portable", "kernel-flags")
    timed = [
        [one["shape"], one["parameters"], *(one["ns"].get(build, {}).get("submit") for build in builds)]
        for one in costs
    ]
    table("one submit, hot, ns", ["shape", "parameters", *builds], timed)
