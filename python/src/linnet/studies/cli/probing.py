# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet study probing``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from linnet.cli.options import AsJson, Preset, Seed, Share, check_preset, complete_workload, parse_policies
from linnet.cli.output import Bars, percent, print_json, table
from linnet.experiment import Experiment, Setup, periods

DRIVE = "consumer-deep"


def probing_command(
    workload: Annotated[
        str, typer.Option("--workload", "-w", help="Table 1 workload to run.", autocompletion=complete_workload)
    ] = "az-e",
    probe_share: Annotated[str, typer.Option(help="Probabilities of a probe, separated by commas.")] = "0.01",
    policy: Annotated[str, typer.Option(help="Policies, separated by commas.")] = "linnos,linnos+hl,linnet-best",
    preset: Preset = DRIVE,
    share: Share = None,
    seconds: Annotated[float, typer.Option(help="Length of the workload, both periods together.", min=1)] = 20.0,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Estimate how many revokes are false by sampled probes, and compare with the truth, which the simulator knows.

    A read that would be revoked, or sent elsewhere than to its primary, is submitted to the primary with a known
    probability.

    Example: [bold]linnet study probing -w az-e --probe-share 0.01,0.05[/]
    """
    check_preset(preset)
    names = parse_policies([policy])
    try:
        shares = [float(part) for part in probe_share.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{probe_share!r} is not a list of numbers", param_hint="--probe-share") from error
    if any(not 0 < one <= 1 for one in shares):
        raise typer.BadParameter("give shares above 0 and up to 1", param_hint="--probe-share")
    rows: list[dict[str, Any]] = []
    with Bars() as bars:
        setup = Setup(preset=preset or DRIVE, seed=seed, device_wide_share=share)
        train, test = periods(workload, seconds, setup)
        experiment = Experiment(train, setup, name=workload, progress=bars, test=test)
        experiment.learn()
        for name in names:
            base = {"workload": workload, "preset": setup.preset, "share": share, "seed": seed, "policy": name}
            plain = experiment.run(name).row["mean_us"]
            for one in shares:
                run = experiment.probe(name, one)
                mean_us = run.row()["mean_us"]
                rows.append(base | {"probe_share": one, "mean_us": mean_us, "mean_us_unprobed": plain} | run.probing())
    if json:
        print_json({"rows": rows})
        return

    def three(estimate: tuple[float, float, float]) -> str:
        return f"{100 * estimate[0]:.1f} ({100 * estimate[1]:.1f}..{100 * estimate[2]:.1f})"

    shown = [
        [
            row["policy"],
            row["probe_share"],
            row["tosses"],
            row["probes"],
            three(row["false_of_tosses"]),
            f"{100 * row['false_of_tosses_truth']:.1f}",
            three(row["false_of_reads"]),
            percent(row["probes_of_reads"], 2),
            "-"
            if row["cost_us"] is None
            else f"{row['cost_us'][0]:.0f} ({row['cost_us'][1]:.0f}..{row['cost_us'][2]:.0f})",
        ]
        for row in rows
    ]
    columns = [
        "policy",
        "chance",
        "unwanted",
        "probes",
        "false %",
        "truth %",
        "of reads %",
        "probes / reads",
        "cost us",
    ]
    table(
        f"{workload} on {setup.preset}: rejected reads that would have been fast at the primary, 95 % intervals",
        columns,
        shown,
    )
