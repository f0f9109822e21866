# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recorded windows of known workloads: our features and KML's of the same runs.

`bench/macro/readahead_grid.py` writes them. Keys of the archive: `rows` (n, 8), `label_kib`, `rule_kib`, `pattern`
and `run` of our rows; `kml_rows` (m, 5) and `kml_run` of KML's; `share`, JSON of the throughput of each pattern at each
value as a share of its best; `run_pattern` of each run. A pattern is a workload and how it reads: `readseq mmap`.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linnet import _native
from linnet._native import TuneError
from linnet.readahead.fitting import Table
from linnet.studies.kml import features as kml

KEYS = ("rows", "label_kib", "rule_kib", "pattern", "run", "share", "kml_rows", "kml_run", "run_pattern")


@dataclass(frozen=True)
class Recorded:
    """One set of features."""

    name: str
    features: tuple[str, ...]
    data: Table

    @property
    def workload(self) -> NDArray[np.str_]:
        """The workload of each row, without how it reads."""
        return np.asarray([str(pattern).split(" ")[0] for pattern in self.data.pattern])


def load(path: Path) -> list[Recorded]:
    """Our features and KML's, with the same labels."""
    if not zipfile.is_zipfile(path):
        raise TuneError(f"{path}: not an archive of arrays; give a training.npz of bench/macro/readahead_grid.py")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if missing := [key for key in KEYS if key not in archive]:
                raise TuneError(
                    f"{path}: no array {missing[0]!r}; give a training.npz of bench/macro/readahead_grid.py"
                )
            read = {key: archive[key] for key in KEYS}
    except (zipfile.BadZipFile, ValueError) as error:
        raise TuneError(f"{path}: {error}; give a training.npz of bench/macro/readahead_grid.py") from error
    share = {p: {int(kib): float(v) for kib, v in by.items()} for p, by in json.loads(str(read["share"])).items()}
    pattern, run = read["pattern"].astype(str), read["run"].astype(np.int64)
    label = read["label_kib"].astype(np.uint32)
    ours = Table(read["rows"].astype(np.float32), label, read["rule_kib"].astype(np.uint32), pattern, run, share)
    best = dict(zip(pattern.tolist(), label.tolist(), strict=True))
    kml_run = read["kml_run"].astype(np.int64)
    kml_pattern = read["run_pattern"].astype(str)[kml_run]
    # A pattern without a row of ours has no label.
    kept = np.asarray([name in best for name in kml_pattern], dtype=bool)
    kml_label = np.asarray([best[name] for name in kml_pattern[kept]], dtype=np.uint32)
    theirs = Table(
        read["kml_rows"].astype(np.float32)[kept],
        kml_label,
        np.zeros(int(kept.sum()), dtype=np.uint32),
        kml_pattern[kept],
        kml_run[kept],
        share,
    )
    names = tuple(_native.tune_ladder()[0])
    return [Recorded("linnet", names, ours), Recorded("kml", kml.NAMES, theirs)]
