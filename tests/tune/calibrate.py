# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linnet tune calibrate` on a real device: it learns, its model decides, and it leaves nothing behind.

Cases of run.py, which calls them with the bed, a file on it and a log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
from bed import LINNET, Bed, tuner
from helpers import events, reader, settled, wait
from linnet import _native
from linnet._native import KnobModel
from numpy.typing import NDArray

GROUPS = Path("/sys/fs/cgroup")
SHORT = ("--quick", "--rounds", "2", "--seconds", "0.4")


def left_behind(bed: Bed, data: Path) -> list[str]:
    """What a calibration should not leave: files, groups, space that a file without a name still holds."""
    found = [str(path) for path in bed.root.iterdir() if path not in (data, bed.root / "lost+found", bed.root / "many")]
    found += [str(path) for path in GROUPS.glob("**/linnet-calibrate-*")]
    return found


def free_bytes(bed: Bed) -> int:
    """Space on the device."""
    place = os.statvfs(bed.root)
    return place.f_bfree * place.f_frsize


def learns_and_its_model_decides(bed: Bed, data: Path, log: Path) -> None:
    """A quick calibration gives random reads through a mapping less than scans, and the tuner sets what it learned."""
    model = log.with_suffix(".linnet")
    before = free_bytes(bed)
    process = bed.start(
        [str(LINNET), "tune", "calibrate", bed.device, "-o", str(model), *SHORT, "--json"], limited=False
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    result = json.loads(out)
    best = {row["pattern"]: row["best_kib"] for row in result["patterns"]}
    assert best["mmap random"] < best["mmap seq"], best
    assert set(result["values_kib"]) == set(best.values()), result["values_kib"]
    held = result["held_out"]["by_run"]
    assert held[result["decider"]]["share_of_best"] > held["default"]["share_of_best"], held
    assert model.stat().st_mode & 0o777 == 0o644 and bed.value() == 128
    assert not left_behind(bed, data) and abs(free_bytes(bed) - before) < 1 << 20
    with tuner(bed, log, "--model", str(model)), reader(bed, data, "random") as reading:
        found = wait("a decision", lambda: events(log, "decision"))
        # Where it is unsure the rule answers, and the reason says so.
        assert found[0]["why"].startswith(("model, ", "the model is unsure")), found[0]["why"]
        assert found[0]["to_kib"] < 128, found[0]
        wait("its value on the open file", settled(data, reading.pid, found[0]["to_kib"]))


def windows(accesses: int, jumps: int, rows: int) -> NDArray[np.uint64]:
    """Counters of windows through a mapping: random where each access is a jump."""
    counts = np.zeros((rows, 34), dtype=np.uint64)
    counts[:, [0, 1, 6]] = accesses
    counts[:, 3], counts[:, 5] = accesses - jumps, jumps
    counts[:, 10 + (12 if jumps else 0)] = accesses
    return counts


def a_model_decides_where_the_rule_would_not(bed: Bed, data: Path, log: Path) -> None:
    """A model that was taught 64 KiB for random reads: the open file gets 64, which the rule gives to none of these."""
    rows, _ = _native.tune_features(np.concatenate([windows(400, 400, 50), windows(400, 0, 50)]))
    model = log.with_suffix(".linnet")
    model.write_bytes(KnobModel.fit(rows, [0] * 50 + [1] * 50, [64, 256], parts="tree").to_bytes())
    with tuner(bed, log, "--model", str(model)), reader(bed, data, "random") as reading:
        wait("64 KiB on the open file", settled(data, reading.pid, 64))
        found = events(log, "decision")[0]
        assert found["to_kib"] == 64 and found["why"].startswith("model, 1.00 sure: "), found
    assert bed.value() == 128


def leaves_nothing_when_interrupted(bed: Bed, data: Path, log: Path) -> None:
    """Signals that end a calibration in the middle of a run, and SIGKILL, after which the next start cleans up."""
    model = log.with_suffix(".linnet")
    before = free_bytes(bed)
    words = [str(LINNET), "tune", "calibrate", bed.device, "-o", str(model), *SHORT]
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -9)):
        process = bed.start(words, limited=False)
        end = time.monotonic() + 30
        while time.monotonic() < end and not list(GROUPS.glob("**/linnet-calibrate-*/cgroup.procs")):
            time.sleep(0.02)
        time.sleep(0.7)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == status, (number, process.returncode, err)
        time.sleep(0.5)
        if number != signal.SIGKILL:
            assert not left_behind(bed, data) and bed.value() == 128, left_behind(bed, data)
        assert not model.exists() and abs(free_bytes(bed) - before) < 1 << 20
    subprocess.run([str(LINNET), "tune", "restore"], check=True, stdout=subprocess.DEVNULL)
    assert bed.value() == 128
    for group in GROUPS.glob("**/linnet-calibrate-*"):
        group.rmdir()


def refuses_what_it_cannot_do(bed: Bed, data: Path, log: Path) -> None:
    """No space, another device's directory, a running tuner: one line, status 1 or 2, and nothing is written."""
    model = log.with_suffix(".linnet")
    words = [str(LINNET), "tune", "calibrate", bed.device, "-o", str(model), *SHORT]

    def said(*more: str) -> str:
        done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr and not model.exists(), done
        return done.stderr

    # The message may be folded inside a box.
    assert "is on" in said("--directory", "/usr")
    with tuner(bed, log):
        assert "another tuner runs" in said()
    full = bed.root / "full"
    with full.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free_bytes(bed) - (200 << 20), 1 << 20))
    try:
        assert "make room" in said()
    finally:
        full.unlink()
