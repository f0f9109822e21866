# SPDX-License-Identifier: MIT OR Apache-2.0
"""Power cuts under write load: `tests/vm/power_cuts.py 100 --kernel 6.1`. Needs tests/vm/vmlab-setup once, not root.

Each cut starts a machine, from a state that was saved before it had seen its drives, with a mirror of three drives and
a disk log, lets it resync, checks the drives from outside, starts writers (tests/vm/src/cutwriter.c) and kills the
machine at a moment drawn from the seed. Checked after each cut,
once the mirror says that it is in sync:

- the three drives are equal, byte for byte;
- every block holds a write whole, of its own number, none older than was acknowledged or seen after an earlier cut;
- what was read through the mirror while it resynced did not change from one pass to the next;
- the kernel logged no warning before the machine was killed.

Two kinds of drive take turns. A `kept` drive keeps every write that it acknowledged; the writers use O_DIRECT. A
`volatile` drive loses what was not flushed (nbdkit's cache filter, killed together with the machine); the writers use
O_DIRECT and O_DSYNC, so it is the mirror's flushes, and the order of log and data, that are on trial. One cut in seven
comes while the mirror resyncs. In one of three a drive leaves the mirror while it is written; the machine that comes
next is told nothing of that. The last line is `N cuts, N failures`.
"""

import argparse
import os
import random
import struct
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from cut_machine import BLOCK, BLOCKS, BUILD, LEGS, THREADS, Failure, Machine, initrd

CACHE = Path(os.environ.get("VMLAB_CACHE", "/var/cache/vmlab"))
REGION_SECTORS = 256
MAGIC = 0x74656E6E694C7563
ACCOUNT = struct.Struct("<QQQ")


@dataclass
class Volume:
    """What the drives must hold: for each block the least sequence number, 0 for never written."""

    work: Path
    floor: list[int] = field(default_factory=lambda: [0] * BLOCKS)
    written: int = 0

    def dirty(self) -> str:
        """What the log on its drive says, before the machine reads it: the kernel's format, a bit per clean region."""
        data = (self.work / "drivelog").read_bytes()
        regions = BLOCKS * BLOCK // 512 // REGION_SECTORS
        if not any(data[:4]):
            return "a new log"
        # The first sixteen bits are the drives' own.
        clean = int.from_bytes(data[1026 : 1026 + regions // 8], "little").bit_count()
        return f"{regions - clean} of {regions} regions dirty"

    def acknowledged(self, sequence: int, first: int, count: int) -> None:
        """A write has ended."""
        for block in range(first, first + count):
            self.floor[block] = max(self.floor[block], sequence)

    def check(self, run: int) -> None:
        """The drives are equal, and hold what they must; what they hold now they must go on holding."""
        legs = [(self.work / f"drive{k}").read_bytes() for k in range(LEGS)]
        for k in range(1, LEGS):
            if legs[k] != legs[0]:
                bad = [b for b in range(0, len(legs[0]), BLOCK) if legs[0][b : b + BLOCK] != legs[k][b : b + BLOCK]]
                where = f"in {len(bad)} blocks, first {bad[0] // BLOCK}"
                raise Failure(f"after the resync drives 0 and {k} differ {where}")
        self.written = 0
        for block in range(BLOCKS):
            data = legs[0][block * BLOCK : (block + 1) * BLOCK]
            sequence = 0
            if any(data[:24]) or data.count(0) != BLOCK:
                magic, number, sequence = ACCOUNT.unpack_from(data)
                if zlib.crc32(data[:-8]) != struct.unpack_from("<Q", data, BLOCK - 8)[0] or magic != MAGIC:
                    raise Failure(f"block {block} is torn")
                if number != block or sequence >> 32 >= run:
                    raise Failure(f"block {block} holds block {number} of run {sequence >> 32}")
                self.written += 1
            if sequence < self.floor[block]:
                raise Failure(f"block {block} holds write {sequence:#x}, but {self.floor[block]:#x} was acknowledged")
            self.floor[block] = sequence


def begin(machine: Machine) -> None:
    """From the saved state to a mirror."""
    machine.say("begin")
    machine.expect("assembled")


def one_cut(run: int, seed: int, machine: Machine, volume: Volume, mode: str) -> str:
    """From the boot to the kill; says what happened."""
    chance = random.Random(seed * 1_000_003 + run)
    begin(machine)
    if chance.random() < 1 / 7:
        time.sleep(chance.random() * 0.5)
        machine.cut()
        return "cut while resyncing"
    passes, *revived = machine.expect("synced").split()
    volume.check(run)
    target = chance.randrange(5, 400)
    leaves = f"{chance.randrange(LEGS)} {chance.random() * 0.3:.2f}" if chance.random() < 1 / 3 else ""
    machine.say(f"{seed} {run} {mode} {leaves}")
    account, seen = machine.account, 0

    def take() -> int:
        whole = len(account.held) // ACCOUNT.size * ACCOUNT.size
        for record in ACCOUNT.iter_unpack(account.held[:whole]):
            volume.acknowledged(*record)
        account.held = account.held[whole:]
        return whole // ACCOUNT.size

    while seen < target:
        if not account.more():
            raise Failure("the machine ended by itself")
        seen += take()
    time.sleep(chance.random() * 0.05)
    machine.cut()
    while account.more():
        pass
    seen += take()
    told = f"{passes} passes read meanwhile, {volume.written} blocks checked, cut after {seen} writes"
    told += f", drive {' '.join(revived)} was out" if revived else ""
    return told + (f", drive {leaves.split(maxsplit=1)[0]} leaves" if leaves else "")


def look(run: int, machine: Machine, volume: Volume) -> str:
    """What the last cut left."""
    begin(machine)
    machine.expect("synced")
    volume.check(run)
    return f"{volume.written} blocks checked, the last look"


def all_cuts(cuts: int, seed: int, kernel: Path, work: Path, image: Path) -> int:
    """Cuts, told one by one; the number of failures."""
    machine, saved = Machine(kernel, image, work, False, None), work / "saved"
    try:
        machine.expect("ready")
        machine.save(saved)
    finally:
        machine.close()
    volume, failures = Volume(work), 0
    for run in range(1, cuts + 2):
        volatile = random.Random(seed * 31 + run).random() < 0.5
        began, dirty = time.monotonic(), volume.dirty()
        machine = Machine(kernel, image, work, volatile, saved)
        try:
            try:
                if run > cuts:
                    told = look(run, machine, volume)
                else:
                    told = one_cut(run, seed, machine, volume, "sync" if volatile else "plain")
            finally:
                machine.close()
        except Failure as failure:
            failures += 1
            told = f"FAILED: {failure}"
            volume = Volume(work)  # what is lost is told once
        kind = "volatile" if volatile else "kept"
        print(f"cut {run} ({kind}, {time.monotonic() - began:.0f} s): {dirty}; {told}", flush=True)
    return failures


def main() -> int:
    """Cuts, and the count of what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cuts", type=int, nargs="?", default=3)
    parser.add_argument("--kernel", default="6.1", help="series or release (6.1)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--module", type=Path, help="dm-linnet.ko (build/kernel/<release>/)")
    parser.add_argument("--canary", action="store_true", help="with a log that calls every region clean: must fail")
    options = parser.parse_args()
    kernel = (CACHE / "k" / options.kernel).resolve()
    module = options.module or BUILD / "kernel" / kernel.name / "dm-linnet.ko"
    for needed in (kernel / "vmlinux", module, BUILD / "vm" / "cutwriter"):
        if not needed.exists():
            print(f"skipped: no {needed}")
            return 77
    log = f"LOGDEV {REGION_SECTORS}" + (" nosync" if options.canary else "")
    arguments = f"{3 + len(log.split())} log disk {len(log.split())} {log.replace('LOGDEV', '$(drive log)')}"
    print(f"seed {options.seed}, kernel {kernel.name}, {LEGS} drives of {BLOCKS} blocks, {THREADS} writers", flush=True)
    with tempfile.TemporaryDirectory(prefix="power-cuts.") as name:
        work = Path(name)
        for drive in [*map(str, range(LEGS)), "log"]:
            with (work / f"drive{drive}").open("wb") as file:
                file.truncate(BLOCKS * BLOCK if drive != "log" else 1 << 20)
        try:
            image = initrd(kernel, module, arguments, work)
            failures = all_cuts(options.cuts, options.seed, kernel, work, image)
        except Failure as failure:
            print(f"cannot begin: {failure}", file=sys.stderr)
            return 1
    print(f"repeat with: tests/vm/power_cuts.py {options.cuts} --kernel {options.kernel} --seed {options.seed}")
    if options.canary:
        print("the canary was found" if failures else "the canary was not found")
        return 0 if failures else 1
    print(f"{options.cuts} cuts, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
