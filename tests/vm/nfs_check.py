# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet tune nfs` on a real NFS mount: values change for the right reason, and everything is put back.

    python tests/vm/nfs_check.py MOUNT

Runs inside a machine that `nfs.sh` has set up: MOUNT is mounted with a read size of 64 KiB over a way of 5 ms, and has
the files `data` and `other`. Prints a line for each check; the first that fails ends it with status 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linnet import _native
from nfs_mount import GROUP, JOURNAL, LINNET, LOCK, READER, Log, join_group, knob, make_group, mounts, rsize_kib, wait

READERS: list[subprocess.Popen[str]] = []
"""Those that run."""


def values(path: Path, process: int) -> set[int]:
    """Readahead of a file's descriptors in a process, as the kernel has it."""
    return {kib for owner, _, kib, _ in _native.tune_open_files(path) if owner == process}


@contextlib.contextmanager
def reader(how: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Our reader, until the block ends. It begins with a cold file, and checks each page.

    Other files stay cached: Python's packages take minutes to read over the host's file system.
    """
    words = [READER, how, str(path), "3600"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=join_group)  # noqa: PLW1509
    READERS.append(process)
    try:
        yield process
        assert process.poll() is None, f"the reader ended: {process.stderr and process.stderr.read()}"
    finally:
        READERS.remove(process)
        process.kill()
        process.communicate()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Stop the readers meanwhile. Theirs is most of the machine's work, which would starve what starts."""
    for process in READERS:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in READERS:
            process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def tuner(point: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], Log]]:
    """`linnet tune nfs`, from when it observes until the block ends."""
    with tempfile.TemporaryDirectory() as place:
        log = Log(Path(place) / "log")
        with log.path.open("w") as out, log.path.with_suffix(".err").open("w") as err:
            words = [LINNET, "tune", "nfs", str(point), "--json", *more]
            process = subprocess.Popen(words, stdout=out, stderr=err, text=True)
        ours = str(process.pid)
        with quiet():
            wait(
                "the tuner",
                lambda: process.poll() is not None or (LOCK.exists() and LOCK.read_text().strip() == ours),
                log,
            )
        assert process.poll() is None, f"the tuner ended: {log.path.with_suffix('.err').read_text()}"
        try:
            yield process, log
        finally:
            process.terminate()
            process.wait(300)


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    """End a tuner and give its status."""
    process.send_signal(number)
    return process.wait(300)


def first_of_a_file(log: Log) -> Any:
    """The first decision on a file, which is told after the value is set."""
    wait("a decision is told", lambda: any(event["file"] for event in log.events("decision")), log)
    return next(event for event in log.events("decision") if event["file"])


def random_gets_little(point: Path) -> None:
    """A random reader's open file gets 8 KiB; the end puts it back."""
    data = point / "data"
    with reader("random", data) as process:
        with tuner(point) as (running, log):
            wait("8 KiB on the open file", lambda: values(data, process.pid) == {8}, log)
            found = first_of_a_file(log)
            assert (found["from_kib"], found["to_kib"], found["applied"]) == (128, 8, True), found
            assert found["why"].startswith("random") and found["file"] == str(data), found
            assert found["target"] == str(point) and 0.6 <= found["confidence"] <= 1, found
            latency = float(found["why"].split("a read takes ")[1].split(" ms")[0])
            assert latency >= 5, f"the way alone takes 5 ms: {found}"
            assert stop(running, signal.SIGINT) == 130
        assert values(data, process.pid) == {128}, values(data, process.pid)
    assert int(knob(point).read_text()) == 128


def scan_gets_more(point: Path) -> None:
    """Over 5 ms a scan gets more than the default, on its open file and then on the mount for new files."""
    data = point / "data"
    with reader("seq", data) as process:
        with tuner(point) as (running, log):
            wait("512 KiB and more on the open file", lambda: min(values(data, process.pid), default=0) >= 512, log)
            found = first_of_a_file(log)
            assert found["why"].startswith("sequential, a trial") and found["to_kib"] == 512, found
            wait("the mount follows", lambda: int(knob(point).read_text()) >= 512, log)
            assert stop(running) == 0
        assert values(data, process.pid) == {128}
    assert int(knob(point).read_text()) == 128


def both_at_once(point: Path) -> None:
    """A scan and a random reader on one mount have different values."""
    data, other = point / "data", point / "other"
    with reader("seq", data) as scan, reader("random", other) as random, tuner(point) as (_, log):
        wait(
            "8 KiB for one, 512 for the other",
            lambda: values(other, random.pid) == {8} and min(values(data, scan.pid), default=0) >= 512,
            log,
        )


def crash_is_mended(point: Path) -> None:
    """Killed without a chance: `linnet tune restore` puts back the open file and the mount."""
    data = point / "data"
    with reader("seq", data) as process:
        with tuner(point) as (running, log):
            wait("the mount follows", lambda: int(knob(point).read_text()) >= 512, log)
            stop(running, signal.SIGKILL)
        assert min(values(data, process.pid), default=0) >= 512, "nobody has put it back yet"
        subprocess.run([LINNET, "tune", "restore"], check=True, stdout=subprocess.DEVNULL)
        assert values(data, process.pid) == {128}
    assert int(knob(point).read_text()) == 128


def administrator_wins(point: Path) -> None:
    """A value that somebody else writes stands, also after the end."""
    with reader("seq", point / "data"), tuner(point) as (running, log):
        wait("the mount follows", lambda: int(knob(point).read_text()) >= 512, log)
        knob(point).write_text("300")
        wait("the tuner says so", lambda: log.events("rival"), log)
        assert int(knob(point).read_text()) == 300
        assert stop(running) == 0
    assert int(knob(point).read_text()) == 300
    knob(point).write_text("128")


def read_size_follows(point: Path) -> None:
    """--rsize places a mount with a larger read size over the old one; open files stay; the end takes it off."""
    data = point / "data"
    below, before = mounts(point)[-1][0], rsize_kib(point)
    with data.open("rb") as old, reader("seq", data), tuner(point, "--rsize") as (running, log):
        found = wait("a decision on the read size", lambda: log.events("decision", "skip", knob="rsize"), log)[0]
        assert found["kind"] == "decision" and found["applied"], found
        assert (found["from_kib"], found["to_kib"]) == (before, rsize_kib(point)), found
        assert rsize_kib(point) > before and len(mounts(point)) == 2, mounts(point)
        number = f"{os.major(os.fstat(old.fileno()).st_dev)}:{os.minor(os.fstat(old.fileno()).st_dev)}"
        assert number == below != mounts(point)[-1][0], "the open file is still on the mount below"
        assert data.read_bytes()[4096:4104] == old.read()[4096:4104] == (1).to_bytes(8, "little")
        with reader("seq", data) as second:
            wait("files of the new mount are tuned", lambda: min(values(data, second.pid), default=0) >= 512, log)
            assert stop(running) == 0
            wait("the new mount is off", lambda: len(mounts(point)) == 1)
            assert second.poll() is None, "a file that is open on it is still readable"
    assert (mounts(point)[-1][0], rsize_kib(point)) == (below, before)
    assert json.loads(JOURNAL.read_text())["mounts"] == []


def no_read_size_beside_a_writer(point: Path) -> None:
    """While a file is open for writing nothing is placed over the mount; the event says why and what to do."""
    with (point / "written").open("wb"), reader("seq", point / "data"), tuner(point, "--rsize") as (_, log):
        found = wait("a decision on the read size", lambda: log.events("decision", "skip", knob="rsize"), log)[0]
        assert found["kind"] == "skip" and "open for writing" in found["why"], found
        assert "at the next mount: mount -t nfs4 -o rsize=" in found["why"], found
        assert len(mounts(point)) == 1
    (point / "written").unlink()


def crash_leaves_no_mount(point: Path) -> None:
    """A mount that a killed tuner left is taken off by `restore`."""
    with reader("seq", point / "data"), tuner(point, "--rsize") as (running, log):
        wait("the second mount", lambda: len(mounts(point)) == 2, log)
        stop(running, signal.SIGKILL)
    assert len(mounts(point)) == 2
    subprocess.run([LINNET, "tune", "restore"], check=True, stdout=subprocess.DEVNULL)
    assert len(mounts(point)) == 1


def refusals(point: Path) -> None:
    """What cannot be: another tuner beside ours, a mount of another kind, no mount. And a dry run changes nothing."""

    def refused(*words: str) -> str:
        command = [LINNET, "tune", "nfs", *words]
        with quiet():
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode not in (0, 130) and "Traceback" not in done.stderr, done
        return " ".join((done.stdout + done.stderr).split())

    with reader("random", point / "data") as process, tuner(point) as (running, _):
        assert "another tuner runs" in refused(str(point))
        stop(running)
        words = [LINNET, "tune", "nfs", str(point), "--json", "--once", "--dry-run"]
        said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600).stdout
        found = [json.loads(line) for line in said.splitlines()]
        assert any(event["to_kib"] == 8 and not event["applied"] for event in found), found
        assert values(point / "data", process.pid) == {128}
    assert "is no NFS mount but ext4" in refused("/run/vm/server/fast")
    assert "no such device or mount" in refused("/run/vm/nowhere")


def doctor_knows(point: Path) -> None:
    """The doctor's row of the mount, while a scan runs over the long way."""
    with reader("seq", point / "data"):
        words = [LINNET, "tune", "doctor", "--json", "--seconds", "3"]
        said = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    row = next(row for row in json.loads(said.stdout)["rows"] if row["target"] == str(point))
    assert (row["kind"], row["value_kib"], row["verdict"]) == ("nfs", 128, "low"), row
    assert f"linnet tune nfs {point}" in row["fix"] and "ms" in row["reason"], row


CASES = (
    random_gets_little,
    scan_gets_more,
    both_at_once,
    crash_is_mended,
    administrator_wins,
    read_size_follows,
    no_read_size_beside_a_writer,
    crash_leaves_no_mount,
    refusals,
    doctor_knows,
)


def main(point: Path, names: list[str]) -> int:
    """Run the checks."""
    make_group()
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        begun = time.monotonic()
        case(point)
        print(f"ok {case.__name__} ({time.monotonic() - begun:.0f} s)", flush=True)
    subprocess.run(["umount", str(GROUP.parent)], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
