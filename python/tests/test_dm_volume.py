# SPDX-License-Identifier: MIT OR Apache-2.0
import json
from pathlib import Path

import pytest
from linnet.dm import DmError, guard
from md_host import SIZE, UUID, MdHost, call, commands, machine, volume_above


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MdHost:
    return machine(tmp_path, monkeypatch)


@pytest.fixture
def volume(host: MdHost) -> Path:
    return volume_above(host)


def test_create_makes_legs_array_and_volume(host: MdHost) -> None:
    code, out, _ = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--policy", "shortest-queue")
    assert code == 0
    ran = commands(host)
    assert out.count("\n") == len(ran)
    assert ran[0] == "modprobe dm-linnet"
    assert ran[1] == "dmsetup create vol-leg0 --table 0 131072 linnet-leg 259:0 0"
    assert ran[3].startswith("mdadm --create /dev/md0 --run --name vol --level 1 ")
    assert ran[3].endswith(
        "--data-offset 1024K --size 64512K --raid-devices 2 /dev/mapper/vol-leg0 /dev/mapper/vol-leg1"
    )
    table = "0 129024 linnet md /dev/md0 2 /dev/mapper/vol-leg0 2048 /dev/mapper/vol-leg1 2048 2 policy shortest-queue"
    assert ran[4] == "mdadm --detail --export /dev/md0"
    assert ran[5] == f"dmsetup create vol --table {table}"
    described = host.root / "etc/linnet/volumes.d/vol.conf"
    assert described.read_text() == f"uuid={UUID}\narguments=policy shortest-queue\n"
    assert host.at_work == ["vol.hold"] and not list((host.root / "run/linnet").iterdir())


def test_create_dry_run_and_json(host: MdHost) -> None:
    code, out, _ = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--dry-run", "--json")
    told = json.loads(out)
    assert code == 0 and not host.ran
    assert told["dry_run"] and len(told["steps"]) == 6 and not told["refusals"]
    assert told["steps"][4] == (
        "{ mdadm --detail --export /dev/md0 | sed -n s/^MD_UUID=/uuid=/p; echo 'arguments=policy linnet-best'; } | "
        f"install -D -m 644 /dev/stdin {host.root}/etc/linnet/volumes.d/vol.conf"
    )
    assert any("/usr/lib/linnet/volume is not installed" in line for line in told["notes"])


def test_create_says_what_drives_of_other_sizes_lose(host: MdHost) -> None:
    host.drive("/dev/nvme2n1", 2 * SIZE)
    host.drive("/dev/nvme3n1", 2 * SIZE + 4096)
    words = ("create", "vol", "--md", "--dry-run", "/dev/nvme0n1")
    code, _, said = call(*words, "/dev/nvme2n1")
    assert code == 0 and "what /dev/nvme2n1 has beyond stays unused" in said
    code, _, said = call(*words, "/dev/nvme3n1")
    assert code == 1 and "more than half of /dev/nvme3n1 would stay unused" in said and "--smallest" in said
    code, _, said = call(*words, "/dev/nvme3n1", "--smallest")
    assert code == 0 and "what /dev/nvme3n1 has beyond stays unused" in said
    code, _, said = call("create", "vol", "/dev/nvme0n1", "/dev/nvme1n1", "--smallest")
    assert code == 1 and "give --md too" in said


def test_create_refuses_to_overwrite_data(host: MdHost) -> None:
    host.drive("/dev/nvme2n1", SIZE, b"precious")
    code, _, said = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme2n1")
    assert code == 1 and not host.ran and "OVERWRITTEN" in said
    code, out, _ = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme2n1", "--json")
    assert code == 1 and not host.ran and json.loads(out)["steps"] == []
    code, _, _ = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme2n1", "--overwrite-data-on", "/dev/nvme2n1")
    assert code == 0
    host.ran.clear()
    host.mount("/dev/nvme0n1", "/mnt")
    code, _, said = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    assert code == 1 and not host.ran and "mounted" in said


def test_create_reports_the_faults_of_every_drive(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.drive("/dev/nvme2n1", SIZE, b"precious")
    host.mount("/dev/nvme1n1", "/mnt")
    closed = guard.in_use

    def in_use(machine: MdHost, one: guard.Device) -> list[str]:
        if one.path == "/dev/nvme0n1":
            raise DmError(f"{one.path}: Permission denied")
        return closed(machine, one)

    monkeypatch.setattr(guard, "in_use", in_use)
    drives = [f"/dev/nvme{k}n1" for k in range(3)]
    code, out, _ = call("create", "vol", "--md", *drives, "--dry-run", "--json")
    told = json.loads(out)
    assert code == 1 and len(told["steps"]) == 7 and not host.ran
    assert [line.partition(";")[0] for line in told["warnings"]] == ["/dev/nvme0n1: Permission denied"]
    assert ["mounted on /mnt" in told["refusals"][0], "nvme2n1 would be OVER" in told["refusals"][1]] == [True, True]
    # In words, too, and also where drives are not there, and without --dry-run.
    code, out, said = call("create", "vol", "--md", *drives, "--dry-run")
    assert code == 1 and "mdadm --create" in out and "would be refused: /dev/nvme1n1 is mounted on /mnt" in said
    absent = ["/dev/nvme7n1", "/dev/nvme8n1"]
    for drive in ("/dev/nvme8n1", "/dev/nvme9n1"):
        absent += ["--overwrite-data-on", drive]
    for words in (["--dry-run"], []):
        code, out, _ = call("create", "vol", "--md", *drives[1:], *absent, "--json", *words)
        told = json.loads(out)
        assert code == 1 and told["steps"] == [] and not host.ran
        assert [line for line in told["refusals"] if "No such file" in line] == [
            f"/dev/nvme{k}n1: No such file or directory" for k in (7, 8, 9)
        ]
        assert any("mounted on /mnt" in line for line in told["refusals"])
        assert any("nvme2n1 would be OVERWRITTEN" in line for line in told["refusals"])


@pytest.mark.parametrize("word", [["--revoke"], ["--read-only"], ["--out", "1"]])
def test_create_refuses_what_md_does_not_have(host: MdHost, word: list[str]) -> None:
    code, _, said = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", *word)
    assert code == 1 and not host.ran and "--md excludes" in said


def test_a_name_that_is_taken_is_refused(host: MdHost) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    plain = ("create", "NAME", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    taken = [("old", "describes a volume of this name"), ("data", "device data")]
    for name, why in [*taken, *((odd, "at most 32") for odd in ("x" * 33, ".x", "a:b", "v=1", "x@y", "#"))]:
        description = host.description("old")
        description.parent.mkdir(parents=True, exist_ok=True)
        description.write_text("uuid=1\n")
        other = host.root / "sys/block/dm-7/dm"
        other.mkdir(parents=True, exist_ok=True)
        (other / "name").write_text("data\n")
        for words in (("adopt", "/dev/md5", "--name", name), tuple(name if w == "NAME" else w for w in plain)):
            code, _, said = call(*words)
            assert code == 1 and why in said, (words, said)
            assert set(commands(host)) <= {"mdadm --detail --export /dev/md5"}
        assert description.read_text() == "uuid=1\n"


def test_names_that_begin_alike_are_no_legs(host: MdHost) -> None:
    for k, there in enumerate(["vol-legacy", "vol-legacy-leg0", "vol-leg", "vol-leg0-leg1"]):
        own = host.root / f"sys/block/dm-{k}/dm"
        own.mkdir(parents=True)
        (own / "name").write_text(f"{there}\n")
    words = ("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--dry-run", "--json")
    assert json.loads(call(*words)[1])["refusals"] == []
    (own / "name").write_text("vol-leg3\n")
    assert "`dmsetup remove vol-leg3` if it is left" in json.loads(call(*words)[1])["refusals"][0]


def test_drives_whose_names_have_a_slash(host: MdHost) -> None:
    drives = [f"/dev/etherd!e0.{k}" for k in range(2)]
    for drive in drives:
        host.drive(drive, SIZE)
    host.array("md5", (9, 5), drives)
    for k in range(2):
        host.drive(f"/dev/dm-{k}", SIZE)
        (host.root / f"sys/block/dm-{k}/dm").mkdir()
        (host.root / f"sys/block/dm-{k}/dm/name").write_text(f"vol-leg{k}\n")
        host.answers[f"--target linnet-leg vol-leg{k}"] = f"0 131072 linnet-leg {host.word(drives[k])} 0\n"
    host.array("md0", (9, 0), ["/dev/dm-0", "/dev/dm-1"])
    host.drive("/dev/mapper/vol", SIZE)
    places = " ".join(f"{host.word(f'/dev/dm-{k}')} 2048" for k in range(2))
    host.answers["--target linnet vol"] = f"0 129024 linnet md 9:0 2 {places} 2 policy linnet-best\n"
    code, _, said = call("release", "vol")
    assert code == 0, said
    assert commands(host)[-1] == "mdadm --assemble /dev/md0 /dev/etherd/e0.0 /dev/etherd/e0.1"


def test_a_drive_that_is_write_protected_is_refused(host: MdHost) -> None:
    (host.sysfs(host.numbers["/dev/nvme0n1"]) / "ro").write_text("0\n")
    (host.sysfs(host.numbers["/dev/nvme1n1"]) / "ro").write_text("1\n")
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    plain = ("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    for words in (plain, ("adopt", "/dev/md5"), ("create", "vol", "/dev/nvme1n1")):
        code, out, _ = call(*words, "--json")
        told = json.loads(out)["refusals"]
        assert code == 1 and not commands(host), words
        assert [line.partition(", or")[0] for line in told] == [
            "/dev/nvme1n1 is read-only: blockdev --setrw /dev/nvme1n1"
        ]
    assert call("create", "vol", "/dev/nvme1n1", "--read-only", "--dry-run")[0] == 0


def test_a_path_that_leads_elsewhere_by_then_is_not_wiped(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.known["/dev/nvme1n1"] = "a signature of linux_raid_member"

    def moved(words: list[str]) -> str:
        host.numbers["/dev/nvme1n1"] = (259, 7)
        return MdHost.run(host, words)

    monkeypatch.setattr(host, "run", moved)
    code, _, said = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--overwrite-data-on", "/dev/nvme1n1")
    assert code == 1 and "/dev/nvme1n1 is another device than the one that was checked, 259:1" in said
    assert commands(host) == ["modprobe dm-linnet"]


def test_an_old_superblock_is_wiped_before_the_legs_show_it(host: MdHost) -> None:
    host.known["/dev/nvme1n1"] = "a signature of linux_raid_member"
    code, _, _ = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--overwrite-data-on", "/dev/nvme1n1")
    ran = commands(host)
    assert code == 0 and ran[1] == "wipefs --all /dev/nvme1n1" and ran[2].startswith("dmsetup create vol-leg0 ")


def test_create_dry_run_without_root(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str) -> bool:
        raise DmError(f"{path}: Permission denied")

    monkeypatch.setattr(host, "busy", denied)
    code, _, said = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    assert code == 1 and "Permission denied" in said
    code, out, said = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--dry-run")
    assert code == 0 and "mdadm --create" in out and "was not checked" in said and not host.ran


def test_start_leaves_a_started_volume_alone(host: MdHost, volume: Path) -> None:
    code, _, said = call("start", "vol")
    assert code == 1 and "vol.conf; described are: none" in said and not commands(host)
    host.description("vol").parent.mkdir(parents=True)
    for name in ("vol", "other"):
        host.description(name).write_text(f"uuid={UUID}\narguments=policy baseline\n")
    code, out, said = call("start", "--all", "--dry-run")
    assert code == 0 and not commands(host)
    assert out.splitlines() == ["/usr/lib/linnet/volume start other vol"]
    code, out, said = call("start", "vol", "--degraded", "--dry-run")
    assert out.splitlines() == ["env DEGRADED=1 /usr/lib/linnet/volume start vol"]
    (host.root / "sys/block/dm-2/dm").mkdir(parents=True)
    (host.root / "sys/block/dm-2/dm/name").write_text("vol\n")
    code, out, _ = call("start", "--all", "--json")
    told = json.loads(out)
    assert code == 0 and told["steps"] == ["/usr/lib/linnet/volume start other"] and "vol is started" in told["notes"]
    assert commands(host) == told["steps"]
    assert call("start")[0] == 2 and call("start", "vol", "--all")[0] == 2


def test_status_shows_trust(host: MdHost, volume: Path) -> None:
    told = json.loads(call("status", "vol", "--json")[1])["vol"]
    assert told["steered"] == 7 and told["replicas"][1]["why"] == "short"
    out = call("status", "vol")[1]
    assert "trusted" in out and "untrusted" in out and "short" in out


def test_replace_and_trust_of_other_devices(host: MdHost, volume: Path) -> None:
    code, _, said = call("replace", "vol", "1", "/dev/nvme1n1")
    assert code == 1 and "above md" in said
    host.answers["--target linnet other"] = "0 8 linnet 2 259:0 0 259:1 0 2 policy baseline\n"
    code, _, said = call("release", "other")
    assert code == 1 and "no volume above md" in said
    assert guard.device(host, "/dev/nvme0n1").size_bytes == SIZE
