# SPDX-License-Identifier: MIT OR Apache-2.0
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import device_trace
from dm_host import SIZE, FakeHost, dm, refused, two_drives
from hypothesis import given
from hypothesis import strategies as st
from linnet.cli import app
from linnet.dm import DmError, guard, status
from linnet.dm.host import Host
from linnet.dm.plan import Run
from linnet.dm.table import POLICIES, Table, parse
from typer.testing import CliRunner

STATUS = (
    "0 8192 linnet version 1 policy linnet-best model loaded on 1 revoke 0 reads 100 writes 5 decisions 90 revokes 0 "
    "forced 10 failovers 1 probes 2 own_probes 1 unprobed 0 untracked 0 "
    "hedge 2 hedges 3 hedge_wins 1 discarded 2 unhedged 0 hedge_us 450 replicas 2 "
    "dev 259:0 state A inflight 3 reads 60 writes 5 errors 0 ewma_us 120 lat 0,50,9,0,0,0,0,0,0,0,0,0,0,0,0,1 "
    "dev 259:1 state D inflight 0 reads 40 writes 5 errors 4 ewma_us 0 lat 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"
)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    return two_drives(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("model")
    device_trace(reads=2000).write(where / "t.parquet")
    command = [
        Path(sys.executable).with_name("linnet"),
        "fit",
        "--trace",
        where / "t.parquet",
        "--out",
        where / "m.linnet",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return where / "m.linnet"


@pytest.fixture
def model(tmp_path: Path, fitted: Path) -> Path:
    return Path(shutil.copy(fitted, tmp_path))


def table_of(line: str) -> Table:
    """The table in a printed dmsetup line."""
    words = shlex.split(line)
    return parse(words[words.index("--table") + 1])


def test_read_only_replicas(host: FakeHost, model: Path) -> None:
    result = dm("create", "vol", host.a, host.b, "--model", model)
    length = SIZE // 512
    create = (
        f"dmsetup create vol --readonly --table '0 {length} linnet 2 {host.word(host.a)} 0 {host.word(host.b)} 0 "
        "4 policy linnet-best model m.linnet'"
    )
    assert result.stdout.splitlines() == [
        f"install -D -m 644 {model} {host.firmware}/m.linnet", "modprobe dm-linnet", create,
    ]  # fmt: skip
    assert [shlex.join(words) for words in host.ran] == ["modprobe dm-linnet", create]
    assert (host.firmware / "m.linnet").read_bytes() == model.read_bytes()
    assert "no difference" in result.stderr


def test_late_reads_are_hedged_when_asked(host: FakeHost, model: Path) -> None:
    line = dm("create", "vol", host.a, host.b, "-m", model, "--hedge", 2, "--dry-run").stdout.splitlines()[-1]
    assert table_of(line).hedge == 2
    assert line.endswith("6 policy linnet-best model m.linnet hedge 2'")
    done = CliRunner().invoke(app, ["dm", "policy", "vol"])
    assert "--hedge PERCENT" in str(done.exception)
    done = CliRunner().invoke(app, ["dm", "policy", "vol", "--hedge", "51"])
    assert "0 to 50" in str(done.exception) and host.ran == []


def test_a_dry_run_prints_the_same_lines_and_does_nothing(host: FakeHost, model: Path) -> None:
    words = ("create", "vol", host.a, host.b, "--model", model, "--revoke", "--ioprio", "0x500c")
    host.root_user = False
    dry = dm(*words, "--dry-run")
    assert host.ran == []
    assert not host.firmware.exists()
    host.root_user = True
    assert dm(*words).stdout == dry.stdout
    assert dry.stdout.splitlines()[-1].endswith("7 policy linnet-best model m.linnet revoke ioprio 0x500c'")
    # Without root nothing is done either.
    host.ran.clear()
    host.root_user = False
    result = CliRunner().invoke(app, ["dm", "create", "vol", host.a, host.b])
    assert "root" in str(result.exception)
    assert host.ran == []


def test_a_dry_run_needs_no_devices(linnet) -> None:
    done = linnet("dm", "create", "vol", "/dev/absent0", "/dev/absent1", "--policy", "linnos", "--dry-run")
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    assert line.startswith('dmsetup create vol --readonly --table "0 $(blockdev --getsz /dev/absent0) linnet 2')
    assert "absent1" in done.stderr
    for words in (["policy", "vol", "linnos"], ["remove", "vol"], ["status", "vol"], ["export-trace", "-o", "."]):
        done = linnet("dm", *words, "--dry-run")
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert linnet("dm", "policy", "vol", "oracle", "--dry-run").returncode == 1


def test_a_missing_device_does_not_stop_the_checks_of_the_others(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["dm", "create", "vol", *words, "--policy", "baseline", "--dry-run"])
        assert done.exit_code == ("would be refused" in done.stderr)
        return " ".join(done.stderr.split())

    assert "would be refused" not in said(host.a, "/dev/nope")
    assert f"no difference was found between {host.a} and {host.b}:" in said(host.a, "/dev/nope", host.b)
    changed = host.drive("/dev/nvme2n1", data=b"x")
    assert "would be refused" in said(host.a, "/dev/nope", changed)
    empty = host.drive("/dev/sr0", 0)
    assert f"would be refused: {empty} has size 0" in said(empty, "/dev/nope")
    host.mount(host.a, "/data")
    assert f"would be refused: {host.a} is mounted on /data" in said(host.a, "/dev/nope")
    # Nor does one that cannot be opened.
    busy = host.busy

    def denied(path: str) -> bool:
        if path == host.b:
            raise DmError(f"{path}: Permission denied")
        return busy(path)

    monkeypatch.setattr(host, "busy", denied)
    told = said(host.b, host.a)
    assert f"{host.b}: Permission denied; whether it would be refused was not checked" in told
    assert f"{host.a} is mounted on /data" in told


def test_a_dry_run_refuses_what_is_no_block_device(tmp_path: Path, linnet) -> None:
    file = tmp_path / "image"
    file.touch()
    done = linnet("dm", "create", "vol", "/dev/null", file, "--policy", "baseline", "--dry-run", "--json")
    assert done.returncode == 1
    hint = "not a block device; losetup makes one of a file"
    assert json.loads(done.stdout)["refusals"] == ["/dev/null: not a block device", f"{file}: {hint}"]


def test_an_absent_device_twice(host: FakeHost) -> None:
    for other in ("/dev/nope", "/dev/./nope"):
        words = ["create", "vol", "/dev/nope", other, "--policy", "baseline", "--dry-run"]
        done = CliRunner().invoke(app, ["dm", *words])
        told = done.stderr
        assert done.exit_code == 1 and f"would be refused: {other} and /dev/nope are the same device" in " ".join(
            told.split()
        )
    told = dm("create", "vol", "/dev/nope", "/dev/nope2", "--policy", "baseline", "--dry-run").stderr
    assert "would be refused" not in told


def test_printed_commands_are_inert_but_for_our_own_substitution() -> None:
    hostile = ["$(echo ran)", "`echo ran`", 'a"; echo ran; "', "a'b", "$HOME", "\\", "~", "#x"]

    def pasted(command: Run) -> list[str]:
        done = subprocess.run(["/bin/sh", "-c", str(command)], capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    printf = ["printf", "%s\\n"]
    assert pasted(Run([*printf, *hostile])) == hostile
    ours = "$(echo 42)"
    assert pasted(Run([*printf, *(f"{word} {ours} {word}" for word in hostile)], ours)) == [
        f"{word} 42 {word}" for word in hostile
    ]


def test_a_kernel_without_device_mapper_is_told_what_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "/dev/mapper/control: open failed: {}\nFailure to communicate with kernel device-mapper driver.\n"
        "Incompatible libdevmapper 1.02.185 (2022-05-18) and kernel driver (unknown version).\nCommand failed.\n"
    )
    host = Host()
    monkeypatch.setattr(host, "need", lambda words: None)
    for why, told in (
        ("No such device", "^the kernel has no device-mapper: modprobe dm-mod$"),
        ("Permission", "^dmsetup"),
    ):
        done = subprocess.CompletedProcess(["dmsetup"], 1, "", said.format(why))
        monkeypatch.setattr(host, "_call", lambda words, done=done: done)
        with pytest.raises(DmError, match=told):
            host.run(["dmsetup", "status", "vol"])


def test_a_name_that_a_shell_would_run_is_refused(host: FakeHost) -> None:
    for words in (("status",), ("trust",), ("status", "--json"), ("create",), ("export-trace", "-o", "x")):
        for dry in ((), ("--dry-run",)):
            devices = [host.a] if words == ("create",) else []
            for name in ("$(id)", "a;id", ""):
                said = refused(host, *words, name, *devices, *dry)
                assert "cannot be a device's name" in said, (words, name)


def test_dry_runs_of_questions_have_the_same_json(host: FakeHost) -> None:
    asked, told = "dmsetup status --target linnet vol", "dmsetup message vol 0 trust K GENERATION"
    rest = {"dry_run": True, "warnings": [], "refusals": [], "notes": []}
    assert json.loads(dm("status", "vol", "--dry-run", "--json").stdout) == {"steps": [asked], **rest}
    assert json.loads(dm("trust", "vol", "--dry-run", "--json").stdout) == {"steps": [asked, told], **rest}
    assert dm("status", "vol", "--dry-run").stdout.splitlines() == [asked]
    assert dm("trust", "vol", "--dry-run").stdout.splitlines() == [asked, told]
    assert host.ran == []


def test_the_smallest_device_gives_the_size(host: FakeHost) -> None:
    small = host.drive("/dev/nvme2n1", SIZE // 2)
    result = dm("create", "vol", host.a, small)
    assert table_of(result.stdout.splitlines()[-1]).length == SIZE // 2 // 512
    assert f"{small} is the smallest" in result.stderr
    assert host.a in result.stderr


def test_devices_in_use_are_refused(host: FakeHost) -> None:
    words = ("create", "vol", host.a, host.b)
    host.mount(host.b, "/data")
    assert f"{host.b} is mounted on /data" in refused(host, *words)
    part = host.drive("/dev/nvme2n1p1", disk="nvme2n1")
    whole = host.drive("/dev/nvme3n1")
    (host.root / "proc/swaps").write_text(f"Filename Type Size Used Priority\n{part} partition 1 0 -2\n")
    assert "used as swap" in refused(host, "create", "vol", part)
    host.hold(whole, "md0")
    assert "md0" in refused(host, "create", "vol", whole)
    host.lent.add(host.a)
    assert "in use" in refused(host, "create", "vol", host.a)
    # Whatever may be overwritten, a device in use may not.
    assert "mounted" in refused(host, *words, "--md", "--overwrite-data-on", host.b)


def test_a_disk_is_in_use_when_its_partition_is(host: FakeHost) -> None:
    disk = host.drive("/dev/nvme4n1")
    part = host.drive("/dev/nvme4n1p1", disk="nvme4n1")
    host.mount(part, "/home")
    assert "/home" in refused(host, "create", "vol", disk)
    # btrfs mounts have numbers of their own; the source tells.
    host.mount(host.a, "/b", number="0:55")
    assert "/b" in refused(host, "create", "vol", host.a)


def test_the_same_device_twice(host: FakeHost) -> None:
    host.numbers["/dev/disk/by-id/x"] = host.numbers[host.a]
    assert "the same device" in refused(host, "create", "vol", host.a, "/dev/disk/by-id/x")
    disk = host.drive("/dev/nvme4n1")
    one, two = (host.drive(f"/dev/nvme4n1p{i}", disk="nvme4n1") for i in (1, 2))
    assert "is a partition of" in refused(host, "create", "vol", disk, one)
    assert "partitions of one disk" in dm("create", "vol", one, two, "--dry-run").stderr


def test_the_name_of_a_described_volume_is_taken(host: FakeHost) -> None:
    host.description("vol").parent.mkdir(parents=True)
    host.description("vol").touch()
    assert "describes a volume of this name" in refused(host, "create", "vol", host.a, host.b)
    assert dm("create", "other", host.a, host.b).exit_code == 0


def test_replicas_must_hold_the_same_bytes(host: FakeHost) -> None:
    changed = host.drive("/dev/nvme2n1", data=b"\0" * (SIZE - 100) + b"x")
    message = refused(host, "create", "vol", host.a, changed)
    assert "differ" in message
    assert changed in message
    assert "not checked" in dm("create", "vol", host.a, changed, "--trust-identical").stderr


def test_an_option_without_effect_is_refused(host: FakeHost) -> None:
    full = host.drive("/dev/nvme2n1", data=b"data")
    assert "nothing would be written" in refused(host, "create", "vol", full, "--overwrite-data-on", full)


@pytest.mark.parametrize("log", ["core", "disk:/dev/nvme5n1"])
def test_the_old_mirror_is_refused_with_what_to_use(host: FakeHost, log: str) -> None:
    said = refused(host, "create", "vol", host.a, host.b, "--log", log)
    assert "use --md" in said and "lose acknowledged writes" in said


def test_wrong_wishes(host: FakeHost, model: Path) -> None:
    bad = model.parent / "bad.linnet"
    bad.write_bytes(b"no model")
    for words, said in [
        (("vol", host.a, "--ioprio", "0x5004"), "--revoke"),
        (("vol", host.a, "--revoke", "--ioprio", "0x1004"), "class"),
        (("vol", host.a, "--revoke", "--ioprio", "0x0"), "hint"),
        (("vol", host.a, "--revoke", "--ioprio", "0x4007"), "hint"),
        (("vol", host.a, "--revoke", "--ioprio", "0x6007"), "hint"),
        (("vol", host.a, "--out", 1), "from 0 to 0"),
        (("vol", host.a, "--hedge", 2), "two devices"),
        (("vol", host.a, host.b, "--hedge", 0), "1 to 50"),
        (("vol", host.a, host.b, "--hedge", 51), "1 to 50"),
        (("vol", host.a, "--out", 0), "every replica"),
        (("vol", "nvme0n1"), "whole path"),
        (("a b", host.a), "name"),
        (("vol", host.a, "--policy", "oracle"), "known:"),
        (("vol", *[host.a] * 9), "1 to 8"),
        (("vol", host.a, "--model", model, "--model", model), "2 models for 1"),
        (("vol", "/dev/absent"), "absent"),
        (("vol", host.a, "--log-size", "3"), "No such option"),
    ]:
        assert said in refused(host, "create", *words), words
    result = CliRunner().invoke(app, ["dm", "create", "vol", host.a, "--model", str(bad)])
    assert "bad.linnet" in str(result.exception)
    for name in ("..m", "-m"):
        model = model.rename(model.with_name(name))
        assert "cannot be a model's name" in refused(host, "create", "vol", host.a, "--model", str(model))
    model = model.rename(model.with_name("_a+b.linnet"))
    assert "model _a+b.linnet" in dm("create", "vol", host.a, "--model", model, "--dry-run").stdout


def test_models_for_each_replica(host: FakeHost, model: Path) -> None:
    other = model.with_name("other.linnet")
    other.write_bytes(model.read_bytes())
    line = dm("create", "vol", host.a, host.b, "-m", model, "-m", other, "--dry-run").stdout.splitlines()[-1]
    assert table_of(line).models == ["m.linnet", "other.linnet"]


def test_messages(host: FakeHost, model: Path) -> None:
    dm("load", "vol", model, "--replica", 1)
    dm("policy", "vol", "shortest-queue")
    dm("policy", "vol", "ewma-inflight", "--hedge", 0)
    dm("policy", "vol", "--hedge", 3)
    host.answers["dmsetup table"] = "0 8 linnet 2 259:0 0 259:1 0 2 policy baseline"
    dm("remove", "vol")
    assert [shlex.join(words) for words in host.ran] == [
        "dmsetup message vol 0 load 1 m.linnet",
        "dmsetup message vol 0 policy shortest-queue",
        "dmsetup message vol 0 policy ewma-inflight",
        "dmsetup message vol 0 hedge 0",
        "dmsetup message vol 0 hedge 3",
        "dmsetup table vol",
        "dmsetup remove --retry vol",
    ]
    assert (host.firmware / "m.linnet").exists()
    assert oct((host.firmware / "m.linnet").stat().st_mode & 0o444) == oct(0o444)
    # Another model under a name that a target uses.
    (host.firmware / "m.linnet").write_bytes(b"older")
    host.ran.clear()
    said = dm("load", "vol", model).stderr
    assert "is another model and stays" in said
    assert (host.firmware / "m.linnet").read_bytes() == b"older"
    (installed,) = [path for path in host.firmware.iterdir() if path.name != "m.linnet"]
    assert installed.read_bytes() == model.read_bytes()
    assert host.ran == [["dmsetup", "message", "vol", "0", "load", installed.name]]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("0 8 linear 259:0 0", "target linear, not of linnet"),
        ("0 8 linear 259:0 0\n8 8 linnet 1 259:0 0 0", "target linear, not of linnet"),
        ("", "root has no table, so nothing says that it is of linnet"),
    ],
)
def test_devices_of_others_are_not_removed(host: FakeHost, table: str, why: str) -> None:
    host.answers["dmsetup table"] = f"{table}\n"
    for dry in ([], ["--dry-run"]):
        result = CliRunner().invoke(app, ["dm", "remove", "root", *dry])
        assert result.exit_code == 1 and why in result.stderr
    assert [words[1] for words in host.ran] == ["table", "table"]


def test_status(host: FakeHost) -> None:
    host.answers["dmsetup status"] = STATUS + "\n"
    found = json.loads(dm("status", "vol", "--json").stdout)["vol"]
    assert (found["policy"], found["reads"], found["probes"]) == ("linnet-best", 100, 2)
    first, second = found["replicas"]
    assert first["name"] == "nvme0n1"
    # 50 of 60 below 128 us, 59 below 256 us, one beyond the last end.
    assert (first["p50_us_below"], first["p99_us_below"], first["p999_us_below"]) == (128, None, None)
    assert second["p50_us_below"] is None
    shown = dm("status", "vol").stdout
    assert "out of service" in shown
    assert "< 128 us" in shown
    assert "hedging 2 %, reads later than 450 us" in shown and "hedge_wins" in shown
    assert (found["hedge"], found["hedges"], found["hedge_us"]) == (2, 3, 450)
    host.answers["dmsetup status"] = f"one: {STATUS}\n2: {STATUS}\n"
    assert set(json.loads(dm("status", "--json").stdout)) == {"one", "2"}
    host.answers["dmsetup status"] = ""
    assert json.loads(dm("status", "--json").stdout) == {}
    with pytest.raises(DmError, match="no device of the target"):
        dm("status", "vol")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "0 8 linear 1:2 0",
        "0 8 linnet version 2 policy x",
        STATUS + " odd",
        STATUS.replace("replicas 2", "replicas 3"),
        STATUS.replace("reads 100", "reads many"),
    ],
)
def test_a_status_of_another_kind_is_refused(line: str) -> None:
    with pytest.raises(DmError):
        status.parse(line)


@pytest.mark.parametrize("word", ["policy", "revoke", "own_probes", "probes", "state", "ewma_us", "lat", "hedge_us"])
def test_a_status_that_lacks_a_word(host: FakeHost, word: str) -> None:
    host.answers["dmsetup status"] = re.sub(rf" {word} \S+", "", STATUS)
    if word == "own_probes":  # which only a program reads
        assert dm("status", "vol").exit_code == 0
        return
    for words in (("status", "vol"), ("status", "vol", "--json")):
        with pytest.raises(DmError, match=f"a status without `{word}`; use a module and a command of the same release"):
            dm(*words)


WORD = st.text("abcdefgh0123.-", min_size=1, max_size=8).filter(lambda name: name[0] not in ".-")


@given(
    st.integers(1, 1 << 40), st.lists(st.builds("/dev/{}".format, WORD), min_size=1, max_size=8),
    st.sampled_from(POLICIES), st.booleans(), st.none() | st.integers(0x2000, 0x7FFF), st.booleans(),
    st.none() | st.integers(1, 50), st.data(),
)  # fmt: skip
def test_tables_round_trip(length, devices, policy, revoke, ioprio, off, hedge, data) -> None:
    models = data.draw(st.lists(st.none() | WORD, min_size=len(devices), max_size=len(devices)))
    out = data.draw(st.lists(st.integers(0, len(devices) - 1), unique=True).map(sorted))
    table = Table(length, devices, policy, models, revoke, ioprio, off, hedge, out)
    assert parse(table.line()) == table


def test_revoking_without_a_tag_takes_that_of_the_library(host: FakeHost, model: Path) -> None:
    done = dm("create", "vol", host.a, "--model", model, "--revoke", "--dry-run")
    header = (Path(__file__).parents[2] / "lib/liblinnet.h").read_text()
    tag = re.search(r"#define LINNET_TAG_DEFAULT 0x([0-9a-f]{4})u", header)
    assert tag and done.stdout.splitlines()[-1].endswith(f" revoke ioprio 0x{tag[1]}'")


def test_help_shows_examples(linnet) -> None:
    commands = ("create", "adopt", "release", "start", "trust", "status", "load", "policy", "remove", "export-trace")
    for command in commands:
        text = re.sub(r"\s+", " ", linnet("dm", command, "--help").stdout)
        assert f"linnet dm {command}" in text.replace("│", "")


def test_a_path_is_one_word_of_a_table(host: FakeHost) -> None:
    """What a path holds besides would become words of the table."""
    bad = host.drive("/dev/l 1024 nosync /x")
    for words in (
        ("create", "vol", host.a, bad),
        ("create", "vol", "/dev/a$(reboot)", host.b, "--dry-run"),
        ("create", "vol", "/dev/a\x1b[2J", host.b),
        ("replace", "vol", 0, bad),
    ):
        host.answers["dmsetup table"] = f"0 {SIZE // 512} linnet 2 259:0 0 259:1 0 2 policy linnos"
        done = CliRunner().invoke(app, ["dm", *map(str, words)])
        assert "cannot be a device's path" in str(done.exception), words
    assert not [words for words in host.ran if words[:2] == ["dmsetup", "create"]]
    # A path that names another device by the time that it is opened changes nothing.
    dm("create", "vol", host.a, host.b, "--policy", "linnos")
    assert table_of(shlex.join(host.ran[-1])).devices == [host.word(host.a), host.word(host.b)]


def test_a_loop_device_and_a_second_path_are_seen(host: FakeHost, tmp_path: Path) -> None:
    host.loop("loop3", host.a)
    assert "loop3 stands on it" in refused(host, "create", "vol", host.a, host.b)
    host.loop("loop3", "/var/image")
    twin = host.drive("/dev/nvme9n1")
    host.wwid(host.b, "eui.0011223344556677")
    host.wwid(twin, " eui.0011223344556677 ")
    assert "two paths to one drive, eui.00" in refused(host, "create", "vol", host.b, twin)
    host.wwid(twin, "eui.8899aabbccddeeff")
    image, other = tmp_path / "image", tmp_path / "hard-link"
    image.touch()
    other.hardlink_to(image)
    host.stand_on(host.b, image)
    host.stand_on(twin, other)
    assert "two paths to one drive, inode" in refused(host, "create", "vol", host.b, twin)
    host.stand_on(twin, other, SIZE - 512)
    assert "two paths to one drive, inode" in refused(host, "create", "vol", host.b, twin)
    host.stand_on(twin, other, SIZE)
    assert dm("create", "vol", host.b, twin, "--policy", "linnos").exit_code == 0


def test_a_disk_and_a_partition_of_its_second_path_are_one_drive(host: FakeHost) -> None:
    parts = []
    for k in (4, 5):
        host.wwid(host.drive(f"/dev/nvme{k}n1"), "eui.1")
        parts += [host.drive(f"/dev/nvme{k}n1p{i}", SIZE // 4, disk=f"nvme{k}n1") for i in (1, 2)]
        (host.sysfs(host.numbers[parts[-1]]) / "start").write_text(f"{2048 + SIZE // 2048}\n")
    disk, (one, two, same, _) = "/dev/nvme4n1", parts
    for words in ((disk, same), (same, disk), (one, same)):
        assert "two paths to one drive, eui.1" in refused(host, "create", "vol", *words), words
    assert dm("create", "vol", two, same, "--policy", "linnos").exit_code == 0


def test_a_comparison_says_what_it_looked_at(host: FakeHost) -> None:
    said = dm("create", "vol", host.a, host.b, "--policy", "linnos").stderr
    assert "all bytes were compared" in said or "MiB were compared" in said
    assert "10.0 MiB of 1,000 MiB" not in guard.compared(SIZE)
    large = guard.compared(1000 << 20)
    assert large.startswith("6.0 MiB of 1,000 MiB were compared") and "was not seen" in large


@pytest.mark.parametrize("word", ["create", "message", "load", "resume", "remove"])
def test_the_kernel_is_quoted_on_this_command_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    log = tmp_path / "dev/kmsg"
    log.parent.mkdir()
    log.write_text("3,7,1,-;device-mapper: table: 253:0: linnet: an earlier reason\n")
    program = tmp_path / "dmsetup"
    program.write_text('#!/bin/sh\nprintf %s "$2" >>"$KMSG"\necho failed >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("KMSG", str(log))
    new = "3,8,2,-;device-mapper: table: 253:1: linnet: size 0\n SUBSYSTEM=x\n"
    for logged in ("", new):
        with pytest.raises(DmError) as told:
            Host(tmp_path).run(["dmsetup", word, logged])
        quoted = "; the kernel: table: 253:1: linnet: size 0" if logged and word != "remove" else ""
        assert str(told.value).endswith(f": failed{quoted}")
