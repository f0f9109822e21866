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
from linnet.place.fitted_file import read_model
from linnet.place.profile_file import read_profile
from linnet.place.store import ProfileStore
from place_made import label_words
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


def whole_database(path: Path) -> None:
    # As a context manager a connection ends its transaction, not itself.
    file = sqlite3.connect(path)
    assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    file.close()


def whole_store(path: Path) -> None:
    with ProfileStore(path) as store:
        assert all(one.name == "in" for one in store.latest())
    whole_database(path)


def rows_of(path: Path) -> list[str]:
    """Rows of what is appended to, without a last line that was cut: that one is made again. No file has none."""
    if not path.exists():
        return []
    *whole, _ = path.read_text().split("\n")
    return [line for line in whole if line]


def stored(path: Path) -> list[str]:
    """The rows of a store."""
    if not path.exists():
        return []
    file = sqlite3.connect(path)
    # A state has drives from the moment that it has the table of them.
    (tables,) = file.execute("SELECT group_concat(name) FROM sqlite_master").fetchone()
    table = "profiles" if "profiles_by_name" in (tables or "") else "drives" if tables else None
    found = [repr(row) for row in file.execute(f"SELECT * FROM {table} ORDER BY rowid")] if table else []
    file.close()
    return found


def whole_lines(path: Path) -> None:
    assert all(json.loads(line) for line in rows_of(path))


def whole_job(path: Path) -> None:
    first, *lines = path.read_text().splitlines()
    assert first.startswith("fio version") and len(lines) >= 20_000


# The words of each command, its output, and what reads a whole one. Others write by the same writer (linnet.files); the
# state of the placement service has tests of its own, and what needs root is not here.
LABEL = label_words(runs=2, workloads=4)
ONE_DRIVE = ("--preset", "sata", "--share", "0.75")
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
    (["compare", "-t", "short.parquet", "--policy", "baseline", "--report", "page.html"], "page.html", whole_page),
    (["trace", "convert", "in.parquet", "-o", "out.iolog"], "out.iolog", whole_job),
    (["ssd", "explain", "--preset", "sata", "-w", "short.parquet", "--picture", "slow.svg"], "slow.svg", xml.parse),
    (["study", "accuracy", "-t", "in.parquet", "--model", "linnet", "--out", "rows.json"], "rows.json", whole_lines),
    (["place", "profile", "in.parquet", "-o", "profiles"], "profiles/in.json", read_profile),
    (["place", "profile", "in.parquet", "--store", "store.db"], "store.db", whole_store),
    (
        ["place", "label", *LABEL, "-o", "table.csv", "--cache", "runs"],
        "table.csv",
        whole_table,
    ),
    (["place", "fit", "tables", "-o", "place.linnet", "--cache", "fits"], "place.linnet", read_model),
    (["place", "demo", "--tenants", "12", "-o", "demo.html"], "demo.html", whole_page),
    (["whatif", "short.parquet", *ONE_DRIVE, "--report", "whatif.html"], "whatif.html", whole_page),
    (["dm", "export-trace", "--from", "events.txt", "-o", "recorded"], "recorded/dm-1.0.parquet", Trace.read),
    (["place", "drives", "--state", "state.db", "--add", "drives.toml"], "state.db", whole_database),
]


EVENTS = "".join(
    f" fio-9 [000] ..s1. 1.{i:06}: linnet_io: dev=253:1 id=0x{i:x} replica=0 leg=259:0 op=read "
    f"offset={i * 4096} size=4096 arrived_ns={1000 * i} latency_ns={500 + i} error=0\n"
    for i in range(20_000)
)
DRIVES = "".join(
    f'[[drives]]\nname = "d{i}"\nmodel = "made"\ncapacity_bytes = 100_000_000_000\nstaging = true\n' for i in range(400)
)

# What these commands append to, and its rows: a kill takes none that was there.
GROWING: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "rows.json": ("rows.json", rows_of),
    "store.db": ("store.db", stored),
    "state.db": ("state.db", stored),
    "table.csv": ("runs", rows_of),
    "place.linnet": ("fits", rows_of),
}


def test_killed_commands_leave_the_old_file_or_the_new_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}; repeat with LINNET_KILLS_SEED={SEED} LINNET_KILLS={KILLS}")
    write_trace(device_trace(reads=20_000), tmp_path / "in.parquet")
    # For commands that compute for seconds before they write.
    write_trace(device_trace(reads=2_000), tmp_path / "short.parquet")
    write_ssdiq(tmp_path / "tables", repeats=1)
    (tmp_path / "events.txt").write_text(EVENTS)
    (tmp_path / "drives.toml").write_text(DRIVES)
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
        appended, rows_in = GROWING.get(name, (name, lambda _: []))
        rows = rows_in(tmp_path / appended)
        if chance.random() < 0.3 and appended in ("runs", "fits"):
            # Cut short by an earlier kill; the next run must make what is missing, and keep the rest.
            (tmp_path / appended).write_text("".join(f"{row}\n" for row in rows[: len(rows) // 2]) + '{"key')
            rows = rows[: len(rows) // 2]
        with subprocess.Popen(
            [COMMAND, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as runs:
            time.sleep(chance.uniform(0, 1.1 * lasts[name]))
            runs.kill()
            killed += runs.wait() == -9
        if before is None and not target.exists():
            subprocess.run([COMMAND, *words], cwd=tmp_path, check=True, capture_output=True, timeout=300)
        read(target)
        assert rows_in(tmp_path / appended)[: len(rows)] == rows, f"rows of {appended} that were there are lost"
        # A kill between the link and the rename leaves a whole file under the temporary name; nothing else may be left.
        for left in target.parent.glob(".*.partial"):
            whole = left.with_name(f"left-{target.name}")
            left.rename(whole)
            read(whole)
            whole.unlink()
        if (number + 1) % 50 == 0:
            with capsys.disabled():
                print(f"{number + 1} of {KILLS} tries, {killed} killed", flush=True)
    print(f"{killed} of {KILLS} were killed; {len(lasts)} commands")
    assert killed > KILLS // 4, "the moments are too late to kill anything"
