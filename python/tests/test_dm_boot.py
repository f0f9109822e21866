# SPDX-License-Identifier: MIT OR Apache-2.0
"""``kernel/package/boot/volume``: legs, arrays and volumes that it puts together, and what udev makes of them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from boot_machine import UUID, VOLUME, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_start_puts_a_volume_together(machine: Machine) -> None:
    machine.drives(2)
    code, out, said = machine.run("start", "vol")
    assert (code, out) == (0, "vol is started\n"), said
    assert machine.devices == ["vol", "vol-leg0", "vol-leg1"]
    assert machine.log == [
        "dmsetup create vol-leg0 --table 0 131072 linnet-leg 8:0 0",
        "dmsetup create vol-leg1 --table 0 131072 linnet-leg 8:1 0",
        "mdadm --assemble /dev/md0 /dev/mapper/vol-leg0 /dev/mapper/vol-leg1",
        "dmsetup create vol --table 0 129024 linnet md 9:0 2 253:0 2048 253:1 2048 2 policy shortest-queue",
    ]
    assert not list((machine.root / "run/linnet").iterdir())
    # udev has seen the array without its volume.
    assert (machine.root / "sys/block/md0/uevent").read_text() == "change\n"
    assert machine.run("start", "vol")[:2] == (0, "vol is started\n") and machine.log == []


def on_legs(machine: Machine) -> Path:
    """An array of two legs; its directory in sysfs."""
    legs = [f"/dev/mapper/vol-leg{k}" for k in range(2)]
    subprocess.run([machine.root / "bin/mdadm", "--assemble", "/dev/md0", *legs], check=True)
    for k in range(2):
        (machine.root / f"dm/vol-leg{k}").touch()
    return machine.root / "sys/block/md0"


def test_udev_leaves_a_volume_that_is_held(machine: Machine) -> None:
    machine.drives(1)
    own = machine.root / "sys/class/block/dm-0"
    (own / "dm").mkdir(parents=True)
    (own / "dm/name").write_text("vol-leg0\n")
    array = on_legs(machine)
    sign = machine.root / "run/linnet/vol.hold"
    sign.write_text(f"{os.getpid()}\n")
    for device in ("/dev/sda", "/dev/dm-0"):
        assert machine.run("leg", device, UUID)[:2] == (0, "LINNET_HELD=1\n") and machine.log == [], device
    assert machine.run("top", "/dev/md0", UUID)[:2] == (0, "") and machine.log == []
    sign.unlink()
    (machine.root / "dm/vol-leg0").unlink()
    assert machine.run("leg", "/dev/sda", UUID)[1] == "LINNET_LEG=vol-leg0\n"
    assert machine.run("leg", "/dev/dm-0", UUID)[:2] == (0, "") and machine.log == [], "md takes the leg"
    assert machine.run("top", "/dev/md0", UUID)[1].startswith("LINNET_VOLUME=vol\n") and array.exists()


def test_an_array_that_is_used_or_no_raid1_stays_without_the_volume(machine: Machine) -> None:
    array = on_legs(machine)
    (array / "holders/dm-9").mkdir()
    code, out, said = machine.run("top", "/dev/md0", UUID)
    assert (code, out, machine.log) == (0, "", []) and "md0 is used by dm-9" in said
    (array / "holders/dm-9").rmdir()
    (array / "md/level").write_text("raid10\n")
    code, out, said = machine.run("top", "/dev/md0", UUID)
    assert (code, out, machine.log) == (0, "", []) and "md0 is no raid1" in said


def test_a_description_without_the_uuid_starts_nothing(machine: Machine) -> None:
    machine.drives(2)
    for text in ("uuid=\n", ""):
        (machine.root / "etc/linnet/volumes.d/vol.conf").write_text(f"{text}arguments=policy baseline\n")
        code, _, said = machine.run("start", "vol")
        assert code == 1 and "vol.conf has no uuid=" in said and machine.log == []


def test_an_array_with_partitions_stays_without_the_volume(machine: Machine) -> None:
    part = on_legs(machine) / "md0p1"
    code, out, said = machine.run("top", "/dev/md0", UUID, ID_PART_TABLE_TYPE="gpt")
    assert (code, out, machine.log) == (0, "", []) and "md0 has partitions" in said
    part.mkdir()
    (part / "partition").write_text("1\n")
    assert machine.run("top", "/dev/md0", UUID)[:2] == (0, "")
    shutil.rmtree(part)
    assert machine.run("top", "/dev/md0", UUID)[1].startswith("LINNET_VOLUME=vol\n")


TABLE = "0 129024 linnet md 9:0 2 253:0 2048 253:1 2048 0"
TOLD = "dmsetup message vol 0 distrust"
RELOADED = [TOLD, f"dmsetup load vol --table {TABLE}", "dmsetup resume --nolockfs --noudevsync vol"]


@pytest.mark.parametrize(
    ("trust", "module", "ended"),
    [
        ("trusted", "", [TOLD]),
        ("pending", "", [TOLD]),
        ("untrusted", "", []),
        ("trusted", "old-module", RELOADED),
    ],
)
def test_a_member_that_is_no_leg_ends_the_trust(machine: Machine, trust: str, module: str, ended: list[str]) -> None:
    machine.drives(2)
    (machine.root / (module or "new-module")).touch()
    assert machine.run("start", "vol")[0] == 0
    holder = machine.root / "sys/block/md0/holders/dm-2/dm"
    holder.mkdir(parents=True)
    (holder / "name").write_text("vol\n")
    (machine.root / "table-vol").write_text(f"{TABLE}\n")
    (machine.root / "status-vol").write_text(f"0 129024 linnet replica 253:0 U lat 1 trust {trust} why new\n")
    assert machine.run("top", "/dev/md0", UUID)[0] == 0 and machine.log == [], "all members are legs"
    stranger = machine.root / "sys/class/block/sdc"
    (stranger / "holders").mkdir(parents=True)
    (stranger / "dev").write_text("8:2\n")
    (machine.root / "etc/linnet/volumes.d/vol.conf").unlink()
    said = machine.run("leg", "/dev/sdc", UUID)[2]
    assert machine.log == ended, "before md has it"
    assert ("8:2 has the superblock of md0 and is no leg of it; reads go through md" in said) == bool(ended)
    (machine.root / "sys/block/md0/md/dev-0/block/dev").write_text("8:2\n")
    out = machine.run("top", "/dev/md0", UUID)[1]
    assert machine.log == ended and out == "LINNET_VOLUME=vol\nLINNET_LINKS=\n"
    if ended:
        (machine.root / "old-module").touch()
        (machine.root / "no-memory").touch()
        said = machine.run("leg", "/dev/sdc", UUID)[2]
        assert "no leg of it, but what it trusts is trusted still: dmsetup message vol 0 distrust" in said
        assert machine.log == RELOADED[:-1], "the volume is left suspended"


def test_a_worker_of_udev_waits_for_no_other(machine: Machine) -> None:
    machine.drives(2)
    for k in range(2):
        assert machine.run("leg", f"/dev/sd{'ab'[k]}", UUID)[:2] == (0, f"LINNET_LEG=vol-leg{k}\n")
        assert machine.log == [f"dmsetup create vol-leg{k} --noudevsync --table 0 131072 linnet-leg 8:{k} 0"]
    on_legs(machine)
    assert machine.run("top", "/dev/md0", UUID)[:2] == (0, "LINNET_VOLUME=vol\nLINNET_LINKS=\n")
    assert machine.log[0].startswith("dmsetup create vol --noudevsync --table 0 129024 linnet md 9:0 2 ")


@pytest.mark.parametrize(
    ("arguments", "slots", "taken"),
    [
        ("model:0 a model:1 b model:2 c out:2 policy linnos", "12", "model:0 b model:1 c out:1 policy linnos"),
        ("policy linnos model:2 c model:0 a model:1 b hedge 2", "02", "policy linnos model:1 c model:0 a hedge 2"),
        ("out:0 model m out:1 model:1 b", "20", "out:0 model m"),
        ("model:0 a model:1 b model:2 c", "0112", "model:0 a model:1 b model:3 c"),  # slot 1 is being replaced
        ("model:8 x model:0 a", "12", "model:8 x"),
    ],
)
def test_what_is_said_of_a_member_follows_its_slot(machine: Machine, arguments: str, slots: str, taken: str) -> None:
    machine.describe(arguments)
    drives = [f"/dev/mapper/vol-leg{k}" for k in range(len(slots))]
    subprocess.run([machine.root / "bin/mdadm", "--assemble", "--run", "/dev/md0", *drives], check=True)
    (machine.root / "sys/block/md0/md/raid_disks").write_text("3\n")
    for k, slot in enumerate(slots):
        (machine.root / f"dm/vol-leg{k}").touch()
        (machine.root / f"sys/block/md0/md/dev-{k}/slot").write_text(f"{slot}\n")
    assert machine.run("top", "/dev/md0", UUID)[0] == 0
    words = machine.log[-1].split("linnet md 9:0 ")[1].split()
    assert words[0] == f"{len(slots)}"
    assert words[1 + 2 * len(slots) :] == [f"{len(taken.split())}", *taken.split()]


@pytest.mark.parametrize(
    ("there", "of_this_volume"),
    [("vol-leg7", True), ("vol-leg10", True), ("vol-legacy-leg7", False), ("vol-leg7-leg8", False), ("vol-leg", False)],
)
def test_a_leg_without_its_drive(machine: Machine, there: str, of_this_volume: bool) -> None:
    machine.drives(1)
    name = machine.root / "sys/block/dm-9/dm/name"
    name.parent.mkdir(parents=True)
    name.write_text(f"{there}\n")
    (machine.root / "dm" / there).touch()
    wanted = "LINNET_HELD=1\n" if of_this_volume else "LINNET_LEG=vol-leg0\n"
    assert machine.run("leg", "/dev/sda", UUID)[:2] == (0, wanted)


def test_a_drive_whose_name_has_a_slash(machine: Machine) -> None:
    machine.drives(2, "etherd!")
    assert machine.run("leg", "/dev/etherd/a", UUID)[:2] == (0, "LINNET_LEG=vol-leg0\n")
    (machine.root / "dm/vol-leg0").unlink()
    code, _, said = machine.run("start", "vol")
    assert code == 0, said
    assert machine.devices == ["vol", "vol-leg0", "vol-leg1"]


def test_a_start_that_fails_leaves_what_it_found(machine: Machine) -> None:
    machine.drives(2)
    machine.describe("policy unheard-of")
    assert machine.run("start", "vol")[0] == 1
    assert machine.log[-3:] == [
        "mdadm --stop /dev/md0",
        "dmsetup remove --retry vol-leg0",
        "dmsetup remove --retry vol-leg1",
    ]
    assert not list((machine.root / "run/linnet").iterdir())


def test_half_an_array_is_started_only_when_asked_for(machine: Machine) -> None:
    machine.drives(1)
    code, _, said = machine.run("start", "vol")
    assert code == 1 and "linnet dm start --degraded vol" in said and machine.devices == []
    code, _, said = machine.run("start", "vol", DEGRADED="1")
    assert code == 1 and "the array runs as /dev/md0, without the volume vol; the kernel log says why" in said, said
    assert machine.log[-1] == "mdadm --assemble --run /dev/md0 /dev/mapper/vol-leg0"
    assert machine.devices == ["vol-leg0"] and (machine.root / "sys/block/md0").exists()
    # Later, the array stays as it is while it has one member.
    code, _, said = machine.run("start", "vol", DEGRADED="1")
    assert code == 1 and "md0 has one member" in said and machine.log == []


def test_an_array_on_its_drives_goes_back_to_them(machine: Machine) -> None:
    machine.drives(1)
    subprocess.run([machine.root / "bin/mdadm", "--assemble", "--run", "/dev/md0", "/dev/sda"], check=True)
    code, _, said = machine.run("start", "vol", DEGRADED="1")
    assert code == 1 and "the array /dev/md0 cannot have vol" in said
    assert machine.log[1:] == [
        "dmsetup create vol-leg0 --table 0 131072 linnet-leg 8:0 0",
        "mdadm --assemble --run /dev/md0 /dev/mapper/vol-leg0",
        "mdadm --stop /dev/md0",
        "dmsetup remove --retry vol-leg0",
        "mdadm --assemble /dev/md0 /dev/sda",
    ]
    assert machine.devices == [] and (machine.root / "sys/block/md0").exists()


def test_one_command_at_a_time(machine: Machine) -> None:
    machine.drives(2)
    sign = machine.root / "run/linnet/vol.hold"
    sign.write_text(f"{os.getpid()}\n")
    code, _, said = machine.run("start", "vol")
    assert code == 1 and "another command is at work on vol" in said and machine.log == []
    assert sign.read_text() == f"{os.getpid()}\n"
    sign.write_text("999999999\n")
    assert machine.run("start", "vol")[0] == 0 and not sign.exists()


EXAMINED = """          Magic : a92b4efc
   Raid Devices : {devices}
{offset}          State : {state}
   Device Role : {role}
   Array State : {members} ('A' == active, '.' == missing, 'R' == replacing)
"""


@pytest.mark.parametrize(
    ("noted", "devices", "state", "role", "members", "offset"),
    [
        (True, 3, "active", "spare", ".AA", ""),
        (True, 3, "active", "Active device 0", "AAA", "Recovery Offset : 4096 sectors\n"),
        (True, 12, "active", "spare", "AAAAAAAAAAA.", ""),
        (False, 3, "clean", "spare", ".AA", ""),
        (False, 3, "active", "spare", "AAA", ""),  # it waits for a member to fail
        (False, 3, "active", "Active device 1", ".AA", ""),
        (False, 2, "active", "spare", ".A", ""),
        (False, 2, "active", "Active device 0", "AA", "Recovery Offset : 4096 sectors\n"),
    ],
)
def test_members_that_md_may_leave_unequal_are_noted(
    machine: Machine, noted: bool, devices: int, state: str, role: str, members: str, offset: str
) -> None:
    machine.drives(1)
    said = EXAMINED.format(devices=devices, state=state, role=role, members=members, offset=offset)
    program = machine.root / "bin/mdadm"
    program.write_text(f"#!/bin/sh\n[ $2 = --export ] || cat <<'END'\n{said}END\n")
    code, out, _ = machine.run("leg", "/dev/sda", UUID)
    assert code == 0 and out.startswith("LINNET_LEG=vol-leg")
    assert (machine.root / "run/linnet/vol.repair").exists() == noted


def test_a_later_process_with_the_number_of_a_worker_holds_nothing(machine: Machine) -> None:
    machine.drives(2)
    sleeper = machine.root / "bin/a) 1 b"
    shutil.copy(shutil.which("sleep") or "sleep", sleeper)
    sign = machine.root / "run/linnet/vol.hold"
    with subprocess.Popen([sleeper, "60"]) as worker:
        try:
            began = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[19]
            sign.write_text(f"{worker.pid}\n{began}\n")
            assert "is at work on vol" in machine.run("start", "vol")[2] and machine.log == []
            sign.write_text(f"{worker.pid}\n{int(began) - 1}\n")
            assert machine.run("start", "vol")[0] == 0 and not sign.exists()
        finally:
            worker.kill()


def test_a_drive_that_comes_while_its_volume_is_held_comes_again(machine: Machine) -> None:
    machine.drives(2)
    for k in range(2):
        own = machine.root / f"sys/dev/block/8:{k}"
        (own / "holders").mkdir(parents=True)
    (own / "holders/md0").mkdir()
    sign, later = (machine.root / f"run/linnet/vol.{kind}" for kind in ("hold", "later"))
    sign.write_text(f"{os.getpid()}\n")
    for device in ("/dev/sda", "/dev/sdb"):
        assert machine.run("leg", device, UUID, ACTION="add")[1] == "LINNET_HELD=1\n"
    assert machine.run("leg", "/dev/sda", UUID, ACTION="change")[1] == "LINNET_HELD=1\n"
    assert later.read_text() == "8:0\n8:1\n"
    later.write_text(f"{later.read_text()}8:9\n")  # which has gone since
    sign.unlink()
    machine.describe("policy unheard-of")
    assert machine.run("start", "vol")[0] == 1
    assert (machine.root / "sys/dev/block/8:0/uevent").read_text() == "add\n"
    assert not (own / "uevent").exists(), "it is used"
    assert not later.exists()


def test_two_starts_at_once(machine: Machine) -> None:
    # Each looks at the sign before the other has written its own, unless a lock keeps them apart.
    machine.drives(2)
    machine.volume.write_text(machine.volume.read_text().replace("\t{ echo $$", "\tsleep 0.2\n\t{ echo $$"))
    (machine.root / "bin/modprobe").write_text("#!/bin/sh\nsleep 0.15\n")
    both = [subprocess.Popen([machine.volume, "start", "vol"], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(one.communicate()[1] for one in both)
    assert sorted(one.returncode for one in both) == [0, 1], said
    assert "another command is at work on vol" in said
    assert machine.devices == ["vol", "vol-leg0", "vol-leg1"]


def test_a_start_leaves_the_sign_of_another(machine: Machine) -> None:
    machine.drives(2)
    sign = machine.root / "run/linnet/vol.hold"
    (machine.root / "bin/modprobe").write_text(f"#!/bin/sh\necho 4242 >{sign}\n")
    assert machine.run("start", "vol")[0] == 0
    assert sign.read_text() == "4242\n"


HOLDS = ["disk/by-uuid/u", r"disk/by-label/my\x20disk", "disk/by-partuuid/p", "disk/by-partlabel/l"]
ITSELF = ["disk/by-id/md-name-host:0", f"disk/by-id/md-uuid-{UUID}", "md/0"]


def test_links_to_what_an_array_holds_lead_to_its_volume(machine: Machine) -> None:
    machine.drives(2)
    links = [ITSELF[0], *HOLDS, *ITSELF[1:]]
    told = f"LINNET_VOLUME=vol\nLINNET_LINKS={' '.join(ITSELF)}\n"
    assert machine.run("start", "vol")[0] == 0
    # Where the volume is put above it now, and where it is there already.
    (machine.root / "dm/vol").unlink()
    assert machine.run("top", "/dev/md0", UUID, *links)[:2] == (0, told)
    above = machine.root / "sys/block/md0/holders/dm-2/dm"
    above.mkdir(parents=True)
    (above / "name").write_text("vol\n")
    (machine.root / "bin/dmsetup").write_text("#!/bin/sh\necho '0 129024 linnet md 9:0 2'\n")
    assert machine.run("top", "/dev/md0", UUID, *links)[:2] == (0, told)
    # One that has none keeps its links.
    (machine.root / "bin/dmsetup").write_text("#!/bin/sh\n")
    (machine.root / "etc/linnet/volumes.d/vol.conf").unlink()
    assert machine.run("top", "/dev/md0", UUID, *links)[:2] == (0, "")


def udevadm_test(root: Path, volume: str) -> dict[str, str]:
    """The properties of an array, whose place a block device of this machine takes, after md's rules and ours.

    `volume` is the text of /usr/lib/linnet/volume.
    """
    block = sorted(Path("/sys/class/block").iterdir()) if Path("/sys/class/block").exists() else []
    if os.geteuid() or not shutil.which("udevadm") or not block:
        pytest.skip("needs root, udevadm and a block device")
    rules, program = root / "rules", root / "told"
    rules.mkdir()
    program.write_text(f"#!/bin/sh\n{volume}")
    program.chmod(0o755)
    made = " ".join([ITSELF[0], *HOLDS, *ITSELF[1:]])
    md = f'ENV{{MD_UUID}}="{UUID}", ENV{{ID_FS_TYPE}}="btrfs", ENV{{ID_FS_USAGE}}="filesystem", SYMLINK+="{made}"\n'
    (rules / "63-md-raid-arrays.rules").write_text(f'OPTIONS+="link_priority=100"\n{md}')
    ours = (VOLUME.parent / "63-md-raid-linnet.rules").read_text()
    ours = re.sub(r'TEST!="/etc/linnet.*|KERNEL=="md\*", ENV{DEVTYPE}=="disk", ', "", ours)
    (rules / "63-md-raid-linnet.rules").write_text(ours.replace("/usr/lib/linnet/volume", str(program)))
    (rules / "64-btrfs.rules").write_text('ENV{ID_FS_TYPE}=="btrfs", ENV{SCANNED}="1"\n')
    (root / "dev").mkdir()
    script = f"""
        mount -t tmpfs none /run && mkdir -p /run/udev/rules.d && mount -t tmpfs none {root}/dev || exit 77
        mknod {root}/dev/null c 1 3 && mount --bind {root}/dev /dev || exit 77
        mount --bind {rules} /usr/lib/udev/rules.d || exit 77
        [ ! -d /etc/udev/rules.d ] || mount -t tmpfs none /etc/udev/rules.d || exit 77
        udevadm test {str(block[0].resolve()).removeprefix("/sys")}
    """
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode in (1, 77):
        pytest.skip(f"no udev in a namespace: {done.stderr[-200:]}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if re.match(r"[A-Z_]+=", line))


def test_what_udev_makes_of_an_array_below_a_volume(machine: Machine) -> None:
    above = re.search(r"(?m)^above\(\) {\n(?s:.*?)^}\n", VOLUME.read_text())
    assert above
    told = udevadm_test(machine.root, f'{above[0]}shift 3\nabove vol "$@"\n')
    assert set(told["DEVLINKS"].split()) == {f"/dev/{link}" for link in ITSELF}
    assert told["ID_FS_TYPE"] == "linnet_array" and "ID_FS_USAGE" not in told and "SCANNED" not in told
    assert "SYSTEMD_READY" not in told


def test_what_udev_makes_of_an_array_without_a_volume(machine: Machine) -> None:
    told = udevadm_test(machine.root, "")
    assert len(told["DEVLINKS"].split()) == len(ITSELF) + len(HOLDS)
    assert told["ID_FS_USAGE"] == "filesystem" and told["SCANNED"] == "1"
