# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet dm trust`: what is sent, what is not, and what is said of each leg."""

import json
import re
from pathlib import Path

import pytest
from md_host import MdHost, call, commands, machine, volume_above


class Trusting(MdHost):
    """The message about a leg makes it what `becomes` says."""

    becomes = "trusted"

    def run(self, words: list[str]) -> str:
        said = super().run(words)
        if words[:2] == ["dmsetup", "message"]:
            before, leg, after = self.answers["dmsetup status"].partition(f"dev 253:{words[5]} ")
            after = re.sub(r"trust \w+", f"trust {self.becomes}", after, count=1)
            self.answers["dmsetup status"] = before + leg + after
        return said


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trusting:
    made = machine(tmp_path, monkeypatch, Trusting)
    assert isinstance(made, Trusting)
    return made


@pytest.fixture
def volume(host: Trusting) -> Path:
    return volume_above(host)


def test_trust_sends_the_generations_that_were_read_first(host: Trusting, volume: Path) -> None:
    code, out, _ = call("trust", "vol")
    assert code == 0 and out == "leg 0 (dm-0): trusted\nleg 1 (dm-1): trusted\n"
    asked = [words[1] for words in host.ran]
    assert asked.index("status") < asked.index("table") < asked.index("message")
    assert commands(host) == ["dmsetup message vol 0 trust 0 41", "dmsetup message vol 0 trust 1 42"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("array_state", "readonly"),
        ("array_state", "read-auto"),
        ("resync_start", "4096"),
        ("sync_action", "check"),
        ("level", "raid10"),
        ("reshape_position", "8192"),
        ("bitmap/backlog", "256"),
        ("bitmap/metadata", "clustered"),
        ("bitmap/location", "file"),
        ("dev-dm-1/state", "in_sync,want_replacement"),
        ("dev-dm-1/state", "spare"),
        ("dev-dm-1/bad_blocks", "8 8"),
        ("dev-dm-1/offset", "2056"),
        ("dev-dm-1/bad_blocks", "16 8"),
    ],
)
def test_trust_is_not_given(host: Trusting, volume: Path, file: str, text: str) -> None:
    (volume / file).write_text(text + "\n")
    code, out, _ = call("trust", "vol", "--json")
    legs = json.loads(out)["legs"]
    assert code == 1
    assert legs[1]["trusted"] is False and legs[1]["reason"]
    assert not any(" trust 1 " in command for command in commands(host))
    assert legs[0]["trusted"] == file.startswith("dev-")


def test_members_that_md_may_have_left_unequal_are_compared_first(host: Trusting, volume: Path) -> None:
    note, kept = host.must_repair("vol")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()
    for last in ("recover", "check", None):
        if last is not None:
            (volume / "last_sync_action").write_text(f"{last}\n")
        code, out, _ = call("trust", "vol")
        assert code == 1 and out.count("echo repair >/sys/block/md0/md/sync_action") == 2, out
        assert not commands(host) and note.exists() and kept.exists()
    note.unlink()  # the machine has been started again, and the members say nothing any more
    assert call("trust", "vol")[0] == 1
    (volume / "last_sync_action").write_text("repair\n")
    code, out, _ = call("trust", "vol")
    assert code == 0 and out == "leg 0 (dm-0): trusted\nleg 1 (dm-1): trusted\n" and not kept.exists()


def test_trust_is_not_given_beside_a_member_that_is_no_leg(host: Trusting, volume: Path) -> None:
    (volume / "dev-dm-1/block/dev").write_text("259:1\n")
    code, out, _ = call("trust", "vol")
    assert code == 1 and out.count("no legs: nvme1n1") == 2 and not commands(host)


def test_trust_reports_a_generation_that_has_passed(host: Trusting, volume: Path) -> None:
    host.stale = {"1"}
    code, out, _ = call("trust", "vol")
    assert code == 1 and "leg 1 (dm-1): not trusted" in out and "try again" in " ".join(out.split())


def test_a_pending_leg_is_not_called_trusted(host: Trusting, volume: Path) -> None:
    host.becomes = "pending"
    code, out, _ = call("trust", "vol")
    assert code == 0 and "leg 1 (dm-1): pending: trusted after the next write" in out
    code, out, _ = call("trust", "vol", "--json")
    told = {"device": "dm-0", "trusted": False, "state": "pending", "reason": None}
    assert code == 0 and json.loads(out)["legs"][0] == {"leg": 0, **told}


def test_trust_that_is_lost_at_once(host: Trusting, volume: Path) -> None:
    host.becomes = "untrusted"
    code, out, _ = call("trust", "vol")
    assert code == 1 and "leg 1 (dm-1): not trusted: it has lost its trust since (short), try again" in out


def test_a_spare_fails_nothing(host: Trusting, volume: Path) -> None:
    (volume / "dev-dm-1/state").write_text("spare\n")
    (volume / "dev-dm-1/slot").write_text("none\n")
    code, out, _ = call("trust", "vol")
    assert code == 0 and out == "leg 0 (dm-0): trusted\nleg 1 (dm-1): a spare, which md does not write yet\n"
    told = json.loads(call("trust", "vol", "--json")[1])["legs"][1]
    assert (told["trusted"], told["state"], told["reason"]) == (False, "spare", None)
    assert not any(" trust 1 " in command for command in commands(host))
