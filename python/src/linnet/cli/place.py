# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet place``: which drive takes a tenant, and what tenants on one drive do to each other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from linnet.cli.options import AsJson, Ray, Seed
from linnet.cli.output import Bars, appended, console, destination, percent, print_json, table, warn
from linnet.extras import require
from linnet.files import write_whole
from linnet.place import fitted_file
from linnet.place import judge as judging
from linnet.place.answers import TARGETS
from linnet.place.cache import Cache
from linnet.place.fitting import fit_model, model_file
from linnet.place.models.model import NAMES
from linnet.place.observations import observe, said, same_drives, together
from linnet.place.profile_file import read_drive, read_profile
from linnet.place.splits import NEW, SPLITS, applies
from linnet.place.workers import RayCluster


def judge(
    data: Annotated[Path, typer.Option(help="Folder of measured tables: what is tried.", show_default=False)],
    train: Annotated[
        Path | None, typer.Option(help="Folder of other tables: all of it trains.", show_default=False)
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="random (leaks), unseen-load, unseen-model-load, unseen-drive, few-to-many or unseen-mix; repeat for "
            "several.",
            show_default="all",
        ),
    ] = None,
    probe_minutes: Annotated[
        int,
        typer.Option(help="Minutes of each new drive, or runs of each new mix, that models may measure first.", min=0),
    ] = 0,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="forest, weighted-mean, queueing, interpolation or linnet; repeat for several.", show_default="all"
        ),
    ] = None,
    hold_out: Annotated[
        int | None,
        typer.Option(
            help="Every N-th load of a new drive or mix is tried and never probed, so that any number of probes is "
            "tried on the same rows. Each N-th in turn, up to --seeds.",
            min=2,
            metavar="N",
            show_default="what is not probed is tried",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Shuffles of the splits by row and by load.", min=1)] = 5,
    json: AsJson = False,
) -> None:
    """Judge interference models on measured drives, by the questions that an operator asks.

    unseen-load: trained on other loads of the drive. unseen-model-load: the same, and no drive of its model shows this
    load. unseen-drive: trained on other drive models. few-to-many: trained on runs of at most 8 neighbours.
    unseen-mix: trained on other mixes. random is the split of publications: it tries rows of runs that also trained. R2
    is of logarithms, errors are relative, coverage is of 90 % intervals. docs/guide/place.md has the tables and their
    columns.

    Example: [bold]linnet place judge --data colocation/ --split unseen-load[/]

    Example: [bold]linnet place judge --data new/ --train colocation/ --split unseen-drive --probe-minutes 10 --json[/]
    """
    splits = _chosen(split, SPLITS, "--split")
    models = _chosen(model, NAMES, "--model")
    if hold_out and not set(splits) & set(NEW):
        raise typer.BadParameter(f"only {' and '.join(NEW)} probe", param_hint="--hold-out")
    require("place", "linnet place judge")
    tried = observe(data)
    known = observe(train) if train else None
    if not any(applies(one, source) for one in splits for source in tried):
        raise ValueError(f"{data}: its tables ({', '.join(tried)}) cannot answer {' and '.join(splits)}")
    if known is not None:
        for source in [name for name in tried if name not in known]:
            warn(f"{train} has no table of {source}; that of {data} is left out")
            del tried[source]
        if not tried:
            raise ValueError(f"{data} and {train} have no kind of table in common")
        for source, rows_ in tried.items():
            same_drives([(str(train), known[source]), (str(data), rows_)])
    if (probe_minutes or hold_out) and "iocost" in tried and "unseen-drive" in splits:
        warn("iocost, unseen-drive: no model measures ceilings of a new drive first, so nothing is probed or held out")
    # Who names a split asks for it; all that are there are asked where they can be.
    skipped = [] if split else judging.undivided(tried, known, splits)
    with Bars() as bars:
        step = bars.stage("folds", judging.work(tried, known, splits, seeds, hold_out or 0, skipped))
        rows, absent = judging.judge(tried, known, splits, models, seeds, probe_minutes, step, hold_out or 0, skipped)
    if not rows and skipped:
        raise skipped[0]
    best = judging.ceiling(tried)
    dropped = {
        name: {source: one.dropped for source, one in found.items() if one.dropped}
        for name, found in (("data", tried), ("train", known or {}))
    }
    if json:
        notes = [{"source": one.source, "split": one.split, "why": one.why} for one in skipped]
        print_json({"rows": rows, "absent": absent, "skipped": notes, "ceiling": best, "dropped": dropped})
        return
    show_rows(rows + best)
    for one in skipped:
        console.print(f"not judged: {one}")
    show_dropped(((data, dropped["data"]), (train, dropped["train"])), rows)
    show_lacking(rows, absent)


def fit(
    data: Annotated[list[Path], typer.Argument(help="Folders of measured tables.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Model file to write.", callback=destination, show_default=False)
    ],
    cache: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps each fitted metric, so that the command can continue.",
            callback=appended,
            show_default="OUT.fits with --ray",
        ),
    ] = None,
    ray: Ray = None,
    seed: Seed = 42,
    json: AsJson = False,
) -> None:
    """Fit an interference model to measured drives: tables ssdiq-threads and ssdiq-drives, or any of their columns.

    A new drive is calibrated by a folder with a few minutes of it beside those of the others. Tables of tenants without
    rates (icpe) and of protected jobs (iocost) are judged, not fitted: a profile cannot say that a tenant has no rate.

    A trace is no measurement of co-location: `linnet place profile` makes of it the profile to ask about. Nor are
    tables of `linnet place label`, of modelled drives; `linnet study colocation` learns from such runs.

    With --cache or --ray each metric is kept when it is fitted, and is not fitted again to the same tables.

    Example: [bold]linnet place fit colocation/ new-drive/ -o place.linnet[/]
    """
    require("place", "linnet place fit")
    places = []
    for folder in data:
        if folder.is_file():
            raise ValueError(
                f"{folder} is a file; give a folder of tables that were measured on drives (docs/guide/place.md). "
                "A trace becomes a profile by `linnet place profile`; tables of `linnet place label` are not fitted to"
            )
        found = observe(folder, TARGETS)
        for source in [name for name in found if name != "ssdiq"]:
            warn(f"{folder}: its table of {source} is not used by fit")
        if "ssdiq" in found:
            places.append((str(folder), found["ssdiq"]))
    if not places:
        raise ValueError(f"{data[0]}: no ssdiq-threads.csv[.zst], which a model is fitted to")
    rows = together(places)
    workers = None if ray is None else RayCluster(ray)
    kept = Cache(cache or (None if ray is None else out.with_name(out.name + ".fits")))
    try:
        with Bars() as bars:
            model = fit_model(rows, seed, bars.stage("metrics", len(rows.targets)), workers, kept)
    finally:
        kept.close()
    try:
        packed = model_file(model)
    except ValueError as error:
        raise ValueError(f"{out}: {error}") from None
    write_whole(out, packed)
    if np.isnan(model.known_factor).any():
        warn("one drive does not tell how wide 90 % intervals are: the model has none, and keeps no promise above 50 %")
    elif np.isnan(model.new_factor).any():
        warn("one drive model does not tell how wide 90 % intervals are on others: the model has none there")
    names = sorted(set(rows.labels["drive"]))
    summary: dict[str, Any] = {
        "file": str(out),
        "rows": len(rows),
        "cells": len(model.latency.known),
        "drives": names,
        "seed": seed,
        "dropped": rows.dropped,
    }
    if json:
        print_json(summary)
        return
    console.print(f"{out}: {len(rows):,} minutes, {summary['cells']} loads of {len(names)} drives ({', '.join(names)})")
    if rows.dropped:
        console.print(f"rows left out: {said(rows.dropped)}")


def predict(
    model: Annotated[Path, typer.Option("--model", "-m", help="Model file of `linnet place fit`.", show_default=False)],
    drive: Annotated[
        str,
        typer.Option(
            help="Drive of the training data, a drive model for another one of it, or a JSON file of a sheet."
        ),
    ],
    tenant: Annotated[Path, typer.Option(help="Profile (JSON) of the tenant.", show_default=False)],
    neighbours: Annotated[
        str, typer.Option(help="Profiles of those on the drive, separated by commas; empty for none.")
    ] = "",
    json: AsJson = False,
) -> None:
    """Predict a tenant's latency and bandwidth beside its neighbours on a drive, with 90 % intervals.

    A profile is what `linnet place profile` writes. A drive's file is {"name": ..., "model": ..., "sheet":
    {"rnd_write_iops": ..., "rnd_read_iops": ...}}.

    Example: [bold]linnet place predict --model place.linnet --drive h0 --tenant web.json --neighbours a.json,b.json[/]
    """
    fit_ = fitted_file.read_model(model)
    where = fit_.drives.get(drive)
    if where is None:
        if not Path(drive).is_file():
            known = ", ".join(sorted(fit_.drives))
            raise typer.BadParameter(f"{drive!r} is neither a file nor one of: {known}", param_hint="--drive")
        where = read_drive(Path(drive))
        if not fit_.knows(where) and not where.sheet.get("rnd_write_iops"):
            raise ValueError(
                f"{drive}: sheet.rnd_write_iops is missing; the model needs it of a drive it does not know"
            )
    own = read_profile(tenant)
    beside = [read_profile(Path(name.strip())) for name in neighbours.split(",") if name.strip()]
    answer = {
        name: found.shown()
        for name, found in fit_.predict([where], [own], [beside])[0].items()
        if not math.isnan(found.value)
    }
    if not answer:
        if why := fit_.unmeasured(where, [own, *beside]):
            raise ValueError(f"{tenant}: with the neighbours, {why}")
        raise ValueError(f"{tenant}: the profile has neither reads nor writes; there is nothing to predict")
    if json:
        print_json(answer)
        return
    load = fit_.load(where, [own, *beside])
    console.print(f"{own.name} on {where.name or 'another drive'} ({where.model}): {percent(load)} of what it sustains")
    table(None, ["metric", "value", "low 90 %", "high 90 %"], [[name, *one.values()] for name, one in answer.items()])


def show_rows(rows: list[dict[str, Any]]) -> None:
    """One table; what leaks is marked."""
    columns = [
        "source",
        "split",
        "target",
        "model",
        "n",
        "R2",
        "least",
        "within",
        "median error",
        "p90 error",
        "in 90 %",
        "its 95 %",
        "least drive",
        "factor",
        "probes",
    ]
    view = [
        [
            row["source"],
            f"{row['split']} (leaks)" if row["leaks"] else row["split"],
            row["target"],
            row["model"],
            row["n"],
            *("-" if row[key] is None else f"{row[key]:.3f}" for key in ("r2", "r2_least", "r2_within")),
            *(percent(row[key]) for key in ("median_error", "p90_error", "coverage90")),
            "-"
            if row["coverage90_low"] is None
            else f"{100 * row['coverage90_low']:.0f} to {100 * row['coverage90_high']:.0f} %",
            percent(row["coverage90_least"]),
            "-" if row["interval90_factor"] is None else f"{row['interval90_factor']:.2f}",
            row["probe_minutes"],
        ]
        for row in rows
    ]
    table(None, columns, view, left=4)


def show_dropped(dropped: Iterable[tuple[Path | None, dict[str, dict[str, int]]]], rows: list[dict[str, Any]]) -> None:
    """Rows of the tables that were left out, and drives or mixes whose every load was probed."""
    for folder, by_source in dropped:
        for source, reasons in by_source.items():
            console.print(f"{folder}: rows of {source} left out: {said(reasons)}")
    for asked, probes, names in dict.fromkeys(
        (row["split"], row["probe_minutes"], ", ".join(row["untried"])) for row in rows if row["untried"]
    ):
        console.print(f"{asked}: {probes} probes leave no load to try of {names}")


def show_lacking(rows: list[dict[str, Any]], absent: list[dict[str, Any]]) -> None:
    """What has no row, and rows whose coverage is not of all that was tried."""
    lacking: dict[tuple[Any, ...], list[str]] = {}
    for one in absent:
        key = tuple(one[name] for name in ("source", "split", "model", "n", "unanswered"))
        lacking.setdefault(key, []).append(one["target"])
    for (source, asked, name, n, unanswered), targets in lacking.items():
        why = f"it knows nothing of {unanswered:,} of the {n:,} that are tried" if n else "no load is left to try"
        console.print(f"{source}, {asked}: {name} has no row of {', '.join(targets)}: {why}")
    for one in rows:
        if 0 < one["n_interval"] < one["n"]:
            console.print(
                f"{one['source']}, {one['split']}: {one['model']} has intervals for {one['n_interval']:,} of the "
                f"{one['n']:,} of {one['target']}, and coverage is of these"
            )


def _chosen(given: list[str] | None, known: tuple[str, ...], option: str) -> list[str]:
    names = [name.strip() for one in given or known for name in one.split(",")]
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"unknown {name!r}; known: {', '.join(known)}", param_hint=option)
    return list(dict.fromkeys(names))
