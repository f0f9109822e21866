# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet dm export-trace`: recorded I/Os as traces of each replica."""

import os
from pathlib import Path

import pytest
from conftest import device_trace
from dm_host import FakeHost, dm, refused, two_drives
from linnet import Trace, TraceError
from linnet.cli import app
from linnet.dm import DmError, record
from linnet.progress import Progress
from typer.testing import CliRunner


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    return two_drives(tmp_path, monkeypatch)


def test_a_trace_of_each_replica(host: FakeHost, tmp_path: Path) -> None:
    lines = []
    for i in range(40):
        dev, replica = ("253:1", i % 2) if i < 30 else ("253:2", 0)
        lines.append(
            f" fio-9 [000] ..s1. 1.{i:06}: linnet_io: dev={dev} id=0x{i:x} replica={replica} leg=259:{replica} op=read "
            f"offset={i * 4096} size=4096 arrived_ns={1000 * i} latency_ns={500 + i} error=0"
        )
    saved = tmp_path / "saved.txt"
    saved.write_text("\n".join(lines) + "\n")
    host.answers["dmsetup info"] = "  1\n"
    out = tmp_path / "out"
    dm("export-trace", "vol", "--from", saved, "-o", out)
    assert sorted(os.listdir(out)) == ["vol.0.parquet", "vol.1.parquet"]
    second = Trace.read(out / "vol.1.parquet").columns()
    assert len(second["op"]) == 15
    assert list(second["latency_ns"][:2]) == [501, 503]
    assert set(second["device"]) == {1}
    dm("export-trace", "--from", saved, "-o", out)
    assert (out / "dm-2.0.parquet").exists()
    host.answers["dmsetup info"] = "7\n"
    with pytest.raises(DmError, match="no I/O of vol"):
        dm("export-trace", "vol", "--from", saved, "-o", out)
    with pytest.raises(DmError, match="--decisions"):
        dm("export-trace", "--from", saved, "-o", out, "--decisions", tmp_path / "events.txt")
    both = dm("export-trace", "-o", out, "--decisions", tmp_path / "events.txt", "--dry-run").stdout
    assert "linnet_decision/enable" in both and "linnet_io/enable" in both
    assert "linnet_decision" not in dm("export-trace", "-o", out, "--dry-run").stdout
    # Recording needs tracefs and the module; both are missed in words.
    with pytest.raises(DmError, match="tracefs"):
        dm("export-trace", "-o", out)
    (host.tracing / "events").mkdir(parents=True)
    with pytest.raises(DmError, match="modprobe"):
        dm("export-trace", "-o", out)


def test_a_saved_text_of_one_device_needs_no_device_mapper(
    host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(words: list[str]) -> str:
        raise DmError("the kernel has no device-mapper: modprobe dm-mod")

    monkeypatch.setattr(host, "run", absent)
    line = (
        " fio-9 [000] ..s1. 1.000001: linnet_io: dev=253:{} id=0x1 replica=0 leg=259:0 op=read offset=0 size=4096 "
        "arrived_ns=1000 latency_ns=500 error=0\n"
    )
    saved, out = tmp_path / "saved.txt", tmp_path / "out"
    saved.write_text(line.format(1))
    dm("export-trace", "vol", "--from", saved, "-o", out)
    assert os.listdir(out) == ["vol.0.parquet"]
    saved.write_text(line.format(1) + line.format(2))
    with pytest.raises(DmError, match=r"no device-mapper.*; the trace is of 2 devices"):
        dm("export-trace", "vol", "--from", saved, "-o", out)
    dm("export-trace", "--from", saved, "-o", out)
    assert sorted(os.listdir(out)) == ["dm-1.0.parquet", "dm-2.0.parquet", "vol.0.parquet"]


def test_a_dry_run_of_an_export_from_a_file_writes_nothing(host: FakeHost, tmp_path: Path) -> None:
    saved, out = tmp_path / "saved.txt", tmp_path / "new/out"
    saved.write_text(
        " fio-9 [000] ..s1. 1.000001: linnet_io: dev=253:1 id=0x1 replica=0 leg=259:0 op=read offset=0 size=4096 "
        "arrived_ns=1000 latency_ns=500 error=0\n"
    )
    said = dm("export-trace", "--from", saved, "-o", out, "--dry-run").stderr
    assert str(saved) in said and str(out) in said
    assert not out.parent.exists()
    # Without --dry-run the same words write.
    dm("export-trace", "--from", saved, "-o", out)
    assert os.listdir(out) == ["dm-1.0.parquet"]


def test_an_export_looks_the_name_up_before_it_records(
    host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "record", lambda *_: pytest.fail("recorded"))
    out = tmp_path / "out"
    with pytest.raises(DmError, match="no minor number"):
        dm("export-trace", "vlo", "-o", out)
    assert not out.exists()
    host.ran.clear()
    # The name becomes part of file names.
    assert "cannot be a device's name" in refused(host, "export-trace", "../vol", "-o", out)


def test_a_failed_export_leaves_no_empty_directory(host: FakeHost, tmp_path: Path) -> None:
    saved, out = tmp_path / "saved.txt", tmp_path / "new/out"
    with pytest.raises(DmError, match="tracefs"):
        dm("export-trace", "-o", out)
    assert not out.parent.exists()
    saved.write_text("no trace\n")
    for words in (("--from", saved), ("--from", tmp_path / "absent")):
        assert CliRunner().invoke(app, ["dm", "export-trace", *map(str, words), "-o", str(out)]).exit_code != 0
        assert not out.parent.exists()
    # A directory that was there stays.
    out.mkdir(parents=True)
    with pytest.raises(DmError, match="tracefs"):
        dm("export-trace", "-o", out)
    assert out.is_dir()


def test_an_export_that_cannot_write_leaves_no_trace_instance(host: FakeHost, tmp_path: Path) -> None:
    (host.tracing / record.IO).mkdir(parents=True)
    instances = host.tracing / "instances"
    instances.mkdir()
    with pytest.raises(FileNotFoundError):
        record.record(host, 1, tmp_path / "absent", Progress())
    assert not list(instances.iterdir())


def test_an_export_as_root_follows_no_link(tmp_path: Path) -> None:
    """In a directory of another user, who can guess the names."""
    precious, out = tmp_path / "precious", tmp_path / "out"
    precious.write_text("old")
    out.mkdir()
    for name in ("vol.0.parquet", "dm-0.0.parquet"):
        (out / name).symlink_to(precious)
    trace = device_trace(reads=20)
    with pytest.raises(TraceError, match="symbolic link"):
        record.split(trace, None, "vol", out)
    assert precious.read_text() == "old"
