# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shipped profiles and data sheets, to begin with before anything is measured.

The profiles are declared, not measured: round figures for kinds of workloads that storage teams name. Replace them by
measured ones (`linnet place profile`). The data sheets are the vendors' published figures.
"""

from __future__ import annotations

from linnet.place.words import Drive, Profile

KIB = 1024.0

# Name; of reads and of writes: per second, KiB each, deviation over mean, share of random ones; depth; and the share of
# writes whose size is no multiple of 4 KiB, half of which is the share of unaligned offsets.
WORKLOADS: tuple[
    tuple[str, tuple[float, float, float, float], tuple[float, float, float, float], float, float], ...
] = (
    ("oltp", (12_000, 8, 0.25, 0.95), (4_000, 8, 0.35, 0.80), 16, 0.05),
    ("key-value", (40_000, 4, 0.20, 1.00), (6_000, 16, 0.50, 0.20), 32, 0.0),
    ("analytics", (2_500, 128, 0.60, 0.10), (150, 128, 0.80, 0.10), 32, 0.0),
    ("log-writer", (20, 64, 0.50, 0.50), (5_000, 4, 0.30, 0.05), 2, 0.60),
    ("mail", (1_500, 16, 0.40, 0.80), (900, 8, 0.50, 0.60), 4, 0.20),
    ("web", (3_000, 16, 0.30, 0.90), (100, 16, 0.60, 0.40), 4, 0.0),
    ("vm-image", (800, 32, 0.70, 0.60), (600, 16, 0.80, 0.60), 4, 0.10),
    ("backup", (50, 256, 0.50, 0.10), (1_200, 256, 0.90, 0.0), 8, 0.0),
    ("video", (700, 512, 0.20, 0.20), (60, 512, 0.40, 0.10), 8, 0.0),
    ("build", (2_000, 16, 0.80, 0.70), (2_500, 16, 0.90, 0.50), 8, 0.10),
)

# Model; sequential reads and writes in MB/s, random reads and writes of 4 KiB per second, latencies in us; GB.
DRIVES: tuple[tuple[str, tuple[float, float, float, float, float, float], int], ...] = (
    ("Micron 7450 PRO", (6800, 1400, 530_000, 85_000, 80, 15), 960),
    ("Solidigm D7-P5520", (5300, 1900, 700_000, 114_000, 75, 15), 1920),
    ("Samsung PM1735", (8000, 3800, 1_450_000, 250_000, 90, 25), 3200),
)


def profiles() -> list[Profile]:
    """The shipped profiles."""
    return [_profile(*one) for one in WORKLOADS]


def drives() -> list[tuple[Drive, int]]:
    """A drive of each shipped data sheet, with its capacity in bytes."""
    names = ("seq_read_mbs", "seq_write_mbs", "rnd_read_iops", "rnd_write_iops", "read_latency_us", "write_latency_us")
    return [(Drive(model, model, dict(zip(names, sheet, strict=True))), size * 10**9) for model, sheet, size in DRIVES]


def _profile(
    name: str,
    reads: tuple[float, float, float, float],
    writes: tuple[float, float, float, float],
    depth: float,
    unaligned: float,
) -> Profile:
    features = {"depth": depth, "read_random_ratio": reads[3], "write_random_ratio": writes[3]}
    for op, (rate, kib, deviation, _) in (("read", reads), ("write", writes)):
        shares = {"aligned": 1.0, "unaligned": 0.0}
        if op == "write":
            shares = {"aligned": 1.0 - unaligned, "unaligned": unaligned}
        for side, share in shares.items():
            if not share:
                continue
            # An unaligned write is half a page longer than a whole number of pages.
            size = kib * KIB + (2048.0 if side == "unaligned" else 0.0)
            features |= {
                f"{op}_{side}_size_bytes_mean": size,
                f"{op}_{side}_rate_mean": rate * share,
                f"{op}_{side}_rate_std": rate * share * deviation,
                f"{op}_{side}_bandwidth_mean": rate * share * size,
                f"{op}_{side}_bandwidth_std": rate * share * size * deviation,
                f"{op}_{side}_unaligned_ratio": unaligned / 2,
            }
    return Profile(name, features)
