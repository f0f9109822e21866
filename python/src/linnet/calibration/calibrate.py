# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fit the SSD model to a measured drive, from a result of resctl-bench's iocost benchmarks to a parameter file.

Each measured figure is fitted by one parameter, in an order in which later steps disturb earlier ones little. This is
repeated until nothing moves (coordinate descent). Each figure is measured in the model as the kernel's
coefficient generator measures it on the drive (``tools/cgroup/iocost_coef_gen.py``). ``docs/design/calibration.md`` has
the procedure, its assumptions and the results.
"""

from __future__ import annotations

import json
import math
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linnet._native import Device, DeviceError, Trace, ssd_parameters
from linnet.calibration.iocost import Measured

MIB = 1 << 20
BLOCK_BYTES = 128 * MIB
"""Sequential requests of the generator, one at a time. The kernel cuts each into pieces that are in flight together."""
PIECE_BYTES = 512 * 1024
"""Pieces of a block in the model: one of the usual limits of a request (ours)."""
DEPTH = 64
"""Requests of 4 KiB in flight, random and sequential."""
READS = 60_000
"""Requests of 4 KiB in a closed loop of reads."""
IDLE_READS = 201
"""Requests of 4 KiB of which the median is the latency of an idle drive."""
ROUNDS = 4
"""Most passes over all steps."""
TRIES = 7
"""Most measurements in one step."""
CLOSE = 0.005
"""A figure this near to its target, relatively, is met."""
MISSING = np.uint64(2**64 - 1)
"""Latency of a record that has none."""

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One parameter and the figure it answers for."""

    field: str
    """Key of the parameter file."""
    figure: str
    """Key of :attr:`linnet.calibration.iocost.Measured.figures`."""
    power: float
    """Sign and rough size of the effect: figure ~ parameter ** power."""
    least: float
    """Least value that is physical (or that the model takes)."""
    most: float
    """Largest value that is physical."""
    digits: int = 0
    """Decimals kept."""
    only_short: bool = False
    """Only when the figure is still short of its target: a second parameter for the same figure."""


STEPS = (
    # tR of 3D TLC: 40-110 us with the firmware's share per read.
    Step("read_ns", "rrandiops", -1, 25_000, 150_000, -2),
    # What the drive, its slot and the host's path give together; four lanes of PCIe 6 carry 30 GB/s.
    Step("link_mb_per_s", "rbps", 1, 100, 32_000),
    Step("channel_mb_per_s", "rbps", 1, 200, 1_200, only_short=True),
    # Controller and protocol of one command; 20 us is NVMeVirt's figure for a consumer drive.
    Step("command_ns", "unloaded_ns", 0.1, 500, 60_000, -2),
    # tPROG of one multi-plane program, folding included; 5.8 ms is the slowest TLC page of FEMU's table.
    Step("program_ns", "wbps", -1, 150_000, 5_800_000, -3),
    # Spare space that random writes meet. A drive that is mostly empty has more than its maker set aside.
    Step("over_provisioning", "wrandiops", 0.5, 0.07, 2.0, 4),
)
"""In the order of the descent."""


@dataclass(frozen=True)
class Calibrated:
    """Parameters and what they give."""

    params: Parameters
    """All keys of the parameter file."""
    figures: dict[str, float]
    """Modelled figures, keys as those measured."""
    at_bound: dict[str, str]
    """Figures that were not reached because a parameter is at the end of its range: figure to field."""
    rounds: int
    """Passes that were needed."""


def read_params(start: str) -> Parameters:
    """The parameters of a preset, or of a TOML file."""
    is_file = Path(start).is_file()
    drive = Device(preset=None if is_file else start, params=start if is_file else None, precondition=False)
    params: Parameters = tomllib.loads(drive.to_toml())
    if params.get("model") != "timelines":
        raise DeviceError(f"{start}: only the timeline engine can be calibrated")
    return params


def to_toml(params: Mapping[str, Any]) -> str:
    """The text of a parameter file."""

    def shown(value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

    return "".join(f"{key} = {shown(value)}\n" for key, value in params.items())


def with_layout(params: Parameters, fixed: Mapping[str, Any]) -> Parameters:
    """``params`` with the keys that are known of the drive; blocks are resized so that capacity stays what it was.

    Raises :class:`linnet.DeviceError` for a key that does not exist.
    """
    known = ssd_parameters()
    for key in fixed:
        if key not in known:
            raise DeviceError(f"{key}: no such SSD parameter; known: {', '.join(known)}")
    new = params | dict(fixed)
    row = ("channels", "dies_per_channel", "planes", "flash_page_bytes", "blocks_per_plane")
    for key in row:
        if type(new[key]) is not int or new[key] < 1:
            raise DeviceError(f"{key} = {new[key]!r}: give a whole number from 1 up")
    if "pages_per_block" not in fixed and new != params:
        ratio = math.prod(params[k] for k in row) / math.prod(new[k] for k in row)
        new["pages_per_block"] = max(1, round(params["pages_per_block"] * ratio))
        if "superblocks_per_erase" not in fixed:
            blocks = params["superblocks_per_erase"] * params["pages_per_block"] / new["pages_per_block"]
            new["superblocks_per_erase"] = max(1, round(blocks))
        if "gc_quantum_rows" not in fixed:
            new["gc_quantum_rows"] = min(new["gc_quantum_rows"], new["pages_per_block"])
    return new


def build(params: Mapping[str, Any], seed: int) -> Device:
    """A preconditioned drive with these parameters."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "params.toml"
        path.write_text(to_toml(params))
        return Device(params=path, seed=seed)


def trace(arrive_ns: Any, op: Any, offset_bytes: Any, size_bytes: Any) -> Trace:
    """Requests as a trace, in order of arrival."""
    count = len(arrive_ns)
    return Trace.from_columns(
        "load",
        np.asarray(arrive_ns, dtype=np.uint64),
        np.asarray(op, dtype=np.uint8),
        np.asarray(offset_bytes, dtype=np.uint64),
        np.asarray(size_bytes, dtype=np.uint32),
        np.zeros(count, dtype=np.uint32),
        np.full(count, MISSING),
    )


def sequential_read_bps(drive: Device) -> float:
    """Bytes per second of 128 MiB reads, one after the other, of a drive that was written in order.

    A block's pieces arrive together; the next block is read long after, so a block's time is that of its last piece.
    """
    pieces = drive.capacity_bytes // PIECE_BYTES
    block = min(BLOCK_BYTES // PIECE_BYTES, pieces)
    blocks = min(8, pieces // block)
    second = 1_000_000_000
    filled = np.arange(pieces, dtype=np.uint64)
    # Slow enough for any drive to keep up, with a pause for what is still buffered.
    gap = PIECE_BYTES * 1000 // 20
    begin = pieces * gap + 60 * second
    read = np.arange(block * blocks, dtype=np.uint64)
    log = drive.run(
        [
            trace(
                np.concatenate(
                    [filled * np.uint64(gap), np.uint64(begin) + read // np.uint64(block) * np.uint64(second)]
                ),
                np.concatenate([np.ones(pieces), np.zeros(len(read))]),
                np.concatenate([filled, read]) * np.uint64(PIECE_BYTES),
                np.full(pieces + len(read), PIECE_BYTES),
            )
        ]
    ).log()
    latency = log.columns()["latency_ns"][-len(read) :].reshape(blocks, block).max(axis=1)
    return float(block * PIECE_BYTES * 1e9 / latency.mean())


def _per_second(
    drive: Device, depth: int, first: int, more: int, size_bytes: int, sequential: bool, seed: int
) -> float:
    """Writes per second of a closed loop after ``first`` writes: the same loop twice, the second longer."""
    before, _ = drive.saturate(depth, first, size_bytes, 1.0, sequential, seed)
    after, _ = drive.saturate(depth, first + more, size_bytes, 1.0, sequential, seed)
    return more * 1e9 / max(after - before, 1)


def reads_per_second(drive: Device, sequential: bool, seed: int) -> float:
    """Reads of 4 KiB per second, 64 in flight."""
    end, _ = drive.saturate(DEPTH, READS, 4096, 0.0, sequential, seed)
    return READS * 1e9 / end


def sequential_write_bps(drive: Device, seed: int) -> float:
    """Bytes per second of 128 MiB in flight, in the quarter of the capacity after it was written once in order."""
    pieces = drive.capacity_bytes // PIECE_BYTES
    return _per_second(drive, BLOCK_BYTES // PIECE_BYTES, pieces, pieces // 4, PIECE_BYTES, True, seed) * PIECE_BYTES


def idle_read_ns(drive: Device, seed: int) -> float:
    """Median latency in ns of reads of 4 KiB at random places, one a second."""
    page = np.random.default_rng(seed).integers(0, drive.capacity_bytes // 4096, IDLE_READS)
    arrive = (np.arange(IDLE_READS) + 1) * 1_000_000_000
    log = drive.run([trace(arrive, np.zeros(IDLE_READS), page * 4096, np.full(IDLE_READS, 4096))]).log()
    return float(np.median(log.columns()["latency_ns"]))


def writes_per_second(drive: Device, sequential: bool, seed: int) -> float:
    """Writes of 4 KiB per second, 64 in flight: in steady state of random ones, or of sequential ones."""
    pages = drive.capacity_bytes // 4096
    return _per_second(drive, DEPTH, pages if sequential else pages // 2, pages // 4, 4096, sequential, seed)


def figure(name: str, params: Mapping[str, Any], seed: int) -> float:
    """Measure one figure in the model."""
    drive = build(params, seed)
    measures: dict[str, Callable[[], float]] = {
        "rrandiops": lambda: reads_per_second(drive, False, seed),
        "rseqiops": lambda: reads_per_second(drive, True, seed),
        "rbps": lambda: sequential_read_bps(drive),
        "unloaded_ns": lambda: idle_read_ns(drive, seed),
        "wbps": lambda: sequential_write_bps(drive, seed),
        "wrandiops": lambda: writes_per_second(drive, False, seed),
        "wseqiops": lambda: writes_per_second(drive, True, seed),
    }
    return measures[name]()


def _rounded(step: Step, value: float) -> float:
    value = round(min(max(value, step.least), step.most), step.digits)
    return value if step.digits > 0 else int(value)


def fitted(fixed: Mapping[str, Any]) -> tuple[Step, ...]:
    """The steps that may move their parameter when the keys in ``fixed`` are held."""
    held = {*fixed, "read_ns"} if fixed.get("page_type_read_ns") else {*fixed}
    return tuple(step for step in STEPS if step.field not in held)


def moved(step: Step, params: Parameters, value: float) -> Parameters:
    """``params`` with the step's parameter at this value.

    Reads of the host take the times of the page types where these are given, so they keep their ratios to ``read_ns``.
    """
    new = params | {step.field: value}
    if step.field == "read_ns" and (types := params.get("page_type_read_ns")):
        new["page_type_read_ns"] = [max(1, round(ns * value / params["read_ns"])) for ns in types]
    return new


def solve(step: Step, params: Parameters, target: float, seed: int) -> tuple[Parameters, float]:
    """Set ``step.field`` so that its figure meets the target: secant on logarithms, inside the range of the step.

    Returns the parameters nearest to the target and the figure there.
    """
    value = float(params[step.field])
    seen: list[tuple[float, float]] = []
    short, over = -math.inf, math.inf
    best = (math.inf, params, 0.0)
    reach = 1.0
    for _ in range(TRIES):
        value = _rounded(step, value)
        if any(math.isclose(value, math.exp(x)) for x, _ in seen):
            break
        tried = moved(step, params, value)
        found = figure(step.figure, tried, seed)
        off = math.log(target / found)
        seen.append((math.log(value), off))
        if abs(off) < best[0]:
            best = (abs(off), tried, found)
        if abs(off) < CLOSE or (step.only_short and off < 0):
            break
        here = math.log(value)
        # Which side the answer lies on; an open side is an infinity.
        if off * step.power > 0:
            short = max(short, here)
        else:
            over = min(over, here)
        reach *= 2
        to = _secant(seen)
        if to is None or not short < to < over:
            # Something else limits here, or too little is known: halve a closed range, go ever further in an open one.
            closed = math.isfinite(short) and math.isfinite(over)
            to = (short + over) / 2 if closed else here + reach * off / step.power
        value = math.exp(min(max(to, here - math.log(3)), here + math.log(3)))
    return best[1], best[2]


def _secant(seen: list[tuple[float, float]]) -> float | None:
    """Where the line through the last two points crosses zero; None for one point or a level line."""
    if len(seen) < 2:
        return None
    (x0, y0), (x1, y1) = seen[-2:]
    return None if abs(y1 - y0) < 1e-9 else x1 - y1 * (x1 - x0) / (y1 - y0)


def calibrate(
    measured: Measured,
    start: Parameters,
    fixed: Mapping[str, Any] | None = None,
    seed: int = 1,
    told: Callable[[str], None] | None = None,
) -> Calibrated:
    """Fit ``start`` to ``measured``; keys in ``fixed`` (what is known of the drive) are set first and never moved.

    Where ``page_type_read_ns`` is among them, ``read_ns`` is not moved either: reads of the host do not take it.
    """
    held = dict(fixed or {})
    params = with_layout(start, held)
    steps = [step for step in fitted(held) if step.figure in measured.figures]
    figures: dict[str, float] = {}
    done = 0
    for done in range(1, ROUNDS + 1):  # noqa: B007
        before = params
        for step in steps:
            target = measured.figures[step.figure]
            if step.only_short and step.figure not in figures:
                # The parameter that answers for it first is held.
                figures[step.figure] = figure(step.figure, params, seed)
            if step.only_short and figures[step.figure] > target * (1 - 2 * CLOSE):
                continue
            params, figures[step.figure] = solve(step, params, target, seed)
            if told is not None:
                told(
                    f"{step.figure}: {step.field} = {params[step.field]}, {figures[step.figure] / target:.3f} of target"
                )
        if params == before:
            break
    figures = {name: figure(name, params, seed) for name in measured.figures}
    at_bound = {
        step.figure: step.field
        for step in steps
        if abs(math.log(figures[step.figure] / measured.figures[step.figure])) > 4 * CLOSE
        and params[step.field] in (_rounded(step, step.least), _rounded(step, step.most))
    }
    return Calibrated(params, figures, at_bound, done)
