# SPDX-License-Identifier: MIT OR Apache-2.0
"""Power cuts under write load: `tests/vm/power_cuts.py 100 --kernel 6.1`. Needs tests/vm/vmlab-setup once, not root.

Each cut starts a machine with a mirror of three drives and a disk log, from a state that was saved before it had seen
its drives. The mirror resyncs; the drives are checked from the host; writers start (tests/vm/src/cutwriter.c, or fio);
and the machine is killed at a moment drawn from the seed. After each cut, once the mirror is in sync, these are
checked:

- the three drives are equal, byte for byte;
- every block has one complete write with its own number, not older than one that was acknowledged or found after an
  earlier cut (with fio: as cut_fio.py says);
- reads through the mirror while it resynced did not change from one pass to the next;
- the kernel logged no warning before the machine was killed.

There are two kinds of drive, in random order. A `kept` drive keeps every write that it acknowledged; the writers use
O_DIRECT. A `volatile` drive loses writes that were not flushed (nbdkit's cache filter, killed together with the
machine); the writers use O_DIRECT and O_DSYNC, which tests the mirror's flushes and the order of log and data. One cut
in seven comes while the mirror resyncs. In one of three a drive is failed while the mirror is written; the next machine
is not told. The last line is `N cuts, N failures`.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cut_drives import Drives, Volume, make_empty
from cut_fio import FioVolume
from cut_machine import BLOCKS, BUILD, LEGS, REGION_SECTORS, Failure, Machine, initrd

CACHE = Path(os.environ.get("VMLAB_CACHE", "/var/cache/vmlab"))


def begin(machine: Machine) -> None:
    """Let a machine assemble the mirror from the saved state."""
    machine.say("begin")
    machine.expect("assembled")


def one_cut(run: int, seed: int, machine: Machine, volume: Drives, mode: str) -> str:
    """Run one machine from its start to the kill; return what happened."""
    chance = random.Random(seed * 1_000_003 + run)
    begin(machine)
    if chance.random() < 1 / 7:
        time.sleep(chance.random() * 0.5)
        machine.cut()
        return "cut while resyncing"
    passes, *revived = machine.expect("synced").split()
    volume.check(run, machine)
    target = chance.randrange(5, 400)
    leaves = f"{chance.randrange(LEGS)} {chance.random() * 0.3:.2f}" if chance.random() < 1 / 3 else ""
    machine.say(volume.load(seed, run, mode, leaves))
    account, seen = machine.account, 0

    def take() -> int:
        count, account.held = volume.take(account.held)
        return count

    while seen < target:
        if not account.more():
            raise Failure("the machine ended by itself")
        seen += take()
    time.sleep(chance.random() * 0.05)
    machine.cut()
    while account.more():
        pass
    seen += take()
    told = f"{passes} passes read meanwhile, {volume.told}cut after {seen} writes"
    told += f", drive {' '.join(revived)} was out" if revived else ""
    return told + (f", drive {leaves.split(maxsplit=1)[0]} leaves" if leaves else "")


def look(run: int, machine: Machine, volume: Drives) -> str:
    """Check the drives after the last cut."""
    begin(machine)
    machine.expect("synced")
    volume.check(run, machine)
    return f"{volume.told}the last look"


def all_cuts(options: argparse.Namespace, kernel: Path, work: Path, image: Path, fresh: Callable[[], Drives]) -> int:
    """Make all cuts and print each; return the number of failures."""
    machine, saved = Machine(kernel, image, work, False, None), work / "saved"
    try:
        machine.expect("ready")
        machine.save(saved)
    finally:
        machine.close()
    volume, failures, cuts, seed = fresh(), 0, options.cuts, options.seed
    for run in range(1, cuts + 2):
        volatile = random.Random(seed * 31 + run).random() < 0.5 and not (options.canary and options.writer == "fio")
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
            volume = fresh()  # a lost write is reported only once
        kind = "volatile" if volatile else "kept"
        print(f"cut {run} ({kind}, {time.monotonic() - began:.0f} s): {dirty}; {told}", flush=True)
    return failures


def main() -> int:
    """Make the cuts and count the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cuts", type=int, nargs="?", default=3)
    parser.add_argument("--kernel", default="6.1", help="series or release (6.1)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--module", type=Path, help="dm-linnet.ko (build/kernel/<release>/)")
    parser.add_argument("--writer", choices=("cutwriter", "fio"), default="cutwriter", help="who writes and checks")
    parser.add_argument(
        "--canary",
        action="store_true",
        help="must fail: a log that calls every region clean, or with fio, writes that are lost and torn in turns",
    )
    options = parser.parse_args()
    kernel = (CACHE / "k" / options.kernel).resolve()
    module = options.module or BUILD / "kernel" / kernel.name / "dm-linnet.ko"
    for needed in (kernel / "vmlinux", module, BUILD / "vm" / "cutwriter"):
        if not needed.exists():
            print(f"skipped: no {needed}")
            return 77
    fio = options.writer == "fio"
    if fio and not shutil.which("fio"):
        print("skipped: no fio")
        return 77
    log = f"LOGDEV {REGION_SECTORS}" + (" nosync" if options.canary and not fio else "")
    arguments = f"{3 + len(log.split())} log disk {len(log.split())} {log.replace('LOGDEV', '$(drive log)')}"
    print(
        f"seed {options.seed}, kernel {kernel.name}, {LEGS} drives of {BLOCKS} blocks, writer {options.writer}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="power-cuts.") as name:
        work = Path(name)
        make_empty(work)  # the machine is saved before it has seen them, but qemu needs the files
        try:
            image = initrd(kernel, module, arguments, work, options.writer)
            fresh = (lambda: FioVolume(work, options.canary)) if fio else (lambda: Volume(work))
            failures = all_cuts(options, kernel, work, image, fresh)
        except Failure as failure:
            print(f"cannot begin: {failure}", file=sys.stderr)
            return 1
    again = f"{options.cuts} --kernel {options.kernel} --seed {options.seed} --writer {options.writer}"
    print(f"repeat with: tests/vm/power_cuts.py {again}")
    if options.canary:
        found = failures == FioVolume.spoilt > 0 if fio else failures > 0
        print("the canary was found" if found else "the canary was not found")
        return 0 if found else 1
    print(f"{options.cuts} cuts, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped; the lines above are of the cuts that were made", file=sys.stderr)
        sys.exit(130)
