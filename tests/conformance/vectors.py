# SPDX-License-Identifier: MIT OR Apache-2.0
"""Keeps files of golden vectors: what a reference makes is compared with the files, or written with `--write`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def keep(files: Mapping[Path, str], what: str, folder: Path | None = None) -> int:
    """Compare texts with the files, or write them. Gives the exit status.

    ``folder`` has no other .txt files. ``what`` names the vectors in the message.
    """
    if "--write" in sys.argv[1:]:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return 0
    others = set(folder.rglob("*.txt")) - set(files) if folder else set()
    wrong = sorted(others | {path for path, text in files.items() if not path.exists() or path.read_text() != text})
    for path in wrong:
        print(f"{path} is not what {sys.argv[0]} makes; see the difference after --write", file=sys.stderr)
    if not wrong:
        print(f"{what}: {len(files)} files are what the slow model makes")
    return 1 if wrong else 0
