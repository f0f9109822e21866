# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results that are kept by their content, so that a command that was interrupted continues."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

LINE_MAX = 1 << 20
"""Bytes of a line of the cache; a longer one is damage."""
BEGINS = b'{"key": '
"""How each line begins, also one that a crash cut later than that."""


class Cache:
    """Results by content, in a file of JSON lines that only grows. A line that was cut by a crash is ignored. Several
    processes may keep results in one file; each knows its own, and those that were there when it began.

    Memory has the place of each line, less than 800 bytes; the results stay in the file, an unnamed one without a path.
    """

    def __init__(self, path: Path | None) -> None:
        """Raises OSError for what is no regular file, holds something else than results, or cannot be locked."""
        self._places: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._path = path
        self.hits = 0
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "not a regular file, and results are appended to what it has", str(path))
        # Read and written in one lock; writes go to the end, wherever the last read was.
        self._file: BinaryIO = tempfile.TemporaryFile("w+b") if path is None else path.open("a+b")  # noqa: SIM115
        with self._alone():
            self._file.seek(0)
            place = 0
            while line := self._file.readline(LINE_MAX):
                if not (place or _is_ours(line)):
                    self._file.close()
                    said = "holds something else than kept results, which are appended; give another file"
                    raise OSError(errno.EEXIST, said, str(path))
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    entry["value"]
                    self._places[bytes.fromhex(entry["key"])] = place
                place += len(line)

    def has(self, key: str) -> bool:
        """Whether a result is kept under a key; counted as a hit if it is."""
        with self._lock:
            found = bytes.fromhex(key) in self._places
            self.hits += found
            return found

    def get(self, key: str) -> Any:
        """What is kept under a key, or nothing. Raises OSError if it is no longer where it was put."""
        with self._lock:
            place = self._places.get(bytes.fromhex(key))
            if place is None:
                return None
            self._file.seek(place)
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found = json.loads(self._file.readline(LINE_MAX))
                if found["key"] == key:
                    return found["value"]
            said = "changed by something else while results were kept in it; repeat the command"
            raise OSError(errno.ESTALE, said, None if self._path is None else str(self._path))

    def put(self, key: str, value: Any) -> None:
        """Keep a result."""
        line = json.dumps({"key": key, "value": value}).encode() + b"\n"
        with self._alone():
            place = self._file.seek(0, os.SEEK_END)
            if place:
                self._file.seek(place - 1)
                if self._file.read(1) != b"\n":
                    # Cut by a crash, of whichever process.
                    self._file.write(b"\n")
            place = self._file.tell()
            self._file.write(line)
            self._file.flush()
            self._places[bytes.fromhex(key)] = place

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other thread or process writes meanwhile."""
        with self._lock:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            except OSError as error:
                said = f"cannot be locked ({error.strerror}); keep results on another file system"
                raise OSError(error.errno, said, None if self._path is None else str(self._path)) from error
            try:
                yield
            finally:
                if not self._file.closed:
                    fcntl.flock(self._file, fcntl.LOCK_UN)


def _is_ours(line: bytes) -> bool:
    """Whether the first line of a file is one of a cache: a result, or what a crash left of it."""
    if not line.startswith(BEGINS[: len(line)]):
        return False
    try:
        entry = json.loads(line)
    except ValueError:
        return True
    return isinstance(entry, dict) and entry.keys() >= {"key", "value"}
