# SPDX-License-Identifier: MIT OR Apache-2.0
"""RocksDB under db_bench (Debian: rocksdb-tools), on the bed of tests/tune."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tune"))
import bed as beds
from bed import Bed

WRITING = ("readrandomwriterandom", "updaterandom", "mixgraph")
"""Benchmarks that change the database: each run gets a fresh one."""
IN_ORDER = ("readseq", "readreverse")
"""Benchmarks that end with the data instead of the time."""
MIXGRAPH = (
    "--keyrange_dist_a=14.18", "--keyrange_dist_b=-2.917", "--keyrange_dist_c=0.0164", "--keyrange_dist_d=-0.08082",
    "--keyrange_num=30", "--value_k=0.2615", "--value_sigma=25.45", "--iter_k=2.517", "--iter_sigma=14.236",
    "--mix_get_ratio=0.85", "--mix_put_ratio=0.14", "--mix_seek_ratio=0.01",
)  # fmt: skip
"""The mixture of one of Facebook's services (Cao et al., FAST 2020), without its limit of the rate."""


TIMED_OUT = 124
"""Status of timeout(1) when it had to end the program."""


def missing() -> str | None:
    """Why RocksDB cannot be measured on a bed here; None where it can."""
    if shutil.which("db_bench") is None:
        return "needs db_bench (Debian: apt install rocksdb-tools)"
    return beds.missing()


@dataclass
class Done:
    """What db_bench printed of a run."""

    ops: float
    """Operations a second."""
    count: int
    settled: float | None
    """Operations a second in the second half, by its reports of each second; None where there are fewer than four."""
    half_ops: int = 0
    """Operations in that half."""
    half_reads: tuple[tuple[int, int], tuple[int, int]] | None = None
    """The device's I/Os and bytes at its start and at its end."""


@dataclass
class Report:
    """One of db_bench's reports of a second, and the device's I/Os and bytes when it came."""

    ops: int
    seconds: float
    ops_so_far: int
    seconds_so_far: float
    reads: tuple[int, int]


REPORT = re.compile(r"\((\d+),(\d+)\) ops and \([^)]*\) ops/second in \(([\d.]+),([\d.]+)\) seconds")
"""(ops of the interval, so far) ops and (rate, mean rate) ops/second in (length of the interval, so far) seconds"""


class Database:
    """A database that is filled once. `how` is mmap or pread. Where it `advises`, as RocksDB does by default, tables
    are opened with the advice RANDOM."""

    def __init__(self, keys: int, how: str = "mmap", buffer_bytes: int = 64 << 20, advises: bool = False) -> None:
        self.keys = keys
        self.advises = advises
        self.how = how
        self.buffer_bytes = buffer_bytes

    def words(self, bed: Bed, folder: str, benchmarks: str, *more: str) -> list[str]:
        """The command of db_bench on a database of the bed."""
        return [
            "db_bench", f"--db={bed.root}/{folder}", f"--num={self.keys}", f"--benchmarks={benchmarks}",
            "--compression_type=none", "--key_size=48", "--value_size=100", "--disable_wal=1", "--cache_size=1048576",
            f"--write_buffer_size={self.buffer_bytes}", f"--mmap_read={int(self.how == 'mmap')}",
            f"--advise_random_on_open={int(self.advises)}", "--open_files=-1", "--seed=7", *more,
        ]  # fmt: skip

    def fill(self, bed: Bed) -> None:
        """Make the database, outside the control group: the device has no limits, and memory none."""
        words = self.words(bed, "db", "fillseq", "--target_file_size_base=67108864")
        subprocess.run(words, check=True, capture_output=True)

    def fresh(self, bed: Bed) -> None:
        """A copy to write to: tables never change, so they are linked; the rest is copied."""
        copy = bed.root / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for file in (bed.root / "db").iterdir():
            if file.suffix == ".sst":
                os.link(file, copy / file.name)
            elif file.is_file():
                shutil.copyfile(file, copy / file.name)

    def run(self, bed: Bed, benchmark: str, seconds: int) -> Done:
        """One benchmark inside the control group. Those that end with the data are ended after twice the time."""
        folder = "db"
        if benchmark in WRITING:
            self.fresh(bed)
            bed.cold()
            folder = "copy"
        bounded = benchmark in IN_ORDER
        limit = [] if bounded else [f"--duration={seconds}", f"--reads={10**9}", f"--writes={10**9}"]
        more = MIXGRAPH if benchmark == "mixgraph" else ()
        words = self.words(bed, folder, benchmark, "--use_existing_db=1", "--stats_interval_seconds=1", *limit, *more)
        process = bed.start(["timeout", str(2 * seconds), *words] if bounded else words)
        assert process.stderr is not None and process.stdout is not None
        reports, said = [], []
        for line in process.stderr:
            said.append(line)
            if found := REPORT.search(line):
                ops, so_far = int(found[1]), int(found[2])
                reports.append(Report(ops, float(found[3]), so_far, float(found[4]), bed.reads()))
        out = process.stdout.read()
        process.wait()
        if process.returncode not in ((0, TIMED_OUT) if bounded else (0,)):
            raise RuntimeError(f"db_bench {benchmark}: status {process.returncode}: {''.join(said)[-500:]}")
        return summed(out, reports, benchmark)


def summed(out: str, reports: list[Report], benchmark: str) -> Done:
    """The figures of a run: the last line's, or those of the reports where it had to be ended."""
    last = re.search(
        rf"^{benchmark}\s*:\s*[\d.]+ micros/op (\d+) ops/sec ([\d.]+) seconds (\d+) operations", out, re.MULTILINE
    )
    if last is not None:
        done = Done(float(last[1]), int(last[3]), None)
    elif reports:
        done = Done(reports[-1].ops_so_far / reports[-1].seconds_so_far, reports[-1].ops_so_far, None)
    else:
        raise RuntimeError(f"db_bench {benchmark} printed no figure:\n{out[-500:]}")
    if len(reports) >= 4:
        middle = len(reports) // 2
        half = reports[middle:]
        done.half_ops = sum(report.ops for report in half)
        done.settled = done.half_ops / sum(report.seconds for report in half)
        done.half_reads = (reports[middle - 1].reads, half[-1].reads)
    return done
