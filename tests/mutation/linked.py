# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Rust tests of ``crates/core`` and ``crates/array``, and C programs, on a changed C core.

They are compiled once, against the core as a shared library. A mutant needs the library of its own copy of the core and
no Rust compiler: a unit takes a fraction of a second, a header the units that include it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from common import ROOT, WORK, Used, copy_sources, ends_well, tests_pass

NAME = "linnet_core"
# As crates/core/build.rs, with less optimisation: mutants compile sooner, and the bits do not depend on it.
FLAGS = ["-std=c11", "-fPIC", "-O1", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-w"]
SETS = {
    "avx2": ["-mavx2"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"],
}
# Seconds of the processor: tests that take less share a process, and those that take more run after the C checks.
LITTLE, LONG_SECONDS = 0.05, 2.0
# A test that fails is known sooner, and the processor has others to serve.
ONE_THREAD = {"RUST_TEST_THREADS": "1"}
KINDS = {"module", "integer", "tune", "fpu", "float"}


class CannotBuildError(Exception):
    """The core or the tests do not compile without a mutant."""


class Library:
    """The core of one directory as a shared library."""

    def __init__(self, core: Path, to: Path) -> None:
        """Compile all of it; ``to`` is a directory for what is compiled."""
        self.core, self.to = core, to
        to.mkdir(parents=True, exist_ok=True)
        self.commands: dict[str, list[str]] = {}
        lines = (core / "UNITS").read_text().splitlines()
        for words in (line.split() for line in lines if line and not line.startswith("#")):
            name, kind, *symbol = words
            if kind not in KINDS:
                raise CannotBuildError(f"UNITS: {' '.join(words)}")
            self._add(core / f"{name}.c", name, [])
            # crates/core/build.rs has these on one architecture alone.
            for own, flags in SETS.items() if symbol and os.uname().machine == "x86_64" else ():
                self._add(core / f"{name}.c", f"{name}-{own}", [*flags, f"-D{symbol[0].upper()}={symbol[0]}_{own}"])
        self._add(ROOT / "crates/core/src/inline.c", "inline", [])
        self.reads = {name: self._reads(command) for name, command in self.commands.items()}
        self.stale = set(self.commands)
        """What belongs to another state of the sources."""
        if not self.make(set(), 600):
            raise CannotBuildError(str(core))

    def _add(self, source: Path, name: str, flags: list[str]) -> None:
        self.commands[name] = ["cc", *FLAGS, *flags, f"-I{self.core}", "-c", str(source), "-o", str(self._object(name))]

    def _object(self, name: str) -> Path:
        return self.to / f"{name}.o"

    def _reads(self, command: list[str]) -> set[str]:
        """The names of the files of the core that this command reads."""
        listed = [*command[: command.index("-c")], "-MM", command[command.index("-c") + 1]]
        told = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
        return {Path(word).name for word in told.split()}

    def of(self, file: str) -> set[str]:
        """What to compile again if this file of the core changes."""
        return {name for name, read in self.reads.items() if file in read}

    def make(self, names: set[str], seconds: float) -> bool:
        """Compile these and what is stale, and link; false if that fails."""
        names, self.stale = self.stale | names, set()
        if not all(ends_well(self.commands[name], seconds) for name in sorted(names)):
            return False
        objects = [str(self._object(name)) for name in self.commands]
        return bool(ends_well(["cc", "-shared", *objects, "-o", str(self.to / f"lib{NAME}.so")], seconds))


class Check(NamedTuple):
    """A command that a mutant may make fail."""

    name: str
    command: tuple[str, ...]
    home: Path
    """Where it runs."""


def rust_tests() -> list[Check]:
    """The tests of both crates, each by itself; they are compiled, unless nothing has changed since the last run."""
    tree, lib = WORK / "tree-core", WORK / "lib"
    copy_sources(tree)
    Library(tree / "core", lib)
    versions = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
    host = next(line.removeprefix("host: ") for line in versions if line.startswith("host: "))
    override = f"target.{host}.{NAME}.rustc-link"
    command = ["cargo", "test", "--quiet", "--locked", "-p", "linnet-core", "-p", "linnet-array", "--tests"]
    command += ["--config", f'{override}-lib=["dylib={NAME}"]', "--config", f'{override}-search=["native={lib}"]']
    command += ["--no-run", "--message-format=json"]
    own = os.environ | {"CARGO_TARGET_DIR": str(WORK / "target-core")}
    told = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=tree, env=own)
    if told.returncode:
        raise CannotBuildError("the tests of crates/core and crates/array")
    checks = []
    for message in map(json.loads, told.stdout.splitlines()):
        if program := message.get("executable"):
            crate = Path(message["manifest_path"]).parent
            lists = [program, "--list", "--format=terse"]
            own = os.environ | {"LD_LIBRARY_PATH": str(lib)}
            listed = subprocess.run(lists, check=True, capture_output=True, text=True, env=own).stdout.splitlines()
            for test in (line.removesuffix(": test") for line in listed if line.endswith(": test")):
                checks.append(Check(f"crates/{crate.name} {test}", (program, "--quiet", "--exact", test), crate))
    return checks


def together(checks: list[Check]) -> list[Check]:
    """The same tests with one command for each program."""
    programs: dict[str, list[Check]] = {}
    for check in checks:
        programs.setdefault(check.command[0], []).append(check)
    names = [[word for check in those for word in check.command[3:]] for those in programs.values()]
    return [
        Check(f"{those[0].name.split()[0]} ({len(those)} short)", (*those[0].command[:3], *tests), those[0].home)
        for those, tests in zip(programs.values(), names, strict=True)
    ]


class Checks:
    """Rust tests and C programs that run on a library, in the order of what a mutant that is noticed costs."""

    def __init__(self, programs: list[Check]) -> None:
        """The C programs are those of ``programs.py``."""
        self.tests, self.programs = rust_tests(), programs
        self.every: list[Check] = []
        self.used: Used = {}
        self.noticed: dict[str, Counter[str]] = {}

    def passes(self, check: Check, library: Path, seconds: float) -> bool | None:
        """Whether it passes on this library; None if it does not end in time."""
        return tests_pass(
            list(check.command), check.home, seconds, self.used, {"LD_LIBRARY_PATH": str(library), **ONE_THREAD}
        )

    def measure(self, library: Path, seconds: float) -> str | None:
        """The name of the first that fails of all; tests that take little run together from now on."""
        little = []
        for check in self.programs + self.tests:
            if not self.passes(check, library, seconds):
                return check.name
            if check in self.tests and self.used[check.command] < LITTLE:
                little.append(check)
        self.every = self.programs + [check for check in self.tests if check not in little]
        for group in together(little):
            if not self.passes(group, library, seconds):
                return group.name
            self.every.append(group)
        return None

    def failing(self, file: str, library: Path, seconds: float, long: bool) -> str | None:
        """The name of the first check that a mutant of this file fails; of the long ones or of the others.

        What noticed others of the file comes first, and what is cheap.
        """
        noticed = self.noticed.setdefault(file, Counter())
        those = [check for check in self.every if (self.used[check.command] >= LONG_SECONDS) == long]
        for check in sorted(those, key=lambda check: self.used[check.command] / (1 + noticed[check.name])):
            passed = self.passes(check, library, seconds)
            if not passed:
                noticed[check.name] += 1
                return check.name if passed is False else f"{check.name} (its time)"
        return None
