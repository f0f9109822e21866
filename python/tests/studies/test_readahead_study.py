# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet study tune`, and KML's features and tuner as re-implemented, without a device."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from linnet._native import KnobModel, TuneError
from linnet.studies.kml import events, features
from linnet.studies.kml.tuner import CLASSES, VALUES_KIB, Tuner, adopt
from linnet.studies.readahead.accuracy import importance, scores
from linnet.studies.readahead.search import merit, search, search_with_ray, trials
from linnet.studies.readahead.training import load

WORKLOADS = ("readrandom", "readseq", "readreverse")


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """Three workloads in two ways, five runs each. Our feature 2 and KML's feature 3 tell them apart."""
    chance = np.random.default_rng(1)
    patterns = [f"{workload} {how}" for workload in WORKLOADS for how in ("mmap", "pread")]
    run_pattern = np.asarray([pattern for _ in range(5) for pattern in patterns])
    run = np.repeat(np.arange(len(run_pattern)), 8)
    kind = np.asarray([WORKLOADS.index(run_pattern[one].split(" ")[0]) for one in run])

    def noise(inputs: int, telling: int) -> np.ndarray:
        rows = chance.normal(size=(len(run), inputs))
        rows[:, telling] = 3 * kind + 0.3 * rows[:, telling]
        return rows.astype(np.float32)

    label = np.asarray([8, 128, 512])[kind].astype(np.uint32)
    share = {
        p: {kib: 1.0 if kib == best else 0.25 for kib in (8, 128, 512)}
        for p, best in zip(run_pattern[run], label, strict=True)
    }
    path = tmp_path / "training.npz"
    np.savez(
        path, rows=noise(8, 2), label_kib=label, rule_kib=label, pattern=run_pattern[run], run=run,
        share=json.dumps(share, default=int), kml_rows=noise(5, 3), kml_run=run, run_pattern=run_pattern,
    )  # fmt: skip
    return path


def test_both_sets_are_read_with_the_same_labels(training: Path) -> None:
    ours, theirs = load(training)
    assert (ours.name, len(ours.features), theirs.name, len(theirs.features)) == ("linnet", 8, "kml", 5)
    assert (ours.data.label_kib == theirs.data.label_kib).all() and set(ours.workload) == set(WORKLOADS)


def test_scores_tell_held_out_runs_from_unseen_workloads(training: Path) -> None:
    for recorded in load(training):
        for row in scores(recorded, 0, epochs=60):
            assert row["workload_by_rows"] > 0.9 and row["workload_by_runs"] > 0.9, row
            assert row["value_by_runs"]["share_of_best"] > 0.9, row
            # A value that no other workload has cannot be named for an unseen one.
            assert row["value_by_workloads"] == {"accuracy": 0.0, "share_of_best": 0.25, "worst_pattern": 0.25}, row


def test_importance_names_the_feature_that_tells(training: Path) -> None:
    ours, theirs = load(training)
    for recorded, telling in ((ours, ours.features[2]), (theirs, "mean_distance")):
        rows = importance(recorded, "network", 0)
        assert rows[0]["feature"] == telling and rows[0]["drop"] > 0.3
        assert all(row["drop"] < 0.1 for row in rows[1:]), rows


def test_a_search_is_repeatable_and_begins_with_the_product_s_settings(training: Path) -> None:
    assert trials(6, 3) == trials(6, 3) != trials(6, 4)
    assert trials(1, 9) == trials(1, 3)
    data = load(training)[0].data
    seen: list[int] = []
    found = search(data, 3, 3, seen.append)
    assert found == search(data, 3, 3, lambda _: None) and seen == [1, 2, 3]
    assert [one["share_of_best"] for one in found] == sorted((one["share_of_best"] for one in found), reverse=True)


def test_settings_at_which_training_diverges_are_last(training: Path) -> None:
    wild = trials(1, 0)[0] | {"activation": "relu", "learning_rate": 1e30}
    assert merit(load(training)[0].data, wild, 0) == {"accuracy": 0.0, "share_of_best": 0.0, "worst_pattern": 0.0}


@pytest.mark.skipif(find_spec("ray") is None, reason="needs linnet[ray]")
def test_ray_finds_the_same(training: Path) -> None:
    data = load(training)[0].data
    assert search_with_ray(data, 3, 3, 2) == search(data, 3, 3, lambda _: None)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    code = f"import sys\nsys.argv = {['linnet', *map(str, words)]!r}\nfrom linnet.cli import main\nmain()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_command_prints_tables_and_json(training: Path) -> None:
    shown = run("study", "tune", training)
    assert shown.returncode == 0 and "accuracy lost when a feature is permuted" in shown.stdout, shown.stderr
    result = json.loads(run("study", "tune", training, "--search", 2, "--json").stdout)
    assert (
        len(result["scores"]) == 4
        and len(result["importance"]) == 13
        and [len(result["search"][one]) for one in ("linnet", "kml")] == [2, 2]
    )


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("no archive")
    np.savez(tmp_path / "b.npz", rows=np.zeros(3))
    for name, what in (("a.npz", "a.npz: not an archive of arrays"), ("b.npz", "no array 'label_kib'")):
        with pytest.raises(TuneError, match=what):
            load(tmp_path / name)
        done = run("study", "tune", tmp_path / name)
        assert done.returncode == 1 and "Traceback" not in done.stderr and "training.npz" in done.stderr


LINES = (
    b"mm_filemap_add_to_page_cache: dev 7:0 ino c pfn=0x10 ofs=40960 order=2\n"
    b"mm_filemap_fault: dev=7:0 ino=c ofs=8192\n"
    b"writeback_dirty_folio: bdi 7:0: ino=12 index=7\n"
    b"mm_filemap_add_to_page_cache: dev 7:0 ino c pfn=0x10 ofs=0 order=0\n"
)


def test_events_become_page_indices_and_folios_several() -> None:
    assert events.parse(LINES).tolist() == [10, 11, 12, 13, 2, 7, 0]
    assert events.parse(b"").tolist() == []


def test_kml_features_are_those_of_its_code() -> None:
    row = features.features(np.asarray([1, 5, 3, 1_000_001, 7]), 128)
    assert row is not None
    # 1, 5, 3, 7: mean 4, squares 20, range 6; distances 4, 2, 4 over four events; 256 sectors.
    assert row.tolist() == pytest.approx([4, 20 / 4 / 6, 20 / 3 / 6, 10 / 4, 0.25])
    one = features.features(np.asarray([3]), 8)
    assert one is not None and one.tolist() == pytest.approx([1, 0, 0, 0, 16 / 1024])
    assert features.features(np.asarray([2_000_000]), 8) is None


def test_kml_s_tuner_sets_the_value_of_the_class_that_it_names(tmp_path: Path) -> None:
    windows = [np.arange(0, 3000) * (37 if scattered else 1) % 5003 for scattered in (True, False) for _ in range(20)]
    rows = np.asarray([features.features(w, 128) for w in windows], dtype=np.float32)
    classes = [CLASSES.index("readrandom")] * 20 + [CLASSES.index("readreverse")] * 20
    model = KnobModel.fit(rows, classes, list(VALUES_KIB), parts="network")
    knob, procs = tmp_path / "read_ahead_kb", tmp_path / "procs"
    knob.write_text("128")
    procs.write_text("")
    tuner = Tuner(model, None, knob, procs, tmp_path)  # type: ignore[arg-type]
    for window, kib in ((windows[0], 8), (windows[0][:0], 8), (windows[30], 480)):
        tuner.step(window, 1.0)
        assert knob.read_text() == str(kib)
    assert [kib for _, kib in tuner.changes] == [8, 480]


def test_files_below_the_root_are_adopted_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    with (tmp_path / "db/table").open("w"), (tmp_path / "other").open("w"):
        assert adopt([os.getpid(), 2**22 + 1], tmp_path / "db") == 1


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a module of bench/macro."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "bench/macro"))
    return importlib.import_module


def grid_runs(rates: dict[str, list[float]]) -> list[dict[str, str]]:
    """Lines of runs.csv of one cell."""
    cell = {"device": "nvme", "how": "mmap", "workload": "readrandom"}
    columns = ("ops", "settled", "allowed_settled")
    return [
        {**cell, "setting": setting, **dict.fromkeys(columns, str(rate))}
        for setting, of in rates.items()
        for rate in of
    ]


def test_each_figure_of_the_grid_has_the_spread_of_its_own_runs(bench: Callable[[str], ModuleType]) -> None:
    rates = {"default 128": [100.0, 100.0], "static 8": [1000.0] * 3, "static 32": [500.0] * 3, "kml": [900.0]}
    text = bench("readahead_table").table(grid_runs(rates | {"rule": [700.0, 900.0, 1000.0]}))
    rows = [line for line in text.splitlines() if line.startswith("| nvme")]
    assert rows[0] == (
        "| nvme | mmap | readrandom | 1 | 100 ±0 % | 8: 1,000 ±0 % | 0.90, 9.00 | 0.90, 9.00 ±17 % | not run |"
    )


def test_rocksdb_as_shipped_is_run_when_asked_for_and_is_no_static_value(
    bench: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    grid, table = bench("readahead_grid"), bench("readahead_table").table
    assert not grid.Wanted([], [], []).has("mmap", "readseq", "as shipped")
    assert grid.Wanted([], [], []).has("mmap", "readseq", "rule")
    assert grid.Wanted([], [], ["as shipped"]).has("mmap", "readseq", "as shipped")
    database = bench("rocksdb").Database(1000)
    bed = SimpleNamespace(root=tmp_path)
    assert "--advise_random_on_open=0" in database.words(bed, "db", "readseq")
    database.advises = True
    assert "--advise_random_on_open=1" in database.words(bed, "db", "readseq")
    rates = {"default 128": [100.0], "static 8": [1000.0], "rule": [900.0]}
    assert "as shipped" not in table(grid_runs(rates))
    text = table(grid_runs(rates | {"as shipped": [2000.0]}))
    assert "| 8: 1,000 | not run | 0.90, 9.00 | not run | 2.00, 20.00 |" in text
    assert "| as shipped | 1 | 2.00, 2.00 | 1 | 20.00 | 1 |" in text


@pytest.mark.parametrize("name", ["readahead_grid", "readahead_phases"])
def test_the_grid_says_what_it_lacks(name: str, tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[3] / "bench/macro" / f"{name}.py"
    words = [sys.executable, str(script), str(tmp_path / "grid")]
    # Nothing is in the path.
    done = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (77, "skipped: needs db_bench (Debian: apt install rocksdb-tools)\n")
