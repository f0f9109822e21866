# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options that several commands share, and the loading of their traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from linnet import _native
from linnet._native import DeviceError, PolicyError, Trace
from linnet.cli.output import Bars, destination, warn
from linnet.dm.table import REPLICAS_MAX
from linnet.lenient import left_out


def _complete(known: Sequence[str], text: str) -> list[str]:
    return [name for name in known if name.startswith(text)]


def complete_workload(incomplete: str) -> list[str]:
    """Shell completion of Table 1 workloads."""
    return _complete(_native.workloads(), incomplete)


def complete_preset(incomplete: str) -> list[str]:
    """Shell completion of SSD presets."""
    return _complete(_native.presets() + _native.queued_presets(), incomplete)


def complete_policy(incomplete: str) -> list[str]:
    """Shell completion of policies, after the last comma."""
    head, comma, last = incomplete.rpartition(",")
    return [head + comma + name for name in _complete(_native.policies(), last)]


def complete_format(incomplete: str) -> list[str]:
    """Shell completion of trace formats."""
    return _complete([name for name, _ in _native.trace_formats()], incomplete)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Ray = Annotated[
    str | None,
    typer.Option(
        help="Work on a Ray cluster: its address, auto for that of this machine, local to start one.",
        show_default=False,
    ),
]
Seed = Annotated[
    int, typer.Option(help="Seed of every random choice; the same seed gives the same bytes.", min=0, max=2**62)
]
ArraySeed = Annotated[
    int,
    typer.Option(
        help="Seed of every random choice; the same seed gives the same bytes. Drive i has this seed plus i: use seeds "
        "at least as far apart as replicas, so that they have no drive in common.",
        min=0,
        max=2**62,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="Trace format, if it is not detected (see `linnet trace formats`).",
        autocompletion=complete_format,
        show_default=False,
    ),
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Leave out invalid records instead of failing, and say how many.")
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="N|all",
        help="Use only the I/Os of this device of the trace; all takes its devices as volumes of one drive.",
        show_default=False,
    ),
]
Traces = Annotated[
    list[Path] | None,
    typer.Option("--trace", "-t", help="Trace file. Give it once per device.", show_default=False),
]
Sampled = Annotated[
    list[Path] | None,
    typer.Option(
        "--trace",
        "-t",
        help="Recorded trace; samples of 10 s are the workloads. Repeatable.",
        show_default="synthetic workloads",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Run the traces through this SSD model preset or parameter file.",
        autocompletion=complete_preset,
        show_default=False,
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        "--share",
        help="Share of the drive's internal work that blocks the whole drive.",
        min=0,
        max=1,
        show_default="preset",
    ),
]
Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        help="SSD model preset or parameter file, of either engine; may be repeated. As many as replicas, separated by "
        "commas, give each device its own.",
        autocompletion=complete_preset,
        show_default="consumer-deep",
    ),
]
SPAN_S_MAX = 400 * 86_400
"""The longest trace that can be read (``SPAN_MAX_NS`` of crates/trace)."""
Seconds = Annotated[float, typer.Option(help="Length of a --workload, both periods together.", min=1, max=SPAN_S_MAX)]
Stalls = Annotated[
    float,
    typer.Option(
        metavar="N",
        help="Each device answers nothing for 50 ms to a second, N times a minute on average.",
        min=0,
        max=600,
    ),
]
FASTER_MAX = 1e6
"""Largest factor on the rate of a trace: the gaps of a second are those of a microsecond then."""
Rerate = Annotated[
    float, typer.Option(help="Multiply the I/O rate of the traces by this factor.", min=1e-6, max=FASTER_MAX)
]


Rebuilt = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="The last N devices hold data as after a rebuild, written once in order; the others as after long use.",
        min=0,
    ),
]
ClosedLoop = Annotated[
    int | None,
    typer.Option(
        "--closed-loop",
        metavar="N",
        help="Keep N I/Os in flight, in the order of the traces, instead of sending each at its time.",
        min=1,
        max=65_536,
        show_default=False,
    ),
]


class Writes(StrEnum):
    """Where writes go."""

    all = "all"
    own = "own"


WritesTo = Annotated[
    Writes,
    typer.Option(
        "--writes", help="Send writes to all replicas, or to their stream's own device, as LinnOS's paper does."
    ),
]
Replicas = Annotated[int, typer.Option(help="Number of devices that hold each block.", min=1, max=REPLICAS_MAX)]
SeveralReplicas = Annotated[int, typer.Option(help="Number of devices that hold each block.", min=2, max=REPLICAS_MAX)]
"""Where the question is which of them to read."""


def reading(path: Path, bars: Bars) -> Callable[[int, int], None]:
    """What a reader calls with its progress: a bar that begins with the first call."""
    step: list[Callable[[int], None]] = []

    def progress(done: int, total: int) -> None:
        if not step:
            step.append(bars.stage(f"reading {path.name}", total))
        step[0](done)

    return progress


def warn_left_out(path: Path, skipped: Mapping[str, int]) -> None:
    """Say how many records lenient reading left out."""
    if text := left_out(skipped):
        warn(f"{path}: {text}")


def load(
    path: Path,
    format: str | None,
    bars: Bars,
    most: int | None = None,
    lenient: bool = False,
    tenant_from: Literal["device"] | None = None,
    device: str | None = None,
) -> Trace:
    """Read a trace, or a stated part of ``most`` records, with a progress bar; pass on the reader's warnings."""
    number = device_number(device)
    trace = Trace.read(path, format, lenient, reading(path, bars), tenant_from, most, number)
    if device is not None and number is None:
        trace = trace.as_one_device()
    for text in trace.warnings:
        warn(f"{path}: {text}")
    if lenient:
        warn_left_out(path, trace.skipped)
    return trace


def device_number(device: str | None) -> int | None:
    """The number of ``--device``; ``None`` if it is not given, or ``all``."""
    if device in (None, "all"):
        return None
    if not (device.isascii() and device.isdigit() and int(device) < 2**32):
        raise typer.BadParameter(f"{device!r} is neither the number of a device nor all", param_hint="--device")
    return int(device)


def load_all(
    paths: Sequence[Path] | None,
    format: str | None,
    bars: Bars,
    most: int | None = None,
    lenient: bool = False,
    device: str | None = None,
) -> list[Trace]:
    """Read every trace given, at most ``most`` records of all of them together. No trace is a usage error."""
    if not paths:
        raise typer.BadParameter("give at least one trace", param_hint="--trace")
    each = None if most is None else max(1, most // len(paths))
    return [load(path, format, bars, each, lenient, device=device) for path in paths]


WITH_LATENCY = (".parquet", ".csv")
ENDINGS = (*WITH_LATENCY, ".iolog", ".log")
"""Of the names of traces that can be written, as in `AnyWriter` of crates/trace, whose error comes after the work."""


def trace_destination(path: Path | None) -> Path | None:
    """:func:`destination` for traces, whose ending says the form."""
    return _with_ending(path, ENDINGS, ".parquet, .csv or .iolog")


def latency_destination(path: Path | None) -> Path | None:
    """:func:`destination` for traces with latencies, which a fio log does not hold."""
    return _with_ending(path, WITH_LATENCY, ".parquet or .csv")


def picture_destination(path: Path | None) -> Path | None:
    """:func:`destination` for pictures, which are SVG whatever the name says."""
    return _with_ending(path, (".svg",), ".svg")


def _with_ending(path: Path | None, endings: Sequence[str], said: str) -> Path | None:
    destination(path)
    if path is not None and str(path) != "-" and path.suffix not in endings:
        raise typer.BadParameter(f"{path}: unknown ending; write {said}")
    return path


def check_preset(preset: str | None, hint: str = "--preset", others: Sequence[str] = ()) -> None:
    """Refuse what is neither a preset, one of the ``others``, nor a parameter file (.toml) before any work.

    ``hint`` is the option or argument that it was given to.
    """
    if preset is None or preset in others:
        return
    if "," in preset and Path(preset).is_file():
        raise typer.BadParameter(
            f"{preset} has a comma, which separates the presets of an array: give a path without one", param_hint=hint
        )
    known = [*others, *_native.presets(), *_native.queued_presets()]
    if preset not in known and not preset.endswith(".toml"):
        raise typer.BadParameter(
            f"unknown preset {preset!r}; known: {', '.join(known)}, and parameter files (.toml)", param_hint=hint
        )
    try:
        _native.engine_of(preset)
    except DeviceError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def checked_presets(presets: Sequence[str] | None) -> list[str]:
    """The arrays of ``Presets``, consumer-deep for none given, after a check of every name."""
    arrays = list(presets or ["consumer-deep"])
    for one in arrays:
        for name in [one] if Path(one).is_file() else one.split(","):
            check_preset(name.strip())
    return arrays


def parse_policies(given: Sequence[str] | None) -> list[str]:
    """The policies of comma-separated lists; all of them for none given."""
    known = _native.policies()
    if not given:
        return known
    chosen = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in chosen:
        try:
            _native.check_policy(name)
        except PolicyError as error:
            raise typer.BadParameter(str(error), param_hint="--policy") from error
    if not chosen:
        raise typer.BadParameter(f"no policy given; known: {', '.join(known)}", param_hint="--policy")
    return list(dict.fromkeys(chosen))
