# SPDX-License-Identifier: MIT OR Apache-2.0
"""What commands say of latencies that can be misread."""

import json
from pathlib import Path

import pytest
from conftest import device_trace
from linnet import Trace, _native
from linnet.caveats import FEW_READS, few_reads

FEW = "reads, so the highest percentiles depend on a handful of them"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.parquet"
    device_trace(reads=1500).write(path)
    return path


@pytest.mark.parametrize("command", ["trace stat", "ssd run", "compare", "whatif"])
def test_few_reads_are_told_once(linnet, small_drive: Path, file: Path, command: str) -> None:
    words = {
        "trace stat": ["trace", "stat", file],
        "ssd run": ["ssd", "run", "--params", small_drive, "-w", file],
        "compare": ["compare", "-t", file, "--preset", small_drive, "--policy", "baseline"],
        "whatif": ["whatif", file, "--preset", small_drive, "--seeds", 1, "--share", 0.5],
    }[command]
    assert linnet(*words).stdout.count(FEW) == 1
    notes = json.loads(linnet(*words, "--json").stdout)["notes"]
    assert len([note for note in notes if FEW in note]) == 1


def test_how_many_reads_are_few() -> None:
    assert few_reads(0) == few_reads(FEW_READS) == ""
    assert few_reads(1).startswith("only 1 read, ") and few_reads(FEW_READS - 1).startswith("only 9,999 reads, ")


@pytest.mark.parametrize("command", ["ssd run", "ssd explain", "compare", "whatif", "label"])
def test_offsets_beyond_the_modelled_drive_are_counted(linnet, small_drive: Path, tmp_path: Path, command: str) -> None:
    made, far = device_trace(reads=1500), tmp_path / "far.csv"
    end = _native.Device(params=small_drive, precondition=False).capacity_bytes
    columns = made.columns()
    columns["offset_bytes"] %= end
    columns["offset_bytes"][::100] += end
    Trace.from_columns("far", **columns).write(far)
    words = {
        "ssd run": ["ssd", "run", "--params", small_drive, "-w", far],
        "ssd explain": ["ssd", "explain", "--params", small_drive, "-w", far],
        "compare": ["compare", "-t", far, "--preset", small_drive, "--policy", "baseline"],
        "whatif": ["whatif", far, "--preset", small_drive, "--seeds", 1, "--share", 0.5],
        "label": ["label", "-t", far, "--preset", small_drive],
    }[command]
    told = f"15 of 1,500 I/Os lie beyond the end of the modelled drive, {end / 2**30:.1f} GiB, and go to where"
    done = linnet(*words, "--json")
    assert done.returncode == 0, done.stderr
    if command == "label":
        assert told in done.stderr
    else:
        assert [told in note for note in json.loads(done.stdout)["notes"]].count(True) == 1
        assert linnet(*words).stdout.count(told) == 1


def test_too_few_reads_to_learn_from_are_told(linnet, tmp_path: Path) -> None:
    enough = tmp_path / "enough.parquet"
    device_trace().write(enough)
    few, model = tmp_path / "few.parquet", tmp_path / "few.linnet"
    device_trace(reads=600).write(few)
    labelled, fitted = linnet("label", "-t", few), linnet("fit", "-t", few, "--epochs", 1, "-o", model, "--json")
    assert labelled.returncode == fitted.returncode == 0
    reads = len(Trace.read(few).read_latencies())
    assert f"few.parquet: only {reads} reads to find an inflection point" in labelled.stderr
    assert f"few.linnet: only {json.loads(fitted.stdout)['train_rows']} reads to train on" in fitted.stderr
    for words in (("label",), ("fit", "--epochs", 1, "-o", model)):
        assert "only" not in linnet(*words, "-t", enough).stderr
