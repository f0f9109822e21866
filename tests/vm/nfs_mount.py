# SPDX-License-Identifier: MIT OR Apache-2.0
"""An NFS mount inside a machine of `nfs.sh`, and the events of a tuner on it. Standard library only: it starts fast."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LINNET = Path(sys.executable).parent / "linnet"
READER = ROOT / "build/vm/nfsread"
LOCK = Path("/run/linnet/tune/lock")
JOURNAL = Path("/run/linnet/tune/journal.json")
GROUP = Path("/run/readers-cgroup/readers")
MEMORY = 48 << 20  # of all readers: less than a file, so that none is ever read from memory alone
SLOW = 300.0  # emulated machines are slow; nothing here is a bound on speed


def mounts(point: Path) -> list[tuple[str, str]]:
    """Device number and options of what is mounted at a path, the topmost last."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [(words[2], words[-1]) for words in lines if words[4] == str(point)]


def rsize_kib(point: Path) -> int:
    """Read size of the topmost mount."""
    options = mounts(point)[-1][1].split(",")
    return int(next(word for word in options if word.startswith("rsize=")).removeprefix("rsize=")) // 1024


def knob(point: Path) -> Path:
    """The readahead of the topmost mount."""
    return Path(f"/sys/class/bdi/{mounts(point)[-1][0]}/read_ahead_kb")


class Log:
    """What a tuner printed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(self, *kinds: str, knob: str = "readahead") -> list[dict[str, Any]]:
        """Events of these kinds so far."""
        lines = [json.loads(line) for line in self.path.read_text().splitlines() if line.endswith("}")]
        return [event for event in lines if event["kind"] in kinds and event["knob"] == knob]


def wait(what: str, condition: Callable[[], Any], log: Log | None = None) -> Any:
    """Wait until something holds."""
    end = time.monotonic() + SLOW
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    said = f"\n{log.path.read_text()[-3000:]}\n{log.path.with_suffix('.err').read_text()[-2000:]}" if log else ""
    raise AssertionError(f"not within {SLOW:.0f} s: {what}{said}")


def make_group() -> None:
    """A control group that limits the readers' memory, page cache included."""
    GROUP.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", str(GROUP.parent)], check=True)
    (GROUP.parent / "cgroup.subtree_control").write_text("+memory")
    GROUP.mkdir(exist_ok=True)
    (GROUP / "memory.max").write_text(str(MEMORY))


def join_group() -> None:
    """Puts the calling process into the group."""
    (GROUP / "cgroup.procs").write_text("0")
