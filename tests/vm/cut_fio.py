# SPDX-License-Identifier: MIT OR Apache-2.0
"""fio as the writer of power_cuts.py: what it was told is written, and what it finds after the cut.

Eight jobs, each with one I/O in flight, in places of their own; nine in ten are writes, of 4 to 64 KiB, and no place is
written twice in a run. Each 4 KiB have fio's header (`verify=crc32c`, `verify_interval=4096`). fio tells each I/O that
has ended (`--debug=io`) on a channel that the host keeps, so how far each job was acknowledged survives the cut. After
it fio goes through the mirror twice:

- each job again from its seed for as many I/Os as were acknowledged (`verify_only`, `number_ios`): every write must be
  there, with its place, its checksum and the seed of that very write, which no older one has. fio compares seeds only
  where a job reads and writes, hence the reads;
- all of the mirror: what was in progress at the cut may be there or not, but every 4 KiB must be whole.

fio's own trigger (`--trigger`, `verify_state_save`) is not used: it ends the jobs before it runs its command, and the
power would go when nothing is written.
"""

import re
import subprocess
from pathlib import Path

from cut_drives import Drives
from cut_machine import BLOCK, BLOCKS, LEGS, Failure, Machine

JOBS = 8
SPAN = BLOCKS * BLOCK // JOBS
CHECKED = ["--verify=crc32c", f"--verify_interval={BLOCK}", "--verify_fatal=1", "--verify_state_save=0"]
HOW = ["--ioengine=psync", "--direct=1", "--thread", "--clocksource=clock_gettime", "--eta=never", *CHECKED]
ALL = ["--name=all", "--filename=/dev/dm-0", "--rw=read", "--bs=64k", f"--size={BLOCKS * BLOCK}", "--verify_only"]
ENDED = re.compile(rb"^io +\d+ +complete: io_u \S+ off=0x([0-9a-f]+),len=0x([0-9a-f]+),ddir=([01]),", re.MULTILINE)


class FioVolume(Drives):
    """What fio was told is on the drives."""

    spoilt = 0  # how often the canary has sung

    def __init__(self, work: Path, canary: bool):
        super().__init__(work)
        self.canary = canary
        self.seed = 0
        self.ended = [0] * JOBS
        self.last = (0, 0)  # the write that ended last: place and length
        # Whole blocks from the beginning, so that one that is not whole is a fault. The mirror copies the first drive.
        fill = ["--name=fill", f"--filename={work / 'drive0'}", "--rw=write", "--bs=64k", f"--size={BLOCKS * BLOCK}"]
        subprocess.run(["fio", "--ioengine=psync", *fill, *CHECKED, "--do_verify=0"], check=True, capture_output=True)
        self.before = b""

    def jobs(self, mode: str, ended: list[int]) -> str:
        """fio's words for a run, or for as much of it as has ended."""
        words = [*HOW, "--filename=/dev/dm-0", "--rw=randrw", "--rwmixread=10", "--bsrange=4k-64k", "--blockalign=4k"]
        words += [f"--size={SPAN}", "--verify_only" if ended else "--do_verify=0"]
        words += ["--sync=dsync"] if mode == "sync" else []
        for job in range(JOBS):
            words += [f"--name=w{job}", f"--offset={job * SPAN}", f"--randseed={self.seed * 100 + job}"]
            if ended:
                # Of no I/O, one read: jobs must keep their numbers, which their chance depends on too.
                words += [f"--number_ios={ended[job]}"] if ended[job] else ["--rw=read", "--number_ios=1"]
        return " ".join(words)

    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """Words for fio."""
        self.seed = seed % 1_000_000 * 1000 + run
        return f"write {leaves or '- 0'} {self.jobs(mode, [])}"

    def take(self, account: bytes) -> tuple[int, bytes]:
        """Its lines."""
        whole, writes = account.rfind(b"\n") + 1, 0
        for match in ENDED.finditer(account[:whole]):
            at, length = int(match[1], 16), int(match[2], 16)
            self.ended[at // SPAN] += 1
            if match[3] == b"1":
                self.last = (at, length)
                writes += 1
        return writes, account[whole:]

    def spoil(self) -> None:
        """The canary: the last write is lost on every drive, and the next time a part of one of its blocks."""
        at, length = self.last
        if FioVolume.spoilt % 2:
            at, length = at + BLOCK // 4, BLOCK // 2
        FioVolume.spoilt += 1
        for k in range(LEGS):
            with (self.work / f"drive{k}").open("r+b") as drive:
                drive.seek(at)
                drive.write(self.before[at : at + length])

    def check(self, _run: int, machine: Machine) -> None:
        """fio finds what was acknowledged, and nothing torn."""
        held = self.equal()
        if self.canary and self.last[1]:
            self.spoil()
        self.told = ""
        if any(self.ended):
            self.ask(machine, self.jobs("plain", self.ended), f"{sum(self.ended)} I/Os acknowledged")
        self.ask(machine, " ".join([*HOW, *ALL]), "all whole")
        self.before, self.ended, self.last = held, [0] * JOBS, (0, 0)

    def ask(self, machine: Machine, words: str, what: str) -> None:
        """fio in the machine; it says its status, how many reads, and what it complains of."""
        machine.say(f"check {words}")
        status, reads, *rest = machine.expect("checked").split(maxsplit=2)
        # fio 3.33 forgets a fault when a later part of the same read is right, and ends well; but it has complained.
        if status != "0" or reads == "0" or rest:
            raise Failure(f"fio ({what}): status {status}, {reads} reads; {' '.join(rest)}")
        self.told += f"{what} ({reads} reads), "
