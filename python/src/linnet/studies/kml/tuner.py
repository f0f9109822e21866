# SPDX-License-Identifier: MIT OR Apache-2.0
"""KML's tuner: once a second its network names the workload, and the device and its open files get that one's value.

In KML a patched page-fault path gives a file the device's value at every fault. Here open files are set by
``posix_fadvise(NORMAL)`` on a duplicate of the descriptor, once a change; the effect is the same or sooner.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from linnet._native import KnobModel
from linnet.studies.kml.events import Indices, Pipe, pipe
from linnet.studies.kml.features import features

CLASSES = ("readrandom", "readrandomwriterandom", "readseq", "readreverse")
VALUES_KIB = (8, 8, 320, 480)
PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


def duplicate(process: int, fd: int) -> int | None:
    """A duplicate of another process's descriptor; None where it is gone."""
    try:
        holder = os.pidfd_open(process)
    except OSError:
        return None
    try:
        copy = _libc.syscall(PIDFD_GETFD, holder, fd, 0)
    finally:
        os.close(holder)
    return copy if copy >= 0 else None


def adopt(processes: list[int], root: Path) -> int:
    """Give all open files below ``root`` of these processes the device's value. Gives how many."""
    done = 0
    for process in processes:
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{process}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if not os.readlink(entry).startswith(f"{root}/"):
                        continue
                    copy = duplicate(process, int(entry.name))
                    if copy is not None:
                        os.posix_fadvise(copy, 0, 0, os.POSIX_FADV_NORMAL)
                        os.close(copy)
                        done += 1
    return done


class Tuner:
    """Decides once a second until it is stopped."""

    def __init__(self, model: KnobModel, events: Pipe, knob: Path, procs: Path, root: Path) -> None:
        self._model, self._events, self._knob, self._procs, self._root = model, events, knob, procs, root
        self._end = threading.Event()
        self.changes: list[tuple[float, int]] = []
        """When and to what it changed, in seconds and KiB."""

    def run(self) -> None:
        """The loop, for a thread."""
        begun = time.monotonic()
        while not self._end.wait(1.0):
            self.step(self._events.read(), time.monotonic() - begun)

    def step(self, indices: Indices, now: float) -> None:
        """One window."""
        stands = int(self._knob.read_text())
        row = features(indices, stands)
        if row is None:
            return
        values, _ = self._model.decide(np.ascontiguousarray(row[None, :]))
        kib = int(values[0])
        if kib != stands:
            self._knob.write_text(str(kib))
            self.changes.append((now, kib))
            adopt([int(word) for word in self._procs.read_text().split()], self._root)

    def stop(self) -> None:
        """End the loop after the step that runs."""
        self._end.set()


@contextlib.contextmanager
def tuning(model: KnobModel, dev: str, knob: Path, procs: Path, root: Path) -> Iterator[Tuner]:
    """KML's tuner on a device, until the block ends. The device's value is put back."""
    before = knob.read_text()
    with pipe(dev) as events:
        tuner = Tuner(model, events, knob, procs, root)
        thread = threading.Thread(target=tuner.run)
        thread.start()
        try:
            yield tuner
        finally:
            tuner.stop()
            thread.join()
            knob.write_text(before)
