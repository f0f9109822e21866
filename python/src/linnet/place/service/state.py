# SPDX-License-Identifier: MIT OR Apache-2.0
"""The service's state on disk: drives, tenants, named profiles, settings, and the answers to requests that have an id.

An SQLite file, in write-ahead mode with a sync at every commit: what was answered survives kill -9 and a power cut. The
newest commits are in the log beside the file until a checkpoint takes them into it.
The file is locked for as long as it is open, so two services never share one. Rows are ordered by a counter, not by a
clock.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from linnet.place.cluster import DriveSpec
from linnet.place.service import rows
from linnet.place.service.state_file import (
    APPLICATION,
    VERSION,
    Copy,
    StateError,
    StateFull,
    StateMoved,
    cause,
    checked,
    explained,
    identity,
    inspect,
    log_of,
)
from linnet.place.slo import Tenant
from linnet.place.words import Profile

REQUESTS_MAX = 100_000
"""Answers that are kept at least; the oldest go first."""
TRIM_EVERY = 1000
"""Answers between two trims: to find the oldest that is kept, SQLite walks over all of them."""
PAGE_BYTES = 4096

KEYS = {"drives": "name", "tenants": "id", "requests": "key"}
"""Tables whose rows have a position, and what names a row."""

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
LATER = {
    "settings": "(name TEXT PRIMARY KEY, value NOT NULL)",
    "asked": "(id TEXT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE, profile_name TEXT, features TEXT)",
    "removed": "(name TEXT PRIMARY KEY)",
    "model": "(file TEXT NOT NULL, checksum TEXT NOT NULL)",
}
"""Tables that are made when a row is first kept: older files have none."""


@dataclass(frozen=True)
class Answered:
    """A request that was answered before."""

    digest: str
    status: int
    body: Any


class State:
    """The file. Used by one thread at a time."""

    def __init__(self, path: Path, create: bool = True) -> None:
        """Open the file, or make it if ``create``; take its lock; refuse what is not ours or newer than we are."""
        self.path = path
        # SQLite follows links too, and keeps the log beside the file that they lead to.
        file = Path(os.path.realpath(path))
        there = file.exists()
        try:
            inspect(path, file, create)
            self._db = sqlite3.connect(file, isolation_level=None, timeout=0.0, check_same_thread=False)
        except sqlite3.Error as error:
            raise explained(path, error) from error
        try:
            # Another process may have made it meanwhile.
            self._copied = False
            self._made = self._open() and not there
            # For copies, until the end: to close any descriptor of the file gives up the locks that this process has.
            self._read_only = file.open("rb", buffering=0)
            # With the log, which has what was answered a moment ago. SQLite keeps one while the file is open.
            self._log = log_of(file)
            self._identity, self._log_identity = identity(path), identity(self._log)
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.Error):
                raise explained(path, error) from error
            raise

    def _open(self) -> bool:
        """Whether it was empty, and its tables were made."""
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA wal_autocheckpoint = 0")  # see checkpoint
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("COMMIT")
        if empty := not checked(self.path, self._db):
            self._make()
            # Without this the file alone is an empty one for as long as its log is short.
            self.checkpoint()
        self._position: int = max(self._last(*one) for one in KEYS.items())
        self._answers = 0
        return empty

    def _last(self, table: str, key: str) -> int:
        # Text and blobs sort after any number.
        last = self._db.execute(f"SELECT coalesce(max(position), 0) FROM {table}").fetchone()[0]
        if not isinstance(last, int) or last > rows.POSITION_MAX:
            row = self._db.execute(f"SELECT {key} FROM {table} ORDER BY position DESC LIMIT 1").fetchone()[0]
            raise self._wrong(table, row, f"position is {last!r:.100}, not a count")
        return last

    def close(self) -> None:
        """Give the file back."""
        self._db.close()
        self._read_only.close()

    def give_up(self) -> None:
        """The same where what it was opened for failed: then a file that was made for it goes."""
        self.close()
        if self._made:
            Path(os.path.realpath(self.path)).unlink(missing_ok=True)

    def checkpoint(self) -> bool:
        """Take the log into the file, which then has everything by itself.

        False if that failed, as on a full disk, or while a copy of the file is taken: the log has it still.
        """
        if self._copied:
            return False
        try:
            busy, *_ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error:
            return False
        return not busy

    def copy(self) -> Copy:
        """The content of a file that has everything which was committed.

        It is that of the file, which no checkpoint changes until the copy is done. Where the log cannot be taken into
        the file it is put together in memory: a full disk does not keep anybody from a backup.
        """
        if self.checkpoint():
            self._copied = True
            file = self._read_only.fileno()
            return Copy(os.fstat(file).st_size, lambda at, length: os.pread(file, length, at), self._copy_done)
        if not hasattr(self._db, "serialize"):
            raise StateError(f"{self.path}: SQLite {sqlite3.sqlite_version} copies no state; 3.36 or a newer one does")
        content = self._db.serialize()
        return Copy(len(content), lambda at, length: content[at : at + length], lambda: None)

    def _copy_done(self) -> None:
        self._copied = False

    def where_it_was(self) -> None:
        """Raise StateMoved if the path leads to another file than the one that is open, or to none; so for its log."""
        for path, before, what in ((self.path, self._identity, "file"), (self._log, self._log_identity, "log")):
            if identity(path) != before:
                said = f"its {what} was moved, removed or replaced while it was open, and what is written would be lost"
                raise StateMoved(0, said, str(path))

    def sizes(self) -> tuple[int, int]:
        """Bytes of the file and of its log."""
        file = Path(os.path.realpath(self.path))
        found = [one.stat().st_size if one.exists() else 0 for one in (file, log_of(file))]
        return found[0], found[1]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What the block writes is kept whole when it ends well, and not at all otherwise."""
        self.where_it_was()
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise StateFull(0, f"cannot write: {cause(error)}", str(self.path)) from error
        position = self._position
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            self._position = position
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StateFull(0, f"cannot write: {cause(error)}", str(self.path)) from error
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
        found = self._read("SELECT name, model, sheet, capacity_bytes, staging FROM drives ORDER BY position")
        return [self._decoded("drives", row[0], lambda row=row: rows.drive_of(*row)) for row in found]

    def tenants(self) -> list[tuple[Tenant, str, list[bool]]]:
        """All tenants with their drives and their last observations, in the order in which they came."""
        asked = {
            row[0]: self._decoded("asked", row[0], lambda row=row: rows.asked_of(*row[1:]))
            for row in self._read_later("asked", "SELECT id, profile_name, features FROM asked")
        }
        found = self._read("SELECT id, capacity_bytes, profile, slos, drive, windows FROM tenants ORDER BY position")

        def made(row: Any) -> tuple[Tenant, str, list[bool]]:
            tenant = replace(rows.tenant_of(*row[:4]), asked=asked.get(row[0]))
            return tenant, row[4], rows.windows_of(row[5])

        return [self._decoded("tenants", row[0], lambda row=row: made(row)) for row in found]

    def check(self, drives: list[DriveSpec], tenants: list[tuple[Tenant, str]]) -> None:
        """Raise StateError unless the rows fit together: each tenant's drive is there and has the room."""
        if wrong := rows.unfit(drives, tenants):
            raise self._wrong(*wrong)

    def profiles(self) -> dict[str, Profile]:
        """Named profiles."""
        found = self._read("SELECT name, features FROM profiles")
        return {row[0]: self._decoded("profiles", row[0], lambda row=row: rows.profile_of_row(*row)) for row in found}

    def settings(self) -> dict[str, Any]:
        """The settings of placement that are kept, by their names in :class:`linnet.place.allocate.Settings`."""
        found = self._read_later("settings", "SELECT name, value FROM settings")
        return {row[0]: self._decoded("settings", row[0], lambda row=row: rows.setting_of(*row)) for row in found}

    def keep_settings(self, chosen: Mapping[str, Any]) -> None:
        """Keep settings of placement, in the place of those of the same names."""
        if chosen:
            pairs = [(name, rows.setting_of(name, value)) for name, value in chosen.items()]
            self._make_later("settings")
            self._db.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", pairs)

    def model(self) -> tuple[str, str] | None:
        """Path and checksum of the model file by which tenants are placed; nothing where none was given."""
        found = self._read_later("model", "SELECT file, checksum FROM model")
        return self._decoded("model", found[0][0], lambda: rows.model_of(*found[0])) if found else None

    def keep_model(self, file: str, checksum: str) -> None:
        """Keep which model file tenants are placed by."""
        self._make_later("model")
        self._db.execute("DELETE FROM model")
        # A path may be no text that UTF-8 can say.
        self._db.execute("INSERT INTO model VALUES (?, ?)", (file.encode(errors="replace").decode(), checksum))

    def add_drive(self, spec: DriveSpec) -> None:
        """Keep a drive."""
        drive = spec.drive
        row = (drive.name, drive.model, json.dumps(dict(drive.sheet)), spec.capacity_bytes, int(spec.staging))
        self._db.execute("INSERT INTO drives VALUES (?, ?, ?, ?, ?, ?)", (*row, self._next()))
        self._make_later("removed")
        self._db.execute("DELETE FROM removed WHERE name = ?", (drive.name,))

    def change_drive(self, spec: DriveSpec) -> None:
        """Keep a drive's new figures."""
        drive = spec.drive
        row = (drive.model, json.dumps(dict(drive.sheet)), spec.capacity_bytes, int(spec.staging), drive.name)
        self._db.execute("UPDATE drives SET model = ?, sheet = ?, capacity_bytes = ?, staging = ? WHERE name = ?", row)

    def remove_drive(self, name: str) -> None:
        """Forget a drive, but not that it was removed."""
        self._db.execute("DELETE FROM drives WHERE name = ?", (name,))
        self._make_later("removed")
        self._db.execute("INSERT OR IGNORE INTO removed VALUES (?)", (name,))

    def removed(self) -> set[str]:
        """Names of drives that were removed, and not registered since."""
        # Earlier versions, which do not know the table, may have registered some.
        query = "SELECT name FROM removed EXCEPT SELECT name FROM drives"
        return {row[0] for row in self._read_later("removed", query)}

    def add_tenant(self, tenant: Tenant, drive: str) -> None:
        """Keep a tenant and where it is."""
        profile = None if tenant.profile is None else rows.profile_text(tenant.profile)
        row = (tenant.id, drive, tenant.capacity_bytes, profile, rows.slos_text(tenant.slos), "", self._next())
        self._db.execute("INSERT INTO tenants VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        if tenant.asked is not None:
            self._make_later("asked")
            asked = (tenant.id, tenant.asked.profile_name, tenant.asked.features)
            self._db.execute("INSERT INTO asked VALUES (?, ?, ?)", asked)

    def change_tenant(self, tenant: Tenant, drive: str) -> None:
        """Keep a tenant's new drive or profile."""
        profile = None if tenant.profile is None else rows.profile_text(tenant.profile)
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

    def remove_profile(self, name: str) -> None:
        """Forget a profile."""
        self._db.execute("DELETE FROM profiles WHERE name = ?", (name,))

    def answered(self, key: str) -> Answered | None:
        """The answer to a request id, if it was used."""
        row = self._db.execute("SELECT digest, status, body FROM requests WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        body = self._decoded("requests", key, lambda: json.loads(row[2]))
        return Answered(row[0], row[1], body)

    def answer(self, key: str, digest: str, status: int, body: Any) -> None:
        """Keep the answer to a request id, and now and then drop the oldest ones."""
        position = self._next()
        self._db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (key, digest, status, json.dumps(body), position)
        )
        if self._answers % TRIM_EVERY == 0:
            self._db.execute(
                "DELETE FROM requests WHERE position <= "
                "(SELECT position FROM requests ORDER BY position DESC LIMIT 1 OFFSET ?)",
                (REQUESTS_MAX,),
            )
        self._answers += 1

    def write_again(self) -> None:
        """Write the version that the file has: it changes nothing, and takes a page of the log."""
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        self._db.execute(f"PRAGMA user_version = {version}")

    def rows_written(self) -> int:
        """Rows that were written since the file was opened, those that were undone included."""
        return self._db.total_changes

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

    def _make_later(self, table: str) -> None:
        self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} {LATER[table]}")

    def _read_later(self, table: str, query: str) -> list[Any]:
        there = self._read(f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}'")
        return self._read(query) if there else []

    def _read(self, query: str) -> list[Any]:
        try:
            return self._db.execute(query).fetchall()
        except sqlite3.Error as error:
            raise explained(self.path, error) from error

    def _decoded(self, table: str, key: object, make: Any) -> Any:
        try:
            return make()
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise self._wrong(table, key, str(error)) from error

    def _wrong(self, table: str, key: object, what: str) -> StateError:
        return StateError(f"{self.path}: table {table}, row {key}: {what}; restore the file from a backup")

    def _next(self) -> int:
        self._position += 1
        return self._position
