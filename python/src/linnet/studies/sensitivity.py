# SPDX-License-Identifier: MIT OR Apache-2.0
"""How much LinnOS's accuracy depends on one setting of the SSD model: the device-wide share.

A slow read is easy to predict when all dies are slow together, and hard when one die is slow by itself. So the share
determines the result. This module sweeps it: the same workload, the same seeds, every share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linnet.experiment import Experiment, Setup, periods
from linnet.report.figures import blank, svg

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Settings of ``device_wide_share`` that are swept."""
SWEPT: tuple[tuple[str, str, float], ...] = (
    ("consumer-deep", "bs-c", 600.0),
    ("consumer-deep", "az-c", 240.0),
    ("sata", "bs-c", 600.0),
    ("sata", "az-c", 240.0),
    ("enterprise-wide", "az-e", 30.0),
    ("970-evo", "bs-c", 600.0),
    ("970-evo", "az-c", 240.0),
    ("600p", "bs-c", 600.0),
    ("600p", "az-c", 240.0),
)
"""Preset, Table 1 workload, and seconds of it (half for training, half for testing)."""
MEASURES = ("realised_share", "percentile", "slow", "recall", "false_revoke", "roc_auc")
"""What :func:`point` measures, each a mean over the devices of an array."""


def point(preset: str, workload: str, seconds: float, share: float, seed: int) -> dict[str, float]:
    """Train and test one array: means over its devices, on reads of a period that was not used for training.

    ``realised_share`` is the device-wide part of the reads that internal work made slow, as the drives counted it;
    ``percentile`` the inflection point on the training period; ``slow`` the share of slow reads; ``recall`` the share
    of these that is revoked; ``false_revoke`` the share of fast reads that is revoked; ``roc_auc`` the network's.
    """
    setup = Setup(preset=preset, seed=seed, device_wide_share=share)
    train, test = periods(workload, seconds, setup)
    experiment = Experiment(train, setup, name=workload, test=test)
    reports = [fitted.report for fitted in experiment.learn() if fitted]
    drives = experiment.array.run(
        experiment.test_part, "baseline", [], seed, setup.failover_ns, setup.writes_to_all
    ).device_stats()
    wide = sum(drive["slow_device_wide"] for drive in drives)
    single = sum(drive["slow_single_die"] for drive in drives)
    evaluated = [report["biased"] for report in reports]
    found = {
        "realised_share": wide / max(wide + single, 1),
        "percentile": _mean([report["inflection"]["percentile"] for report in reports]),
        "slow": _mean([1 - j["base_rate"] for j in evaluated]),
        "recall": _mean([1 - j["false_submit"] / (1 - j["base_rate"]) for j in evaluated if j["base_rate"] < 1]),
        "false_revoke": _mean([j["false_revoke"] / j["base_rate"] for j in evaluated if j["base_rate"] > 0]),
        "roc_auc": _mean([j["roc_auc"] for j in evaluated if j["roc_auc"] is not None]),
    }
    return {name: round(found[name], 6) for name in MEASURES}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def sweep(
    swept: Sequence[tuple[str, str, float]] = SWEPT,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (1, 2, 3),
    told: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """A row for each preset, workload and share: of each measure the mean, least and most over the seeds."""
    rows = []
    for preset, workload, seconds in swept:
        for share in shares:
            points = [point(preset, workload, seconds, share, seed) for seed in seeds]
            row: dict[str, Any] = {"preset": preset, "workload": workload, "seconds": seconds, "share": share}
            for name in MEASURES:
                values = [p[name] for p in points]
                row[name] = [round(float(np.mean(values)), 6), min(values), max(values)]
            rows.append(row)
            if told is not None:
                told(row)
    return rows


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a table; in brackets the least and most over the seeds."""

    def cell(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
        mean, least, most = (f"{scale * v:.{digits}f}" for v in values)
        return f"{mean} ({least}-{most})"

    lines = [
        "| preset, workload | share | realised | inflection point, percentile | slow % | recall | false revoke "
        "| ROC-AUC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['preset']}, {row['workload']} | {row['share']:.2f} | {cell(row['realised_share'], 2)} "
        f"| {cell(row['percentile'], 1)} | {cell(row['slow'], 1, 100)} | {cell(row['recall'], 2)} "
        f"| {cell(row['false_revoke'], 3)} | {cell(row['roc_auc'], 2)} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def figure(rows: Sequence[dict[str, Any]]) -> str:
    """Inflection point, recall and ROC-AUC against the share as SVG; bars reach from the least to the most seed."""
    picture = blank(9.6, 4.0)
    panels = (("percentile", "inflection point, percentile"), ("recall", "recall"), ("roc_auc", "ROC-AUC"))
    for axes, (name, label) in zip(picture.subplots(1, 3), panels, strict=True):
        for preset, workload in dict.fromkeys((row["preset"], row["workload"]) for row in rows):
            line = [row for row in rows if (row["preset"], row["workload"]) == (preset, workload)]
            mean, least, most = np.asarray([row[name] for row in line]).T
            axes.errorbar(
                [row["share"] for row in line],
                mean,
                yerr=[mean - least, most - mean],
                capsize=2,
                linewidth=1.3,
                elinewidth=0.7,
                label=f"{preset}, {workload}",
            )
        axes.set_xlabel("device_wide_share")
        axes.set_ylabel(label)
    lines, names = picture.axes[0].get_legend_handles_labels()
    picture.legend(lines, names, loc="outside lower center", ncols=5, fontsize=7, frameon=False)
    return svg(picture)
