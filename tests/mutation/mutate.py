# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes the C core in one place at a time and requires the checks to notice: ``make mutate``.

A mutant swaps an operator, moves a number by one, or drops a statement. It survives if the checks of its unit still
pass: the golden vectors and the device-mapper target in user space for what decides about an I/O, others for the rest.
A survivor is a finding unless ``argued.txt`` says why no check can tell it apart. Mutants are drawn by a seed, which is
printed first. Exit status: 0 if every survivor is argued, 1 if not, 77 if the checks fail without a mutant.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
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
# Checks of the others, by targets of core/Makefile. Training has none here: two builds of a mutant agree.
CHECKS = {
    "ledger": "check-ledger-model",
    **dict.fromkeys(("forest", "forest_file"), "check-place"),
    **dict.fromkeys(("cart", "govern", "knob", "normalise", "online", "pattern", "ring"), "check-tune"),
    **dict.fromkeys(("small", "tree", "verdict"), "check-tune"),
}
# A mutant may loop. It gets twice the time that the checks take here without one, which includes the machine's load:
# with a fixed limit every mutant counts as noticed where the machine is slow.
CLEAN_SECONDS_MAX = 3600
SECONDS_MIN = 60
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


def passes(work: Path, unit: str, stub: bool, seconds: float, cpu_seconds: int | None = None) -> bool:
    """Whether a unit's checks pass in this copy; one that takes longer than `seconds` counts as noticed."""
    # Once as plainly as a kernel compiles it; once with sanitizers and this machine's instructions, whose code differs.
    plain, native = "-O1 -ffp-contract=off -w", "-O1 -march=native -ffp-contract=off -w -fsanitize=address,undefined"
    checks = [CHECKS[unit]] if unit in CHECKS else ["check-user", "check-debug"]
    flags = [f"USER_FLAGS={plain}", f"DEBUG_FLAGS={native} -fno-sanitize-recover=all"]
    commands = [["make", "-s", "-C", str(work / "core"), check, *flags] for check in checks]
    if stub and unit not in CHECKS:
        # The shortest of these.
        commands.insert(0, ["make", "-s", "-C", str(work / "kernel/stub"), "check", "INPUTS=4000", "DEBUG=-O1 -w"])
    return all(ends_well(command, seconds, cpu_seconds=cpu_seconds) for command in commands)


def ends_well(
    command: list[str],
    seconds: float,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    memory_max: int | None = None,
    cpu_seconds: int | None = None,
) -> bool | None:
    """Whether a command succeeds; None if it does not end in time. What it started ends with it: a mutant may loop."""
    quiet = subprocess.DEVNULL
    own = os.environ | (environment or {})
    with subprocess.Popen(command, cwd=cwd, env=own, stdout=quiet, stderr=quiet, start_new_session=True) as child:
        try:
            for limit, most in [(resource.RLIMIT_AS, memory_max), (resource.RLIMIT_CPU, cpu_seconds)]:
                if most is not None:
                    resource.prlimit(child.pid, limit, (most, most))
            status = child.wait(seconds)
            return None if status in (-signal.SIGXCPU, -signal.SIGKILL) else status == 0
        except subprocess.TimeoutExpired:
            return None
        finally:
            # It leads a session of its own. If it ended by itself nothing of it may be left.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def children_cpu_seconds() -> float:
    """What the processes that were started here, and have ended, took of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end_with_children() -> None:
    """Let SIGTERM unwind as Ctrl-C does: what runs in a session of its own is ended first."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def numbered(whats: Iterable[str]) -> Iterator[str]:
    """Equal ones get a number from the second on."""
    seen: Counter[str] = Counter()
    for what in whats:
        seen[what] += 1
        yield what if seen[what] == 1 else f"{what} #{seen[what]}"


def argued() -> dict[str, str]:
    """The reason of each survivor that no check can tell apart: `file: what it does | reason`."""
    lines = (ROOT / "tests/mutation/argued.txt").read_text().splitlines()
    pairs = (line.rsplit(" | ", 1) for line in lines if line and not line.startswith("#"))
    return {key.strip(): reason.strip() for key, reason in pairs}


def copy_core(to: Path) -> None:
    """Copy what the checks of the core and of the device-mapper target in user space need."""
    for name in ("core", "kernel", "spec", "tests/conformance", "tests/vm"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("*.o", "*.ko"))


def main() -> int:
    """Run the gate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("units", nargs="*", default=UNITS, help="units of the core")
    parser.add_argument("--count", type=int, default=40, help="mutants to draw; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--at", metavar="UNIT[.h]:LINE", action="append", help="the mutants of this line; may be repeated"
    )
    parser.add_argument("--no-stub", action="store_true", help="the core's checks alone")
    wanted = parser.parse_args()
    end_with_children()
    every = []
    for unit in wanted.units:
        for file in sorted((ROOT / "core").glob(f"{unit}.[ch]")):
            those = list(mutants(file))
            every += [m._replace(what=what) for m, what in zip(those, numbered(m.what for m in those), strict=True)]
    if wanted.at:
        every = [m for m in every if f"{m.path.name.removesuffix('.c')}:{m.line}" in wanted.at]
    count = len(every) if wanted.at else min(wanted.count or len(every), len(every))
    drawn = random.Random(wanted.seed).sample(every, count)
    print(f"seed {wanted.seed}: {count} of {len(every)} mutants of {' '.join(wanted.units)}", flush=True)
    reasons, survived, excused = argued(), [], 0
    with tempfile.TemporaryDirectory(prefix="linnet-mutate-") as folder:
        work = Path(folder)
        copy_core(work)
        limits: dict[str, tuple[float, int]] = {}
        for mutant in drawn:
            target, unit = work / "core" / mutant.path.name, mutant.path.stem
            checks = CHECKS.get(unit, "")
            if checks not in limits:
                begun, cpu_begun = time.monotonic(), children_cpu_seconds()
                if not passes(work, unit, not wanted.no_stub, CLEAN_SECONDS_MAX):
                    print(f"the checks of {unit} fail without a mutant", file=sys.stderr)
                    return 77
                # Of each process: compilers and checks, which took this long in all.
                cpu_seconds = 10 + int(children_cpu_seconds() - cpu_begun)
                limits[checks] = max(SECONDS_MIN, 2 * (time.monotonic() - begun)), cpu_seconds
            whole = target.read_text()
            target.write_text(mutant.text)
            if passes(work, unit, not wanted.no_stub, *limits[checks]):
                place = f"core/{mutant.path.name}:{mutant.line}: {mutant.what}"
                reason = reasons.get(f"core/{mutant.path.name}: {mutant.what}")
                print(f"survived: {place}" + (f" (argued: {reason})" if reason else ""), flush=True)
                excused += reason is not None
                survived.append(place)
            target.write_text(whole)
    print(f"{count - len(survived)} of {count} were noticed, {excused} of {len(survived)} survivors are argued")
    return int(len(survived) > excused)


if __name__ == "__main__":
    sys.exit(main())
