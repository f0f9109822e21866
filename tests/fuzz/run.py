# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the fuzz targets, each for a time, and compares the lines that they reach with ``floors.txt``: ``make fuzz``.

The targets are compiled with counters: Rust's read by the llvm-cov of its toolchain, the C core's by gcov. ``dm`` is
the device-mapper target in user space (kernel/stub/fuzz.c); the others are those of ``src/main.rs``. Exit status: 0
nothing found, 1 something found or a floor missed, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target/fuzz"
PROGRAM = TARGET / "release/linnet-fuzz"
STUB = ROOT / "build/stub"
TARGETS = ["traces", "models", "knobs", "forests", "params", "snapshots", "jobs", "nbd", "nbd-client", "dm"]
CASES_MIN = 200
"""A run of fewer cases says nothing about what a target reaches."""
Lines = dict[str, dict[int, bool]]
"""Of each file, below the root: its lines that hold code, and whether they were reached."""


def build(wanted: list[str]) -> None:
    """Compile what is run."""
    if "dm" in wanted:
        subprocess.run(["make", "-s", "-C", str(ROOT / "kernel/stub"), "fuzz-build"], check=True)
    if wanted == ["dm"]:
        return
    own = {
        "RUSTFLAGS": "-C instrument-coverage -C link-arg=--coverage",
        "CFLAGS": "--coverage",
        # What runs while it compiles would leave its counters in the sources.
        "LLVM_PROFILE_FILE": str(TARGET / "build.profraw"),
    }
    manifest = str(ROOT / "tests/fuzz/Cargo.toml")
    command = ["cargo", "build", "--release", "--quiet", "--manifest-path", manifest, "--target-dir", str(TARGET)]
    subprocess.run(command, check=True, env=os.environ | own)


def tool(name: str) -> str:
    """A tool of the Rust toolchain (component llvm-tools)."""
    ask = ["rustc", "--print", "target-libdir"]
    place = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()).parent / "bin" / name
    if not place.exists():
        sys.exit(f"{name} is not there: rustup component add llvm-tools")
    return str(place)


def merge(into: Lines, name: str, line: int, reached: bool) -> None:
    """Note a line; it may be in several objects."""
    lines = into.setdefault(name, {})
    lines[line] = lines.get(line, False) or reached


def of_rust(profile: Path, into: Lines) -> None:
    """Lines of Rust, from the counters of one run."""
    data = profile.with_suffix(".profdata")
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", str(profile), "-o", str(data)], check=True)
    command = [tool("llvm-cov"), "export", "--format=lcov", f"--instr-profile={data}", str(PROGRAM)]
    name = ""
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        kind, _, rest = line.partition(":")
        if kind == "SF":
            path = Path(rest)
            name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        elif kind == "DA" and name:
            number, count = rest.split(",")[:2]
            merge(into, name, int(number), int(count) > 0)


def of_c(counters: Path, into: Lines) -> None:
    """Lines of C, from counters that were written below a folder of their own (GCOV_PREFIX)."""
    for found in sorted(counters.rglob("*.gcda")):
        notes = Path("/", found.relative_to(counters)).with_suffix(".gcno")
        if not notes.exists():
            continue
        shutil.copy(notes, found.with_suffix(".gcno"))
        run = subprocess.run(["gcov", "--json-format", "--stdout", str(found)], capture_output=True, check=False)
        for text in run.stdout.splitlines():
            whole = json.loads(text)
            for file in whole["files"]:
                path = Path(os.path.normpath(Path(whole["current_working_directory"], file["file"])))
                if path.is_relative_to(ROOT):
                    for line in file["lines"]:
                        merge(into, str(path.relative_to(ROOT)), line["line_number"], line["count"] > 0)


def run(name: str, seconds: int, seed: int) -> tuple[bool, int, Lines]:
    """Run a target: whether it found nothing, its cases, and the lines that it reached."""
    reached: Lines = {}
    with tempfile.TemporaryDirectory(prefix="linnet-fuzz-") as folder:
        counters, profile = Path(folder, "c"), Path(folder, "rust.profraw")
        # The counters of the run alone: those of other runs must not be added to.
        # Copies of a unit for other instruction sets share a file of counters, of which libgcov would complain.
        own = {
            "GCOV_PREFIX": str(counters),
            "GCOV_ERROR_FILE": os.devnull,
            "LLVM_PROFILE_FILE": str(profile),
            "MODELS": str(STUB / "models"),
        }
        if name == "dm":
            command = [str(STUB / "cover/check"), "fuzz", str(seed), str(seconds)]
        else:
            command = [str(PROGRAM), "--target", name, "--seconds", str(seconds), "--seed", str(seed)]
        done = subprocess.run(command, env=os.environ | own, check=False, stdout=subprocess.PIPE, text=True)
        # One piece: other targets may print at the same time.
        sys.stdout.write(done.stdout)
        sys.stdout.flush()
        counted = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if line.startswith(f"{name}: ")]
        if not counted:
            return False, 0, reached
        if profile.exists():
            of_rust(profile, reached)
        of_c(counters, reached)
    return done.returncode == 0, int(counted[0].split()[0]), reached


def floors() -> dict[str, dict[str, int]]:
    """The floor of each file, by target."""
    found: dict[str, dict[str, int]] = {}
    for line in (ROOT / "tests/fuzz/floors.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            target, file, percent = line.split()
            found.setdefault(target, {})[file] = int(percent)
    return found


def judge(name: str, cases: int, reached: Lines, wanted: dict[str, int]) -> bool:
    """Print what a run reached of its files; false if one is below its floor, or was not reached at all."""
    good = True
    for file, floor in wanted.items():
        lines = reached.get(file, {})
        percent = 100 * sum(lines.values()) / len(lines) if lines else 0.0
        missed = percent < floor or percent == 0
        enough = cases >= CASES_MIN
        word = ("below its floor" if enough else "too few cases to judge") if missed else "floor"
        sys.stdout.write(f"{name}: {file}: {percent:.0f} % of {len(lines)} lines, {word} {floor} %\n")
        good &= not (missed and enough)
    return good


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("targets", nargs="*", help=f"of {' '.join(TARGETS)}; all of them by default")
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--hours", type=float, help="of the whole run, shared by the targets; instead of --seconds")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="print what is reached of every file, for floors.txt")
    wanted = parser.parse_args()
    targets = wanted.targets or TARGETS
    if unknown := sorted(set(targets) - set(TARGETS)):
        parser.error(f"{unknown[0]}: no such target")
    jobs = min(max(wanted.jobs, 1), len(targets))
    seconds = wanted.seconds
    if wanted.hours is not None:
        seconds = max(1, int(wanted.hours * 3600 * jobs / len(targets)))
    build(targets)
    least, good, total, begun = floors(), True, 0, time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        for name, (fine, cases, reached) in zip(
            targets, pool.map(lambda name: run(name, seconds, wanted.seed), targets), strict=True
        ):
            good &= fine
            total += cases
            every = dict.fromkeys(sorted(file for file, lines in reached.items() if any(lines.values())), 0)
            good &= judge(name, cases, reached, every if wanted.all else least.get(name, {}))
    print(f"{total} cases in all, {seconds} s of each target, {(time.monotonic() - begun) / 60:.1f} minutes")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
