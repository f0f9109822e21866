# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of commands that run tenants on a modelled drive or on a real one that is set aside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from linnet.cli.options import check_preset
from linnet.cli.output import warn
from linnet.place.staging import LATE_US, WAITED

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
        "--fill/--no-fill", help="Write a staging drive that may be overwritten twice as a whole, before tenants run."
    ),
]


def drive_name(drive: str | None, staging: Path | None, overwrite: bool) -> str:
    """The model's name, or the path of the staging drive."""
    if staging is None:
        if overwrite:
            raise typer.BadParameter("there is no drive to overwrite; give --staging", param_hint="--overwrite")
        check_preset(drive, "--drive", ("nvme",))
        return drive or "nvme"
    if drive is not None:
        raise typer.BadParameter("runs are on a modelled drive or on a real one, not on both", param_hint="--staging")
    return str(staging)


def warn_of_machine(late_us: float, waited_share: float) -> None:
    """Say so where in some run the machine was slower than the tenants."""
    if late_us > LATE_US or waited_share > WAITED:
        warn(
            "the machine was measured, and not the drive alone: in a run a hundredth of the I/Os was submitted "
            f"{late_us / 1000:.1f} ms late or more, or a tenant waited for a CPU in {waited_share:.0%} of the time "
            "with I/Os outstanding; give fewer tenants, or a machine with more CPUs or less to do"
        )
