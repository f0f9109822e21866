# SPDX-License-Identifier: MIT OR Apache-2.0
"""The file of a state as a file: whose it is, whether it may be used, and why not."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

APPLICATION = 0x4C4E5450
"""SQLite's application id of this file: "LNTP"."""
VERSION = 1


class StateError(ValueError):
    """The state file cannot be used. The message says which file and what to do."""


class StateFull(OSError):
    """The state could not be written; nothing of the transaction was kept."""


class StateMoved(StateFull):
    """The file is no longer where it was opened."""


@dataclass(frozen=True)
class Copy:
    """The content of a state at one moment."""

    size: int
    """Bytes of all of it."""
    part: Callable[[int, int], bytes]
    """So many bytes from an offset on: the second argument, and the first. Any thread may ask."""
    done: Callable[[], None]
    """To be called when no part is asked for any more."""


def inspect(path: Path, file: Path, create: bool) -> None:
    """Refuse what is not ours before anything of it is written: neither header nor journal."""
    if not file.exists() and not create:
        raise StateError(f"{path}: no such file; `linnet place drives --state {path} --add FILE` makes a state")
    _permitted(path, file)
    if not file.exists():
        return
    address = file.as_uri()
    journal = log_of(file)
    logged = journal.exists() and journal.stat().st_size > 0
    try:
        # Without its journal, which a connection that reads it would make if it were absent.
        ours = _look(path, f"{address}?immutable=1")
    except sqlite3.DatabaseError:
        if not logged:
            raise
        # A checkpoint that was cut short. It writes the first page first, which then tells of pages that only the log
        # has. The connection that follows reads both; one that only reads needs space on the disk for an index.
        return
    if not ours and logged:
        ours = _look(path, f"{address}?mode=ro")
    if not ours and not create:
        raise StateError(f"{path}: empty; `linnet place drives --state {path} --add FILE` makes a state")


def _permitted(path: Path, file: Path) -> None:
    """Refuse a file or a folder that this user may not read and write: SQLite calls it an error of the disk."""
    if not file.parent.is_dir():
        raise StateError(f"{path}: there is no folder {file.parent}")
    if file.exists() and not file.is_file():
        raise StateError(f"{path}: not a regular file, but a folder, a device or a pipe; give another")
    for mode, word in ((os.R_OK, "read"), (os.W_OK, "write")):
        if file.exists() and not os.access(file, mode):
            raise StateError(f"{path}: no permission to {word} it; a state is read and written")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise StateError(f"{path}: no permission to write in {file.parent}; a log is kept beside a state")


def _look(path: Path, address: str) -> bool:
    with closing(sqlite3.connect(address, isolation_level=None, timeout=0.0, uri=True)) as db:
        return checked(path, db)


def checked(path: Path, db: sqlite3.Connection) -> bool:
    """Whether a database is a state; not if it is empty. Raise StateError for another one."""
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION and (tables or application):
        raise StateError(f"{path}: a database, but not the state of a placement; give another file")
    if application == APPLICATION and version > VERSION:
        raise StateError(f"{path}: state version {version}; this linnet knows {VERSION}. Use a newer one")
    return bool(tables)


def explained(path: Path, error: sqlite3.Error) -> StateError:
    """SQLite's error in words that say what to do."""
    text = str(error)
    if "locked" in text:
        return StateError(f"{path}: in use by another process; ask the service that has it, or stop it")
    if "not a database" in text or "malformed" in text:
        return StateError(f"{path}: not a state file, or damaged ({text}); restore it from a backup")
    return StateError(f"{path}: {cause(error)}")


def cause(error: sqlite3.Error) -> str:
    """Why a file could not be read or written. SQLite calls a limit of its size an error of the disk."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if "disk" not in str(error) or most == resource.RLIM_INFINITY:
        return str(error)
    return f"{error}; this process may write files of {most} bytes at most (`ulimit -f`, LimitFSIZE= of systemd)"


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to: its device and number; nothing if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_of(file: Path) -> Path:
    """The log beside a state's file."""
    return file.with_name(f"{file.name}-wal")
