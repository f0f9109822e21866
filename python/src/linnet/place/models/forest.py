# SPDX-License-Identifier: MIT OR Apache-2.0
"""The gray-box paper's forest (Jaliminche et al., SoCC 2023), and Park et al.'s weighted-mean features in it.

100 trees, seed 42, one forest for each target. The tables' I/Os are all aligned and their loads are steady, so of the
paper's features (Table 9) sizes, rates, bandwidths, depths and the neighbours' operation remain; drives are told apart
by their data sheets, since the paper's one forest for each drive type could say nothing of another drive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linnet.extras import require
from linnet.place.observations import PAGE, Floats, Observations
from linnet.tables import COST_MODEL, SHEET

TREES = 100
SEED = 42
UNKNOWN = -1.0
"""Stands for a figure that a data sheet does not have."""


class Forest:
    """The paper's: own features, and an aggregate of the others in which rates, bandwidths and depths are sums."""

    def __init__(self, seed: int = SEED) -> None:
        require("place", "a forest")
        self._seed = seed
        self._forests: list[Any] = []

    def features(self, rows: Observations) -> Floats:
        """(n, features)."""
        return graybox_features(rows)

    def fit(self, train: Observations) -> None:
        """Learn each target from all rows that have it."""
        from sklearn.ensemble import RandomForestRegressor

        inputs = self.features(train)
        told = np.isfinite(train.outcomes)
        self._forests = [
            RandomForestRegressor(n_estimators=TREES, random_state=self._seed, n_jobs=1).fit(
                inputs[told[:, target]], train.outcomes[told[:, target], target]
            )
            if told[:, target].any()
            else None
            for target in range(len(train.targets))
        ]

    def predict(self, rows: Observations) -> tuple[Floats, Floats]:
        """See :class:`linnet.place.models.model.Model`. The spread is 1: a forest does not say where it is unsure."""
        inputs = self.features(rows)
        unknown = np.full(len(rows), np.nan)
        mean = np.stack([forest.predict(inputs) if forest else unknown for forest in self._forests], 1)
        return mean, np.ones_like(mean)


class WeightedMean(Forest):
    """Park et al.: features of the others are means weighted by rate, so their number does not enter as a sum."""

    def features(self, rows: Observations) -> Floats:
        """(n, features)."""
        return weighted_mean_features(rows)


def _columns(*columns: Floats) -> Floats:
    return np.nan_to_num(np.column_stack(columns), nan=UNKNOWN, posinf=UNKNOWN)


def _others(known: dict[str, Floats], op: str) -> tuple[Floats, Floats]:
    """Operations and bytes per second that the others offer, each I/O with the pages of 4 KiB that it touches."""
    own = known[f"own_{op}_iops"]
    own_pages = own * np.ceil(known["size_bytes"] / PAGE)
    return known[f"all_{op}_iops"] - own, (known[f"all_{op}_pages"] - own_pages) * PAGE


def graybox_features(rows: Observations) -> Floats:
    """Sums over the others."""
    known = rows.inputs
    if rows.source == "ssdiq":
        (reads, read_bytes), (writes, write_bytes) = (_others(known, op) for op in ("read", "write"))
        own = (known["own_read_iops"], known["own_write_iops"], known["own_depth"], known["size_bytes"])
        others = (reads, writes, read_bytes, write_bytes)
        return _columns(*own, *others, known["depth"] - known["own_depth"], *(known[name] for name in SHEET))
    if rows.source == "icpe":
        kib = np.where(known["neighbours"] > 0, known["kib"], 0.0)
        writes = np.where(known["neighbours"] > 0, known["writes"], 0.0)
        return _columns(
            known["own_kib"], known["own_depth"], known["depth"], kib, writes, kib * known["depth"], *_which(rows)
        )
    return _columns(known["load"], *(known[name] for name in (*COST_MODEL, "size_gb", "cpus", "mem_gib")))


def weighted_mean_features(rows: Observations) -> Floats:
    """Means of the others, weighted by rate; of tenants without rates, which have equal depths, by depth.

    All tenants of a minute have the same depth.
    """
    known = rows.inputs
    if rows.source == "ssdiq":
        count = np.maximum(known["tenants"] - 1, 1)
        (reads, _), (writes, _) = (_others(known, op) for op in ("read", "write"))
        own = (known["own_read_iops"], known["own_write_iops"], known["own_depth"], known["size_bytes"])
        others = (known["mean_iops"], writes / np.maximum(reads + writes, 1), known["mean_pages"] * PAGE)
        return _columns(*own, *others, (known["depth"] - known["own_depth"]) / count, *(known[name] for name in SHEET))
    if rows.source == "icpe":
        count = np.maximum(known["neighbours"], 1)
        kib = np.where(known["neighbours"] > 0, known["kib"], 0.0)
        writes = np.where(known["neighbours"] > 0, known["writes"], 0.0)
        return _columns(known["own_kib"], known["own_depth"], known["depth"] / count, kib, writes, *_which(rows))
    return _columns(
        known["load"], *(known[name] for name in ("model_rrandiops", "model_wrandiops", "model_rbps", "model_wbps"))
    )


SCHEDULERS = ("none", "bfq", "kyber", "mq-deadline")


def _which(rows: Observations) -> list[Floats]:
    return [(rows.labels["scheduler"] == name).astype(float) for name in SCHEDULERS]
