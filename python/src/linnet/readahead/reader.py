# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a file in one way, as a process of its own, and prints what it reached.

    python -I -S reader.py FD GROUP mmap|pread ORDER BLOCK LENGTH SECONDS SEED

FD is an inherited descriptor; the file is opened again by it, because an open file keeps the readahead that its device
had when it was opened. GROUP is the directory of a control group to join; what the process has until then is not
charged to it. Prints ``open``, waits for a line on standard input, reads for so many seconds, and prints how long it
took, in seconds, and how many pages it read. Only the standard library is used: it starts in some milliseconds.
"""

import itertools
import mmap
import os
import random
import sys
import time
from collections.abc import Callable, Iterator

PAGE = 4096
Chance = Callable[[], float]
BURST = 16
"""Reads between two looks at the clock."""


def seq(pages: int, block: int, _length: int, _chance: Chance) -> Iterator[int]:
    """Upwards, again and again."""
    while True:
        yield from range(0, pages - block + 1, block)


def reverse(pages: int, block: int, _length: int, _chance: Chance) -> Iterator[int]:
    """Downwards."""
    while True:
        yield from range(pages - block, -1, -block)


def anywhere(pages: int, block: int, _length: int, chance: Chance) -> Iterator[int]:
    """At random."""
    while True:
        yield int(chance() * (pages - block + 1))


def runs(pages: int, block: int, length: int, chance: Chance) -> Iterator[int]:
    """So many pages in order, from random places."""
    while True:
        start = int(chance() * (pages - length))
        yield from range(start, start + length - block + 1, block)


def strided(pages: int, block: int, length: int, chance: Chance) -> Iterator[int]:
    """One read in so many pages, upwards."""
    while True:
        yield from range(int(chance() * length), pages - block + 1, length)


def mixed(pages: int, block: int, length: int, chance: Chance) -> Iterator[int]:
    """Bursts in order and at random, as two tasks of one program make them."""
    in_order, scattered = seq(pages, block, length, chance), anywhere(pages, block, length, chance)
    while True:
        yield from itertools.islice(in_order, 4 * BURST)
        yield from itertools.islice(scattered, BURST)


ORDERS = {"seq": seq, "reverse": reverse, "random": anywhere, "runs": runs, "strided": strided, "mixed": mixed}


def main(fd: int, group: str, how: str, order: str, block: int, length: int, seconds: float, seed: int) -> None:
    """Read until the time is over."""
    with open(f"{group}/cgroup.procs", "w") as procs:
        procs.write("0")
    opened = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    pages = os.fstat(opened).st_size // PAGE
    print("open", flush=True)
    if not sys.stdin.readline():
        return
    begun = time.monotonic()
    # A mapping made before the wait would be the same; made here it costs its own time, some microseconds.
    mapped = mmap.mmap(opened, 0, prot=mmap.PROT_READ) if how == "mmap" else None
    following = ORDERS[order](pages, block, length, random.Random(seed).random)
    done, took = 0, 0.0
    while took < seconds:
        for _ in range(BURST):
            place = next(following)
            if mapped is not None:
                mapped[place * PAGE]
            else:
                os.pread(opened, block * PAGE, place * PAGE)
        done += BURST * block
        took = time.monotonic() - begun
    print(f"{took:.6f} {done}", flush=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    block, length = int(words[4]), int(words[5])
    main(int(words[0]), words[1], words[2], words[3], block, length, float(words[6]), int(words[7]))
