# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet demo``: the main job in a minute, on the embedded SSD model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from linnet._native import Trace
from linnet.cli.compare import show_outcomes
from linnet.cli.options import ArraySeed, load
from linnet.cli.output import Bars, console, warn
from linnet.experiment import Experiment, Outcome, Setup, overview, periods
from linnet.extras import lacking
from linnet.files import check_target, write_whole
from linnet.report import Section, render
from linnet.report.page import NO_FIGURES

WORKLOADS = (("bs-c", "consumer-deep", 600.0), ("az-e", "enterprise-wide", 16.0))
"""Table 1 workloads, the array each runs on, and the seconds that are generated."""
REAL = (("msprod/msnfs.first90s.trace.zst", "consumer-deep", 10.0),)
"""Real traces that run if they are found, the array, and the factor on their I/O rate."""
LEAD = (
    "Three flash drives hold the same data. Each drive runs its own trace; a read that its drive would answer late can "
    "be sent to another. The figures and tables compare policies on the same reads: how close does a decision on each "
    "I/O come to an oracle?"
)


def real_traces(given: Path | None) -> Path | None:
    """The directory of real traces: as given, or $LINNET_SHARED/traces."""
    if given is not None:
        return given
    shared = os.environ.get("LINNET_SHARED")
    found = Path(shared) / "traces" if shared else None
    return found if found is not None and found.is_dir() else None


def demo_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for the report and the numbers.")] = Path(
        "demo-out"
    ),
    traces: Annotated[
        Path | None,
        typer.Option(help="Directory of real traces.", show_default="$LINNET_SHARED/traces, if it exists"),
    ] = None,
    seed: ArraySeed = 0,
) -> None:
    """Train on a modelled array of three drives and show what each policy does to its read latency.

    Writes report.html and results.json. Runs Table 1 workloads, and real block traces if they are found.
    """
    if traces is not None and not traces.is_dir():
        raise typer.BadParameter(f"no directory {traces}", param_hint="--traces")
    out.mkdir(parents=True, exist_ok=True)
    page, numbers = out / "report.html", out / "results.json"
    for one in (page, numbers):
        check_target(one)
    finished: list[tuple[Experiment, list[Outcome]]] = []
    with Bars() as bars:
        for name, setup, train, test in inputs(real_traces(traces), seed, bars):
            experiment = Experiment(train, setup, name, bars, test)
            finished.append((experiment, experiment.compare(overview())))
    for experiment, outcomes in finished:
        show_outcomes(experiment, outcomes)
    pictures = not lacking("report")
    if not pictures:
        warn(f"the report has tables and no figures: {NO_FIGURES}")
    sections = [Section.of(e, o) for e, o in finished]
    write_whole(page, render(sections, "Linnet demo", LEAD, pictures))
    rows = [o.row for _, outcomes in finished for o in outcomes]
    models = [report for e, _ in finished for report in e.reports()]
    results = {"rows": rows, "models": models, "parameters": [e.parameters() for e, _ in finished]}
    write_whole(numbers, json.dumps(results, indent=2) + "\n")
    console.print(
        f"\nreport: {page}   numbers: {numbers}",
    )
    console.print(
        "next: your own trace, without touching a device: [bold].venv/bin/linnet whatif TRACE[/]", markup=True
    )


Input = tuple[str, Setup, list[Trace], list[Trace] | None]


def inputs(real: Path | None, seed: int, bars: Bars) -> list[Input]:
    """What the demo runs: name, set-up, training traces, and test traces if they are of another period."""
    chosen: list[Input] = []
    for name, preset, seconds in WORKLOADS:
        setup = Setup(preset=preset, seed=seed)
        chosen.append((name, setup, *periods(name, seconds, setup)))
    if real is None:
        console.print("[dim]no real traces found; running the synthetic workloads only (see --traces)[/]", markup=True)
        return chosen
    for file, preset, factor in REAL:
        path = real / file
        if path.exists():
            trace = load(path, None, bars).rerate(factor).named(path.name.split(".")[0])
            chosen.append((trace.name, Setup(preset=preset, seed=seed), [trace], None))
    return chosen
