# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet dm adopt` and `release`: a volume around an array that is there, and off it again."""

import json
from pathlib import Path

import pytest
from md_host import SIZE, UUID, MdHost, call, commands, machine, volume_above


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MdHost:
    return machine(tmp_path, monkeypatch)


@pytest.fixture
def volume(host: MdHost) -> Path:
    return volume_above(host)


def test_adopt_moves_no_data(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    code, _, _ = call("adopt", "/dev/md5", "--name", "vol")
    assert code == 0
    ran = commands(host)
    assert ran[1] == "mdadm --detail --export /dev/md5"
    assert ran[2] == "mdadm --stop /dev/md5"
    assert ran[4] == "dmsetup create vol-leg1 --table 0 131072 linnet-leg 259:1 0"
    assert ran[5] == "mdadm --assemble /dev/md5 /dev/mapper/vol-leg0 /dev/mapper/vol-leg1"
    assert "linnet md /dev/md5 2 /dev/mapper/vol-leg0 2048" in ran[6]
    assert host.description("vol").read_text() == f"uuid={UUID}\narguments=policy linnet-best\n"


def test_udev_looks_at_the_array_again_below_its_volume(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    starter = host.root / "usr/lib/linnet/volume"
    starter.parent.mkdir(parents=True)
    starter.touch()
    words = ("adopt", "/dev/md5", "--name", "vol", "--dry-run")
    assert call(*words)[1].splitlines()[-1] == "udevadm trigger --action=change --name-match=/dev/md5"
    host.absent = {"udevadm"}
    assert "udevadm" not in call(*words)[1]


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("level", "raid5", "not raid1"),
        ("metadata_version", "external:/md127/0", "which tells nobody where a drive begins"),
        ("metadata_version", "0.90", "which tells nobody where a drive begins"),
        ("array_state", "inactive", "inactive"),
        ("resync_start", "0", "uncleanly"),
        ("sync_action", "recover", "recover"),
        ("reshape_position", "8192", "a reshape to finish"),
        ("bitmap/backlog", "256", "write-behind"),
        ("bitmap/metadata", "clustered", "other machines write"),
        ("bitmap/location", "file", "its bitmap in a file"),
        ("degraded", "1", "md5 is degraded"),
        ("dev-nvme1n1/state", "in_sync,write_mostly", "write_mostly"),
        ("dev-nvme1n1/state", "faulty", "faulty"),
        ("dev-nvme1n1/bad_blocks", "120 8", "bad_blocks"),
        ("dev-nvme0n1/unacknowledged_bad_blocks", "120 8", "bad_blocks"),
    ],
)
def test_adopt_refuses(host: MdHost, file: str, text: str, why: str) -> None:
    md = host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    (md / file).write_text(text + "\n")
    code, _, said = call("adopt", "/dev/md5")
    assert code == 1 and why in said and not commands(host)


def test_an_array_is_described_once(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    description = host.description("old")
    description.parent.mkdir(parents=True)
    description.write_text(f"arguments=policy baseline\nuuid={UUID.upper().replace(':', '-')}\n")
    code, _, said = call("adopt", "/dev/md5", "--name", "vol")
    assert code == 1 and "describes md5 already; `linnet dm start old` puts" in said
    assert commands(host) == ["mdadm --detail --export /dev/md5"] and not host.description("vol").exists()
    description.write_text("arguments=policy baseline\nuuid=1\n")
    assert call("adopt", "/dev/md5", "--name", "vol")[0] == 0


def test_an_array_on_legs_is_not_adopted(host: MdHost, volume: Path) -> None:
    code, _, said = call("adopt", "/dev/md0", "--name", "other")
    assert code == 1 and "dm-1 is the leg vol-leg1 already; `dmsetup remove vol-leg1` once md0 is stopped" in said
    host.description("vol").parent.mkdir(parents=True)
    host.description("vol").write_text("uuid=1\narguments=policy baseline\n")
    assert "dm-1 is the leg vol-leg1 already; `linnet dm start vol` puts" in call("adopt", "/dev/md0")[2]
    assert not [command for command in commands(host) if "--detail" not in command]
    for k in range(2):
        host.answers[f"--target linnet-leg vol-leg{k}"] = ""  # other devices of device-mapper are drives like any
    assert call("adopt", "/dev/md0", "--name", "other")[0] == 0


def test_adopt_says_what_to_do_with_a_spare(host: MdHost) -> None:
    host.drive("/dev/nvme2n1", SIZE)
    spare = host.array("md5", (9, 5), [f"/dev/nvme{k}n1" for k in range(3)]) / "dev-nvme2n1"
    (spare / "state").write_text("spare\n")
    (spare / "slot").write_text("none\n")
    code, _, said = call("adopt", "/dev/md5", "--name", "vol")
    assert code == 1 and "nvme2n1 is a spare; take it out before: mdadm --remove /dev/md5 /dev/nvme2n1" in said


def test_adopt_refuses_an_array_in_use_and_a_drive(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    host.mount("/dev/md5", "/srv")
    code, _, said = call("adopt", "/dev/md5")
    assert code == 1 and "mounted on /srv" in said and not commands(host)
    code, _, said = call("adopt", "/dev/nvme0n1")
    assert code == 1 and "not an md array" in said


def test_adopt_refuses_an_array_with_partitions(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    host.known["/dev/md5"] = "a partition table (gpt)"
    code, _, said = call("adopt", "/dev/md5")
    assert code == 1 and "md5 has a partition table (gpt): below a volume" in said and not commands(host)
    host.drive("/dev/md5p1", disk="md5")
    code, out, _ = call("adopt", "/dev/md5", "--json")
    assert code == 1 and "md5 has the partitions md5p1: below" in json.loads(out)["refusals"][0] and not commands(host)


def test_release_leaves_the_array_on_its_drives(host: MdHost, volume: Path) -> None:
    host.description("vol").parent.mkdir(parents=True)
    host.description("vol").write_text("")
    code, _, _ = call("release", "vol")
    assert code == 0 and not host.description("vol").exists()
    assert commands(host) == [
        "dmsetup remove --retry vol",
        "mdadm --stop /dev/md0",
        "dmsetup remove --retry vol-leg0",
        "dmsetup remove --retry vol-leg1",
        "mdadm --assemble /dev/md0 /dev/nvme0n1 /dev/nvme1n1",
    ]
    host.ran.clear()
    host.mount("/dev/mapper/vol", "/srv")
    code, _, said = call("release", "vol")
    assert code == 1 and "mounted" in said and not commands(host)


def test_release_assembles_what_is_there(host: MdHost, volume: Path) -> None:
    gone = host.sysfs((259, 1))
    (host.root / "sys/dev/block/259:1").unlink()
    code, _, said = call("release", "vol")
    assert code == 1 and "mdadm --fail /dev/md0 /dev/mapper/vol-leg1" in said and not commands(host)
    (volume / "dev-dm-1/state").write_text("faulty\n")
    code, _, said = call("release", "vol")
    assert code == 0 and "assembled without it" in said
    assert commands(host)[-1] == "mdadm --assemble /dev/md0 /dev/nvme0n1"
    host.ran.clear()
    (host.root / "sys/dev/block/259:1").symlink_to(gone)
    # Its superblock may be gone with its membership, and mdadm would assemble nothing.
    for file in sorted((volume / "dev-dm-1").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (volume / "dev-dm-1").rmdir()
    code, _, said = call("release", "vol")
    assert code == 0 and "vol-leg1 is no member of md0" in said
    assert commands(host)[-1] == "mdadm --assemble /dev/md0 /dev/nvme0n1"


@pytest.mark.parametrize("now", [None, "vol2-leg0", "vol-legs-leg1", "data"])
def test_release_leaves_what_has_the_number_of_a_leg_now(host: MdHost, volume: Path, now: str | None) -> None:
    (volume / "dev-dm-1").rename(host.root / "removed")
    if now is None:
        (host.root / "sys/dev/block/253:1").unlink()
    else:
        (host.root / "sys/block/dm-1/dm/name").write_text(f"{now}\n")
        table = "linear 259:1 0" if now == "data" else "linnet-leg 259:1 0"
        host.answers[f"--target linnet-leg {now}"] = f"0 131072 {table}\n"
    code, _, said = call("release", "vol")
    assert code == 0 and "leg 1 of vol has gone" in said, said
    assert now is None or f"{now} has its number now, and stays" in said
    assert commands(host) == [
        "dmsetup remove --retry vol",
        "mdadm --stop /dev/md0",
        "dmsetup remove --retry vol-leg0",
        "mdadm --assemble /dev/md0 /dev/nvme0n1",
    ]


def test_release_refuses_drives_that_md_could_not_take(host: MdHost, volume: Path) -> None:
    host.hold("/dev/nvme1n1", "dm-1")
    assert call("release", "vol", "--dry-run")[0] == 0
    host.hold("/dev/nvme1n1", "dm-9")
    code, _, said = call("release", "vol")
    assert code == 1 and "nvme1n1 is in use beside its leg, by dm-9" in said and not commands(host)


def test_adopt_warns_of_lvm(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    host.known["/dev/md5"] = "a signature of LVM2_member"
    code, _, said = call("adopt", "/dev/md5", "--dry-run")
    assert code == 0 and "physical volume of LVM" in said


def test_the_name_of_a_volume_is_that_of_the_array(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    for path in ("/dev/md5", "/dev/md/host:data", f"/dev/disk/by-id/md-uuid-{UUID}"):
        host.numbers[path] = (9, 5)
        code, out, said = call("adopt", path, "--dry-run")
        assert code == 0 and "dmsetup create linnet-md5 " in out, said


def test_entries_of_fstab_and_crypttab_are_mentioned(host: MdHost, volume: Path) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    by_uuid = "/dev/disk/by-uuid/4b1d"
    for path in ("/dev/md/data", by_uuid):
        host.numbers[path] = (9, 5)
    (host.root / "etc").mkdir(exist_ok=True)
    fstab, crypttab = host.root / "etc/fstab", host.root / "etc/crypttab"
    fstab.write_text(
        f"# /dev/md5 /old ext4\n/dev/md/data /srv ext4 defaults 0 2\nUUID=4b1d /a ext4\n{by_uuid} /b ext4\n\n"
        "/dev/mapper/vol /c xfs\n/dev/gone /d xfs\n/dev/nvme0n1 /e xfs\n"
    )
    crypttab.write_text("# name device\nsecret /dev/md5 none luks\n/dev/md5\n")
    told = json.loads(call("adopt", "/dev/md5", "--dry-run", "--json")[1])["warnings"]
    assert [line.partition(",")[0] for line in told] == [f"{fstab} names /dev/md/data", f"{crypttab} names /dev/md5"]
    assert told[0].endswith(
        "is busy below a volume: it should name what that holds, by UUID=, or /dev/mapper/linnet-md5"
    )
    told = json.loads(call("release", "vol", "--dry-run", "--json")[1])["warnings"]
    assert told == [f"{fstab} names /dev/mapper/vol, which goes: it should name what that holds, by UUID=, or /dev/md0"]
