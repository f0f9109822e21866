# SPDX-License-Identifier: MIT OR Apache-2.0
"""A store of profiles in one SQLite file: every profile that was recorded of a workload, by name and time.

Schema, version 1::

    meta(key TEXT PRIMARY KEY, value TEXT)      -- 'schema': '1'
    profiles(id INTEGER PRIMARY KEY, name TEXT, recorded_at TEXT, source TEXT, ios INTEGER, duration_s REAL,
             window_ms REAL, depth_from TEXT, signature TEXT, <the 27 features of spec/profile.md> REAL)

``recorded_at`` is UTC in ISO 8601. The latest row of a name is its profile; earlier rows show how it changed.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from linnet import _native
from linnet._native import TenantError, TenantProfile
from linnet.place.profiles import Measured
from linnet.place.words import FEATURES

SCHEMA = 1
VALUE_BYTES_MAX = 1 << 20
"""Bytes of a value or a row; a profile has some 300."""
WAIT_S = 30.0
"""How long a writer waits for others."""

_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE profiles (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, recorded_at TEXT NOT NULL, source TEXT NOT NULL, ios INTEGER NOT NULL,
    duration_s REAL NOT NULL, window_ms REAL NOT NULL, depth_from TEXT NOT NULL, signature TEXT NOT NULL,
    {", ".join(f"{name} REAL NOT NULL" for name in FEATURES)}
);
CREATE INDEX profiles_by_name ON profiles (name, id);
CREATE INDEX profiles_by_signature ON profiles (signature);
INSERT INTO meta VALUES ('schema', '{SCHEMA}');
"""
_COLUMNS = ("id", "name", "recorded_at", "source", "ios", "duration_s", "window_ms", "depth_from", "signature")
_SELECT = f"SELECT {', '.join(_COLUMNS + FEATURES)} FROM profiles"
_LATEST = f"{_SELECT} WHERE id IN (SELECT max(id) FROM profiles GROUP BY name)"


@dataclass(frozen=True)
class Stored:
    """A profile as the store has it."""

    id: int
    name: str
    recorded_at: str
    source: str
    signature: str
    profile: TenantProfile


@dataclass(frozen=True)
class Match:
    """The stored profile that is nearest to one, and how far away it is, in doublings."""

    stored: Stored
    distance: float

    @property
    def same(self) -> bool:
        """Whether both are taken for one workload."""
        return self.distance <= _native.same_workload()


class ProfileStore:
    """A store of profiles. Use it as a context manager; one object per thread."""

    def __init__(self, path: str | os.PathLike[str], create: bool = True) -> None:
        """Open a store, and create it unless ``create`` is false. Raises TenantError if the file is not a store."""
        self.path = Path(path)
        if not create and not self.path.exists():
            raise TenantError(f"{self.path}: no such store; `linnet place profile TRACE --store {self.path}` makes it")
        try:
            self._file = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)
        except sqlite3.Error as error:
            raise TenantError(f"{self.path}: cannot be opened: {error}") from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._file.close()
            raise TenantError(f"{self.path}: not a store of profiles: {error}") from error
        except TenantError:
            self._file.close()
            raise

    def _prepare(self) -> None:
        # The file may be a stranger's: its own triggers and views call no function of SQLite, and a value has a limit.
        self._file.execute("PRAGMA trusted_schema = OFF")
        self._file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        self._use_wal()
        with self._transaction():
            tables = {name for (name,) in self._file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                # executescript would end the transaction.
                for statement in _TABLES.split(";"):
                    self._file.execute(statement)
            elif not {"meta", "profiles"} <= tables:
                raise TenantError(f"{self.path}: a database of something else; give another file")
            found = self._file.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        if found is None or found[0] != str(SCHEMA):
            version = found[0] if found else "unknown"
            raise TenantError(f"{self.path}: schema {version}, this release knows {SCHEMA}; use a newer release")

    def _use_wal(self) -> None:
        # Where several open a new file at once, SQLite refuses the change of mode without waiting for its time limit.
        until = time.monotonic() + WAIT_S
        while True:
            try:
                self._file.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
            time.sleep(0.005)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    def __enter__(self) -> ProfileStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def put(self, measured: Measured, now: datetime | None = None) -> int:
        """Record a profile; returns its number. ``now`` is the time of the record, with a time zone."""
        profile = measured.profile
        at = (now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds")
        row = (measured.name, at, measured.source, profile.ios, profile.duration_s, profile.window_ms)
        row += (profile.depth_from, profile.signature, *profile.features.tolist())
        columns = ", ".join(_COLUMNS[1:] + FEATURES)
        marks = ", ".join("?" * len(row))
        try:
            with self._transaction():
                made = self._file.execute(f"INSERT INTO profiles ({columns}) VALUES ({marks})", row)
                return int(made.lastrowid or 0)
        except sqlite3.Error as error:
            raise TenantError(f"{self.path}: the profile {measured.name} was not recorded: {error}") from error

    def get(self, name: str) -> Stored | None:
        """The latest profile of a workload."""
        return next(self._rows(f"{_SELECT} WHERE name = ? ORDER BY id DESC LIMIT 1", name), None)

    def history(self, name: str) -> list[Stored]:
        """All profiles of a workload, oldest first."""
        return list(self._rows(f"{_SELECT} WHERE name = ? ORDER BY id", name))

    def latest(self) -> list[Stored]:
        """The latest profile of every workload, by name."""
        return list(self._rows(f"{_LATEST} ORDER BY name"))

    def remove(self, name: str) -> int:
        """Forget a workload; returns how many profiles it had."""
        with self._transaction():
            return self._file.execute("DELETE FROM profiles WHERE name = ?", (name,)).rowcount

    def nearest(self, profile: TenantProfile) -> Match | None:
        """The workload whose latest profile is nearest; ``Match.same`` says whether it is taken for this one."""
        matches = [Match(stored, profile.distance(stored.profile)) for stored in self._rows(_LATEST)]
        return min(matches, key=lambda match: (match.distance, match.stored.name), default=None)

    def drift(self, name: str, profile: TenantProfile) -> Match | None:
        """How far what a workload does now is from its stored profile; not ``same`` means that it left it."""
        stored = self.get(name)
        return Match(stored, profile.distance(stored.profile)) if stored else None

    def _rows(self, query: str, *values: object) -> Iterator[Stored]:
        try:
            found = self._file.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise TenantError(f"{self.path}: cannot be read: {error}") from error
        for row in found:
            head = dict(zip(_COLUMNS, row, strict=False))
            try:
                profile = TenantProfile.from_features(list(row[len(_COLUMNS) :])).stored(
                    head["ios"], head["duration_s"], head["window_ms"], head["depth_from"]
                )
            except (TypeError, ValueError, OverflowError, TenantError) as error:
                raise TenantError(f"{self.path}: profile {head['id']} is damaged: {error}") from error
            yield Stored(head["id"], head["name"], head["recorded_at"], head["source"], head["signature"], profile)
