# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of run.py: what the BPF observer counts."""

from __future__ import annotations

import os
from pathlib import Path

from bed import Bed
from helpers import file_system, reset
from linnet import _native
from linnet.readahead.sweep import total

PAGES = 1
"""Place of the pages demanded in the counters (crates/tune/src/observe/cell.rs)."""


def read_once(file: Path, size_bytes: int) -> None:
    """Open, one read, close."""
    fd = os.open(file, os.O_RDONLY)
    os.read(fd, size_bytes)
    os.close(fd)


def sees_one_file_system_of_a_device(bed: Bed, data: Path, log: Path) -> None:
    """A file of another file system with the same inode number is not taken for the one that is observed."""
    with file_system("ext4", log) as place:
        own = place / "own"
        own.write_bytes(os.urandom(1 << 16))
        inode = own.stat().st_ino
        assert inode == data.stat().st_ino, "each is the first file of its file system"
        reset(own)
        reset(data)
        observer = _native.TuneObserver(own)
        read_once(data, 1 << 16)
        assert total(observer.look(), inode) is None, "the other file"
        read_once(own, 1 << 16)
        found = total(observer.look(), inode)
        assert found is not None and found[PAGES] == 16, found
        del observer
