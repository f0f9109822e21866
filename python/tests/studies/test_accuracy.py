# SPDX-License-Identifier: MIT OR Apache-2.0
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import LearnError, Trace, write_trace
from linnet._native import Study, defects
from linnet.studies import ceiling
from linnet.studies.accuracy import CEILING, FIGURES, MODELS, MORE_MODELS, accuracy, numbers
from linnet.studies.ceiling import STEP, STRENGTHS, boosted, chosen, parts_of
from linnet.studies.grid import (
    Cell,
    Source,
    by_cell,
    every_cell,
    first_reads,
    ratio,
    run_cells,
    summary,
    two_periods,
)
from linnet.studies.kept import CONTENT, Kept, kept_rows
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits


def test_every_model_predicts_the_same_reads() -> None:
    names = [name for name in (*MODELS, *MORE_MODELS) if name != CEILING]
    rows = accuracy(device_trace(1), names, seed=2)
    assert [row["model"] for row in rows] == names
    assert len({(row["rows"], row["base_rate"], row["inflection_us"]) for row in rows}) == 1
    by = {row["model"]: row for row in rows}
    assert by["always-fast"]["roc_auc"] == 0.5
    assert by["always-fast"]["accuracy"] == by["always-fast"]["base_rate"]
    assert all(by[name]["roc_auc"] > 0.85 for name in ("logistic", "trees", "linnos", "heimdall", "linnet"))
    assert all(by[name]["own_roc_auc"] > 0.85 for name in ("heimdall", "heimdall-p3"))
    assert rows == accuracy(device_trace(1), names, seed=2)


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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("my notes", 1),
        ("my notes\n", 1),
        ("{ notes", 1),
        ('{"name": "mine"', 1),
        ("[1]\n", 1),
        ("\n", 1),
        ('{"trace": "odd.csv"}\n', 1),
        ('{"trace": "odd.csv"}', 1),
        ('{"trace": "odd.csv"} and notes', 1),
        ("[" * 100_000 + "\n", 1),
        ("ROW\nmy notes", 2),
        ("ROW\n\xff\n", 2),
        ('ROW\n{"trace": ["odd.csv"]}\n', 2),
        ('ROW\n{"trace": "cut\nROW\n', 2),
    ],
)
def test_a_file_with_more_than_rows_is_left_as_it_is(text: str, line: int, tmp_path: Path) -> None:
    (row,) = run_cells([Cell(Source("az-e"), "sata", 0.5, 0)], lambda source: device_trace(), ["always-fast"], 1000)
    out = tmp_path / "own.txt"
    before = text.replace("ROW", json.dumps(row)).encode("latin-1")
    out.write_bytes(before)
    with pytest.raises(ValueError, match=rf"own\.txt: line {line}: "):
        run_cells([], lambda source: device_trace(), [], 1000, out)
    assert out.read_bytes() == before


def test_only_a_cut_row_is_dropped(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    whole = '{"a":  1}\n{"a": 2}'
    for text, left, rows in (
        (whole, whole + "\n", 2),
        (whole + "\n", whole + "\n", 2),
        (whole[:-1], '{"a":  1}\n', 1),
        ("{", "", 0),
        ("", "", 0),
    ):
        out.write_text(text)
        assert len(Kept(out, {"a": int}).before) == rows
        assert out.read_text() == left


def test_traces_of_one_name_are_told_apart(tmp_path: Path) -> None:
    cells = []
    for number in (1, 2):
        path = tmp_path / f"o{number}" / "odd.parquet"
        path.parent.mkdir()
        write_trace(device_trace(number), path)
        cells.append(Cell(Source(path.name, path), None, None, 0))

    def load(source: Source) -> Trace:
        return Trace.read(source.path)

    out = tmp_path / "rows.jsonl"
    first, second = (run_cells([cell], load, ["always-fast"], 1000, out) for cell in cells)
    assert [row["trace"] for row in first + second] == ["odd.parquet"] * 2
    assert first[0]["base_rate"] != second[0]["base_rate"] and first[0][CONTENT] != second[0][CONTENT]
    assert second == run_cells(cells[1:], load, ["always-fast"], 1000)
    assert first + second == run_cells(cells, load, ["always-fast"], 1000, out) == kept_rows(out)
    assert len(by_cell(first + second)) == 2
    # A row of before digests may be of either.
    old = {key: value for key, value in second[0].items() if key != CONTENT}
    out.write_text(json.dumps(old) + "\n")
    assert run_cells(cells[:1], load, ["always-fast"], 1000, out) == first
    assert kept_rows(out) == [old, *first] and len(by_cell([old, *first])) == 1


def test_the_command_refuses_a_file_of_others(linnet, tmp_path: Path) -> None:
    write_trace(device_trace(4), tmp_path / "made.csv")
    own = tmp_path / "n.txt"
    own.write_text("my notes")
    done = linnet("study", "accuracy", "-t", tmp_path / "made.csv", "--model", "always-fast", "--out", own)
    assert done.returncode == 1 and "n.txt: line 1" in done.stderr and "Traceback" not in done.stderr
    assert own.read_text() == "my notes"


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


def same_page_trace(reads: int = 3_000) -> Trace:
    """Reads that take long where another one on the same page is in flight; nothing else tells."""
    chance = np.random.default_rng(3)
    arrive = np.cumsum(chance.exponential(20_000, reads)).astype(np.uint64)
    page = chance.integers(0, 8, reads)
    latency = np.empty(reads, np.uint64)
    until = np.zeros(8, np.uint64)
    for k in range(reads):
        latency[k] = 900_000 if until[page[k]] > arrive[k] and chance.random() < 0.5 else 90_000
        until[page[k]] = max(until[page[k]], arrive[k] + 90_000)
    zeros = np.zeros(reads, np.uint32)
    columns = {"arrive_ns": arrive, "op": zeros.astype(np.uint8), "offset_bytes": page.astype(np.uint64) * 4096}
    return Trace.from_columns("pages", **columns, size_bytes=zeros + 4096, device=zeros, latency_ns=latency)


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees for small traces: the choice among all strengths takes a minute."""
    monkeypatch.setattr(ceiling, "ROUNDS", 40)
    monkeypatch.setattr(ceiling, "STRENGTHS", STRENGTHS[-2:])


def test_the_ceiling_sees_what_linnet_does_not(few_rounds: None) -> None:
    trace = same_page_trace()
    linnet, second, wide = accuracy(trace, ["linnet", "linnet-2", "ceiling"], seed=1)
    assert wide["roc_auc"] > linnet["roc_auc"] + 0.05, "linnet-1 has no feature of the pages in flight"
    assert second["roc_auc"] > linnet["roc_auc"] + 0.05, "linnet-2 has"
    assert wide["rows"] == second["rows"] == linnet["rows"]


def test_the_ceilings_rows_are_those_of_the_study() -> None:
    first, second = device_trace(1), device_trace(2)
    for test in (None, second):
        study = Study(first, test)
        train, later = parts_of(study, first, test)
        assert (len(train), len(later)) == (len(study.train()[1]), len(study.test()[1])) and train.shape[1] >= 150
        # LinnOS's last digits are the latency of the last read in us; the ceiling's row has it in ns.
        for rows, part in ((train, study.train()), (later, study.test())):
            microseconds = numbers(part[0]["linnos"])[:, -1]
            agree = [np.array_equal(np.minimum(rows[:, k] // 1000, 9999), microseconds) for k in range(rows.shape[1])]
            assert sum(agree) == 1


def test_the_ceiling_chooses_on_the_latest_training_rows(few_rounds: None) -> None:
    chance = np.random.default_rng(5)
    slow = chance.random(2_000) < 0.3
    early = np.arange(2_000) < 1_000
    # The first column tells only early on, the second always.
    rows = np.stack([np.where(early, slow, chance.random(2_000)), slow + chance.normal(0, 0.8, 2_000)], 1)
    with threadpool_limits(limits=1):
        of, rounds = chosen(rows.astype(np.float32), slow, 0)
        assert of in STRENGTHS and rounds % STEP == 0
        told = boosted(of, rounds, 0).fit(rows, slow).predict_proba(rows[1_500:])[:, 1]
    assert roc_auc_score(slow[1_500:], told) > 0.7
    assert ceiling.drift_of(rows.astype(np.float32)).argmax() == 0, "the first column drifts"


def test_the_ceiling_has_no_defects(linnet, tmp_path: Path) -> None:
    write_trace(device_trace(1), tmp_path / "a.csv")
    arguments = ("-t", tmp_path / "a.csv", "--model", "ceiling", "--defect", "hard-auc")
    result = linnet("study", "accuracy", *arguments)
    assert result.returncode != 0 and "ceiling" in result.stderr and "Traceback" not in result.stderr
