# SPDX-License-Identifier: MIT OR Apache-2.0
"""The drives of power_cuts.py as the host sees them, the interface of a writer, and the writer cutwriter."""

import struct
import zlib
from abc import ABC, abstractmethod
from pathlib import Path

from cut_machine import BLOCK, BLOCKS, LEGS, REGION_SECTORS, THREADS, Failure, Machine

MAGIC = 0x74656E6E694C7563
ACCOUNT = struct.Struct("<QQQ")
LOG_BYTES = 1 << 20


def make_empty(work: Path) -> None:
    """Create the files that are the drives of a machine."""
    for drive in [*map(str, range(LEGS)), "log"]:
        with (work / f"drive{drive}").open("wb") as file:
            file.truncate(BLOCKS * BLOCK if drive != "log" else LOG_BYTES)


class Drives(ABC):
    """Files that are the drives of a machine. They begin empty."""

    told = ""  # result of the last check

    def __init__(self, work: Path):
        self.work = work
        make_empty(work)

    def dirty(self) -> str:
        """State of the log on its drive before the machine reads it: the kernel's format, a bit per clean region."""
        data = (self.work / "drivelog").read_bytes()
        regions = BLOCKS * BLOCK // 512 // REGION_SECTORS
        if not any(data[:4]):
            return "a new log"
        # The first sixteen bits are the states of the drives.
        clean = int.from_bytes(data[1026 : 1026 + regions // 8], "little").bit_count()
        return f"{regions - clean} of {regions} regions dirty"

    def equal(self) -> bytes:
        """Check that the drives are equal, and return their contents."""
        first, *others = [(self.work / f"drive{k}").read_bytes() for k in range(LEGS)]
        for k, other in enumerate(others, 1):
            if other != first:
                bad = [b for b in range(0, len(first), BLOCK) if first[b : b + BLOCK] != other[b : b + BLOCK]]
                where = f"in {len(bad)} blocks, first {bad[0] // BLOCK}"
                raise Failure(f"after the resync drives 0 and {k} differ {where}")
        return first

    @abstractmethod
    def check(self, run: int, machine: Machine) -> None:
        """Check that the drives are equal and have the right contents."""

    @abstractmethod
    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """The command for the machine that starts the writes."""

    @abstractmethod
    def take(self, account: bytes) -> tuple[int, bytes]:
        """Record the writes that have ended. Return their number, and the incomplete rest of the account."""


class Volume(Drives):
    """Drives that cutwriter writes. `floor` is the lowest valid sequence number of each block, 0 if never written."""

    def __init__(self, work: Path):
        super().__init__(work)
        self.floor = [0] * BLOCKS

    def load(self, seed: int, run: int, mode: str, leaves: str) -> str:
        """The arguments of cutwriter."""
        return f"write {leaves or '- 0'} {seed} {run} {THREADS} {BLOCKS} {mode}"

    def take(self, account: bytes) -> tuple[int, bytes]:
        """Parse the records of cutwriter."""
        whole = len(account) // ACCOUNT.size * ACCOUNT.size
        for sequence, first, count in ACCOUNT.iter_unpack(account[:whole]):
            for block in range(first, first + count):
                self.floor[block] = max(self.floor[block], sequence)
        return whole // ACCOUNT.size, account[whole:]

    def check(self, run: int, _machine: Machine) -> None:
        """Check every block. Later checks require the writes that this one has found."""
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
