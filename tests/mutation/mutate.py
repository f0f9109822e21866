# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes the C core in one place at a time and requires the checks to notice: ``make mutate``.

A mutant swaps an operator, moves a number by one, or drops a statement. It survives if all these pass: the Rust tests
of ``crates/core``, ``crates/array`` and ``crates/tune``, and the C checks of its unit, which are the golden vectors and
the device-mapper target in user space for what decides about an I/O, and others for the rest. The cheapest of them run
first, and of those that cost alike the ones that noticed most mutants of the file. A survivor is a finding unless
``argued.txt`` says why no check can tell it apart. Mutants are drawn by a seed, which is printed first. Exit status: 0
if every survivor is argued, 1 if not, 77 if the checks fail without a mutant.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import programs
from common import (
    CLEAN_SECONDS_MAX,
    ROOT,
    SECONDS_MIN,
    alone,
    argued,
    children_cpu_seconds,
    end_with_children,
    ends_well,
    numbered,
)
from linked import LONG_SECONDS, QUICK_SECONDS, CannotBuildError, Checks, Library
from reached import noting

# Units that decide what happens to an I/O: the default.
UNITS = [
    "choose",
    "decide",
    "hedge",
    "replica",
    "inflight",
    "feature",
    "incremental",
    "incremental_tables",
    "infer",
    "model",
    "envelope",
    "network",
    "trees",
]
# C checks of the others, by targets of core/Makefile.
CHECKS = {
    "ledger": "check-ledger",
    **dict.fromkeys(("forest", "forest_file", "place"), "check-place"),
    **dict.fromkeys(
        ("cart", "govern", "knob", "lanes", "normalise", "online", "reads", "ring", "small", "tree"), "check-tune"
    ),
    **dict.fromkeys(("pattern", "verdict"), "check-user check-debug check-tune"),
    **dict.fromkeys(("float", "loops", "loss", "quantise", "train"), "check-train"),
    "prune_vectors": "check-user check-debug",
}
# What is replaced, and by what; each match of each is a mutant.
SWAPS = [
    (r"(?<![<>=!-])<(?![<=])", ["<="]),
    (r"(?<![<>=!-])>(?![>=])", [">="]),
    (r"<=", ["<"]),
    (r"(?<!>)>=", [">"]),
    (r"==", ["!="]),
    (r"!=", ["=="]),
    (r"&&", ["||"]),
    (r"\|\|", ["&&"]),
    (r"(?<=[\w)\]] )\+(?= )", ["-"]),
    (r"(?<=[\w)\]] )-(?= )", ["+"]),
    (r"(?<=[\w)\]] )&(?= )", ["|"]),
    (r"(?<=[\w)\]] )\|(?= )", ["&"]),
    (r"\+\+", ["--"]),
    (r"!(?=[a-z(])", [""]),
    (r"(?<![\w.])\d+(?=U?\b)(?![\w.])", ["+1"]),
]
STATEMENT = re.compile(r"^\t+[a-z][\w>.\[\]()-]*( [-+|&]?=|\(|\+\+|--).*;$")
COMMENT = re.compile(r"/\*.*?\*/", re.S)


class Mutant(NamedTuple):
    """One changed place."""

    path: Path
    line: int
    what: str
    text: str


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file; of a header, those in the bodies of its inline functions."""
    text = path.read_text()
    comments = [m.span() for m in COMMENT.finditer(text)]
    start, body = 0, path.suffix == ".c"
    for number, line in enumerate(text.split("\n"), 1):
        end = start + len(line)
        if path.suffix == ".h" and line in ("{", "}"):
            body = line == "{"
        fixed = line.startswith(("#", "_Static_assert", "\tstatic const"))
        skipped = fixed or not body or any(a <= start < b for a, b in comments)
        code = line.split("/*")[0]
        if not skipped and code.strip():
            for pattern, results in SWAPS:
                for match in re.finditer(pattern, code):
                    for result in results:
                        new = str(int(match[0]) + 1) if result == "+1" else result
                        changed = line[: match.start()] + new + line[match.end() :]
                        what = f"{match[0]} -> {new or 'nothing'} in `{code.strip()}`"
                        yield Mutant(path, number, what, text[:start] + changed + text[end:])
            if STATEMENT.match(code):
                yield Mutant(path, number, f"dropped `{code.strip()}`", text[:start] + "\t;" + text[end:])
        start = end + 1


def checks_of(work: Path, unit: str, stub: bool) -> dict[str, list[str]]:
    """The commands of a unit's C checks in this copy, by name."""
    # Once as plainly as a kernel compiles it; once with sanitizers and this machine's instructions, whose code differs.
    plain, native = "-O1 -ffp-contract=off -w", "-march=native"
    # The loops of dense.c for other instructions are not those of a kernel; tests/conformance/dense.c checks them.
    debug = f"{plain} {'' if unit == 'dense' else native} -fsanitize=address,undefined -fno-sanitize-recover=all"
    checks = CHECKS.get(unit, "check-user check-debug").split()
    flags = [f"USER_FLAGS={plain}", f"DEBUG_FLAGS={debug}"]
    commands = {check: ["make", "-s", "-C", str(work / "core"), check, *flags] for check in checks}
    if stub and unit not in CHECKS:
        # The shortest of these.
        target = ["make", "-s", "-C", str(work / "kernel/stub"), "check", "INPUTS=4000", "DEBUG=-O1 -w"]
        commands = {"kernel/stub": target} | commands
    return commands


def noticing(work: Path, unit: str, stub: bool, seconds: float, cpu_seconds: int | None = None) -> str | None:
    """The first C check that does not pass in this copy; one that takes longer than `seconds` does not."""
    for name, command in checks_of(work, unit, stub).items():
        if not ends_well(command, seconds, cpu_seconds=cpu_seconds):
            return name
    return None


def copy_core(to: Path) -> None:
    """Copy what the checks of the core and of the device-mapper target in user space need."""
    for name in ("core", "kernel", "spec", "tests/conformance", "tests/vm"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("*.o", "*.ko"))


class Gate:
    """What came of the mutants so far."""

    def __init__(self, work: Path, stub: bool, rust: bool, quick: bool) -> None:
        """Compile the Rust tests and, in the copy, the core."""
        self.work, self.stub, self.quick, self.rust = work, stub, quick, None
        self.reasons = argued()
        self.noticed: dict[str, Counter[str]] = {}
        self.survivors = self.excused = 0
        self.limits: dict[str, tuple[float, int]] = {}
        if rust:
            self.library = Library(work / "core", work / "lib", programs.sources())
            self.rust = Checks(programs.checks(work / "lib"), self.library.programs)
            # The first run of each sets its limit.
            told = partial(noting, self.library, work / "noting")
            failing = self.rust.measure(work / "lib", told, CLEAN_SECONDS_MAX)
            if failing:
                raise CannotBuildError(f"{failing} fails")

    def limit(self, unit: str) -> tuple[float, int]:
        """Seconds for each C check of a unit, and of the processor for each process of one."""
        checks = CHECKS.get(unit, "module")
        if checks not in self.limits:
            begun, cpu_begun = time.monotonic(), children_cpu_seconds()
            failing = noticing(self.work, unit, self.stub, CLEAN_SECONDS_MAX)
            if failing:
                raise CannotBuildError(f"{failing} fails for {unit}")
            # Compilers and checks, which took this long in all.
            cpu_seconds = 10 + int(children_cpu_seconds() - cpu_begun)
            self.limits[checks] = max(SECONDS_MIN, 2 * (time.monotonic() - begun)), cpu_seconds
        return self.limits[checks]

    def notices(self, mutant: Mutant) -> str | None:
        """The check that notices the mutant, which is in the copy: the first by cost."""
        name, lib = mutant.path.name, self.work / "lib"
        if self.rust:
            units = self.library.of(name)
            if not self.library.make(units, SECONDS_MIN):
                return "compiler"
            most = QUICK_SECONDS if self.quick else LONG_SECONDS
            failing = self.rust.failing(name, units, lib, SECONDS_MIN, 0, most)
            if failing or self.quick:
                return failing
        failing = noticing(self.work, mutant.path.stem, self.stub, *self.limit(mutant.path.stem))
        if failing or not self.rust:
            return failing
        return self.rust.failing(name, units, lib, SECONDS_MIN, LONG_SECONDS, math.inf)

    def attempt(self, mutant: Mutant, told: bool) -> None:
        """Try one, and print it if it survives or is to be told of."""
        if not self.quick:
            self.limit(mutant.path.stem)
        target = self.work / "core" / mutant.path.name
        whole = target.read_text()
        target.write_text(mutant.text)
        check = self.notices(mutant)
        target.write_text(whole)
        if self.rust:
            self.library.stale |= self.library.of(mutant.path.name)
        self.noticed.setdefault(mutant.path.name, Counter())[check or "survived"] += 1
        place = f"core/{mutant.path.name}:{mutant.line}: {mutant.what}"
        if check is None:
            reason = self.reasons.get(f"core/{mutant.path.name}: {mutant.what}")
            print(f"survived: {place}" + (f" (argued: {reason})" if reason else ""), flush=True)
            self.excused += reason is not None
            self.survivors += 1
            self.noticed[mutant.path.name]["argued"] += reason is not None
        elif told:
            print(f"noticed by {check}: {place}", flush=True)

    def report(self, count: int) -> None:
        """Print the counts, also of a run that was interrupted."""
        by_check: Counter[str] = Counter()
        for file, those in sorted(self.noticed.items()):
            survived, excused = those.pop("survived", 0), those.pop("argued", 0)
            tried = those.total() + survived
            print(f"{file}: {those.total()} of {tried} noticed, {excused} of {survived} survivors argued")
            by_check += those
        print("noticed by: " + ", ".join(f"{n} {check}" for check, n in by_check.most_common()))
        tried = by_check.total() + self.survivors
        print(f"{by_check.total()} of {tried} were noticed, {self.excused} of {self.survivors} survivors are argued")
        if tried < count:
            print(f"{count - tried} were not tried")
        sys.stdout.flush()


def main() -> int:
    """Run the gate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("units", nargs="*", default=UNITS, help="units of the core, or files such as decide.h")
    parser.add_argument("--count", type=int, default=40, help="mutants to draw; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--at", metavar="UNIT[.h]:LINE", action="append", help="the mutants of this line; may be repeated"
    )
    parser.add_argument("--no-stub", action="store_true", help="without the device-mapper target in user space")
    parser.add_argument("--no-rust", action="store_true", help="without the Rust tests")
    parser.add_argument("--quick", action="store_true", help="only what needs no make and takes little time")
    wanted = parser.parse_args()
    end_with_children()
    every = []
    for unit in wanted.units:
        for file in sorted((ROOT / "core").glob(unit if "." in unit else f"{unit}.[ch]")):
            those = list(mutants(file))
            every += [m._replace(what=what) for m, what in zip(those, numbered(m.what for m in those), strict=True)]
    if wanted.at:
        every = [m for m in every if f"{m.path.name.removesuffix('.c')}:{m.line}" in wanted.at]
    count = len(every) if wanted.at else min(wanted.count or len(every), len(every))
    # All of them in the order of the units: the first that are named are the first to be known.
    drawn = every if count == len(every) else random.Random(wanted.seed).sample(every, count)
    print(f"seed {wanted.seed}: {count} of {len(every)} mutants of {' '.join(wanted.units)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="linnet-mutate-") as folder:
        work = Path(folder)
        copy_core(work)
        try:
            gate = Gate(work, not wanted.no_stub, not wanted.no_rust, wanted.quick)
            try:
                for number, mutant in enumerate(drawn, 1):
                    gate.attempt(mutant, told=wanted.at is not None)
                    if number % 50 == 0:
                        print(f"{number} of {count}", flush=True)
            finally:
                gate.report(count)
        except CannotBuildError as error:
            print(f"without a mutant: {error}", file=sys.stderr)
            return 77
    return int(gate.survivors > gate.excused)


if __name__ == "__main__":
    with alone():
        sys.exit(main())
