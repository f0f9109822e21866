# SPDX-License-Identifier: MIT OR Apache-2.0
"""What it changes that trees see later slices: one real trace on three drives is cut into slices, each into halves.

    .venv/bin/python bench/macro/slices.py [--traces DIR] [--seed N,N]

Drives share their trees, so those of the first drive are fitted to training halves that come after its test half. Each
row is tested three times: as it is; with models of each drive from its own and earlier slices alone, on the same test
halves; and with the trace split by time first, and then both parts cut, which tests on other reads.
"""

from __future__ import annotations

import argparse
import copy
import sys
from statistics import geometric_mean

from compare_all import REAL
from linnet import Trace
from linnet.experiment import Experiment, Setup
from linnet.learning import Fitted, fit
from recordings import add_traces, parse_or_skip

RULE, OURS = "ewma-hedged", "linnet-best"
FIGURES = {"mean_us": "mean", "p99_us": "p99", "p999_us": "p99.9"}
CELL = " | ".join(FIGURES.values())


def earlier(experiment: Experiment) -> list[Fitted | None]:
    """A model of each drive, from the logs of its slice and of those before it."""
    setup, settings = experiment.setup, experiment.run_settings()
    parts = (experiment.train_part, experiment.test_part)
    logs, later = (experiment.array.run(part, "baseline", [], log=True, **settings).logs() for part in parts)
    return [
        fit(logs[: i + 1], setup.seed, setup.fit, shared_trees=True, test=later[: i + 1])[i] for i in range(len(logs))
    ]


def rows(trace: Trace, seed: int) -> dict[str, dict[str, float]]:
    """Ratios of figures: ours without later slices over ours; ours over the rule; the same, split by time first."""
    setup = Setup("consumer-deep", 3, seed, writes_to_all=True)
    now = Experiment(trace, setup)
    rule, ours = (outcome.row for outcome in now.compare([RULE, OURS]))
    blind = copy.copy(now)
    blind.fitted = earlier(now)
    first, second = trace.split(setup.fit.train_share)
    then_rule, then_ours = (o.row for o in Experiment(first, setup, test=second).compare([RULE, OURS]))
    (without,) = blind.compare([OURS])
    return {
        "blind": {key: without.row[key] / ours[key] for key in FIGURES},
        "now": {key: ours[key] / rule[key] for key in FIGURES},
        "time first": {key: then_ours[key] / then_rule[key] for key in FIGURES},
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_traces(parser)
    parser.add_argument("--seed", default="100,200,300,400,500", help="seeds, separated by commas")
    given = parse_or_skip(parser)
    seeds = [int(seed) for seed in given.seed.split(",")]
    found: dict[str, list[dict[str, dict[str, float]]]] = {}
    for name, (file, factors) in REAL.items():
        trace = Trace.read(given.traces / file).named(name).rerate(factors[-1])
        found[f"{name} x{factors[-1]}"] = [rows(trace, seed) for seed in seeds]
        print(f"{name}: done", file=sys.stderr)
    print(f"| trace | {OURS} without the future / as it is: {CELL} | {OURS} / {RULE}: {CELL} | time first: {CELL} |")
    print("|" + "---|" * 10)
    for name, own in found.items():
        cells = [
            f"{geometric_mean(v):.3f} ({min(v):.2f} to {max(v):.2f})"
            for kind in ("blind", "now", "time first")
            for v in ([row[kind][key] for row in own] for key in FIGURES)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    every = [row for own in found.values() for row in own]
    means = [geometric_mean(r[kind][key] for r in every) for kind in ("blind", "now", "time first") for key in FIGURES]
    print("| all | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


if __name__ == "__main__":
    main()
