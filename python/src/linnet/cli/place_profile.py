# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet place profile``: workloads as numbers, from traces and from fio job files."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Literal

import typer

from linnet._native import TenantProfile
from linnet.cli.options import AsJson, Format, Lenient, load
from linnet.cli.output import Bars, console, print_json, table, warn
from linnet.files import check_folder, read_bounded, write_whole
from linnet.place import profiles
from linnet.place.profile_file import MOST_BYTES
from linnet.place.profiles import STREAMS, WINDOW_MS, Measured
from linnet.place.store import Match, ProfileStore
from linnet.place.words import GROUPS, PER_GROUP, Profile


def profile(
    traces: Annotated[
        list[Path],
        typer.Argument(help="Traces of any known format, or fio job files (.fio, .job).", show_default=False),
    ],
    format: Format = None,
    lenient: Lenient = False,
    tenant_from: Annotated[
        Literal["device"] | None,
        typer.Option(help="Make each device or volume of the trace a tenant.", show_default=False),
    ] = None,
    window_ms: Annotated[
        float, typer.Option(help="Width of the windows of the standard deviations.", min=0.016, max=3_600_000)
    ] = WINDOW_MS,
    streams: Annotated[
        int, typer.Option(help="Latest I/Os of an operation that a sequential I/O may continue.", min=1, max=32)
    ] = STREAMS,
    phases: Annotated[
        bool, typer.Option("--phases", help="Profile each phase of a workload, too. Holds the trace in memory.")
    ] = False,
    store: Annotated[
        Path | None,
        typer.Option(help="Record the profiles in this store, and say which workloads it knows.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Directory for NAME.json of each profile, for --tenant.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Profile the tenants of traces: the 27 features that interference models use (spec/profile.md).

    Example: [bold]linnet place profile web.csv backup.parquet[/]

    Example: [bold]linnet place profile jobs.fio --json[/]

    Example: [bold]linnet place profile volumes.csv --tenant-from device --store profiles.db[/]
    """
    if out is not None:
        check_folder(out)
    found: list[Measured] = []
    with Bars() as bars:
        for path in traces:
            if phases and path.suffix not in profiles.JOB_FILES:
                trace = load(path, format, bars, lenient=lenient, tenant_from=tenant_from)
                found += profiles.with_phases(path, window_ms=window_ms, streams=streams, trace=trace)
                continue
            step = bars.stage(f"profiling {path.name}", max(1, path.stat().st_size if path.is_file() else 1))
            made, warnings = profiles.from_file(
                path,
                format,
                lenient,
                tenant_from,
                window_ms,
                streams,
                lambda done, _, step=step: step(done),  # type: ignore[misc]
            )
            found += made
            for text in warnings:
                warn(f"{path}: {text}")
    _caution(found)
    # First what may be refused and may be done again.
    written = [] if out is None else _write(found, out)
    matches = _record(found, store)
    if json:
        rows = [one.row() for one in found]
        for row, match in zip(rows, matches, strict=True):
            if store is not None:
                row["known_as"] = match.stored.name if match and match.same else None
        print_json(rows)
        return
    for path in written:
        console.print(str(path))
    for one, match in zip(found, matches, strict=True):
        _show(one, match)


def _caution(found: list[Measured]) -> None:
    for one in found:
        if one.profile.ios and one.profile.windows < 10:
            warn(
                f"{one.name}: the sample has {one.profile.windows} complete windows of {one.profile.window_ms:g} ms; "
                "its standard deviations mean little. Give a longer trace or a smaller --window-ms"
            )


def _record(found: list[Measured], path: Path | None) -> list[Match | None]:
    if path is None:
        return [None] * len(found)
    with ProfileStore(path) as store:
        # What is known is asked before the new profiles are recorded.
        matches = [store.nearest(one.profile) for one in found]
        for one in found:
            store.put(one)
    return matches


def _write(found: list[Measured], folder: Path) -> list[Path]:
    names = ["".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in one.name) for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise typer.BadParameter(f"two profiles would be {twice[0]}.json; write them in two calls", param_hint="--out")
    files = {folder / f"{name}.json": _file_text(one.words()) for name, one in zip(names, found, strict=True)}
    for path, text in files.items():
        if path.is_file() and read_bounded(path, MOST_BYTES) != text.encode():
            raise typer.BadParameter(
                f"{path} is there and differs; give another directory, or remove the file", param_hint="--out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_whole(path, text)
    return list(files)


def _file_text(words: Profile) -> str:
    return json_text.dumps({"name": words.name, "features": dict(words.features)}, indent=2) + "\n"


def _show(one: Measured, match: Match | None) -> None:
    made = one.profile
    size = f"{made.ios:,} I/Os in {made.duration_s:,.1f} s" if made.ios else "declared"
    _table(f"{one.name}: {size}, signature {made.signature}", made)
    if match and match.same:
        console.print(f"known as {match.stored.name} (distance {match.distance:.2f})")
    for phase in one.phases:
        spans = ", ".join(f"{start:.1f}-{end:.1f} s" for start, end in phase.intervals)
        _table(f"{one.name}, phase {phase.number}: {spans}", phase.profile)


def _table(title: str, made: TenantProfile) -> None:
    values = made.features.tolist()
    rows = []
    for g, group in enumerate(GROUPS):
        part = values[g * len(PER_GROUP) : (g + 1) * len(PER_GROUP)]
        if part[1] > 0:
            rows.append([group.replace("_", ", "), *part[:3], part[3] / 1e6, part[4] / 1e6, part[5]])
    columns = ["", "size, bytes", "rate, 1/s", "std", "MB/s", "std", "unaligned"]
    table(title, columns, rows)
    depth, reads, writes = values[-3:]
    console.print(f"depth {depth:.2f} ({made.depth_from}), random reads {reads:.2f}, random writes {writes:.2f}")
