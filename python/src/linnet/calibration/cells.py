# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fits the timeline engine to cells of a shared drive (:mod:`linnet.calibration.shared`).

The layout comes from the data sheet and is held. The other parameters are found by coordinate descent with shrinking
steps on a distance over all quantiles of the chosen cells. Everything is deterministic.
``docs/design/calibration-shared.md`` has the procedure and what it does not reproduce.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linnet.calibration.calibrate import Parameters, build, read_params
from linnet.calibration.shared import JUDGED, QUANTILES, Cell, Drive

START = "enterprise-wide"
DIE_GB = 60.0
"""Capacity behind each modelled die: dies of 512 Gbit, less spare space (a guess)."""
ROWS = 384
"""Rows of a superblock times dies: the modelled drive has 6 GiB whatever its layout."""
PLANES = 4
SECONDS = (0.5, 1.5)
"""Warm-up and measurement of a cell in the fit, at loads up to :data:`FULL_LOAD`."""
FINAL = (1.0, 4.0)
"""The same when the result is judged."""
FULL_LOAD = 150_000.0
"""Above this load cells are shortened, so that none costs more I/Os than one at this load: offered I/Os per second, of
SSD-iq's cells ``rate_iops``."""
FAR = 1.0
"""A distance counts up to this natural logarithm: a cell that the model cannot show must not bend the others."""
WEIGHTS = {"p10": 0.5, "p25": 0.5, "p50": 2.0, "p75": 0.5, "p90": 0.5, "p99": 2.0, "p99_9": 2.0}
"""Of the logarithms of read quantiles."""
WRITE_WEIGHTS, RATE_WEIGHT = {"p50": 0.25, "p99": 0.25}, 4.0
"""Of write quantiles, and of the achieved rate."""
STEPS = (0.35, 0.15, 0.06)
"""Relative steps of the descent, one after the other."""
PATTERNS = ((0, 0, 1), (0, 1, 1), (0, 1, 2))
"""Which of the page types take the fast, the slow, and the mean time."""


@dataclass(frozen=True)
class Knob:
    """One fitted number and its physical range."""

    name: str
    least: float
    most: float


KNOBS = (
    Knob("fast_ns", 20_000, 150_000),
    Knob("slow_ns", 20_000, 200_000),
    # tPROG of one multi-plane program of TLC.
    Knob("program_ns", 150_000, 3_000_000),
    Knob("over_provisioning", 0.11, 1.0),
    Knob("suspend_ns", 1_000, 300_000),
    Knob("suspend_share", 0.02, 1.0),
    Knob("erase_ns", 500_000, 10_000_000),
    # Pages of a block of the real drive, over which an erase is spread.
    Knob("erase_rows", 24, 3_000),
    Knob("stalled", 4, 1_024),
    Knob("buffer_pages", 512, 32_768),
    Knob("limit_mb_per_s", 20, 8_000),
)

RETRIES = Knob("retries", 0.0002, 0.05)
"""Share of the flash reads that are repeated."""
RETRIES_FIRST = (0.0, 0.002, 0.004, 0.008, 0.016)
ERASE_ROWS_FIRST = (1.0, 0.5, 0.25)
"""Of what the body of the distribution was fitted with."""
RARE = (RETRIES, *(knob for knob in KNOBS if knob.name in ("erase_ns", "erase_rows")))
"""What few reads meet: it sets the far tail and leaves the body of the distribution as it is."""
STALLS = (0, 1, 6)
FLASH_PAGE = 4
"""4 KiB pages of a flash page."""


@dataclass(frozen=True)
class Mode:
    """Which mechanisms are on."""

    priority: str = "over-queued"
    """``read_priority``: reads wait for the running program, or suspend it."""
    stalls: int = 0
    """The controller stops fetching commands when that many times ``stalled`` writes wait; 0: it always fetches."""
    limited: bool = False
    """Host writes are admitted at a limited rate."""
    gc_read_pages: int = 0
    """4 KiB pages that a read of collection takes; 0: a program unit."""
    pattern: int = 1
    """Place in :data:`PATTERNS`."""

    def others(self) -> list[Mode]:
        """Modes that differ in one mechanism, apart from the priority."""
        return [
            *(replace(self, stalls=other) for other in STALLS if other != self.stalls),
            replace(self, limited=not self.limited),
            replace(self, gc_read_pages=0 if self.gc_read_pages else FLASH_PAGE),
            *(replace(self, pattern=other) for other in range(len(PATTERNS)) if other != self.pattern),
        ]


@dataclass(frozen=True)
class Fitted:
    """The result of a fit."""

    params: Parameters
    distance: float
    """Mean weighted distance over the chosen cells, natural logarithm."""
    tried: int
    """Parameter sets that were run."""


def layout(drive: Drive) -> Parameters:
    """What the data sheet says: dies by capacity, and the rate of the host link."""
    dies = 2 ** round(np.log2(max(8.0, drive.sheet["capacity_gb"] / DIE_GB)))
    channels = min(16, max(8, dies // 4))
    params = read_params(START)
    params |= {
        "channels": channels,
        "dies_per_channel": dies // channels,
        "planes": PLANES,
        "pages_per_block": max(3, 3 * round(ROWS / dies / 3)),
        "channel_mb_per_s": 1200,
        "link_mb_per_s": int(drive.sheet["seq_read_mbs"]),
        "command_ns": 4_000,
        "complete_ns": 2_000,
        "dram_ns": 1_000,
        "gc_free_superblocks": 6.0,
        "gc_quantum_rows": 1,
        "checkpoint_host_pages": 0,
        "device_wide_share": 0.0,
        "gc_paced": True,
    }
    return params


def assembled(base: Parameters, knobs: Mapping[str, float], mode: Mode) -> Parameters:
    """Parameters from fitted numbers."""
    fast, slow = int(round(knobs["fast_ns"], -2)), int(round(knobs["slow_ns"], -2))
    times = (fast, slow, (fast + slow) // 2) if slow >= fast else (slow, fast, (fast + slow) // 2)
    types = sorted(times[at] for at in PATTERNS[mode.pattern])
    program = int(round(knobs["program_ns"], -3))
    params = base | {
        "page_type_read_ns": types,
        "read_ns": sum(types) // len(types),
        "program_ns": program,
        "over_provisioning": round(knobs["over_provisioning"], 4),
        "erase_ns": int(round(knobs["erase_ns"], -4)),
        "superblocks_per_erase": max(1, round(knobs["erase_rows"] / base["pages_per_block"])),
        "read_priority": mode.priority,
        "retry_probability": round(knobs["retries"], 5),
        "buffer_bytes": round(knobs["buffer_pages"]) * 4096,
    }
    if mode.gc_read_pages:
        params["gc_read_pages"] = mode.gc_read_pages
    if mode.limited:
        params["write_limit_mb_per_s"] = round(knobs["limit_mb_per_s"])
    if mode.priority == "suspend":
        params["suspend_ns"] = int(round(knobs["suspend_ns"], -2))
        params["suspend_after_ns"] = max(1, int(round(knobs["suspend_share"] * program, -3)))
    if mode.stalls:
        params["stalled_writes_max"] = round(knobs["stalled"] * mode.stalls)
    return params


def run_cells(params: Parameters, cells: Sequence[Cell], seed: int, seconds: tuple[float, float]) -> list[Cell]:
    """The cells in the model: preconditioned, half overwritten page by page, then each load on a copy.

    Raises ValueError for a cell in whose time tenant 0 makes no read or no write.
    """
    drive = build(params, seed)
    drive = drive.overwritten(drive.capacity_bytes // 4096 // 2, seed)
    found = []
    for one in cells:
        load = one.load if one.as_ssdiq else one.offered
        warm, span = (part * min(1.0, FULL_LOAD / load) for part in seconds)
        threads = drive.tenants(one.threads, warm, span, seed)
        for op, values in zip(("read", "write"), threads[0], strict=True):
            if not len(values):
                raise ValueError(
                    f"drive {one.drive}, rate_iops {one.load:g}: tenant 0 offers so little that the modelled one makes "
                    f"no {op} in {span:.2g} s; leave out the load"
                )
        # Interpolated, for the descent: what a small step changes is less than the distance of two reads.
        read, write = (
            dict(zip(QUANTILES, (np.quantile(values, list(QUANTILES.values())) / 1e3), strict=True))
            for values in threads[0]
        )
        count = sum(len(values) for thread in threads for values in thread)
        found.append(replace(one, read_us=read, write_us=write, iops=count / span))
    return found


def distance(modelled: Sequence[Cell], measured: Sequence[Cell]) -> float:
    """Mean weighted distance between cells, as a natural logarithm."""
    total = weight = 0.0
    for ours, real in zip(modelled, measured, strict=True):
        pairs = [(ours.read_us[name], real.read_us[name], of) for name, of in WEIGHTS.items()]
        pairs += [(ours.write_us[name], real.write_us[name], of) for name, of in WRITE_WEIGHTS.items()]
        pairs += [(ours.iops, real.iops, RATE_WEIGHT)]
        for a, b, of in pairs:
            total += of * min(abs(float(np.log(max(a, 1e-9) / max(b, 1e-9)))), FAR)
            weight += of
    return total / weight


def fit(drive: Drive, cells: Sequence[Cell], seed: int, told: Callable[[int], None] = lambda done: None) -> Fitted:
    """Fit to cells of a drive, by rising load. ``told`` gets the number of parameter sets run so far."""
    base = layout(drive)
    lowest, highest = cells[0], cells[-1]
    first_iops, first_writes, *_ = highest.threads[0]
    # An unloaded write is command, link, DRAM and completion; the last two thirds of it are the controller's.
    base["command_ns"] = int(max(500, lowest.write_us["p10"] * 1e3 - base["complete_ns"] - base["dram_ns"] - 700))
    around = base["command_ns"] + base["complete_ns"] + 5_000
    start = {
        "fast_ns": max(20_000.0, lowest.read_us["p10"] * 1e3 - around),
        "slow_ns": max(21_000.0, lowest.read_us["p75"] * 1e3 - around),
        "program_ns": 600_000.0,
        "over_provisioning": 0.25,
        "suspend_ns": 60_000.0,
        "suspend_share": 0.5,
        "erase_ns": 2_500_000.0,
        "erase_rows": 500.0,
        "stalled": 64.0,
        "buffer_pages": 2048.0,
        # What the drive took at the highest load, less the reads of the first thread.
        "limit_mb_per_s": (highest.iops - first_iops * (1 - first_writes)) * 4096e-6,
        # None until the body of the distribution is fitted.
        "retries": 0.0,
    }
    seen: dict[tuple[str, tuple[float, float]], float] = {}

    def score(knobs: Mapping[str, float], mode: Mode, seconds: tuple[float, float] = SECONDS) -> float:
        params = assembled(base, knobs, mode)
        key = repr(sorted(params.items())), seconds
        if key not in seen:
            seen[key] = distance(run_cells(params, cells, seed, seconds), cells)
            told(len(seen))
        return seen[key]

    best: tuple[float, Mapping[str, float], Mode] = (np.inf, start, Mode())
    for mode in (Mode("over-queued"), Mode("suspend")):
        here: tuple[float, Mapping[str, float], Mode] = (np.inf, start, mode)
        for _ in range(2):
            here = descend(here[1], here[2], used(here[2]), STEPS[0], 1, score)
            here = min(
                [here, *((score(here[1], other), here[1], other) for other in here[2].others())], key=lambda o: o[0]
            )
        best = min(best, here, key=lambda one: one[0])
    for step in STEPS[1:]:
        best = descend(best[1], best[2], used(best[2]), step, 2, score)
        best = min([best, *((score(best[1], other), best[1], other) for other in best[2].others())], key=lambda o: o[0])
    # Then what few reads meet, on longer runs, which have more than a handful of such reads. The first steps away from
    # "never" do not reach p99.9, so the descent begins at the best of a grid.
    final = partial(score, seconds=FINAL)
    first = [
        {**best[1], "retries": retries, "erase_rows": best[1]["erase_rows"] * rows}
        for retries in RETRIES_FIRST
        for rows in ERASE_ROWS_FIRST
    ]
    best = min(((final(knobs, best[2]), knobs, best[2]) for knobs in first), key=lambda one: one[0])
    for step in STEPS[1:]:
        best = descend(best[1], best[2], RARE, step, 2, final)
    return Fitted(assembled(base, best[1], best[2]), best[0], len(seen))


def used(mode: Mode) -> list[Knob]:
    """The knobs that have an effect in this mode."""
    off = set() if mode.priority == "suspend" else {"suspend_ns", "suspend_share"}
    off |= set() if mode.stalls else {"stalled"}
    off |= set() if mode.limited else {"limit_mb_per_s"}
    return [knob for knob in KNOBS if knob.name not in off]


def descend(
    start: Mapping[str, float],
    mode: Mode,
    knobs: Sequence[Knob],
    step: float,
    rounds: int,
    score: Callable[[Mapping[str, float], Mode], float],
) -> tuple[float, Mapping[str, float], Mode]:
    """Coordinate descent: each knob is moved up or down by a relative step as long as that helps."""
    here, now = dict(start), score(start, mode)
    for _ in range(rounds):
        before = now
        for knob in knobs:
            for factor in (1 + step, 1 / (1 + step)):
                moved = False
                while True:
                    to = min(max(here[knob.name] * factor, knob.least), knob.most)
                    tried = here | {knob.name: to}
                    if to == here[knob.name] or (after := score(tried, mode)) >= now:
                        break
                    here, now, moved = tried, after, True
                if moved:
                    break
        if now >= before * 0.995:
            break
    return now, here, mode


def compared(
    params: Parameters, drives: Sequence[Drive], fitted: Mapping[str, Sequence[float]], seed: int
) -> list[dict[str, Any]]:
    """A row for each cell: measured and modelled quantiles, and whether the fit saw the cell.

    ``fitted`` has the loads that the fit saw, by drive.
    """
    rows = []
    for drive in drives:
        for ours, real in zip(run_cells(params, drive.cells, seed, FINAL), drive.cells, strict=True):
            row: dict[str, Any] = {
                "drive": drive.name,
                "load": real.load,
                "offered_iops": real.offered,
                "fitted": real.load in fitted.get(drive.name, ()),
                "iops": {"measured": real.iops, "modelled": ours.iops},
            }
            for op, a, b in (("read", ours.read_us, real.read_us), ("write", ours.write_us, real.write_us)):
                for name in JUDGED:
                    row[f"{op}_{name}_us"] = {"measured": b[name], "modelled": float(a[name])}
            rows.append(row)
    return rows


def miss(row: Mapping[str, Any], op: str) -> float:
    """The largest relative error of the judged quantiles of a cell."""
    pairs = [row[f"{op}_{name}_us"] for name in JUDGED]
    return float(max(abs(pair["modelled"] / pair["measured"] - 1) for pair in pairs))


def judged(rows: Sequence[Mapping[str, Any]], op: str) -> dict[str, Any]:
    """Of cells: how many are within 20 % at every quantile, and the median and worst error of each quantile."""
    found: dict[str, Any] = {"cells": len(rows), "within_20": sum(miss(row, op) <= 0.20 for row in rows)}
    for name in JUDGED:
        errors = [abs(row[f"{op}_{name}_us"]["modelled"] / row[f"{op}_{name}_us"]["measured"] - 1) for row in rows]
        found[name] = {"median": float(np.median(errors)), "worst": max(errors)} if errors else None
    return found
