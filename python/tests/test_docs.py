# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command and every Python example of the documentation runs, in the order of its page."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.slow


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in BLOCK.findall(page.read_text()) if kind == language]


def commands(page: Path) -> list[str]:
    return [line[2:] for body in blocks(page, "console") for line in body.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_run(page: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands(page):
        words = shlex.split(command)
        assert words[0] == "linnet", f"{command}: only linnet commands belong in a console block"
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path) -> None:
    for body in blocks(page, "python"):
        done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{body}\n{done.stderr}"
        assert done.stdout
