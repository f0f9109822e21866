# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study``: the experiments behind the published results."""

from __future__ import annotations

import typer

from linnet.studies.cli.accuracy import accuracy_command
from linnet.studies.cli.colocation import colocation_command
from linnet.studies.cli.drift import drift_command
from linnet.studies.cli.interference import interference_command
from linnet.studies.cli.latency import latency_command
from linnet.studies.cli.packing import packing_command
from linnet.studies.cli.paths import paths_command
from linnet.studies.cli.probing import probing_command
from linnet.studies.cli.recorded import recorded_command
from linnet.studies.cli.shapes import shapes_command
from linnet.studies.cli.tune import tune_command
from linnet.studies.cli.violations import violations_command
from linnet.studies.cli.worth import worth_command

app = typer.Typer()
app.command("accuracy")(accuracy_command)
app.command("colocation")(colocation_command)
app.command("latency")(latency_command)
app.command("drift")(drift_command)
app.command("interference")(interference_command)
app.command("packing")(packing_command)
app.command("paths")(paths_command)
app.command("violations")(violations_command)
app.command("probing")(probing_command)
app.command("recorded")(recorded_command)
app.command("shapes")(shapes_command)
app.command("tune")(tune_command)
app.command("worth")(worth_command)
