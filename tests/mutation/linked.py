# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Rust tests of ``crates/core`` and ``crates/array`` on a changed C core.

They are compiled once, against the core as a shared library. A mutant needs the library of its own copy of the core and
no Rust compiler: a unit takes a fraction of a second, a header the units that include it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from common import LONG, ROOT, SHORT, WORK, Used, copy_sources, ends_well, tests_pass

NAME = "linnet_core"
# As crates/core/build.rs, with less optimisation: mutants compile sooner, and the bits do not depend on it.
FLAGS = ["-std=c11", "-fPIC", "-O1", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-w"]
SETS = {
    "avx2": ["-mavx2"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mprefer-vector-width=512"],
}
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


class Run(NamedTuple):
    """Tests of one program."""

    name: str
    command: list[str]
    crate: Path


class RustTests:
    """The compiled tests."""

    def __init__(self) -> None:
        """Compile them, unless nothing has changed since the last run."""
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
        messages = [json.loads(line) for line in told.stdout.splitlines()]
        self.runs: list[Run] = []
        for message in messages:
            if message.get("executable"):
                crate = Path(message["manifest_path"]).parent
                for which in [SHORT, LONG]:
                    name = f"crates/{crate.name} ({message['target']['name']})" + (" long" if which == LONG else "")
                    self.runs.append(Run(name, [message["executable"], "--quiet", *which], crate))
        self.used: Used = {}

    def failing(self, library: Path, runs: list[Run], seconds: float) -> str | None:
        """The name of the first that does not pass on this library; None if all pass."""
        for name, command, crate in runs:
            if not tests_pass(command, crate, seconds, self.used, {"LD_LIBRARY_PATH": str(library)}):
                return name
        return None

    def measure(self, library: Path, seconds: float) -> str | None:
        """`failing`, of all; the first to run are the cheapest from now on."""
        failing = self.failing(library, self.runs, seconds)
        self.runs.sort(key=lambda run: self.used.get(tuple(run.command), 0))
        return failing

    def short(self, library: Path, seconds: float) -> str | None:
        """`failing`, of those that take less than two seconds of the processor."""
        return self.failing(library, [run for run in self.runs if self.used[tuple(run.command)] < 2], seconds)

    def long(self, library: Path, seconds: float) -> str | None:
        """`failing`, of the others."""
        return self.failing(library, [run for run in self.runs if self.used[tuple(run.command)] >= 2], seconds)
