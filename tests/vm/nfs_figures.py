# SPDX-License-Identifier: MIT OR Apache-2.0
"""What readahead brings on an NFS mount: the default, fixed values and `linnet tune nfs`, over several delays.

    python tests/vm/nfs_figures.py OUT [--seconds S] [--cells fast:100,slow:1000] [--settings 128,8192,tuned]
        [--workloads scan,random,mixed] [--rsize] [--tuner "COMMAND ..."]

Runs inside a machine that `nfs.sh` has set up. Writes a JSON line for each run to OUT/nfs-figures.jsonl, and prints
tables at the end. Readers are limited to 48 MiB of memory and begin with cold caches, on the client and on the server.

A setting is a value in KiB, `tuned`, or two values: 8+2048 gives the random reader's file 8 KiB and the scan's 2048.

scan: MB/s of reads in order. random: faults per second of single pages through a mapping. mixed: both at once, on two
files. Each for the whole run, and for its second half, in which a tuner has decided. Beside them what the client asked
of the server in the whole run: READ calls, and bytes received for each byte that the readers used.
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
SETTINGS = "8,128,1024,8192,tuned"
WORKLOADS = "scan,random,mixed"
CELLS = "fast:100,fast:1000,fast:5000,slow:100,slow:1000,slow:5000"
DEFAULT_KIB = 128
PAGE = 4096


def shell(line: str) -> None:
    """Run a function of nfs.sh."""
    subprocess.run(["bash", "-c", f"set -euo pipefail; . tests/vm/lib.sh; . tests/vm/nfs.sh; {line}"], check=True)


def start(how: str, file: str, seconds: float, kib: int | None) -> subprocess.Popen[str]:
    """Start a reader inside the group, on a file that it opens under a value of its own."""
    if kib is not None:
        knob(POINT).write_text(str(kib))
    words = [str(READER), how, str(POINT / file), str(seconds)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=join_group)  # noqa: PLW1509
    if kib is not None:
        wait(f"{file} to be opened", lambda: has_open(process.pid, POINT / file))
    return process


def has_open(process: int, file: Path) -> bool:
    """Whether a process has a file open."""
    return any(Path(f"/proc/{process}/fd/{fd}").readlink() == file for fd in os.listdir(f"/proc/{process}/fd"))


def received() -> tuple[int, int]:
    """READ calls of the mount so far, and the bytes that they brought."""
    lines = Path("/proc/self/mountstats").read_text().split(f" mounted on {POINT} ")[-1].splitlines()
    words = [line.split() for line in lines]
    calls = sum(int(found[1]) for found in words if found and found[0] in ("READ:", "READ_PLUS:"))
    brought = next(int(found[5]) for found in words if found and found[0] == "bytes:")  # read from the server
    return calls, brought


def rates(workload: str, seconds: float, apart: tuple[int, int] | None = None) -> dict[str, float]:
    """Run a workload with cold caches: MB/s of the scan, faults a second of the random reader, what was asked for.

    apart: KiB of the random reader and of the scan; without it both open their files under what the mount has.
    """
    random_kib, scan_kib = apart or (None, None)
    Path("/proc/sys/vm/drop_caches").write_text("3")
    calls, brought = received()
    running = {}
    if workload in ("scan", "mixed"):
        running["scan"] = start("seq", "data", seconds, scan_kib)
    if workload in ("random", "mixed"):
        running["random"] = start("random", "other", seconds, random_kib)
    found = {}
    asked = 0.0
    for name, process in running.items():
        out, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the {name} reader ended with status {process.returncode}")
        used, took, later, rest = (float(word) for word in out.split())
        unit = 1e6 if name == "scan" else PAGE
        found[name] = used / took / unit
        found[f"{name}_later"] = later / rest / unit if rest else 0.0
        asked += used
    after = received()
    return found | {"calls": after[0] - calls, "bytes_each": (after[1] - brought) / asked if asked else 0.0}


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
        if process.poll() is not None:
            raise RuntimeError(f"the tuner ended with status {process.returncode} before its readers did")
    finally:
        process.terminate()
        process.wait(300)


def cell(given: argparse.Namespace, disk: str, delay_us: int) -> list[dict[str, object]]:
    """Every workload under every setting, on one disk over one way."""
    rows: list[dict[str, object]] = []

    def note(setting: str, apart: tuple[int, int] | None = None) -> None:
        for workload in given.workloads.split(","):
            row: dict[str, object] = {"disk": disk, "delay_us": delay_us, "setting": setting, "workload": workload}
            found = rates(workload, given.seconds, apart)
            row |= {name: round(rate, 2) for name, rate in found.items()}
            rows.append(row)
            with (given.out / "nfs-figures.jsonl").open("a") as file:
                print(json.dumps(row), file=file)
            print(json.dumps(row), flush=True)

    for setting in given.settings.split(","):
        if setting == "tuned":
            knob(POINT).write_text(str(DEFAULT_KIB))
            with tuned(given.tuner.split(), given.out / f"nfs-{disk}-{delay_us}.log"):
                note(setting)
        elif "+" in setting:
            random_kib, scan_kib = (int(word) for word in setting.split("+"))
            note(setting, (random_kib, scan_kib))
        else:
            knob(POINT).write_text(setting)
            note(setting)
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
    """One line for each disk, delay and figure; the whole run, then its second half."""
    settings = list(dict.fromkeys(str(row["setting"]) for row in rows))
    fixed = [setting for setting in settings if setting != "tuned"]
    head = ["disk", "round trip, ms", "figure", *(f"{kib} KiB" for kib in fixed)]
    if "tuned" in settings:
        head += ["tuned", "tuned / default", "tuned / best fixed", "second half / default", "second half / best fixed"]
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for disk, delay in dict.fromkeys((row["disk"], row["delay_us"]) for row in rows):
        for workload, figure in (("scan", "scan"), ("random", "random"), ("mixed", "scan"), ("mixed", "random")):
            here = [row for row in rows if (row["disk"], row["delay_us"], row["workload"]) == (disk, delay, workload)]
            if not here:
                continue
            values = {str(row["setting"]): float(str(row[figure])) for row in here}
            later = {str(row["setting"]): float(str(row[f"{figure}_later"])) for row in here}
            name = figure if workload != "mixed" else f"{figure} of mixed"
            unit, digits = ("MB/s", 1) if figure == "scan" else ("faults/s", 0)
            cells = [str(disk), f"{int(str(delay)) / 1000:g}", f"{name}, {unit}"]
            cells += [f"{values[setting]:.{digits}f}" for setting in settings]
            if "tuned" in settings:
                cells += [ratio(rates, against) for rates in (values, later) for against in ([str(DEFAULT_KIB)], fixed)]
            print("| " + " | ".join(cells) + " |")


def ratio(values: dict[str, float], against: list[str]) -> str:
    """What the tuner reached, as a share of the best of some settings."""
    best = max((values[setting] for setting in against if setting in values), default=0.0)
    return f"{values['tuned'] / best:.2f}" if best else "-"


def main() -> int:
    """All cells, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a run")
    parser.add_argument("--cells", default=CELLS, help="DISK:DELAY in microseconds, separated by commas")
    parser.add_argument("--settings", default=SETTINGS, help="KiB, KiB+KiB and `tuned`, separated by commas")
    parser.add_argument("--workloads", default=WORKLOADS, help="separated by commas")
    parser.add_argument("--rsize", action="store_true", help="also what the read size changes")
    parser.add_argument("--tuner", default=f"{LINNET} tune nfs --json", help="the command, before the mount point")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    make_group()
    print(f"Linux {os.uname().release}, {given.seconds:g} s a run", flush=True)
    rows = []
    for disk, delay in (word.split(":") for word in given.cells.split(",")):
        shell(f"nfs_delay {delay}; nfs_mount {disk}")
        found = cell(given, disk, int(delay))
        subprocess.run(["umount", str(POINT)], check=True)
        table(found)
        rows += found
    print("\nAll:")
    table(rows)
    if given.rsize:
        shell("nfs_delay 1000")
        read_sizes(given.out, given.seconds)
    subprocess.run(["umount", str(GROUP.parent)], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
