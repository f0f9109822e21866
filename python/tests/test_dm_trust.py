# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet dm trust`: what is sent, what is not, and what is said of each leg."""

import json
from pathlib import Path

import pytest
from md_host import MdHost, call, commands, machine, volume_above


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MdHost:
    return machine(tmp_path, monkeypatch)


@pytest.fixture
def volume(host: MdHost) -> Path:
    return volume_above(host)


def test_trust_sends_the_generations_that_were_read_first(host: MdHost, volume: Path) -> None:
    code, out, _ = call("trust", "vol")
    assert code == 0 and out.count("trusted") == 2
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
        ("bitmap/metadata", "clustered"),
        ("bitmap/location", "file"),
        ("dev-dm-1/state", "in_sync,want_replacement"),
        ("dev-dm-1/state", "spare"),
        ("dev-dm-1/bad_blocks", "8 8"),
        ("dev-dm-1/offset", "2056"),
        ("dev-dm-1/bad_blocks", "16 8"),
    ],
)
def test_trust_is_not_given(host: MdHost, volume: Path, file: str, text: str) -> None:
    (volume / file).write_text(text + "\n")
    code, out, _ = call("trust", "vol", "--json")
    legs = json.loads(out)["legs"]
    assert code == 1
    assert legs[1]["trusted"] is False and legs[1]["reason"]
    assert not any(" trust 1 " in command for command in commands(host))
    assert legs[0]["trusted"] == file.startswith("dev-")


def test_trust_is_not_given_beside_a_member_that_is_no_leg(host: MdHost, volume: Path) -> None:
    (volume / "dev-dm-1/block/dev").write_text("259:1\n")
    code, out, _ = call("trust", "vol")
    assert code == 1 and out.count("no legs: nvme1n1") == 2 and not commands(host)


def test_trust_reports_a_generation_that_has_passed(host: MdHost, volume: Path) -> None:
    host.stale = {"1"}
    code, out, _ = call("trust", "vol")
    assert code == 1 and "leg 1 (dm-1): not trusted" in out and "try again" in " ".join(out.split())
