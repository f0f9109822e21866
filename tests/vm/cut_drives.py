# SPDX-License-Identifier: MIT OR Apache-2.0
"""The drives of power_cuts.py from outside, and what a writer is told and asked: in this file, our own writer."""

import struct
import zlib
from abc import ABC, abstractmethod
from pathlib import Path

from cut_machine import BLOCK, BLOCKS, LEGS, REGION_SECTORS, THREADS, Failure, Machine

MAGIC = 0x74656E6E694C7563
ACCOUNT = struct.Struct("<QQQ")
LOG_BYTES = 1 << 20


def make_empty(work: Path) -> None:
    """The files that a machine has as drives."""
    for drive in [*map(str, range(LEGS)), "log"]:
        with (work / f"drive{drive}").open("wb") as file:
            file.truncate(BLOCKS * BLOCK if drive != "log" else LOG_BYTES)


class Drives(ABC):
    """Files that a machine has as drives. They begin empty."""

    told = ""  # what the last check has found

    def __init__(self, work: Path):
        self.work = work
        make_empty(work)

    def dirty(self) -> str:
        """What the log on its drive says, before the machine reads it: the kernel's format, a bit per clean region."""
        data = (self.work / "drivelog").read_bytes()
        regions = BLOCKS * BLOCK // 512 // REGION_SECTORS
        if not any(data[:4]):
            return "a new log"
        # The first sixteen bits are the drives' own.
        clean = int.from_bytes(data[1026 : 1026 + regions // 8], "little").bit_count()
        return f"{regions - clean} of {regions} regions dirty"

    def equal(self) -> bytes:
        """What each of them holds."""
        first, *others = [(self.work / f"drive{k}").read_bytes() for k in range(LEGS)]
        for k, other in enumerate(others, 1):
            if other != first:
                bad = [b for b in range(0, len(first), BLOCK) if first[b : b + BLOCK] != other[b : b + BLOCK]]
                where = f"in {len(bad)} blocks, first {bad[0] // BLOCK}"
                raise Failure(f"after the resync drives 0 and {k} differ {where}")
        return first

    @abstractmethod
    def check(self, run: int, machine: Machine) -> None:
        """The drives are equal, and hold what they must."""

    @abstractmethod
    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """What the machine is told to write."""

    @abstractmethod
    def take(self, account: bytes) -> tuple[int, bytes]:
        """Takes note of the writes that have ended; their number, and the part of the account that is not whole yet."""


class Volume(Drives):
    """What cutwriter has left: for each block the least sequence number that it must hold, 0 for never written."""

    def __init__(self, work: Path):
        super().__init__(work)
        self.floor = [0] * BLOCKS

    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """Words for cutwriter."""
        return f"write {leaves or '- 0'} {seed} {run} {THREADS} {BLOCKS} {mode}"

    def take(self, account: bytes) -> tuple[int, bytes]:
        """Its records."""
        whole = len(account) // ACCOUNT.size * ACCOUNT.size
        for sequence, first, count in ACCOUNT.iter_unpack(account[:whole]):
            for block in range(first, first + count):
                self.floor[block] = max(self.floor[block], sequence)
        return whole // ACCOUNT.size, account[whole:]

    def check(self, run: int, _machine: Machine) -> None:
        """What the drives hold now they must go on holding."""
        held, written = self.equal(), 0
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
