# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads tenants' profiles and drives' data sheets from JSON files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from linnet._native import TenantError, TenantProfile
from linnet.files import read_bounded
from linnet.place.words import FEATURES, Drive, Profile

MOST_BYTES = 1 << 20
"""A profile has some 27 numbers."""


def read_profile(path: Path) -> Profile:
    """A profile: ``{"name": ..., "features": {...}}``, or a list of one, as ``linnet place profile`` prints.

    Keys that are not named here are ignored. Raises ValueError for what spec/profile.md refuses, and OSError for a file
    that cannot be read or is long.
    """
    found = _object(path)
    features = found.get("features")
    if not isinstance(features, dict):
        raise ValueError(f"{path}: features: an object of numbers by the names of spec/profile.md is missing")
    numbers = _numbers(path, "features", features, FEATURES)
    try:
        TenantProfile.from_features([numbers.get(name, 0.0) for name in FEATURES])
    except TenantError as error:
        raise ValueError(f"{path}: {error}") from error
    return Profile(str(found.get("name", path.stem)), numbers)


def read_drive(path: Path) -> Drive:
    """A drive: ``{"name": ..., "model": ..., "sheet": {...}}``."""
    found = _object(path)
    sheet = found.get("sheet")
    if not isinstance(sheet, dict):
        raise ValueError(f"{path}: sheet: an object with rnd_write_iops and rnd_read_iops is missing")
    name = str(found.get("name", path.stem))
    return Drive(name, str(found.get("model", name)), _numbers(path, "sheet", sheet, None))


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_bounded(path, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if isinstance(found, list):
        raise ValueError(
            f"{path}: holds {len(found)} objects, one is expected; `linnet place profile -o DIR` writes a file each"
        )
    if not isinstance(found, dict):
        raise ValueError(f"{path}: holds a {type(found).__name__}; one object is expected")
    return found


def _numbers(path: Path, where: str, found: dict[str, Any], known: tuple[str, ...] | None) -> dict[str, float]:
    numbers = {}
    for name, value in found.items():
        if known is not None and name not in known:
            raise ValueError(f"{path}: {where}.{name}: unknown; spec/profile.md lists the features")
        try:
            number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        except OverflowError:
            number = math.inf
        if not 0 <= number < math.inf:
            raise ValueError(f"{path}: {where}.{name}: {value!r:.60} is not a number of 0 or more that 64 bits hold")
        numbers[name] = number
    return numbers
