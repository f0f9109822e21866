# SPDX-License-Identifier: MIT OR Apache-2.0
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import LearnError, write_trace
from linnet._native import Study, defects
from linnet.studies.accuracy import FIGURES, MODELS, MORE_MODELS, accuracy
from linnet.studies.grid import Cell, Source, every_cell, first_reads, kept_rows, ratio, run_cells, summary, two_periods


def test_every_model_predicts_the_same_reads() -> None:
    rows = accuracy(device_trace(1), [*MODELS, *MORE_MODELS], seed=2)
    assert [row["model"] for row in rows] == [*MODELS, *MORE_MODELS]
    assert len({(row["rows"], row["base_rate"], row["inflection_us"]) for row in rows}) == 1
    by = {row["model"]: row for row in rows}
    assert by["always-fast"]["roc_auc"] == 0.5
    assert by["always-fast"]["accuracy"] == by["always-fast"]["base_rate"]
    assert all(by[name]["roc_auc"] > 0.85 for name in ("logistic", "trees", "linnos", "heimdall", "linnet"))
    assert all(by[name]["own_roc_auc"] > 0.85 for name in ("heimdall", "heimdall-p3"))
    assert rows == accuracy(device_trace(1), [*MODELS, *MORE_MODELS], seed=2)


def test_defects_are_committed_when_named() -> None:
    fair, hard = (Study(device_trace(1), defects=names).linnos() for names in ([], ["hard-auc"]))
    assert hard["roc_auc"] == fair["balanced_accuracy"] != fair["roc_auc"]
    assert "test-filtered" in defects()
    with pytest.raises(LearnError, match="random-split"):
        Study(device_trace(1), defects=["no-such"])


def test_parts_are_those_that_are_tested() -> None:
    study = Study(device_trace(1), device_trace(2))
    for features, slow in (study.train(), study.test()):
        shapes = {name: columns.shape for name, columns in features.items()}
        assert shapes == {"linnos": (len(slow), 31), "linnet": (len(slow), 16), "heimdall": (len(slow), 11)}
    assert study.linnet()["rows"] == len(study.test()[1])


def test_a_trace_is_cut_at_a_read() -> None:
    trace = device_trace(3, 500)
    cut = first_reads(trace, 100)
    op = cut.columns()["op"]
    assert (op == 0).sum() == 100
    assert (trace.columns()["op"][: len(op) + 1] == 0).sum() == 101
    assert first_reads(trace, None) is trace
    first, second = two_periods("az-e", 4000, 1)
    assert all(1500 < (part.columns()["op"] == 0).sum() < 4000 for part in (first, second))
    assert first.columns()["arrive_ns"][50] != second.columns()["arrive_ns"][50]


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    cells = [Cell(Source("az-e"), "sata", share, 0) for share in (0.5, 0.9)]

    def unread(source: Source) -> None:
        raise AssertionError("a workload is not read from a file")

    names = ["always-fast", "linnet"]
    first = run_cells(cells[:1], unread, names, 2000, out)
    assert [json.loads(line) for line in out.read_text().splitlines()] == first
    with out.open("a") as file:
        file.write('{"trace": "cut o')
    steps: list[int] = []
    both = run_cells(cells, unread, [*names, "linnet"], 2000, out, steps.append)
    assert (len(first), len(both), steps) == (2, 4, [0, 1, 2])
    assert kept_rows(out) == both
    by_model = sorted(both, key=lambda row: (row["share"], row["model"]))
    assert by_model == run_cells(cells, unread, names, 2000)
    assert [line["group"] for line in summary(both)] == [
        "share 0.5",
        "share 0.9",
        "share 0.5 and above",
        "sata",
        "all simulated",
    ]


def test_the_grid_is_whole_where_the_traces_are(shared: Path, tmp_path: Path) -> None:
    cells, lacking = every_cell(shared / "traces", ["sata", "600p"], [0.5], 0)
    assert not lacking
    assert [cell.preset for cell in cells[:5]] == [None] * 5
    assert len(cells) == 5 + 16 * 2
    assert len(every_cell(tmp_path, ["sata"], [0.5], 0)[1]) == 13


def test_means_leave_out_cells_of_few_reads() -> None:
    def cell(ours: float, theirs: float, rows: int = 1000) -> dict[str, dict[str, float]]:
        return {name: {"roc_auc": auc, "base_rate": 0.9, "rows": rows} for name, auc in
                (("linnet", ours), ("linnos", theirs))}  # fmt: skip

    assert ratio([cell(0.9, 0.8), cell(0.8, 0.8), cell(0.99, 0.5, rows=100)]) == pytest.approx(np.sqrt(0.5))
    assert ratio([cell(1.0, 1.0)]) == 1.0
    assert ratio([cell(0.9, 0.8, rows=100)]) is None


@pytest.mark.slow
def test_the_command_gives_a_row_for_each_device_and_model(linnet, tmp_path: Path) -> None:
    trace = tmp_path / "made.parquet"
    write_trace(device_trace(4), trace)
    common = ["--model", "always-fast,linnos,linnet", "--json"]
    own = json.loads(linnet("study", "accuracy", "-t", trace, *common).stdout)["rows"]
    assert [(row["model"], row["preset"]) for row in own] == [(m, None) for m in ("always-fast", "linnos", "linnet")]
    assert set(FIGURES) < set(own[0])
    many = linnet(
        *("study", "accuracy", "-t", trace, "-w", "az-e,bs-e", "--preset", "sata,600p", "--share", "0.5,0.9"),
        *("--max-reads", 1000, *common),
    )
    rows = json.loads(many.stdout)["rows"]
    assert len(rows) == 3 * 2 * 2 * 3
    assert {row["max_reads"] for row in rows} == {1000}
    for wrong in (
        ["-w", "az-e"],
        ["-w", "no-such", "--preset", "sata"],
        ["-t", trace, "--preset", "no-such"],
        ["-t", trace, "--share", "2"],
        ["-t", trace, "--defect", "no-such"],
        ["--everything"],
        [],
    ):
        refused = linnet("study", "accuracy", *wrong)
        assert refused.returncode == 2, wrong
        assert "Traceback" not in refused.stderr
