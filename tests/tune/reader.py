# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a file, or all files of a directory, in one way and prints how far it got: a line `SECONDS OPS` every quarter
of a second.

    python reader.py PATH mmap|pread random|seq|reverse SECONDS [SEED]

Each operation touches one page. Files of a directory have one size, and are read as if one followed the other.
"""

import mmap
import os
import random
import sys
import time

PAGE = 4096


def main(path: str, how: str, order: str, seconds: float, seed: int = 7) -> None:
    """Read until the time is over."""
    paths = sorted(entry.path for entry in os.scandir(path)) if os.path.isdir(path) else [path]
    fds = [os.open(one, os.O_RDONLY) for one in paths]
    each = os.fstat(fds[0]).st_size // PAGE
    pages = each * len(fds)
    chance = random.Random(seed).random
    mapped = [mmap.mmap(fd, 0, prot=mmap.PROT_READ) for fd in fds] if how == "mmap" else None
    done, begun, said = 0, time.monotonic(), 0.0
    while True:
        for _ in range(8):
            page = int(chance() * pages) if order == "random" else done % pages
            if order == "reverse":
                page = pages - 1 - page
            file, page = divmod(page, each)
            if mapped is not None:
                mapped[file][page * PAGE]
            else:
                os.pread(fds[file], PAGE, page * PAGE)
            done += 1
        now = time.monotonic() - begun
        if now - said >= 0.25 or now >= seconds:
            said = now
            print(f"{now:.3f} {done}", flush=True)
        if now >= seconds:
            return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), *map(int, sys.argv[5:6]))
