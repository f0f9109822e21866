# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the gates of this directory share: commands with limits, names of mutants, reasons, copies of the sources."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target/mutants"
"""Copies of the sources, and what is compiled of them; they stay, so that the next run compiles only what changed."""
# A mutant may loop. It gets twice the time that the checks take here without one, which includes the machine's load:
# with a fixed limit every mutant counts as noticed where the machine is slow. That load may grow: the processor's time
# bounds what loops, and this what waits.
CLEAN_SECONDS_MAX = 3600
SECONDS_MIN = 600
MEMORY_MAX = 8 << 30
"""A mutant may also ask for memory without end."""
LONG = ["::sim_", "tests::probing", "caught_up", "incremental_threads::", "train::", "every_flipped_bit"]
"""Rust tests with these words in their names take nearly all the time. They run where the others noticed nothing."""
SHORT = [word for name in LONG for word in ("--skip", name)]
Used = dict[tuple[str, ...], float]
"""Seconds of the processor by the command of a test."""


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

    def limited() -> None:
        # In the child, before it starts another: what is set from here could come too late for that one.
        for limit, most in [(resource.RLIMIT_AS, memory_max), (resource.RLIMIT_CPU, cpu_seconds)]:
            if most is not None:
                resource.setrlimit(limit, (most, most))

    setup = {"cwd": cwd, "env": own, "stdout": quiet, "stderr": quiet, "start_new_session": True}
    with subprocess.Popen(command, **setup, preexec_fn=limited) as child:  # noqa: PLW1509
        try:
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


def tests_pass(command: list[str], crate: Path, seconds: float, used: Used, own: dict[str, str]) -> bool | None:
    """Whether a test program of a crate passes; None if it does not end in time.

    What it takes of the processor is entered in ``used`` at first and bounds it later: the load of the machine does
    not count, and a mutant that loops is ended soon.
    """
    key = tuple(command)
    begun, most = children_cpu_seconds(), int(1 + 4 * used[key]) if key in used else None
    # Drawn inputs are the same for every mutant, and one that fails is neither made smaller nor kept.
    drawn = {"PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true"}
    passed = ends_well(command, seconds, crate, {"CARGO_MANIFEST_DIR": str(crate)} | drawn | own, MEMORY_MAX, most)
    if passed:
        used.setdefault(key, children_cpu_seconds() - begun)
    return passed


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


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Ends the program if another run uses ``WORK``."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {WORK}")
        yield


def copy_sources(tree: Path) -> None:
    """Bring a copy of what the Rust tests of a crate need up to date; files that are the same keep their times."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed += ["Cargo.*", "core", "crates", "spec", "tests/conformance"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split("\0")
    kept = {tree / name for name in names if (ROOT / name).is_file()}
    for old in tree.rglob("*"):
        if old.is_file() and old not in kept:
            old.unlink()
    for copy in kept:
        source = ROOT / copy.relative_to(tree)
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def digest(*trees: Path) -> str:
    """Of all files below these directories, with their names."""
    files = sorted(path for tree in trees for path in tree.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()
