# SPDX-License-Identifier: MIT OR Apache-2.0
"""The study of path scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from linnet._native import Array, scored_paths, synth
from linnet.studies.paths import BASE, PEERS, VARIANTS, summary, table_of


def row(variant: str, seed: int, us: float) -> dict[str, Any]:
    key = {"trace": "t", "preset": "p", "writes": "all", "seed": seed, "load": "busy", "asked_rate": 1.0}
    return key | {"variant": variant, "mean_us": us, "p99_us": 2 * us, "p999_us": 3 * us}


def test_ratios_are_taken_within_a_cell() -> None:
    rows = [row(BASE, 1, 100), row("other", 1, 200), row(BASE, 2, 10), row("other", 2, 5)]
    base, other = summary(rows)
    assert (base["mean"], base["p999"], base["cells"]) == (1.0, 1.0, 2)
    assert other["mean"] == pytest.approx(1.0), "twice as slow, and twice as fast"
    assert other["mean_low95"] < 1 < other["mean_high95"]
    assert "| other | 2 |" in table_of([base, other])


def test_each_part_of_a_score_is_in_use() -> None:
    """A variant whose switch did nothing would send each read as the base does."""
    array = Array("consumer-deep", 3, 0)
    streams = synth("bs-c", seconds=32.0, devices=3, seed=1)
    latencies = {
        name: scored_paths(array, streams, writes_to_all=True, **options).latency_ns().tolist()
        for name, options in VARIANTS.items()
    }
    assert len({tuple(own) for own in latencies.values()}) == len(VARIANTS)
    again = scored_paths(array, streams, writes_to_all=True).latency_ns().tolist()
    assert again == latencies[BASE]


def test_the_command_keeps_its_cells(tmp_path: Path, linnet: Any, small_drive: Path) -> None:
    keep = tmp_path / "rows.jsonl"
    words = ("study", "paths", "-w", "az-c", "--preset", small_drive, "--seeds", "1", "--ios", "300", "--json")
    first = json.loads(linnet(*words, "--keep", str(keep), "--page", str(tmp_path / "page.md")).stdout)
    assert {line["variant"] for line in first["summary"]} == {*VARIANTS, *PEERS}
    assert all(line["cells"] == 3 for line in first["summary"]), "three loads"
    assert json.loads(linnet(*words, "--keep", str(keep)).stdout)["summary"] == first["summary"]
    assert "| base | 3 | 1.000" in (tmp_path / "page.md").read_text()
