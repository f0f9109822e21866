# SPDX-License-Identifier: MIT OR Apache-2.0
"""`bench/macro/compare_all.py`: rows of some policies beside those of an earlier run."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

MACRO = Path(__file__).resolve().parents[3] / "bench" / "macro"


@pytest.fixture
def compare_all(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(MACRO))
    return importlib.import_module("compare_all")


def row(policy: str, mean_us: float) -> dict[str, object]:
    """A row of one cell."""
    return {"seed": 0, "trace": "az-c", "preset": "consumer-deep", "policy": policy, "mean_us": mean_us}


def test_a_first_run_of_some_policies_has_nothing_to_keep(compare_all: ModuleType, tmp_path: Path) -> None:
    """A folder without an earlier run ended a finished run with FileNotFoundError."""
    rows = [row("baseline", 9.0), row("clone", 3.0)]
    assert compare_all.merged(tmp_path / "compare.json", [0], rows, {}) == (rows, {})


def test_other_rows_of_an_earlier_run_stay(compare_all: ModuleType, tmp_path: Path) -> None:
    """New rows take the place of those of their cell and policy."""
    kept = tmp_path / "compare.json"
    kept.write_text(json.dumps({"seeds": [0], "rows": [row("baseline", 9.0), row("clone", 3.0)], "models": {}}))
    rows, _ = compare_all.merged(kept, [0], [row("clone", 2.0)], {})
    assert [(one["policy"], one["mean_us"]) for one in rows] == [("baseline", 9.0), ("clone", 2.0)]
