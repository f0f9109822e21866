# SPDX-License-Identifier: MIT OR Apache-2.0
"""fio as the writer of power_cuts.py: which I/Os it has acknowledged, and what it verifies after the cut.

There are eight jobs in separate ranges, each with one I/O in flight. Nine of ten I/Os are writes, of 4 to 64 KiB, and
no block is written twice in a run. Each 4 KiB has fio's header (`verify=crc32c`, `verify_interval=4096`). fio reports
each ended I/O (`--debug=io`) on a channel of the host, so the host knows after the cut how many I/Os of each job were
acknowledged. After the cut fio verifies the volume twice:

- each job from its seed, for as many I/Os as were acknowledged (`verify_only`, `number_ios`): every write must be
  there, with its offset, its checksum and its seed, which no older write has. fio compares seeds only if a job both
  reads and writes, hence the reads;
- the whole volume: I/Os in flight at the cut may be there or not, but every 4 KiB must be intact.

fio's own trigger (`--trigger`, `verify_state_save`) is not used: it ends the jobs before it runs its command, so the
power would fail while nothing is written.
"""

import re
import subprocess
from pathlib import Path

from cut_drives import Drives
from cut_machine import BLOCK, BLOCKS, LEGS, OFFSET_KIB, VOLUME, Failure, Machine

JOBS = 8
SPAN = BLOCKS * BLOCK // JOBS
CHECKED = ["--verify=crc32c", f"--verify_interval={BLOCK}", "--verify_fatal=1", "--verify_state_save=0"]
HOW = ["--ioengine=psync", "--direct=1", "--thread", "--clocksource=clock_gettime", "--eta=never", *CHECKED]
ALL = ["--name=all", f"--filename={VOLUME}", "--rw=read", "--bs=64k", f"--size={BLOCKS * BLOCK}", "--verify_only"]
ENDED = re.compile(rb"^io +\d+ +complete: io_u \S+ off=0x([0-9a-f]+),len=0x([0-9a-f]+),ddir=([01]),", re.MULTILINE)


class FioVolume(Drives):
    """Drives that fio writes and verifies."""

    def __init__(self, work: Path, canary: bool):
        super().__init__(work, canary)
        self.seed = 0
        self.ended = [0] * JOBS
        # All blocks are valid from the start, so an invalid one is a fault. Every drive has them, whichever md copies.
        fill = ["--name=fill", "--rw=write", "--bs=64k", f"--size={BLOCKS * BLOCK}", f"--filename={work / 'fill'}"]
        subprocess.run(["fio", "--ioengine=psync", *fill, *CHECKED, "--do_verify=0"], check=True, capture_output=True)
        self.before = (work / "fill").read_bytes()
        for k in range(LEGS):
            with (work / f"drive{k}").open("r+b") as drive:
                drive.seek(OFFSET_KIB << 10)
                drive.write(self.before)

    def jobs(self, mode: str, ended: list[int]) -> str:
        """fio's arguments for a run, or for verifying the ended part of it."""
        words = [*HOW, f"--filename={VOLUME}", "--rw=randrw", "--rwmixread=10", "--bsrange=4k-64k", "--blockalign=4k"]
        words += [f"--size={SPAN}", "--verify_only" if ended else "--do_verify=0"]
        words += ["--sync=dsync"] if mode == "sync" else []
        for job in range(JOBS):
            words += [f"--name=w{job}", f"--offset={job * SPAN}", f"--randseed={self.seed * 100 + job}"]
            if ended:
                # A job without I/Os does one read: jobs keep their numbers, on which their random sequences depend.
                words += [f"--number_ios={ended[job]}"] if ended[job] else ["--rw=read", "--number_ios=1"]
        return " ".join(words)

    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """The arguments of fio."""
        self.seed = seed % 1_000_000 * 1000 + run
        return f"write {leaves or '- 0 0'} {self.jobs(mode, [])}"

    def take(self, account: bytes) -> tuple[int, bytes]:
        """Parse the lines of fio."""
        whole, writes = account.rfind(b"\n") + 1, 0
        for match in ENDED.finditer(account[:whole]):
            at, length = int(match[1], 16), int(match[2], 16)
            self.ended[at // SPAN] += 1
            if match[3] == b"1":
                self.last = (at, length)
                writes += 1
        return writes, account[whole:]

    def check(self, _run: int, machine: Machine, seen: str) -> None:
        """fio must find all acknowledged writes, and no torn block."""
        held = self.equal(machine, seen)
        self.told = ""
        if any(self.ended):
            self.ask(machine, self.jobs("plain", self.ended), f"{sum(self.ended)} I/Os acknowledged")
        self.ask(machine, " ".join([*HOW, *ALL]), "all whole")
        self.before, self.ended, self.last = held, [0] * JOBS, (0, 0)

    def ask(self, machine: Machine, words: str, what: str) -> None:
        """Run fio in the machine, which reports its exit status, the number of reads, and its error messages."""
        machine.say(f"check {words}")
        status, reads, *rest = machine.expect("checked").split(maxsplit=2)
        # If a later part of the same read is right, fio 3.33 exits with 0 despite a fault; but it prints an error.
        if status != "0" or reads == "0" or rest:
            raise Failure(f"fio ({what}): status {status}, {reads} reads; {' '.join(rest)}")
        self.told += f"{what} ({reads} reads), "
