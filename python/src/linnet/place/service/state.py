# SPDX-License-Identifier: MIT OR Apache-2.0
"""The service's state on disk: drives, tenants, named profiles, and the answers to requests that have an id.

One SQLite file, in write-ahead mode with a sync at every commit: what was answered survives kill -9 and a power cut.
The file is locked for as long as it is open, so two services never share one. Rows are ordered by a counter, not by a
clock.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linnet.place.cluster import DriveSpec
from linnet.place.slo import Slo, Tenant
from linnet.place.words import Drive, Profile

APPLICATION = 0x4C4E5450
"""SQLite's application id of this file: "LNTP"."""
VERSION = 1
REQUESTS_MAX = 100_000
"""Answers that are kept; the oldest go first."""
PAGE_BYTES = 4096

SCHEMA = """
CREATE TABLE drives (
  name TEXT PRIMARY KEY, model TEXT NOT NULL, sheet TEXT NOT NULL,
  capacity_bytes INTEGER NOT NULL CHECK (capacity_bytes > 0), staging INTEGER NOT NULL, position INTEGER NOT NULL
);
CREATE TABLE tenants (
  id TEXT PRIMARY KEY, drive TEXT NOT NULL REFERENCES drives (name), capacity_bytes INTEGER NOT NULL,
  profile TEXT, slos TEXT NOT NULL, windows TEXT NOT NULL DEFAULT '', position INTEGER NOT NULL
);
CREATE INDEX tenants_of_drive ON tenants (drive);
CREATE TABLE profiles (name TEXT PRIMARY KEY, features TEXT NOT NULL);
CREATE TABLE requests (
  key TEXT PRIMARY KEY, digest TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL, position INTEGER NOT NULL
);
CREATE INDEX requests_by_age ON requests (position);
"""


class StateError(ValueError):
    """The state file cannot be used. The message says which file and what to do."""


class StateFull(OSError):
    """The state could not be written; nothing of the transaction was kept."""


@dataclass(frozen=True)
class Answered:
    """A request that was answered before."""

    digest: str
    status: int
    body: Any


class State:
    """The file. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open, or make, the file; take its lock; refuse what is not ours or newer than we are."""
        self.path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=0.0, check_same_thread=False)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("COMMIT")
            application = self._db.execute("PRAGMA application_id").fetchone()[0]
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables and application != APPLICATION:
                raise StateError(f"{path}: a database, but not the state of a placement; give another file")
            if version > VERSION:
                raise StateError(f"{path}: state version {version}; this linnet knows {VERSION}. Use a newer one")
            if not tables:
                self._make()
            self._position: int = max(
                self._db.execute(f"SELECT coalesce(max(position), 0) FROM {name}").fetchone()[0]
                for name in ("drives", "tenants", "requests")
            )
        except sqlite3.Error as error:
            raise _explained(path, error) from error

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What the block writes is kept whole when it ends well, and not at all otherwise."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise StateFull(0, f"cannot write: {error}", str(self.path)) from error
        position = self._position
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            self._position = position
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StateFull(0, f"cannot write: {error}", str(self.path)) from error
            raise

    def savepoint(self) -> None:
        """Begin a part of the transaction that can be undone."""
        self._db.execute("SAVEPOINT part")

    def release(self, keep: bool) -> None:
        """End the part: keep what it wrote, or undo it."""
        if not keep:
            self._db.execute("ROLLBACK TO part")
        self._db.execute("RELEASE part")

    def drives(self) -> list[DriveSpec]:
        """All drives, in the order in which they were registered."""
        rows = self._read("SELECT name, model, sheet, capacity_bytes, staging FROM drives ORDER BY position")
        return [self._decoded("drives", row[0], lambda row=row: _drive_of(*row)) for row in rows]

    def tenants(self) -> list[tuple[Tenant, str, list[bool]]]:
        """All tenants with their drives and their last observations, in the order in which they came."""
        rows = self._read("SELECT id, capacity_bytes, profile, slos, drive, windows FROM tenants ORDER BY position")
        return [
            (
                self._decoded("tenants", row[0], lambda row=row: tenant_of(*row[:4])),
                row[4],
                [mark == "x" for mark in row[5]],
            )
            for row in rows
        ]

    def profiles(self) -> dict[str, Profile]:
        """Named profiles."""
        rows = self._read("SELECT name, features FROM profiles")
        return {
            name: self._decoded("profiles", name, lambda name=name, text=text: Profile(name, json.loads(text)))
            for name, text in rows
        }

    def add_drive(self, spec: DriveSpec) -> None:
        """Keep a drive."""
        drive = spec.drive
        row = (drive.name, drive.model, json.dumps(dict(drive.sheet)), spec.capacity_bytes, int(spec.staging))
        self._db.execute("INSERT INTO drives VALUES (?, ?, ?, ?, ?, ?)", (*row, self._next()))

    def remove_drive(self, name: str) -> None:
        """Forget a drive."""
        self._db.execute("DELETE FROM drives WHERE name = ?", (name,))

    def add_tenant(self, tenant: Tenant, drive: str) -> None:
        """Keep a tenant and where it is."""
        profile = None if tenant.profile is None else profile_text(tenant.profile)
        row = (tenant.id, drive, tenant.capacity_bytes, profile, slos_text(tenant.slos), "", self._next())
        self._db.execute("INSERT INTO tenants VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def change_tenant(self, tenant: Tenant, drive: str) -> None:
        """Keep a tenant's new drive or profile."""
        profile = None if tenant.profile is None else profile_text(tenant.profile)
        self._db.execute("UPDATE tenants SET drive = ?, profile = ? WHERE id = ?", (drive, profile, tenant.id))

    def observe(self, tenant: str, windows: list[bool]) -> None:
        """Keep a tenant's last observations."""
        marks = "".join("x" if one else "." for one in windows)
        self._db.execute("UPDATE tenants SET windows = ? WHERE id = ?", (marks, tenant))

    def remove_tenant(self, tenant: str) -> None:
        """Forget a tenant."""
        self._db.execute("DELETE FROM tenants WHERE id = ?", (tenant,))

    def put_profile(self, profile: Profile) -> None:
        """Keep a profile under its name."""
        row = (profile.name, json.dumps(dict(profile.features)))
        self._db.execute("INSERT OR REPLACE INTO profiles VALUES (?, ?)", row)

    def answered(self, key: str) -> Answered | None:
        """The answer to a request id, if it was used."""
        row = self._db.execute("SELECT digest, status, body FROM requests WHERE key = ?", (key,)).fetchone()
        return None if row is None else Answered(row[0], row[1], json.loads(row[2]))

    def answer(self, key: str, digest: str, status: int, body: Any) -> None:
        """Keep the answer to a request id, and drop the oldest ones."""
        position = self._next()
        self._db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (key, digest, status, json.dumps(body), position)
        )
        self._db.execute(
            "DELETE FROM requests WHERE position <= "
            "(SELECT position FROM requests ORDER BY position DESC LIMIT 1 OFFSET ?)",
            (REQUESTS_MAX,),
        )

    def limit_pages(self, pages: int) -> None:
        """Let the file grow to this many pages only, as on a full disk: for tests."""
        self._db.execute(f"PRAGMA max_page_count = {pages}")

    def pages(self) -> int:
        """Pages that the file has."""
        return int(self._db.execute("PRAGMA page_count").fetchone()[0])

    def _make(self) -> None:
        self._db.executescript(
            f"BEGIN;{SCHEMA}PRAGMA user_version = {VERSION};PRAGMA application_id = {APPLICATION};COMMIT;"
        )

    def _read(self, query: str) -> list[Any]:
        try:
            return self._db.execute(query).fetchall()
        except sqlite3.Error as error:
            raise _explained(self.path, error) from error

    def _decoded(self, table: str, key: str, make: Any) -> Any:
        try:
            return make()
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(
                f"{self.path}: table {table}, row {key}: {error}; restore the file from a backup"
            ) from error

    def _next(self) -> int:
        self._position += 1
        return self._position


def _explained(path: Path, error: sqlite3.Error) -> StateError:
    text = str(error)
    if "locked" in text:
        return StateError(f"{path}: in use by another process; ask the service that has it, or stop it")
    if "not a database" in text or "malformed" in text:
        return StateError(f"{path}: not a state file, or damaged ({text}); restore it from a backup")
    return StateError(f"{path}: {text}")


def _drive_of(name: str, model: str, sheet: str, capacity_bytes: int, staging: int) -> DriveSpec:
    return DriveSpec(Drive(name, model, json.loads(sheet)), capacity_bytes, bool(staging))


def profile_text(profile: Profile) -> str:
    """A tenant's profile as JSON."""
    return json.dumps({"name": profile.name, "features": dict(profile.features)})


def slos_text(slos: tuple[Slo, ...]) -> str:
    """SLOs as JSON."""
    return json.dumps([[s.metric, s.bound, s.degradation_percent, s.confidence_percent] for s in slos])


def tenant_of(id: str, capacity_bytes: int, profile: str | None, slos: str) -> Tenant:
    """A tenant as it is stored."""
    found = None
    if profile is not None:
        parts = json.loads(profile)
        found = Profile(parts["name"], parts["features"])
    return Tenant(id, capacity_bytes, found, tuple(Slo(*one) for one in json.loads(slos)))
