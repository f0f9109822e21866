# SPDX-License-Identifier: MIT OR Apache-2.0
"""What readahead brings on an NFS mount: the default, fixed values and `linnet tune nfs`, over several delays.

    python tests/vm/nfs_figures.py OUT [--seconds S] [--cells fast:100,slow:1000] [--tuner "COMMAND ..."]

Runs inside a machine that `nfs.sh` has set up. Writes a JSON line for each run to OUT/nfs-figures.jsonl, and prints
tables at the end. Readers are limited to 48 MiB of memory and begin with cold caches, on the client and on the server.

scan: MB/s of reads in order. random: faults per second of single pages through a mapping. mixed: both at once, on two
files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nfs_mount import GROUP, LINNET, LOCK, READER, join_group, knob, make_group, rsize_kib, wait

POINT = Path("/run/vm/client")
FIXED_KIB = (8, 128, 1024, 8192)
CELLS = "fast:100,fast:1000,fast:5000,slow:100,slow:1000,slow:5000"
DEFAULT_KIB = 128
PAGE = 4096


def shell(line: str) -> None:
    """Run a function of nfs.sh."""
    subprocess.run(["bash", "-c", f"set -euo pipefail; . tests/vm/lib.sh; . tests/vm/nfs.sh; {line}"], check=True)


def start(how: str, file: str, seconds: float) -> subprocess.Popen[str]:
    """Start a reader inside the group."""

    words = [str(READER), how, str(POINT / file), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=join_group)  # noqa: PLW1509


def rates(workload: str, seconds: float) -> dict[str, float]:
    """Run a workload with cold caches: MB/s of the scan, faults per second of the random reader."""
    Path("/proc/sys/vm/drop_caches").write_text("3")
    running = {}
    if workload in ("scan", "mixed"):
        running["scan"] = start("seq", "data", seconds)
    if workload in ("random", "mixed"):
        running["random"] = start("random", "other", seconds)
    found = {}
    for name, process in running.items():
        out, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the {name} reader ended with status {process.returncode}")
        used, took = out.split()
        found[name] = int(used) / float(took) / (1e6 if name == "scan" else PAGE)
    return found


@contextlib.contextmanager
def tuned(command: list[str], log: Path) -> Iterator[None]:
    """The tuner on the mount, until the block ends."""
    LOCK.unlink(missing_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen([*command, str(POINT)], stdout=out, text=True)
    wait("the tuner", lambda: LOCK.exists() and LOCK.read_text().strip() == str(process.pid))
    time.sleep(1)
    try:
        yield
    finally:
        process.terminate()
        process.wait(300)


def cell(out: Path, command: list[str], disk: str, delay_us: int, seconds: float) -> list[dict[str, object]]:
    """Every workload under every setting, on one disk over one way."""
    rows: list[dict[str, object]] = []

    def note(setting: str, workload: str) -> None:
        row: dict[str, object] = {"disk": disk, "delay_us": delay_us, "setting": setting, "workload": workload}
        row |= {name: round(rate, 2) for name, rate in rates(workload, seconds).items()}
        rows.append(row)
        with (out / "nfs-figures.jsonl").open("a") as file:
            print(json.dumps(row), file=file)
        print(json.dumps(row), flush=True)

    workloads = ("scan", "random", "mixed")
    for kib in FIXED_KIB:
        knob(POINT).write_text(str(kib))
        for workload in workloads:
            note(f"{kib}", workload)
    knob(POINT).write_text(str(DEFAULT_KIB))
    with tuned(command, out / f"nfs-{disk}-{delay_us}.log"):
        for workload in workloads:
            note("tuned", workload)
    return rows


def read_sizes(out: Path, seconds: float) -> None:
    """What the read size changes, with little and with much readahead."""
    print("\n| read size, KiB | readahead, KiB | scan, MB/s | random, faults/s |\n|---|---|---|---|")
    for rsize in (4096, 65536, 262144):
        shell(f"nfs_mount fast rsize={rsize}")
        for kib in (8, 128, 2048):
            knob(POINT).write_text(str(kib))
            scan, random = rates("scan", seconds)["scan"], rates("random", seconds)["random"]
            row = {"rsize_kib": rsize_kib(POINT), "readahead_kib": kib, "scan": scan, "random": random}
            with (out / "nfs-rsize.jsonl").open("a") as file:
                print(json.dumps(row), file=file)
            print(f"| {rsize_kib(POINT)} | {kib} | {scan:.1f} | {random:.0f} |", flush=True)
        subprocess.run(["umount", str(POINT)], check=True)


def table(rows: list[dict[str, object]]) -> None:
    """One line for each disk, delay and figure."""
    head = ["disk", "round trip, ms", "figure", *(f"{kib} KiB" for kib in FIXED_KIB), "tuned"]
    head += ["tuned / default", "tuned / best fixed"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    settings = [*(f"{kib}" for kib in FIXED_KIB), "tuned"]
    for disk, delay in dict.fromkeys((row["disk"], row["delay_us"]) for row in rows):
        for workload, figure in (("scan", "scan"), ("random", "random"), ("mixed", "scan"), ("mixed", "random")):
            values = {
                str(row["setting"]): float(str(row[figure]))
                for row in rows
                if (row["disk"], row["delay_us"], row["workload"]) == (disk, delay, workload)
            }
            best = max(value for setting, value in values.items() if setting != "tuned")
            name = figure if workload != "mixed" else f"{figure} of mixed"
            unit, digits = ("MB/s", 1) if figure == "scan" else ("faults/s", 0)
            cells = [str(disk), f"{int(str(delay)) / 1000:g}", f"{name}, {unit}"]
            cells += [f"{values[setting]:.{digits}f}" for setting in settings]
            cells += [f"{values['tuned'] / values[str(DEFAULT_KIB)]:.2f}", f"{values['tuned'] / best:.2f}"]
            print("| " + " | ".join(cells) + " |")


def main() -> int:
    """All cells, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a run")
    parser.add_argument("--cells", default=CELLS, help="DISK:DELAY in microseconds, separated by commas")
    parser.add_argument("--tuner", default=f"{LINNET} tune nfs --json", help="the command, before the mount point")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    make_group()
    print(f"Linux {os.uname().release}, {given.seconds:g} s a run", flush=True)
    rows = []
    for disk, delay in (word.split(":") for word in given.cells.split(",")):
        shell(f"nfs_delay {delay}; nfs_mount {disk}")
        rows += cell(given.out, given.tuner.split(), disk, int(delay), given.seconds)
        subprocess.run(["umount", str(POINT)], check=True)
        table(rows[-len((*FIXED_KIB, 0)) * 3 :])
    print("\nAll:")
    table(rows)
    shell("nfs_delay 1000")
    read_sizes(given.out, given.seconds)
    subprocess.run(["umount", str(GROUP.parent)], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
