# SPDX-License-Identifier: MIT OR Apache-2.0
"""How paths should be scored: one part of a path selector's score changed at a time, without a model.

The base keeps one average latency per path for all CPUs, of every read, always current, and multiplies it by the I/Os
in flight. Each variant changes one part; ``as NVMe proposes`` changes those that the latency policy under review for
NVMe multipath changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linnet._native import scored_paths
from linnet.experiment import Experiment
from linnet.studies.kept import NUMBER, Kinds
from linnet.studies.worth import METRICS, interval

MS = 1_000_000
BASE = "base"
VARIANTS: dict[str, dict[str, Any]] = {
    BASE: {},
    "averages of 16 CPUs": {"cpus": 16},
    "averages of 128 CPUs": {"cpus": 128},
    "five size classes": {"size_classes": True},
    "one read in 8": {"sample_every": 8},
    "one read in 64": {"sample_every": 64},
    "copied each 1 ms": {"refresh_ns": MS},
    "copied each 10 ms": {"refresh_ns": 10 * MS},
    "copied each 100 ms": {"refresh_ns": 100 * MS},
    "copied each second": {"refresh_ns": 1_000 * MS},
    "copied each 15 seconds": {"refresh_ns": 15_000 * MS},
    "average alone, lowest": {"in_flight": False},
    "average alone, by shares": {"in_flight": False, "shares": True},
    "as NVMe proposes": {"cpus": 16, "in_flight": False, "shares": True, "refresh_ns": 15_000 * MS},
}
"""Arguments of :func:`linnet._native.scored_paths` by name."""
PEERS = ("nvme-queue-depth", "nvme-latency", "dm-hst", "md-raid1", "ewma-inflight")
"""Policies that stand beside the variants."""
ROW: Kinds = {"engine": str, "variant": str, **dict.fromkeys(METRICS, NUMBER)}
"""What a row has beside its cell."""


def cell_rows(experiment: Experiment, writes: str) -> list[dict[str, Any]]:
    """A row for each variant and peer on the test part of a cell."""
    setup, array, streams = experiment.setup, experiment.array, experiment.run_part
    common = experiment.run_settings()
    runs = {name: scored_paths(array, streams, **options, **common) for name, options in VARIANTS.items()}
    runs |= {name: array.run(streams, name, [], **common) for name in PEERS}
    return [
        {
            "trace": experiment.name,
            "preset": setup.preset,
            "engine": array.engine,
            "writes": writes,
            "seed": setup.seed,
            "variant": name,
            **{metric: run.row()[metric] for metric in METRICS},
        }
        for name, run in runs.items()
    ]


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each variant and figure: the geometric mean of its ratio to the base in the same cell, with its interval.

    A ratio above 1 means that the variant is slower. Intervals are those of :func:`linnet.studies.worth.interval`.
    """
    names = ("trace", "preset", "writes", "seed", "load", "asked_rate")

    def cell(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in names)

    base = {cell(row): row for row in rows if row["variant"] == BASE}
    lines = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        own = [row for row in rows if row["variant"] == variant]
        traces, numbers = [row["trace"] for row in own], [row["seed"] for row in own]
        line: dict[str, Any] = {"variant": variant, "cells": len(own)}
        for metric in METRICS:
            logs = np.log([row[metric] / base[cell(row)][metric] for row in own])
            low, high = interval(logs, traces, numbers)
            short = metric.removesuffix("_us")
            line |= {short: float(np.exp(logs.mean())), f"{short}_low95": low, f"{short}_high95": high}
        lines.append(line)
    return lines


def table_of(lines: Sequence[dict[str, Any]]) -> str:
    """The summary as a table in Markdown."""
    metrics = [metric.removesuffix("_us") for metric in METRICS]
    text = "| score | cells | " + " | ".join(metrics) + " |\n" + "|---" * (2 + len(metrics)) + "|\n"
    for line in lines:
        values = [f"{line[m]:.3f} ({line[f'{m}_low95']:.3f} to {line[f'{m}_high95']:.3f})" for m in metrics]
        text += f"| {line['variant']} | {line['cells']} | " + " | ".join(values) + " |\n"
    return text
