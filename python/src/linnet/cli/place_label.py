# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet place label``: co-location runs, as training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet.cli.options import AsJson, Ray, Sampled, Seed
from linnet.cli.output import Bars, appended, console, destination, print_json
from linnet.cli.place_staging import Fill, Overwrite, Staging, drive_name, warn_of_machine
from linnet.extras import require
from linnet.files import whole_file
from linnet.place.label import Labeller, Plan, summary, worst_machine, write_table
from linnet.place.workers import RayCluster


def _range(text: str, option: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    try:
        return int(low), int(high if dash else low)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a range such as 2-16", param_hint=option) from error


def label(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Table to write: .csv or .parquet; - writes CSV to standard output.",
            callback=destination,
            show_default=False,
        ),
    ],
    drive: Annotated[
        str | None,
        typer.Option(
            help="nvme or sata (Table 1 of the gray-box paper), a preset, or a parameter file.", show_default="nvme"
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Co-location runs.", min=1, max=1_000_000)] = 1000,
    tenants: Annotated[str, typer.Option(help="Tenants of a run.")] = "2-16",
    workloads: Annotated[int, typer.Option(help="Workloads that tenants are drawn from.", min=1, max=100_000)] = 200,
    trace: Sampled = None,
    seconds: Annotated[float, typer.Option(help="Length of a run, after the warm-up.")] = 1.0,
    warm_s: Annotated[
        float | None,
        typer.Option(
            "--warm-seconds",
            help="Warm-up, which is not measured.",
            show_default="until steady; 1 s on a real drive",
        ),
    ] = None,
    peak: Annotated[
        float | None,
        typer.Option(help="Bandwidth in bytes/s that loads are shares of, for other drives.", show_default=False),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Runs at a time.", min=1, show_default="CPUs")] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps each run, so that the command can continue.",
            callback=appended,
            show_default="OUT.runs",
        ),
    ] = None,
    ray: Ray = None,
    staging: Staging = None,
    overwrite: Overwrite = False,
    fill_first: Fill = True,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Run tenants together on a drive: rows of profiles and of what each tenant saw.

    Before a run is measured, its tenants overwrite their parts of the drive until write amplification is steady, which
    takes no simulated time, and run until the drive's reserve of free pages is steady, for 1 to 5 s. With
    --warm-seconds the warm-up is so long, of a drive that was preconditioned as a whole.

    With traces a workload is the beginning of a sample of ten seconds, at a bandwidth that is drawn as for synthetic
    workloads, repeated if it is shorter than a run; --seconds is the longest that is taken of a sample.

    With --staging the drive is a real one, and a run takes as long as it lasts.

    A run that was made before, with the same engine, is taken from the cache; Ctrl-C loses no finished run.

    Example: [bold]linnet place label --drive sata --runs 2000 -o sata.parquet[/]

    Example: [bold]linnet place label --drive sata -t a.csv -t b.csv --seconds 2 --workloads 40 -o traces.csv[/]

    Example: [bold]linnet place label --staging /dev/nvme1n1 --overwrite --peak 3e9 --runs 500 -o mine.parquet[/]
    """
    standard = str(out) == "-"
    if not standard and out.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{out}: unknown ending; write .csv or .parquet", param_hint="--out")
    if out.suffix == ".parquet":
        require("arrow", "writing Parquet")
    name = drive_name(drive, staging, overwrite)
    if staging is not None and (ray or (threads or 1) > 1):
        raise typer.BadParameter("one run at a time, on this machine", param_hint="--staging")
    plan = Plan(
        name,
        runs,
        _range(tenants, "--tenants"),
        workloads,
        seconds=seconds,
        warm_s=warm_s,
        seed=seed,
        peak=peak,
        traces=tuple(map(str, trace or [])),
        staging=staging is not None,
        overwrite=overwrite,
        fill=fill_first,
    )
    kept = cache or (None if standard else out.with_name(out.name + ".runs"))
    labeller = Labeller(plan, kept, threads, RayCluster(ray) if ray else None)
    try:
        with Bars() as bars:
            progress = bars.by_stage()
            labeller.fill(progress)
            library = labeller.library(progress)
            made = labeller.runs(library, progress)
        with whole_file(out) as file:
            count = write_table(file, name, library, made, parquet=out.suffix == ".parquet")
        sought = warm_s is None and staging is None
        told = summary(made) | ({} if sought else {"unsteady": None})
        if staging is not None:
            late_us, waited = worst_machine(made)
            warn_of_machine(late_us, waited)
            told |= {"late_us_p99_max": late_us, "waited_share_max": waited}
    finally:
        labeller.cache.close()
    hits = labeller.cache.hits
    if json:
        print_json({"file": str(out), "rows": count, "runs": runs, "from_cache": hits, "seed": seed, **told})
        return
    console.print(f"{out}: {count:,} rows of {runs:,} runs on {name}; {hits:,} results were cached")
    console.print(f"warm-up: {told['warm_s_median']:g} s at the median, {told['warm_s_max']:g} s at most", end="")
    console.print(f"; {told['unsteady']:,} runs were not steady then" if sought else "")
    if told["idle"]:
        console.print(
            f"{told['idle']:,} rows have no metrics: the tenant had no I/O outstanding while it was measured; give "
            "more --seconds"
        )
