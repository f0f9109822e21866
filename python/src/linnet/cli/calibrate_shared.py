# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet ssd calibrate --drive``: fit the SSD model to tables of a drive that several threads share."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from linnet.calibration import cells as fitting
from linnet.calibration.calibrate import to_toml
from linnet.calibration.shared import DEPTH, JUDGED, Drive, chosen, read_drives
from linnet.cli.output import Bars, console, percent, print_json, table
from linnet.files import write_whole
from linnet.report.calibration import cells_svg

TRIES = 300
"""About as many parameter sets as a fit runs."""
SHOWN = (
    "read_priority",
    "retry_probability",
    "page_type_read_ns",
    "program_ns",
    "suspend_ns",
    "suspend_after_ns",
    "over_provisioning",
    "erase_ns",
    "superblocks_per_erase",
    "buffer_bytes",
    "write_limit_mb_per_s",
    "gc_read_pages",
    "stalled_writes_max",
)
"""Fitted keys of the parameter file, where the mechanism is on."""


def header(summary: dict[str, Any]) -> str:
    """Comment lines that begin the parameter file: what was fitted to what, and the errors on the other cells."""

    def errors_of(judged: dict[str, Any], op: str) -> str:
        of = judged[op]
        each = ", ".join(
            f"{name.replace('_', '.')} {percent(of[name]['median'])} (worst {percent(of[name]['worst'], 0)})"
            for name in JUDGED
        )
        return f"{op}s within 20 % at all three in {of['within_20']} of {of['cells']} cells; median error {each}."

    threads = (
        "seven threads, the load of SSD-iq (Haas et al., PVLDB 18(11))"
        if summary["as_ssdiq"]
        else f"threads at the offered rates of the tables, each with at most {DEPTH} requests in flight"
    )
    lines = [
        "SPDX-License-Identifier: MIT OR Apache-2.0",
        f"Calibrated with `linnet ssd calibrate --drive {summary['drive']}` to measured latencies of one "
        f"{summary['model']}, as of a full drive in steady state under random 4 KiB I/O: {threads}.",
        f"Fitted on {len(summary['fitted_loads'])} cells, rate_iops "
        + ", ".join(f"{load:,.0f}" for load in summary["fitted_loads"])
        + f". Seed {summary['seed']}.",
    ]
    for place, judged in summary["held_out"].items():
        lines += [f"On {place}: {errors_of(judged, op)}" for op in ("read", "write")]
    lines += [
        "Held: channels, dies and link by the data sheet; planes, flash pages, channels' rate and free space are "
        f"guesses. Fitted: {', '.join(key for key in SHOWN if key in summary['params'])}, command_ns.",
        "Capacity is scaled down, with blocks to match. Other sizes and mixes than 4 KiB were not compared.",
    ]
    return "".join(f"# {part}\n" for line in lines for part in textwrap.wrap(line, 115))


def calibrate_shared(
    paths: Sequence[Path], name: str, cells: int, out: Path, report: Path | None, seed: int, json: bool
) -> None:
    """Fit to some cells of a drive, and judge on its others and on those of other drives of the model."""
    drives = read_drives(paths)
    if name not in drives:
        raise typer.BadParameter(f"{name}: no such drive; the tables have {', '.join(drives)}", param_hint="--drive")
    drive = drives[name]
    fitted = [drive.cells[at] for at in chosen(drive.cells, cells)]
    loads = [one.load for one in fitted]
    with Bars() as bars:
        step = bars.stage(f"{name}: parameter sets", TRIES)
        found = fitting.fit(drive, fitted, seed, lambda done: step(min(done, TRIES)))
        twins = [other for other in drives.values() if other.model == drive.model and other is not drive]
        rows = fitting.compared(found.params, [drive, *twins], {name: loads}, seed)
    held = {"its other cells": [row for row in rows if row["drive"] == name and not row["fitted"]]}
    held |= {f"{twin.name}, of the same model": [row for row in rows if row["drive"] == twin.name] for twin in twins}
    summary: dict[str, Any] = {
        "drive": name,
        "model": drive.model,
        "seed": seed,
        "as_ssdiq": all(one.as_ssdiq for one in drive.cells),
        "fitted_loads": loads,
        "tried": found.tried,
        "distance": found.distance,
        "held_out": {
            place: {op: fitting.judged(own, op) for op in ("read", "write")} for place, own in held.items() if own
        },
        "cells": rows,
        "params": found.params,
    }
    write_whole(out, header(summary) + to_toml({"fitted_to": drive.model, **found.params}))
    if report is not None:
        write_whole(report, cells_svg(drive.model, rows))
    if json:
        print_json(summary)
        return
    show(summary, drive)
    console.print(f"parameters: {out}" + (f", picture: {report}" if report is not None else ""))


def show(summary: dict[str, Any], drive: Drive) -> None:
    """Print cells as measured/modelled, and the errors on those that the fit did not see."""
    names = [(op, name) for op in ("read", "write") for name in JUDGED]

    def both(pair: dict[str, float]) -> str:
        return f"{pair['measured']:,.0f}/{pair['modelled']:,.0f}"

    table(
        f"{drive.model}: latency us, measured/modelled; fitted on {len(summary['fitted_loads'])} cells",
        [
            "drive",
            "rate_iops",
            "cell",
            "achieved I/Os per second",
            *(f"{op} {name.replace('_', '.')}" for op, name in names),
        ],
        [
            [
                row["drive"],
                f"{row['load']:,.0f}",
                "fitted" if row["fitted"] else "judged",
                both(row["iops"]),
                *(both(row[f"{op}_{name}_us"]) for op, name in names),
            ]
            for row in summary["cells"]
        ],
        left=3,
    )
    table(
        "cells that the fit did not see: relative error",
        ["of", "", "cells", "within 20 %", *(f"{name.replace('_', '.')} median (worst)" for name in JUDGED)],
        [
            [
                place,
                op,
                judged[op]["cells"],
                judged[op]["within_20"],
                *(f"{percent(judged[op][n]['median'])} ({percent(judged[op][n]['worst'], 0)})" for n in JUDGED),
            ]
            for place, judged in summary["held_out"].items()
            for op in ("read", "write")
        ],
        left=2,
    )
