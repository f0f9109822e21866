# SPDX-License-Identifier: MIT OR Apache-2.0
"""Damaged profiles, drives and fio job files: each is read or refused by name, and what is read is whole."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from linnet._native import TenantError, TraceError
from linnet.place.profile_file import read_drive, read_profile
from linnet.place.profiles import from_file
from linnet.place.words import FEATURES

PROFILE = {"name": "db", "features": dict.fromkeys(FEATURES[:6], 0.5)}
DRIVE = {"name": "a", "model": "nvme", "sheet": {"rnd_read_iops": 5e5, "rnd_write_iops": 9e4, "read_latency_us": 80.0}}
JOB = (
    "[global]\nbs=4k\niodepth=16\n[db]\nrw=randrw\nrwmixread=75\nrate_iops=750,1000\n[log]\nrw=write\nbs=6k\nrate=6m\n"
)
NUMBERS = ["0", "-1", "1e308", "1e999", "18446744073709551616", "NaN", "Infinity", "null", "true", '"12"', "[]", "{}"]
CASES = 1000


def _values(found: object, chance: random.Random) -> object:
    """The same JSON with one value, at any depth, replaced by one of another kind or size, a key doubled or gone."""
    if isinstance(found, dict) and found and chance.random() < 0.8:
        key = chance.choice(list(found))
        rest = {name: value for name, value in found.items() if name != key}
        what = chance.randrange(6)
        if what == 0:
            return rest
        if what == 1:
            return rest | {chance.choice(["", "name", "features", "sheet", "x\x1b[31m", "é" * 50]): found[key]}
        return rest | {key: _values(found[key], chance)}
    return json.loads(chance.choice(NUMBERS))


def _damaged(text: str, chance: random.Random) -> bytes:
    """Text with bytes changed, cut, or repeated."""
    raw = bytearray(text.encode())
    for _ in range(1 + chance.randrange(4)):
        at = chance.randrange(len(raw) + 1)
        what = chance.randrange(5)
        if what == 0:
            del raw[at:]
        elif what == 1:
            raw[at:at] = raw[at : at + 1 + chance.randrange(40)]
        elif what == 2:
            raw[at:at] = chance.choice(NUMBERS).encode()
        elif at < len(raw):
            raw[at] = chance.randrange(256) if what == 3 else raw[at] ^ 1 << chance.randrange(8)
    return bytes(raw)


@pytest.mark.parametrize("kind", ["profile", "drive"])
def test_json_of_profiles_and_drives(tmp_path: Path, kind: str):
    read, seed = (read_profile, PROFILE) if kind == "profile" else (read_drive, DRIVE)
    chance, path, fates = random.Random(f"json {kind}"), tmp_path / "case.json", [0, 0]
    for case in range(CASES):
        shaped = case % 2 == 0
        path.write_bytes(json.dumps(_values(seed, chance)).encode() if shaped else _damaged(json.dumps(seed), chance))
        try:
            found = read(path)  # type: ignore[operator]
        except ValueError as error:
            assert str(path) in str(error), error
            fates[1] += 1
        else:
            numbers = dict(found.features if kind == "profile" else found.sheet)
            assert all(isinstance(value, float) and 0 <= value < math.inf for value in numbers.values()), numbers
            assert isinstance(found.name, str)
            fates[0] += 1
    assert min(fates) > CASES / 50, fates


def test_json_that_nests_or_never_ends(tmp_path: Path):
    path = tmp_path / "case.json"
    for text in ("[" * 500_000, '{"features":' * 80_000, " " * (1 << 21), '{"name": ' + "9" * 900_000 + "}"):
        path.write_text(text)
        with pytest.raises((ValueError, OSError), match=r"case\.json"):
            read_profile(path)


def test_job_files(tmp_path: Path):
    chance, path, fates = random.Random("jobs"), tmp_path / "case.fio", [0, 0]
    for _ in range(CASES):
        path.write_bytes(_damaged(JOB, chance))
        try:
            found, _ = from_file(path)
        except (TenantError, TraceError) as error:
            assert str(path) in str(error), error
            fates[1] += 1
        else:
            assert all(math.isfinite(value) for one in found for value in one.profile.features), path.read_text()
            fates[0] += 1
    assert min(fates) > CASES / 50, fates
    path.write_bytes(b"[a]\nrate_iops=1\n#" + b"x" * (1 << 20))
    with pytest.raises(OSError, match="more than 1048576 bytes"):
        from_file(path)
