# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet ssd calibrate``: fit the SSD model to a measured drive."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from linnet.calibration import calibrate as fitting
from linnet.calibration.iocost import Measured, read_result
from linnet.calibration.loadcurve import TAIL, beneath, fit, nearest, off
from linnet.calibration.shared import CELLS_MAX
from linnet.cli.calibrate_shared import calibrate_shared
from linnet.cli.options import AsJson, Seed, picture_destination
from linnet.cli.output import console, destination, errors, print_json, table
from linnet.extras import require
from linnet.files import write_whole
from linnet.report.calibration import calibration_svg

START = "consumer-deep"
CEILINGS = (25.0, 50.0, 75.0, 100.0)
"""Ceilings of load at which modelled and measured latencies are shown."""


def _fixed(settings: list[str]) -> dict[str, Any]:
    """Settings ``KEY=VALUE``, the value as TOML has it."""
    try:
        return {key: value for text in settings for key, value in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(f"must be KEY=VALUE as in a parameter file: {error}", param_hint="--set") from error


def compared(measured: Measured, rows: list[dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each ceiling: measured latencies, modelled ones at that load, and at the load of the nearest median."""
    shown = [level for ceiling in CEILINGS if (level := nearest(measured.levels, ceiling)) is not None]
    found = []
    for level in shown or measured.levels[:1]:
        at = min(rows, key=lambda row: abs(row["load"] - level.vrate))
        matched = beneath(rows, level)
        found.append(
            {
                "ceiling": level.vrate,
                "measured": {"p50_us": level.p50, "p99_us": level.p99, "p99_mean_us": level.p99_mean},
                "modelled": {k: at[k] for k in ("load", "p50_us", "p99_us", "p99_mean_us")},
                "matched": {k: matched[k] for k in ("load", "p50_us", "p99_us", "p99_mean_us")},
            }
        )
    return found


def header(result: dict[str, Any]) -> str:
    """Comment lines that begin the parameter file."""
    lines = [
        "SPDX-License-Identifier: MIT OR Apache-2.0",
        f"Calibrated with `linnet ssd calibrate` against resctl-bench's result of one {result['drive']}.",
        f"Started from {result['start']}, seed {result['seed']}; held: "
        + (", ".join(f"{k} = {v}" for k, v in result["fixed"].items()) or "nothing")
        + ".",
        "Modelled over measured: "
        + ", ".join(f"{row['figure']} {row['ratio']:.3f}" for row in result["figures"])
        + ".",
        "Fitted: "
        + ", ".join(f"{row['field']} to {row['figure']}" for row in result["figures"] if row["field"])
        + (f"; {' and '.join(TAIL)} to latency against load." if result["latency"] else "."),
        "Capacity is scaled down; over_provisioning is the spare space that the measurement met, not the printed one.",
    ]
    wrapped = [part for line in lines for part in textwrap.wrap(line, 110)]
    return "".join(f"# {line}\n" for line in wrapped)


def calibrate(
    result: Annotated[
        list[Path],
        typer.Argument(
            help="Result of resctl-bench: JSON, plain or gzip. With --drive: tables of co-location, or their folder.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Parameter file to write (TOML).", callback=destination, show_default=False),
    ],
    start: Annotated[str, typer.Option(help="Preset or parameter file to start from.")] = START,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="KEY=VALUE that is known of the drive; it is not fitted. May be repeated.", show_default=False
        ),
    ] = None,
    drive: Annotated[
        str | None,
        typer.Option(
            help="Fit to the cells of this drive in tables of shared drives (ssdiq-threads*, ssdiq-drives).",
            show_default=False,
        ),
    ] = None,
    cells: Annotated[
        int, typer.Option(help="With --drive: cells to fit on, evenly spread over the loads.", min=2, max=CELLS_MAX)
    ] = 6,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a figure of modelled against measured values (SVG).", callback=picture_destination),
    ] = None,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Fit the SSD model to a measured drive.

    Without --drive: to the saturation and latency in a result of resctl-bench's iocost benchmarks. With it: to some
    cells of co-location tables, judged on the others.

    Example: [bold]linnet ssd calibrate result.json.gz --set channels=8 --set dies_per_channel=2 -o drive.toml[/]
    Example: [bold]linnet ssd calibrate tables/ --drive h0 -o drive.toml[/]
    """
    if report is not None:
        require("report", "--report")
    if drive is not None:
        if settings or start != START:
            raise typer.BadParameter("with --drive the layout comes from the data sheet; leave out --set and --start")
        calibrate_shared(result, drive, cells, out, report, seed, json)
        return
    if len(result) > 1:
        raise typer.BadParameter("one result at a time; tables of co-location need --drive", param_hint="RESULT")
    measured = read_result(result[0])
    fixed = _fixed(settings or [])
    told = errors.print if errors.is_terminal else None
    found, rows = fit(measured, fitting.read_params(start), fixed, seed, told)
    params = found.params
    fields = {step.figure: step.field for step in reversed(fitting.fitted(fixed))}
    summary: dict[str, Any] = {
        "drive": measured.drive,
        "start": start,
        "seed": seed,
        "fixed": fixed,
        "rounds": found.rounds,
        "figures": [
            {
                "figure": name,
                "field": fields.get(name),
                "measured": target,
                "modelled": found.figures[name],
                "ratio": found.figures[name] / target,
                "at_bound": found.at_bound.get(name),
            }
            for name, target in measured.figures.items()
        ],
        "latency_off": float(np.exp(off(rows, measured.levels))) if rows else None,
        "latency": compared(measured, rows) if rows else [],
        "params": params,
    }
    write_whole(out, header(summary) + fitting.to_toml({"fitted_to": summary["drive"], **params}))
    if report is not None:
        write_whole(report, calibration_svg(measured, found.figures, list(fields), rows))
    if json:
        print_json(summary)
        return
    show(summary)
    console.print(f"parameters: {out}" + (f", picture: {report}" if report is not None else ""))


def show(summary: dict[str, Any]) -> None:
    """Print what was fitted and how near it is to the measurement."""
    table(
        f"{summary['drive']}: modelled against measured",
        ["figure", "fitted by", "value", "measured", "modelled", "ratio"],
        [
            [
                row["figure"],
                row["field"] or "-",
                summary["params"][row["field"]] if row["field"] else "-",
                row["measured"],
                row["modelled"],
                f"{row['ratio']:.3f}" + (f" ({row['at_bound']} at its bound)" if row["at_bound"] else ""),
            ]
            for row in summary["figures"]
        ],
        left=2,
    )
    if summary["latency"]:
        table(
            "read latency, us, median over seconds ("
            + ", ".join(f"{key} = {summary['params'][key]}" for key in TAIL)
            + f"); off by a factor of {summary['latency_off']:.2f} on average",
            ["ceiling %", "measured p50", "p99", "at load %", "p50", "p99", "load with this p50 %", "p50", "p99"],
            [
                [
                    row["ceiling"],
                    *(row["measured"][k] for k in ("p50_us", "p99_us")),
                    *(row[which][k] for which in ("modelled", "matched") for k in ("load", "p50_us", "p99_us")),
                ]
                for row in summary["latency"]
            ],
        )
