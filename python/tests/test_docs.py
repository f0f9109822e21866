# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command and every Python example of the documentation runs, in the order of its page and in one folder."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from linnet.place import container
from linnet.place.fitted import PlacementModel
from linnet.place.fitted_file import to_bytes
from place_tables import VICTIM

GIVEN = ("docs/guide/place.md",)
"""Pages whose examples are of a model of measured drives, which no command makes from nothing."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.slow


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of what runs, in order."""
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if str(page.relative_to(ROOT)) in GIVEN:
        _measured(tmp_path, request.getfixturevalue("placement_model"))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(words: list[str], shown: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shown}\n{done.stderr}"
        return done.stdout

    for language, body in blocks(page):
        if language == "python":
            assert run([sys.executable, "-c", body], body)
            continue
        for command in (line[2:] for line in body.splitlines() if line.startswith("$ ")):
            words = shlex.split(command)
            assert words[0] == "linnet", f"{command}: only linnet commands belong in a console block"
            run(words, command)


def _measured(folder: Path, model: PlacementModel) -> None:
    """A model with a drive ``h0``, and profiles of two tenants."""
    head, columns = container.unpack(to_bytes(model))
    head["drives"][0]["name"] = "h0"
    (folder / "place.linnet").write_bytes(container.pack(head, columns))
    for name in ("web", "log"):
        (folder / f"{name}.json").write_text(json.dumps({"name": name, "features": dict(VICTIM.features)}))


def test_python_of_a_page_is_where_it_runs() -> None:
    """In a block that says so, not indented."""
    for page in PAGES:
        assert not re.search(r"^    (from|import) [a-z.]+", BLOCK.sub("", page.read_text()), re.MULTILINE), page
