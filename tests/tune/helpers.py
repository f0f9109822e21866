# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the cases of run.py share: events of a tuner, values of open files, a reader, waiting."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bed import Bed
from linnet import _native

READER = Path(__file__).with_name("reader.py")


def events(log: Path, *kinds: str) -> list[dict[str, Any]]:
    """Events of these kinds so far."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return [event for event in lines if event["kind"] in kinds]


def wait(what: str, condition: Callable[[], Any], seconds: float = 15.0) -> Any:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"after {seconds:.0f} s still not: {what}")


def values(path: Path, process: int) -> list[int]:
    """Readahead of the file's descriptors in a process, as the kernel has it."""
    return [kib for owner, _, kib, _ in _native.tune_open_files(path) if owner == process]


def reset(path: Path) -> None:
    """Forget the pages of a file."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


@contextlib.contextmanager
def file_system(kind: str, log: Path) -> Iterator[Path]:
    """A small file system of this kind, mounted until the block ends."""
    image, place = log.with_suffix(".image"), log.with_suffix(".mount")
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(128 << 20)
    subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def running(bed: Bed, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in the bed's groups, until the block ends."""
    process = bed.start(words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def script(bed: Bed, code: str, *words: object) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """A Python program with these arguments, until the block ends."""
    return running(bed, [sys.executable, "-c", code, *map(str, words)])


@contextlib.contextmanager
def reader(
    bed: Bed, path: Path, order: str, seconds: float = 60.0, how: str = "mmap"
) -> Iterator[subprocess.Popen[str]]:
    """Our reader, until the block ends."""
    reset(path)
    with running(bed, [sys.executable, str(READER), str(path), how, order, str(seconds)]) as process:
        yield process


def settled(path: Path, process: int, kib: int) -> Callable[[], bool]:
    """True when every descriptor has this value."""
    return lambda: set(values(path, process)) == {kib}
