# SPDX-License-Identifier: MIT OR Apache-2.0
"""Co-location runs on modelled drives, as training data."""

import csv
import itertools
import json
import math
import os
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from linnet import TenantError, Trace
from linnet._native import SharedDrive, TenantLoad, shared_drives
from linnet.cli import app
from linnet.place import label
from linnet.place.cache import LINE_MAX, Cache
from linnet.place.label import COLUMNS, Labeller, Plan
from linnet.place.samples import beginning, samples
from linnet.place.words import FEATURES, METRICS
from place_made import label_words
from typer.testing import CliRunner

SMALL = label_words(runs=6, workloads=8)


def _label(out: Path, *more: str) -> dict[str, object]:
    result = CliRunner().invoke(
        app, ["place", "label", "-o", str(out), *SMALL, "--json", *more], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_rows_have_profiles_neighbours_and_what_was_seen(tmp_path):
    told = _label(tmp_path / "t.csv")
    rows = _rows(tmp_path / "t.csv")
    assert told["rows"] == len(rows) and tuple(rows[0]) == COLUMNS
    assert {row["run"] for row in rows} == {str(n) for n in range(6)}
    idle = 0
    for run in {row["run"] for row in rows}:
        own = [row for row in rows if row["run"] == run]
        assert 2 <= len(own) <= 4 and {row["tenants"] for row in own} == {str(len(own))}
        for row in own:
            others = sum(float(other["tenant_depth"]) for other in own) - float(row["tenant_depth"])
            assert float(row["others_depth"]) == pytest.approx(others)
            if all(math.isnan(float(row[metric])) for metric in METRICS):
                idle += 1
                continue
            for metric in METRICS:
                op = metric.split("_")[0]
                quiet = (
                    float(row[f"tenant_{op}_aligned_rate_mean"]) + float(row[f"tenant_{op}_unaligned_rate_mean"]) == 0
                )
                none = math.isnan if "latency" in metric else (0.0).__eq__
                assert not quiet or none(float(row[metric])), metric
            assert float(row["warm_s"]) == 0.02 and row["steady"] == "0", "a warm-up of a given length"
    assert idle == told["idle"] > 0, "a tenth of a second is shorter than a pause"
    assert len(FEATURES) * 2 + len(METRICS) * 2 + 7 == len(COLUMNS)


def test_runs_are_taken_from_the_cache_and_do_not_depend_on_threads(tmp_path):
    first = _label(tmp_path / "a.csv", "--threads", "2")
    assert first["from_cache"] == 0
    again = _label(tmp_path / "a.csv", "--cache", str(tmp_path / "a.csv.runs"))
    assert again["from_cache"] == 14
    other = _label(tmp_path / "b.csv", "--threads", "1")
    assert other["from_cache"] == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    # A cut line costs one run, and another seed shares nothing.
    cache = tmp_path / "a.csv.runs"
    cache.write_bytes(cache.read_bytes()[:-20])
    assert _label(tmp_path / "a.csv")["from_cache"] == 13
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert _label(tmp_path / "a.csv")["from_cache"] == 14
    assert _label(tmp_path / "a.csv", "--seed", "1")["from_cache"] == 0


def test_a_longer_plan_begins_with_the_runs_of_a_shorter_one(tmp_path):
    _label(tmp_path / "a.csv")
    told = _label(tmp_path / "a.csv", "--runs", "8")
    assert told["from_cache"] == 14


def test_parquet_holds_the_same(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    _label(tmp_path / "a.csv")
    _label(tmp_path / "a.parquet", "--cache", str(tmp_path / "a.csv.runs"))
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [str(row["read_latency_p99_us"]) for row in table] == [
        row["read_latency_p99_us"] for row in _rows(tmp_path / "a.csv")
    ]


def test_a_table_is_written_in_groups(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    _label(tmp_path / "a.csv")
    monkeypatch.setattr(label, "GROUP_ROWS", 5)
    _label(tmp_path / "a.parquet", "--cache", str(tmp_path / "a.csv.runs"))
    table = parquet.ParquetFile(tmp_path / "a.parquet")
    count = len(_rows(tmp_path / "a.csv"))
    assert table.metadata.num_row_groups == -(-count // 5) > 1 and table.metadata.num_rows == count


def test_runs_that_do_not_fit_in_memory_are_refused_with_the_limit(monkeypatch):
    labeller = Labeller(Plan("sata", 6, (2, 4), 8, seconds=0.1, warm_s=0.02), threads=2)
    monkeypatch.setattr(label._native, "record_room", lambda: (100, "the memory that is available"))
    with pytest.raises(
        TenantError, match=r"2 runs at a time of up to 4 tenants .* 100 fit the memory that is available"
    ):
        labeller.library(lambda *_: None)


def test_a_crash_of_a_run_is_told_and_loses_no_other(tmp_path, monkeypatch):
    labeller = Labeller(Plan("sata", 6, (2, 4), 8, seconds=0.1, warm_s=0.02), tmp_path / "c", threads=2)
    library = labeller.library(lambda *_: None)
    own, count = label._together, iter(range(100))

    def fail(*arguments: object) -> object:
        if next(count) == 3:
            raise MemoryError("made by the test")
        return own(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(label, "_together", fail)
    with pytest.raises(MemoryError):
        labeller.runs(library, lambda *_: None)
    monkeypatch.undo()
    before = labeller.cache.hits
    assert len(labeller.runs(library, lambda *_: None)) == 6
    assert labeller.cache.hits - before >= 3
    labeller.cache.close()


def test_a_tenant_that_did_nothing_while_it_was_measured_is_named() -> None:
    drive = SharedDrive("sata")
    load = TenantLoad(1000.0, [4096], depth=4)
    busy, early = load.trace(0.3, drive.space_bytes, 1), load.trace(0.1, drive.space_bytes, 2)
    words = r"tenant 1 has no I/O outstanding from 0.2 to 0.3 s.*its 100 I/Os arrive from 0\.000\d+ to 0\.09"
    with pytest.raises(TenantError, match=words):
        drive.run([(busy, 4), (early, 4)], 0.2, 0.3)
    with pytest.raises(TenantError, match="tenant 0 has no I/O outstanding"):
        drive.run_explained([(early, 4)], 0.2, 0.3)
    (seen,) = drive.run([(early, 4)], 0.05, 0.3)
    assert seen[0] > 0 and np.isnan(seen[6:10]).all(), "it reads and does not write"


def test_rows_of_idle_tenants_have_no_metrics_and_are_counted(tmp_path: Path) -> None:
    drive = SharedDrive("sata")
    busy, rare = TenantLoad(1000.0, [4096], depth=4), TenantLoad(0.01, [4096])
    (seen, none), warmed = drive.run_loads([(busy, 1), (rare, 2)], 0.1, 0.02)
    assert seen[0] > 0 and np.isnan(none).all() and warmed["seconds"] == 0.02
    run = label.Run((0, 1), (1, 2), (tuple(seen[:-1]), tuple(none[:-1])), 1.0, True)
    assert label.summary([run]) == {"warm_s_median": 1.0, "warm_s_max": 1.0, "unsteady": 0, "idle": 1}


def test_a_warm_up_follows_the_drive(tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    options = [word for word in SMALL if word not in ("--warm-seconds", "0.02")]
    done = CliRunner().invoke(app, ["place", "label", "-o", str(out), *options, "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert 1 <= told["warm_s_median"] <= told["warm_s_max"] <= 5, told
    rows = _rows(out)
    assert len({row["run"] for row in rows if row["steady"] == "0"}) == told["unsteady"] < 6
    assert max(float(row["warm_s"]) for row in rows) == told["warm_s_max"]


class NoWork:
    """Runs that see what their first seed says."""

    def map(self, work, shared, pieces):
        for index, (members, seeds) in enumerate(pieces):
            seen = [[float(seeds[0])] * len(METRICS) for _ in members]
            yield index, {"seen": seen, "warm_s": 1.0, "steady": True}


@pytest.mark.slow
def test_memory_holds_the_place_of_each_run_and_not_what_it_saw(tmp_path):
    def held(runs: int) -> tuple[int, int]:
        labeller = Labeller(Plan("sata", runs, (16, 16), 20), tmp_path / f"{runs}.runs", workers=NoWork())
        library = [label.Member(load, np.zeros(len(FEATURES)), (0.0,) * 9) for load in labeller._drives.loads]
        tracemalloc.start()
        try:
            found = labeller.runs(library, lambda *_: None)
            assert all(run.seen[15][0] == run.seeds[0] for run in found)
            with (tmp_path / "t.csv").open("wb") as file:
                label.write_table(file, "sata", library, itertools.islice(found, 10))
            return len(found), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            labeller.cache.close()

    (few, less), (many, more) = held(100), held(500)
    line = (tmp_path / "500.runs").stat().st_size / 500
    assert (more - less) / (many - few) < 800 < line / 3, (less, more, line)


class Dawdling:
    """A file whose owner takes its time after it was told where the end is."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def tell(self):
        place = self._file.tell()
        time.sleep(0.001)
        return place


def test_two_processes_keep_their_results_in_one_cache(tmp_path):
    """Each finds its own, and a third one those of both; lines are longer than a file's buffer."""
    path, kept = tmp_path / "runs", [[f"{who}{number:031x}" for number in range(200)] for who in "ab"]
    children = []
    for keys in kept:
        if not (child := os.fork()):
            status = 1
            try:
                cache = Cache(path)
                cache._file = Dawdling(cache._file)
                for key in keys:
                    cache.put(key, [key, "x" * 9000])
                assert [cache.get(key)[0] for key in keys] == keys
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    cache = Cache(path)
    assert all(cache.get(key)[0] == key for keys in kept for key in keys)
    cache.close()


def test_a_cache_that_somebody_cut_is_named(tmp_path):
    path, key = tmp_path / "runs", "0" * 32
    cache = Cache(path)
    cache.put(key, [1])
    for content in (b"", b'{"key": "' + b"1" * 32 + b'", "value": 2}\n', b"[1]\n"):
        path.write_bytes(content)
        with pytest.raises(OSError, match="changed by something else") as failed:
            cache.get(key)
        assert failed.value.filename == str(path)
    path.write_bytes(b'{"key": "cut')
    cache.put(key, [2])
    assert cache.get(key) == [2] and Cache(path).get(key) == [2]
    cache.close()


@pytest.mark.parametrize("content", [b"t_ns,op,lba_512\n1,R,8\n", b"x", b'{"key": "a", "other": 1}\n', b"PAR1" * 9])
def test_results_are_not_appended_to_what_holds_none(tmp_path, content):
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(OSError, match="something else") as failed:
        Cache(path)
    assert failed.value.filename == str(path) and path.read_bytes() == content


def test_a_cache_without_a_path_and_one_that_is_damaged(tmp_path):
    keys = [label.key_of(n) for n in range(3)]
    unnamed = Cache(None)
    unnamed.put(keys[0], [1.5])
    assert unnamed.has(keys[0]) and not unnamed.has(keys[1]) and unnamed.get(keys[0]) == [1.5] and unnamed.hits == 1
    unnamed.close()
    path = tmp_path / "c"
    good = json.dumps({"key": keys[1], "value": [2.5]})
    path.write_text('{"key": 3, "value": 1}\n[]\n{"key": "zz", "value": 1}\n' + "x" * (LINE_MAX + 9) + f"\n{good}")
    cache = Cache(path)
    cache.put(keys[2], [3.5])
    assert [cache.get(key) for key in keys[1:]] == [[2.5], [3.5]] and not cache.has(keys[0])
    cache.close()
    again = Cache(path)
    assert [again.get(key) for key in keys[1:]] == [[2.5], [3.5]]
    again.close()


def _trace(path: Path, ios: int, seconds: float, size: int) -> str:
    """A trace of reads at equal intervals."""
    order = np.arange(ios, dtype=np.uint64)
    Trace.from_columns(
        path.name,
        arrive_ns=order * np.uint64(seconds * 1e9 / ios),
        op=np.zeros(ios, np.uint8),
        offset_bytes=order * np.uint64(size),
        size_bytes=np.full(ios, size, np.uint32),
        device=np.zeros(ios, np.uint32),
        latency_ns=np.full(ios, 2**64 - 1, np.uint64),
    ).write(path)
    return str(path)


def test_workloads_are_samples_of_traces(tmp_path: Path) -> None:
    traces = (_trace(tmp_path / "long.parquet", 4000, 40, 4096), _trace(tmp_path / "short.parquet", 100, 1, 8192))
    found = samples(traces, 5, 0)
    assert [sample.source for sample in found] == ["long.parquet", "short.parquet", *["long.parquet"] * 3]
    first = {int(sample.ios.columns()["offset_bytes"][0]) for sample in found}
    assert len(first & {i * 1000 * 4096 for i in range(4)}) == 4, "ten seconds each, and no part twice"
    assert [len(sample.ios) for sample in found] == [1000, 100, 1000, 1000, 1000]
    with pytest.raises(TenantError, match="have 5 samples of 10 s with 50 I/Os or more, and 6 workloads"):
        samples(traces, 6, 0)

    # What a run sees is what the profile is of.
    assert len(beginning(found[0].ios, 300 * 4096)) == 300
    assert len(beginning(found[0].ios, 1)) == 51 and beginning(found[0].ios, 1e9) is found[0].ios

    labeller = Labeller(Plan("sata", 2, (2, 2), 5, seconds=0.2, warm_s=0.02, traces=traces), threads=1)
    library = labeller.library(lambda *_: None)
    assert [member.source for member in library] == [sample.source for sample in found]
    for member in library:
        share = member.features[FEATURES.index("read_aligned_bandwidth_mean")] / label.PEAKS["sata"]
        assert 0.005 * 0.9 < share < 0.2 * 1.1, "at the drawn bandwidth"
        assert member.features[FEATURES.index("read_random_ratio")] < 0.02, "in the order of the trace"
    seen = [row for run in labeller.runs(library, lambda *_: None) for row in run.seen]
    assert all(row[METRICS.index("read_bandwidth_mean")] > 0 for row in seen)
    assert "digest" in repr(library[0].load) and repr(library[0].load) != repr(library[2].load)


def test_a_trace_that_is_no_workload_is_refused(tmp_path: Path) -> None:
    at_once = _trace(tmp_path / "at-once.parquet", 100, 0, 4096)
    with pytest.raises(TenantError, match=r"at-once\.parquet.*at different times"):
        Labeller(Plan("sata", 1, (1, 1), 1, traces=(at_once,)))
    words = ["place", "label", "-o", str(tmp_path / "t.csv"), *SMALL, "--trace", str(tmp_path / "none.csv")]
    assert "none.csv" in str(CliRunner().invoke(app, words).exception)


def test_a_drive_is_slower_beside_a_writer():
    drive = SharedDrive("sata")
    reader = TenantLoad(4000, [4096], depth=16)
    writer = TenantLoad(60_000, [16_384], reads=0.0, depth=64)
    traces = [load.trace(0.3, drive.space_bytes, 1) for load in (reader, writer)]
    ((*alone, depth),) = drive.run([(traces[0], 16)], 0.1, 0.3)
    (*beside, _), _ = drive.run([(traces[0], 16), (traces[1], 64)], 0.1, 0.3)
    p99 = METRICS.index("read_latency_p99_us")
    assert beside[p99] > 2 * alone[p99] > 0 and 0 < depth < 16
    # A run leaves the drive as it was.
    np.testing.assert_array_equal(drive.run([(traces[0], 16)], 0.1, 0.3), [[*alone, depth]])
    assert shared_drives() == ["nvme", "sata"]


def test_bad_plans_and_loads_are_refused(tmp_path):
    for plan, problem in [
        (Plan(tenants=(0, 4)), "tenants 0-4"),
        (Plan(tenants=(2, 17)), "tenants 2-17"),
        (Plan(workloads=5), "5 workloads"),
        (Plan(drive="sata", share=(0.0, 0.1)), "share"),
        (Plan(drive="970-evo"), "peak bandwidth"),
        (Plan(drive="970-evo", peak=0.0), "peak 0"),
        (Plan(peak=float("nan")), "peak nan"),
        (Plan(seconds=0.0), "0.0 s"),
    ]:
        with pytest.raises(TenantError, match=problem):
            Labeller(plan)
    for bad in ({"rate": 0.0}, {"sizes": []}, {"depth": 0}, {"reads": 1.5}, {"rate": float("nan")}, {"active": 0.0}):
        with pytest.raises(ValueError, match=r"\d|sizes"):
            TenantLoad(**{"rate": 10.0, "sizes": [4096], **bad})
    result = CliRunner().invoke(app, ["place", "label", "-o", str(tmp_path / "x.txt")])
    assert result.exit_code == 2 and ".csv or .parquet" in result.output
    result = CliRunner().invoke(app, ["place", "label", "-o", str(tmp_path / "x.csv"), "--tenants", "few"])
    assert result.exit_code == 2
