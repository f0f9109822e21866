# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet replay``: run the array in real time on drives that are served over NBD."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from linnet import _native
from linnet._native import DeviceError, Model, Trace, quantiles_ns
from linnet.caveats import few_reads
from linnet.cli.options import AsJson, Format, Lenient, Seed, Traces, Writes, WritesTo, load_all, parse_policies
from linnet.cli.output import Bars, print_json, show_notes, table, warn
from linnet.streams import together

FAILED = ("reads_failed", "writes_failed")


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
    time_scale: Annotated[
        float, typer.Option(help="Seconds of real time per second of the trace.", min=0.001, max=1e6)
    ] = 1.0,
    writes: WritesTo = Writes.all,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="The drives may be overwritten: the trace has writes.")
    ] = False,
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Replay traces in real time on drives served over NBD, under a policy.

    I/Os are sent at their recorded times, and the output says how late they were sent. Traces whose format has a
    clock that others share keep their times to each other; a note says so where they may not have begun together.
    The first drive is the primary of the first trace, and so on; drives beyond the traces are replicas only. A read
    that no drive answers counts with the time until it was given up; the exit status is then 1, as with writes that
    fail. Serve modelled drives with `linnet ssd serve` and the same --time-scale; another one is refused. Policies
    run one after the other, each on the drives as the one before left them.

    A connection that closes ends the replay, with exit status 1: the policy that ran has no row, and none follows
    it. What was measured under those before it is shown.

    Example: [bold]linnet replay -t a.csv -u 'nbd+unix:///drive0?socket=drives.sock' --policy baseline --overwrite[/]
    """
    chosen = parse_policies(policy or ["baseline"])
    models = [Model.load(path) for path in model or []]
    if len(models) == 1:
        models *= len(uri)
    for name in chosen:
        _native.check_replay_policy(name, models, len(uri))
    with Bars() as bars:
        beside = together(load_all(trace, format, bars, lenient=lenient))
        streams = streams_of(beside.traces, len(uri))
        refuse_writes(streams, overwrite)
        rows: list[dict[str, Any]] = []
        ended: DeviceError | None = None
        for name in chosen:
            step = bars.stage(f"replaying under {name}", sum(len(s) for s in streams))

            def count(done: int, step: object = step) -> bool:
                step(done)  # type: ignore[operator]
                return True

            try:
                run, late, (folded, cut) = _native.replay(
                    list(uri), streams, name, models, time_scale, writes is Writes.all, seed, count
                )
            except DeviceError as error:
                ended = DeviceError(f"{name}: {error}")
                break
            counts = run.counters()
            rows.append(
                {"policy": name, "time_scale": time_scale, "writes": writes.value}
                | run.row()
                | {key: counts[key] for key in (*FAILED, "errors", "timeouts", "failovers")}
                | {"folded": folded, "cut": cut}
                | lateness(late)
            )
    failed = told_failures(rows)
    notes = [note for note in (beside.note, few_reads(rows[0]["reads"]) if rows else "") if note]
    # What took hours to measure is not lost with the drives.
    if rows and json:
        print_json({"rows": rows, "seed": seed} | ({"notes": notes} if notes else {}))
    elif rows:
        show(rows, len(uri))
        show_notes(notes)
    if ended:
        raise ended
    if failed:
        raise typer.Exit(1)


def streams_of(traces: list[Trace], drives: int) -> list[Trace]:
    """The stream of each drive: its whole trace, at its recorded times, or nothing where there are fewer traces.

    To cut a trace into slices that run side by side, as an experiment does, would multiply its load.
    """
    if len(traces) > drives:
        raise typer.BadParameter(
            f"{len(traces)} traces for {drives} drives: give --uri {len(traces)} times, once for each trace",
            param_hint="--uri",
        )
    nothing, _ = traces[0].split_at(0)
    return traces + [nothing] * (drives - len(traces))


def lateness(late_ns: list[int]) -> dict[str, float]:
    """How late I/Os were sent, in us; nothing without I/Os."""
    if not late_ns:
        return {}
    p50, p99 = quantiles_ns(np.array(late_ns, np.uint64), [0.5, 0.99])
    return {"late_us_p50": p50 / 1000, "late_us_p99": p99 / 1000}


def told_failures(rows: list[dict[str, Any]]) -> bool:
    """Warn of what was not answered, and of requests that are not those of the trace; whether anything failed."""
    for row in rows:
        if any(row[key] for key in FAILED):
            warn(
                f"{row['policy']}: {row['reads_failed']:,} of {row['reads']:,} reads and {row['writes_failed']:,} "
                f"writes failed, after {row['errors']:,} errors and {row['timeouts']:,} time-outs of drives"
            )
    if rows and rows[0]["folded"]:
        warn(f"{rows[0]['folded']:,} I/Os lie beyond the end of their drive and went to where they are modulo its size")
    if rows and rows[0]["cut"]:
        warn(f"{rows[0]['cut']:,} I/Os were shortened, at the end of their drive or to 32 MiB")
    return any(row[key] for row in rows for key in FAILED)


def show(rows: list[dict[str, Any]], drives: int) -> None:
    """The rows as a table."""
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
        "reads_failed",
        "late_us_p50",
        "late_us_p99",
    ]
    title = f"{drives} drives in real time, latency in us of trace time"
    table(title, shown, [[r.get(k) for k in shown] for r in rows])


def refuse_writes(streams: list[Trace], overwrite: bool) -> None:
    """Refuse writes, which destroy the data of a drive, unless the user allowed them."""
    writes = sum(int((s.columns()["op"] == 1).sum()) for s in streams)
    if writes and not overwrite:
        raise typer.BadParameter(
            f"the trace has {writes:,} writes, which overwrite the drives; add --overwrite if they may be overwritten",
            param_hint="--overwrite",
        )
