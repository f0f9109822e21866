# SPDX-License-Identifier: MIT OR Apache-2.0
"""The drives of power_cuts.py as the host sees them, the interface of a writer, and the writer cutwriter."""

import struct
import zlib
from abc import ABC, abstractmethod
from pathlib import Path

from cut_machine import BLOCK, BLOCKS, DRIVE_BYTES, LEGS, OFFSET_KIB, THREADS, Failure, Machine

MAGIC = 0x74656E6E694C7563
ACCOUNT = struct.Struct("<QQQ")
SUM_BYTES = 1 << 20
SUM_FACTOR = 1099511628211


def make_empty(work: Path) -> None:
    """Create the files that are the drives of a machine."""
    for drive in range(LEGS):
        with (work / f"drive{drive}").open("wb") as file:
            file.truncate(DRIVE_BYTES)


def sum_of(data: bytes) -> str:
    """The checksum that `cutwriter DEVICE sum` prints."""
    total = 0
    for at in range(0, len(data), SUM_BYTES):
        total = (total * SUM_FACTOR + zlib.crc32(data[at : at + SUM_BYTES])) % (1 << 64)
    return f"{total:016x}"


class Drives(ABC):
    """Files that are the drives of a machine. They begin empty."""

    told = ""  # result of the last check
    noted = False  # members may differ until md has compared them, as `linnet dm trust` keeps it over a restart
    spoilt = 0  # how often a canary has damaged the drives

    def __init__(self, work: Path, canary: bool = False):
        self.work, self.canary = work, canary
        self.before = bytes(BLOCKS * BLOCK)  # what the last check found
        self.last = (0, 0)  # the write that ended last: offset and length
        make_empty(work)

    def spoil(self) -> None:
        """The canary: undo the last write on every drive, or every second time, a part of one of its blocks."""
        at, length = self.last
        if not self.canary or not length:
            return
        if Drives.spoilt % 2:
            at, length = at + BLOCK // 4, BLOCK // 2
        Drives.spoilt += 1
        for k in range(LEGS):
            with (self.work / f"drive{k}").open("r+b") as drive:
                drive.seek((OFFSET_KIB << 10) + at)
                drive.write(self.before[at : at + length])

    def equal(self, machine: Machine, seen: str) -> bytes:
        """Check that the drives are equal, and are what steered reads have `seen`. Return their contents."""
        first, *others = [machine.contents(k) for k in range(LEGS)]
        for k, other in enumerate(others, 1):
            if other != first:
                bad = [b for b in range(0, len(first), BLOCK) if first[b : b + BLOCK] != other[b : b + BLOCK]]
                where = f"in {len(bad)} blocks, first {bad[0] // BLOCK}"
                raise Failure(f"after the resync drives 0 and {k} differ {where}")
        if seen != sum_of(first):
            raise Failure(f"steered reads have seen {seen}, and the drives hold {sum_of(first)}")
        return first

    @abstractmethod
    def check(self, run: int, machine: Machine, seen: str) -> None:
        """Check that the drives are equal and have the right contents."""

    @abstractmethod
    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """The command for the machine that starts the writes."""

    @abstractmethod
    def take(self, account: bytes) -> tuple[int, bytes]:
        """Record the writes that have ended. Return their number, and the incomplete rest of the account."""


class Volume(Drives):
    """Drives that cutwriter writes. `floor` is the lowest valid sequence number of each block, 0 if never written."""

    def __init__(self, work: Path, canary: bool = False):
        super().__init__(work, canary)
        self.floor = [0] * BLOCKS

    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """The arguments of cutwriter."""
        return f"write {leaves or '- 0 0'} {seed} {run} {THREADS} {BLOCKS} {mode}"

    def take(self, account: bytes) -> tuple[int, bytes]:
        """Parse the records of cutwriter."""
        whole = len(account) // ACCOUNT.size * ACCOUNT.size
        for sequence, first, count in ACCOUNT.iter_unpack(account[:whole]):
            self.last = (first * BLOCK, count * BLOCK)
            for block in range(first, first + count):
                self.floor[block] = max(self.floor[block], sequence)
        return whole // ACCOUNT.size, account[whole:]

    def check(self, run: int, machine: Machine, seen: str) -> None:
        """Check every block. Later checks require the writes that this one has found."""
        held, written = self.equal(machine, seen), 0
        self.before, self.last = held, (0, 0)
        for block in range(BLOCKS):
            data = held[block * BLOCK : (block + 1) * BLOCK]
            sequence = 0
            if any(data[:24]) or data.count(0) != BLOCK:
                magic, number, sequence = ACCOUNT.unpack_from(data)
                if zlib.crc32(data[:-8]) != struct.unpack_from("<Q", data, BLOCK - 8)[0] or magic != MAGIC:
                    raise Failure(f"block {block} is torn")
                if number != block or sequence >> 32 >= run:
                    raise Failure(f"block {block} holds block {number} of run {sequence >> 32}")
                written += 1
            if sequence < self.floor[block]:
                raise Failure(f"block {block} holds write {sequence:#x}, but {self.floor[block]:#x} was acknowledged")
            self.floor[block] = sequence
        self.told = f"{written} blocks checked, "
