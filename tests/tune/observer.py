# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cases of run.py: what the BPF observer counts, and what it takes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bed import NVME, Bed, Model
from helpers import file_system, reset, script
from linnet import _native
from linnet.readahead.sweep import ADDED, total

PAGES, REPEATS = 1, 2
"""Places in the counters: pages demanded, and demands of what the last one had (crates/tune/src/observe/cell.rs)."""
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


@contextlib.contextmanager
def one_cpu() -> Iterator[None]:
    """Each CPU counts apart: a read and the pages that it brings shall be on the same one."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


def sees_whole_reads() -> bool:
    """Are the observer's programs allowed on this kernel's functions? Its tracepoint leaves some pages out."""
    return not any("reads that wait" in limit for limit in _native.tune_sight()[3])


def nothing_is_demanded_past_the_end(bed: Bed, data: Path, log: Path) -> None:
    """Two hundred files of one page and a half, read with a buffer of a megabyte, are no scan."""
    place = bed.root / "small"
    files = small_files(place, 200, 6000)
    try:
        observer = _native.TuneObserver(place)
        with one_cpu():
            for file in files:
                read_once(file, 1 << 20)
        inodes = {file.stat().st_ino for file in files}
        found = [counts for inode, _, counts in observer.look() if inode in inodes]
    finally:
        shutil.rmtree(place)
    counts = np.asarray(found, dtype=np.uint64).sum(axis=0, dtype=np.uint64)
    assert observer.lost() == 0, "every event was counted"
    assert (counts[0], counts[ADDED]) == (200, 400), counts
    assert counts[PAGES] == 400 or (counts[PAGES] < 400 and not sees_whole_reads()), counts
    _, kib = _native.tune_features(counts[None, :])
    assert kib[0] == 8, "each is a jump, and short"


PARTLY_IN_FLIGHT = """
import os, sys, time
path, go, reads = sys.argv[1], sys.argv[2], int(sys.argv[3])
fd, page, advise = os.open(path, os.O_RDONLY), 4096, os.POSIX_FADV_WILLNEED
at = [n * 64 * page for n in range(reads)]
for begin in at:
    os.posix_fadvise(fd, begin, 20 * page, advise)
time.sleep(0.5)
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.01)
os.posix_fadvise(fd, at[-1] + (4 << 20), 4 << 20, advise)
for begin in at:
    os.posix_fadvise(fd, begin + 20 * page, 12 * page, advise)
    os.pread(fd, 32 * page, begin)
"""
SLOW = Model("slow", 4 << 20, 20_000)
"""What a throttle remembers, and 12 pages more, take it more than a second."""


def sees_whole_reads_that_wait(bed: Bed, data: Path, log: Path) -> None:
    """A read of 32 pages is one demand of 32 pages, though it waits for the last twelve, which another read brings."""
    if not sees_whole_reads():
        print("this kernel allows no program on filemap_read: sees_whole_reads_that_wait tests nothing")
        return
    path, go, reads = bed.root / "waits", log.with_suffix(".go"), 12
    path.write_bytes(os.urandom(16 << 20))
    os.sync()
    reset(path)
    bed.throttle(None)
    try:
        with script(bed, PARTLY_IN_FLIGHT, path, go, reads) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            observer = _native.TuneObserver(path)
            bed.throttle(SLOW)
            go.touch()
            assert process.wait(60) == 0
            found = total(observer.look(), path.stat().st_ino)
    finally:
        bed.throttle(NVME)
        path.unlink()
    assert found is not None and (found[0], found[PAGES]) == (reads, 32 * reads), found


def sees_splice(bed: Bed, data: Path, log: Path) -> None:
    """What sendfile and splice read is demanded once, on kernels where it is a read() and on those where it is not."""
    path = bed.root / "spliced"
    path.write_bytes(os.urandom(1 << 20))
    os.sync()
    reset(path)
    observer = _native.TuneObserver(path)
    into, out = os.open(os.devnull, os.O_WRONLY), os.open(path, os.O_RDONLY)
    with one_cpu():
        while os.sendfile(into, out, None, 1 << 20):
            pass
    os.close(into)
    os.close(out)
    found = total(observer.look(), path.stat().st_ino)
    path.unlink()
    assert found is not None and found[PAGES] == 256 and found[ADDED] == 256, found


def counts_reads_that_are_tried_again_once(bed: Bed, data: Path, log: Path) -> None:
    """io_uring tries a read that would have to wait up to three times."""
    if shutil.which("fio") is None:
        print("fio is not installed: counts_reads_that_are_tried_again_once tests nothing")
        return
    if not sees_whole_reads():
        print("this kernel allows no program on filemap_read: counts_reads_that_are_tried_again_once tests nothing")
        return
    path, reads = bed.root / "again", 2048
    path.write_bytes(os.urandom(reads * 4096))
    os.sync()
    reset(path)
    observer = _native.TuneObserver(path)
    words = [
        "fio",
        "--name=again",
        f"--filename={path}",
        "--ioengine=io_uring",
        "--rw=randread",
        "--bs=4k",
        "--iodepth=16",
    ]
    with one_cpu():
        done = subprocess.run([*words, "--invalidate=0"], check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"no io_uring here ({done.stderr.strip()[-100:]}): counts_reads_that_are_tried_again_once tests nothing")
        return
    found = total(observer.look(), path.stat().st_ino)
    path.unlink()
    assert found is not None
    assert reads <= found[0] + found[REPEATS] <= 1.02 * reads, found


def hot_place(file: Path, cgroup: int) -> int:
    """Where the observer keeps a file that is read much (`cell_of` of crates/tune/bpf/readahead.bpf.c)."""
    return ((file.stat().st_ino ^ cgroup << 8) * 2654435761 & 0xFFFFFFFF) >> 26


def counts_on_where_another_takes_the_place(bed: Bed, data: Path, log: Path) -> None:
    """Of files that share a place, the one that is read much gets it. What the other had counted there is not lost."""
    place = bed.root / "crowded"
    files = small_files(place, 100, 8192)
    try:
        observer = _native.TuneObserver(place)
        read_once(files[0], 1)
        ((_, cgroup, _),) = observer.look()
        by_place: dict[int, list[Path]] = {}
        for file in files[1:]:
            by_place.setdefault(hot_place(file, cgroup), []).append(file)
        first, second = next(some for some in by_place.values() if len(some) > 1)[:2]

        def read(file: Path, times: int) -> None:
            """Reads its two pages in turn."""
            fd = os.open(file, os.O_RDONLY)
            for turn in range(times):
                os.pread(fd, 1, turn % 2 * 4096)
            os.close(fd)

        def seen() -> dict[int, int]:
            return {inode: int(counts[0] + counts[REPEATS]) for inode, _, counts in observer.look()}

        one, other = first.stat().st_ino, second.stat().st_ino
        with one_cpu():
            read(first, 5)
            assert seen() == {one: 5}
            read(first, 3)
            read(second, 5000)
            assert seen() == {one: 3, other: 5000}
            read(first, 2)
            assert seen() == {one: 2}
        assert observer.lost() == 0
    finally:
        shutil.rmtree(place)


TURNS = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
turn = 0
while sys.stdin.buffer.raw.read(1):
    os.pread(file, 1, turn % 2 * 4096)
    turn += 1
    os.write(1, b".")
"""
"""Reads a page for each byte of its input, and says so."""


def groups_of_tasks() -> Path | None:
    """Where control groups of version 2 are, the ones that the observer names."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)


def tells_threads_apart(bed: Bed, data: Path, log: Path) -> None:
    """Two processes of two control groups take turns on one CPU: each read is counted in its reader's group.

    The observer knows a thread by its kernel stack until the kernel's clock ticks, and many turns have room in a tick.
    """
    root = groups_of_tasks()
    if root is None:
        print("no control groups of version 2 here: tells_threads_apart tests nothing")
        return
    turns, path = 1000, bed.root / "turns"
    path.write_bytes(os.urandom(8192))
    groups = [root / f"linnet-turns-{os.getpid()}-{k}" for k in range(2)]
    with contextlib.ExitStack() as undo:
        undo.callback(path.unlink)
        readers = []
        undo.enter_context(one_cpu())
        for group in groups:
            group.mkdir()
            undo.callback(group.rmdir)
        for group in groups:
            pipe = subprocess.PIPE
            process = subprocess.Popen([sys.executable, "-c", TURNS, str(path)], stdin=pipe, stdout=pipe, bufsize=0)
            undo.callback(process.wait)
            undo.callback(process.kill)
            (group / "cgroup.procs").write_text(str(process.pid))
            readers.append(process)

        def read(process: subprocess.Popen[bytes]) -> None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b".")
            assert process.stdout.read(1) == b"."

        def counted() -> dict[int, int]:
            found: dict[int, int] = {}
            for inode, group, counts in observer.look():
                if inode == path.stat().st_ino:
                    found[group] = found.get(group, 0) + int(counts[0] + counts[REPEATS])
            return found

        for process in readers:
            read(process)
        observer = _native.TuneObserver(path)
        for _ in range(turns):
            for process in readers:
                read(process)
        first, second = (group.stat().st_ino for group in groups)
        assert counted() == {first: turns, second: turns}
        (groups[0] / "cgroup.procs").write_text(str(readers[1].pid))
        time.sleep(0.05)
        for _ in range(10):
            read(readers[1])
        assert counted() == {first: 10}, "after it has moved"


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
    try:
        observer = _native.TuneObserver(place)
        before = hash_bytes()
        with one_cpu():
            for file in files:
                read_once(file, 4096)
        each = (hash_bytes() - before) / len(files)
    finally:
        shutil.rmtree(place)
    del observer
    if each == 0:
        print("this kernel does not count it: takes_memory_where_a_file_is_read tests nothing")
        return
    assert each < 700, f"{each:.0f} bytes for each file, on one of {os.cpu_count()} CPUs"
