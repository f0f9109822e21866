# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study colocation``: ten metrics of co-located tenants, predicted and simulated."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from linnet._native import Trace
from linnet.cli.options import AsJson, Ray, Sampled, Seed
from linnet.cli.output import Bars, print_json, table
from linnet.extras import require
from linnet.files import write_whole
from linnet.place.label import Labeller, Plan
from linnet.place.workers import Workers, workers_of
from linnet.studies.cli.options import Page, chosen_of
from linnet.studies.colocation import MODELS, OF_TRACES, ROW, SPLITS, UNSEEN_TRACE, Seen, score_of, seen_of, tasks
from linnet.studies.colocation_page import means, page_of, summary
from linnet.studies.kept import CONTENT, Kept, digest_of
from linnet.studies.violations_mixes import SHEETS
from linnet.threads import Threads


def colocation_command(
    drive: Annotated[str | None, typer.Option(help="nvme, sata, or both.", show_default="nvme,sata")] = None,
    runs: Annotated[int, typer.Option(help="Co-location runs of 2 to 16 tenants on each drive.", min=20)] = 400,
    workloads: Annotated[int, typer.Option(help="Workloads that tenants are drawn from.", min=16)] = 200,
    seconds: Annotated[float, typer.Option(help="Simulated length of a run, after the warm-up.")] = 1.0,
    trace: Sampled = None,
    model: Annotated[
        str | None, typer.Option(help="Models, separated by commas.", show_default=", ".join(MODELS))
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Splits, separated by commas.", show_default=", ".join(SPLITS))
    ] = None,
    ablate: Annotated[str, typer.Option(help="Splits in which the ablations are tried.")] = "random",
    shuffles: Annotated[int, typer.Option(help="Shuffles of each split.", min=1)] = 1,
    keep: Annotated[
        Path | None,
        typer.Option(help="File of JSON lines with the scores, and KEEP.runs with the runs: neither is made again."),
    ] = None,
    page: Page = None,
    ray: Ray = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Predict ten metrics of tenants that share a modelled drive: R2, and MAE relative to the gray-box forest's.

    Splits: random (the paper's, in which tenants of a run are on both sides), by-run, unseen-workload, few-to-many (2
    to 8 tenants train, 9 to 16 are tried), and with traces unseen-trace. With traces a workload is the beginning of a
    sample of ten seconds, at a drawn bandwidth: see linnet place label.

    Example: [bold]linnet study colocation --drive sata --runs 100 --split by-run --keep c.jsonl[/]

    Example: [bold]linnet study colocation --drive sata -t a.csv -t b.csv --keep traces.jsonl[/]
    """
    require("place", "linnet study colocation")
    drives = chosen_of(list(SHEETS), drive, "--drive")
    known_splits = [*SPLITS, UNSEEN_TRACE] if trace and len(trace) > 1 else list(SPLITS)
    splits = chosen_of(known_splits, split, "--split")
    models = chosen_of(list(MODELS), model, "--model")
    ablated = chosen_of(known_splits, ablate, "--ablate")
    kept = Kept(keep, ROW, OF_TRACES)
    files = tuple(map(str, trace or []))
    size: dict[str, object] = {"runs": runs, "workloads": workloads, "seconds": seconds, "seed": seed}
    if files:
        size["traces"] = [Path(file).name for file in files]
    if files and keep is not None:
        size[CONTENT] = digest_of(map(Trace.read, files))
    known = {
        tuple(row[name] for name in ("drive", "split", "shuffle", "metric", "model")): row
        for row in kept.before
        if all(row.get(name) == value for name, value in ({"traces": None, CONTENT: None} | size).items())
    }
    scores = []
    workers = workers_of(ray)
    with Bars() as bars:
        for name in drives:
            every = list(tasks(models, splits, ablated, shuffles))
            todo = [one for one in every if (name, *one) not in known]
            if todo:
                plan = Plan(name, runs, workloads=workloads, seconds=seconds, seed=seed, traces=files)
                rows = _label(plan, keep, workers, bars)
                step = bars.stage(f"forests for {name}", len(todo))
                # A forest has threads of its own.
                with closing((workers if ray else Threads(1)).map(score_of, rows, todo)) as scored:
                    for done, (index, found) in enumerate(scored, 1):
                        known[name, *todo[index]] = size | found
                        kept.add([size | found])
                        step(done)
            scores += [known[name, *one] for one in every]
    if page is not None:
        write_whole(page, page_of(scores))
    lines = summary(scores)
    if json:
        print_json({"rows": means(scores), "summary": lines, **size})
        return
    table("ten metrics", list(lines[0]), [list(line.values()) for line in lines], left=3)


def _label(plan: Plan, keep: Path | None, workers: Workers, bars: Bars) -> Seen:
    labeller = Labeller(plan, None if keep is None else keep.with_name(keep.name + ".runs"), workers=workers)
    progress = bars.by_stage(f"{plan.drive}: ")
    try:
        library = labeller.library(progress)
        return seen_of(plan.drive, library, labeller.runs(library, progress))
    finally:
        labeller.cache.close()
