# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans of `linnet dm` as they are carried out: what fails, is interrupted, or meets another command."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from linnet.cli import dm_plan
from linnet.dm import DmError
from linnet.dm.plan import Describe
from md_host import UUID, MdHost, call, machine, volume_above


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MdHost:
    return machine(tmp_path, monkeypatch)


@pytest.fixture
def volume(host: MdHost) -> Path:
    return volume_above(host)


def test_an_array_that_cannot_be_stopped_is_not_described(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])

    fails = ""

    def run(words: list[str]) -> str:
        if words[1] == fails:
            raise DmError(f"mdadm {words[1]}: no")
        return MdHost.run(host, words)

    monkeypatch.setattr(host, "run", run)
    for word in ("--detail", "--stop"):
        fails = word
        code, out, _ = call("adopt", "/dev/md5", "--name", "vol", "--json")
        told = json.loads(out)
        assert code == 1 and not host.description("vol").exists() and told["not_done"]
        assert told["recovery"].startswith("/dev/md5 runs as before and is not described; `fuser -v /dev/md5`")
    # Once it is stopped, the description is what puts it together.
    fails = "--assemble"
    told = json.loads(call("adopt", "/dev/md5", "--name", "vol", "--json")[1])
    assert host.description("vol").exists() and told["recovery"].startswith("`linnet dm start vol` goes on")


def test_a_dry_run_that_is_interrupted_takes_nothing_back(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    host.description("vol").parent.mkdir(parents=True)
    host.description("vol").write_text("uuid=1\n")
    told = dm_plan._tell

    def interrupted(say: Callable[[object], None], what: object) -> None:
        if isinstance(what, Describe):
            os.kill(os.getpid(), signal.SIGINT)
        told(say, what)

    monkeypatch.setattr(dm_plan, "_tell", interrupted)
    assert call("adopt", "/dev/md5", "--name", "vol", "--dry-run")[0] == 130
    assert host.description("vol").read_text() == "uuid=1\n"


def test_a_plan_that_keeps_udev_away_is_not_to_be_typed(host: MdHost, volume: Path) -> None:
    for words, held in (
        (("create", "new", "--md", "/dev/nvme0n1", "/dev/nvme1n1"), True),
        (("release", "vol"), True),
        (("create", "new", "/dev/nvme0n1"), False),
    ):
        told = json.loads(call(*words, "--dry-run", "--json")[1])
        assert any("not typed: it keeps udev from" in line for line in told["notes"]) == held, words
    told = json.loads(call("release", "vol", "--json")[1])
    assert not any("not typed" in line for line in told["notes"])


def test_a_plan_that_fails_says_what_was_done(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(words: list[str]) -> str:
        if words[:2] == ["mdadm", "--create"]:
            raise DmError("mdadm: no")
        return MdHost.run(host, words)

    monkeypatch.setattr(host, "run", stopped)
    words = ("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    code, out, _ = call(*words, "--json")
    told = json.loads(out)
    assert code == 1 and told["error"] == "mdadm: no" and len(told["steps"]) == 3
    assert [line.split()[0] for line in told["not_done"]] == ["mdadm", "{", "dmsetup"]
    assert "`linnet dm start vol` goes on" in told["recovery"] and "`mdadm --stop /dev/md0`" in told["recovery"]
    assert "vol-legK with `dmsetup remove`" in told["recovery"]
    # What is left is in the way of the next try, and that says so.
    (host.root / "sys/block/dm-0/dm").mkdir(parents=True)
    (host.root / "sys/block/dm-0/dm/name").write_text("vol-leg0\n")
    host.description("vol").parent.mkdir(parents=True)
    host.description("vol").write_text(f"uuid={UUID}\n")
    refusals = json.loads(call(*words, "--dry-run", "--json")[1])["refusals"]
    assert "`linnet dm start vol`, then `linnet dm release vol` take it off" in refusals[0]
    assert "`dmsetup remove vol-leg0` if it is left of a command that failed" in refusals[1]
    assert not list((host.root / "run/linnet").iterdir())


@pytest.mark.parametrize("program", ["mdadm", "wipefs", "dmsetup", "modprobe"])
def test_a_plan_whose_programs_are_not_there_is_not_begun(host: MdHost, program: str) -> None:
    host.known["/dev/nvme1n1"] = "a signature of ext4"
    host.absent = {program}
    words = ("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--overwrite-data-on", "/dev/nvme1n1")
    code, _, said = call(*words)
    assert code == 1 and f"{program}: not found" in said and not host.ran
    assert call(*words, "--dry-run")[0] == 0


def test_ctrl_c_ends_a_plan_between_two_steps(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> str:
        if words[:2] == ["dmsetup", "create"]:
            os.kill(os.getpid(), signal.SIGINT)
        return MdHost.run(host, words)

    monkeypatch.setattr(host, "run", interrupted)
    code, out, _ = call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--json")
    told = json.loads(out)
    assert code == 130 and told["error"] == "interrupted"
    assert told["steps"] == ["modprobe dm-linnet", "dmsetup create vol-leg0 --table '0 131072 linnet-leg 259:0 0'"]
    assert told["not_done"][0].startswith("dmsetup create vol-leg1 ")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_ends_no_plan(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def hung_up(words: list[str]) -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        return MdHost.run(host, words)

    monkeypatch.setattr(host, "run", hung_up)
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert call("adopt", "/dev/md5", "--name", "vol")[0] == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_a_reader_that_leaves_ends_no_plan(tmp_path: Path, fails: bool, json: list[str]) -> None:
    program = f"""
import pathlib, sys
import md_host as made
from linnet.cli import dm_plan, main
from linnet.dm import DmError

class Noted(made.MdHost):
    def run(self, words):
        if {fails} and words[1] == "--assemble":
            raise DmError("mdadm: no")
        with open({str(tmp_path / "ran")!r}, "a") as file:
            print(*words, file=file)
        return super().run(words)

host = Noted(pathlib.Path({str(tmp_path)!r}))
for k in range(2):
    host.drive(f"/dev/nvme{{k}}n1", made.SIZE)
host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
dm_plan.host = lambda: host
sys.argv = ["linnet", "dm", "adopt", "/dev/md5", "--name", "vol", *{json}]
main()
"""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        done = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=writing, env=where, check=False)
    finally:
        os.close(writing)
    ran = (tmp_path / "ran").read_text().splitlines()
    assert (done.returncode, len(ran)) == ((1, 5) if fails else (0, 7)), ran


def test_one_command_at_a_time(host: MdHost) -> None:
    sign = host.root / "run/linnet/vol.hold"
    sign.parent.mkdir(parents=True)
    sign.write_text("4242\n")
    (host.root / "proc/4242").mkdir()
    words = ("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    code, _, said = call(*words)
    assert code == 1 and "process 4242, is at work" in said and not host.ran and sign.exists()
    (host.root / "proc/4242").rmdir()
    assert call(*words)[0] == 0 and not sign.exists()


def test_a_later_process_with_the_number_of_a_worker_holds_nothing(host: MdHost) -> None:
    sign, process = host.root / "run/linnet/vol.hold", host.root / "proc/4242"
    sign.parent.mkdir(parents=True)
    process.mkdir()
    fields = " ".join(map(str, range(5, 53)))
    (process / "stat").write_text(f"4242 (a) 1 b) S 4 {fields}\n")
    (host.root / f"proc/{os.getpid()}").mkdir()
    (host.root / f"proc/{os.getpid()}/stat").write_text(f"1 (linnet) R 4 {fields}\n")
    sign.write_text("4242\n22\n")
    with pytest.raises(DmError, match="process 4242, is at work"), host.held("vol"):
        pass
    sign.write_text("4242\n21\n")
    with host.held("vol"):
        assert sign.read_text() == f"{os.getpid()}\n22\n"
    assert not sign.exists()


def test_drives_that_came_while_a_volume_was_held_come_again(host: MdHost) -> None:
    host.hold("/dev/nvme1n1", "md0")
    with host.held("vol"):
        (host.root / "run/linnet/vol.later").write_text("259:1\n259:0\n259:0\n259:9\n")
    assert not list((host.root / "run/linnet").iterdir())
    assert (host.sysfs((259, 0)) / "uevent").read_text() == "add\n"
    assert not (host.sysfs((259, 1)) / "uevent").exists()


def test_two_commands_at_once(host: MdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    (host.root / f"proc/{os.getpid()}").mkdir()
    entered, refused, end = [], [], threading.Event()

    def other() -> None:
        try:
            with host.held("vol"):
                entered.append("other")
                end.wait(10)
        except DmError as error:
            refused.append(str(error))

    thread, looked = threading.Thread(target=other), host._worker

    def look(sign: Path) -> int | None:
        found = looked(sign)
        if threading.current_thread() is not thread:
            thread.start()  # it looks before this one has written
            thread.join(0.2)
        return found

    monkeypatch.setattr(host, "_worker", look)
    with host.held("vol"):
        entered.append("this")
        thread.join(1)
    end.set()
    thread.join()
    assert entered == ["this"] and "is at work" in refused[0]
    assert not list((host.root / "run/linnet").iterdir())


def test_a_command_leaves_the_sign_of_another(host: MdHost) -> None:
    sign = host.root / "run/linnet/vol.hold"
    with host.held("vol"):
        assert sign.read_text() == f"{os.getpid()}\n"
        sign.write_text("4242\n")
    assert sign.read_text() == "4242\n"
