# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from linnet.cli.options import AsJson, Seed
from linnet.cli.output import Bars, percent, print_json, table
from linnet.extras import require
from linnet.studies.readahead.accuracy import PARTS, importance, scores
from linnet.studies.readahead.search import search, search_with_ray
from linnet.studies.readahead.training import Recorded, load

SHOWN = 8
"""Trials of a search that the table shows."""


def tune_command(
    training: Annotated[
        Path,
        typer.Argument(
            help="Recorded windows: training.npz of bench/macro/readahead_grid.py.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    trials: Annotated[
        int, typer.Option("--search", help="Settings of the network to try as well; 0: no search.", min=0)
    ] = 0,
    ray: Annotated[bool, typer.Option("--ray", help="Search by Ray Tune; the result is the same.")] = False,
    processes: Annotated[int, typer.Option(help="Processes of Ray Tune.", min=1)] = 2,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Compare the tuner's features with KML's: accuracy on held-out rows, runs and workloads, and what each is worth.

    Both sets come from the same runs, and are learned by the same network (hidden layers of 15 and 5) and tree.

    Example: [bold]linnet study tune build/bench/grid/training.npz --search 40[/]
    """
    if ray:
        require("ray", "--ray")
    recorded = load(training)
    with Bars() as bars:
        result: dict[str, Any] = {"seed": seed, **measured(recorded, seed, bars)}
        if trials:
            result["search"] = {}
            for one in recorded:
                if ray:
                    found = search_with_ray(one.data, trials, seed, processes)
                else:
                    found = search(one.data, trials, seed, bars.stage(f"trials, {one.name}", trials))
                result["search"][one.name] = found
    if json:
        print_json(result)
    else:
        show(result)


def measured(recorded: list[Recorded], seed: int, bars: Bars) -> dict[str, Any]:
    """Scores and importance of each set."""
    tell = bars.stage("sets of features", 2 * len(recorded))
    rows, worth = [], []
    for at, one in enumerate(recorded):
        rows += list(scores(one, seed))
        tell(2 * at + 1)
        worth += importance(one, PARTS[0], seed)
        tell(2 * at + 2)
    return {"scores": rows, "importance": worth}


def show(result: dict[str, Any]) -> None:
    """Tables for people."""
    table(
        "held out of the training",
        [
            "features",
            "decider",
            "rows",
            "workload, by rows",
            "workload, by runs",
            "value, by runs: of best",
            "value, unseen workload: of best",
            "worst",
        ],
        [
            [
                row["features"],
                row["decider"],
                row["rows"],
                percent(row["workload_by_rows"]),
                percent(row["workload_by_runs"]),
                percent(row["value_by_runs"]["share_of_best"]),
                percent(row["value_by_workloads"]["share_of_best"]),
                percent(row["value_by_workloads"]["worst_pattern"]),
            ]
            for row in result["scores"]
        ],
        left=2,
    )
    table(
        "accuracy lost when a feature is permuted (network, workload, held-out runs)",
        ["features", "feature", "lost", "±"],
        [[row["features"], row["feature"], percent(row["drop"]), percent(row["std"])] for row in result["importance"]],
        left=2,
    )
    for name, found in result.get("search", {}).items():
        keys = ("hidden", "activation", "epochs", "learning_rate", "momentum", "accuracy", "share_of_best")
        rows = [[str(one[k]) for k in keys] for one in found[:SHOWN]]
        table(f"settings for the features of {name}, best first", keys, rows)
