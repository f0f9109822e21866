# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often does a drift alarm fire on a device that does not change?

    .venv/bin/python bench/macro/drift_alarms.py [--reads N] [--window N] [--seeds N] [--json]

Requests arrive at random, at one rate and of one mix, on one modelled drive: stationary by construction. The tables
count checks, those that raised an alarm (by alarm), and new models that replaced the old one without need. With
``--workloads`` Table 1 workloads are run too. Their rates change, so an alarm there need not be false.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from linnet import Trace
from linnet._native import synth
from linnet.studies.drift import on_drive, study

DRIVES = {"consumer-deep": 400_000, "enterprise-wide": 60_000, "sata": 400_000}
"""Nanoseconds between two requests."""
ALARMS = ("inflection", "calibration", "base-rate")


def steady(name: str, gap_ns: int, reads: int, seed: int) -> Trace:
    """Poisson arrivals; three reads to a write; 4 to 64 KiB anywhere."""
    chance = np.random.default_rng(seed)
    count = reads * 4 // 3
    return Trace.from_columns(
        name,
        arrive_ns=np.cumsum(chance.exponential(gap_ns, count)).astype(np.uint64),
        op=(chance.random(count) < 0.25).astype(np.uint8),
        offset_bytes=(chance.integers(0, 1 << 20, count) * 4096).astype(np.uint64),
        size_bytes=(4096 << chance.integers(0, 5, count)).astype(np.uint32),
        device=np.zeros(count, np.uint32),
        latency_ns=np.full(count, np.iinfo(np.uint64).max, np.uint64),
    )


def count(trace: Trace, window: int, seed: int) -> dict[str, int]:
    """How many checks ran, how many of them were of calibration, how many raised each alarm, and how often the model
    was replaced."""
    found = study(trace, window=window, seed=seed)
    rang = [one for one in found["happenings"] if one["what"] == "alarm"]
    row = {name: found[name] for name in ("checks", "checks_of_calibration")}
    row |= {name: sum(name in one["alarms"] for one in rang) for name in ALARMS}
    return row | {"any": len(rang), "swapped": sum(one["what"] == "swapped" for one in found["happenings"])}


def main() -> None:
    """Print one row for each kind of load, seeds added up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=120_000)
    parser.add_argument("--window", type=int, default=6_000)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--workloads", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {}
    for preset, gap_ns in DRIVES.items():
        loads = {f"steady on {preset}": lambda seed, p=preset, g=gap_ns: steady(p, g, args.reads, seed)}
        for workload in filter(None, args.workloads.split(",")):
            loads[f"{workload} on {preset}"] = lambda seed, w=workload: synth(w, seconds=60, devices=1, seed=seed)[0]
        for name, make in loads.items():
            found = [count(on_drive(make(seed), preset, None, seed), args.window, seed) for seed in range(args.seeds)]
            rows[name] = {key: sum(one[key] for one in found) for key in found[0]}
            if not args.json:
                print(name, rows[name], flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
