# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles of workloads: from traces, job files and the store."""

import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED
from linnet import TenantError, TenantProfile, Trace, TraceError
from linnet._native import aggregate_profiles, profile_features, profile_trace, same_workload, trace_formats
from linnet.cli import app
from linnet.place.moments import row as row_of
from linnet.place.profiles import aggregate, from_file, with_phases, workload_name
from linnet.place.service import schema
from linnet.place.store import ProfileStore
from linnet.place.words import FEATURES, Profile
from typer.testing import CliRunner


def _trace(path: Path, seconds: float = 12.0, rate: float = 500.0, seed: int = 1, reads: float = 0.7) -> Path:
    chance = np.random.default_rng(seed)
    count = int(seconds * rate)
    columns = {
        "arrive_ns": np.sort(chance.integers(0, int(seconds * 1e9), count).astype(np.uint64)),
        "op": (chance.random(count) > reads).astype(np.uint8),
        "offset_bytes": (chance.integers(0, 2**24, count) * 4096).astype(np.uint64),
        "size_bytes": np.where(chance.random(count) < 0.5, 4096, 6144).astype(np.uint32),
        "device": (np.arange(count) % 2).astype(np.uint32),
        "latency_ns": np.full(count, 200_000, np.uint64),
    }
    Trace.from_columns("made", **columns).write(path)
    return path


def _run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["place", "profile", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_names_are_those_of_the_words():
    assert tuple(profile_features()) == FEATURES


def test_a_trace_file_has_the_features_of_its_columns(tmp_path):
    path = _trace(tmp_path / "web.parquet")
    (row,) = json.loads(_run(path, "--json"))
    assert tuple(row["features"]) == FEATURES
    assert (row["name"], row["ios"], row["depth_from"]) == ("web", 6000, "measured")
    features = row["features"]
    assert features["read_aligned_size_bytes_mean"] == 4096
    assert features["write_unaligned_size_bytes_mean"] == 6144
    rates = [
        features[f"{group}_rate_mean"]
        for group in ("read_aligned", "read_unaligned", "write_aligned", "write_unaligned")
    ]
    assert sum(rates) == pytest.approx(row["ios"] / row["duration_s"])
    # Little's law: every I/O takes 200 us.
    assert features["depth"] == pytest.approx(sum(rates) * 200e-6)
    assert features["read_random_ratio"] > 0.99
    widths = [one["window_ms"] for one in row["burstiness"]]
    assert widths[0] == 6.25 and 100.0 in widths
    # The engine gives the same from the records in memory.
    ((_, again),) = profile_trace(Trace.read(path))
    assert dict(zip(FEATURES, again.features.tolist(), strict=True)) == features


def test_devices_become_tenants_and_files_of_profiles_are_written(tmp_path):
    path = _trace(tmp_path / "vols.parquet")
    rows = json.loads(_run(path, "--tenant-from", "device", "--json"))
    assert [row["name"] for row in rows] == ["vols:0", "vols:1"]
    assert "vols-0.json" in _run(path, "--tenant-from", "device", "-o", tmp_path / "out")
    assert json.loads(_run(path, "--tenant-from", "device", "-o", tmp_path / "out", "--json")) == rows
    made = json.loads((tmp_path / "out/vols-1.json").read_text())
    assert Profile(made["name"], made["features"]).features["depth"] == rows[1]["features"]["depth"]
    whole = aggregate([Profile(str(n), row["features"]) for n, row in enumerate(rows)])
    (together,) = json.loads(_run(path, "--json"))
    assert whole.features["read_aligned_rate_mean"] == pytest.approx(together["features"]["read_aligned_rate_mean"])


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("web.csv", "web"),
        ("vols.parquet", "vols"),
        ("msr.cut.per_10k.rw_20_80.105.first6000.trace.zst", "msr.cut.per_10k.rw_20_80.105.first6000"),
        ("sample.blkparse.txt.zst", "sample"),
        ("sample.blktrace.0.zst", "sample"),
        ("a.b", "a.b"),
        ("web.log.7", "web.log.7"),
        ("flows.linnet-ftrace.gz", "flows"),
        ("WEB.CSV.GZ", "WEB"),
        (".csv", ".csv"),
    ],
)
def test_a_workload_is_named_by_its_file(file: str, name: str) -> None:
    assert workload_name(Path(file)) == name


def test_the_name_of_any_format_is_an_ending():
    for format, _ in trace_formats():
        for ending in (format, f"{format.upper()}.zst", f"{format}.txt"):
            assert workload_name(Path(f"web.2.{ending}")) == "web.2", ending


def test_another_profile_is_not_written_over(tmp_path):
    first = _trace(tmp_path / "msr.a.parquet", seconds=2)
    second = _trace(tmp_path / "msr.b.parquet", seconds=2, seed=2)
    out = tmp_path / "out"
    for path in (first, second, first):
        _run(path, "-o", out)
    assert sorted(path.name for path in out.iterdir()) == ["msr.a.json", "msr.b.json"]
    before = {path: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "other").mkdir()
    words = [first, _trace(tmp_path / "other/msr.b.parquet", seconds=2, seed=3), "--store", tmp_path / "p.db"]
    done = CliRunner().invoke(app, ["place", "profile", *map(str, words), "-o", str(out)], terminal_width=300)
    assert done.exit_code == 2 and "is there and differs" in done.output and "remove the file" in done.output
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert not (tmp_path / "p.db").exists()


def test_the_service_takes_what_is_written(tmp_path):
    jobs = tmp_path / "jobs.fio"
    jobs.write_text("[db]\nbs=4k\nrw=randread\nrate_iops=1000\niodepth=8\n[log]\nrw=write\nrate=8m\n")
    _run(jobs, _trace(tmp_path / "web.parquet", seconds=2), "-o", tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == 3
    for path in files:
        schema.Features.model_validate(json.loads(path.read_text())["features"])


def test_job_files_declare_loads(tmp_path):
    path = tmp_path / "jobs.fio"
    path.write_text("[global]\nbs=4k\n[db]\nrw=randread\nrate_iops=1000\niodepth=8\n[log]\nrw=write\nrate=8m\n")
    rows = json.loads(_run(path, "--json"))
    assert [(row["name"], row["depth_from"]) for row in rows] == [("db", "declared"), ("log", "declared")]
    assert rows[0]["features"]["read_aligned_rate_mean"] == 1000
    assert rows[1]["features"]["write_aligned_rate_mean"] == 2048
    path.write_text("[db]\nrw=randread\n")
    with pytest.raises(TenantError, match=r"jobs.fio, \[db\] rate_iops"):
        from_file(path)
    path.write_bytes(b"\xff\xfe[db]")
    with pytest.raises(TraceError, match="not a fio job file"):
        from_file(path)


def test_phases_are_profiled_apart(tmp_path):
    first = Trace.read(_trace(tmp_path / "a.parquet", 15, 900, reads=1.0)).columns()
    second = Trace.read(_trace(tmp_path / "b.parquet", 15, 900, seed=2, reads=0.0)).columns()
    second["arrive_ns"] += np.uint64(15_000_000_000)
    columns = {name: np.concatenate([first[name], second[name]]) for name in first}
    columns["tenant"][:] = 0
    Trace.from_columns("both", **columns).write(tmp_path / "both.parquet")
    (one,) = with_phases(tmp_path / "both.parquet")
    assert [phase.number for phase in one.phases] == [0, 1]
    reads = [phase.profile.features[FEATURES.index("read_aligned_rate_mean")] for phase in one.phases]
    assert reads[0] == pytest.approx(450, rel=0.1) and reads[1] < 15
    assert one.phases[1].intervals[0][0] == pytest.approx(15, abs=0.3)
    assert "phase 1" in _run(tmp_path / "both.parquet", "--phases")


def test_the_store_keeps_history_and_recognises_a_workload(tmp_path):
    path = tmp_path / "profiles.db"
    _run(_trace(tmp_path / "web.parquet"), _trace(tmp_path / "bulk.parquet", rate=4000, reads=0.1), "--store", path)
    # Another sample of the same workload, under another name.
    assert "known as web" in _run(_trace(tmp_path / "unknown.parquet", seed=9), "--store", path)
    with ProfileStore(path) as store:
        assert [stored.name for stored in store.latest()] == ["bulk", "unknown", "web"]
        (again,), _ = from_file(_trace(tmp_path / "web.parquet", rate=2000, seed=3))
        moved = store.drift("web", again.profile)
        assert moved is not None and not moved.same and moved.distance == pytest.approx(2, abs=0.3)
        number = store.put(again, datetime(2030, 1, 2, tzinfo=UTC))
        latest = store.get("web")
        assert latest is not None and (latest.id, latest.recorded_at) == (number, "2030-01-02T00:00:00+00:00")
        assert latest.profile.features.tobytes() == again.profile.features.tobytes()
        assert (latest.profile.ios, latest.profile.depth_from) == (again.profile.ios, "measured")
        assert len(store.history("web")) == 2
        assert store.drift("nobody", again.profile) is None
        assert store.remove("web") == 2 and store.get("web") is None


def test_what_is_no_store_is_refused(tmp_path):
    text, other, newer = tmp_path / "text.db", tmp_path / "other.db", tmp_path / "newer.db"
    text.write_text("not a database, but a text that is long enough to be taken for a header" * 20)
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE songs (name TEXT)")
    ProfileStore(newer).close()
    with sqlite3.connect(newer) as file:
        file.execute("UPDATE meta SET value = '2'")
    for path, problem in [
        (text, "not a store"),
        (other, "something else"),
        (newer, "schema 2"),
        (tmp_path / "no/x.db", "cannot be opened"),
    ]:
        with pytest.raises(TenantError, match=problem):
            ProfileStore(path)
    with pytest.raises(TenantError, match="no such store"):
        ProfileStore(tmp_path / "absent.db", create=False)
    assert not (tmp_path / "absent.db").exists()


def test_damaged_rows_of_a_store_are_refused_or_read(tmp_path):
    path, fates = tmp_path / "p.db", {"read": 0, "refused": 0}
    _run(_trace(tmp_path / "web.parquet", seconds=1), "--store", path)
    file = sqlite3.connect(path, isolation_level=None)
    (whole,) = file.execute("SELECT * FROM profiles").fetchall()
    columns = [row[1] for row in file.execute("PRAGMA table_info(profiles)")]
    for column, before in zip(columns[1:], whole[1:], strict=True):
        for value in ("x", b"\x00\xff", "", "\x1b[31m", -1, 1e308, float("inf"), 2**62):
            file.execute(f"UPDATE profiles SET {column} = ?", (value,))
            try:
                with ProfileStore(path) as store:
                    (stored,) = store.latest()
                    store.nearest(stored.profile)
                fates["read"] += 1
            except TenantError as error:
                assert f"{path}: " in str(error)
                fates["refused"] += 1
        file.execute(f"UPDATE profiles SET {column} = ?", (before,))
    assert min(fates.values()) > 50, fates
    with pytest.raises(sqlite3.DataError, match="too big"), ProfileStore(path) as store:
        store._file.execute("SELECT zeroblob(2000000)").fetchall()
    file.close()


def test_a_new_store_is_opened_by_several_at_once(tmp_path):
    together = threading.Barrier(6)

    def make(path: Path) -> None:
        together.wait()
        ProfileStore(path).close()

    with ThreadPoolExecutor(6) as pool:
        for n in range(60):
            list(pool.map(make, [tmp_path / f"{n}.db"] * 6))


def test_two_writers_of_a_store_lose_nothing(tmp_path):
    (one,), _ = from_file(_trace(tmp_path / "web.parquet", seconds=1))

    def write(n: int) -> None:
        with ProfileStore(tmp_path / "p.db") as store:
            for _ in range(20):
                store.put(one)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with ProfileStore(tmp_path / "p.db") as store:
        assert len(store.history("web")) == 80


def test_aggregates_of_profiles_without_histories(tmp_path):
    (one,), _ = from_file(_trace(tmp_path / "web.parquet", seconds=2))
    alone = TenantProfile.from_features(one.profile.features.tolist())
    assert aggregate_profiles([one.profile]).features.tobytes() == one.profile.features.tobytes()
    with pytest.raises(TenantError, match="independent aggregate"):
        aggregate_profiles([one.profile, alone], "correlated")
    with pytest.raises(TenantError, match="not negative"):
        TenantProfile.from_features([-1.0] * 27)
    with pytest.raises(ValueError, match="27 are expected"):
        TenantProfile.from_features([1.0])
    assert not row_of(aggregate([])).any()
    assert one.profile.distance(one.profile) == 0 < same_workload()


def test_a_bad_trace_is_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("what is this\n1,2\n")
    with pytest.raises(TraceError, match=r"bad\.csv"):
        from_file(path)
    with pytest.raises(TraceError, match="absent"):
        from_file(tmp_path / "absent.csv")


def test_a_short_sample_is_warned_about(tmp_path):
    result = CliRunner().invoke(app, ["place", "profile", str(_trace(tmp_path / "a.parquet", seconds=0.3))])
    assert result.exit_code == 0 and "standard deviations mean little" in result.output


@pytest.mark.parametrize("moved", [0, 5_000], ids=["sorted-by-a-buffer", "sorted-on-disk"])
def test_a_trace_in_the_order_of_completions_has_the_features_of_the_sorted_one(tmp_path, moved):
    """Sequential reads that overlap: as they complete, most of them do not continue the one before."""
    count = 80_000
    arrivals = np.arange(count) * 10_000
    order = np.argsort(arrivals + np.random.default_rng(1).integers(1, 400_000, count), kind="stable")
    # The first of them pass 75,000 others, more than a buffer holds.
    order = np.roll(order, -moved)
    rows = [f"{at},R,{8 * k},8,50000\n" for k, at in enumerate(arrivals)]
    path = tmp_path / "reads.csv"
    found = []
    for written in (rows, [rows[k] for k in order]):
        path.write_text("t_ns,op,lba_512,sectors,latency_ns\n" + "".join(written))
        (one,), _ = from_file(path)
        (held,) = with_phases(path)
        np.testing.assert_array_equal(one.profile.features, held.profile.features)
        found.append(one.profile.features)
    np.testing.assert_array_equal(*found)
    assert found[0][FEATURES.index("read_random_ratio")] == 1 / count


@pytest.mark.skipif(not SHARED.exists(), reason="no folder of shared traces")
def test_recorded_traces_are_profiled():
    found = 0
    for path in sorted((SHARED / "traces/msr").glob("*.csv*"))[:2]:
        rows, _ = from_file(path)
        assert all(np.isfinite(one.profile.features).all() for one in rows)
        found += len(rows)
    if not found:
        pytest.skip("the folder has no MSR traces")
