# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study drift``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from linnet import _native
from linnet._native import Trace
from linnet.cli.options import (
    AsJson,
    Format,
    Preset,
    Seed,
    Share,
    Traces,
    check_preset,
    complete_workload,
    load_all,
    picture_destination,
)
from linnet.cli.output import Bars, console, number, print_json, table
from linnet.extras import require
from linnet.files import write_whole
from linnet.studies.drift import MODELS, STRATEGIES, on_drive, one_after_the_other, study
from linnet.studies.drift_figure import drift_svg

DRIVE = "consumer-deep"


def drift_command(
    trace: Traces = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", "-w", help="Table 1 workload to generate.", autocompletion=complete_workload),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of each workload.", min=1)] = 60.0,
    preset: Preset = None,
    share: Share = None,
    then: Annotated[
        str | None,
        typer.Option(help="Workload that comes after.", autocompletion=complete_workload, show_default=False),
    ] = None,
    then_preset: Annotated[str | None, typer.Option(help="Drive of the second half.", show_default=False)] = None,
    then_share: Annotated[
        float | None, typer.Option(help="Device-wide share of the second half.", min=0, max=1, show_default=False)
    ] = None,
    model: Annotated[str, typer.Option(help="linnet or linnos.")] = "linnet",
    window: Annotated[int, typer.Option(help="Reads that a model is trained on.", min=480)] = 6_000,
    margin: Annotated[
        float,
        typer.Option(
            help="Lead in merit (mean of ROC-AUC and balanced accuracy) at which a candidate takes over.", min=0, max=1
        ),
    ] = 0.02,
    block_ms: Annotated[
        float,
        typer.Option(
            help="Minimum length of a block that the alarms compare; must be longer than the device's own cycles.",
            min=0,
        ),
    ] = 250.0,
    figure: Annotated[
        Path | None,
        typer.Option(help="Write a figure to this .svg file.", callback=picture_destination, show_default=False),
    ] = None,
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Measure what a change of the device does to a model that is trained once, monitored, or trained again and again.

    Several traces are replayed one after the other. With --preset they run on a modelled drive. With --then a workload
    follows. With --then-preset or --then-share the second half of the trace, by time, runs on another drive.

    Example: [bold]linnet study drift -t hadoop.blkparse.txt --figure drift.svg[/]

    Example: [bold]linnet study drift -w az-e --preset enterprise-wide --then-share 0.2[/]
    """
    for name in (preset, then_preset):
        check_preset(name)
    if model not in MODELS:
        raise typer.BadParameter(f"unknown {model!r}; known: {', '.join(MODELS)}", param_hint="--model")
    if bool(trace) == bool(workload):
        raise typer.BadParameter("give --trace, one after the other, or one --workload", param_hint="--trace")
    if figure is not None and figure.suffix != ".svg":
        raise typer.BadParameter(f"{figure}: give a name that ends in .svg", param_hint="--figure")
    if figure is not None:
        require("report", "--figure")
    with Bars() as bars:
        parts = load_all(trace, format, bars) if trace else made(str(workload), seconds, seed)
        whole = changing(
            parts, made(then, seconds, seed) if then else [], (preset, share), (then_preset, then_share), seed
        )
        step = bars.stage(f"replaying {whole.name}", len(whole))

        def tell(done: int) -> bool:
            step(done)
            return True

        found = study(whole, model, window, margin, seed, block_ms, tell)
    if figure is not None:
        write_whole(figure, drift_svg(found))
    if json:
        print_json(found)
        return
    show(found)


def made(workload: str, seconds: float, seed: int) -> list[Trace]:
    """A workload for one device."""
    return list(_native.synth(workload, seconds, 1, seed))


def changing(
    parts: list[Trace],
    then: list[Trace],
    drive: tuple[str | None, float | None],
    then_drive: tuple[str | None, float | None],
    seed: int,
) -> Trace:
    """The trace that is studied, with latencies: recorded ones, or those of one modelled drive and then another."""
    preset, share = drive
    changes = any(value is not None for value in then_drive)
    if then or changes or not all(part.has_latency for part in parts):
        preset = preset or DRIVE
    if preset is None:
        return one_after_the_other([part.without_ties(seed) for part in parts])
    first = one_after_the_other(parts)
    if then:
        second = one_after_the_other(then)
    elif changes:
        first, second = first.split(0.5)
    else:
        return on_drive(first, preset, share, seed)
    later = then_drive[0] or preset
    later_share = then_drive[1] if changes else share
    return one_after_the_other([on_drive(first, preset, share, seed), on_drive(second, later, later_share, seed)])


def show(found: dict[str, Any]) -> None:
    """Tables for people."""
    keys = ("roc_auc", "balanced_accuracy", "accuracy", "own_accuracy")
    what = f"{found['trace']}: {found['model']}, windows of {found['window']:,} reads"
    table(
        f"{what}, mean of {len(found['chunks'])} stretches",
        ["strategy", "fits", *keys],
        [[name, found["fits"][name], *(found["mean"][name][key] for key in keys)] for name in STRATEGIES],
    )
    console.print(
        f"{found['checks']} checks, {found['checks_of_calibration']} of them of calibration; accuracy by the "
        "inflection point of the stretch, own_accuracy by the model's"
    )
    table(
        None,
        ["at s", "what", "how"],
        [[number(one["at_s"]), one["what"], how(one)] for one in found["happenings"]],
        left=3,
    )


def how(one: dict[str, Any]) -> str:
    """An event in words."""
    if one["what"] == "alarm":
        moved = f"p{one['percentile_was']:.1f} is p{one['percentile_is']:.1f}"
        error = one["calibration_error"]
        off = "" if error is None else f"; calibration off by {100 * error:.0f} points"
        return f"{', '.join(one['alarms'])}; inflection {moved}{off}"
    if one["what"] == "fitted":
        return f"to {one['rows']:,} reads; inflection p{one['percentile']:.1f} = {one['inflection_us']:,.0f} us"
    if one["what"] == "failed":
        return str(one["error"])
    return f"merit {one['merit_serving']:.3f} serving, {one['merit_shadow']:.3f} in the shadow, {one['reads']:,} reads"
