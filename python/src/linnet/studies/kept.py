# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows that a long study keeps in a file of JSON lines, so that a stopped run continues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from linnet.files import write_whole


def kept_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; a last line that was cut off by a stop is left out."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


class Kept:
    """The rows of a file from before, and the place where new ones are appended. Without a file nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        if path is not None and path.exists() and not path.is_file():
            raise ValueError(f"{path}: not a regular file, and rows are appended to what it has; give a file")
        self._path = path
        self.before = [] if path is None else kept_rows(path)
        """Rows that need not be made again."""
        if path is not None and path.exists():
            write_whole(path, _lines(self.before))

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rows."""
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(_lines(rows))
