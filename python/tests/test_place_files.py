# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of profiles that `linnet place predict` takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from linnet.place.profile_file import read_drive, read_profile

ONE = {"name": "web", "features": {"depth": 2.0}}


def test_a_profile_alone_or_in_a_list_of_one(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for held in (ONE, [ONE]):
        path.write_text(json.dumps(held))
        assert read_profile(path).features == {"depth": 2.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps([ONE, ONE]), "holds 2 objects"),
        ("3", "holds a int"),
        ("{", "not JSON"),
        (json.dumps({"features": {"dept": 1}}), r"features\.dept: unknown"),
        (json.dumps({"features": {"depth": -1}}), "not a number of 0 or more"),
        (json.dumps({"features": {"depth": 10**400}}), r"p\.json: features\.depth: 10+ is not a number"),
        (json.dumps({"features": {"read_random_ratio": 1.5}}), r"p\.json: feature read_random_ratio .*at most 1"),
        (
            json.dumps({"features": {"write_aligned_unaligned_ratio": 0.5}}),
            r"p\.json: feature write_aligned_unaligned_ratio .*the group has a rate_mean of 0",
        ),
    ],
)
def test_what_is_no_profile_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_profile(path)


def test_a_number_of_a_data_sheet_that_no_float_holds_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"sheet": {"rnd_write_iops": 10**400}}))
    with pytest.raises(ValueError, match=r"d\.json: sheet\.rnd_write_iops: 10+ is not a number"):
        read_drive(path)
