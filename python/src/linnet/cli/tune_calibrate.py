# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet tune calibrate``: learn which readahead suits which way of reading, on this machine's own device."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet import _native
from linnet._native import TuneError
from linnet.cli.options import AsJson, Seed
from linnet.cli.output import Bars, console, destination, percent, print_json, table, warn
from linnet.files import whole_file
from linnet.readahead import fitting, memory
from linnet.readahead.patterns import FULL, QUICK
from linnet.readahead.sweep import MIB, Bench, Sweep, scratch, sizes, sweep
from linnet.signals import ends

FULL_ROUNDS, FULL_SECONDS = 3, 1.5
QUICK_ROUNDS, QUICK_SECONDS = 2, 0.5
QUICK_EVERY = 2
"""A quick calibration takes every second value of the ladder."""


def calibrate(
    device: Annotated[
        str, typer.Argument(help="Device, partition, mount point, or a directory on it.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The model file to write.", callback=destination, show_default=False)
    ],
    directory: Annotated[
        Path | None,
        typer.Option(help="Where the scratch file goes: a directory on the device.", show_default="its mount point"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer ways of reading and values, shorter runs: about a minute.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(help="Runs of each cell.", min=1, show_default="3; quick: 2")] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Of each run.", min=0.3, max=600.0, show_default="1.5; quick: 0.5")
    ] = None,
    decide: Annotated[
        str, typer.Option(help="What the file has: both, network, tree, or (auto) what does better on held-out rows.")
    ] = "auto",
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Learn from a sweep on this device which readahead suits which way of reading. Needs root.

    Reads a scratch file of 256 MiB in many ways at each value, inside a memory limit, and fits a network and a tree to
    what the tuner's observer saw. Takes about a quarter of an hour, during which the device is busy. The scratch file
    has no name and is gone at the end, however the calibration ends; the device keeps its value. The table compares the
    model, on rows held out of its training, with the built-in rule and the kernel's default.

    Example: [bold]linnet tune calibrate /dev/nvme0n1 --quick -o nvme0.linnet[/], then
    [bold]linnet tune readahead --device /dev/nvme0n1 --model nvme0.linnet[/]
    """
    if decide not in ("auto", "both", "network", "tree"):
        raise typer.BadParameter(f"{decide!r}; give auto, both, network or tree", param_hint="--decide")
    if os.geteuid() != 0:
        raise TuneError("a calibration needs root: it sets the device's value and observes reads")
    ladder = _native.tune_ladder()[1]
    values = ladder[::QUICK_EVERY] if quick else ladder
    patterns = QUICK if quick else FULL
    rounds = rounds or (QUICK_ROUNDS if quick else FULL_ROUNDS)
    seconds = seconds or (QUICK_SECONDS if quick else FULL_SECONDS)
    # These end a calibration as Ctrl-C does: what is open below is put back.
    for number in ends():
        signal.signal(number, signal.default_int_handler)
    target = _native.TuneDevice(device)
    place = where(target, device, directory)
    with whole_file(out) as file, Bars() as bars:
        found = measure(target, place, patterns, values, rounds, seconds, seed, bars)
        _, _, default_kib = _native.tune_ladder()
        data = fitting.table(found, default_kib)
        tell = bars.stage("fit", 4)
        compared = fitting.compare(data, seed, default_kib, tell)
        parts = fitting.choose(compared, decide)  # type: ignore[arg-type]
        decider = "tree" if parts == "tree" else "network"
        bytes_, classes = fitting.write(data, parts, compared["by_run"][decider]["accuracy"], seed)
        file.write(bytes_)
    result = {
        "device": found.device,
        "file": str(out),
        "parts": parts,
        "decider": decider,
        "values_kib": list(classes),
        "rows": len(data.rows),
        "runs": len(found.runs),
        "rounds": rounds,
        "seconds": seconds,
        "seed": seed,
        "held_out": compared,
        "patterns": pattern_rows(found, default_kib),
    }
    if json:
        print_json(result)
    else:
        show(result)
    if (
        max(compared["by_pattern"][name]["share_of_best"] for name in ("network", "tree"))
        <= (compared["by_pattern"]["rule"]["share_of_best"])
    ):
        warn("on reads that it was not trained on, the model is no better than the built-in rule: keep the rule")


def where(target: _native.TuneDevice, device: str, directory: Path | None) -> Path:
    """The directory of the scratch file: the one that was given, the one that names the device, or a mount point."""
    if directory is not None:
        if not directory.is_dir():
            raise typer.BadParameter(f"{directory} is not a directory", param_hint="--directory")
        held = _native.TuneDevice(str(directory)).target
        if held != target.target:
            raise typer.BadParameter(f"{directory} is on {held}, not on {target.target}", param_hint="--directory")
        return directory
    if Path(device).is_dir():
        return Path(device)
    for mount in target.mounts:
        if os.access(mount, os.W_OK) and not os.statvfs(mount).f_flag & os.ST_RDONLY:
            return Path(mount)
    raise TuneError(f"{target.target}: no file system of it is mounted writable; mount one, or give --directory")


def measure(
    target: _native.TuneDevice,
    place: Path,
    patterns: Any,
    values: list[int],
    rounds: int,
    seconds: float,
    seed: int,
    bars: Bars,
) -> Sweep:
    """Make the scratch file and run the sweep; whatever happens, the device has its value again."""
    file_bytes, memory_bytes = sizes(place)
    with contextlib.ExitStack() as stack:
        target.hold()
        stack.callback(target.restore)
        fd = stack.enter_context(scratch(place, file_bytes, bars.stage("scratch file, MiB", file_bytes // MIB)))
        group = stack.enter_context(memory.group(memory_bytes))
        observer = _native.TuneObserver(f"/proc/self/fd/{fd}")
        bench = Bench(target, observer, fd, group)
        tell = bars.stage("runs", rounds * len(patterns) * len(values))
        return sweep(bench, patterns, values, rounds, seconds, seed, tell)


def pattern_rows(found: Sweep, default_kib: int) -> list[dict[str, Any]]:
    """What was measured of each way of reading: pages a second at each value, and the best value."""
    best = found.best(fitting.TOLERANCE, default_kib)
    return [
        {"pattern": name, "best_kib": best[name], "pages_per_s": {str(kib): round(rate, 1) for kib, rate in by.items()}}
        for name, by in found.throughput().items()
    ]


def show(result: dict[str, Any]) -> None:
    """Tables for people."""
    values = list(result["patterns"][0]["pages_per_s"])
    table(
        f"{result['device']}: pages a second at each readahead",
        ["read", "best, KiB", *(f"{kib} KiB" for kib in values)],
        [
            [row["pattern"], row["best_kib"], *(row["pages_per_s"].get(kib) for kib in values)]
            for row in result["patterns"]
        ],
    )
    held = result["held_out"]
    rows = []
    for name in ("network", "tree", "rule", "default"):
        by_run, by_pattern = held["by_run"][name], held["by_pattern"][name]
        rows.append(
            [
                name,
                percent(by_run["accuracy"]),
                percent(by_run["share_of_best"]),
                percent(by_pattern["share_of_best"]),
                percent(by_pattern["worst_pattern"]),
            ]
        )
    table(
        "on rows that were held out of the training",
        ["", "best value named", "throughput of best", "reads not trained on", "worst of these"],
        rows,
    )
    console.print(
        f"{result['file']}: {result['rows']} rows, values {', '.join(map(str, result['values_kib']))} KiB, "
        f"the {result['decider']} decides"
    )
