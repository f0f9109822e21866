# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet dm policy` and `load` change the description of a volume above md, too."""

import json
import subprocess
from pathlib import Path

import pytest
from linnet.cli import dm_plan
from linnet.dm import DmError
from linnet.dm.plan import Redescribe
from md_host import SIZE, UUID, MdHost
from md_host import call as called


class Machine(MdHost):
    """Has the volume `vol`, and refuses the messages in `refused`."""

    refused: tuple[str, ...] = ()

    def run(self, words: list[str]) -> str:
        said = super().run(words)
        if words[1] == "message" and words[4] in self.refused:
            raise DmError("dmsetup message: No such file or directory")
        return said

    @property
    def changes(self) -> list[list[str]]:
        return [words for words in self.ran if words[1] != "table"]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    for k in range(2):
        machine.drive(f"/dev/dm-{k}", SIZE)
    machine.array("md0", (9, 0), ["/dev/dm-0", "/dev/dm-1"])
    machine.answers["--target linnet vol"] = "0 129024 linnet md 9:0 2 259:0 2048 259:1 2048 2 policy baseline\n"
    monkeypatch.setattr(dm_plan, "host", lambda: machine)
    return machine


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("linnet.dm.plan.Model.from_bytes", lambda data, name: None)
    file = tmp_path / "better.linnet"
    file.write_bytes(b"model")
    return str(file)


def describe(host: Machine, arguments: str) -> Path:
    path = host.description("vol")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# ours\narguments={arguments}\nuuid={UUID}\n")
    return path


def described(host: Machine) -> str:
    first, arguments, last = host.description("vol").read_text().splitlines()
    assert (first, last) == ("# ours", f"uuid={UUID}")
    return arguments.removeprefix("arguments=")


def call(*words: str) -> tuple[int, str, str]:
    code, out, said = called(*words)
    return code, out, " ".join(said.split())


@pytest.mark.parametrize(
    ("before", "words", "after"),
    [
        ("policy baseline model m.linnet", ["shortest-queue"], "policy shortest-queue model m.linnet"),
        ("model m.linnet out:1 policy baseline off", ["linnos"], "model m.linnet out:1 policy linnos off"),
        ("", ["linnos"], "policy linnos"),
        ("policy baseline", ["--hedge", "2"], "policy baseline hedge 2"),
        ("hedge 5 policy baseline", ["--hedge", "2"], "hedge 2 policy baseline"),
        ("policy baseline hedge 5 model m.linnet", ["--hedge", "0"], "policy baseline model m.linnet"),
        ("policy baseline", ["--hedge", "0"], "policy baseline"),
        ("policy baseline hedge 5", ["linnos", "--hedge", "3"], "policy linnos hedge 3"),
    ],
)
def test_policy(host: Machine, before: str, words: list[str], after: str) -> None:
    describe(host, before)
    assert call("policy", "vol", *words)[0] == 0
    assert described(host) == after


@pytest.mark.parametrize(
    ("before", "replica", "after"),
    [
        ("policy linnos", None, "policy linnos model better.linnet"),
        ("policy linnos model m.linnet hedge 2", None, "policy linnos model better.linnet hedge 2"),
        ("model:0 a.linnet policy linnos model:1 b.linnet", None, "model better.linnet policy linnos"),
        ("policy linnos model m.linnet", "1", "policy linnos model m.linnet model:1 better.linnet"),
        ("model:1 a.linnet model:0 b.linnet", "1", "model:1 better.linnet model:0 b.linnet"),
    ],
)
def test_load(host: Machine, model: str, before: str, replica: str | None, after: str) -> None:
    describe(host, before)
    assert call("load", "vol", model, *(["--replica", replica] if replica else []))[0] == 0
    assert described(host) == after
    assert (host.firmware / "better.linnet").read_bytes() == b"model"


def test_a_model_is_recorded_for_the_slot_of_its_leg(host: Machine, model: str) -> None:
    # Slot 0 was absent when the volume was started: the table counts from slot 1.
    members = host.root / "sys/block/md0/md"
    for k in range(2):
        (members / f"dev-dm-{k}/slot").write_text(f"{k + 1}\n")
    describe(host, "policy linnos model:1 a.linnet model:2 b.linnet")
    assert call("load", "vol", model, "--replica", "1")[0] == 0
    assert host.changes[-1] == ["dmsetup", "message", "vol", "0", "load", "1", "better.linnet"]
    assert described(host) == "policy linnos model:1 a.linnet model:2 better.linnet"
    (members / "dev-dm-0/slot").write_text("none\n")
    code, _, said = call("load", "vol", model, "--replica", "0")
    assert code == 0 and "replica 0 has no place in md0 now" in said
    assert described(host) == "policy linnos model:1 a.linnet model:2 better.linnet"
    code, _, said = call("load", "vol", model, "--replica", "2")
    assert code == 1 and "has replicas 0 to 1" in said


def test_a_device_that_took_the_name_of_a_volume(host: Machine, model: str) -> None:
    describe(host, "policy baseline")
    host.answers["--target linnet vol"] = "0 8 linnet 2 259:0 0 259:1 0 2 policy baseline\n"
    assert call("policy", "vol", "linnos")[0] == 0 and call("load", "vol", model, "--replica", "1")[0] == 0
    assert described(host) == "policy baseline"


def test_a_dry_run_that_may_not_ask(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(words: list[str]) -> str:
        raise DmError("dmsetup: Permission denied")

    describe(host, "policy baseline")
    monkeypatch.setattr(host, "run", denied)
    assert call("policy", "vol", "linnos")[0] == 1
    code, out, said = call("policy", "vol", "linnos", "--dry-run")
    assert code == 0 and len(out.splitlines()) == 2 and "Permission denied" in said


def test_the_name_under_which_the_model_was_installed(host: Machine, model: str) -> None:
    describe(host, "policy linnos model better.linnet")
    host.firmware.mkdir(parents=True)
    (host.firmware / "better.linnet").write_bytes(b"another")
    assert call("load", "vol", model)[0] == 0
    installed = host.ran[-1][-1]
    assert installed != "better.linnet" and described(host) == f"policy linnos model {installed}"
    assert (host.firmware / installed).read_bytes() == b"model"


def test_what_the_kernel_refuses_is_not_recorded(host: Machine, model: str) -> None:
    describe(host, "policy baseline")
    host.refused = ("load", "hedge")
    assert call("load", "vol", model)[0] == 1
    assert described(host) == "policy baseline"
    # The policy was taken before the other message was refused.
    assert call("policy", "vol", "linnos", "--hedge", "2")[0] == 1
    assert described(host) == "policy linnos"
    host.refused = ("policy",)
    assert call("policy", "vol", "baseline", "--hedge", "2")[0] == 1
    assert described(host) == "policy linnos"


def test_a_device_without_a_description_gets_none(host: Machine, model: str) -> None:
    assert call("policy", "vol", "linnos", "--hedge", "2")[0] == 0 and call("load", "vol", model)[0] == 0
    assert len(host.ran) == 3 and not host.description("vol").parent.exists()


def test_copies_in_the_initramfs_are_mentioned(host: Machine) -> None:
    describe(host, "policy baseline")
    for path in ("usr/share/initramfs-tools/hooks/linnet", "usr/sbin/update-initramfs"):
        assert "update-initramfs" not in "".join(call("policy", "vol", "linnos")[1:])
        (host.root / path).parent.mkdir(parents=True)
        (host.root / path).touch()
    assert "afterwards: update-initramfs -u -k all" in call("policy", "vol", "linnos")[2]
    told = json.loads(call("policy", "vol", "linnos", "--json")[1])
    assert len(told["notes"]) == 1 and not any("update-initramfs" in step for step in told["steps"])
    host.description("vol").unlink()
    assert "update-initramfs" not in call("policy", "vol", "linnos")[2]


def test_dry_run_and_json(host: Machine, model: str) -> None:
    path = describe(host, "policy baseline hedge 1")
    before = path.read_bytes()
    code, out, _ = call("policy", "vol", "linnos", "--hedge", "2", "--dry-run")
    assert code == 0 and path.read_bytes() == before and not host.changes
    steps = [
        "dmsetup message vol 0 policy linnos",
        f"sed -i 's/^arguments=.*/arguments=policy linnos hedge 1/' {path}",
        "dmsetup message vol 0 hedge 2",
        f"sed -i 's/^arguments=.*/arguments=policy linnos hedge 2/' {path}",
    ]
    assert out.splitlines() == steps
    told = json.loads(call("policy", "vol", "linnos", "--hedge", "2", "--json", "--dry-run")[1])
    assert told == {"steps": steps, "dry_run": True, "warnings": [], "refusals": [], "notes": []} and not host.changes
    told = json.loads(call("policy", "vol", "linnos", "--hedge", "2", "--json")[1])
    assert told["steps"] == steps and not told["dry_run"] and described(host) == "policy linnos hedge 2"
    told = json.loads(call("load", "vol", model, "--json")[1])
    assert [step.split()[0] for step in told["steps"]] == ["install", "dmsetup", "sed"]
    assert described(host) == "policy linnos hedge 2 model better.linnet"
    host.ran.clear()
    host.answers["vol"] = host.answers["--target linnet vol"]
    told = json.loads(call("remove", "vol", "--json")[1])
    assert told["steps"] == ["dmsetup remove --retry vol"] and host.changes == [["dmsetup", "remove", "--retry", "vol"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"uuid={UUID}\n", "no line `arguments=`"),
        ("arguments=policy baseline model\n", "ends behind model"),
        (b"arguments=policy \xff\n", "decode"),
    ],
)
def test_a_damaged_description_is_left_alone(host: Machine, text: str | bytes, why: str) -> None:
    path = describe(host, "")
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(data)
    code, _, said = call("policy", "vol", "linnos")
    assert code == 0 and why in said and "the change lasts until the volume is started again" in said
    assert host.ran == [["dmsetup", "message", "vol", "0", "policy", "linnos"]] and path.read_bytes() == data


@pytest.mark.parametrize("words", ["policy linnos", r"model a/b&c\1 policy linnos"])
def test_what_is_printed_does_what_is_done(tmp_path: Path, words: str) -> None:
    path = tmp_path / "vol.conf"
    path.write_text(f"uuid={UUID}\narguments=policy baseline\n")
    step = Redescribe(path, words.split())
    wanted = step.change(path.read_text())
    assert wanted == f"uuid={UUID}\narguments={words}\n"
    subprocess.run(["sh", "-c", str(step)], check=True)
    assert path.read_text() == wanted
