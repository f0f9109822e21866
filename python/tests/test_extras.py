# SPDX-License-Identifier: MIT OR Apache-2.0
"""The operator's part of the package works with every extra blocked, as if it were not installed."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT, device_trace
from linnet import write_trace
from linnet.extras import GUIDE, NEEDS, advice

BLOCKED = ("matplotlib", "ortools", "pyarrow", "ray", "sklearn", "scipy", "threadpoolctl")
BLOCK = f"""
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
"""


def bare(*arguments: object, more: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command ``linnet`` where no extra can be imported."""
    code = f"{BLOCK}{more}\nfrom linnet.cli import main\nsys.argv[0] = 'linnet'\nmain()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.parquet"
    write_trace(device_trace(reads=3000), path)
    return path


def test_the_block_blocks() -> None:
    for module in BLOCKED:
        done = subprocess.run(
            [sys.executable, "-c", f"{BLOCK}import {module}"], capture_output=True, text=True, check=False
        )
        assert f"No module named '{module}'" in done.stderr


@pytest.mark.slow
def test_trace_stat_whatif_and_dm_run_without_extras(file: Path, small_drive: Path) -> None:
    stat = bare("trace", "stat", file, "--json")
    assert json.loads(stat.stdout)["records"] == 3000, stat.stderr
    whatif = bare("whatif", file, "--preset", small_drive, "--share", 0.75, "--json")
    assert json.loads(whatif.stdout)["headline"], whatif.stderr
    for group in ("dm", "ssd", "study", "bench"):
        shown = bare(group, "--help")
        assert (shown.returncode, "Commands" in shown.stdout) == (0, True), shown.stderr


@pytest.mark.slow
def test_label_fit_and_evaluate_run_without_extras(file: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.linnet"
    assert bare("label", "-t", file).returncode == 0
    assert bare("fit", "-t", file, "-o", model, "--epochs", 1).returncode == 0
    evaluated = bare("evaluate", "-m", model, "-t", file, "--json")
    assert json.loads(evaluated.stdout)["rows"] > 0


@pytest.mark.slow
def test_the_demo_has_tables_and_says_how_to_get_figures(small_drive: Path, tmp_path: Path) -> None:
    small = f"import linnet.cli.demo as demo\ndemo.WORKLOADS = (('az-e', {str(small_drive)!r}, 1.0),)\ndemo.REAL = ()"
    done = bare("demo", "--out", tmp_path / "out", more=small)
    assert done.returncode == 0, done.stderr
    assert "pip install 'WHEEL[report]'" in done.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "linnet-best" in page
    assert "pip install" in page
    assert "<svg" not in page
    assert json.loads((tmp_path / "out" / "results.json").read_text())["rows"]


@pytest.mark.parametrize(
    ("command", "what", "extra"),
    [
        ("compare -t FILE --report out.html", "--report", "report"),
        ("whatif FILE --report out.html", "--report", "report"),
        ("ssd explain -w FILE --picture out.svg", "--picture", "report"),
        ("ssd calibrate FILE -o out.toml --report out.svg", "--report", "report"),
        ("study drift -t FILE --figure out.svg", "--figure", "report"),
        ("study accuracy -t FILE", "linnet study accuracy", "study"),
        ("study latency -t FILE --limit", "--limit", "study"),
        ("study shapes -t FILE", "linnet study shapes", "study"),
        ("study tune FILE --ray", "--ray", "ray"),
    ],
)
def test_a_command_whose_extra_is_missing_says_what_to_install(
    command: str, what: str, extra: str, file: Path, tmp_path: Path
) -> None:
    done = bare(*(file if word == "FILE" else word for word in command.split()), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    distributions = " and ".join(NEEDS[extra].values())
    assert done.stderr == f"linnet: {what} needs {distributions}; {advice(extra)}\n"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_names_of_the_package_that_need_an_extra_say_so(file: Path) -> None:
    code = f"{BLOCK}\nimport linnet\nprint(len(linnet.Trace.read({str(file)!r})))\n"
    for wanted, extra in (
        (f"linnet.read_trace({str(file)!r})", "arrow"),
        ("linnet.traces.SCHEMA", "arrow"),
        ("import linnet.estimator", "study"),
    ):
        done = subprocess.run([sys.executable, "-c", code + wanted], capture_output=True, text=True, check=False)
        assert done.stdout == "3000\n"
        assert done.stderr.splitlines()[-1].startswith("linnet.extras.MissingExtra: ")
        assert f"pip install 'WHEEL[{extra}]'" in done.stderr


@pytest.mark.parametrize("command", ["bench ssd", "bench decide", "study shapes -t FILE"])
def test_an_engine_without_benches_says_which_build_has_them(linnet, command: str, file: Path) -> None:
    without = "import linnet._native as engine\n" + "".join(
        f"if hasattr(engine, {name!r}): del engine.{name}\n"
        for name in ("bench_decide", "bench_decide_count", "bench_network", "bench_ssd", "bench_ssd_count")
    )
    code = f"import sys\n{without}\nfrom linnet.cli import main\nmain()"
    arguments = [str(file) if word == "FILE" else word for word in command.split()]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"linnet: .+ needs an engine with its benches.+`make build`.+\n", done.stderr), done.stderr


UNLOCKED = {"ray"}
"""Extras that no build of ours installs: each would make all of them larger by tens of MB."""


def canonical(requirement: str) -> str:
    """The name in a requirement, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()


def test_nobody_is_told_to_install_the_package_by_its_name() -> None:
    """It is on no index; the name there is another's."""
    page = (ROOT / GUIDE).read_text()
    assert all(f"| `{extra}` |" in page for extra in NEEDS)
    by_name = re.compile(r"pip3? install [^\n`]*(?<![\w./-])linnet(?![\w./-])")
    assert by_name.search("pip install 'linnet[serve]'") and not by_name.search(
        "pip install 'dist/linnet-0.1.0.whl[serve]'"
    )
    for folder in ("README.md", "docs", "packaging", "python/src", "python/README.md", "kernel"):
        top = ROOT / folder
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in {".md", ".py", ".yaml", ".service", ".rst", ""} and path.is_file():
                assert not by_name.search(path.read_text(errors="replace")), path
    assert not by_name.search(advice("serve"))


def test_the_lock_has_every_extra_and_the_extras_are_those_that_are_asked_for() -> None:
    declared = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())
    extras = declared["project"]["optional-dependencies"]
    locked_extras = [needed for name, needed in extras.items() if name not in UNLOCKED]
    groups = [declared["project"]["dependencies"], declared["dependency-groups"]["test"], *locked_extras]
    wanted = {canonical(one) for group in groups for one in group}
    lock = (ROOT / "python" / "requirements.lock").read_text()
    locked = {canonical(line) for line in lock.splitlines() if re.match(r"[A-Za-z0-9]", line)}
    assert wanted <= locked
    assert set(extras) == set(NEEDS)
    for name, modules in NEEDS.items():
        assert set(modules.values()) <= {canonical(one) for one in extras[name]}, name
