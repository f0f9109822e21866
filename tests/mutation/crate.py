# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes a crate in one place at a time and requires its own tests to notice: ``make mutate CRATE=array``.

cargo-mutants (https://mutants.rs; 27.1 was used) lists the mutants: changed operators, functions that return a
constant, dropped fields and arms of a match. They are drawn by a seed, which is printed first, and run here: that
program runs more than it is asked for where fields are dropped. A survivor is a finding unless ``argued.txt`` says why
no test can tell it apart. A mutant that does not compile is left out. Exit status: 0 if every survivor is argued, 1 if
not, 77 if cargo-mutants is missing or the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from typing import Any

from common import (
    CLEAN_SECONDS_MAX,
    LONG,
    ROOT,
    SECONDS_MIN,
    SHORT,
    WORK,
    Used,
    alone,
    argued,
    copy_sources,
    end_with_children,
    numbered,
    tests_pass,
)

Place = dict[str, int]


def mutants(crate: str) -> dict[str, dict[str, Any]]:
    """Every mutant of a crate by its key in ``argued.txt``: file and change, without the line."""
    command = ["cargo", "mutants", "--no-config", "--package", f"linnet-{crate}", "--list", "--json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)
    # `file:line:column: change`
    keys = numbered(f"{mutant['file']}: {mutant['name'].split(': ', 1)[1]}" for mutant in listed)
    return dict(zip(keys, listed, strict=True))


def changed(text: str, span: dict[str, Place], replacement: str) -> str:
    """The text with what is between two places replaced; lines and columns begin at 1."""
    lines = text.splitlines(keepends=True)
    first, last = (sum(map(len, lines[: at["line"] - 1])) + at["column"] - 1 for at in (span["start"], span["end"]))
    return text[:first] + replacement + text[last:]


def build(crate: str, which: str) -> list[str] | None:
    """The test programs of the copy, of the library (``--lib``) or all (``--tests``); None if they do not compile."""
    command = ["cargo", "test", "--quiet", "--locked", "--package", f"linnet-{crate}", which, "--no-run"]
    # Each mutant compiles this crate again and nothing else, where what was compiled before is of use.
    own = os.environ | {"CARGO_TARGET_DIR": str(WORK / "target"), "CARGO_INCREMENTAL": "1"}
    command.append("--message-format=json")
    told = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=WORK / "tree", env=own
    )
    messages = map(json.loads, told.stdout.splitlines())
    programs = [message["executable"] for message in messages if message.get("executable")]
    return None if told.returncode else programs


class DoesNotCompileError(Exception):
    """The library of the copy does not compile."""


def survives(crate: str, seconds: float, used: Used) -> bool | None:
    """Whether the tests of the copy pass, short ones first; None if one of them does not end in time."""
    home = WORK / "tree/crates" / crate
    tried: set[str] = set()
    for kind in ("--lib", "--tests"):
        programs = build(crate, kind)
        if programs is None:
            raise DoesNotCompileError(kind)
        for program in programs:
            for which in [] if program in tried else [SHORT, LONG]:
                passed = tests_pass([program, "--quiet", *which], home, seconds, used, {})
                if not passed:
                    return passed
            tried.add(program)
    return True


def gate(crate: str, drawn: list[str], every: dict[str, dict[str, Any]], seconds: float, used: Used) -> bool:
    """Try these mutants and print what came of them, also if it is interrupted; true if each survivor is argued."""
    reasons, tried, excused = argued(), Counter[str](), 0
    try:
        for key in drawn:
            mutant = every[key]
            target = WORK / "tree" / mutant["file"]
            whole = target.read_text()
            target.write_text(changed(whole, mutant["span"], mutant["replacement"]))
            try:
                survived = survives(crate, seconds, used)
            except DoesNotCompileError:
                tried["do not compile"] += 1
                continue
            finally:
                target.write_text(whole)
            tried[{True: "survived", False: "were noticed", None: "were noticed by their time"}[survived]] += 1
            if survived:
                reason = reasons.get(key)
                excused += reason is not None
                print(f"survived: {mutant['name']}" + (f" (argued: {reason})" if reason else ""), flush=True)
            if tried.total() % 10 == 0:
                print(f"{tried.total()} of {len(drawn)}", flush=True)
    finally:
        parts = [f"{n} {what}" for what, n in tried.items()]
        print(f"{tried.total()} of {len(drawn)} were tried: {', '.join(parts)}")
        print(f"{excused} of {tried['survived']} survivors are argued", flush=True)
    return tried["survived"] == excused


def main() -> int:
    """Run the gate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("crate", help="its directory in crates/")
    parser.add_argument("--count", type=int, default=40, help="mutants to draw; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--at", metavar="FILE[:LINE]", action="append", help="those of this line or file below crates/CRATE/src"
    )
    wanted = parser.parse_args()
    if not shutil.which("cargo-mutants"):
        print("skipped: no cargo-mutants; install it with: cargo install --locked cargo-mutants", file=sys.stderr)
        return 77
    end_with_children()
    every = mutants(wanted.crate)
    drawn = list(every)
    if wanted.at:
        places = tuple(f"crates/{wanted.crate}/src/{at}:" for at in wanted.at)
        drawn = [key for key in drawn if every[key]["name"].startswith(places)]
    elif 0 < wanted.count < len(drawn):
        drawn = random.Random(wanted.seed).sample(drawn, wanted.count)
    print(f"seed {wanted.seed}: {len(drawn)} of {len(every)} mutants of crates/{wanted.crate}", flush=True)
    copy_sources(WORK / "tree")
    # Twice: the first time compiles the other crates as well.
    used: Used = {}
    for _ in range(2):
        begun = time.monotonic()
        try:
            passed = survives(wanted.crate, CLEAN_SECONDS_MAX, used)
        except DoesNotCompileError:
            passed = False
        if not passed:
            print("the tests fail without a mutant", file=sys.stderr)
            return 77
    seconds = max(SECONDS_MIN, 2 * (time.monotonic() - begun) + 60)
    return int(not gate(wanted.crate, drawn, every, seconds, used))


if __name__ == "__main__":
    with alone():
        sys.exit(main())
