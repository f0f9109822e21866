# SPDX-License-Identifier: MIT OR Apache-2.0
"""Page-cache events of one device from tracefs: what KML's hooks saw. Needs root, and 6.12 for the faults."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

EVENTS = ("filemap/mm_filemap_add_to_page_cache", "filemap/mm_filemap_fault", "writeback/writeback_dirty_folio")
"""Pages that come into memory, faults of mappings, and pages that become dirty: KML mixes the three."""
ADDED = re.compile(rb"ofs=(\d+)(?: order=(\d+))?|index=(\d+)")
BUFFER_KIB = 8192
CHUNK = 1 << 22
PAGE = 4096

Indices = NDArray[np.int64]


def parse(text: bytes) -> Indices:
    """Page indices in the order of the events. A folio of several pages counts as that many: on 4.19 each page was an
    event of its own."""
    first, pages = [], []
    for offset, order, index in ADDED.findall(text):
        first.append(int(index) if index else int(offset) // PAGE)
        pages.append(1 << int(order) if order else 1)
    starts, counts = np.asarray(first, dtype=np.int64), np.asarray(pages, dtype=np.int64)
    if not len(starts) or int(counts.max()) == 1:
        return starts
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


class Pipe:
    """Events since the last read."""

    def __init__(self, instance: Path) -> None:
        self._instance = instance
        self._fd = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._rest = b""

    def read(self) -> Indices:
        """Page indices of the events since the last call."""
        parts = [self._rest]
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._fd, CHUNK):
                parts.append(chunk)
        text, newline, self._rest = b"".join(parts).rpartition(b"\n")
        return parse(text + newline)

    def lost(self) -> int:
        """Events that did not fit into the kernel's buffers."""
        stats = (path.read_text() for path in self._instance.glob("per_cpu/cpu*/stats"))
        return sum(int(found[1]) for text in stats if (found := re.search(r"^overrun: (\d+)", text, re.MULTILINE)))

    def close(self) -> None:
        """Read no more."""
        os.close(self._fd)


@contextlib.contextmanager
def pipe(dev: str) -> Iterator[Pipe]:
    """Events of the file system on device ``dev`` (MAJOR:MINOR), in a tracing instance and on a mount of our own."""
    major, minor = map(int, dev.split(":"))
    number = major << 20 | minor
    with contextlib.ExitStack() as undo:
        root = Path(tempfile.mkdtemp(prefix="linnet-tracefs-"))
        undo.callback(root.rmdir)
        subprocess.run(["mount", "-t", "tracefs", "tracefs", str(root)], check=True, capture_output=True)
        undo.callback(subprocess.run, ["umount", "-l", str(root)], check=True, capture_output=True)
        instance = root / "instances" / f"linnet-kml-{os.getpid()}"
        instance.mkdir()
        undo.callback(instance.rmdir)
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        # Times and task names are not used, and make half of each line.
        (instance / "options/context-info").write_text("0")
        for event in EVENTS:
            wanted = f'name == "{dev}"' if event.startswith("writeback") else f"s_dev == {number}"
            (instance / "events" / event / "filter").write_text(wanted)
            (instance / "events" / event / "enable").write_text("1")
            undo.callback((instance / "events" / event / "enable").write_text, "0")
        opened = Pipe(instance)
        undo.callback(opened.close)
        yield opened
