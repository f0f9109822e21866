# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measured tables that a test writes itself: drives whose latency follows a law that the test knows."""

import math
from pathlib import Path

import numpy as np
from linnet.place.observations import Observations
from linnet.place.words import Profile
from linnet.tables import NEEDED, THREAD_QUANTILES

DRIVES = {
    # name: model, sheet's random writes per second, true capacity, latency of an idle drive in us, load of its hump.
    "a0": ("A", 80_000, 90_000, 200.0, None),
    "b0": ("B", 110_000, 115_000, 250.0, None),
    "c0": ("C", 300_000, 310_000, 180.0, None),
    "d0": ("D", 90_000, 70_000, 220.0, 50_000),
}
LOADS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 150, 200, 500)
WRITERS = 6


def of_drive(rows: Observations, drive: str, *thousands: int) -> Observations:
    """Rows of a drive at these loads, in thousands of I/Os per second; without any, at all."""
    at = np.isin(rows.inputs["load"], np.array(thousands) * 1000.0) | (not thousands)
    return rows.take((rows.labels["drive"] == drive) & at)


def read_p99_us(name: str, load: float) -> float:
    """The law: rises with the load, has a hump on one drive, and no longer depends on it beyond capacity."""
    _, _, capacity, idle, hump = DRIVES[name]
    if load >= capacity:
        return idle * 12 if hump is None else idle * 2.2
    bump = 3.0 * math.exp(-(((load - hump) / 12_000) ** 2)) if hump else 0.0
    return idle * math.exp(0.5 * load / capacity + bump)


def write_ssdiq(folder: Path, drives: tuple[str, ...] = tuple(DRIVES), noise: float = 0.01, repeats: int = 2) -> None:
    """Tables of the columns of SSD-iq, for these drives."""
    chance = np.random.default_rng(7)
    folder.mkdir(exist_ok=True)
    lines = []
    for name in drives:
        model, _, capacity, _, _ = DRIVES[name]
        for load in LOADS:
            for repeat in range(repeats):
                for minute in (60, 120, 180):
                    offered = load * 1000.0
                    writes = [5000.0, *([0.99 * (offered - 5000) / WRITERS] * WRITERS)]
                    reads = [5000.0, *([0.01 * (offered - 5000) / WRITERS] * WRITERS)]
                    share = min(1.0, capacity / sum(writes))
                    p99 = read_p99_us(name, sum(writes)) * math.exp(noise * chance.standard_normal())
                    for tenant in range(WRITERS + 1):
                        row = {
                            "drive": name,
                            "model": model,
                            "rate_iops": offered,
                            "repeat": repeat,
                            "run": f"{load}-{repeat}",
                            "tenant": tenant,
                            "t_end_s": minute,
                            "bs_bytes": 4096,
                            "poisson": int(tenant > 0),
                            "off_read_iops": reads[tenant],
                            "off_write_iops": writes[tenant],
                            "read_iops": reads[tenant],
                            "write_iops": writes[tenant] * (share if tenant else 1.0),
                        }
                        for op, scale in (("read", 1.0), ("write", 0.2)):
                            for rank, quantile in enumerate(THREAD_QUANTILES):
                                row[f"{op}_{quantile}_us"] = p99 * scale * (0.4 + 0.12 * rank)
                            row[f"{op}_p99_us"] = p99 * scale
                        lines.append(row)
    write_csv(folder / "ssdiq-threads-1.csv", lines, NEEDED["ssdiq-threads"])
    sheets = [
        {
            "drive": name,
            "model": DRIVES[name][0],
            "capacity_gb": 960,
            "pcie_gen": 4,
            "seq_read_mbs": 6000,
            "seq_write_mbs": 2000,
            "rnd_read_iops": 800_000,
            "rnd_write_iops": DRIVES[name][1],
            "dwpd": "",
        }
        for name in drives
    ]
    write_csv(folder / "ssdiq-drives.csv", sheets, NEEDED["ssdiq-drives"])


def write_icpe(folder: Path) -> None:
    """Closed-loop neighbours: throughput saturates at four of them, and p99 follows the response-time law."""
    folder.mkdir(exist_ok=True)
    lines = []
    for mix, kib, op, service in (("4K", 4, "read", 1.0), ("64K", 64, "read", 4.0), ("4Kw", 4, "write", 2.0)):
        for scheduler, factor in (("none", 1.0), ("kyber", 0.8)):
            for count in (0, 1, 2, 4, 8, 16, 32):
                throughput = min(count, 4) * 1e5 / service
                queued = max(1.0, count / 4)
                p99 = 90.0 * (1 if not count else 1.5 * service * factor * queued)
                shared = {
                    "mix": mix,
                    "run": f"{mix}/{scheduler}/{count}",
                    "scheduler": scheduler,
                    "neighbours": count,
                    "n_devices": 8,
                }
                own = {"tenant": 0, "op": "read", "bs_kib": 4, "iodepth": 1, "iops": 1e6 / p99}
                lines.append(shared | own | {"clat_p50_us": p99 / 2, "clat_p99_us": p99, "clat_p99_9_us": p99 * 1.5})
                for tenant in range(1, count + 1):
                    beside = {"tenant": tenant, "op": op, "bs_kib": kib, "iodepth": 128, "iops": throughput / count}
                    lines.append(shared | beside | {"clat_p50_us": 1, "clat_p99_us": 1, "clat_p99_9_us": 1})
    write_csv(folder / "icpe-tenants.csv", lines, NEEDED["icpe-tenants"])


def write_iocost(folder: Path, **fields: object) -> None:
    """Four levels of one drive; ``fields`` are of the second."""
    folder.mkdir(exist_ok=True)
    lines = []
    for level in range(4):
        row: dict[str, object] = dict.fromkeys(NEEDED["iocost-qos"], 1000.0)
        row |= {"model": "M", "family": "F", "result": "r", "run": f"r/{level}", "prot_ok": 1, "throttle_off": 0}
        row |= {"vrate_max": 25.0 * (level + 1), "lat_imp_mean": 0.5}
        lines.append(row | fields if level == 1 else row)
    write_csv(folder / "iocost-qos.csv", lines, NEEDED["iocost-qos"])


def write_csv(path: Path, rows: list[dict], columns: tuple[str, ...]) -> None:
    """A CSV file with these columns."""
    text = [",".join(columns), *(",".join(str(row[name]) for name in columns) for row in rows)]
    path.write_text("\n".join(text) + "\n")


def tenant(name: str, reads: float, writes: float) -> Profile:
    features = {"depth": 1.0}
    for op, rate in (("read", reads), ("write", writes)):
        if rate:
            features |= {f"{op}_aligned_size_bytes_mean": 4096.0, f"{op}_aligned_rate_mean": rate}
            features |= {f"{op}_aligned_bandwidth_mean": rate * 4096.0}
    return Profile(name, features)


VICTIM = tenant("victim", 5000.0, 5000.0)
