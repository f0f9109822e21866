# SPDX-License-Identifier: MIT OR Apache-2.0
"""A repeatable device for readahead: memory as a block device, throttled by a control group, under a memory limit.

The throttle is the device model: a limit on bytes and on I/Os per second, independent of other load on the machine.
Needs root, loop devices and control groups (version 1 or 2); `missing` says what this machine lacks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from owner import (
    GROUP,
    ZRAM_CONTROL,
    ZRAM_MARK,
    clear_dead,
    end_with_parent,
    name_of,
    remove_group,
    remove_zram,
    undisturbed,
    unwinding,
    zram_mark,
)


@dataclass(frozen=True)
class Model:
    """What the throttle lets through each second."""

    name: str
    read_bytes: int
    read_iops: int


NVME = Model("nvme", 200 << 20, 20_000)
SATA = Model("sata", 50 << 20, 4_000)
THROTTLE_SECONDS = 1.0
"""How long an idle throttle remembers."""
MODELS = {model.name: model for model in (NVME, SATA)}


def missing() -> str | None:
    """Why the bed cannot be made here; None where it can."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("losetup", "mkfs.ext4", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"needs {tool}"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    two = GROUP / "cgroup.controllers"
    if two.exists():
        there = two.read_text().split()
        return None if {"io", "memory"} <= set(there) else "needs the io and memory controllers of control groups"
    if not (GROUP / "blkio/blkio.throttle.read_bps_device").exists() and not (GROUP / "blkio/cgroup.procs").exists():
        return "needs control groups that throttle block I/O"
    return None if (GROUP / "memory/memory.limit_in_bytes").exists() else "needs control groups that limit memory"


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Bed:
    """The device, its file system and the control group. A context manager: everything is taken down at the end.

    The end may be SIGTERM or SIGHUP; what a killed process left is taken down by the next bed.
    """

    mkfs_options: tuple[str, ...] = ("lazy_itable_init=0", "lazy_journal_init=0")

    def __init__(self, model: Model | None, memory_bytes: int, size_bytes: int) -> None:
        """``model`` None is no throttle: for a device that has a speed of its own."""
        self.model = model
        self.memory_bytes = memory_bytes
        self.size_bytes = size_bytes
        self._undo = contextlib.ExitStack()
        self.device = ""
        self.root = Path()

    def __enter__(self) -> Bed:
        for name in clear_dead():
            print(f"cleared {name}, which a killed process left", file=sys.stderr)
        with contextlib.ExitStack() as undo:
            undo.enter_context(unwinding())
            with undisturbed():
                self._undo = undo
                base = Path(tempfile.mkdtemp(prefix=f"{name_of(os.getpid())}-"))
                undo.callback(shutil.rmtree, base, ignore_errors=True)
                self.root = base / "files"
                self.root.mkdir()
                self.device = self.attach(base, undo)
                _run("mkfs.ext4", "-q", "-E", ",".join(self.mkfs_options), self.device)
                self._mount()
                undo.callback(self._unmount)
                self.knob = Path(f"/sys/block/{Path(self.device).name}/queue/read_ahead_kb")
                self.dev = Path(f"/sys/block/{Path(self.device).name}/dev").read_text().strip()
                self.before_kib = self.value()
                undo.callback(lambda: self.set(self.before_kib))
                self._group()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def attach(self, base: Path, undo: contextlib.ExitStack) -> str:
        """Make the block device, with its files under ``base``; what takes it down goes on ``undo``."""
        memory = base / "memory"
        memory.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={self.size_bytes + (64 << 20)}", "tmpfs", str(memory))
        undo.callback(_run, "umount", "-l", str(memory))
        image = memory / "image"
        with image.open("wb") as file:
            file.truncate(self.size_bytes)
        device = _run("losetup", "-f", "--show", str(image))
        undo.callback(_run, "losetup", "-d", device)
        return device

    def _mount(self) -> None:
        _run("mount", "-o", "noatime", self.device, str(self.root))

    def _unmount(self) -> None:
        for _ in range(50):
            if subprocess.run(["umount", str(self.root)], check=False, capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        _run("umount", "-l", str(self.root))

    def _group(self) -> None:
        name = name_of(os.getpid())
        if (GROUP / "cgroup.controllers").exists():
            (GROUP / "cgroup.subtree_control").write_text("+io +memory")
            self.groups = [GROUP / name]
            self.groups[0].mkdir()
            (self.groups[0] / "memory.max").write_text(str(self.memory_bytes))
            (self.groups[0] / "memory.swap.max").write_text("0")
        else:
            self.groups = [GROUP / "blkio" / name, GROUP / "memory" / name]
            for group in self.groups:
                group.mkdir()
            (self.groups[1] / "memory.limit_in_bytes").write_text(str(self.memory_bytes))
        self._undo.callback(self._ungroup)
        self.throttle(self.model)

    def _ungroup(self) -> None:
        for group in self.groups:
            remove_group(group)

    def throttle(self, model: Model | None) -> None:
        """Set the device's speed; None for no limit, to fill it."""
        if (GROUP / "cgroup.controllers").exists():
            limits = f"rbps={model.read_bytes} riops={model.read_iops}" if model else "rbps=max riops=max"
            (self.groups[0] / "io.max").write_text(f"{self.dev} {limits}")
            return
        for name, value in (("bps", model.read_bytes if model else 0), ("iops", model.read_iops if model else 0)):
            (self.groups[0] / f"blkio.throttle.read_{name}_device").write_text(f"{self.dev} {value}")

    def value(self) -> int:
        """The device's readahead, in KiB."""
        return int(self.knob.read_text())

    def set(self, kib: int) -> None:
        """Set the device's readahead."""
        self.knob.write_text(str(kib))

    def cold(self) -> None:
        """Forget everything that was read: a fresh mount has no page in memory. What begins at once would have what
        the throttle had left over, 4 % of a scan of two seconds; what begins with a tuner would not."""
        self._unmount()
        self._mount()
        time.sleep(THROTTLE_SECONDS)

    def reads(self) -> tuple[int, int]:
        """I/Os and bytes that the device has read since it was made."""
        words = Path(f"/sys/block/{Path(self.device).name}/stat").read_text().split()
        return int(words[0]), int(words[2]) * 512

    def read_bytes(self) -> int:
        """Bytes that the device has read since it was made."""
        return self.reads()[1]

    def needed_seconds(self, before: tuple[int, int], after: tuple[int, int] | None = None) -> float:
        """What the device model needs at least for the reads since `before`: the bound of a run on an idle machine."""
        if self.model is None:
            raise ValueError("a device without a throttle has no bound")
        ios, read = (now - then for now, then in zip(after or self.reads(), before, strict=True))
        return max(ios / self.model.read_iops, read / self.model.read_bytes)

    def start(self, words: Sequence[str], *, limited: bool = True) -> subprocess.Popen[str]:
        """Start a program inside the control group. `limited=False`: without its memory limit, where that is a group of
        its own (version 1); the device's speed is the model's all the same."""
        groups = self.groups if limited else self.groups[:1]

        def join() -> None:
            for group in groups:
                (group / "cgroup.procs").write_text("0")

        pipe = subprocess.PIPE
        return subprocess.Popen(list(words), stdout=pipe, stderr=pipe, text=True, preexec_fn=join)  # noqa: PLW1509

    def run(self, words: Sequence[str]) -> str:
        """Run a program inside the control group to its end and give its output."""
        process = self.start(words)
        out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{' '.join(words)}: status {process.returncode}: {err.strip()[-500:]}")
        return out + err

    def fill(self, name: str, size_bytes: int) -> Path:
        """A file of noise."""
        path = self.root / name
        block = os.urandom(1 << 20)
        with path.open("wb") as file:
            for at in range(0, size_bytes, len(block)):
                file.write(block[: size_bytes - at])
            os.fsync(file.fileno())
        return path


class ZramBed(Bed):
    """On zram instead of a loop device, for rates: a loop device hands every read to a thread, which costs two CPUs so
    much that random reads end below the 20,000 a second of the NVMe-like model, and twice as fast in one run as in the
    next; zram copies where the read is submitted, and the throttle alone is the limit."""

    def attach(self, base: Path, undo: contextlib.ExitStack) -> str:
        """See :meth:`Bed.attach`."""
        number = ZRAM_CONTROL.joinpath("hot_add").read_text().strip()
        mark = zram_mark(number)
        (base / ZRAM_MARK).write_text(mark)
        undo.callback(remove_zram, mark)
        disk = Path(f"/sys/block/zram{number}")
        if "lz4" in (disk / "comp_algorithm").read_text().split():
            (disk / "comp_algorithm").write_text("lz4")
        (disk / "disksize").write_text(str(self.size_bytes))
        return f"/dev/zram{number}"


def bed_for_rates(model: Model, memory_bytes: int, size_bytes: int) -> Bed:
    """The bed on which a benchmark measures rates: on zram where the kernel has it."""
    if not ZRAM_CONTROL.exists() and shutil.which("modprobe") is not None:
        subprocess.run(["modprobe", "zram", "num_devices=0"], check=False, capture_output=True)
    kind = ZramBed if ZRAM_CONTROL.exists() else Bed
    return kind(model, memory_bytes, size_bytes)


LINNET = Path(sys.executable).parent / "linnet"


@contextlib.contextmanager
def tuner(bed: Bed, log: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`linnet tune readahead` on the bed, from when it observes until the block ends. Events go to `log`."""
    words = [str(LINNET), "tune", "readahead", "--json", "--device", bed.device, *more]
    with log.open("w") as out, (log.with_suffix(".err")).open("w") as err:
        process = subprocess.Popen(words, stdout=out, stderr=err, text=True, preexec_fn=end_with_parent)  # noqa: PLW1509
        lock = Path("/run/linnet/tune/lock")
        for _ in range(300):
            if lock.exists() and lock.read_text().strip() == str(process.pid):
                break
            if process.poll() is not None:
                raise RuntimeError(f"the tuner ended: {log.with_suffix('.err').read_text()}")
            time.sleep(0.05)
        time.sleep(0.3)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)
