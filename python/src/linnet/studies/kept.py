# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows that a long study keeps in a file of JSON lines, so that a stopped run continues.

A file that has anything else is somebody's own: it is refused, and left as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any

from linnet._native import Trace
from linnet.files import check_target, write_whole

Kinds = Mapping[str, type | UnionType]
"""What the values of some keys of a row are."""
NONE: Kinds = MappingProxyType({})
NUMBER = int | float
CONTENT = "trace_digest"
"""The key of a row that tells traces of the same name apart. Rows of workloads have none, nor do old rows."""


def digest_of(traces: Iterable[Trace]) -> str:
    """What tells traces from others of their names: their records, however the files have them."""
    digest = hashlib.sha256()
    for trace in traces:
        digest.update(len(trace).to_bytes(8, "little"))
        for column in trace.columns().values():
            digest.update(column.tobytes())
    return digest.hexdigest()[:32]


def kept_rows(path: Path, needed: Kinds = NONE, optional: Kinds = NONE) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; a last line that was cut off by a stop is left out.

    Every row has the keys of ``needed``, and may have those of ``optional``. Raises :class:`ValueError` with the file
    and the line for anything that is no such row.
    """
    return _read(path, needed, optional)[0]


def _read(
    path: Path, needed: Kinds, optional: Kinds, together: Sequence[str] = ()
) -> tuple[list[dict[str, Any]], bytes | None]:
    """The rows of a file, and what must be in it before more are appended, if that is not what it has.

    ``together`` is that of :class:`Kept`.
    """
    if not path.exists():
        return [], None
    data = path.read_bytes()
    *whole, last = data.split(b"\n")
    rows = [_row(line, f"{path}: line {number}", needed, optional) for number, line in enumerate(whole, 1)]
    if not last:
        return rows, None
    if _cut_off(last, needed):
        begun = _begun(rows, together) if together else 0
        rows = rows[: len(rows) - begun]
        return rows, b"".join(line + b"\n" for line in whole[: len(rows)])
    rows.append(_row(last, f"{path}: line {len(whole) + 1}", needed, optional))
    return rows, data + b"\n"


def _row(line: bytes, where: str, needed: Kinds, optional: Kinds) -> dict[str, Any]:
    """The row of a line."""
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict):
        lacking = [key for key in needed if key not in row]
        other = [key for key, kind in {**needed, **optional}.items() if key in row and not isinstance(row[key], kind)]
        if not lacking and not other:
            return row
        fault = f"a row of this study has {lacking[0]!r}" if lacking else f"{other[0]!r} has a value of another kind"
    else:
        fault = "not a JSON object"
    raise ValueError(f"{where}: {fault}; the file is left as it is, give one that has only rows of this study")


def _cut_off(line: bytes, needed: Kinds) -> bool:
    """Whether a last line without an end begins like a row, and ends within it."""
    begins = [f'{{"{key}": '.encode() for key in needed] or [b'{"']
    if not any(line.startswith(begin) or begin.startswith(line) for begin in begins):
        return False
    try:
        json.loads(line.decode())
    except json.JSONDecodeError as error:
        # A row and then something else was not cut off.
        return not error.msg.startswith("Extra data")
    except (ValueError, RecursionError):
        return False
    return False


def _begun(rows: Sequence[dict[str, Any]], together: Sequence[str]) -> int:
    """How many rows at the end may belong to the one that was cut off."""

    def of(row: dict[str, Any]) -> list[Any]:
        return [row.get(key) for key in together]

    return next((n for n, row in enumerate(reversed(rows)) if of(row) != of(rows[-1])), len(rows))


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class Kept:
    """The rows of a file from before, and the place where new ones are appended. Without a file nothing is kept.

    ``needed`` and ``optional`` are those of :func:`kept_rows`. Rows that agree in the keys ``together`` are of use only
    together: where the last one was cut off, those before it are made again too.
    """

    def __init__(self, path: Path | None, needed: Kinds, optional: Kinds = NONE, together: Sequence[str] = ()) -> None:
        if path is not None and path.exists() and not path.is_file():
            raise ValueError(f"{path}: not a regular file, and rows are appended to what it has; give a file")
        self._path = path
        self.before: list[dict[str, Any]] = []
        """Rows that need not be made again."""
        if path is not None:
            check_target(path)
            self.before, mended = _read(path, needed, optional, together)
            if mended is not None:
                write_whole(path, mended)

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rows."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(_lines(rows))
