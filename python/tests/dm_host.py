# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine with fake drives: sysfs, firmware directory and dmsetup below a temporary directory."""

from pathlib import Path

import pytest
from linnet.cli import app, dm_plan
from linnet.dm import DmError
from linnet.dm.host import Host
from typer.testing import CliRunner

SIZE = 4 << 20


class FakeHost(Host):
    """Drives are files; what would be run is noted and answered from `answers`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.numbers: dict[str, tuple[int, int]] = {}
        self.ran: list[list[str]] = []
        self.answers: dict[str, str] = {}
        self.lent: set[str] = set()
        self.known: dict[str, str] = {}
        self.absent: set[str] = set()
        self.root_user = True
        (root / "proc/self").mkdir(parents=True)
        (root / "sys/dev/block").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text("21 1 0:20 / /proc rw - proc proc rw\n")
        (root / "proc/swaps").write_text("Filename Type Size Used Priority\n")

    def drive(self, path: str, size: int = SIZE, data: bytes = b"", disk: str | None = None) -> str:
        """A drive, or with `disk` a partition of one."""
        number = (259, len(self.numbers))
        self.numbers[path] = number
        name = Path(path).name
        where = self.root / "sys/block" / (f"{disk}/{name}" if disk else name)
        (where / "holders").mkdir(parents=True)
        (where / "size").write_text(f"{size // 512}\n")
        (where / "dev").write_text(f"{number[0]}:{number[1]}\n")
        if disk:
            (where / "partition").write_text("1\n")
            (where / "start").write_text("2048\n")
        (self.root / f"sys/dev/block/{number[0]}:{number[1]}").symlink_to(where)
        file = self.root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            out.write(data)
            out.truncate(size)
        return path

    def word(self, path: str) -> str:
        """What a table line calls a drive."""
        return "{}:{}".format(*self.numbers[path])

    def loop(self, name: str, path: str) -> None:
        """Let a loop device stand on a drive."""
        where = self.root / "sys/block" / name / "loop"
        where.mkdir(parents=True, exist_ok=True)
        (where / "backing_file").write_text(f"{path}\n")

    def stand_on(self, path: str, file: Path, offset: int = 0) -> None:
        """Make a drive a loop device on a file."""
        where = self.sysfs(self.numbers[path]) / "loop"
        where.mkdir(exist_ok=True)
        (where / "backing_file").write_text(f"{file}\n")
        (where / "offset").write_text(f"{offset}\n")

    def wwid(self, path: str, wwid: str) -> None:
        """Give a drive a name of its own."""
        (self.sysfs(self.numbers[path]) / "wwid").write_text(f"{wwid}\n")

    def hold(self, path: str, holder: str) -> None:
        """Let another device sit on a drive."""
        (self.sysfs(self.numbers[path]) / "holders" / holder).mkdir()

    def mount(self, path: str, where: str, number: str | None = None) -> None:
        """Mount a drive."""
        major, minor = self.numbers[path]
        with (self.root / "proc/self/mountinfo").open("a") as out:
            out.write(f"30 1 {number or f'{major}:{minor}'} / {where} rw - ext4 {path} rw\n")

    def is_root(self) -> bool:
        return self.root_user

    def number(self, path: str) -> tuple[int, int]:
        if path not in self.numbers:
            raise DmError(f"{path}: No such file or directory")
        return self.numbers[path]

    def read(self, path: str, offset: int, size: int) -> bytes:
        return super().read(str(self.root / path[1:]), offset, size)

    def busy(self, path: str) -> bool:
        return path in self.lent

    def signature(self, path: str) -> str | None:
        return self.known.get(path)

    def program(self, word: str) -> str | None:
        return None if word in self.absent else word

    def run(self, words: list[str]) -> str:
        self.ran.append(words)
        return self.answers.get(" ".join(words[:2]), "")


def two_drives(root: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A machine of two drives, `a` and `b`, which the commands take for theirs."""
    machine = FakeHost(root)
    machine.a, machine.b = machine.drive("/dev/nvme0n1"), machine.drive("/dev/nvme1n1")
    monkeypatch.setattr(dm_plan, "host", lambda: machine)
    return machine


def dm(*words: object):
    """Run a command that must succeed; what it printed."""
    result = CliRunner().invoke(app, ["dm", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def refused(host: FakeHost, *words: object) -> str:
    """Run a command that must refuse, and must not have run anything; what it said."""
    result = CliRunner().invoke(app, ["dm", *map(str, words)])
    assert result.exit_code != 0
    assert host.ran == []
    assert not host.firmware.exists()
    if isinstance(result.exception, SystemExit):
        return result.stderr
    assert isinstance(result.exception, DmError), result.exception
    return str(result.exception)
