# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names from outside are shown as they are: nothing in them is markup, and nothing controls the terminal."""

import io
import json
from pathlib import Path

import pytest
from conftest import device_trace
from linnet import write_trace
from linnet.cli.bars import bars
from linnet.cli.output import Bars, Terminal, number, percent, plain
from rich.table import Table
from rich.text import Text

NAMES = ["[/x]", "[red]a[/red]", "\x1b]0;title\x07", "\x1b[2J", "\x9b2J", "a\rb", "\u202egnp", "\udcff", ":smile:"]


@pytest.mark.parametrize("name", NAMES)
def test_commands_show_names(linnet, tmp_path: Path, name: str) -> None:
    source, target = tmp_path / f"{name}.csv", tmp_path / f"out-{name}.csv"
    write_trace(device_trace(reads=50), tmp_path / "made.csv")
    for path in (source, target):
        path.parent.mkdir(exist_ok=True)
    (tmp_path / "made.csv").rename(source)
    done = linnet("trace", "convert", source, "-o", target)
    assert done.returncode == 0, done.stderr
    assert f"out-{plain(name)}.csv: 50 records" in done.stdout and target.exists()
    shown = linnet("trace", "stat", source)
    assert f"{plain(source.name)} (" in shown.stdout
    for wrong in (
        linnet("trace", "stat", tmp_path / f"absent-{name}"),
        linnet("compare", "-t", source, "--policy", name),
        linnet("trace", "convert", source, "-o", tmp_path / f"{name}.unknown"),
    ):
        assert wrong.returncode != 0 and "Traceback" not in wrong.stderr
        assert plain(wrong.stderr) == wrong.stderr
    assert plain(done.stdout + shown.stdout) == done.stdout + shown.stdout


def test_everything_that_is_printed_passes_the_filter() -> None:
    """Strings, texts, cells and bars; colours of our own stay."""
    for name in NAMES:
        out = io.StringIO()
        terminal = Terminal(file=out, force_terminal=True, width=200, color_system="truecolor")
        table = Table(name)
        table.add_row(name, Text(name))
        terminal.print(name, Text(name), table)
        terminal.print("[bold]ours[/]", markup=True)
        found = out.getvalue()
        assert "\x1b[1mours\x1b[0m" in found
        # Rich drops some controls from a Text; no console sees those.
        assert found.count(plain(name)) >= 3
        if "\x1b" in name or "\x9b" in name:
            assert name not in found


def test_usage_errors_keep_their_own_markup(linnet) -> None:
    done = linnet("trace", "stat", "--format", "[red]")
    assert done.returncode == 2
    assert "[blue]" not in done.stderr and "linnet trace stat -h" in done.stderr


def test_json_has_no_half_of_a_pair(linnet, tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are the same in what Python names and in what the engine does."""
    source = tmp_path / "a\udcff\u00e9\U0001f480.csv"
    write_trace(device_trace(reads=1000), tmp_path / "made.csv")
    (tmp_path / "made.csv").rename(source)
    converted = linnet("trace", "convert", source, "-o", tmp_path / "b\udcff.csv", "--json").stdout
    labelled = linnet("label", "-t", source, "--json").stdout
    assert converted.isascii() and json.loads(converted)["out"].endswith("/b\ufffd.csv")
    assert labelled.isascii() and json.loads(labelled)["rows"][0]["trace"] == "a\ufffd\u00e9\U0001f480.csv"


def test_a_bar_shows_a_name() -> None:
    shown = io.StringIO()
    with bars(Terminal(file=shown, force_terminal=True, width=100)) as view:
        view.add_task("reading [/x]", total=3)
    assert "reading [/x]" in shown.getvalue()


def test_no_bar_without_a_terminal() -> None:
    with Bars() as silent:
        assert silent._view is None
        silent.stage("reading", 3)(1)


def test_what_rounds_to_zero_has_no_sign() -> None:
    assert [number(value) for value in (-0.001, -0.0, -0.006, -12.34, -1234.5)] == [
        *("0.00", "0.00", "-0.01", "-12.3", "-1,234"),
    ]
    assert percent(-0.0001) == "0.0 %" and percent(-0.01) == "-1.0 %"
