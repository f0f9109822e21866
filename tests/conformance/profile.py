# SPDX-License-Identifier: MIT OR Apache-2.0
"""A slow Python implementation of spec/profile.md: features of I/Os in exact fractions, and their aggregates.

`profile.py --write` writes spec/vectors/place/profiles/cases.txt; without it the program checks that this
file is up to date.
"""

from __future__ import annotations

import math
import random
import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from vectors import keep

FILE = Path(__file__).resolve().parent.parent.parent / "spec/vectors/place/profiles/cases.txt"
PAGE = 4096
SECOND = 10**9
HEAD = """\
# Profiles of workloads: spec/profile.md. Written by tests/conformance/profile.py.
# start WINDOW_NS STREAMS; io ARRIVE_NS OP OFFSET SIZE DEVICE LATENCY_NS (- for none); then
# profile END_NS (- for none) FEATURE..., or aggregate PROFILE... = FEATURE..., where a profile is its number in the
# file, from 0. A feature is the bits of a 64-bit float; readers agree to one part in 10^12.
"""


@dataclass
class Io:
    """An I/O of a trace; op 0 reads, 1 writes."""

    arrive: int
    op: int
    offset: int
    size: int
    device: int
    latency: int | None


def deviation(values: list[int], window: int) -> float:
    """Standard deviation of a population of sums over windows, per second."""
    if len(values) < 2:
        return 0.0
    mean = Fraction(sum(values), len(values))
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return math.sqrt(variance) * SECOND / window


def sequential(ios: list[Io], op: int, streams: int) -> tuple[int, int]:
    """I/Os of an operation, and how many continue one of the latest of that operation."""
    own = [io for io in ios if io.op == op]
    found = 0
    for n, io in enumerate(own):
        found += any(
            (before.offset + before.size, before.device) == (io.offset, io.device)
            for before in own[max(0, n - streams) : n]
        )
    return len(own), found


def features(ios: list[Io], window: int, streams: int, end: int | None) -> list[float]:
    """The features of I/Os in the order of the trace."""
    origin, latest, times = ios[0].arrive, 0, []
    for io in ios:
        latest = max(latest, io.arrive - origin)
        times.append(latest)
    until = max(latest, (end or 0) - origin)
    duration = Fraction(max(until, window), SECOND)
    windows = until // window
    found: list[float] = []
    for op in (0, 1):
        for aligned in (True, False):
            group = [(at, io) for at, io in zip(times, ios, strict=True) if io.op == op]
            group = [(at, io) for at, io in group if (io.size % PAGE == 0) == aligned]
            count, total = len(group), sum(io.size for _, io in group)
            per_window, bytes_per_window = [0] * windows, [0] * windows
            for at, io in group:
                if at // window < windows:
                    per_window[at // window] += 1
                    bytes_per_window[at // window] += io.size
            found += [
                float(Fraction(total, count)) if count else 0.0,
                float(count / duration),
                deviation(per_window, window),
                float(total / duration),
                deviation(bytes_per_window, window),
                float(Fraction(sum(io.offset % PAGE != 0 for _, io in group), count)) if count else 0.0,
            ]
    outstanding = Fraction(0)
    for op, nominal in ((0, 100_000), (1, 30_000)):
        own = [io for io in ios if io.op == op]
        known = [io.latency for io in own if io.latency is not None]
        if known:
            outstanding += Fraction(sum(known) * len(own), len(known))
        else:
            outstanding += len(own) * nominal + sum(io.size for io in own)
    found.append(float(outstanding / SECOND / duration))
    for op in (0, 1):
        count, followed = sequential(ios, op, streams)
        found.append(float(Fraction(count - followed, count)) if count else 0.0)
    return found


def aggregate(members: list[list[float]]) -> list[float]:
    """One profile of several, as if their bursts were independent."""
    exact = [[Fraction(value) for value in member] for member in members]
    found: list[float] = []
    for first in range(0, 24, 6):
        rate = sum(member[first + 1] for member in exact)
        mean = {k: sum(m[first + k] * m[first + 1] for m in exact) / rate if rate else Fraction(0) for k in (0, 5)}
        root = {k: math.sqrt(sum(m[first + k] ** 2 for m in exact)) for k in (2, 4)}
        found += [
            float(mean[0]),
            float(rate),
            root[2],
            float(sum(m[first + 3] for m in exact)),
            root[4],
            float(mean[5]),
        ]
    found.append(float(sum(member[24] for member in exact)))
    for op in (0, 1):
        weights = [member[12 * op + 1] + member[12 * op + 7] for member in exact]
        total = sum(weights)
        random_ios = sum(weight * member[25 + op] for weight, member in zip(weights, exact, strict=True))
        found.append(float(random_ios / total) if total else 0.0)
    return found


def bits(values: list[float]) -> str:
    """Bits of 64-bit floats, as hex."""
    return " ".join(f"{struct.unpack('<Q', struct.pack('<d', value))[0]:x}" for value in values)


def sample(chance: random.Random, case: int) -> tuple[list[Io], int, int, int | None]:
    """I/Os of one case, the window, the streams and the end."""
    window = (16_000, 1_600_000, 100_000_000)[case % 3]
    streams = (1, 2, 32)[case // 3 % 3]
    start, now, heads = chance.randrange(10**12), 0, [chance.randrange(2**40) for _ in range(3)]
    ios = []
    for _ in range(chance.choice((1, 7, 40))):
        now += int(chance.expovariate(3 / window)) if chance.random() < 0.7 else 0
        late = chance.randrange(window) if chance.random() < 0.1 and now > 2 * window else 0
        size = chance.choice((512, 4096, 6144, 65536, 1))
        stream = chance.randrange(3)
        offset = heads[stream] if chance.random() < 0.6 else chance.randrange(2**30) * chance.choice((512, 4096))
        heads[stream] = offset + size
        latency = chance.randrange(10**7) if case % 2 or chance.random() < 0.3 else None
        op = case % 4 // 2 if case < 8 else chance.randrange(2)
        ios.append(Io(start + now - late, op, offset, size, chance.randrange(2) if case % 5 == 4 else 0, latency))
    ios[0].arrive = start
    return ios, window, streams, start + now + 3 * window if case % 2 else None


def text() -> str:
    """The vectors."""
    chance = random.Random(15)
    lines, profiles = [], []
    for case in range(24):
        ios, window, streams, end = sample(chance, case)
        lines.append(f"start {window:x} {streams:x}")
        lines += [
            f"io {io.arrive:x} {io.op:x} {io.offset:x} {io.size:x} {io.device:x} "
            + ("-" if io.latency is None else f"{io.latency:x}")
            for io in ios
        ]
        profiles.append(features(ios, window, streams, end))
        lines.append(f"profile {'-' if end is None else f'{end:x}'} {bits(profiles[-1])}")
    for count in (1, 2, 3, 5, 16):
        members = chance.sample(range(24), count)
        found = aggregate([profiles[member] for member in members])
        lines.append(f"aggregate {' '.join(f'{member:x}' for member in members)} = {bits(found)}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(keep({FILE: text()}, "profiles"))
