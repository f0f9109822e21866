# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sensitivity experiments of the gray-box paper (Jaliminche et al., SoCC 2023, Figures 3 to 10) on modelled drives.

A workload under test reads 4 KiB; an interfering workload varies one property: alignment of sizes, rate, depth,
operation, order, alignment of offsets, bursts. Rates, sizes and depths are those of the paper's Tables 2 to 8. What the
reader loses is the paper's equation 1: the part of its bandwidth alone, in percent.

Each experiment runs on a *new* drive, of which only the two workloads' own parts hold data, as after a short fio run
on a large empty drive, and on a *used* one, whose garbage collection is at a steady write amplification. The paper does
not say which its drives were.

Nor does it say whether the depths of its tables are a workload's or those of each of its eight fio threads, so each
experiment is also run both ways. Depths that an experiment varies are as printed in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from linnet._native import SharedDrive, TenantLoad
from linnet.studies.kept import NUMBER, Kinds

State = Literal["new", "used"]
STATES: tuple[State, ...] = ("new", "used")
Depths = Literal["total", "per-thread"]
TIMES: dict[Depths, int] = {"total": 1, "per-thread": 8}
"""What fixed depths of the tables are multiplied by."""
KIB = 1024
PAGE = 4 * KIB
SECONDS = 0.5
"""Length of a run; all of it is measured, as fio does: a reader that is held back at first would catch up later."""
PERIOD_S = 1.0
"""Half of it at each rate. The paper has one second of each (Table 8); what counts is that a burst does not fit in the
write buffer. Runs with bursts are measured for a whole period."""
SEED = 1
_FIGURES = ("alone_mbs", "beside_mbs", "loss_percent", "interfering_mbs", "interfering_std_mbs")
ROW: Kinds = {
    **{"figure": int, "drive": str, "state": str, "depths": str, "series": str, "x": NUMBER | str},
    **dict.fromkeys((*_FIGURES, "latency_us", "alone_latency_us"), NUMBER),
    "waits_us": dict,
}
"""What a row has."""


@dataclass(frozen=True)
class Rates:
    """The offered I/Os per second that Tables 2 to 8 give for a drive."""

    reader: float
    size_bandwidth: float
    """Bytes per second of the interfering workloads of Figure 3 at every size (Table 2: its rate of 6 KiB)."""
    writer_rates: tuple[float, ...]
    """Figure 4."""
    offset_depth: int
    """Depth of the workload under test in Figure 8."""
    uniform: float
    bursty: tuple[float, float]
    """Rates of the two halves of a burst's period in Figure 9."""
    times: int = 1
    """What fixed depths are multiplied by."""


RATES = {
    "nvme": Rates(
        524_288, 349_520 * 6144.0, tuple(104_857.6 * n for n in range(1, 7)), 128, 262_144, (53_608, 470_680)
    ),
    "sata": Rates(65_536, 43_680 * 6144.0, (4096, 8192, 16_384, 32_768, 49_152, 65_536), 16, 32_768, (12_496, 50_000)),
}
SIZE_PAIRS = ((4, 8), (8, 12), (16, 20), (64, 68), (256, 260), (1020, 1024))
"""Figure 3: sizes in KiB, half of the I/Os each; the unaligned workload has their mean."""
DEPTHS = (8, 32, 64, 128, 256, 1024, 4096, 8192, 16_384)
"""Figure 5."""
OFFSET_SIZES = (4, 8, 16, 64)
"""Figure 8, KiB."""
UNALIGNED = 0.75
"""``write:17k`` with 4 KiB steps by 21 KiB, so that three of four offsets are not multiples of the page."""
BURST_MEANS = (0.5, 1.0, 1.5)
"""Figure 10: mean bandwidths as multiples of Figure 9's."""
BURST_SPREADS = (0.0, 0.4, 0.8)
"""Figure 10: half of the difference of both rates over the mean, which is the standard deviation of many windows."""


@dataclass(frozen=True)
class Case:
    """One run: loads of the workload under test and of the interfering one, of which both may be several jobs."""

    figure: int
    drive: str
    series: str
    x: float | str
    under_test: TenantLoad
    interfering: tuple[TenantLoad, ...]
    seconds: float = SECONDS
    spread: float = 0.0
    """Standard deviation of the interfering bandwidth, bytes per second; known for bursts."""


def _reader(rates: Rates, random: float = 1.0, depth: int = 128) -> TenantLoad:
    return TenantLoad(rates.reader, [PAGE], reads=1.0, random=random, depth=depth * rates.times)


def _writer(
    rate: float, sizes: Sequence[int] = (PAGE,), depth: int = 128, random: float = 1.0, unaligned: float = 0.0
) -> TenantLoad:
    return TenantLoad(rate, list(sizes), reads=0.0, random=random, unaligned=unaligned, depth=depth)


def bursty(low: float, high: float, depth: int = 128) -> tuple[TenantLoad, ...]:
    """Writes of 4 KiB at two rates, half of the period each: a steady job, and one for the difference that pauses."""
    steady = (_writer(low, depth=depth),) if low > 0 else ()
    if high <= low:
        return steady
    # TenantLoad takes the mean of its rate.
    peaks = TenantLoad((high - low) / 2, [PAGE], reads=0.0, depth=depth, period_s=PERIOD_S, active=0.5)
    return (*steady, peaks)


def cases(drive: str, figures: Sequence[int] = range(3, 11), depths: Depths = "total") -> Iterator[Case]:
    """All runs of some figures on one drive."""
    rates = replace(RATES[drive], times=TIMES[depths])
    reader = _reader(rates)
    for figure in figures:
        yield from _CASES[figure](drive, rates, reader)


def _sizes(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    for pair in SIZE_PAIRS:
        small, large = (kib * KIB for kib in pair)
        middle = (small + large) // 2
        rate = rates.size_bandwidth / middle
        yield Case(3, drive, "aligned", middle / KIB, reader, (_writer(rate, (small, large), 128 * rates.times),))
        yield Case(3, drive, "unaligned", middle / KIB, reader, (_writer(rate, (middle,), 128 * rates.times),))


def _rates(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    for rate in rates.writer_rates:
        yield Case(4, drive, "writes", rate, reader, (_writer(rate, depth=128 * rates.times),))


def _depths(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    for depth in DEPTHS:
        yield Case(5, drive, "writes", depth, reader, (_writer(rates.reader, depth=depth),))


def _operations(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    yield Case(6, drive, "interfering", "read", reader, (_reader(rates),))
    yield Case(6, drive, "interfering", "write", reader, (_writer(rates.reader, depth=128 * rates.times),))


def _orders(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    for name, one in (("random", reader), ("sequential", _reader(rates, random=0.0))):
        for order, random in (("random", 1.0), ("sequential", 0.0)):
            yield Case(
                7, drive, f"{name} reads", order, one, (_writer(rates.reader, depth=128 * rates.times, random=random),)
            )


def _offsets(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    under_test = _reader(rates, depth=rates.offset_depth)
    for kib in OFFSET_SIZES:
        rate = rates.reader * PAGE / (kib * KIB)
        for name, unaligned in (("aligned", 0.0), ("unaligned", UNALIGNED)):
            load = _writer(rate, (kib * KIB,), 128 * rates.times, unaligned=unaligned)
            yield Case(8, drive, name, kib, under_test, (load,))


def _bursts(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    under_test = _reader(rates, depth=32)
    low, high = rates.bursty
    yield Case(
        9, drive, "interfering", "uniform", under_test, (_writer(rates.uniform, depth=128 * rates.times),), PERIOD_S
    )
    yield Case(
        9,
        drive,
        "interfering",
        "bursty",
        under_test,
        bursty(low, high, 128 * rates.times),
        PERIOD_S,
        (high - low) / 2 * PAGE,
    )


def _spreads(drive: str, rates: Rates, reader: TenantLoad) -> Iterator[Case]:
    under_test = _reader(rates, depth=32)
    for times in BURST_MEANS:
        mean = times * rates.uniform
        for spread in BURST_SPREADS:
            loads = bursty(mean * (1 - spread), mean * (1 + spread), 128 * rates.times)
            yield Case(
                10, drive, f"{times:g} times the mean", spread, under_test, loads, PERIOD_S, spread * mean * PAGE
            )


_CASES: dict[int, Callable[[str, Rates, TenantLoad], Iterator[Case]]] = {
    **{3: _sizes, 4: _rates, 5: _depths, 6: _operations, 7: _orders, 8: _offsets, 9: _bursts, 10: _spreads}
}


class Bench:
    """A drive in one state, and what readers have alone on it."""

    def __init__(self, drive: str, state: State) -> None:
        # The workload under test and a reading neighbour read what was written before.
        self._drive = SharedDrive(drive, SEED, None if state == "used" else 2)
        self.state = state
        self._alone: dict[str, tuple[float, float, dict[str, float]]] = {}

    def run(self, case: Case, depths: Depths = "total") -> dict[str, Any]:
        """A row: bandwidths in MB/s, loss in percent of the bandwidth alone, waits of the mean read in us."""
        key = f"{case.under_test!r} {case.seconds}"
        if key not in self._alone:
            self._alone[key] = self._reads(case, ())[0]
        alone, alone_us, alone_waits = self._alone[key]
        (beside, latency_us, waits), interfering = self._reads(case, case.interfering)
        return {
            **{"figure": case.figure, "drive": case.drive, "state": self.state, "depths": depths},
            **{"series": case.series, "x": case.x},
            "alone_mbs": round(alone / 1e6, 3),
            "beside_mbs": round(beside / 1e6, 3),
            "loss_percent": round(100 * (alone - beside) / alone, 3),
            "interfering_mbs": round(interfering / 1e6, 3),
            "interfering_std_mbs": round(case.spread / 1e6, 3),
            "latency_us": round(latency_us, 2),
            "alone_latency_us": round(alone_us, 2),
            "waits_us": {name: round(us - alone_waits.get(name, 0.0), 2) for name, us in waits.items()},
        }

    def _reads(
        self, case: Case, interfering: Sequence[TenantLoad]
    ) -> tuple[tuple[float, float, dict[str, float]], float]:
        loads = [case.under_test, *interfering]
        space = self._drive.space_bytes
        tenants = [(load.trace(case.seconds, space, SEED + n), load.depth) for n, load in enumerate(loads)]
        found = self._drive.run_explained(tenants, 0.0, case.seconds)
        (seen, waits, _), others = found[0], found[1:]
        return (seen[0], seen[1], waits), sum(numbers[0] + numbers[5] for numbers, _, _ in others)


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells rows apart."""
    return tuple(row[name] for name in ("figure", "drive", "state", "depths", "series", "x"))


def rows_of(
    drives: Sequence[str],
    states: Sequence[State] = STATES,
    figures: Sequence[int] = range(3, 11),
    before: Sequence[dict[str, Any]] = (),
    made: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """All rows. Those of ``before`` are not run again; ``made`` receives each new one."""
    known = {key_of(row): row for row in before}
    rows = []
    for drive in drives:
        for state in states:
            bench: Bench | None = None
            for depths in TIMES:
                for case in cases(drive, figures, depths):
                    key = (case.figure, drive, state, depths, case.series, case.x)
                    if key not in known:
                        bench = bench or Bench(drive, state)
                        known[key] = bench.run(case, depths)
                        made(known[key])
                    rows.append(known[key])
    return rows


def spread_explains(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Figure 10: of what the reader keeps, the share of variance that a line over the interfering mean explains, and
    that a plane over mean and standard deviation does; and the correlation with the deviation at equal means.
    """
    y = np.array([row["beside_mbs"] for row in rows])
    spread = np.array([row["interfering_std_mbs"] for row in rows])
    # The offered mean: what was achieved follows from the interference.
    groups = np.array([float(str(row["series"]).split()[0]) for row in rows])

    def explained(*columns: Any) -> float:
        x = np.column_stack([np.ones(len(y)), *columns])
        residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
        return 1 - float((residual**2).sum() / max(((y - y.mean()) ** 2).sum(), 1e-12))

    def centred(values: Any) -> Any:
        return np.concatenate([values[groups == one] - values[groups == one].mean() for one in np.unique(groups)])

    a, b = centred(spread), centred(y)
    size = math.sqrt(float((a**2).sum() * (b**2).sum()))
    return {
        "r2_mean": explained(groups),
        "r2_mean_and_std": explained(groups, spread),
        "correlation_std": float((a * b).sum()) / size if size > 0 else 0.0,
    }
