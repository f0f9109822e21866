# SPDX-License-Identifier: MIT OR Apache-2.0
"""Six workloads of RocksDB x mmap and pread x two device models, under static values and three tuners.

    sudo .venv/bin/python bench/macro/readahead_grid.py DIRECTORY [--rounds 5] [--seconds 6] [--minutes N]
        [--device sata] [--how mmap] [--workload readrandom] [--setting "static 8"]

DIRECTORY holds what was measured: `runs.csv`, one line for each run, `model.linnet` and `kml.linnet`, and `table.md`. A
run that is there is not repeated, so the command continues where it was stopped; `--minutes` stops it in time.

First both models are trained on four of the workloads (readrandom, readrandomwriterandom, readseq, readreverse) on the
NVMe-like device only: ours on the observer's features with the best value of each as label, KML's network on KML's
features with the workload as label. Then every cell is run under the default (128 KiB), static values, KML's tuner, the
rule and our model, in turns within a round. In all of these RocksDB does not advise RANDOM when it opens its tables, as
it does as shipped; `--setting "as shipped"` runs that, under the default value. It is measured only where it is asked
for: a round would be longer by an eighth, and by more where its scans get no readahead. Needs root, loop devices,
control groups, db_bench and tracefs.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tune"))
from bed import MODELS, NVME, Bed, Model, bed_for_rates, tuner
from linnet._native import KnobModel
from linnet.studies.kml.tuner import tuning
from readahead_table import SHIPPED, TUNERS, table
from readahead_training import TRAINED, train
from rocksdb import Database, Done, missing

WORKLOADS = (*TRAINED, "updaterandom", "mixgraph")
HOWS = ("mmap", "pread")
STATIC_KIB = (8, 32, 128, 512, 1024)
STATIC = tuple("default 128" if kib == 128 else f"static {kib}" for kib in STATIC_KIB)
SETTINGS = (*STATIC, *TUNERS)
"""What is measured where no setting is asked for."""
KEYS = 3_000_000
MEMORY = 128 << 20
SIZE = 1400 << 20
BUFFER = 8 << 20
TRAINING_SECONDS = 4
SKIPPED = 77


@dataclass
class Run:
    """A line of runs.csv. Rates are operations a second."""

    round: int
    device: str
    how: str
    workload: str
    setting: str
    ops: float
    settled: float
    """In the second half."""
    allowed: float
    """What the device model allows with as many I/Os and bytes for each operation."""
    allowed_settled: float
    """The same in the second half; of the whole run where that was too short for halves."""
    bytes_per_op: float
    ios_per_op: float
    changes: int
    at: str


Setting = Callable[[Bed, Callable[[], Done], Path], tuple[Done, int]]


def static(kib: int) -> Setting:
    """The device at one value."""

    def run(bed: Bed, load: Callable[[], Done], _log: Path) -> tuple[Done, int]:
        bed.set(kib)
        return load(), 0

    return run


def tuned(*more: str) -> Setting:
    """Our tuner."""

    def run(bed: Bed, load: Callable[[], Done], log: Path) -> tuple[Done, int]:
        bed.set(128)
        with tuner(bed, log, *more):
            done = load()
        events = [json.loads(line) for line in log.read_text().splitlines()]
        return done, sum(event["kind"] in ("decision", "rollback") for event in events)

    return run


def kml(model: KnobModel) -> Setting:
    """KML's tuner."""

    def run(bed: Bed, load: Callable[[], Done], _log: Path) -> tuple[Done, int]:
        bed.set(128)
        with tuning(model, bed.dev, bed.knob, bed.groups[-1] / "cgroup.procs", bed.root) as running:
            return load(), len(running.changes)

    return run


def settings(place: Path) -> dict[str, Setting]:
    """Every row of a cell, by name."""
    found = dict(zip(STATIC, map(static, STATIC_KIB), strict=True))
    found["kml"] = kml(KnobModel.from_bytes((place / "kml.linnet").read_bytes()))
    found["rule"] = tuned()
    found["model"] = tuned("--model", str(place / "model.linnet"))
    found[SHIPPED] = static(128)
    return found


@contextlib.contextmanager
def beds(model: Model, database: Database) -> Iterator[Bed]:
    """The device with its database."""
    with bed_for_rates(model, MEMORY, SIZE) as bed:
        database.fill(bed)
        yield bed


@dataclass
class Wanted:
    """What of the grid is measured; nothing said of a dimension is all of it, of settings `SETTINGS`."""

    hows: list[str]
    workloads: list[str]
    settings: list[str]

    def has(self, how: str, workload: str, setting: str) -> bool:
        """Is this run asked for?"""
        pairs = ((how, self.hows), (workload, self.workloads), (setting, self.settings or SETTINGS))
        return all(not asked or value in asked for value, asked in pairs)


def measure(place: Path, device: str, rounds: int, seconds: int, until: float, wanted: Wanted) -> None:
    """Every run of a round on one device that is not there yet."""
    path = place / "runs.csv"
    there = {(row["round"], row["device"], row["how"], row["workload"], row["setting"]) for row in lines(path)}
    names = list(settings(place))
    cells = [(how, workload) for workload in WORKLOADS for how in HOWS]
    todo = [
        (how, workload, name)
        for how, workload in cells
        for name in names
        if (str(rounds), device, how, workload, name) not in there and wanted.has(how, workload, name)
    ]
    if not todo or time.monotonic() > until:
        return
    database = Database(KEYS, buffer_bytes=BUFFER)
    with beds(MODELS[device], database) as bed, tempfile.TemporaryDirectory() as logs:
        every = settings(place)
        for how, workload, name in todo:
            if time.monotonic() > until:
                return
            database.how, database.advises = how, name == SHIPPED
            bed.cold()
            before = bed.reads()
            log = Path(logs) / "events.jsonl"
            log.unlink(missing_ok=True)
            done, changes = every[name](bed, lambda w=workload: database.run(bed, w, seconds), log)
            ios, read = (now - then for now, then in zip(bed.reads(), before, strict=True))
            each, times = round(read / done.count, 1), round(ios / done.count, 5)
            allowed = half = round(done.count / max(bed.needed_seconds(before), 1e-9), 1)
            if done.half_reads is not None:
                half = round(done.half_ops / max(bed.needed_seconds(*done.half_reads), 1e-9), 1)
            settled = done.ops if done.settled is None else done.settled
            at = time.strftime("%Y-%m-%dT%H:%M:%S")
            run = Run(
                rounds,
                device,
                how,
                workload,
                name,
                done.ops,
                round(settled, 1),
                allowed,
                half,
                each,
                times,
                changes,
                at,
            )
            append(path, run)
            print(
                f"round {rounds}: {device} {how} {workload}, {name}: {done.ops:,.0f} of {allowed:,.0f} ops/s",
                file=sys.stderr,
                flush=True,
            )


def lines(path: Path) -> list[dict[str, str]]:
    """Runs so far."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, run: Run) -> None:
    """Add a run."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(run)))
        if new:
            writer.writeheader()
        writer.writerow(asdict(run))


def main() -> int:
    """Train where there are no models, measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, metavar="DIRECTORY", help="what was measured, and what will be")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each cell")
    parser.add_argument("--seconds", type=int, default=6, help="of a run")
    parser.add_argument("--training-rounds", type=int, default=1, help="runs of each cell of the training")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so many")
    parser.add_argument("--device", choices=MODELS, action="append", help="only this device model")
    parser.add_argument("--how", choices=HOWS, action="append", default=[], help="only this way of reading")
    parser.add_argument("--workload", choices=WORKLOADS, action="append", default=[], help="only this workload")
    parser.add_argument("--setting", choices=(*SETTINGS, SHIPPED), action="append", default=[], help="only this")
    parser.add_argument("--table", action="store_true", help="only write the table of what is there")
    arguments = parser.parse_args()
    place: Path = arguments.place
    # Either ends the run in order: the device, its mounts and its groups are taken down.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if not arguments.table:
        reason = missing()
        if reason:
            print(f"skipped: {reason}", file=sys.stderr)
            return SKIPPED
        place.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + 60 * arguments.minutes
        wanted = Wanted(arguments.how, arguments.workload, arguments.setting)
        if not (place / "model.linnet").exists() or not (place / "kml.linnet").exists():
            database = Database(KEYS, buffer_bytes=BUFFER)
            with beds(NVME, database) as bed:
                train(bed, database, place, STATIC_KIB, arguments.training_rounds, TRAINING_SECONDS)
        for turn in range(1, arguments.rounds + 1):
            for device in arguments.device or MODELS:
                measure(place, device, turn, arguments.seconds, until, wanted)
    text = table(lines(place / "runs.csv"))
    (place / "table.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the runs so far are kept")
