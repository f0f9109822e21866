# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet tune` without root: the doctor and `restore` on an imitated machine, and what the tuner refuses."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from linnet import _native
from linnet.cli import app
from linnet.cli import tune as tune_cli
from typer.testing import CliRunner

KEYS = {"target", "kind", "value_kib", "source", "verdict", "reason", "fix"}


def tune(*words: object):
    return CliRunner().invoke(app, ["tune", *map(str, words)])


def set_kib(machine: Path, kib: int) -> None:
    (machine / "sys/block/nvme0n1/queue/read_ahead_kb").write_text(str(kib))


def get_kib(machine: Path) -> int:
    return int((machine / "sys/block/nvme0n1/queue/read_ahead_kb").read_text())


def test_doctor_is_interrupted_in_its_pause(machine: Path) -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    begun = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            _native.tune_doctor(30.0, str(machine))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() < begun + 20, "not at the end of the pause"


def test_doctor_says_by_its_status_whether_something_is_to_do(machine: Path, tmp_path: Path) -> None:
    healthy = tune("doctor", "--root", machine, "--seconds", 0)
    assert healthy.exit_code == 0 and "nothing to do" in healthy.output
    set_kib(machine, 65536)
    ill = tune("doctor", "--root", machine, "--seconds", 0)
    assert ill.exit_code == 1
    assert "echo 128 | sudo tee /sys/block/nvme0n1/queue/read_ahead_kb" in ill.output
    unable = tune("doctor", "--root", tmp_path / "nowhere", "--seconds", 0)
    assert unable.exit_code == 2 and unable.stdout == ""


def test_nfs_refuses_what_is_no_nfs_mount(tmp_path: Path) -> None:
    for point, why in ((tmp_path, "no such device or mount"), ("/proc", "what is mounted there is proc")):
        refused = tune("nfs", point, "--once", "--dry-run")
        assert refused.exit_code == 1, refused.output
        assert f"{point}: {why}" in str(refused.exception or refused.output)


def test_nfs_options_are_checked_before_anything_runs(tmp_path: Path) -> None:
    both = tune("nfs", "/mnt", "--once", "--watch")
    assert both.exit_code == 2 and "one of --once and --watch" in both.output
    missing = tune("nfs", "/mnt", "--model", tmp_path / "none.linnet")
    assert missing.exit_code == 2 and "is not a file" in missing.output


def test_doctor_says_for_how_many_processes_there_was_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "tune_doctor", lambda seconds, root: ([], 5))
    short = tune("doctor")
    assert short.exit_code == 0 and "nothing to do" not in short.output
    assert "no time for the mapped files of 5 processes" in " ".join(short.output.split())
    assert json.loads(tune("doctor", "--json").stdout) == {"rows": [], "processes_left_out": 5}


def test_doctor_rows_have_the_promised_keys(machine: Path) -> None:
    set_kib(machine, 65536)
    rows = json.loads(tune("doctor", "--root", machine, "--seconds", 0, "--json").stdout)["rows"]
    assert len(rows) == 1 and set(rows[0]) >= KEYS
    assert (rows[0]["target"], rows[0]["value_kib"], rows[0]["verdict"]) == ("/dev/nvme0n1", 65536, "high")
    assert rows[0]["mounts"] == ["/data"]


def test_doctor_runs_on_this_machine_without_root() -> None:
    result = tune("doctor", "--seconds", 0, "--json")
    assert result.exit_code in (0, 1), result.output
    assert all(set(row) >= KEYS for row in json.loads(result.stdout)["rows"])


def journal(machine: Path, written: int) -> None:
    directory = machine / "run/linnet/tune"
    directory.mkdir(parents=True)
    device = {"knob": "/sys/block/nvme0n1/queue/read_ahead_kb", "original_kib": 128, "written_kib": [written]}
    (directory / "journal.json").write_text(json.dumps({"boot": "this one", "devices": [device], "files": []}))


def test_restore_puts_back_what_a_crash_left(machine: Path) -> None:
    set_kib(machine, 8)
    journal(machine, 8)
    result = tune("restore", "--root", machine)
    assert result.exit_code == 0 and "128 KiB again" in result.output
    assert get_kib(machine) == 128
    again = json.loads(tune("restore", "--root", machine, "--json").stdout)
    assert again == {"devices": {}, "left": {}, "gone": {}, "files": 0, "mounts": []}


def test_restore_leaves_what_somebody_else_set(machine: Path) -> None:
    set_kib(machine, 512)
    journal(machine, 8)
    result = tune("restore", "--root", machine)
    assert "512 KiB, set by somebody else, stays" in result.output and get_kib(machine) == 512


def test_restore_leaves_a_mount_that_has_the_number_of_another_one(machine: Path) -> None:
    knob = "/sys/class/bdi/0:45/read_ahead_kb"
    (machine / "proc/self/mountinfo").write_text("30 1 0:45 / /far rw - fuse.sshfs u@h:/ rw\n")
    (machine / knob[1:]).parent.mkdir(parents=True)
    (machine / knob[1:]).write_text("128\n")
    mount = {"fs": "nfs4", "source": "nas:/data", "point": "/srv"}
    device = {"knob": knob, "original_kib": 15360, "written_kib": [128], "diskseq": None, "mount": mount}
    journal(machine, 8)
    path = machine / "run/linnet/tune/journal.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "devices": [device]}))
    gone = json.loads(tune("restore", "--root", machine, "--json").stdout)["gone"]
    assert list(gone) == [knob] and gone[knob].startswith("nas:/data (nfs4), which was mounted at /srv ")
    assert (machine / knob[1:]).read_text() == "128\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once", "--watch"], "one of --once and --watch"),
        (["--model", "oracle"], "is not a file"),
        (["--scope", "everything"], "--scope"),
        (["--device", ""], "leave it out for all"),
        (["--cgroup", ""], "leave it out for all"),
    ],
)
def test_wrong_settings_are_refused(words: list[str], said: str) -> None:
    result = tune("readahead", *words)
    assert result.exit_code == 2 and said in result.output


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "1e300"])
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["readahead", "--dry-run"], "--backoff"),
        (["nfs", "/mnt", "--dry-run"], "--backoff"),
        (["doctor"], "--seconds"),
        (["calibrate", "/mnt", "-o", "m.linnet"], "--seconds"),
    ],
)
def test_a_number_out_of_range_is_refused_by_the_name_of_its_option(
    words: list[str], option: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the refusal nothing may be calibrated.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = tune(*words, option, value)
    assert result.exit_code == 2 and f"'{option}'" in result.output and len(result.output) < 1000, result.output


def test_a_time_out_of_range_is_refused_with_its_name() -> None:
    with pytest.raises(ValueError, match=r"^backoff_seconds is 1e300; give 0 to 31536000$"):
        _native.tune_readahead(lambda _: False, dry_run=True, backoff_seconds=1e300)
    with pytest.raises(ValueError, match=r"^seconds is inf; give 0 to 31536000$"):
        _native.tune_doctor(float("inf"))


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(_native.TuneError, match="/dev/nosuch: no such device or mount"):
        _native.tune_readahead(lambda _: False, device="/dev/nosuch", dry_run=True)


def test_a_model_that_is_none_is_refused_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "m.linnet"
    file.write_bytes(b"no model at all" * 20)
    with pytest.raises(_native.TuneError, match=r"m\.linnet: model file, byte 0: not a model file"):
        _native.tune_readahead(lambda _: False, dry_run=True, model=file)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_tuner_in_order(number: signal.Signals) -> None:
    # Under nohup the tests ignore the end of their terminal.
    inherited = signal.signal(number, signal.default_int_handler)
    try:
        with tune_cli.stopping() as stopped:
            assert stopped() is None
            signal.raise_signal(number)
            assert stopped() == number
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, inherited)


def test_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with tune_cli.stopping() as stopped:
            signal.raise_signal(signal.SIGHUP)
            assert stopped() is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_the_callback_raises_comes_out() -> None:
    def fail(_line: str | None) -> bool:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        _native.tune_readahead(fail, dry_run=True)


def test_an_observer_that_cannot_see_says_so() -> None:
    files, demands, descriptors, limits = _native.tune_sight()
    assert (files and demands and descriptors) or limits


def test_events_read_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    event = {
        "t": 0.0, "kind": "decision", "knob": "readahead", "target": "/dev/vda", "file": "/data/a.sst",
        "from_kib": 128, "to_kib": 8, "why": "random: 1.0 pages between jumps", "confidence": 0.9,
        "reader": "db (process 7) in /", "applied": False,
    }  # fmt: skip
    tune_cli.show_event(event)
    line = capsys.readouterr().out
    assert "decision /data/a.sst 128 -> 8 KiB (not set): random" in line and "confidence 0.90" in line
