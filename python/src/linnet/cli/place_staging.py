# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of commands that run tenants on a modelled drive or on a real one that is set aside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet._native import StagingDrive
from linnet.cli.output import Bars, warn
from linnet.place.staging import LATE_US, Stage

Staging = Annotated[
    Path | None,
    typer.Option(
        help="Run on this real drive instead, one run at a time: a block device of which nothing is in use, or a file.",
        show_default=False,
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Let tenants write to the staging drive. What is on it is lost.")
]
Fill = Annotated[
    bool,
    typer.Option(
        "--fill/--no-fill", help="Write a staging drive that may be overwritten once as a whole, before tenants run."
    ),
]


def drive_name(drive: str | None, staging: Path | None, overwrite: bool) -> str:
    """The model's name, or the path of the staging drive."""
    if staging is None:
        if overwrite:
            raise typer.BadParameter("there is no drive to overwrite; give --staging", param_hint="--overwrite")
        return drive or "nvme"
    if drive is not None:
        raise typer.BadParameter("runs are on a modelled drive or on a real one, not on both", param_hint="--staging")
    return str(staging)


def fill(stage: Stage, wanted: bool, bars: Bars) -> None:
    """Write a staging drive once."""
    if isinstance(stage, StagingDrive) and stage.writable and wanted:
        tell = bars.by_stage()
        stage.fill(lambda done, all_bytes: tell("filling the drive", done, all_bytes))


def warn_of_lateness(stage: Stage) -> None:
    """Say so where the machine was slower than the tenants."""
    if isinstance(stage, StagingDrive) and stage.late_us_p99 > LATE_US:
        warn(
            f"in one run a hundredth of the I/Os was submitted {stage.late_us_p99 / 1000:.1f} ms late or more: there, "
            "this machine was measured and not the drive; give fewer tenants, or a machine with more CPUs"
        )
