# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs every way of reading at every readahead value on one device, and keeps what the tuner's observer saw.

A reader opens the scratch file while the device has the value, and keeps it; the device has its own value again before
the first read. So programs that open files meanwhile seldom get a value of ours. Each run starts without pages of the
file in memory, in a control group that holds a fraction of it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linnet import _native
from linnet._native import TuneError
from linnet.readahead import memory
from linnet.readahead.patterns import Pattern

MIB = 1 << 20
FILE_BYTES = 256 * MIB
FILE_LEAST_BYTES = 96 * MIB
MEMORY_SHARE = 6
"""The readers' memory is one part of so many of the file, so that few reads find a page of an earlier pass."""
MEMORY_LEAST_BYTES = 24 * MIB
SPARE_BYTES = 64 * MIB
"""Space that a calibration leaves free."""
LOOK_SECONDS = 0.25
ADDED = 7
"""Place of the pages brought in the counters (crates/tune/src/observe/cell.rs)."""
READER = Path(__file__).with_name("reader.py")

Counts = NDArray[np.uint64]
Sample = tuple[int, int, list[int]]


@dataclass
class Run:
    """One pattern at one value."""

    pattern: str
    kib: int
    pages_per_s: float
    windows: Counts
    """Counters of each window (n, counters)."""
    added_per_page: float
    """Pages brought for each one demanded, over the whole run."""


@dataclass
class Sweep:
    """All runs on one device."""

    device: str
    runs: list[Run] = field(default_factory=list)

    def best(self, tolerance: float, default_kib: int) -> dict[str, int]:
        """The best value of each pattern, in KiB.

        Of the values within ``tolerance`` of the highest throughput: those that bring fewest pages, within the same
        tolerance; of these the nearest to the kernel's default, on a logarithmic scale, the smaller of two.
        """
        found = {}
        for pattern, by_value in self.throughput().items():
            enough = [kib for kib, ops in by_value.items() if ops >= (1 - tolerance) * max(by_value.values())]
            brought = {kib: self._brought(pattern, kib) for kib in enough}
            frugal = [kib for kib in enough if brought[kib] <= (1 + tolerance) * min(brought.values()) + 1e-9]
            found[pattern] = min(frugal, key=lambda kib: (abs(np.log2(max(kib, 1) / default_kib)), kib))
        return found

    def throughput(self) -> dict[str, dict[int, float]]:
        """Pages a second of each pattern at each value: the best of the rounds, as what else runs only slows a run."""
        found: dict[str, dict[int, list[float]]] = {}
        for run in self.runs:
            found.setdefault(run.pattern, {}).setdefault(run.kib, []).append(run.pages_per_s)
        return {p: {kib: max(rates) for kib, rates in sorted(v.items())} for p, v in found.items()}

    def _brought(self, pattern: str, kib: int) -> float:
        found = [run.added_per_page for run in self.runs if (run.pattern, run.kib) == (pattern, kib)]
        return statistics.median(found)


def sizes(directory: Path) -> tuple[int, int]:
    """Bytes of the scratch file and of the readers' memory that this machine allows. Refuses where either is short."""
    file_bytes = FILE_BYTES
    allowed = memory.allowance_bytes()
    if allowed is not None:
        # The file's pages count as ours while it is written, and those of a device in memory as long as it is there.
        file_bytes = min(file_bytes, allowed // 2 // MIB * MIB)
        if file_bytes < FILE_LEAST_BYTES:
            raise TuneError(
                f"this process may use {allowed // MIB} MiB (memory control group); a calibration needs "
                f"{2 * FILE_LEAST_BYTES // MIB} MiB: run it outside the group or raise its limit"
            )
    place = os.statvfs(directory)
    free = place.f_bavail * place.f_frsize
    if free < file_bytes + SPARE_BYTES:
        raise TuneError(
            f"{directory}: {free // MIB} MiB are free; a calibration needs {(file_bytes + SPARE_BYTES) // MIB} MiB: "
            "make room, or give a directory on the device with --directory"
        )
    return file_bytes, max(file_bytes // MEMORY_SHARE, MEMORY_LEAST_BYTES)


@contextlib.contextmanager
def scratch(directory: Path, size_bytes: int, tell: Callable[[int], None]) -> Iterator[int]:
    """A file of noise without a name, which is gone with its last descriptor, however we end. Gives a descriptor."""
    fd, name = tempfile.mkstemp(prefix=".linnet-calibrate-", dir=directory)
    try:
        os.unlink(name)
        for done in range(0, size_bytes, MIB):
            os.write(fd, os.urandom(MIB))
            if done % (16 * MIB) == 0:
                # Written pages are let go as we proceed: memory is bounded here as well.
                os.fdatasync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                tell(done // MIB)
        os.fsync(fd)
        yield fd
    finally:
        os.close(fd)


def total(samples: Sequence[Sample], inode: int) -> Counts | None:
    """Counters of one file of the observer's file system, all control groups together; None where nothing was read."""
    found = [counts for number, _, counts in samples if number == inode]
    return np.asarray(found, dtype=np.uint64).sum(axis=0, dtype=np.uint64) if found else None


class Bench:
    """One device, its scratch file and the observer of its file system; runs one pattern at one value at a time."""

    def __init__(self, device: _native.TuneDevice, observer: _native.TuneObserver, fd: int, group: Path) -> None:
        self.device = device
        self.observer = observer
        self.fd = fd
        self.group = group
        self.inode = os.fstat(fd).st_ino

    def run(self, pattern: Pattern, kib: int, seconds: float, seed: int) -> Run:
        """Read for so many seconds. The run has the value that stood, which is less where the device bounds it."""
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        words = [sys.executable, "-I", "-S", str(READER), str(self.fd), str(self.group), pattern.how, pattern.order]
        words += [str(pattern.block), str(pattern.length), str(seconds), str(seed)]
        stands = self.device.set(kib)
        try:
            pipe = subprocess.PIPE
            reader = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, pass_fds=[self.fd])
        except BaseException:
            self.device.put_back()
            raise
        try:
            assert reader.stdin is not None and reader.stdout is not None
            opened = reader.stdout.readline()
            self.device.put_back()
            if opened.strip() != "open":
                raise TuneError(f"the reader did not start: {self._last_words(reader)}")
            self.observer.look()
            return self._watch(reader, pattern, stands, seconds)
        finally:
            self.device.put_back()
            reader.kill()
            reader.communicate()

    def _watch(self, reader: subprocess.Popen[str], pattern: Pattern, kib: int, seconds: float) -> Run:
        assert reader.stdin is not None and reader.stdout is not None
        reader.stdin.write("go\n")
        reader.stdin.flush()
        windows: list[Counts] = []
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(LOOK_SECONDS, left))
            counts = total(self.observer.look(), self.inode)
            if counts is not None:
                windows.append(counts)
        words = reader.stdout.readline().split()
        if len(words) != 2:
            raise TuneError(f"{pattern.name} at {kib} KiB: the reader ended early: {self._last_words(reader)}")
        took, pages = float(words[0]), int(words[1])
        last = total(self.observer.look(), self.inode)
        if last is not None:
            windows.append(last)
        found = np.asarray(windows, dtype=np.uint64).reshape(len(windows), -1)
        brought = float(found[:, ADDED].sum()) / pages if windows else 0.0
        return Run(pattern.name, kib, pages / took, found, brought)

    @staticmethod
    def _last_words(reader: subprocess.Popen[str]) -> str:
        try:
            _, said = reader.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            return "it did not answer"
        if reader.returncode == -9:
            return "killed, perhaps for memory; see the kernel log"
        # The last line of a traceback names the error.
        return said.strip().rpartition("\n")[2][-300:] or f"status {reader.returncode}"


def sweep(
    bench: Bench,
    patterns: Sequence[Pattern],
    values_kib: Sequence[int],
    rounds: int,
    seconds: float,
    seed: int,
    tell: Callable[[int], None],
) -> Sweep:
    """Every pattern at every value, in turns, so that a disturbance of the machine meets all values of a pattern."""
    found = Sweep(bench.device.target)
    done = 0
    for turn in range(rounds):
        for pattern in patterns:
            for kib in values_kib:
                found.runs.append(bench.run(pattern, kib, seconds, seed + turn))
                done += 1
                tell(done)
    return found
