# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet compare`` and ``linnet whatif``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from linnet._native import Trace, engine_of
from linnet.caveats import few_reads
from linnet.cli.learn import show_fitted
from linnet.cli.options import (
    ArraySeed,
    AsJson,
    ClosedLoop,
    Format,
    Lenient,
    Presets,
    Rebuilt,
    Replicas,
    Rerate,
    Seconds,
    SeveralReplicas,
    Share,
    Stalls,
    Traces,
    Writes,
    WritesTo,
    checked_presets,
    complete_policy,
    complete_preset,
    complete_workload,
    load_all,
    parse_policies,
)
from linnet.cli.output import Bars, console, destination, number, percent, print_json, show_notes, table, warn
from linnet.experiment import (
    ORACLE,
    READ_LIMIT_S,
    UNANSWERED,
    Experiment,
    Outcome,
    Setup,
    borrowings,
    own_models,
    periods,
    share_of_gain,
)
from linnet.extras import require
from linnet.files import write_whole
from linnet.learning import FitSettings
from linnet.report import Section, render
from linnet.verdict import false_share
from linnet.whatif import SEEDS, Verdict, assess

QUANTILES = {"p50_us": "p50", "p95_us": "p95", "p99_us": "p99", "p999_us": "p99.9", "p9999_us": "p99.99"}
"""Of a row, as they are printed."""
COUNTED = dict(zip(UNANSWERED, ("failed reads", "failed writes", "time-outs"), strict=True))
"""Of a row, printed where there are any."""

Report = Annotated[
    Path | None, typer.Option(help="Also write a self-contained HTML report.", callback=destination, show_default=False)
]


def compare_command(
    trace: Traces = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            "-w",
            help="Table 1 workload to generate and run.",
            autocompletion=complete_workload,
            show_default=False,
        ),
    ] = None,
    preset: Presets = None,
    replicas: Replicas = 3,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policies, separated by commas; may be repeated.", autocompletion=complete_policy, show_default="all"
        ),
    ] = None,
    share: Share = None,
    rerate: Rerate = 1.0,
    seconds: Seconds = 120.0,
    epochs: Annotated[
        int, typer.Option(help="Passes over the training rows, 1 to 1,000,000.", min=1)
    ] = FitSettings.epochs,
    writes: WritesTo = Writes.all,
    writes_to_all: Annotated[bool, typer.Option("--writes-to-all", hidden=True)] = False,
    continued: Annotated[
        bool,
        typer.Option(
            "--continued",
            help="Test each policy after it has run the training part, as on a system that runs.",
        ),
    ] = False,
    stalls: Stalls = 0.0,
    rebuilt: Rebuilt = 0,
    closed_loop: ClosedLoop = None,
    report: Report = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: ArraySeed = 0,
    json: AsJson = False,
) -> None:
    """Compare admission policies on a flash array in virtual time, driven by traces.

    The first half of each trace is for training; every policy then runs the second half, on drives as they were before
    the first. A workload is generated as two busy periods, one for each purpose. If there are fewer traces than
    replicas, each trace is cut into equal time slices, one per device, and then each slice into halves. Drives of one
    preset share their trees, so these also learn from slices after the one that is tested, which gains nothing that
    can be measured (docs/results/policies.md). Traces whose format has a clock that others
    share keep their times to each other; a note says so where they may not have begun together.

    Example: [bold]linnet compare -t msnfs.trace.zst --rerate 20 --policy baseline,linnos+hl,oracle[/]
    """
    presets = checked_presets(preset)
    if writes_to_all:
        warn("--writes-to-all is now --writes all, the default")
    chosen = parse_policies(policy)
    if not trace and not workload:
        raise typer.BadParameter("give --trace once for each device, or --workload", param_hint="--trace")
    if report is not None:
        require("report", "--report")
    finished: list[tuple[Experiment, list[Outcome]]] = []
    with Bars() as bars:
        setup = Setup(
            replicas=replicas,
            seed=seed,
            device_wide_share=share,
            writes_to_all=writes_to_all or writes is Writes.all,
            continued=continued,
            stalls_per_minute=stalls,
            rebuilt=rebuilt,
            closed_loop=closed_loop,
            fit=FitSettings(epochs=epochs),
        )
        inputs: list[tuple[str | None, list[Trace], list[Trace] | None]] = []
        if trace:
            inputs.append((None, faster(load_all(trace, format, bars, lenient=lenient), rerate), None))
        for name in workload or []:
            train, test = periods(name, seconds, setup)
            inputs.append((name, faster(train, rerate), faster(test, rerate)))
        for title, first, second in inputs:
            for one in presets:
                experiment = Experiment(first, replace(setup, preset=one), title, bars, second)
                finished.append((experiment, experiment.compare(chosen)))
    if report is not None:
        write_whole(report, render([Section.of(e, o) for e, o in finished], title="Linnet comparison"))
    if json:
        notes = dict.fromkeys(experiment.note for experiment, _ in finished if experiment.note)
        notes |= dict.fromkeys(note for experiment, outcomes in finished for note in notes_of(experiment, outcomes))
        print_json(
            {
                "rows": [outcome.row for _, outcomes in finished for outcome in outcomes],
                "parameters": [experiment.parameters() for experiment, _ in finished],
                "models": [report for experiment, _ in finished for report in experiment.reports()],
            }
            | ({"notes": list(notes)} if notes else {})
        )
        return
    for experiment, outcomes in finished:
        show_outcomes(experiment, outcomes)
        show_notes([experiment.note] if experiment.note else [])
    if report is not None:
        console.print(f"report: {report}")


def faster(traces: Sequence[Trace], factor: float) -> list[Trace]:
    """The traces with their I/O rate multiplied by ``factor``."""
    return [trace.rerate(factor) for trace in traces]


def show_outcomes(experiment: Experiment, outcomes: Sequence[Outcome]) -> None:
    """Print one experiment: its models, then a row for each policy."""
    setup = experiment.setup
    reports = experiment.reports()
    own = own_models(reports)
    show_fitted([one for one in map(experiment.fitted.__getitem__, own) if one], [f"device {device}" for device in own])
    for sentence in borrowings(reports):
        console.print(f"note: {sentence}")
    rows = [outcome.row for outcome in outcomes]
    gains = gains_of(rows)
    counted = {key: name for key, name in COUNTED.items() if any(r[key] for r in rows)}
    engine = " (queued engine)" if experiment.array.engine == "queued" else ""
    table(
        f"\n{experiment.name} on {setup.replicas} x {setup.preset}{engine}, seed {setup.seed}: "
        f"{rows[0]['reads']:,} reads, latency in us",
        [
            "policy",
            "mean",
            *QUANTILES.values(),
            "of possible gain",
            "extra I/O",
            "revokes a read",
            "false submit",
            "of revokes false",
            *(["I/Os a second"] if setup.closed_loop else []),
            *counted.values(),
        ],
        [
            [
                r["policy"],
                *(float(r[k]) for k in ("mean_us", *QUANTILES)),
                percent(gain, 0),
                percent(r["extra_io_share"]),
                f"{r['revokes'] / max(1, r['reads']):.3f}",
                percent(r["false_submit"], 2),
                percent(false_share(r)),
                *([float(r["ios_per_s"])] if setup.closed_loop else []),
                *(r[key] for key in counted),
            ]
            for r, gain in zip(rows, gains, strict=True)
        ],
    )
    show_notes(remarks(experiment, rows))
    if engine:
        show_collection(rows)
    for name, why in experiment.left_out().items():
        console.print(f"[dim]not computed:[/] {escape(name)} and false revokes: {escape(why)}", markup=True)


def gains_of(rows: Sequence[dict[str, Any]]) -> list[float | None]:
    """The share of the possible gain of each row's mean; ``None`` without baseline and oracle among the rows."""
    base, limit = (next((r["mean_us"] for r in rows if r["policy"] == name), None) for name in ("baseline", "oracle"))
    return [share_of_gain(base, row["mean_us"], limit) for row in rows]


def given_up(rows: Sequence[dict[str, Any]], replicas: int) -> str:
    """Which quantiles are time limits of reads that no device answered, as a sentence; empty without any.

    Each of the attempts of a read, one a replica, has its time limit, so an answered read takes less than their sum.
    """
    limit_us = replicas * READ_LIMIT_S * 1e6
    names = [name for key, name in QUANTILES.items() if any(r[key] >= limit_us for r in rows if r["reads_failed"])]
    if not names:
        return ""
    attempts = f"{replicas} attempts of {READ_LIMIT_S:g} s" if replicas > 1 else f"one attempt of {READ_LIMIT_S:g} s"
    return (
        f"failed reads count with the time until they were given up, up to {attempts}: at {', '.join(names)}, values "
        f"from {limit_us:,.0f} us up are this limit and no answers"
    )


def beaten_oracle(rows: Sequence[dict[str, Any]]) -> str:
    """Why a policy has a lower mean than the oracle, as a sentence; empty where none has.

    That is more than the possible gain, or, where the oracle gains too little for that figure, any lower mean.
    """
    limit = next((row["mean_us"] for row in rows if row["policy"] == ORACLE), 0.0)
    pairs = list(zip(rows, gains_of(rows), strict=True))
    better = [
        row["policy"] for row, gain in pairs if (row["mean_us"] < limit if gain is None else round(100 * gain) > 100)
    ]
    if not better:
        return ""
    what = "a lower mean than the oracle" if pairs[0][1] is None else "more than the possible gain"
    return (
        f"{what}: {', '.join(better)}. The oracle is greedy: it gives each read to the device "
        "that answers it first, sends no second copies, and keeps no queue short for later reads"
    )


def remarks(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> list[str]:
    """What must be known to read the rows, as sentences."""
    replicas = experiment.setup.replicas
    found = (few_reads(rows[0]["reads"]), experiment.folded, given_up(rows, replicas), beaten_oracle(rows))
    return [sentence for sentence in found if sentence]


def told(experiment: Experiment, outcomes: Sequence[Outcome]) -> list[str]:
    """The sentences that :func:`show_outcomes` prints."""
    return [*borrowings(experiment.reports()), *remarks(experiment, [outcome.row for outcome in outcomes])]


def notes_of(experiment: Experiment, outcomes: Sequence[Outcome]) -> list[str]:
    """What is printed beside the table of an experiment, for programs."""
    setup = experiment.setup
    named = f"{experiment.name} on {setup.replicas} x {setup.preset}"
    return [f"{named}: {sentence}" for sentence in told(experiment, outcomes)]


def show_collection(rows: Sequence[dict[str, Any]]) -> None:
    """Print what garbage collection did while the policies ran."""
    figures = {key: [row[key] for row in rows] for key in ("waf", "gc_runs", "gc_reads", "reads_behind_gc")}
    if not any(figures["gc_runs"]):
        console.print("[dim]garbage collection:[/] did not run: the load writes too little", markup=True)
        return
    least, most = (f"{pick(waf for waf in figures['waf'] if waf is not None):.2f}" for pick in (min, max))
    spans = {key: f"{number(min(values))} to {number(max(values))}" for key, values in figures.items() if key != "waf"}
    console.print(
        f"[dim]garbage collection, by policy:[/] write amplification {least} to {most}, blocks collected "
        f"{spans['gc_runs']}, pages read for it {spans['gc_reads']}, reads behind it {spans['reads_behind_gc']}",
        markup=True,
    )


def whatif_command(
    traces: Annotated[list[Path], typer.Argument(help="Traces of your devices, one for each.", show_default=False)],
    preset: Annotated[
        str | None,
        typer.Option(
            help="SSD model preset or parameter file; as many as replicas, separated by commas, for each its own.",
            autocompletion=complete_preset,
            show_default="the one most like your trace",
        ),
    ] = None,
    replicas: SeveralReplicas = 3,
    share: Share = None,
    rerate: Rerate = 1.0,
    seeds: Annotated[
        int, typer.Option(help="Seeds of each device-wide share, for the intervals.", min=1, max=1000)
    ] = SEEDS,
    report: Report = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: ArraySeed = 0,
    json: AsJson = False,
) -> None:
    """Show what each policy would do to your read tail, and whether Linnet is worth installing. Touches no device.

    Mean, p99, p99.9 and the reads that are sent twice count alike. Only what you can deploy is recommended: the
    device-mapper target or a setting of your own software. Where the 95 % interval of a gain includes a loss, nothing
    is recommended. The interval covers drives like the modelled ones, under your load. Drives are those of a preset
    that was fitted to a recorded one, unless you name another. Writes go where the traces have them. The traces share
    the addresses of each device: equal offsets are the same pages. A note and a doubt say where traces may not have
    begun together.

    Example: [bold]linnet whatif sdb.blkparse.txt.zst[/]
    """
    drives = checked_presets([preset])[0].split(",") if preset is not None else []
    if any(engine_of(one.strip()) != "timelines" for one in drives):
        raise typer.BadParameter(
            "whatif needs drives with foresight, whose answers are known in advance; the queued engine has none",
            param_hint="--preset",
        )
    if report is not None:
        require("report", "--report")
    with Bars() as bars:
        loaded = faster(load_all(traces, format, bars, lenient=lenient), rerate)
        for one in loaded:
            if len(one.devices) > 1:
                warn(
                    f"{one.name}: the I/Os of {len(one.devices):,} devices are replayed as those of one; `linnet trace "
                    "convert --device N` writes those of one device"
                )
        setup = Setup(preset=preset or "", replicas=replicas, seed=seed, device_wide_share=share)
        verdict = assess(loaded, setup, bars, seeds)
    if report is not None:
        sections = [Section.of(e, o) for e, o in verdict.experiments]
        write_whole(report, render(sections, title="What Linnet would do", lead=verdict.text))
    if json:
        print_json(verdict.as_dict())
        return
    show_verdict(verdict)
    if report is not None:
        console.print(f"report: {report}")


def cell(value: Any, share: bool) -> Any:
    """A value of a table; what is not known is a dash."""
    return "-" if value is None else percent(value, 0) if share else value


def show_verdict(verdict: Verdict) -> None:
    """Print the result for each device-wide share, then the answer."""
    for experiment, outcomes in verdict.experiments:
        show_outcomes(experiment, outcomes)
    if verdict.summary:
        shares = ("share", "headroom", "gain_over_baseline", "gain_over_simple", "gain_low95", "gain_high95")
        rows = [[cell(v, k in shares) for k, v in row.items()] for row in verdict.summary]
        table(
            "\nby device-wide share: how much of the drive's internal work blocks the whole drive",
            [k.replace("_", " ") for k in verdict.summary[0]],
            rows,
        )
    gains = ("gain", "low95", "high95", "extra_io_share")
    rows = [[cell(v, k in gains) for k, v in line.items()] for line in verdict.candidates]
    names = [k.replace("_", " ") for k in verdict.candidates[0]]
    table(
        "\nwhat you can deploy, over all shares and seeds, against reading each stream's own drive", names, rows, left=2
    )
    said = {sentence for experiment, outcomes in verdict.experiments for sentence in told(experiment, outcomes)}
    show_notes(note for note in verdict.notes if note not in said)
    console.print(f"\n[bold]{escape(verdict.headline)}[/]\n{escape(verdict.text)}", markup=True)
