# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trains the models of readahead_grid.py: ours and KML's, on the same runs of the same four workloads."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bed import Bed
from linnet import _native
from linnet._native import KnobModel
from linnet.readahead import fitting
from linnet.readahead.sweep import ADDED, Run, Sweep
from linnet.studies.kml.events import Indices, Pipe, pipe
from linnet.studies.kml.features import features
from linnet.studies.kml.tuner import CLASSES, VALUES_KIB
from rocksdb import Database

TRAINED = CLASSES
LOOK_SECONDS = 0.25
SEED = 0


class Watch:
    """Both observers, at the same time, for as long as one run takes."""

    def __init__(self, root: Path, events: Pipe, kib: int) -> None:
        self.root, self.events, self.kib = root, events, kib
        self.ready = threading.Event()
        self.windows: list[list[int]] = []
        self.rows: list[list[float]] = []
        self._end = threading.Event()

    def run(self) -> None:
        """Look four times a second; every fourth time KML's window closes."""
        # The observer belongs to the thread that makes it.
        observer = _native.TuneObserver(self.root)
        self.ready.set()
        looks: int = 0
        pending: list[Indices] = []
        while not self._end.wait(LOOK_SECONDS):
            self.windows += [counts for _, _, counts in observer.look()]
            pending.append(self.events.read())
            looks += 1
            if looks % 4 == 0:
                self._close(pending)
                pending = []

    def _close(self, pending: list[Indices]) -> None:
        row = features(np.concatenate(pending), self.kib)
        if row is not None:
            self.rows.append([float(one) for one in row])

    def stop(self) -> None:
        """End the loop."""
        self._end.set()


def train(bed: Bed, database: Database, place: Path, values_kib: Sequence[int], rounds: int, seconds: int) -> None:
    """Run the four workloads at every value, keep the windows (training.npz), and write both model files.

    The best value of a workload is the one at which the device allows most operations a second.
    """
    sweep = Sweep(bed.device)
    kml_rows: list[list[float]] = []
    kml_labels: list[int] = []
    kml_runs: list[int] = []
    for turn in range(rounds):
        for workload, how, kib in itertools.product(TRAINED, ("mmap", "pread"), values_kib):
            database.how = how
            bed.set(kib)
            bed.cold()
            run, rows = watched(bed, database, workload, kib, seconds)
            sweep.runs.append(run)
            kml_rows += rows
            kml_labels += [TRAINED.index(workload)] * len(rows)
            kml_runs += [len(sweep.runs) - 1] * len(rows)
            said = f"training {turn + 1}: {workload} {how} at {kib} KiB: {run.pages_per_s:,.0f} ops/s"
            print(said, file=sys.stderr, flush=True)
    bed.set(128)
    data = fitting.table(sweep, 128)
    scores = fitting.compare(data, SEED, 128)
    parts = fitting.choose(scores, "auto")
    decider = "tree" if parts == "tree" else "network"
    content, _ = fitting.write(data, parts, scores["by_run"][decider]["accuracy"], SEED)
    theirs = KnobModel.fit(
        np.asarray(kml_rows, dtype=np.float32),
        kml_labels,
        list(VALUES_KIB),
        parts="network",
        learning_rate=0.01,
        seed=SEED,
    )
    np.savez_compressed(
        place / "training.npz",
        rows=data.rows, label_kib=data.label_kib, rule_kib=data.rule_kib, pattern=data.pattern, run=data.run,
        share=json.dumps({p: {str(k): v for k, v in by.items()} for p, by in data.share.items()}),
        kml_rows=np.asarray(kml_rows, dtype=np.float32), kml_label=np.asarray(kml_labels),
        kml_run=np.asarray(kml_runs),
        run_pattern=np.asarray([run.pattern for run in sweep.runs]),
        run_kib=np.asarray([run.kib for run in sweep.runs]),
    )  # fmt: skip
    (place / "training.json").write_text(
        json.dumps({"held_out": scores, "parts": parts, "best_kib": sweep.best(fitting.TOLERANCE, 128)}, indent=1)
        + "\n"
    )
    (place / "kml.linnet").write_bytes(theirs.to_bytes())
    (place / "model.linnet").write_bytes(content)


def watched(bed: Bed, database: Database, workload: str, kib: int, seconds: int) -> tuple[Run, list[list[float]]]:
    """One run with both observers."""
    with pipe(bed.dev) as events:
        watch = Watch(bed.root, events, kib)
        thread = threading.Thread(target=watch.run)
        thread.start()
        watch.ready.wait(30)
        begun, before = time.monotonic(), bed.reads()
        try:
            done = database.run(bed, workload, seconds)
        finally:
            watch.stop()
            thread.join()
        took = time.monotonic() - begun
        if events.lost():
            print(f"{events.lost()} events were lost in {took:.0f} s", file=sys.stderr)
    windows = np.asarray(watch.windows, dtype=np.uint64)
    brought = float(windows[:, ADDED].sum()) / done.count if len(windows) else 0.0
    # What the device allows: with two observers and other work beside it, the rate itself says less.
    return Run(f"{workload} {database.how}", kib, done.count / bed.needed_seconds(before), windows, brought), watch.rows
