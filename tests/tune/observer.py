# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of run.py: what the BPF observer counts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
from bed import Bed
from helpers import file_system, reset
from linnet import _native
from linnet.readahead.sweep import ADDED, total

PAGES = 1
"""Place of the pages demanded in the counters (crates/tune/src/observe/cell.rs)."""


def small_files(place: Path, count: int, size_bytes: int) -> list[Path]:
    """New files, not in memory."""
    place.mkdir()
    files = [place / str(number) for number in range(count)]
    for file in files:
        file.write_bytes(os.urandom(size_bytes))
    os.sync()
    for file in files:
        reset(file)
    return files


def read_once(file: Path, size_bytes: int) -> None:
    """Open, one read, close."""
    fd = os.open(file, os.O_RDONLY)
    os.read(fd, size_bytes)
    os.close(fd)


def nothing_is_demanded_past_the_end(bed: Bed, data: Path, log: Path) -> None:
    """Two hundred files of one page and a half, read with a buffer of a megabyte, are no scan."""
    place = bed.root / "small"
    files = small_files(place, 200, 6000)
    try:
        observer = _native.TuneObserver(place)
        for file in files:
            read_once(file, 1 << 20)
        inodes = {file.stat().st_ino for file in files}
        found = [counts for inode, _, counts in observer.look() if inode in inodes]
    finally:
        shutil.rmtree(place)
    counts = np.asarray(found, dtype=np.uint64).sum(axis=0, dtype=np.uint64)
    assert (counts[0], counts[PAGES], counts[ADDED]) == (200, 400, 400), counts
    _, kib = _native.tune_features(counts[None, :])
    assert kib[0] == 8, "each is a jump, and short"


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
