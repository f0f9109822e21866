# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows of the state file, as text and back. SQLite keeps values of any type in any column: each is checked here."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from linnet.place.allocate import Settings
from linnet.place.cluster import DriveSpec
from linnet.place.slo import Asked, Slo, Tenant
from linnet.place.words import Drive, Profile

BYTES_MAX = 10**18
"""Capacity of a drive or a tenant."""
POD = "pod:"
"""Ids of tenants that are pods of a cluster begin so."""
UNKNOWN = "unknown"
"""Where a pod names a profile: it has none, and is to be measured. No profile is stored under this name."""
POSITION_MAX = 2**62
"""Far above what is ever counted, and far enough below the largest integer of SQLite to count on from."""

SETTINGS: Mapping[str, type[Any]] = {"policy": str, "load_max": float, "tenants_max": int}
"""Settings of placement that are kept: those of :class:`linnet.place.allocate.Settings` that a command can give."""

T = TypeVar("T")


def drive_of(name: object, model: object, sheet: object, capacity_bytes: object, staging: object) -> DriveSpec:
    """A drive as it is stored."""
    figures = _json("sheet", sheet, dict)
    for figure, value in figures.items():
        # A figure that is not known may be NaN.
        if not _number(value) or value <= 0:
            raise ValueError(f"sheet: {figure} is {value!r:.100}, not a number above 0")
    drive = Drive(_as("name", name, str), _as("model", model, str), figures)
    return DriveSpec(drive, _bytes(capacity_bytes), bool(_as("staging", staging, int)))


def tenant_of(id: object, capacity_bytes: object, profile: object, slos: object) -> Tenant:
    """A tenant as it is stored."""
    found = None
    if profile is not None:
        parts = _json("profile", profile, dict)
        if not {"name", "features"} <= parts.keys():
            raise ValueError("profile: name or features is missing")
        found = _profile("profile", _as("profile.name", parts["name"], str), parts["features"])
    promised = [_as("slos", one, list) for one in _json("slos", slos, list)]
    return Tenant(_as("id", id, str), _bytes(capacity_bytes), found, tuple(Slo(*one) for one in promised))


def asked_of(profile_name: object, features: object) -> Asked:
    """What a tenant asked with as it is stored."""
    name = None if profile_name is None else _as("profile_name", profile_name, str)
    return Asked(name, None if features is None else _as("features", features, str))


def windows_of(windows: object) -> list[bool]:
    """A tenant's last observations as they are stored: whether each broke a promise."""
    return [mark == "x" for mark in _as("windows", windows, str)]


def profile_of_row(name: object, features: object) -> Profile:
    """A named profile as it is stored."""
    return _profile("features", _as("name", name, str), _json("features", features, dict))


def setting_of(name: object, value: object) -> Any:
    """A setting of placement as it is stored."""
    key = _as("name", name, str)
    if key not in SETTINGS:
        raise ValueError(f"no setting of this name is kept; known are {', '.join(SETTINGS)}")
    kept: dict[str, Any] = {key: _as("value", value, SETTINGS[key])}
    Settings(**kept)
    return kept[key]


def model_of(file: object, checksum: object) -> tuple[str, str]:
    """The file of the model that placed the tenants, and its checksum, as they are stored."""
    return _as("file", file, str), _as("checksum", checksum, str)


def profile_text(profile: Profile) -> str:
    """A tenant's profile as JSON."""
    return json.dumps({"name": profile.name, "features": dict(profile.features)})


def slos_text(slos: tuple[Slo, ...]) -> str:
    """SLOs as JSON."""
    return json.dumps([[s.metric, s.bound, s.degradation_percent, s.confidence_percent] for s in slos])


def unfit(drives: Sequence[DriveSpec], tenants: Sequence[tuple[Tenant, str]]) -> tuple[str, str, str] | None:
    """The first row that does not fit the others: its table, its key, and what is wrong.

    Pods are where their cluster put them, with room or without. The other tenants of a drive fit it.
    """
    capacity: Mapping[str, int] = {one.drive.name: one.capacity_bytes for one in drives}
    used = dict.fromkeys(capacity, 0)
    for tenant, drive in tenants:
        if drive not in used:
            return "tenants", tenant.id, f"drive {drive!r} is not in table drives"
        used[drive] += 0 if tenant.id.startswith(POD) else tenant.capacity_bytes
    for name, size in used.items():
        if size > capacity[name]:
            return "drives", name, f"its tenants have {size} bytes, more than capacity_bytes, {capacity[name]}"
    return None


def _as(column: str, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(f"{column} is {value!r:.100}, a {type(value).__name__}; {kind.__name__} is expected")
    return value


def _number(value: object) -> bool:
    # JSON has integers that no float holds, Python's has infinity and NaN.
    return isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) > sys.float_info.max


def _bytes(value: object) -> int:
    size = _as("capacity_bytes", value, int)
    if size > BYTES_MAX:
        raise ValueError(f"capacity_bytes is {size}; at most {BYTES_MAX}")
    return size


def _json(column: str, text: object, kind: type[T]) -> T:
    try:
        return _as(column, json.loads(_as(column, text, str)), kind)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{column}: not JSON: {error}") from error


def _profile(column: str, name: str, features: Any) -> Profile:
    for feature, value in _as(column, features, dict).items():
        if not _number(value) or not value >= 0:
            raise ValueError(f"{column}: {feature} is {value!r:.100}, not a number from 0 up")
    return Profile(name, features)
