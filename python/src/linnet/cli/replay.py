# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet replay``: run the array in real time on drives that are served over NBD."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet import _native
from linnet._native import Model, Trace
from linnet.cli.options import AsJson, Format, Seed, Traces, load_all, parse_policies
from linnet.cli.output import Bars, console, number, print_json, table
from linnet.experiment import spread


def replay_command(
    uri: Annotated[
        list[str],
        typer.Option("--uri", "-u", help="NBD address of a drive. Give it once per drive.", show_default=False),
    ],
    trace: Traces = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policies, separated by commas, one after the other; may be repeated.", show_default="baseline"
        ),
    ] = None,
    model: Annotated[
        list[Path] | None, typer.Option("--model", "-m", help="Model file: one per drive, or one for all.")
    ] = None,
    time_scale: Annotated[float, typer.Option(help="Seconds of real time per second of the trace.", min=0.001)] = 1.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="The drives may be overwritten: the trace has writes.")
    ] = False,
    format: Format = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Replay traces in real time on drives served over NBD, under a policy.

    I/Os are sent at their recorded times, and the output says how late they were sent. Serve modelled drives with
    `linnet ssd serve` and the same --time-scale.

    Example: [bold]linnet replay -t a.csv -u 'nbd+unix:///drive0?socket=drives.sock' --policy baseline --overwrite[/]
    """
    chosen = parse_policies(policy or ["baseline"])
    models = [Model.load(path) for path in model or []]
    if len(models) == 1:
        models *= len(uri)
    with Bars() as bars:
        streams = spread(load_all(trace, format, bars), len(uri))
        refuse_writes(streams, overwrite)
        rows = []
        for name in chosen:
            step = bars.stage(f"replaying under {name}", sum(len(s) for s in streams))

            def count(done: int, step: object = step) -> bool:
                step(done)  # type: ignore[operator]
                return True

            run, late = _native.replay(list(uri), streams, name, models, time_scale, seed, count)
            lateness = {"late_us_p50": late[len(late) // 2] / 1000, "late_us_p99": late[len(late) * 99 // 100] / 1000}
            rows.append({"policy": name, "time_scale": time_scale} | run.row() | (lateness if late else {}))
    if json:
        print_json({"rows": rows, "seed": seed})
        return
    shown = [
        "policy",
        "reads",
        "mean_us",
        "p50_us",
        "p95_us",
        "p99_us",
        "p999_us",
        "extra_io",
        "revokes",
        "late_us_p99",
    ]
    table(
        f"{len(uri)} drives in real time, latency in us of trace time", shown, [[r.get(k) for k in shown] for r in rows]
    )
    console.print(f"[dim]sent late by p50 {number(rows[0].get('late_us_p50'))} us[/]", markup=True)


def refuse_writes(streams: list[Trace], overwrite: bool) -> None:
    """Refuse writes, which destroy the data of a drive, unless the user allowed them."""
    writes = sum(int((s.columns()["op"] == 1).sum()) for s in streams)
    if writes and not overwrite:
        raise typer.BadParameter(
            f"the trace has {writes:,} writes, which overwrite the drives; add --overwrite if they may be overwritten",
            param_hint="--overwrite",
        )
