# SPDX-License-Identifier: MIT OR Apache-2.0
from pathlib import Path

import pytest
from dm_host import SIZE, FakeHost
from linnet.cli import app, dm_plan
from linnet.dm import DmError
from typer.testing import CliRunner

SECTORS = SIZE // 512
REPLICAS = f"0 {SECTORS} linnet 2 259:0 0 259:1 0 2 policy shortest-queue"
MIRROR = f"0 {SECTORS} linnet 2 259:0 0 259:1 0 6 policy shortest-queue out:1 log core 1 128"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    machine = FakeHost(tmp_path)
    for k in range(2):
        machine.drive(f"/dev/nvme{k}n1")
    machine.drive("/dev/mapper/vol")
    machine.drive("/dev/nvme4n1")
    monkeypatch.setattr(dm_plan, "host", lambda: machine)
    return machine


def replace(host: FakeHost, line: str, *words: object):
    host.answers["dmsetup table"] = f"vol: {line}\n"
    return CliRunner().invoke(app, ["dm", "replace", *map(str, words)])


def changed(host: FakeHost) -> list[list[str]]:
    return [words for words in host.ran if words[1] != "table"]


def test_a_replica_that_is_read(host: FakeHost) -> None:
    done = replace(host, REPLICAS, "vol", 1, "/dev/nvme4n1")
    assert done.exit_code == 0, done.output
    line = REPLICAS.replace("259:1", host.word("/dev/nvme4n1"))
    assert changed(host) == [
        ["dmsetup", "load", "vol", "--readonly", "--table", line],
        ["dmsetup", "resume", "vol"],
    ]


def test_one_that_holds_other_bytes_is_refused(host: FakeHost) -> None:
    host.drive("/dev/nvme5n1", data=b"other")
    done = replace(host, REPLICAS, "vol", 0, "/dev/nvme5n1")
    assert done.exit_code == 1
    assert "differ within" in done.output and "copy it first" in done.output
    assert changed(host) == []
    assert replace(host, REPLICAS, "vol", 0, "/dev/nvme5n1", "--trust-identical").exit_code == 0
    assert len(changed(host)) == 2


def test_the_data_are_looked_for_where_the_table_reads_them(host: FakeHost) -> None:
    content, begin = b"linnet" * (SIZE // 6), 1 << 20
    (host.root / "dev/mapper/vol").write_bytes(content[:SIZE].ljust(SIZE, b"\0"))
    host.drive("/dev/right", SIZE + begin, bytes(begin) + content)
    host.drive("/dev/shifted", SIZE + begin, content)
    line = REPLICAS.replace("259:1 0", "259:1 2048")
    done = replace(host, line, "vol", 1, "/dev/right")
    assert done.exit_code == 0, done.output
    assert changed(host)[0][-1] == line.replace("259:1", host.word("/dev/right"))
    host.ran.clear()
    done = replace(host, line, "vol", 1, "/dev/shifted")
    advice = f"dd if=/dev/mapper/vol of=/dev/shifted bs=1M oflag=direct,seek_bytes seek={begin}"
    assert done.exit_code == 1 and changed(host) == []
    assert advice in " ".join(done.output.split())


def test_a_dry_run_changes_nothing(host: FakeHost) -> None:
    done = replace(host, REPLICAS, "vol", 1, "/dev/nvme4n1", "--dry-run")
    assert done.exit_code == 0 and changed(host) == []
    assert "dmsetup resume vol" in done.output


@pytest.mark.parametrize(
    ("line", "words", "why"),
    [
        (MIRROR, ("vol", 0, "/dev/nvme4n1"), "the mirror of --log"),
        (REPLICAS, ("vol", 2, "/dev/nvme4n1"), "has replicas 0 to 1"),
        (REPLICAS, ("vol", 0, "nvme4n1"), "whole path"),
        (REPLICAS, ("vol", 0, "/dev/none"), "No such file"),
        (REPLICAS, ("other", 0, "/dev/nvme4n1"), "no device of the target"),
        (f"0 {SECTORS} linnet 1 259:0 0 0", ("vol", 0, "/dev/nvme4n1"), "has one replica"),
        (REPLICAS.replace("259:1 0", "259:1 8"), ("vol", 1, "/dev/nvme4n1"), "the replica takes"),
    ],
)
def test_what_cannot_be(host: FakeHost, line: str, words: tuple[object, ...], why: str) -> None:
    done = replace(host, line, *words)
    assert done.exit_code == 1 and changed(host) == []
    assert why in " ".join((done.output + str(done.exception)).split())


def test_a_device_in_use_is_refused(host: FakeHost) -> None:
    host.mount("/dev/nvme4n1", "/srv")
    done = replace(host, REPLICAS, "vol", 0, "/dev/nvme4n1")
    assert done.exit_code == 1 and "mounted on /srv" in done.output and changed(host) == []


def test_another_path_to_the_drive_of_a_replica_is_refused(host: FakeHost) -> None:
    for path in ("/dev/nvme1n1", "/dev/nvme4n1"):
        host.wwid(path, "eui.1")
    done = replace(host, REPLICAS, "vol", 0, "/dev/nvme4n1")
    assert done.exit_code == 1 and changed(host) == []
    assert "/dev/nvme4n1 and /dev/nvme1n1 are two paths to one drive, eui.1" in " ".join(done.output.split())
    # The drive of the replica itself, which came back under another name, also when the old one is still there.
    assert replace(host, REPLICAS, "vol", 1, "/dev/nvme4n1").exit_code == 0
    # Of a drive that has gone nothing is known.
    (host.root / "sys/dev/block/259:1").unlink()
    assert replace(host, REPLICAS, "vol", 0, "/dev/nvme4n1").exit_code == 0


def test_partitions_of_one_disk_are_mentioned(host: FakeHost) -> None:
    host.drive("/dev/nvme5n1")
    one, two = (host.drive(f"/dev/nvme5n1p{k}", disk="nvme5n1") for k in (1, 2))
    done = replace(host, REPLICAS.replace("259:1", host.word(one)), "vol", 0, two)
    assert done.exit_code == 0 and "are partitions of one disk, nvme5n1" in " ".join(done.output.split())


def test_a_replica_that_is_out_of_service_stays_so(host: FakeHost) -> None:
    out = REPLICAS.replace("2 policy shortest-queue", "3 policy shortest-queue out:1")
    done = replace(host, out, "vol", 1, "/dev/nvme4n1")
    assert done.exit_code == 0 and changed(host)[0][-1].endswith(" out:1")
    assert "until `dmsetup message vol 0 revive 1`" in " ".join(done.output.split())
    assert "revive" not in replace(host, out, "vol", 0, "/dev/nvme4n1").output


def test_a_resume_that_fails_says_how_to_go_on_or_back(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(words: list[str]) -> str:
        if words[:2] == ["dmsetup", "resume"]:
            raise DmError("dmsetup resume vol: Invalid argument")
        return FakeHost.run(host, words)

    monkeypatch.setattr(host, "run", failing)
    done = replace(host, REPLICAS, "vol", 1, "/dev/nvme4n1")
    said = " ".join(done.output.split())
    assert done.exit_code == 1 and "not done: dmsetup resume vol" in said
    assert "`dmsetup resume vol` goes on" in said and "`dmsetup clear vol` before that" in said
