# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Rust tests of ``crates/core``, ``crates/array`` and ``crates/tune``, and C programs, on a changed C core.

They are compiled once, against the core as a shared library. A mutant needs the library of its own copy of the core and
no Rust compiler: a unit takes a fraction of a second, a header the units that include it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from common import ROOT, WORK, Used, copy_sources, digest, ends_well, tests_pass

NAME = "linnet_core"
# As crates/core/build.rs, with less optimisation: mutants compile sooner, and the bits do not depend on it.
FLAGS = ["-std=c11", "-fPIC", "-O1", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-w"]
SETS = {
    "avx2": ["-mavx2"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"],
}
# Seconds of the processor: tests that take less share a process, and those that take more run after the C checks.
LITTLE, QUICK_SECONDS, LONG_SECONDS = 0.05, 1.0, 2.0
# A test that fails is known sooner, and the processor has others to serve.
ONE_THREAD = {"RUST_TEST_THREADS": "1"}
TOLD = "LINNET_REACHED"
"""The file to which a process appends the names of the units that it reaches."""
CRATES = ["linnet-core", "linnet-array", "linnet-tune"]
KINDS = {"module", "integer", "tune", "fpu", "float"}


class CannotBuildError(Exception):
    """The core or the tests do not compile without a mutant."""


class Library:
    """The core of one directory as a shared library, and C programs that use it."""

    def __init__(self, core: Path, to: Path, programs: Mapping[str, list[Path]]) -> None:
        """Compile all of it; ``to`` is a directory for what is compiled. Programs are names with their sources."""
        self.core, self.to, self.file = core, to, to / f"lib{NAME}.so"
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
        self.linked = list(self.commands)
        self.programs: dict[str, list[str]] = {}
        for program, sources in programs.items():
            self.programs[program] = [f"{program}-{source.stem}" for source in sources]
            for source in sources:
                self._add(source, f"{program}-{source.stem}", [])
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
            # What comes after the one that failed is still of another state.
            self.stale = names
            return False
        links = [["cc", "-shared", *self._objects(self.linked), "-o", str(self.file)]]
        for program, parts in self.programs.items():
            if not names.isdisjoint(parts):
                libraries = [f"-L{self.to}", f"-l{NAME}", "-lm"]
                links.append(["cc", *self._objects(parts), "-o", str(self.to / program), *libraries])
        return all(ends_well(link, seconds) for link in links)

    def _objects(self, names: list[str]) -> list[str]:
        return [str(self._object(name)) for name in names]


class Check(NamedTuple):
    """A command that a mutant may make fail."""

    name: str
    command: tuple[str, ...]
    home: Path
    """Where it runs."""

    def key(self) -> str:
        """The command, without directories: those of the programs change."""
        return " ".join(Path(word).name for word in self.command)


def rust_tests() -> list[Check]:
    """The tests of these crates, each by itself; they are compiled, unless nothing has changed since the last run."""
    tree, lib = WORK / "tree-core", WORK / "lib"
    copy_sources(tree)
    built, key = lib / "built", digest(tree / "core")
    if not built.exists() or built.read_text() != key:
        Library(tree / "core", lib, {})
        built.write_text(key)
    versions = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
    host = next(line.removeprefix("host: ") for line in versions if line.startswith("host: "))
    override = f"target.{host}.{NAME}.rustc-link"
    command = ["cargo", "test", "--quiet", "--locked", *(f"--package={name}" for name in CRATES), "--tests"]
    command += ["--config", f'{override}-lib=["dylib={NAME}"]', "--config", f'{override}-search=["native={lib}"]']
    command += ["--no-run", "--message-format=json"]
    own = os.environ | {"CARGO_TARGET_DIR": str(WORK / "target-core")}
    told = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=tree, env=own)
    if told.returncode:
        raise CannotBuildError("the tests of " + ", ".join(CRATES))
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


def together(checks: list[Check]) -> Check:
    """The same tests, which are those of one program, with one command."""
    first = checks[0]
    name = first.name if len(checks) == 1 else f"{first.name} and {len(checks) - 1} more"
    return Check(name, (*first.command[:3], *(test for check in checks for test in check.command[3:])), first.home)


class Checks:
    """Rust tests and C programs that run on a library, in the order of what a mutant that is noticed costs."""

    def __init__(self, programs: list[Check], parts: Mapping[str, list[str]]) -> None:
        """The C programs are those of ``programs.py``; ``parts`` are the units of each, as in ``Library``."""
        self.tests, self.programs, self.parts = rust_tests(), programs, parts
        self.every: list[Check] = []
        self.used: Used = {}
        self.reached: dict[Check, set[str]] = {}
        self.noticed: dict[str, Counter[str]] = {}

    def passes(self, check: Check, lib: Path, seconds: float, own: Mapping[str, str] = {}) -> bool | None:
        """Whether it passes on the library of this directory; None if it does not end in time."""
        own = {"LD_LIBRARY_PATH": str(lib), **ONE_THREAD, **own}
        return tests_pass(list(check.command), check.home, seconds, self.used, own)

    def measure(self, lib: Path, noting: Callable[[], Path], seconds: float) -> str | None:
        """The name of the first that fails of all; tests that take little run together from now on.

        ``noting`` makes a library that tells which units are reached (``reached.py``). What was measured stays until a
        source changes.
        """
        kept, key = WORK / "measured.json", digest(WORK / "tree-core", ROOT / "tests/conformance") + " ".join(CRATES)
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("key") != key:
            known, telling = {"key": key}, noting()
            for check in self.programs + self.tests:
                if not self.passes(check, lib, seconds):
                    return check.name
                used = self.used.pop(check.command)
                # The long ones would take far longer; they are taken to reach all.
                reached = None if used > LONG_SECONDS / 2 else self.reaches(check, telling, seconds)
                known[check.key()] = [used, reached]
            kept.write_text(json.dumps(known))
        little: dict[tuple[str, frozenset[str]], list[Check]] = {}
        for check in self.programs + self.tests:
            self.used[check.command], reached = known[check.key()]
            if reached is not None:
                self.reached[check] = {*reached, *self.parts.get(Path(check.name).name, [])}
            if reached is not None and check in self.tests and self.used[check.command] < LITTLE:
                little.setdefault((check.command[0], frozenset(reached)), []).append(check)
            else:
                self.every.append(check)
        for (_, units), those in little.items():
            group = together(those)
            self.reached[group] = set(units)
            if not self.passes(group, lib, seconds):
                return group.name
            self.every.append(group)
        return None

    def reaches(self, check: Check, noting: Path, seconds: float) -> list[str]:
        """The units that this check, which passes, reaches."""
        told = noting / "told"
        told.write_text("")
        if not self.passes(check, noting, seconds, {TOLD: str(told)}):
            raise CannotBuildError(f"{check.name}, noting what it reaches,")
        self.used.pop(check.command)
        return sorted({*told.read_text().split()})

    def failing(self, file: str, units: set[str], lib: Path, seconds: float, least: float, most: float) -> str | None:
        """The name of the first check that a mutant of this file fails, of those that take that many seconds.

        The file is part of these units. What noticed others of the file comes first, and what is cheap. What noticed
        one is tried also if it takes longer, but for long ones.
        """
        noticed = self.noticed.setdefault(file, Counter())
        those = []
        for check in self.every:
            limit = max(most, LONG_SECONDS) if noticed[check.name] else most
            if least <= self.used[check.command] < limit and not units.isdisjoint(self.reached.get(check, units)):
                those.append(check)
        for check in sorted(those, key=lambda check: self.used[check.command] / (1 + noticed[check.name])):
            passed = self.passes(check, lib, seconds)
            if not passed:
                noticed[check.name] += 1
                return check.name if passed is False else f"{check.name} (its time)"
        return None
