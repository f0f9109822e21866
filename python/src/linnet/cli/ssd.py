# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet ssd``: run, explain, check and serve the SSD model by itself."""

from __future__ import annotations

import json as json_text
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet._native import Device, DeviceRun, Server, quantiles_ns, ssd_check
from linnet.caveats import few_reads, folded
from linnet.cli.options import (
    AsJson,
    Format,
    Lenient,
    Share,
    check_preset,
    complete_preset,
    latency_destination,
    load_all,
    picture_destination,
)
from linnet.cli.output import (
    Bars,
    console,
    destination,
    errors,
    flatten,
    number,
    percent,
    print_json,
    show_notes,
    table,
)
from linnet.extras import require
from linnet.files import write_whole
from linnet.signals import ends

Preset = Annotated[
    str | None, typer.Option(help="SSD model preset.", autocompletion=complete_preset, show_default="consumer-deep")
]
Params = Annotated[Path | None, typer.Option(help="TOML parameter file instead of a preset.", show_default=False)]
Workload = Annotated[
    list[Path],
    typer.Option(
        "--workload", "-w", help="Trace or workload CSV. May be repeated; each is a stream.", show_default=False
    ),
]
Snapshot = Annotated[
    Path | None, typer.Option(help="Preconditioned drive saved by `linnet ssd precondition`.", show_default=False)
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Seed of every random choice; the same seed gives the same bytes. A snapshot keeps its own.",
        min=0,
        max=2**62,
        show_default="0",
    ),
]
QUANTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}


def device(
    preset: str | None, params: Path | None, seed: int | None, share: float | None, snapshot: Path | None = None
) -> Device:
    """The drive that the options describe."""
    given = [name for name, value in (("--preset", preset), ("--params", params), ("--snapshot", snapshot)) if value]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} exclude each other")
    check_preset(preset)
    if snapshot is not None:
        if share is not None:
            raise typer.BadParameter("a saved drive keeps the share that it was created with", param_hint="--share")
        if seed is not None:
            raise typer.BadParameter("a saved drive keeps the seed that it was created with", param_hint="--seed")
        return Device.load(snapshot)
    if params is not None:
        return Device(params=params, seed=seed or 0, device_wide_share=share)
    return Device(preset=preset or "consumer-deep", seed=seed or 0, device_wide_share=share)


def replay(
    drive: Device, workload: list[Path], format: str | None, bars: Bars, timeline: int = 0, lenient: bool = False
) -> DeviceRun:
    """Run workloads on a copy of the drive."""
    streams = load_all(workload, format, bars, lenient=lenient)
    step = bars.stage("running", sum(len(s) for s in streams))

    def count(done: int) -> bool:
        step(done)
        return True

    return drive.run(streams, timeline=timeline, progress=count)


def summary(latencies: Any) -> dict[str, float]:
    """Quantiles in us."""
    found = quantiles_ns(latencies, list(QUANTILES.values()))
    return {f"{name}_us": ns / 1000 for name, ns in zip(QUANTILES, found, strict=True)}


def run(
    workload: Workload,
    preset: Preset = None,
    params: Params = None,
    snapshot: Snapshot = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Latency of each I/O: .csv or .parquet; - for CSV.", callback=latency_destination
        ),
    ] = None,
    share: Share = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = None,
    json: AsJson = False,
) -> None:
    """Run workloads on one modelled drive: latency of each I/O, statistics of the drive and of each stream.

    Example: [bold]linnet ssd run --preset sata -w msnfs.trace.zst -o latencies.parquet[/]
    """
    with Bars() as bars:
        drive = device(preset, params, seed, share, snapshot)
        start = time.perf_counter()
        done = replay(drive, workload, format, bars, lenient=lenient)
        seconds = time.perf_counter() - start
    log = done.log()
    if out is not None:
        log.write(out)
    columns = log.columns()
    reads = columns["op"] == 0
    result: dict[str, Any] = {"ios": len(log), "ios_per_second": len(log) / max(seconds, 1e-9)}
    for name, mask in (("reads", reads), ("writes", ~reads)):
        chosen = columns["latency_ns"][mask]
        result[name] = {"count": len(chosen)} | (
            {"mean_us": float(chosen.mean()) / 1000} | summary(chosen) if len(chosen) else {}
        )
    result["drive"] = done.stats()
    if len(workload) > 1:
        result["streams"] = [
            {"name": path.name} | summary(columns["latency_ns"][reads & (columns["device"] == i)])
            for i, path in enumerate(workload)
            if (reads & (columns["device"] == i)).any()
        ]
    found = (few_reads(result["reads"]["count"]), folded([log], drive.capacity_bytes))
    if notes := [note for note in found if note]:
        result["notes"] = notes
    if json:
        # What a saved drive was created with is not known.
        print_json(result | {"seed": None if snapshot else seed or 0})
        return
    kinds = [[name, *result[name].values()] for name in ("reads", "writes") if result[name]["count"]]
    table("latency", ["", "count", "mean us", *QUANTILES], kinds)
    for stream in result.get("streams", []):
        console.print("  ".join(f"{k} {number(v)}" for k, v in stream.items()))
    show_notes(notes)
    table("drive", ["", ""], [row for row in flatten(result["drive"]) if row[0] != "die_utilisation"])
    if out is not None:
        console.print(f"{out}: {len(log):,} records")


def explain(
    workload: Workload,
    preset: Preset = None,
    params: Params = None,
    snapshot: Snapshot = None,
    low: Annotated[
        float, typer.Option("--from", help="Percentile of read latency to begin at.", min=0, max=100)
    ] = 99.0,
    high: Annotated[float, typer.Option("--to", help="Percentile to end at.", min=0, max=100)] = 100.0,
    io: Annotated[
        int | None, typer.Option(help="Explain this one I/O, by its number in order of arrival.", show_default=False)
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Write a figure (SVG) of dies and channels around the I/O, or around the slowest read.",
            callback=picture_destination,
        ),
    ] = None,
    share: Share = None,
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = None,
    json: AsJson = False,
) -> None:
    """Show which mechanism made slow reads slow: the ground truth for testing a black-box model.

    Example: [bold]linnet ssd explain --preset consumer-deep -w az.parquet --from 99[/]
    """
    if not low < high:
        raise typer.BadParameter(
            f"{low:g} with --to {high:g}: give percentiles with 0 <= --from < --to <= 100", param_hint="--from"
        )
    if picture is not None:
        require("report", "--picture")
    with Bars() as bars:
        drive = device(preset, params, seed, share, snapshot)
        done = replay(drive, workload, format, bars, timeline=100_000 if picture else 0, lenient=lenient)
    log = done.log()
    columns = log.columns()
    reads = columns["op"] == 0
    # Without a read there is no range of latencies, and what one write waited for is told all the same.
    ranged = io is None or bool(reads.any())
    if io is None and picture is not None:
        slowest = columns["latency_ns"].astype(float) * reads
        io = int(slowest.argmax())
    result: dict[str, Any] = {}
    if io is not None:
        if not 0 <= io < len(columns["op"]):
            raise typer.BadParameter(f"I/O {io} of {len(columns['op'])}", param_hint="--io")
        latency, parts = done.explain_io(io)
        result["io"] = {
            "index": io,
            "op": "read" if columns["op"][io] == 0 else "write",
            "arrive_s": float(columns["arrive_ns"][io]) / 1e9,
            "size_bytes": int(columns["size_bytes"][io]),
            "latency_us": None if latency is None else latency / 1000,
            "waits_us": {name: ns / 1000 for name, ns in parts},
        }
        if picture is not None:
            from linnet.report.timeline import timeline_svg  # noqa: PLC0415

            start = int(columns["arrive_ns"][io])
            end = start + (latency or 1_000_000)
            margin = max(end - start, 200_000) // 2
            window = (max(0, start - margin), end + margin)
            write_whole(picture, timeline_svg(done.timeline(*window), window, (start, end)))
    if ranged:
        result["range"] = done.explain(low / 100, high / 100)
    if beyond := folded([log], drive.capacity_bytes):
        result["notes"] = [beyond]
    if json:
        print_json(result)
        return
    if "io" in result:
        table(f"I/O {io}", ["", ""], flatten(result["io"]))
    if "range" in result:
        show_range(result["range"], low, high)
    show_notes(result.get("notes", []))
    if picture is not None:
        console.print(f"picture: {picture}")


def show_range(found: dict[str, Any], low: float, high: float) -> None:
    """Print what the reads between two percentiles waited for."""
    table(
        f"{found['reads']:,} reads from p{low:g} to p{high:g}: {number(found['latency_us_least'])} to "
        f"{number(found['latency_us_most'])} us; without waits "
        f"{number(found['service_us_mean'])} us on average",
        ["mechanism", "kind", "mean wait us", "of the latency", "reads", "main of"],
        [
            [m["mechanism"], m["source"], m["wait_us_mean"], percent(m["share_of_latency"]), m["reads"], m["main_of"]]
            for m in found["mechanisms"]
        ],
        left=2,
    )


def check(
    reference: Annotated[Path, typer.Argument(help="NAME.json with NAME.csv.gz beside it.", show_default=False)],
    json: AsJson = False,
) -> None:
    """Compare the model with another simulator's answers, on the same workload and parameters.

    Example: [bold]linnet ssd check w1_randread.json[/]
    """
    result = json_text.loads(ssd_check(reference))
    if json:
        print_json(result)
        return
    shown = {k: v for k, v in result.items() if not isinstance(v, list)}
    table(f"{reference.name}: ratios of our figures to the reference's", ["", ""], flatten(shown))
    shares = [[name, percent(share)] for name, share in result.get("tail_shares", [])]
    if shares:
        table("waits of our reads above the reference's p95", ["mechanism", "share"], shares)


def params(
    preset: Annotated[str, typer.Argument(help="SSD model preset.", autocompletion=complete_preset)] = "consumer-deep",
) -> None:
    """Print a preset as a TOML parameter file. Change it and pass it with --params.

    Example: [bold]linnet ssd params sata > mine.toml[/]
    """
    check_preset(preset, "PRESET")
    print(Device(preset=preset, precondition=False).to_toml(), end="")


def precondition(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Snapshot to write.", callback=destination, show_default=False)
    ],
    preset: Preset = None,
    params: Params = None,
    share: Share = None,
    seed: Seed = None,
) -> None:
    """Fill a drive and overwrite it until garbage collection is in steady state, and save it.

    Example: [bold]linnet ssd precondition --preset sata -o sata.drive[/]
    """
    start = time.perf_counter()
    drive = device(preset, params, seed, share)
    drive.save(out)
    amplification, steady = drive.settled or (1.0, False)
    console.print(
        f"{out}: {drive.capacity_bytes / 2**30:.1f} GiB logical, write amplification {amplification:.2f}"
        f"{'' if steady else ' (not steady yet)'}, {time.perf_counter() - start:.1f} s"
    )


def serve(
    preset: Preset = None,
    params: Params = None,
    snapshot: Snapshot = None,
    drives: Annotated[
        int, typer.Option(help="Number of drives to serve; drive i has seed + i. One of a snapshot.", min=1, max=64)
    ] = 1,
    unix: Annotated[Path | None, typer.Option(help="Unix socket to listen on.", show_default="linnet.sock")] = None,
    tcp: Annotated[
        int | None,
        typer.Option(
            help="TCP port on loopback, 0 for a free one; every user of this machine may then read and overwrite the "
            "drives.",
            min=0,
            max=65_535,
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Bytes of each drive.", min=1, max=2**63 - 1, show_default="as modelled")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Keep the data in sparse files in this directory.", show_default="memory")
    ] = None,
    time_scale: Annotated[float, typer.Option(help="Make time run slower by this factor.", min=0.001, max=1e6)] = 1.0,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this long.", min=0, show_default="until Ctrl-C")
    ] = None,
    share: Share = None,
    seed: Seed = None,
    json: AsJson = False,
) -> None:
    """Serve modelled drives over NBD in real time: each request is held until the time at which the model answers it.

    Works with fio's nbd engine, libnbd, qemu and nbd-client. Prints the address of each drive, with --json to standard
    error, and model latency against achieved latency at the end.

    There is no access control: every client can read and overwrite the drives. Put the Unix socket into a
    directory that only those may enter.

    Example: [bold]linnet ssd serve --preset sata --drives 3 --unix /tmp/drives.sock[/]
    """
    if unix is None and tcp is None:
        unix = Path("linnet.sock")
    if snapshot is not None and drives > 1:
        # Copies would collect garbage at the same times, unlike drives of the same kind.
        raise typer.BadParameter("a saved drive is one drive; serve it alone", param_hint="--drives")
    seeds = [seed] if snapshot is not None else [(seed or 0) + i for i in range(drives)]
    chosen = [(f"drive{i}", device(preset, params, one, share, snapshot)) for i, one in enumerate(seeds)]
    # A service manager stops with SIGTERM, a terminal that goes with SIGHUP; both remove the socket as Ctrl-C does.
    for one in ends():
        signal.signal(one, signal.default_int_handler)
    server = Server(chosen, size_bytes=size, unix=unix, port=tcp, directory=directory, time_scale=time_scale)
    try:
        for uri in server.uris:
            (errors if json else console).print(uri, soft_wrap=True)
        begun = time.monotonic()
        while seconds is None or time.monotonic() - begun < seconds:
            time.sleep(0.2)
    except KeyboardInterrupt:
        pass
    finally:
        last = server.stop()
    stats = json_text.loads(last) if last else {}
    if json:
        print_json(stats)
        return
    table(
        "served",
        ["drive", "reads and writes", "model p50 us", "model p99 us", "late by p50 us", "late by p99 us", "late"],
        [
            [
                one["name"],
                one["reads"] + one["writes"],
                *(one[part][q] / 1000 for part in ("model", "excess") for q in ("ns_p50", "ns_p99")),
                percent(one["late_share"]),
            ]
            for one in stats.get("exports", [])
        ],
    )
