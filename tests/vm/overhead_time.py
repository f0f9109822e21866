# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print the results of `overhead.sh time`: `overhead_time.py DIR`, in microseconds of the emulated machine.

For each drive and device, the table has the median over the rounds of fio's mean clat and of its p50, the spread of the
mean between rounds (5th to 95th percentile), and the difference of the p50 from dm-linear's in the same round: its
median, and a 95 % interval of that by bootstrap over rounds. A device whose interval contains 0 is within noise.
`again` is a second dm-linear, and should be within noise.
"""

import argparse
import json
import random
from pathlib import Path
from statistics import median

NAMES = {
    "nullb0": "null_blk itself",
    "linear": "dm-linear",
    "again": "dm-linear again",
    "one": "one replica, `baseline`",
    "queue": "three, `shortest-queue`",
    "ewma": "three, `ewma-inflight`",
    "best": "three, `linnet-best`",
    "linnos": "three, `linnos`",
}
SAMPLES = 10_000


def quantile(values: list[float], share: float) -> float:
    """The quantile by nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    chance = random.Random(1)
    medians = [median(chance.choices(values, k=len(values))) for _ in range(SAMPLES)]
    return quantile(medians, 0.025), quantile(medians, 0.975)


def load(directory: Path, drive: str) -> dict[str, list[tuple[float, float]]]:
    """Mean and p50 of each round of each device, without the first round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    for job in json.loads((directory / f"{drive}.json").read_text())["jobs"]:
        number, name = job["jobname"].split(".")
        if number != "0":
            clat = job["read"]["clat_ns"]
            found[name].append((clat["mean"] / 1000, clat["percentile"]["50.000000"] / 1000))
    return found


def table(drive: str, found: dict[str, list[tuple[float, float]]]) -> None:
    """Print the table of one drive."""
    means = {name: [mean for mean, _ in rounds] for name, rounds in found.items()}
    print(f"{drive}, {len(means['linear'])} rounds:\n")
    print("| read of | mean | p50 | rounds' means | p50 more than dm-linear | 95 % of it | |")
    print("|---|---|---|---|---|---|---|")
    for name, title in NAMES.items():
        spread = f"{quantile(means[name], 0.05):.1f}-{quantile(means[name], 0.95):.1f}"
        cells = [title, f"{median(means[name]):.1f}", f"{median(p50 for _, p50 in found[name]):.1f}", spread]
        if name == "linear":
            cells += ["-", "-", ""]
        else:
            more = [own[1] - base[1] for own, base in zip(found[name], found["linear"], strict=True)]
            low, high = interval(more)
            within = "within noise" if low <= 0 <= high else "beyond noise"
            cells += [f"{median(more):+.2f}", f"{low:+.2f} to {high:+.2f}", within]
        print("| " + " | ".join(cells) + " |")
    print()


def main() -> int:
    """Print a table for each drive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="where `overhead.sh time` has left its rounds")
    args = parser.parse_args()
    drives = [name for name in ("at-once", "10us", "100us") if (args.directory / f"{name}.json").exists()]
    for drive in drives:
        table(drive, load(args.directory, drive))
    if not drives:
        parser.error(f"no rounds in {args.directory}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
