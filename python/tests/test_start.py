# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a start imports: users wait for it, and the tests start the command hundreds of times."""

import importlib
import subprocess
import sys
from pathlib import Path

import linnet
import pytest
from conftest import device_trace
from linnet.cli.commands import COMMANDS

HEAVY = ("numpy", "rich.markdown", "rich.progress", "typer.rich_utils", "concurrent.futures", "asyncio", "matplotlib")
"""What a plain command does without. Typer itself imports pydantic, to read arguments."""


def imported(code: str, *arguments: str) -> set[str]:
    """Modules that a new process has imported in the end."""
    shown = (
        f"import sys\nsys.argv = {['linnet', *arguments]!r}\ntry:\n    {code}\nexcept SystemExit as end:\n"
        "    assert not end.code, end.code\nfinally:\n    print('modules', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rsplit("\n", 2)[-2].split()[1:])


def ours(modules: set[str]) -> set[str]:
    """The modules of the command line among these, besides what every command has."""
    always = {"linnet.cli", *(f"linnet.cli.{name}" for name in ("commands", "lazy", "output", "options", "signals"))}
    return {name for name in modules if name.startswith(("linnet.cli", "linnet.studies"))} - always


def test_importing_the_package_is_cheap() -> None:
    modules = imported("import linnet")
    assert not modules & {*HEAVY, "typer", "rich", "dataclasses"}
    assert {name for name in modules if name.startswith("linnet.")} == {"linnet._moved", "linnet._native"}


@pytest.mark.parametrize("group", [[], ["trace"], ["ssd"], ["dm"], ["tune"], ["place"], ["bench"], ["study"]])
def test_help_of_a_group_imports_no_command(group: list[str]) -> None:
    modules = imported("from linnet.cli import main; main()", *group, "--help")
    assert ours(modules) == set()
    assert not modules & {"numpy", "pydantic", "rich.progress", "concurrent.futures"}


def test_a_command_imports_itself_alone(tmp_path: Path) -> None:
    trace = tmp_path / "small.csv"
    device_trace(reads=20).write(trace)
    run = "from linnet.cli import main; main()"
    for words, own in (
        (["trace", "stat", str(trace)], "linnet.cli.trace"),
        (["trace", "stat", str(trace), "--json"], "linnet.cli.trace"),
        (["trace", "convert", str(trace), "-o", str(tmp_path / "out.parquet")], "linnet.cli.trace"),
        (["ssd", "params", "consumer-deep"], "linnet.cli.ssd"),
        (["tune", "restore", "--help"], "linnet.cli.tune"),
    ):
        modules = imported(run, *words)
        assert ours(modules) == {own}, words
        assert not modules & {*HEAVY} - ({"typer.rich_utils", "rich.markdown"} if "--help" in words else set()), words


@pytest.mark.parametrize("group", COMMANDS)
def test_the_table_has_the_help_of_the_commands(group: str) -> None:
    for name, (target, text) in COMMANDS[group].items():
        if not target:
            assert name in COMMANDS and text.endswith(".")
            continue
        module, function = target.split(":")
        first = getattr(importlib.import_module(module), function).__doc__.split("\n\n")[0]
        assert " ".join(first.split()) == text, f"{group} {name}"


def test_names_of_the_package_are_there_before_they_are_imported() -> None:
    told = imported("import linnet; dir(linnet)")
    assert "numpy" not in told
    assert set(linnet.__all__) <= set(dir(linnet))
    for name in (*linnet.__all__, "experiment", "learning", "traces", "extras"):
        assert getattr(linnet, name) is not None
    assert linnet.compare is linnet.experiment.compare
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        linnet.nothing  # noqa: B018
