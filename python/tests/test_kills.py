# SPDX-License-Identifier: MIT OR Apache-2.0
"""kill -9 at random moments over the commands that write: nothing is half-written, and nothing that was there is lost.

A few dozen kills here; `make kills` makes a thousand. LINNET_KILLS is their number, LINNET_KILLS_SEED their seed.
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import device_trace
from linnet import Model, Trace, write_trace
from linnet._native import Device
from linnet.place.fitted import read_model
from linnet.place.profile_file import read_profile
from linnet.place.store import ProfileStore
from place_tables import write_ssdiq

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


def whole_store(path: Path) -> None:
    with ProfileStore(path) as store:
        assert all(one.name == "in" for one in store.latest())
    # As a context manager a connection ends its transaction, not itself.
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()


def whole_lines(path: Path) -> None:
    """Rows are appended: a cut last line is the one that was being written, and is made again."""
    *whole, _ = path.read_text().split("\n")
    assert all(json.loads(line) for line in whole)


def whole_job(path: Path) -> None:
    first, *lines = path.read_text().splitlines()
    assert first.startswith("fio version") and len(lines) >= 20_000


# The words of each command, its output, and what reads a whole one. Others write by the same writer (linnet.files); the
# state of the placement service has tests of its own, and what needs root is not here.
LABEL = [
    "--drive",
    "sata",
    "--runs",
    "2",
    "--workloads",
    "4",
    "--tenants",
    "2-4",
    "--seconds",
    "0.1",
    "--warm-seconds",
    "0.02",
]
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
    (["trace", "convert", "in.parquet", "-o", "out.iolog"], "out.iolog", whole_job),
    (["ssd", "explain", "--preset", "sata", "-w", "in.parquet", "--picture", "slow.svg"], "slow.svg", xml.parse),
    (["study", "accuracy", "-t", "in.parquet", "--model", "linnet", "--out", "rows.json"], "rows.json", whole_lines),
    (["place", "profile", "in.parquet", "-o", "profiles"], "profiles/in.json", read_profile),
    (["place", "profile", "in.parquet", "--store", "store.db"], "store.db", whole_store),
    (["place", "label", *LABEL, "-o", "table.csv", "--cache", "runs"], "table.csv", whole_table),
    (["place", "fit", "tables", "-o", "place.linnet", "--cache", "fits"], "place.linnet", read_model),
    (["place", "demo", "--tenants", "12", "-o", "demo.html"], "demo.html", whole_page),
]


def test_killed_commands_leave_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}; repeat with LINNET_KILLS_SEED={SEED} LINNET_KILLS={KILLS}")
    write_trace(device_trace(reads=20_000), tmp_path / "in.parquet")
    write_ssdiq(tmp_path / "tables", repeats=1)
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
            # A database may have a log beside it.
            for old in target.parent.glob(f"{target.name}*"):
                old.unlink()
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
        for left in target.parent.glob(".*.partial"):
            whole = left.with_name(f"left-{target.name}")
            left.rename(whole)
            read(whole)
            whole.unlink()
    print(f"{killed} of {KILLS} were killed; {len(lasts)} commands")
    assert killed > KILLS // 4, "the moments are too late to kill anything"
