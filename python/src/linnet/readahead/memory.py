# SPDX-License-Identifier: MIT OR Apache-2.0
"""A control group that limits memory, version 1 or 2, for the readers of a calibration. They join it themselves."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from linnet._native import TuneError

ROOT = Path("/sys/fs/cgroup")
PREFIX = "linnet-calibrate-"
UNLIMITED = 1 << 60
"""Version 1 says so by a number near 2^63."""


def _own(controller: str) -> Path:
    """The group of this process in the hierarchy that has a controller; "" is version 2's."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path(path.lstrip("/"))
    raise TuneError("/proc/self/cgroup: this process is in no memory control group; mount one below /sys/fs/cgroup")


def _place() -> tuple[Path, Path, str]:
    """Root of the hierarchy, our own group below it, and the name of the file with the limit."""
    if (ROOT / "cgroup.controllers").exists():
        return ROOT, _own(""), "memory.max"
    if (ROOT / "memory/memory.limit_in_bytes").exists():
        return ROOT / "memory", _own("memory"), "memory.limit_in_bytes"
    raise TuneError("a calibration needs control groups that limit memory; none is mounted at /sys/fs/cgroup")


def allowance_bytes() -> int | None:
    """The smallest limit of our own group and those above; None without one."""
    root, own, name = _place()
    found = []
    for group in (own, *own.parents):
        with contextlib.suppress(OSError):
            text = (root / group / name).read_text().strip()
            if text != "max" and int(text) < UNLIMITED:
                found.append(int(text))
    return min(found, default=None)


@contextlib.contextmanager
def group(limit_bytes: int) -> Iterator[Path]:
    """A group with this limit. It is removed at the end; what a killed run left is removed at the start."""
    root, own, name = _place()
    # A group of version 2 with processes may have no groups with limits below it: ours goes beside it.
    above = root / (own.parent if name == "memory.max" else own)
    if not above.is_dir():
        above = root
    for old in above.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            old.rmdir()
    made = above / f"{PREFIX}{os.getpid()}"
    if name == "memory.max":
        (above / "cgroup.subtree_control").write_text("+memory")
    made.mkdir()
    try:
        (made / name).write_text(str(limit_bytes))
        yield made
    finally:
        for _ in range(50):
            try:
                made.rmdir()
                break
            except OSError:
                time.sleep(0.1)
