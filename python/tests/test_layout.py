# SPDX-License-Identifier: MIT OR Apache-2.0
"""The product does not import the laboratory, and old module names still work."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from linnet._moved import MOVED, RENAMED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_moved_module_is_found_by_its_old_name(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {MOVED[old]}") as caught:
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old])
    assert len(caught) == 1


@pytest.mark.parametrize(("module", "old"), [(module, old) for module, names in RENAMED.items() for old in names])
def test_an_old_name_in_a_module_works_and_warns(module: str, old: str) -> None:
    found, new = importlib.import_module(module), RENAMED[module][old]
    with pytest.warns(DeprecationWarning, match=f"{module}.{old} is now {module}.{new}") as caught:
        assert getattr(found, old) is getattr(found, new)
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'"):
        found.nonsense  # noqa: B018


def test_the_warning_names_the_line_that_imports(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text("from linnet.study import MODELS\nimport linnet.grid\nprint(MODELS[0], linnet.grid.FEW)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "always-fast 50\n"
    assert f"{script}:1: DeprecationWarning: linnet.study has moved to linnet.studies.accuracy" in done.stderr
    assert f"{script}:2: DeprecationWarning: linnet.grid has moved" in done.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"linnet\.nonsense"):
        importlib.import_module("linnet.nonsense")


def test_the_product_does_not_load_the_laboratory() -> None:
    code = (
        "import sys, linnet.cli as cli\n"
        "sys.argv = ['linnet', 'dm', '--help']\n"
        "try:\n    cli.main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print([name for name in sys.modules if name.startswith('linnet.studies')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
def test_the_commands_of_the_laboratory_are_listed(linnet) -> None:
    listed = linnet("--help").stdout
    assert "study" in listed
    assert "bench" in listed
    for group, command in (("study", "accuracy"), ("study", "drift"), ("bench", "ssd")):
        assert command in linnet(group, "--help").stdout
    assert "Did you mean 'accuracy'" in linnet("study", "acuracy").stderr


def test_no_code_names_a_folder_of_the_machine_it_was_written_on() -> None:
    folders = ("python/src", "bench/macro", "lib", "tools")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".sh", ".c"}]
    assert len(sources) > 60
    for path in sources:
        text = path.read_text()
        for name in ("../shared", "/work/", "/home/"):
            assert name not in text, path
