# SPDX-License-Identifier: MIT OR Apache-2.0
"""What mdadm.conf says of the arrays and the legs of `linnet dm`."""

import json
from pathlib import Path

import pytest
from md_host import MdHost, call, machine


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MdHost:
    return machine(tmp_path, monkeypatch)


def test_the_number_of_an_array_is_not_one_that_is_configured(host: MdHost) -> None:
    host.array("md1", (9, 1), ["/dev/nvme0n1", "/dev/nvme1n1"])
    for file, text in {
        "mdadm/mdadm.conf": "# ARRAY /dev/md5 uuid=1\nDEVICE partitions\nARRAY /dev/md0 metadata=1.2\n  /dev/md6\n",
        "mdadm.conf": "array /dev/md/2 uuid=1\nARRAY <ignore> uuid=2\nARRAY /dev/md/data7 uuid=3\n",
        "mdadm/mdadm.conf.d/own.conf": "ARRAY md3\n",
        "mdadm.conf.d/own.conf": "ARR 4 uuid=4",
    }.items():
        (host.root / "etc" / file).parent.mkdir(parents=True, exist_ok=True)
        (host.root / "etc" / file).write_text(text)
    assert "mdadm --create /dev/md5 " in call("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1", "--dry-run")[1]


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("ARRAY /dev/md0 uuid=1\n", True),
        ("# DEVICE /dev/sd*\n", True),
        ("DEVICE partitions containers\n", True),
        ("dev /dev/sd* # partitions\n", False),
        ("DEVICE /dev/sd*\n  /dev/mapper/vol-leg[0-3]\n", True),
        ("DEVICE /dev/sd*\nDEVICE /dev/disk/by-id/dm-name-vol-*\n", True),
        ("DEVICE /dev/dm-*\n", True),
        ("DEVICE /dev/dm-0 /dev/m* vol-leg*\n", False),
        ("DEVICE /dev/mapper/vol-leg0\n", False),
        ("DEVICE containers\n", False),
    ],
)
def test_mdadm_may_take_the_legs_at_boot(host: MdHost, text: str, taken: bool) -> None:
    (host.root / "etc/mdadm").mkdir(parents=True)
    (host.root / "etc/mdadm/mdadm.conf").write_text(text)
    host.array("md5", (9, 5), ["/dev/nvme0n1", "/dev/nvme1n1"])
    plain = ("create", "vol", "--md", "/dev/nvme0n1", "/dev/nvme1n1")
    for words in (plain, ("adopt", "/dev/md5", "--name", "vol")):
        told = json.loads(call(*words, "--json", "--dry-run")[1])["refusals"]
        assert len(told) == (0 if taken else 1), told
        assert taken or told[0].endswith("add the line: DEVICE /dev/mapper/vol-leg*")
