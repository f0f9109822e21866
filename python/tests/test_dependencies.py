# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every imported package is declared in pyproject.toml, and every declared one is used."""

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "python/pyproject.toml").read_text())
COMMANDS = {"maturin", "mypy", "ruff"}
"""Declared for their commands, which the Makefile calls."""
ELSEWHERE = {"torch"}
"""What bench/macro/train_vs_torch.py compares with; it says how to install it."""


def names(requirements: list[str]) -> set[str]:
    """The packages of these requirements, without extras, versions and markers; not the project itself."""
    return {re.split(r"[^A-Za-z0-9_.-]", one)[0].lower().replace("_", "-") for one in requirements} - {"linnet"}


def imported(folders: list[str]) -> set[str]:
    """Packages that files in these folders import: neither of the standard library nor of the tree."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    own = {"linnet", *(file.stem for file in files)}
    modules = {name.split(".")[0] for file in files for name in modules_of(file)}
    found = packages_distributions()
    return {found.get(name, [name])[0].lower().replace("_", "-") for name in modules - own - sys.stdlib_module_names}


def modules_of(file: Path) -> set[str]:
    """What one file imports by an absolute name."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules.add(node.module)
    return modules


def test_the_package_declares_what_it_imports_and_no_more() -> None:
    extras = PROJECT["project"].get("optional-dependencies", {}).values()
    declared = names([*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)])
    used = imported(["python/src"])
    assert used - declared == set(), "imported and not declared"
    assert declared - used == set(), "declared and not imported"


def test_tests_and_benches_declare_what_they_import_and_no_more() -> None:
    groups = PROJECT["dependency-groups"].values()
    tools = names([one for group in groups for one in group if isinstance(one, str)])
    used = imported(["python/tests", "tests", "bench"]) - imported(["python/src"]) - ELSEWHERE
    assert used - tools == set(), "imported and not declared"
    assert tools - used - COMMANDS == set(), "declared and not used"


def test_the_licence_of_the_wheel_covers_the_core_and_its_texts_are_in_it() -> None:
    """The extension links core/, whose terms are others than those of the rest."""
    project = PROJECT["project"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    binding = tomllib.loads((ROOT / "crates/core/Cargo.toml").read_text())["package"]
    head = (ROOT / "core/decide.c").read_text().splitlines()[0]
    core = re.search(r"SPDX-License-Identifier: (.+?)(?: \*/)?$", head)
    assert core
    assert project["license"] == binding["license"] == f"({workspace['license']}) AND ({core[1]})"
    shipped = {path.name for glob in project["license-files"] for path in (ROOT / "python").glob(glob)}
    assert shipped == {"LICENSE-APACHE", "LICENSE-GPL-2.0", "LICENSE-MIT", "THIRD-PARTY-NOTICES.txt"}
    for name in shipped - {"THIRD-PARTY-NOTICES.txt"}:
        assert (ROOT / "python" / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_has_one_list_of_what_it_holds_and_it_is_of_no_other_package() -> None:
    whole = json.loads((ROOT / "python/src/linnet/sbom.cdx.json").read_text())
    main = whole["metadata"]["component"]
    assert main["purl"].startswith("pkg:generic/linnet@"), "the index has another package by this name"
    assert main["licenses"] == [{"expression": PROJECT["project"]["license"]}]
    assert PROJECT["tool"]["maturin"]["sbom"] == {"rust": False}
