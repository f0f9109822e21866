# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tenants on a real drive that is set aside; here a file. Skipped without io_uring or direct I/O."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from linnet._native import DeviceError, StagingDrive, TenantError, TenantLoad, Trace
from linnet.cli import app, place_staging
from linnet.place import label, share_forest
from linnet.place.label import COLUMNS
from linnet.place.staging import identity, open_drive, threads_of
from typer.testing import CliRunner, Result

SIZE = 64 << 20
CUT = ["--seconds", "0.1", "--windows", "2", "--runs", "20"]


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    path = tmp_path / "drive"
    with path.open("wb") as file:
        file.truncate(SIZE)
    try:
        StagingDrive(path).run([(load(1.0, 1000), 4)], 0.0, 0.01)
    except OSError as error:
        pytest.skip(f"no direct I/O: {error}")
    except DeviceError as error:
        pytest.skip(str(error))
    return path


def load(reads: float, rate: float, seconds: float = 0.4) -> Trace:
    return TenantLoad(rate, [4096], reads=reads, depth=8).trace(seconds, 4 << 20, 1)


def traces(folder: Path, reads: float) -> list[str]:
    paths = [str(folder / f"{name}.csv") for name in ("web", "mail", "scan")]
    for number, path in enumerate(paths):
        load(reads, 300.0 + 100 * number).write(path)
    return paths


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["place", *map(str, words)])


def is_zero(path: Path) -> bool:
    return not path.read_bytes().strip(b"\0")


def test_a_plan_runs_on_the_drive_and_leaves_what_is_on_it(
    drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_forest, "TREES", 10)
    monkeypatch.setattr(place_staging, "WAITED", -1.0)
    paths = traces(tmp_path, 1.0)
    done = invoke("plan", *paths, "--staging", drive, *CUT, "--slo", "read_latency_mean_us+900%", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["drive_changed"] > 0, "no two runs are equal"
    assert found["drive"] == str(drive) and 1 <= found["runs"] <= 20
    assert sorted(name for mix in found["drives"] for name in mix) == sorted(paths)
    assert is_zero(drive)
    assert "the machine was measured, and not the drive alone" in done.stderr


def test_a_plan_with_writes_is_refused_until_they_are_allowed(
    drive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_forest, "TREES", 10)
    paths = traces(tmp_path, 0.5)
    words = ["plan", *paths, "--staging", drive, *CUT, "--slo", "write_bandwidth_mean-90%"]
    done = invoke(*words)
    assert isinstance(done.exception, TenantError)
    assert "web.csv: the trace has writes" in str(done.exception) and "--overwrite" in str(done.exception)
    assert is_zero(drive)
    done = invoke(*words, "--overwrite")
    assert done.exit_code == 0, done.output
    assert not is_zero(drive), "it was filled, and written to"


def test_without_filling_only_what_tenants_write_is_lost(drive: Path) -> None:
    made = StagingDrive(drive, overwrite=True)
    assert made.writable and made.space_bytes == SIZE // 16
    made.run([(load(0.0, 1000), 4)], 0.0, 0.1)
    assert not drive.read_bytes()[made.space_bytes :].strip(b"\0")
    with pytest.raises(TenantError, match="tenant 0 writes"):
        StagingDrive(drive).run([(load(0.0, 1000), 4)], 0.0, 0.1)


class _Ended(Exception):
    pass


def test_a_signal_ends_the_run_in_progress(drive: Path) -> None:
    made = StagingDrive(drive)
    long = load(1.0, 1000).followed_by(load(1.0, 1000), 3_000_000_000_000)

    def end(number: int, frame: object) -> None:
        raise _Ended

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.monotonic()
    try:
        with pytest.raises(_Ended):
            threads_of(made).in_order(lambda tenant: made.run([(tenant, 4)], 0.0, 3600.0), [long])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 600, "an hour was asked for"
    with pytest.raises(KeyboardInterrupt):
        made.run([(load(1.0, 1000), 4)], 0.0, 0.1)
    assert threads_of(made).count == 1
    assert len(made.run([(load(1.0, 1000), 4)], 0.0, 0.1)) == 1, "it may be used again"


def test_a_tenant_without_ios_has_no_metrics(drive: Path) -> None:
    late = load(1.0, 100, 0.05).followed_by(load(1.0, 100, 0.05), 10_000_000_000)
    rows = StagingDrive(drive).run([(late, 4), (load(1.0, 1000), 4)], 0.1, 0.2)
    assert all(map(math.isnan, rows[0])) and rows[1][0] > 0


def test_writes_differ_from_each_other(drive: Path) -> None:
    made = StagingDrive(drive, overwrite=True)
    made.run([(load(0.0, 1000), 4), (load(0.0, 1000), 4)], 0.0, 0.2)
    data = drive.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, SIZE, 4096)]
    written = [page for page in pages if page.strip(b"\0")]
    assert len(set(written)) == len(written) > 1


def test_a_drive_in_use_is_refused(drive: Path) -> None:
    if os.geteuid() != 0 or shutil.which("losetup") is None:
        pytest.skip("needs root and losetup")
    made = subprocess.run(["losetup", "-f", "--show", str(drive)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr}")
    loop = made.stdout.strip()
    try:
        with pytest.raises(DeviceError, match=r"is in use: loop.* stands on it"):
            open_drive(str(drive), True)
        opened = open_drive(loop, True)
        with pytest.raises(DeviceError, match="is in use"):
            StagingDrive(loop)
        assert identity(loop).startswith("inode") and opened.space_bytes == SIZE // 16
        del opened
    finally:
        subprocess.run(["losetup", "-d", loop], check=True)


LABEL = ["--runs", 3, "--workloads", 3, "--tenants", "2-3", "--seconds", 0.1, "--warm-seconds", 0.02, "--peak", 1e7]


def test_labels_are_made_on_the_drive_and_kept(drive: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.csv"
    words = ["label", "--staging", drive, "--overwrite", "--no-fill", *LABEL, "-o", out, "--json"]
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    first = out.read_bytes()
    rows = list(csv.DictReader(first.decode().splitlines()))
    assert tuple(rows[0]) == COLUMNS and 6 <= len(rows) <= 9
    assert {row["drive"] for row in rows} == {str(drive)}
    assert {(row["warm_s"], row["steady"]) for row in rows} == {("0.02", "0")}
    assert any(float(row["read_bandwidth_mean"]) > 0 for row in rows)
    assert json.loads(done.stdout)["late_us_p99_max"] >= 0.0
    told = json.loads(invoke(*words).stdout)
    assert told["from_cache"] == 6 and out.read_bytes() == first, "a run is not made twice"
    label._DRIVES.clear()
    before = drive.stat().st_mtime_ns
    filled = [word for word in words if word != "--no-fill"]
    assert json.loads(invoke(*filled).stdout)["from_cache"] == 0, "blocks that were never written were read"
    assert drive.stat().st_mtime_ns > before
    label._DRIVES.clear()
    before = drive.stat().st_mtime_ns
    assert json.loads(invoke(*filled).stdout)["from_cache"] == 6
    assert drive.stat().st_mtime_ns == before, "it is not filled twice"
    label._DRIVES.clear()
    other = drive.with_name("other")
    drive.rename(other)
    renamed = [other if word == drive else word for word in filled]
    assert json.loads(invoke(*renamed).stdout)["from_cache"] == 6, "the same drive by another path"
    label._DRIVES.clear()
    shutil.copyfile(other, drive)
    assert json.loads(invoke(*filled).stdout)["from_cache"] == 0, "another drive"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "a.csv", "--staging", "x", "--drive", "sata"], "on a modelled drive or on a real one"),
        (["plan", "a.csv", "--overwrite"], "there is no drive to overwrite"),
        (["label", "-o", "t.csv", "--staging", "x", "--ray", "local"], "one run at a time"),
        (["label", "-o", "t.csv", "--staging", "x", "--threads", "2"], "one run at a time"),
    ],
)
def test_what_does_not_fit_together_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke(*words)
    assert done.exit_code == 2 and said in " ".join(done.stderr.replace("│", "").split())


def test_workloads_that_write_are_refused_before_the_first_run(drive: Path, tmp_path: Path) -> None:
    done = invoke("label", "--staging", drive, *LABEL, "-o", tmp_path / "t.csv")
    assert isinstance(done.exception, TenantError) and "a synthetic workload writes" in str(done.exception)
    assert not (tmp_path / "t.csv.runs").exists()


def test_labels_need_the_peak_of_a_real_drive(drive: Path, tmp_path: Path) -> None:
    done = invoke("label", "--staging", drive, "-o", tmp_path / "t.csv")
    assert isinstance(done.exception, TenantError) and "give its peak bandwidth" in str(done.exception)


def test_what_is_no_drive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StagingDrive(tmp_path / "none")
    with pytest.raises(DeviceError, match="neither a block device nor a regular file"):
        StagingDrive("/dev/null")
    (tmp_path / "small").write_bytes(b"\0" * 4096)
    with pytest.raises((DeviceError, OSError)):
        StagingDrive(tmp_path / "small")
