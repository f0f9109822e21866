# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet trace``: inspect, convert, merge, re-rate and generate traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from linnet import _native
from linnet._native import Trace, TraceError
from linnet.caveats import few_reads
from linnet.cli.options import (
    FASTER_MAX,
    SPAN_S_MAX,
    AsJson,
    Format,
    Lenient,
    Seed,
    complete_format,
    complete_workload,
    load,
    reading,
    trace_destination,
    warn_left_out,
)
from linnet.cli.output import Bars, console, counted, flatten, percent, print_json, show_notes, table, warn
from linnet.lenient import INVALID

File = Annotated[
    Path,
    typer.Argument(
        help="Trace file, plain or compressed with gzip or zstd; - reads standard input.", show_default=False
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        help="File to write: .parquet, .csv or .iolog; - writes CSV to standard output.",
        callback=trace_destination,
        show_default=False,
    ),
]


def stat(file: File, format: Format = None, lenient: Lenient = False, json: AsJson = False) -> None:
    """Print rates, sizes, read share and latency quantiles of a trace.

    Example: [bold]linnet trace stat msnfs.trace.zst[/]
    """
    with Bars() as bars:
        result = _native.trace_stat(file, format, lenient, reading(file, bars))
        if result is None:
            # It exceeds a limit of the memory that statistics may take, and is read whole if it fits.
            trace = load(file, format, bars, lenient=lenient)
            result = trace.stat() | {"format": trace.format, "warnings": [], "latency_error": 0.0}
        elif lenient:
            warn_left_out(file, result["skipped"])
    for text in result.pop("warnings"):
        warn(f"{file}: {text}")
    few = few_reads(result["reads"]) if result["read_latency_us"] else ""
    of, error = result.pop("format"), result.pop("latency_error")
    if error:
        warn(f"{file}: the latency quantiles are within {percent(error)}: it has too many for exact ones")
    if json:
        print_json(result | ({"notes": [few]} if few else {}))
        return
    latency, skipped = result.pop("read_latency_us"), result.pop("skipped")
    for one in ("tenants", "devices"):
        if result[one] == 1:
            del result[one]
    table(f"{file.name} ({of})", ["", ""], flatten(result))
    if latency:
        table("read latency", [f"{k}_us" for k in latency], [list(latency.values())], left=0)
        show_notes([few] if few else [])
    elif not result["reads"]:
        console.print("no reads: a model, which predicts the latency of reads, cannot learn from this trace")
    else:
        console.print("no latencies recorded: `linnet fit --preset` runs the trace through the SSD model instead")
    if skipped:
        table("skipped", ["reason", "records"], list(skipped.items()))


def formats(json: AsJson = False) -> None:
    """List the formats that can be read, for --format.

    Example: [bold]linnet trace formats[/]
    """
    known = _native.trace_formats()
    if json:
        print_json([{"format": name, "about": about} for name, about in known])
    else:
        table(None, ["format", "what it is"], known, left=2)


def convert(
    file: File,
    out: Out,
    format: Format = None,
    tenant_from: Annotated[
        Literal["device"] | None,
        typer.Option(help="Make each device or volume of the trace a tenant.", show_default=False),
    ] = None,
    device: Annotated[
        int | None,
        typer.Option(metavar="N", help="Write only the I/Os of this device.", min=0, max=2**32 - 1, show_default=False),
    ] = None,
    lenient: Lenient = False,
    json: AsJson = False,
) -> None:
    """Read a trace of any format and write it as Parquet, CSV or fio iolog.

    A fio log cannot hold latencies or tenants. Only Parquet keeps the clock that several traces share. What is left out
    is said on standard error, and by --json in "skipped".

    The file may be written in its own place, but not with --device or --lenient, which leave out records.

    Example: [bold]linnet trace convert sdb.blkparse.txt.zst -o sdb.parquet[/]
    """
    done = _written([file], out, lenient, format=format, tenant_from=tenant_from, device=device)
    if json:
        texts = [text for _, text in done["warnings"]]
        told = {"records": done["records"], "format": done["formats"][0], "skipped": done["skipped"], "warnings": texts}
        print_json({"out": str(out)} | told)
        return
    console.print(f"{out}: {done['records']:,} records from {done['formats'][0]}")


def _written(files: list[Path], out: Path, lenient: bool, **how: Any) -> dict[str, Any]:
    """Write traces as one, from file to file in flat memory, with a bar, the readers' warnings and what is left out."""
    with Bars() as bars:
        progress = reading(files[0] if len(files) == 1 else Path(f"{len(files)} traces"), bars)
        done = _native.trace_convert(files, out, lenient=lenient, progress=progress, **how)
    for index, text in done["warnings"]:
        warn(f"{files[index]}: {text}")
    where = files[0] if len(files) == 1 else out
    if lenient:
        warn_left_out(where, done["skipped"])
    lost = [f"{reason} {count:,}" for reason, count in done["skipped"].items() if not (lenient and reason in INVALID)]
    if lost:
        warn(f"{where}: left out, wholly or in part: {', '.join(lost)}")
    return done


def merge(
    files: Annotated[list[Path], typer.Argument(help="Trace files, one per tenant.", show_default=False)],
    out: Out,
    keep_tenants: Annotated[
        bool,
        typer.Option("--keep-tenants", help="Keep each trace's own tenants, renumbered so that they do not overlap."),
    ] = False,
    format: Format = None,
    lenient: Lenient = False,
) -> None:
    """Merge traces into one, to simulate workloads that share a drive. Each trace becomes a tenant.

    All traces begin at 0. Latencies are dropped, because each was measured without the load of the others.

    Example: [bold]linnet trace merge web.csv backup.csv -o shared.parquet[/]
    """
    done = _written(files, out, lenient, format=format, merge=True, keep_tenants=keep_tenants)
    most = done["tenants_max"]
    tenants = counted(done["tenants"], "tenant") if done["tenants"] <= most else f"over {counted(most, 'tenant')}"
    console.print(f"{out}: {counted(done['records'], 'record')} of {tenants} from {counted(len(files), 'trace')}")


def rerate(
    file: File,
    out: Out,
    factor: Annotated[
        float | None,
        typer.Option(help="Factor on the I/O rate: 2 halves every gap.", min=1e-12, max=FASTER_MAX, show_default=False),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Choose the factor that makes the baseline's read latency on --preset most like this trace's.",
            show_default=False,
        ),
    ] = None,
    like_format: Annotated[
        str | None,
        typer.Option(
            help="Format of the trace of --like, if it is not detected.",
            autocompletion=complete_format,
            show_default=False,
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="SSD model preset, with --like.")] = "consumer-deep",
    format: Format = None,
    lenient: Lenient = False,
    seed: Seed = 0,
) -> None:
    """Change the I/O rate of a trace, by a factor or to match a latency distribution (LinnOS, section 5.1).

    With --like, --lenient is for both traces.

    Example: [bold]linnet trace rerate old.csv --factor 4 -o busy.parquet[/]
    """
    if (factor is None) == (like is None):
        raise typer.BadParameter("give either --factor or --like")
    if like is None:
        if like_format is not None:
            raise typer.BadParameter("there is no trace of --like", param_hint="--like-format")
        records = _written([file], out, lenient, format=format, factor=factor)["records"]
        console.print(f"factor {factor}")
    else:
        with Bars() as bars:
            trace = load(file, format, bars, lenient=lenient)
            try:
                target = load(like, like_format, bars, lenient=lenient)
            except TraceError as error:
                # The reader advises the option of the commands that read one trace.
                raise TraceError(str(error).replace(" --format", " --like-format")) from error
            trace, found, distance = trace.rerate_like(target, preset, seed)
        console.print(f"factor {found:.3g}; quantiles p50 to p99.9 differ by {percent(distance)} on average")
        trace.write(out)
        records = len(trace)
    console.print(f"{out}: {records:,} records")


def synth(
    workload: Annotated[
        str,
        typer.Argument(
            help="Row of LinnOS's Table 1, such as az-c.", autocompletion=complete_workload, show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for one Parquet file per device.", show_default=False)
    ],
    seconds: Annotated[float, typer.Option(help="Length of the trace.", min=1, max=SPAN_S_MAX)] = 60.0,
    devices: Annotated[int, typer.Option(help="Devices; their bursts are correlated.", min=1, max=64)] = 3,
    seed: Seed = 0,
) -> None:
    """Generate a workload with the statistics of a row of LinnOS's Table 1.

    Example: [bold]linnet trace synth bs-c --seconds 120 -o bs-c[/]
    """
    made: list[Trace] = _native.synth(workload, seconds=seconds, devices=devices, seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    for index, trace in enumerate(made):
        path = out / f"{workload}.{index}.parquet"
        trace.write(path)
        console.print(f"{path}: {len(trace):,} records")
