# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet place plan``: how few drives recorded tenants need, by trials on a drive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from linnet.cli.options import AsJson, Format, Lenient, Seed, load_all
from linnet.cli.output import Bars, console, counted, print_json, table, warn
from linnet.cli.place_service import parse_slo
from linnet.cli.place_staging import Fill, Overwrite, Staging, drive_name, warn_of_machine
from linnet.extras import require
from linnet.place.confidence import VALUE_PERCENT
from linnet.place.words import METRICS

if TYPE_CHECKING:
    from linnet.place.plan import Planned, Tenants
    from linnet.place.slo import Slo

SLOS = ("read_bandwidth_mean-10%", "write_bandwidth_mean-10%")
CHANGED = 0.1
"""A change of a real drive between the beginning and the end that is worth a word."""
SHOWN_MAX = 10
"""Tenants of whom is said that they missed a promise."""


def plan_command(
    traces: Annotated[
        list[Path], typer.Argument(help="Traces of any known format, one tenant each.", show_default=False)
    ],
    drive: Annotated[
        str | None,
        typer.Option(help="nvme, sata, a preset, or a parameter file of the SSD model.", show_default="nvme"),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(help="What neighbours may cost a tenant, METRIC-PERCENT% or METRIC+PERCENT%; may repeat."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05, max=600)] = 2.0,
    windows: Annotated[int, typer.Option(help="Windows of a trial; a trace needs two more.", min=2, max=100)] = 6,
    runs: Annotated[int, typer.Option(help="Runs of mixes at most.", min=8, max=1_000_000)] = 1000,
    depth: Annotated[int, typer.Option(help="Outstanding I/Os of a tenant at most.", min=1, max=4096)] = 64,
    format: Format = None,
    lenient: Lenient = False,
    staging: Staging = None,
    overwrite: Overwrite = False,
    fill_first: Fill = True,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Plan which recorded tenants share a drive: mixes are run before they are put together.

    They are run on the SSD model, or with --staging on a real drive that is set aside, where a run takes --seconds.

    Tenants come one by one. A forest that learns from all runs says what is worth a trial, and a tenant joins a drive
    only where a trial has shown that all promises hold in several windows of the traces. In the end all drives run in a
    window that no trial saw.

    Example: [bold]linnet place plan web.csv mail.csv backup.csv --drive sata[/]

    Example: [bold]linnet place plan *.csv --staging /dev/nvme1n1 --overwrite --runs 400[/]

    Example: [bold]linnet place plan *.csv --slo 'read_latency_p99_us+50%' --slo 'read_bandwidth_mean-5%' --json[/]
    """
    require("place", "linnet place plan")
    from linnet._native import SharedDrive, StagingDrive  # noqa: PLC0415
    from linnet.place.plan import Tenants, Windows, plan  # noqa: PLC0415
    from linnet.place.staging import fill, open_drive  # noqa: PLC0415
    from linnet.place.trials import SURE  # noqa: PLC0415

    name = drive_name(drive, staging, overwrite)
    slos = [parse_slo(text) for text in slo or SLOS]
    for one, text in zip(slos, slo or SLOS, strict=True):
        if one.degradation_percent is None or one.metric not in METRICS:
            raise typer.BadParameter(f"{text!r}: give a degradation of one of {', '.join(METRICS)}", param_hint="--slo")
        if one.confidence_percent != VALUE_PERCENT:
            raise typer.BadParameter(
                f"{text!r}: a trial holds with {SURE:.0%} confidence; leave out the other", param_hint="--slo"
            )
    if len({one.metric for one in slos}) < len(slos):
        raise typer.BadParameter("one promise for each metric", param_hint="--slo")
    cut = Windows(seconds, windows)
    with Bars() as bars:
        read = load_all(traces, format, bars, lenient=lenient)
        stage = SharedDrive(name, seed) if staging is None else open_drive(name, overwrite)
        tenants = Tenants(read, stage, [one.metric for one in slos], cut, depth)
        if tenants.longest_s > 2 * cut.count * seconds:
            warn(
                f"of each trace the first {cut.count * seconds:g} s count, and the longest has "
                f"{tenants.longest_s:,.0f} s; give more --windows or --seconds for more of it"
            )
        progress = bars.by_stage()
        if isinstance(stage, StagingDrive) and overwrite and fill_first:
            fill(stage, progress)
        found = plan(tenants, slos, cut, runs, seed, progress)
    if isinstance(stage, StagingDrive):
        warn_of_machine(*stage.machine)
    _warn(found, tenants, slos)
    names = [str(path) for path in traces]
    missed = [{"tenant": names[i], "metric": metric, "share": share} for i, metric, share in found.missed]
    if json:
        print_json(
            {
                **{"drive": name, "slos": [one.text() for one in slos], "seed": seed},
                "drives": [[names[i] for i in sorted(mix)] for mix in found.drives],
                **{"trials": found.trials, "held": found.held, "runs": found.runs, "short_of_runs": found.short},
                **{"judged": found.judged, "missed": missed, "drive_changed": found.changed},
            }
        )
        return
    short = [path.name for path in traces]
    names = short if len(set(short)) == len(short) else names
    rows = [
        [f"d{number}", ", ".join(names[i] for i in sorted(mix)), f"{tenants.loads[sorted(mix)].sum() / 1e6:.1f}"]
        for number, mix in enumerate(found.drives)
    ]
    drives = counted(len(found.drives), "drive")
    table(f"{len(names)} tenants on {drives}", ["drive", "tenants", "MB/s"], rows, left=2)
    console.print(f"{found.trials} trials, of which {found.held} held; {found.runs:,} runs on {name}")
    kept = found.judged - len({i for i, _, _ in found.missed})
    console.print(
        f"in a window that no trial saw, {kept} of the {found.judged} tenants with I/O there had what was promised"
    )
    for i, metric, share in found.missed[:SHOWN_MAX]:
        console.print(f"  {names[i]}: {metric} is {100 * (1 - share):.1f} % worse than alone")


def _warn(found: Planned, tenants: Tenants, slos: Sequence[Slo]) -> None:
    """Say what the plan does not rest on."""
    if found.changed > CHANGED:
        warn(
            f"a tenant's metrics alone differ by {found.changed:.0%} between the end and the beginning: the drive or "
            "the machine has changed meanwhile, and what neighbours cost is not known better than that"
        )
    if found.short:
        warn("some tenants have a drive of their own because runs were short; give more --runs")
    for column, one in enumerate(slos):
        if not tenants.uses[:, column].any():
            warn(f"no tenant has what {one.text()} is about")
