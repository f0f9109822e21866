# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of run.py: what the BPF observer counts, and what it takes."""

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
BPF_HASH, BPF_PERCPU_HASH = "1", "5"


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


def hash_bytes() -> int:
    """Memory of our BPF hash maps, as the kernel counts it."""
    found = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            lines = dict(line.split(":\t", 1) for line in info.read_text().splitlines() if ":\t" in line)
        except FileNotFoundError:
            continue
        if lines.get("map_type") in (BPF_HASH, BPF_PERCPU_HASH):
            found += int(lines["memlock"])
    return found


def takes_memory_where_a_file_is_read(bed: Bed, data: Path, log: Path) -> None:
    """A file takes as much as the CPUs need that read it, not as much as all CPUs of the machine."""
    place = bed.root / "known"
    files = small_files(place, 1000, 4096)
    cpus = os.sched_getaffinity(0)
    try:
        observer = _native.TuneObserver(place)
        os.sched_setaffinity(0, {min(cpus)})
        before = hash_bytes()
        for file in files:
            read_once(file, 4096)
        each = (hash_bytes() - before) / len(files)
    finally:
        os.sched_setaffinity(0, cpus)
        shutil.rmtree(place)
    del observer
    if each == 0:
        print("this kernel does not count it: takes_memory_where_a_file_is_read tests nothing")
        return
    assert each < 700, f"{each:.0f} bytes for each file, on one of {len(cpus)} CPUs"
