# SPDX-License-Identifier: MIT OR Apache-2.0
"""A machine with fake drives and arrays, and what calls `linnet dm` there."""

from pathlib import Path

import pytest
from dm_host import FakeHost
from linnet.cli import app, dm_plan
from linnet.dm import DmError
from typer.testing import CliRunner

SIZE = 64 << 20
UUID = "7a1f0c3e:55aa0011:deadbeef:00c0ffee"
FINE = {
    "level": "raid1", "array_state": "clean", "resync_start": "none", "sync_action": "idle",
    "reshape_position": "none", "bitmap/backlog": "0", "degraded": "0",
}  # fmt: skip
STATUS = (
    "0 129024 linnet version 1 policy linnet-best model none on 1 revoke 0 reads 0 writes 0 decisions 0 revokes 0 "
    "forced 0 failovers 0 probes 0 own_probes 0 unprobed 0 untracked 0 "
    "hedge 0 hedges 0 hedge_wins 0 discarded 0 unhedged 0 hedge_us 0 md 9:0 steered 7 held 1 replicas 2 "
    "dev 253:0 state A inflight 0 reads 0 writes 0 errors 0 ewma_us 0 lat 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 "
    "trust trusted why new generation 41 identified 5 short 0 failed 0 unknown 0 "
    "dev 253:1 state U inflight 0 reads 0 writes 0 errors 0 ewma_us 0 lat 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 "
    "trust untrusted why short generation 42 identified 4 short 1 failed 0 unknown 0"
)


class MdHost(FakeHost):
    """Also has arrays; what a message answers is refused for the legs in `stale`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.stale: set[str] = set()
        self.at_work: list[str] = []

    def run(self, words: list[str]) -> str:
        self.ran.append(words)
        if words[:2] == ["dmsetup", "message"] and words[5] in self.stale:
            raise DmError("dmsetup message: Stale file handle")
        if words[:3] == ["mdadm", "--detail", "--export"]:
            self.at_work = [path.name for path in (self.root / "run/linnet").glob("*")]
            return f"MD_LEVEL=raid1\nMD_UUID={UUID}\n"
        if words[:2] == ["dmsetup", "table"]:
            return self.answers.get(" ".join(words[2:]), "")
        return self.answers.get(" ".join(words[:2]), "")

    def array(self, name: str, number: tuple[int, int], members: list[str], **files: str) -> Path:
        """An array over these drives, in sync."""
        self.drive(f"/dev/{name}", SIZE - (1 << 20))
        self.numbers[f"/dev/{name}"] = number
        own = self.root / "sys/block" / name
        (self.root / f"sys/dev/block/{number[0]}:{number[1]}").symlink_to(own)
        (own / "md/bitmap").mkdir(parents=True)
        for file, text in {**FINE, **files}.items():
            (own / "md" / file).write_text(text + "\n")
        for k, member in enumerate(members):
            directory = own / "md" / f"dev-{Path(member).name}"
            (directory / "block").mkdir(parents=True)
            major, minor = self.numbers[member]
            (directory / "block/dev").write_text(f"{major}:{minor}\n")
            about = {"slot": f"{k}", "offset": "2048", "state": "in_sync", "bad_blocks": ""}
            for file, text in {**about, "unacknowledged_bad_blocks": ""}.items():
                (directory / file).write_text(text + "\n")
        return own / "md"


def machine(root: Path, monkeypatch: pytest.MonkeyPatch, kind: type[MdHost] = MdHost) -> MdHost:
    """One with two drives, which the commands take for theirs."""
    made = kind(root)
    for k in range(2):
        made.drive(f"/dev/nvme{k}n1", SIZE)
    monkeypatch.setattr(dm_plan, "host", lambda: made)
    return made


def volume_above(host: MdHost) -> Path:
    """A volume above /dev/md0; the directory of its array."""
    for k in range(2):
        host.drive(f"/dev/dm-{k}", SIZE)
        host.numbers[f"/dev/dm-{k}"] = (253, k)
        own = host.root / f"sys/block/dm-{k}"
        (own / "dm").mkdir()
        (own / "dm/name").write_text(f"vol-leg{k}\n")
        (host.root / f"sys/dev/block/253:{k}").symlink_to(own)
        host.answers[f"--target linnet-leg vol-leg{k}"] = f"0 131072 linnet-leg 259:{k} 0\n"
    host.drive("/dev/mapper/vol", SIZE - (1 << 20))
    host.answers["--target linnet vol"] = "0 129024 linnet md 9:0 2 253:0 2048 253:1 2048 2 policy linnet-best\n"
    host.answers["dmsetup status"] = STATUS
    return host.array("md0", (9, 0), ["/dev/dm-0", "/dev/dm-1"])


def call(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["dm", *words])
    said = result.stderr if isinstance(result.exception, SystemExit | None) else str(result.exception)
    return result.exit_code, result.stdout, said


def commands(host: MdHost) -> list[str]:
    return [" ".join(words) for words in host.ran if words[1] not in ("table", "status")]
