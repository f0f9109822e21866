# SPDX-License-Identifier: MIT OR Apache-2.0
"""Power cuts under write load: `tests/vm/power_cuts.py 100 --kernel 6.1`. Needs tests/vm/vmlab-setup once, not root.

Each cut starts a machine with a volume above md raid1 of three drives (spec/md-volume.md), from a state that was saved
before it had seen its drives. md rebuilds; every leg is given trust, as `linnet dm trust` gives it; the drives are
checked from the host; writers start (tests/vm/src/cutwriter.c, or fio); and the machine is killed. After each cut, once
md has rebuilt and the legs are trusted again, these are checked:

- the three drives are equal, byte for byte, where md keeps the data, and reads past md see the same;
- every block has one complete write with its own number, not older than one that was acknowledged or found after an
  earlier cut (with fio: as cut_fio.py says);
- reads through the volume while md rebuilt did not change from one pass to the next, unless members may differ;
- the kernel logged no warning before the machine was killed.

The seed decides when the power fails: while md rebuilds, right after trust was given, during the load, during the load
with a leg that md has failed, right after that leg was added again, or right after it is trusted again.

Where a member of the array was being rebuilt when the power failed, md leaves the others as they are, which may differ
in what was being written (docs/design/dm-md.md). There the harness does what `linnet dm trust` asks for: md's `repair`.

There are two kinds of drive, in random order. A `kept` drive keeps every write that it acknowledged; the writers use
O_DIRECT. A `volatile` drive loses writes that were not flushed (nbdkit's cache filter, killed together with the
machine); the writers use O_DIRECT and O_DSYNC. The harness flushes nothing. The last line is `N cuts, N failures`.
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
from cut_machine import BLOCKS, BUILD, LEGS, Failure, Machine, initrd

CACHE = Path(os.environ.get("VMLAB_CACHE", "/var/cache/vmlab"))


WHEN = {
    "while md rebuilds": 1,
    "right after trust": 2,
    "under load": 2,
    "a leg leaves": 1,
    "right after it is added": 2,
    "right after it is trusted": 2,
}
"""When the power fails, and how often."""


APART_S = 0.02
"""Drives lose power after the machine and one after the other, at most so far apart: each has done more or less of what
it was sent. Before the machine, they would meet another fault of md (docs/design/dm-md.md)."""


def begin(machine: Machine, volume: Drives) -> None:
    """Let a machine assemble the volume from the saved state."""
    volume.spoil()
    machine.say("begin noted" if volume.noted else "begin")
    volume.noted = bool(machine.expect("assembled"))


def settle(run: int, machine: Machine, volume: Drives) -> str:
    """Wait until md has rebuilt and the legs are trusted, and check the drives; return what happened."""
    passes, seen, steered, *rest = machine.expect("synced").split()
    if int(steered) == 0:
        raise Failure("no read went past md")
    volume.check(run, machine, seen)
    volume.noted = False
    told = (f"drive {word} was out, " if word.isdigit() else f"{word}, " for word in rest)
    return f"{passes} passes read meanwhile, {volume.told}" + "".join(told)


def one_cut(run: int, seed: int, machine: Machine, volume: Drives, mode: str, waits: bool) -> str:
    """Run one machine from its start to the kill; return what happened. `waits`: the writer goes on until it is cut."""
    chance = random.Random(seed * 1_000_003 + run)
    begin(machine, volume)
    when = chance.choices(list(WHEN), list(WHEN.values()))[0]
    if when == "while md rebuilds":
        time.sleep(chance.random() * 0.5)
        machine.cut()
        return when
    told = settle(run, machine, volume)
    if when == "right after trust":
        time.sleep(chance.random() * 0.02)
        machine.cut()
        return f"{told}cut {when}"
    if not waits and when.startswith("right after"):
        when = "a leg leaves"
    target, back = chance.randrange(5, 400), int(when.startswith("right after"))
    leaves = "" if when == "under load" else f"{chance.randrange(LEGS)} {chance.random() * 0.3:.2f} {back}"
    machine.say(volume.load(seed, run, mode, leaves))
    account, seen = machine.account, 0

    def take() -> int:
        count, account.held = volume.take(account.held)
        return count

    if back:
        for word in ("added", "trusted")[: 2 if when.endswith("trusted") else 1]:
            while not machine.wait_for(word):
                seen += take()
    while not back and seen < target:
        if not account.more():
            raise Failure("the machine ended by itself")
        seen += take()
    time.sleep(chance.random() * 0.05)
    machine.cut(chance.random() * APART_S)
    while account.more():
        pass
    seen += take()
    return f"{told}cut after {seen} writes, {when}" + (f", drive {leaves.split(maxsplit=1)[0]}" if leaves else "")


def look(run: int, machine: Machine, volume: Drives) -> str:
    """Check the drives after the last cut."""
    begin(machine, volume)
    return settle(run, machine, volume) + "the last look"


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
        volatile = random.Random(seed * 31 + run).random() < 0.5 and not options.canary
        began = time.monotonic()
        machine = Machine(kernel, image, work, volatile, saved)
        try:
            try:
                if run > cuts:
                    told = look(run, machine, volume)
                else:
                    mode = "sync" if volatile else "plain"
                    told = one_cut(run, seed, machine, volume, mode, options.writer == "cutwriter")
            finally:
                machine.close()
        except Failure as failure:
            failures += 1
            told = f"FAILED: {failure}"
            volume = fresh()  # a lost write is reported only once
        kind = "volatile" if volatile else "kept"
        print(f"cut {run} ({kind}, {time.monotonic() - began:.0f} s): {told}", flush=True)
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
        help="must fail: writes that are lost and torn in turns",
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
    print(
        f"seed {options.seed}, kernel {kernel.name}, {LEGS} drives of {BLOCKS} blocks, writer {options.writer}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="power-cuts.") as name:
        work = Path(name)
        make_empty(work)  # the machine is saved before it has seen them, but qemu needs the files
        try:
            image = initrd(kernel, module, work, options.writer)
            kind = FioVolume if fio else Volume
            failures = all_cuts(options, kernel, work, image, lambda: kind(work, options.canary))
        except Failure as failure:
            print(f"cannot begin: {failure}", file=sys.stderr)
            return 1
    again = f"{options.cuts} --kernel {options.kernel} --seed {options.seed} --writer {options.writer}"
    print(f"repeat with: tests/vm/power_cuts.py {again}")
    if options.canary:
        found = failures == Drives.spoilt > 0
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
