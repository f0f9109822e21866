# SPDX-License-Identifier: MIT OR Apache-2.0
"""kill -9 at random moments over the commands that write: nothing is half-written, and nothing that was there is lost.

A few dozen kills here; `make kills` makes a thousand. LINNET_KILLS is their number, LINNET_KILLS_SEED their seed.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import device_trace
from linnet import Model, Trace, write_trace
from linnet._native import Device

pytestmark = pytest.mark.slow
COMMAND = str(Path(sys.executable).with_name("linnet"))
KILLS = int(os.environ.get("LINNET_KILLS", "36"))
SEED = int(os.environ.get("LINNET_KILLS_SEED", "0"))


def whole_page(path: Path) -> None:
    assert path.read_text().rstrip().endswith("</html>")


def whole_table(path: Path) -> None:
    text = path.read_text()
    assert text.endswith("\n")
    assert len({line.count(",") for line in text.splitlines()}) == 1


# The words of each command, its output, and what reads a whole one.
Case = tuple[list[str], str, Callable[[Path], object]]
CASES: list[Case] = [
    (["trace", "convert", "in.parquet", "-o", "out.parquet"], "out.parquet", Trace.read),
    (["trace", "convert", "in.parquet", "-o", "out.csv"], "out.csv", whole_table),
    (["trace", "merge", "in.parquet", "in.parquet", "-o", "merged.parquet"], "merged.parquet", Trace.read),
    (["trace", "rerate", "in.parquet", "--factor", "2", "-o", "fast.parquet"], "fast.parquet", Trace.read),
    (["trace", "synth", "az-c", "--seconds", "2", "--devices", "1", "-o", "."], "az-c.0.parquet", Trace.read),
    (["fit", "-t", "in.parquet", "-o", "out.linnet", "--epochs", "1"], "out.linnet", Model.load),
    (["ssd", "precondition", "--preset", "sata", "-o", "out.drive"], "out.drive", Device.load),
    (["ssd", "run", "--preset", "sata", "-w", "in.parquet", "-o", "log.csv"], "log.csv", whole_table),
    (["compare", "-t", "in.parquet", "--policy", "baseline", "--report", "page.html"], "page.html", whole_page),
]


def test_killed_commands_leave_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}; repeat with LINNET_KILLS_SEED={SEED} LINNET_KILLS={KILLS}")
    write_trace(device_trace(reads=20_000), tmp_path / "in.parquet")
    lasts: dict[str, float] = {}
    killed = 0
    for number in range(KILLS):
        words, name, read = CASES[number % len(CASES)]
        target = tmp_path / name
        if name not in lasts:
            begun = time.monotonic()
            subprocess.run([COMMAND, *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
            lasts[name] = time.monotonic() - begun
        before = target.read_bytes() if chance.random() < 0.7 else None
        if before is None:
            target.unlink()
        with subprocess.Popen(
            [COMMAND, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as runs:
            time.sleep(chance.uniform(0, 1.1 * lasts[name]))
            runs.kill()
            killed += runs.wait() == -9
        if before is None and not target.exists():
            subprocess.run([COMMAND, *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
        read(target)
        # A kill between the link and the rename leaves a whole file under the temporary name; nothing else may be left.
        for left in tmp_path.glob(".*.partial"):
            whole = left.with_name(f"left-{name}")
            left.rename(whole)
            read(whole)
            whole.unlink()
    assert killed > KILLS // 4, "the moments are too late to kill anything"
