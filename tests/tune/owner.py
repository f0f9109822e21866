# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whose bed is whose: names that carry the owner, and what is left of an owner that was killed.

A bed's directory and control groups are named ``linnet-bed-PID-START``: the process, and the tick of the boot at which
it started, so that another process with the same number is not taken for the owner. Names of any other form stay.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

GROUP = Path("/sys/fs/cgroup")
NAME = "linnet-bed"
ZRAM_CONTROL = Path("/sys/class/zram-control")
ZRAM_MARK = "zram"
"""In the directory of a bed on zram: a file that says which device is its own."""
_OWNED = re.compile(rf"{NAME}-(\d+)-(\d+)(?:-\w+)?")
_ENDS = (signal.SIGTERM, signal.SIGHUP)
_LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def _started(pid: int) -> int | None:
    """The tick of the boot at which a process started; None if it has ended, collected by its parent or not."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])


def name_of(pid: int) -> str:
    """The name of what a process owns."""
    return f"{NAME}-{pid}-{_started(pid)}"


def is_dead(name: str) -> bool:
    """Whether this names what a process owned that is no more."""
    found = _OWNED.fullmatch(name)
    return found is not None and _started(int(found[1])) != int(found[2])


def groups_of(name: str) -> list[Path]:
    """Control groups of this name that exist, of version 2 or of each hierarchy of version 1."""
    return [path for path in (GROUP / name, GROUP / "blkio" / name, GROUP / "memory" / name) if path.is_dir()]


def mounts_below(base: Path) -> list[str]:
    """Mount points in a directory, the last mounted first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in reversed(points) if point.startswith(f"{base}/")]


def loops_below(base: Path) -> list[str]:
    """Loop devices whose backing file is in a directory."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [f"/dev/{file.parts[3]}" for file in files if file.read_text().startswith(f"{base}/")]


def zram_mark(number: str) -> str:
    """A zram device: its number, which others get after it, and what only it has until the machine is started again."""
    sequence = Path(f"/sys/block/zram{number}/diskseq")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{number} {sequence.read_text().strip() if sequence.exists() else ''} {boot}"


def remove_zram(mark: str) -> bool:
    """Remove a zram device and what is on it, if it is still the one that was marked. Whether it is gone."""
    number, *_ = mark.split(" ")
    device = Path(f"/sys/block/zram{number}")
    for _ in range(50):
        if not device.exists() or zram_mark(number) != mark:
            return True
        # A probe of what was just unmounted may keep it busy.
        with contextlib.suppress(OSError):
            (device / "reset").write_text("1")
            (ZRAM_CONTROL / "hot_remove").write_text(number)
        if device.exists():
            time.sleep(0.1)
    return False


def remove_group(group: Path) -> None:
    """Remove a control group; what still runs in it is killed."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            for word in (group / "cgroup.procs").read_text().split():
                os.kill(int(word), signal.SIGKILL)
        with contextlib.suppress(OSError):
            group.rmdir()
        if not group.exists():
            return
        time.sleep(0.1)


def _remove_directory(base: Path) -> None:
    # The file system goes before its device, the device before the memory that it is on.
    for step in (0, 1):
        for point in mounts_below(base):
            if step or point == str(base / "files"):
                subprocess.run(["umount", point], check=False, capture_output=True)
        for device in loops_below(base):
            subprocess.run(["losetup", "-d", device], check=False, capture_output=True)
    mark = base / ZRAM_MARK
    gone = not mark.exists() or remove_zram(mark.read_text())
    if gone and not mounts_below(base):
        shutil.rmtree(base, ignore_errors=True)


def clear_dead() -> list[str]:
    """Take down what killed owners left: processes in their groups, mounts, devices, groups. Gives the paths."""
    groups = [path for place in (GROUP, GROUP / "blkio", GROUP / "memory") for path in place.glob(f"{NAME}-*")]
    bases = list(Path(tempfile.gettempdir()).glob(f"{NAME}-*"))
    dead_groups, dead_bases = ([path for path in paths if is_dead(path.name)] for paths in (groups, bases))
    # A process of the group may keep the file system busy.
    for group in dead_groups:
        remove_group(group)
    for base in dead_bases:
        _remove_directory(base)
    return sorted(map(str, dead_groups + dead_bases))


def end_with_parent() -> None:
    """For a new process: SIGTERM when the thread that started it ends, so that it puts back what it has set."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as an exception does; a second one does not disturb what the first began.

    A handler that someone else has set stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        for one in _ENDS:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    ours = [number for number in _ENDS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that end a process wait until the end of the block, so that nothing is made without its undoing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDS, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
