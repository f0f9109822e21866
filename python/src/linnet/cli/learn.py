# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet label``, ``linnet fit`` and ``linnet evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from linnet._native import Array, Model, Trace, training_latencies
from linnet.caveats import folded
from linnet.cli.options import (
    AsJson,
    Device,
    Format,
    Lenient,
    Preset,
    Replicas,
    Seed,
    Share,
    Traces,
    check_preset,
    load_all,
)
from linnet.cli.output import Bars, console, counted, destination, number, percent, print_json, table, warn
from linnet.files import write_whole
from linnet.learning import (
    SCHEMAS,
    FitSettings,
    Fitted,
    as_learned,
    dominant_reads,
    evaluate,
    fit,
    inflection_point,
    is_better_than_base_rate,
)

TrainShare = Annotated[
    float,
    typer.Option(help="Share of each trace's reads, from its start, for training; the rest tests.", min=0.05, max=0.95),
]

SlowUs = Annotated[
    float | None,
    typer.Option(
        help="To the trees, reads above this latency are slow.",
        min=1,
        max=1e9,
        show_default="above the inflection point",
    ),
]

BIAS_MAX = 1e6
"""With it, one slow read weighs as much as a million fast ones."""
RECORDS_MAX = 4_194_304
"""Records of all traces together that are fitted or evaluated."""
MaxRecords = Annotated[
    int,
    typer.Option(
        help="Use at most this many records of all traces together: evenly spread blocks of longer ones.", min=16_384
    ),
]


def measured(traces: Sequence[Trace], preset: str | None, share: float | None, seed: int, bars: Bars) -> list[Trace]:
    """The traces with latencies: their own, or what the SSD model answers under the baseline policy.

    With their own, each is of one device, and I/Os that arrive at the same time are in an order drawn by a hash:
    :func:`linnet.learning.as_learned`.
    """
    for trace in traces:
        if not len(trace.read_latencies()) and not (trace.columns()["op"] == 0).any():
            raise typer.BadParameter(f"{trace.name} has no reads; a model predicts their latency", param_hint="--trace")
    if preset is not None:
        array = Array(preset, len(traces), seed, share)
        if beyond := folded(traces, array.parameters()["capacity_bytes"]):
            warn(beyond)
        step = bars.stage(f"running on {preset}", sum(len(t) for t in traces))

        def count(done: int) -> bool:
            step(done)
            return True

        return array.run(list(traces), "baseline", [], seed=seed, log=True, progress=count).logs()
    for trace in traces:
        if not trace.has_latency:
            raise typer.BadParameter(
                f"{trace.name} has no latencies; add --preset to run it through the SSD model", param_hint="--trace"
            )
    return as_learned(traces, seed)


DOMINANT = 0.2
"""A share of the sum of latencies. Recorded traces have 0.05 at most; above this share the point moves in some."""
FEW_READS = 100
"""In a trace of fewer reads, one of them is no outlier."""


def warn_useless(name: str, boost_us: float) -> None:
    """Say where no point of the search saves time, since all reads are about equally fast."""
    if boost_us < 0:
        warn(
            f"{name}: no latency near the bend of its distribution tells reads apart that are better sent elsewhere: "
            f"that would cost {number(-boost_us)} us a read"
        )


LEARNED_READS = 1_000
"""With fewer, much of an inflection point or a model is chance."""


def warn_few(name: str, reads: int, purpose: str) -> None:
    """Say where there are too few reads for a purpose."""
    if reads < LEARNED_READS:
        warn(
            f"{name}: only {counted(reads, 'read')} {purpose}, so much of the result is chance; give "
            f"{LEARNED_READS:,} or more"
        )


def warn_dominated(traces: Sequence[Trace]) -> None:
    """Say where few reads, which may be bad records, are much of the mean that the inflection point minimises."""
    for trace in traces:
        latencies = trace.read_latencies()
        count, share = dominant_reads(latencies)
        if share < DOMINANT or len(latencies) < FEW_READS:
            continue
        columns = trace.columns()
        # A latency of 2^64-1 is none.
        latency = np.where(
            (columns["op"] == 0) & (columns["latency_ns"] != np.uint64(2**64 - 1)), columns["latency_ns"], 0
        )
        worst = int(latency.argmax())
        arrive_s, latency_s = (float(column[worst]) / 1e9 for column in (columns["arrive_ns"], latency))
        warn(
            f"{trace.name}: {count:,} of {len(latencies):,} reads {'has' if count == 1 else 'have'} "
            f"{percent(share, 0)} of all read latency and may move the inflection point; the highest is "
            f"{number(latency_s)} s, of the read that arrives at {arrive_s:.6f} s: is that a bad record?"
        )


def label_command(
    trace: Traces = None,
    preset: Preset = None,
    share: Share = None,
    replicas: Replicas = 3,
    train_share: Annotated[
        float, typer.Option(help="Look at this share of each trace's reads, from its start.", min=0.05, max=1.0)
    ] = 1.0,
    device: Device = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Find each device's inflection point: the latency that separates its fast reads from its slow ones.

    To find a --slow-us for [bold]linnet fit[/], give the same --train-share here: then the reads that test the model do
    not influence it.

    Example: [bold]linnet label -t nvme0.csv -t nvme1.csv -t nvme2.csv[/]
    """
    check_preset(preset)
    with Bars() as bars:
        loaded = load_all(trace, format, bars, lenient=lenient, device=device)
        traces = measured(loaded, preset, share, seed, bars)
    warn_dominated(traces)
    # A fit finds its point on the reads that it trains on, without the first few, which have no features.
    columns = [training_latencies(t, train_share) if train_share < 1 else t.read_latencies() for t in traces]
    found: list[dict[str, Any]] = []
    for i, one in enumerate(traces):
        point = inflection_point(columns, device=i, replicas=replicas, seed=seed)
        best = float(point.boost[:, 2].max()) if len(point.boost) else 0.0
        warn_few(one.name, len(columns[i]), "to find an inflection point")
        warn_useless(one.name, best / 1000)
        found.append(
            {
                "trace": one.name,
                "reads": len(columns[i]),
                "percentile": point.percentile,
                "inflection_us": point.latency_ns / 1000,
                "slow": float(np.mean(columns[i] > point.latency_ns)),
                "boost_us": best / 1000,
            }
        )
    if json:
        print_json({"rows": found, "replicas": replicas, "seed": seed})
        return
    table(
        "inflection points (LinnOS, section 4.2.1)",
        ["trace", "reads", "percentile", "inflection us", "slow reads", "mean saved us"],
        [
            [r["trace"], r["reads"], f"p{r['percentile']:.1f}", r["inflection_us"], percent(r["slow"]), r["boost_us"]]
            for r in found
        ],
    )


def fit_command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Model file to write.", callback=destination, show_default=False)
    ],
    trace: Traces = None,
    preset: Preset = None,
    share: Share = None,
    model: Annotated[str, typer.Option(help="Kind of model.")] = "linnos",
    epochs: Annotated[
        int, typer.Option(help="Passes over the training rows, 1 to 1,000,000.", min=1)
    ] = FitSettings.epochs,
    train_share: TrainShare = FitSettings.train_share,
    bias: Annotated[
        float, typer.Option(help="Weight of a slow row that would be submitted; 1 is unbiased.", min=1, max=BIAS_MAX)
    ] = FitSettings.false_submit_weight,
    max_rows: Annotated[
        int | None,
        typer.Option(help="Train the network on so many rows at most; the trees take all.", min=1, show_default="all"),
    ] = None,
    slow_us: SlowUs = None,
    max_records: MaxRecords = RECORDS_MAX,
    schema: Annotated[str, typer.Option(help="Features of the trees: linnet-1 or linnet-2.")] = FitSettings.schema,
    false_revoke: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Revoke only as surely as this rate of false revokes allows, in percent of the reads.",
            min=0.001,
            max=50,
            show_default="even odds",
        ),
    ] = None,
    device: Device = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Train a model from traces and test it on their held-out part.

    The file has both LinnOS's network and Linnet's trees; each policy uses the one that it needs. Several traces are
    treated as several devices of one type: one model is trained on all their rows, labelled by one inflection point of
    all their latencies. Traces with latencies are used as they are; --preset runs them through the SSD model instead.

    Drives of different types that serve the same reads have a model each. Policies compare the odds that their trees
    give, so give the same --slow-us to each: the geometric mean of their inflection points (`linnet label`).

    A volume that may revoke reads, and the policy linnet+hl, revoke those that the trees call slow: by default at more
    than even odds. With --false-revoke the score for a rate is found on the last quarter of the training rows, and the
    table shows the rate that it has on the held-out part.

    A warning says if network or trees do no better on the held-out part than one answer for all reads, and JSON has it
    as better_than_base_rate: true, false, or null where reads of one class cannot tell.

    Of a trace that exceeds --max-records, one of every 2, 4, 8, ... blocks of 8,192 consecutive records is used; a
    warning says how much that is. So memory is bounded for a trace of any length.

    Example: [bold]linnet fit -t nvme0.csv -o nvme0.linnet[/]
    """
    check_preset(preset)
    if model != "linnos":
        raise typer.BadParameter(f"unknown model {model!r}; known: linnos", param_hint="--model")
    if schema not in SCHEMAS:
        raise typer.BadParameter(f"unknown schema {schema!r}; known: {', '.join(SCHEMAS)}", param_hint="--schema")
    settings = FitSettings(
        epochs,
        false_submit_weight=bias,
        train_share=train_share,
        max_rows=max_rows,
        schema=schema,
        false_revoke=None if false_revoke is None else false_revoke / 100,
    )
    with Bars() as bars:
        loaded = load_all(trace, format, bars, max_records, lenient, device)
        every = [one.every for one in loaded]
        traces = measured(loaded, preset, share, seed, bars)
        del loaded
        warn_dominated(traces)
        step = bars.stage("fitting", 0)
        slow_ns = None if slow_us is None else round(slow_us * 1000)
        fitted = fit(
            traces, seed, settings, lambda done, total, loss: step(done), unbiased=True, pooled=True, slow_ns=slow_ns
        )[0]
    warn_few(out.name, fitted.report["train_rows"], "to train on")
    warn_useless(out.name, fitted.report["inflection"]["boost_us"])
    data = fitted.model.to_bytes()
    write_whole(out, data)
    tested = {"linnos": fitted.report["biased"], "linnet": fitted.report["linnet"]}
    better = {"better_than_base_rate": told_better(tested)}
    if json:
        print_json({"out": str(out), "seed": seed, "block_of_every": every} | fitted.report | better)
        return
    show_fitted([fitted], [out.name])
    console.print(f"{out}: {len(data):,} bytes")


def told_better(evaluated: dict[str, dict[str, Any]]) -> dict[str, bool | None]:
    """Whether network (linnos) and trees (linnet) do better than one constant answer; say where they do not."""
    found = {}
    for kind, figures in evaluated.items():
        what = {"linnos": "network", "linnet": "trees"}[kind]
        better = found[kind] = is_better_than_base_rate(figures)
        if better is None:
            warn(f"{kind}: the tested reads are all fast, or all slow, so they say nothing of the {what}")
        elif not better:
            warn(
                f"{kind}: on the tested reads the {what} did no better than one answer for all reads: ROC-AUC "
                f"{figures['roc_auc']:.3f} (0.5 for one answer), balanced accuracy "
                f"{percent(figures['balanced_accuracy'])} (50 %)"
            )
    return found


def evaluate_command(
    model: Annotated[Path, typer.Option("--model", "-m", help="Model file.", show_default=False)],
    trace: Traces = None,
    preset: Preset = None,
    share: Share = None,
    max_records: MaxRecords = RECORDS_MAX,
    test_share: Annotated[
        float, typer.Option(help="Share of each trace's reads, up to its end, to test on.", min=0.05, max=1.0)
    ] = 1 - FitSettings.train_share,
    slow_us: SlowUs = None,
    device: Device = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Test a model on traces and compare it with the base rate (the accuracy of always submitting).

    The row linnos is the model's network, the row linnet its trees. By default the second half of each trace is used,
    which `linnet fit` did not train on, unless it had a --train-share above 0.5. The model file does not say: then give
    --test-share 1 minus that share. For a trace that was not used for training at all, give --test-share 1. For a model
    that was fitted with --slow-us, give the same here.

    A warning says if network or trees do no better than one answer for all reads, and JSON has it as
    better_than_base_rate, as of [bold]linnet fit[/].

    Example: [bold]linnet evaluate -m nvme0.linnet -t nvme0.csv[/]
    """
    check_preset(preset)
    loaded = Model.load(model)
    with Bars() as bars:
        given = load_all(trace, format, bars, max_records, lenient, device)
        traces = measured(given, preset, share, seed, bars)
    result = evaluate(loaded, traces, test_share, None if slow_us is None else round(slow_us * 1000), seed)
    evaluated = {result["model"]: result} | ({"linnet": result["linnet"]} if result["linnet"] else {})
    better = {"better_than_base_rate": told_better(evaluated)}
    if json:
        print_json(result | better)
        return
    title = f"{model.name} on the last {percent(test_share, 0)} of each trace"
    table(title, ["model", "rows", *RATES], [[name, *rates(figures)] for name, figures in evaluated.items()])
    if result["latencies"]:
        show_latencies(result["latencies"])


RATES = ("base rate", "accuracy", "balanced", "ROC-AUC", "false submit", "false revoke")


def rates(result: dict[str, Any]) -> list[str]:
    """One evaluation as cells: rows, then :data:`RATES`."""
    auc = result["roc_auc"]
    shown = (result[k] for k in ("base_rate", "accuracy", "balanced_accuracy"))
    errors = (result[k] for k in ("false_submit", "false_revoke"))
    return [
        number(result["rows"]),
        *(percent(v) for v in shown),
        "-" if auc is None else f"{auc:.3f}",
        *(percent(v, 2) for v in errors),
    ]


def show_latencies(predicted: Sequence[dict[str, Any]]) -> None:
    """Print how well the predicted latency quantiles held."""
    rows = [
        [
            f"p{100 * one['share']:g}",
            percent(one["covered"], 2),
            one["loss_us"],
            one["one_number_loss_us"],
        ]
        for one in predicted
    ]
    table("predicted latency", ["quantile", "reads within", "loss us", "loss us of a constant prediction"], rows)


def show_fitted(fitted: Sequence[Fitted], names: Sequence[str]) -> None:
    """Print inflection points and the accuracy table of fitted models."""
    rows = []
    for name, one in zip(names, fitted, strict=True):
        report = one.report
        point = f"p{report['inflection']['percentile']:.1f} {number(report['inflection']['latency_us'])} us"
        for training in ("biased", "unbiased"):
            if report.get(training):
                rows.append([name, f"linnos, {training}", point, *rates(report[training])])
        rows.append([name, "linnet", point, *rates(report["linnet"])])
    table("held-out accuracy", ["file", "model", "inflection", "rows", *RATES], rows, left=3)
