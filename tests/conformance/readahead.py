# SPDX-License-Identifier: MIT OR Apache-2.0
"""A slow Python implementation of spec/readahead.md: features of a window of reads, and the rule's verdict.

`readahead.py --write` writes spec/vectors/readahead.txt; without it the program checks that this file is up to date.
It shares no code with the core. Integers of any size, so nothing can overflow here.
"""

from __future__ import annotations

import random
import struct
import sys
from fractions import Fraction
from math import isqrt
from pathlib import Path

from vectors import keep

PATH = Path(__file__).resolve().parent.parent.parent / "spec/vectors/readahead.txt"
COUNT_MAX = 1 << 44
NAMES = [
    *("accesses", "pages", "repeats", "forward", "reverse", "jumps"),
    *("faults", "added", "used", "batches"),
]
LADDER = [8 << k for k in range(9)]
READINGS = ["random", "runs", "sequential", "reverse"]


def ratio(part: int, whole: int) -> int:
    """part / whole in 1/65,536, rounded down; 0 of nothing."""
    return int(Fraction(min(part, COUNT_MAX) * 65536, whole)) if whole else 0


def share(part: int, whole: int) -> int:
    """The same for a part of the whole."""
    return ratio(min(part, whole), whole)


def log2(x: int) -> int:
    """log2 of x / 65,536 in 1/65,536: 16 squarings of a mantissa with 31 bits of fraction, rounded down each time."""
    whole = x.bit_length() - 1
    mantissa = x << 31 >> whole
    fraction = 0
    for _ in range(16):
        mantissa = mantissa * mantissa >> 31
        bit = mantissa >> 32
        mantissa >>= bit
        fraction = 2 * fraction + bit
    return (whole - 16) * 65536 + fraction


def spread(distance: list[int]) -> int:
    """Entropy of the buckets over 4 bits."""
    shift = max(sum(distance).bit_length() - 32, 0)
    counts = [count >> shift for count in distance]
    n = sum(counts)
    if n == 0:
        return 0
    own = -(-sum(count * log2(count << 16) for count in counts if count) // n)
    return max(log2(n << 16) - own, 0) // 4


def pattern(counts: dict, distance: list[int], size: list[int], demands: bool) -> dict:
    """The numbers of a window."""
    c = counts
    names = ["accesses", "jumps", "run", "local", "reverse", "near", "far"]
    names += ["spread", "request", "mapped", "used", "added_each", "batches_each", "added"]
    found = dict.fromkeys(names, 0)
    found |= {"added": c["added"], "request": 1}
    if not demands:
        joined = max(c["added"] // 32 - c["batches"], 0)
        found["accesses"], found["jumps"] = c["batches"] + joined, c["batches"]
        found["local"] = share(joined, found["accesses"])
        found["run"] = ratio(c["added"], max(c["batches"], 1)) if joined > c["batches"] else 65536
        return found
    local, pages = c["forward"] + c["reverse"], max(c["pages"], 1)
    middle = [log for log in range(8) if sum(size) > 0 and 2 * sum(size[: log + 1]) >= sum(size)]
    return {
        "accesses": c["accesses"],
        "jumps": c["jumps"],
        "run": ratio(c["pages"], max(c["jumps"], 1)),
        "local": share(local, c["accesses"]),
        "reverse": share(c["reverse"], local),
        "near": share(sum(distance[:5]), sum(distance)),
        "far": share(sum(distance[10:]), sum(distance)),
        "spread": spread(distance),
        "request": 1 << middle[0] if middle else 1,
        "mapped": share(c["faults"], c["accesses"]),
        "used": share(c["used"], c["added"]),
        "added_each": ratio(c["added"], pages),
        "batches_each": ratio(c["batches"], pages),
        "added": c["added"],
    }


def row(p: dict) -> list[int]:
    """Inputs of a model, as bits of f32."""
    run = min(log2(max(p["run"], 65536)) // 8, 2 * 65536)
    request = log2(p["request"] << 16) // 8
    numbers = [p["local"], p["reverse"], run, p["near"], p["far"], p["spread"], request, p["mapped"]]
    return [struct.unpack("<I", struct.pack("<f", number / 65536))[0] for number in numbers]


def certainty(n: int) -> int:
    """1 - 0.8 / sqrt(n) in millionths; the root has 12 bits of fraction."""
    return 1_000_000 - (800_000 << 12) // isqrt(min(max(n, 1), 1 << 39) << 24)


def verdict(p: dict) -> tuple[int, int, int] | None:
    """Reading, KiB and confidence of the rule."""
    if p["accesses"] == 0:
        return None
    scattered = certainty(p["jumps"])
    if p["jumps"] >= 2 and p["added"] // p["jumps"] >= 4096 and p["used"] < 1311:
        scattered = max(scattered, 860_000)
    if p["run"] <= 6 * 65536:
        return 0, 8, scattered
    if p["run"] < 48 * 65536:
        return 1, min(next(kib for kib in LADDER if kib * 65536 >= 4 * (p["run"] // 2)), 128), scattered
    return (3 if p["reverse"] > 32768 else 2), 0, certainty(p["accesses"])


def windows() -> list[tuple[dict, list[int], list[int], bool]]:
    """Windows of each kind, and some at the bounds."""
    rng = random.Random(20261122)
    found = []
    for k in range(120):
        accesses = rng.choice([0, 1, 2, 4, 5, 29, 30, 100, 1000, 10**6, 1 << 40])
        forward = rng.randint(0, accesses)
        reverse = rng.randint(0, accesses - forward)
        counts = dict.fromkeys(NAMES, 0)
        counts |= {
            "accesses": accesses,
            "forward": forward,
            "reverse": reverse,
            "jumps": accesses - forward - reverse,
            "pages": accesses * rng.choice([1, 2, 6, 7, 48, 64]),
            "faults": rng.randint(0, 2 * accesses),
            "added": accesses * rng.choice([0, 1, 32, 16384]),
            "batches": rng.randint(0, accesses),
            "repeats": rng.randint(0, 9),
        }
        counts["used"] = counts["added"] // rng.choice([1, 2, 50, 51, 10**4])
        if k % 10 == 9:
            counts = {name: COUNT_MAX for name in NAMES}
        distance = [rng.choice([0, 0, 1, rng.randint(0, accesses), COUNT_MAX if k % 10 == 9 else 7]) for _ in range(16)]
        size = [rng.choice([0, 0, 3, rng.randint(0, accesses)]) for _ in range(8)]
        found.append((counts, distance, size, k % 6 != 5))
    return found


def text() -> str:
    """The file."""
    lines = [
        "# SPDX-License-Identifier: MIT OR Apache-2.0",
        "# Windows of reads, written by tests/conformance/readahead.py; spec/readahead.md. Numbers are hexadecimal.",
        "# window DEMANDS " + " ".join(NAMES) + " 16 distances 8 sizes",
        "# pattern " + " ".join(pattern(dict.fromkeys(NAMES, 0), [0] * 16, [0] * 8, True)),
        "# row 8 inputs; verdict READING KIB CONFIDENCE, or none",
    ]
    for counts, distance, size, demands in windows():
        found = pattern(counts, distance, size, demands)
        said = verdict(found)
        lines.append("window " + " ".join(f"{n:x}" for n in [demands, *counts.values(), *distance, *size]))
        lines.append("pattern " + " ".join(f"{n:x}" for n in found.values()))
        lines.append("row " + " ".join(f"{n:x}" for n in row(found)))
        lines.append("verdict " + (" ".join(f"{n:x}" for n in said) if said else "none"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(keep({PATH: text()}, "readahead"))
