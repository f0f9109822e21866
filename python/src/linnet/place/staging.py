# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where tenants run together: on a modelled drive, many runs at a time, or on a real one that is set aside, one by one.

On a real drive a run takes as long as it lasts, its outcome is not the same twice, and what tenants write is lost with
what was there before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from linnet._native import DeviceError, SharedDrive, StagingDrive
from linnet.dm import guard
from linnet.dm.host import Host
from linnet.threads import Threads

Stage = SharedDrive | StagingDrive

LATE_US = 1000.0
WAITED = 0.1
"""Of a run: how late a hundredth of its I/Os may be submitted, and for which share of the time with I/Os outstanding a
tenant may wait for a CPU. Beyond, the machine was measured, and not the drive."""


def open_drive(path: str, overwrite: bool) -> StagingDrive:
    """Take a drive for runs. Raises DeviceError if it, or a part of it, is in use."""
    host, real = Host(), Path(path).resolve()
    if real.is_block_device():
        if reasons := guard.in_use(host, guard.device(host, str(real))):
            raise DeviceError("; ".join(reasons))
    elif real.is_file():
        for loop, source in host.loops():
            # A loop device does not claim what it stands on.
            if Path(source).exists() and real.samefile(source):
                raise DeviceError(f"{path} is in use: {loop} stands on it")
    return StagingDrive(real, overwrite)


def fill(drive: StagingDrive, progress: Callable[[str, int, int], None]) -> None:
    """Write a drive as a whole."""
    drive.fill(lambda done, all_bytes: progress("filling the drive", done, all_bytes))


def identity(path: str) -> str:
    """What a drive is, whatever the path to it: by what it says of itself, a file by its inode."""
    real = Path(path).resolve()
    if real.is_block_device():
        host = Host()
        return host.identity(host.number(str(real))) or str(real)
    about = real.stat()
    return f"inode {about.st_ino} on {os.major(about.st_dev)}:{os.minor(about.st_dev)}"


def threads_of(stage: Stage, count: int | None = None) -> Threads:
    """Threads that run tenants, by default one for each CPU. A real drive has one, whose run a signal ends."""
    if not isinstance(stage, StagingDrive):
        return Threads(count)
    stage.resume()
    return Threads(1, stage.stop)
