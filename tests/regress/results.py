# SPDX-License-Identifier: MIT OR Apache-2.0
"""Computes exact results of a small grid: synthetic workloads x drives x policies x parts of the model.

    .venv/bin/python tests/regress/results.py            compare with results.csv
    .venv/bin/python tests/regress/results.py --accept   write results.csv again (`make regress`)

Virtual time is exact, so every machine computes the same integers. A change of the SSD model, of training, of a policy
or of the array changes rows. If the change is intended, its author accepts the rows; reviewers see them in the diff.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from linnet import Experiment, FitSettings, Model, Setup, policies
from linnet._native import quantiles_ns, synth
from model_parts import trees_alone, without_trees

FILE = Path(__file__).with_name("results.csv")
SEED = 1
SECONDS = {"az-c": 3.0, "bs-e": 1.75}
"""Workloads of LinnOS's Table 1, and the length of each period: about 2,000 I/Os for each of the three drives."""
PRESETS = ("consumer-deep", "enterprise-wide", "sata", "970-evo")
CELLS = tuple(itertools.product(SECONDS, PRESETS))
ASK_A_MODEL = ("linnos", "linnos+hl", "linnos+h99", "linnet-best", "linnet-expected", "linnet+hl")
"""These also run with each part of the model alone. The others use at most its thresholds, which every part has."""
KEY = ("workload", "preset", "policy", "model")
COUNTERS = (
    "submits",
    "extra_io",
    "revokes",
    "forced_submits",
    "failovers",
    "hedges",
    "hedges_won",
    "probes",
    "false_submits",
    "false_revokes",
)
COLUMNS = (
    *KEY,
    "reads",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    *COUNTERS,
    "waf_ppm",
    "latencies_crc32",
    "models_crc32",
)
ADVICE = """\
If the change is not meant, it is a regression. If it is meant: `make regress` writes the new rows,
`git diff tests/regress/results.csv` shows them, and the commit that has them says why they change.
"""

Row = dict[str, str]


def experiment(workload: str, preset: str, seed: int) -> Experiment:
    """Three drives, one period for training and one for evaluation."""
    seconds = SECONDS[workload]
    train, test = (synth(workload, seconds, 3, 2 * seed + period) for period in (0, 1))
    setup = Setup(preset=preset, seed=seed, fit=FitSettings(epochs=2))
    made = Experiment(train, setup, workload, test=test)
    made.learn()
    return made


def row(made: Experiment, policy: str, part: str, models: Sequence[Model]) -> Row:
    """The results of a policy with these models, as integers."""
    setup = made.setup
    run = made.array.run(made.test_part, policy, models, seed=setup.seed, failover_ns=setup.failover_ns)
    latency_ns, counters = run.latency_ns(), run.counters()
    p50, p99, p999 = quantiles_ns(np.sort(latency_ns), [0.5, 0.99, 0.999])
    waf_ppm = max(round(1e6 * drive["waf"]) for drive in run.device_stats())
    values = (
        *(made.name, setup.preset, policy, part),
        *(len(latency_ns), int(latency_ns.sum()) // len(latency_ns), p50, p99, p999),
        *(counters[name] for name in COUNTERS),
        *(waf_ppm, f"{zlib.crc32(latency_ns.tobytes()):08x}"),
        f"{zlib.crc32(b''.join(model.to_bytes() for model in models)):08x}",
    )
    return dict(zip(COLUMNS, map(str, values), strict=True))


def cell(workload: str, preset: str, seed: int = SEED) -> Iterator[Row]:
    """The rows of every policy on one workload and type of drive."""
    made = experiment(workload, preset, seed)
    both = [fitted.model for fitted in made.fitted if fitted]
    parts = {"both": both, "network": [*map(without_trees, both)], "trees": [*map(trees_alone, both)]}
    for policy in policies():
        for part, models in parts.items():
            if part == "both" or policy in ASK_A_MODEL:
                yield row(made, policy, part, models)


def computed(cells: Iterable[tuple[str, str]] = CELLS) -> list[Row]:
    """The rows of these workloads on these types of drive, in the order of the file."""
    return [row for one in cells for row in cell(*one)]


def recorded(file: Path = FILE) -> list[Row]:
    """The rows that were accepted last."""
    with file.open(newline="") as source:
        return list(csv.DictReader(source))


def as_csv(rows: Sequence[Row]) -> str:
    """The text of the file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def differences(old: Sequence[Row], new: Sequence[Row]) -> list[str]:
    """A line for each row that was added, removed or changed."""
    before, after = ({tuple(one[name] for name in KEY): one for one in rows} for rows in (old, new))
    lines = [f"{' '.join(key)}: the row is gone" for key in before if key not in after]
    for key, one in after.items():
        if key not in before:
            lines.append(f"{' '.join(key)}: the row is new")
            continue
        changed = [
            f"{name} {before[key].get(name)} -> {one[name]}" for name in COLUMNS if before[key].get(name) != one[name]
        ]
        if changed:
            lines.append(f"{' '.join(key)}: {', '.join(changed)}")
    return lines


def report(lines: Sequence[str], shown: int = 20) -> str:
    """The differences, and what to do about them."""
    rest = [f"... and {len(lines) - shown} more"] if len(lines) > shown else []
    return "\n".join([f"tests/regress/results.csv: {len(lines)} rows differ", *lines[:shown], *rest, ADVICE])


def main() -> int:
    """Compare, or accept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="write results.csv again")
    args = parser.parse_args()
    rows = computed()
    lines = differences(recorded() if FILE.exists() else [], rows)
    if args.accept:
        FILE.write_text(as_csv(rows))
        print(f"{FILE}: {len(rows)} rows, {len(lines)} of them changed")
        return 0
    print(report(lines) if lines else f"{len(rows)} rows as in {FILE}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
