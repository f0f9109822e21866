# SPDX-License-Identifier: MIT OR Apache-2.0
"""What placement ships: profiles, drives and the demo."""

from pathlib import Path

import pytest
from linnet.place.catalogue import drives, profiles
from linnet.place.moments import rows
from linnet.place.sheet import SheetModel


def test_shipped_profiles_fit_the_shipped_drives() -> None:
    model = SheetModel()
    for drive, capacity in drives():
        assert capacity > 0
        loads = model.load(drive, rows(profiles()))
        assert ((loads > 0) & (loads < 0.5)).all(), drive.name


@pytest.mark.slow
def test_the_demo_writes_a_page(linnet, tmp_path: Path) -> None:
    done = linnet("place", "demo", "--out", tmp_path / "demo.html")
    assert done.returncode == 0, done.stderr
    assert "backup-all may not go to" in done.stdout and "BROKEN" in done.stdout
    page = (tmp_path / "demo.html").read_text()
    assert page.count("<svg") == 3 and "Who would suffer" in page
