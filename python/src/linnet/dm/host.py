# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine: block devices, sysfs, and the commands that change something. Tests use a fake one."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from linnet.dm import DmError, NotABlockDeviceError
from linnet.files import write_whole

SECTOR = 512
INSTALL_HINT = {
    "dmsetup": "apt-get install dmsetup",
    "modprobe": "apt-get install kmod",
    "mdadm": "apt-get install mdadm",
}


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """One process at a time, ``/usr/lib/linnet/volume`` included, looks at what is in a directory and changes it."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _reason(log: int) -> str:
    """The last line about the target in what is left of the kernel log."""
    lines = []
    # Each read gives a record, and an error where there is no more of them or some were overwritten.
    with suppress(OSError):
        while record := os.read(log, 8192):
            lines += record.decode(errors="replace").splitlines()
    said = [line.split("device-mapper: ", 1)[1] for line in lines if "device-mapper: " in line and "linnet" in line]
    return f"; the kernel: {said[-1]}" if said else ""


class Host:
    """What the commands see of a machine whose root directory is ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def firmware(self) -> Path:
        """Where the kernel looks for model files."""
        return self.root / "lib/firmware/linnet"

    def description(self, name: str) -> Path:
        """What a volume above md is started with, at boot (``/usr/lib/linnet/volume``) and by ``linnet dm start``."""
        return self.root / "etc/linnet/volumes.d" / f"{name}.conf"

    def must_repair(self, name: str) -> list[Path]:
        """One of them exists where md must compare the members of a volume's array before they are trusted: the note of
        ``volume leg``, and the copy of it that the next start finds, by ``linnet dm trust``."""
        return [self.root / place / f"{name}.repair" for place in ("run/linnet", "var/lib/linnet/volumes")]

    def initramfs_copies(self) -> bool:
        """Are descriptions copied into the initramfs, by our hook of initramfs-tools?"""
        needed = ("usr/share/initramfs-tools/hooks/linnet", "usr/sbin/update-initramfs")
        return all((self.root / path).exists() for path in needed)

    @contextmanager
    def held(self, name: str | None) -> Iterator[None]:
        """Keep udev from putting this volume or its array together. What ends this process ends that, too."""
        if name is None:
            yield
            return
        sign = self.root / "run/linnet" / f"{name}.hold"
        began = self._began(os.getpid())
        own = f"{os.getpid()}\n{began}\n" if began else f"{os.getpid()}\n"
        try:
            sign.parent.mkdir(parents=True, exist_ok=True)
            with _locked(sign.parent):
                if (worker := self._worker(sign)) is not None:
                    raise DmError(f"{name}: another command, process {worker}, is at work on it")
                # Whole: udev reads it without the lock.
                write_whole(sign, own, follow=False)
        except OSError as error:
            raise DmError(f"{sign}: {error.strerror}") from error
        try:
            yield
        finally:
            if sign.exists() and sign.read_text() == own:
                sign.unlink()
                self._again(sign.with_suffix(".later"))

    def _worker(self, sign: Path) -> int | None:
        """The living process that holds a volume."""
        try:
            number, *began = sign.read_text().split()
            worker = int(number)
        except (FileNotFoundError, ValueError):
            return None
        # Earlier versions did not note when they began.
        same = not began or began == [self._began(worker)]
        return worker if same and (self.root / f"proc/{worker}").exists() else None

    def _began(self, process: int) -> str:
        """When a process began, which tells it from a later one with its number; empty if it is not there."""
        try:
            about = (self.root / f"proc/{process}/stat").read_text()
        except OSError:
            return ""
        # The 22nd field. The second is its name, in brackets, which may have any.
        return about.rpartition(")")[2].split()[19]

    def _again(self, missed: Path) -> None:
        """Let the drives come again that came while udev was kept away: md's rules take a bare disk by its ``add``."""
        try:
            numbers = set(missed.read_text().split())
            missed.unlink()
        except FileNotFoundError:
            return
        for number in sorted(numbers):
            drive = self.root / "sys/dev/block" / number
            with suppress(OSError):  # it may have gone
                if not list((drive / "holders").iterdir()):
                    (drive / "uevent").write_text("add\n")

    @property
    def tracing(self) -> Path:
        """The mount of tracefs."""
        return self.root / "sys/kernel/tracing"

    def is_root(self) -> bool:
        """May we change something at all?"""
        return os.geteuid() == 0

    def module_loaded(self) -> bool:
        """Does the kernel know the target?"""
        return (self.root / "sys/module/dm_linnet").exists()

    def number(self, path: str) -> tuple[int, int]:
        """Major and minor of a block device."""
        try:
            about = Path(path).stat()
        except OSError as error:
            raise DmError(f"{path}: {error.strerror}") from error
        if not stat.S_ISBLK(about.st_mode):
            hint = "; losetup makes one of a file" if stat.S_ISREG(about.st_mode) else ""
            raise NotABlockDeviceError(f"{path}: not a block device{hint}")
        return os.major(about.st_rdev), os.minor(about.st_rdev)

    def sysfs(self, number: tuple[int, int]) -> Path:
        """The directory of a block device in sysfs, resolved."""
        return (self.root / "sys/dev/block" / f"{number[0]}:{number[1]}").resolve()

    def sectors(self, number: tuple[int, int]) -> int:
        """Size in sectors of 512 bytes."""
        return int((self.sysfs(number) / "size").read_text())

    def name(self, number: tuple[int, int]) -> str:
        """What the kernel calls a block device below ``/dev``, such as ``nvme0n1``; ``major:minor`` when it is gone."""
        path = self.sysfs(number)
        # sysfs cannot have the / of such as etherd/e0.0.
        return path.name.replace("!", "/") if path.exists() else f"{number[0]}:{number[1]}"

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Bytes of a device."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(handle, size, offset)
            finally:
                os.close(handle)
        except OSError as error:
            raise DmError(f"{path}: {error.strerror}") from error

    def busy(self, path: str) -> bool:
        """Has the kernel lent the device to somebody: a mount, another target, an array?"""
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
            raise DmError(f"{path}: {error.strerror}") from error
        return False

    def mounts(self) -> list[tuple[str, str, str]]:
        """Mounted file systems: ``major:minor``, source, directory."""
        found = []
        for line in (self.root / "proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            fields, behind = before.split(), after.split()
            found.append((fields[2], behind[1], fields[4]))
        return found

    def swaps(self) -> list[str]:
        """Devices and files that are swapped to."""
        path = self.root / "proc/swaps"
        return [line.split()[0] for line in path.read_text().splitlines()[1:]] if path.exists() else []

    def loops(self) -> list[tuple[str, str]]:
        """Loop devices, and the file or device that each stands on."""
        found = sorted((self.root / "sys/block").glob("loop*/loop/backing_file"))
        return [(path.parent.parent.name, path.read_text().rstrip("\n")) for path in found]

    def identity(self, number: tuple[int, int]) -> str | None:
        """What a drive says it is, whatever the path to it, with the partition; nothing where it says nothing."""
        own, disk = self._disk(number)
        if (drive := self._drive(disk)) is None:
            return None
        known, begin = drive
        known += f" from byte {begin}" if (disk / "loop").exists() else ""
        return known if own == disk else f"{known}, partition {(own / 'partition').read_text().strip()}"

    def extent(self, number: tuple[int, int]) -> tuple[str, int, int] | None:
        """What the drive of a device says it is, and where on it the device begins and ends, in bytes.

        Nothing where the drive says nothing.
        """
        own, disk = self._disk(number)
        if (drive := self._drive(disk)) is None:
            return None
        known, begin = drive
        begin += int((own / "start").read_text()) * SECTOR if own != disk else 0
        return known, begin, begin + self.sectors(number) * SECTOR

    def _disk(self, number: tuple[int, int]) -> tuple[Path, Path]:
        """A device in sysfs, and the disk that it is or is a partition of."""
        own = self.sysfs(number)
        return own, own.parent if (own / "partition").exists() else own

    def _drive(self, disk: Path) -> tuple[str, int] | None:
        """What a disk says it is, and the byte of that at which it begins."""
        if (below := self._stands_on(disk / "loop")) is not None:
            return below
        # The last is what virtio drives have.
        for name in ("wwid", "device/wwid", "serial"):
            if (path := disk / name).exists() and (known := " ".join(path.read_text().split())):
                return known, 0
        return None

    def _stands_on(self, loop: Path) -> tuple[str, int] | None:
        """The file below a loop device, whatever its name: two loop devices on it are parts of one drive."""
        try:
            file = Path((loop / "backing_file").read_text().rstrip("\n")).stat()
            offset = int((loop / "offset").read_text())
        except OSError:
            return None
        number = file.st_rdev if stat.S_ISBLK(file.st_mode) else file.st_dev
        what = "the device" if stat.S_ISBLK(file.st_mode) else f"inode {file.st_ino} on"
        return f"{what} {os.major(number)}:{os.minor(number)}", offset

    def signature(self, path: str) -> str | None:
        """What blkid recognises on a device, in words; nothing where it finds nothing or is not installed."""
        try:
            done = self._call(["blkid", "-p", "-o", "export", path])
        except FileNotFoundError:
            return None
        known = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        if kind := known.get("TYPE"):
            label = f" {known['LABEL']!r}" if "LABEL" in known else ""
            return f"a signature of {kind}{label}"
        if kind := known.get("PTTYPE"):
            return f"a partition table ({kind})"
        # 8: several signatures that contradict each other.
        return "signatures of several kinds" if done.returncode == 8 else None

    def program(self, word: str) -> str | None:
        """Where a program is."""
        return shutil.which(word, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")

    def need(self, words: Iterable[str]) -> None:
        """Raise for the first program that is not there."""
        for word in words:
            if self.program(word) is None:
                hint = f"; install it with: {INSTALL_HINT[word]}" if word in INSTALL_HINT else ""
                raise DmError(f"{word}: not found{hint}")

    def run(self, words: list[str]) -> str:
        """Run a command; its standard output. A failure is an error that says what the kernel said."""
        self.need(words[:1])
        with self._kernel_log(words) as news:
            done = self._call(words)
            reason = news() if done.returncode else ""
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"status {done.returncode}"
            # dmsetup says this in five lines; without permission it says another word.
            if "/dev/mapper/control: open failed: No such" in said:
                raise DmError("the kernel has no device-mapper: modprobe dm-mod")
            raise DmError(f"{shlex.join(words)}: {said}{reason}")
        return done.stdout

    @contextmanager
    def _kernel_log(self, words: list[str]) -> Iterator[Callable[[], str]]:
        """What this yields gives the reason that device-mapper has logged since then, and does not return."""
        if words[:1] != ["dmsetup"] or words[1:2] not in (["create"], ["message"], ["load"], ["resume"]):
            yield lambda: ""
            return
        try:
            log = os.open(self.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            yield lambda: ""
            return
        try:
            os.lseek(log, 0, os.SEEK_END)
            yield lambda: _reason(log)
        finally:
            os.close(log)

    def _call(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        if (program := self.program(words[0])) is None:
            raise FileNotFoundError(words[0])
        # In a session of its own: Ctrl-C at the terminal is for us, and a command that changes something ends first.
        return subprocess.run(
            [program, *words[1:]], capture_output=True, text=True, check=False, start_new_session=True
        )
