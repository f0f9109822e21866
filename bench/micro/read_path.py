# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files that one read passes under `linnet-best`, and the instructions that it runs in each.

    python bench/micro/read_path.py [virtual] [kernel]

Valgrind counts. In virtual time the reads are those of `crates/bench/examples/read_path.rs`; in the kernel those of
`make -C kernel/stub instructions`. A file counts if at least as many instructions as there are reads ran in its lines:
functions that the compiler put into others count where they were written. Needs valgrind, cargo and a C compiler.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL_READS = 1000
FILE = re.compile(r"(fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?$")
COST = re.compile(r"[+\-*]?\d* (\d+)$")


def instructions(profile: Path) -> Counter[str]:
    """Of a callgrind profile: instructions by the file in whose lines they are, those of callees not included."""
    names: dict[str, str] = {}
    found: Counter[str] = Counter()
    current, inclusive = "", False
    for line in profile.read_text().splitlines():
        if file := FILE.match(line):
            kind, number, name = file.groups()
            if name:
                names[number] = name
            if kind in ("fl", "fi", "fe"):
                current = number
        elif line.startswith("calls="):
            inclusive = True
        elif cost := COST.match(line):
            if not inclusive:
                found[current] += int(cost[1])
            inclusive = False
    return Counter({names.get(number, number): count for number, count in found.items()})


def run(words: list[str], *toggled: str) -> Counter[str]:
    """Runs a program under callgrind, which counts inside the functions `toggled`."""
    with tempfile.TemporaryDirectory() as place:
        profile = Path(place) / "profile"
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}",
             *(f"--toggle-collect={name}" for name in toggled), *words],
            check=True, capture_output=True, cwd=ROOT,
        )  # fmt: skip
        return instructions(profile)


def show(title: str, found: Counter[str], reads: int) -> None:
    """The files of this project, busiest first."""
    ours = {}
    for name, count in found.items():
        path = (ROOT / name).resolve()
        if (
            path.is_file()
            and path.is_relative_to(ROOT)
            and not path.is_relative_to(ROOT / "kernel/stub")
            and count >= reads
        ):
            ours[str(path.relative_to(ROOT))] = count
    headers = sum(name.endswith(".h") for name in ours)
    each = sum(ours.values()) / reads
    print(f"{title}: {len(ours) - headers} files and {headers} headers, {each:,.0f} instructions a read")
    for name, count in sorted(ours.items(), key=lambda one: -one[1]):
        print(f"  {count / reads:7.1f}  {name}")


def main(wanted: list[str]) -> int:
    """Counts both paths, or the one that is wanted."""
    if not wanted or "virtual" in wanted:
        cargo = ["cargo", "build", "--release", "-q", "-p", "linnet-bench", "--example", "read_path"]
        subprocess.run(cargo, check=True, cwd=ROOT)
        program = ROOT / "target/release/examples/read_path"
        reads = int(subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()[0])
        show("in virtual time", run([str(program)], "*measured*"), reads)
    if not wanted or "kernel" in wanted:
        subprocess.run(["make", "-s", "-C", "kernel/stub", "instructions"], check=True, capture_output=True, cwd=ROOT)
        out = ROOT / "build/stub"
        words = [str(out / "kernel/count"), "linnet-best", str(out / "models/linnos"), str(KERNEL_READS), "1"]
        show("in the kernel", run(words, "measured_map", "measured_end"), KERNEL_READS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
