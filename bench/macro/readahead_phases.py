# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads one after another in one process, and two at the same time on one device.

    sudo .venv/bin/python bench/macro/readahead_phases.py DIRECTORY [--rounds 3] [--seconds 8] [--model M.linnet]

*Timeline*: one db_bench runs readrandom, readseq, readrandom, readreverse and mixgraph back to back, through mappings
and on files that stay open, on the NVMe-like device. `timeline.json` has the rate of every second, when each benchmark
began, and the changes; a benchmark is followed when the first of its files has a value that suits it.

*Mixed*: one db_bench reads at random, another scans a database of its own, at the same time. The tuner sets files
(`--scope files`), or devices only. `mixed.json` has both rates.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tune"))
from bed import NVME, Bed, bed_for_rates, tuner
from linnet.report.figures import blank, svg
from rocksdb import IN_ORDER, MIXGRAPH, Database, missing

PHASES = ("readrandom", "readseq", "readrandom", "readreverse", "mixgraph")
KEYS = 3_000_000
MEMORY = 128 << 20
SIZE = 1400 << 20
DEFAULT_KIB = 128
SKIPPED = 77
REPORT = re.compile(r"\((\d+),(\d+)\) ops and \([^)]*\) ops/second in \(([\d.]+),([\d.]+)\) seconds")


@dataclass
class Timeline:
    """One run: (seconds since the start, operations a second), the starts of phases, and the tuner's changes."""

    setting: str
    rates: list[tuple[float, float]] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)

    def followed(self) -> list[tuple[str, float]]:
        """Phases in which a file got a value that suits the phase, and seconds from its start until the first did.

        A change caused by the previous phase may come after that phase has ended. Its value suits that phase and not
        this one, so it does not count.
        """
        starts = [*self.phases, (float("inf"), "")]
        found = []
        for (begun, name), (end, _) in itertools.pairwise(starts):
            suits = [c["t"] for c in self.changes if (c["to_kib"] >= DEFAULT_KIB) == (name in IN_ORDER)]
            within = [at for at in suits if begun <= at < end]
            found += [(name, round(min(within) - begun, 2))] if within else []
        return found


def words(database: Database, bed: Bed, folder: str, benchmarks: tuple[str, ...], seconds: int) -> list[str]:
    """Benchmarks in one process. Random ones end after ``seconds``, sequential ones at the end of the data."""
    limit = ("--use_existing_db=1", "--stats_interval_seconds=1", f"--duration={seconds}", f"--reads={10**9}")
    return database.words(bed, folder, ",".join(benchmarks), *limit, *MIXGRAPH)


@contextlib.contextmanager
def tuned(bed: Bed, log: Path, more: list[str] | None) -> Iterator[None]:
    """The tuner with these options, or none."""
    bed.set(128)
    if more is None:
        yield
    else:
        with tuner(bed, log, *more):
            yield


def timeline(bed: Bed, database: Database, setting: str, more: list[str] | None, seconds: int, log: Path) -> Timeline:
    """All phases once. A phase ends when db_bench prints its figure, and the next begins at once."""
    found = Timeline(setting)
    ends: list[float] = []
    bed.cold()
    with tuned(bed, log, more):
        begun = time.time()
        process = bed.start(words(database, bed, "db", PHASES, seconds))

        def note_ends() -> None:
            assert process.stdout is not None
            ends.extend(time.time() - begun for line in process.stdout if " micros/op " in line)

        drain = threading.Thread(target=note_ends)
        drain.start()
        first = None
        assert process.stderr is not None
        for line in process.stderr:
            if report := REPORT.search(line):
                now = time.time() - begun
                first = now - float(report[4]) if first is None else first
                found.rates.append((round(now, 3), round(int(report[1]) / max(float(report[3]), 1e-9), 1)))
        process.wait()
        drain.join()
    if process.returncode or first is None or len(ends) != len(PHASES):
        raise RuntimeError(f"db_bench: status {process.returncode}, {len(ends)} of {len(PHASES)} benchmarks")
    found.phases = [(round(at, 3), name) for at, name in zip([first, *ends[:-1]], PHASES, strict=True)]
    if more is not None:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        for event in events:
            if event["kind"] in ("decision", "rollback"):
                kept = {key: event[key] for key in ("file", "from_kib", "to_kib", "why")}
                found.changes.append({**kept, "t": round(event["t"] - begun, 3)})
    return found


def mixed(bed: Bed, database: Database, more: list[str] | None, seconds: int, log: Path) -> dict[str, float]:
    """Both at the same time, each on its own database; operations a second of each."""
    bed.cold()
    with tuned(bed, log, more):
        running = {}
        # A scan ends with the data, so it is repeated until the time is over.
        for benchmark, folder, times in (("readrandom", "db", 1), ("readseq", "other", 200)):
            command = words(database, bed, folder, (benchmark,) * times, 2 * seconds)
            running[benchmark] = bed.start(["timeout", str(seconds), *command])
        rates = {}
        for benchmark, process in running.items():
            out, err = process.communicate()
            reports = REPORT.findall(out + err)
            rates[benchmark] = sum(int(one) for one, *_ in reports) / max(sum(float(t) for _, _, t, _ in reports), 1e-9)
    return rates


def draw(runs: list[Timeline], figure: Path) -> None:
    """Rates over time, one panel for each setting; marks where a file's value changed."""
    page = blank(9, 2.2 * len(runs))
    panels = page.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for panel, run in zip(panels, runs, strict=True):
        panel.semilogy([at for at, _ in run.rates], [max(rate, 1) for _, rate in run.rates], marker=".", lw=1)
        for number, (at, name) in enumerate(run.phases):
            panel.axvline(at, color="0.7", lw=0.8)
            # A scan is shorter than its name.
            panel.annotate(name, (at, 1.02 + 0.08 * (number % 2)), xycoords=("data", "axes fraction"), fontsize=8)
        changed = sorted({round(change["t"], 1) for change in run.changes})
        panel.plot(changed, [0.03] * len(changed), "|", color="tab:red", transform=panel.get_xaxis_transform())
        panel.set_ylabel(f"{run.setting}\nops/s")
    panels[-1].set_xlabel("seconds; red: a file's readahead was changed")
    figure.write_text(svg(page))


def main() -> int:
    """Run both parts, write their files and print what matters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, metavar="DIRECTORY", help="where results go")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8, help="of each phase")
    parser.add_argument("--model", type=Path, help="a model file, for rows beside the rule's")
    parser.add_argument("--figure", type=Path, help="write the first round of the timeline to this .svg")
    arguments = parser.parse_args()
    reason = missing()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return SKIPPED
    arguments.place.mkdir(parents=True, exist_ok=True)
    decide = ["--model", str(arguments.model)] if arguments.model else None
    over_time: dict[str, list[str] | None] = {"default": None, "rule": []}
    at_once: dict[str, list[str] | None] = {"default": None, "rule, files": ["--scope", "files"]}
    at_once["rule, devices only"] = ["--scope", "devices"]
    if decide:
        over_time["model"] = decide
        at_once["model, files"] = [*decide, "--scope", "files"]
    database = Database(KEYS, buffer_bytes=8 << 20)
    runs: list[Timeline] = []
    rates: dict[str, list[dict[str, float]]] = {name: [] for name in at_once}
    with bed_for_rates(NVME, MEMORY, SIZE) as bed, tempfile.TemporaryDirectory() as place:
        database.fill(bed)
        log = Path(place) / "events.jsonl"
        for turn in range(arguments.rounds):
            for name, more in over_time.items():
                runs.append(timeline(bed, database, name, more, arguments.seconds, log))
                print(f"round {turn + 1}: {name}: followed after {runs[-1].followed()} s", file=sys.stderr, flush=True)
        os.rename(bed.root / "db", bed.root / "other")
        database.fill(bed)
        for turn in range(arguments.rounds):
            for name, more in at_once.items():
                rates[name].append(mixed(bed, database, more, arguments.seconds, log))
                print(f"round {turn + 1}: mixed, {name}: {rates[name][-1]}", file=sys.stderr, flush=True)
    timelines = [{"setting": r.setting, "rates": r.rates, "phases": r.phases, "changes": r.changes} for r in runs]
    (arguments.place / "timeline.json").write_text(json.dumps(timelines, indent=1) + "\n")
    (arguments.place / "mixed.json").write_text(json.dumps(rates, indent=1) + "\n")
    if arguments.figure:
        draw(runs[: len(over_time)], arguments.figure)
    waits = {name: [wait for run in runs if run.setting == name for _, wait in run.followed()] for name in over_time}
    print("| tuner | changes followed | median, s | longest, s |\n|---|---|---|---|")
    for name, found in waits.items():
        if found:
            print(f"| {name} | {len(found)} | {statistics.median(found):.2f} | {max(found):.2f} |")
    print("\n| setting | readrandom, ops/s | readseq, ops/s |\n|---|---|---|")
    for name, every in rates.items():
        both = [statistics.median(one[key] for one in every) for key in ("readrandom", "readseq")]
        print(f"| {name} | {both[0]:,.0f} | {both[1]:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
