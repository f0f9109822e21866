# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the readahead tuner brings, on a throttled device: kernel default, every static value, and the tuner.

    sudo .venv/bin/python bench/macro/readahead.py [--quick] [--model nvme|sata] [--out FILE.json]

Rows of workload x setting: operations per second and bytes per operation, medians of the rounds with their spread.
Settings take turns within a round, so that a disturbance of the machine meets them all. The best static value of each
workload is the oracle. `--quick` takes about three minutes. Needs root, loop devices, control groups and, for the rows
of RocksDB, db_bench (Debian: rocksdb-tools).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "tune"))
from bed import MODELS, Bed, Model, bed_for_rates, missing, tuner
from rocksdb import Database

READER = Path(__file__).resolve().parents[2] / "tests" / "tune" / "reader.py"
DEFAULT_KIB = 128
HUGE_KIB = 65_536
SKIPPED = 77


@dataclass
class Outcome:
    """One run."""

    ops: float
    bytes_per_op: float
    settled: float | None = None
    """Operations per second in the second half."""
    events: int = 0
    left_kib: int | None = None


@dataclass
class Row:
    """All runs of a workload under a setting."""

    workload: str
    setting: str
    runs: list[Outcome] = field(default_factory=list)

    def ops(self) -> float:
        """Median."""
        return statistics.median(run.ops for run in self.runs)

    def settled(self) -> float:
        """Median of the second halves, or of the whole where there are none."""
        return statistics.median(run.ops if run.settled is None else run.settled for run in self.runs)

    def bytes_per_op(self) -> float:
        """Median."""
        return statistics.median(run.bytes_per_op for run in self.runs)

    def spread(self) -> float:
        """Half the range over the median."""
        values = [run.ops for run in self.runs]
        return (max(values) - min(values)) / 2 / self.ops()


Load = Callable[[Bed], Outcome]
Setting = Callable[[Bed, Load, Path], Outcome]


def reading(path: str, how: str, order: str, seconds: float) -> Load:
    """Our reader on a file."""

    def load(bed: Bed) -> Outcome:
        before = bed.read_bytes()
        out = bed.run([sys.executable, str(READER), str(bed.root / path), how, order, str(seconds)])
        points = [tuple(map(float, line.split())) for line in out.splitlines()]
        took, done = points[-1]
        half = next(point for point in points if point[0] >= took / 2)
        settled = (done - half[1]) / (took - half[0]) if took > half[0] else None
        return Outcome(done / took, (bed.read_bytes() - before) / done, settled)

    return load


def benchmark(database: Database, name: str, seconds: int) -> Load:
    """One benchmark of db_bench. What reads everything in order ends with the data; the others with the time."""

    def load(bed: Bed) -> Outcome:
        before = bed.read_bytes()
        done = database.run(bed, name, seconds)
        return Outcome(done.ops, (bed.read_bytes() - before) / done.count, done.settled)

    return load


@contextlib.contextmanager
def rewriting(bed: Bed, kib: int, every: float) -> Iterator[None]:
    """Something that sets the device again and again, as storage drivers do."""
    end = threading.Event()

    def work() -> None:
        while not end.wait(every):
            bed.set(kib)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def static(kib: int) -> Setting:
    """The device at one value."""

    def run(bed: Bed, load: Load, _log: Path) -> Outcome:
        bed.set(kib)
        return load(bed)

    return run


def tuned(base_kib: int, every: float | None = None) -> Setting:
    """The tuner, on a device that has `base_kib`; with something that rewrites it `every` so many seconds."""

    def run(bed: Bed, load: Load, log: Path) -> Outcome:
        bed.set(base_kib)
        with tuner(bed, log), rewriting(bed, base_kib, every) if every else contextlib.nullcontext():
            outcome = load(bed)
        events = [json.loads(line) for line in log.read_text().splitlines()]
        outcome.events = sum(event["kind"] in ("decision", "rollback") for event in events)
        outcome.left_kib = bed.value()
        return outcome

    return run


def measure(bed: Bed, loads: dict[str, Load], settings: dict[str, Setting], rounds: int, logs: Path) -> list[Row]:
    """Every workload under every setting, in turns."""
    rows = {(w, s): Row(w, s) for w in loads for s in settings}
    for turn in range(rounds):
        for workload, load in loads.items():
            for name, setting in settings.items():
                bed.cold()
                outcome = setting(bed, load, logs / f"{workload}-{name}-{turn}.jsonl".replace(" ", "_"))
                rows[workload, name].runs.append(outcome)
                print(f"round {turn + 1}: {workload}, {name}: {outcome.ops:,.0f} ops/s", file=sys.stderr, flush=True)
    return list(rows.values())


def show(rows: list[Row], base: str) -> None:
    """A table per workload, with the shares that matter."""
    print("| workload | setting | ops/s | spread | second half | of best static | of default | bytes/op | of default |")
    print("|---|---|---|---|---|---|---|---|---|")
    for workload in dict.fromkeys(row.workload for row in rows):
        group = [row for row in rows if row.workload == workload]
        best = max((row for row in group if not row.setting.startswith("tuner")), key=Row.ops)
        first = next(row for row in group if row.setting == base)
        for row in group:
            print(
                f"| {row.workload} | {row.setting}{' (best)' if row is best else ''} | {row.ops():,.0f} "
                f"| ±{100 * row.spread():.0f} % | {row.settled():,.0f} | {row.ops() / best.ops():.2f} "
                f"(settled {row.settled() / best.settled():.2f}) | {row.ops() / first.ops():.2f} "
                f"| {row.bytes_per_op():,.0f} | 1/{first.bytes_per_op() / max(row.bytes_per_op(), 1e-9):.1f} |"
            )


def as_json(part: str, rows: list[Row]) -> list[dict[str, Any]]:
    """Rows for the record."""
    return [
        {
            "part": part,
            "workload": row.workload,
            "setting": row.setting,
            "ops_median": row.ops(),
            "ops_settled_median": row.settled(),
            "spread": row.spread(),
            "bytes_per_op": row.bytes_per_op(),
            "runs": [vars(run) for run in row.runs],
        }
        for row in rows
    ]


@dataclass
class Plan:
    """How much is measured, and where the tuner's events go."""

    quick: bool
    model: Model
    rounds: int
    seconds: float
    logs: Path
    load: str = ""

    def kept(self, loads: dict[str, Load]) -> dict[str, Load]:
        """The workloads that were asked for."""
        return {name: load for name, load in loads.items() if self.load in name}

    def sweep(self) -> dict[str, Setting]:
        """Static values, and the tuner on the default."""
        values = (8, 128) if self.quick else (8, 16, 32, 128, 512, 1024)
        static_ones = {("default 128" if kib == DEFAULT_KIB else f"static {kib}"): static(kib) for kib in values}
        return static_ones | {"tuner": tuned(DEFAULT_KIB)}


def reader_part(plan: Plan) -> list[Row]:
    """Our reader on one file."""
    memory, data = (64 << 20, 600 << 20) if plan.quick else (200 << 20, 1600 << 20)
    with bed_for_rates(plan.model, memory, data + (data >> 2)) as bed:
        bed.fill("data", data)
        cells = [("mmap", "random"), ("mmap", "seq"), ("mmap", "reverse"), ("pread", "random"), ("pread", "seq")]
        kept = cells[: 2 if plan.quick else 5]
        loads = {f"{how} {order}": reading("data", how, order, plan.seconds) for how, order in kept}
        return measure(bed, plan.kept(loads), plan.sweep(), plan.rounds, plan.logs)


def files_part(plan: Plan) -> list[Row]:
    """As many files as a large database has, so that each is read seldom."""
    count, each, memory = (200, 2 << 20, 64 << 20) if plan.quick else (1000, 3 << 19, 200 << 20)
    with bed_for_rates(plan.model, memory, count * each + (count * each >> 2)) as bed:
        (bed.root / "files").mkdir()
        for number in range(count):
            bed.fill(f"files/{number:04}", each)
        settings = {"default 128": static(DEFAULT_KIB), "static 8": static(8), "tuner": tuned(DEFAULT_KIB)}
        loads = {
            f"{count} files, mmap {order}": reading("files", "mmap", order, plan.seconds) for order in ("random", "seq")
        }
        return measure(bed, plan.kept(loads), settings, plan.rounds, plan.logs)


def huge_part(plan: Plan) -> list[Row]:
    """A device that some machine's image set to 64 MiB, and something that sets it again and again."""
    # With less memory than a few such reads need the reader is killed.
    with bed_for_rates(plan.model, 200 << 20, (1200 if plan.quick else 1600) << 20) as bed:
        bed.fill("data", (1000 if plan.quick else 1300) << 20)
        settings = {f"default {HUGE_KIB}": static(HUGE_KIB), "static 8": static(8)}
        if not plan.quick:
            settings["static 128"] = static(DEFAULT_KIB)
        settings |= {"tuner": tuned(HUGE_KIB), "tuner, rewritten": tuned(HUGE_KIB, 5 if plan.quick else 60)}
        loads = {
            "mmap random": reading("data", "mmap", "random", max(plan.seconds, 8 if plan.quick else 130)),
            "mmap seq": reading("data", "mmap", "seq", plan.seconds),
        }
        return measure(bed, plan.kept(loads), settings, plan.rounds, plan.logs)


def rocksdb_part(plan: Plan) -> list[Row]:
    """RocksDB with mappings, and without its advice, which hides the device's value."""
    if shutil.which("db_bench") is None:
        print("skipped: RocksDB: no db_bench here (Debian: rocksdb-tools)", file=sys.stderr)
        return []
    database = Database(3_000_000 if plan.quick else 8_000_000)
    memory, size = (64 << 20, 1000 << 20) if plan.quick else (300 << 20, 2600 << 20)
    with bed_for_rates(plan.model, memory, size) as bed:
        database.fill(bed)
        names = ["readrandom", "readseq"] if plan.quick else ["readrandom", "readseq", "readreverse", "mixgraph"]
        loads = {name: benchmark(database, name, int(plan.seconds)) for name in names}
        return measure(bed, plan.kept(loads), plan.sweep(), plan.rounds, plan.logs)


PARTS = {"reader": reader_part, "files": files_part, "huge": huge_part, "rocksdb": rocksdb_part}


def main() -> int:
    """Measure, print tables and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer values, one round, short runs")
    parser.add_argument("--model", choices=MODELS, default="nvme", help="device")
    parser.add_argument("--rounds", type=int, help="runs of each cell (5; quick: 1)")
    parser.add_argument("--seconds", type=float, help="of a run (20; quick: 4)")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--load", default="", help="only workloads whose name has this")
    parser.add_argument("--out", type=Path, help="write every run as JSON")
    arguments = parser.parse_args()
    reason = missing()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        return SKIPPED
    quick = arguments.quick
    rounds, seconds = arguments.rounds or (1 if quick else 5), arguments.seconds or (4 if quick else 20)
    model = MODELS[arguments.model]
    record: list[dict[str, Any]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="linnet-readahead-") as place:
        plan = Plan(quick, model, rounds, seconds, Path(place), arguments.load)
        for name, part in PARTS.items():
            if arguments.only in (None, name):
                rows = part(plan)
                print()
                show(rows, "default 65536" if name == "huge" else "default 128")
                record += as_json(name, rows)
    took = time.monotonic() - begun
    head = {
        "model": vars(model),
        "rounds": rounds,
        "seconds": seconds,
        "took_s": round(took),
        "kernel": platform.release(),
    }
    print(f"\n{model.name}, {rounds} rounds of {seconds:g} s, {took:.0f} s in all")
    if arguments.out:
        arguments.out.write_text(json.dumps(head | {"command": " ".join(sys.argv), "rows": record}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
