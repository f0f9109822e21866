# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which I/Os of a trace a model learns: order, cut, device, clock."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linnet import FitSettings, LearnError, Trace, fit, inflection_point
from numpy.typing import NDArray

SETTINGS = FitSettings(epochs=1)


def reads(name: str, arrive_ns: NDArray[Any], latency_ns: NDArray[Any], device: NDArray[Any] | int = 0) -> Trace:
    count = len(arrive_ns)
    return Trace.from_columns(
        name,
        arrive_ns=arrive_ns.astype(np.uint64),
        op=np.zeros(count, np.uint8),
        # In an order of their own: a place in the trace would tell what its order does.
        offset_bytes=(np.random.default_rng(9).permutation(count) * 4096).astype(np.uint64),
        size_bytes=np.full(count, 4096, np.uint32),
        device=np.broadcast_to(np.asarray(device, np.uint32), count).copy(),
        latency_ns=latency_ns.astype(np.uint64),
    )


def test_label_and_fit_cut_a_trace_at_the_same_read(linnet: Callable[..., Any], tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    # Nine of ten reads arrive in the first half of the time, and the device is slow after half of the reads.
    arrive = np.concatenate([np.sort(chance.integers(0, 10**9, 5400)), np.sort(chance.integers(10**9, 2 * 10**9, 600))])
    base = np.where(np.arange(6000) < 3000, 100_000, 1_000_000)
    uneven = tmp_path / "uneven.csv"
    reads("uneven", arrive, base + chance.integers(0, 40_000, 6000)).write(uneven)
    for share in (0.5, 0.8):
        options = ("-t", uneven, "--train-share", share, "--json")
        (label,) = json.loads(linnet("label", *options).stdout)["rows"]
        fitted = json.loads(linnet("fit", *options, "--epochs", 1, "-o", tmp_path / "m.linnet").stdout)
        assert label["inflection_us"] == fitted["inflection"]["latency_us"]
        assert label["percentile"] == fitted["inflection"]["percentile"]
        assert label["reads"] == fitted["train_rows"]
    (whole,) = json.loads(linnet("label", "-t", uneven, "--json").stdout)["rows"]
    assert whole["reads"] == 6000


def test_a_clock_that_is_too_coarse_is_refused(linnet: Callable[..., Any], tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    latency = np.where(chance.random(4000) < 0.9, 0, 1_000_000 * chance.integers(1, 5, 4000))
    coarse = reads("coarse", np.arange(4000) * 500_000, latency)
    for refused in (lambda: inflection_point([latency]), lambda: fit([coarse], settings=SETTINGS)):
        with pytest.raises(LearnError, match=r"9[01].* % of the reads have a latency of 0.* clock .* too coarse"):
            refused()
    path, model = tmp_path / "coarse.csv", tmp_path / "m.linnet"
    coarse.write(path)
    for words in (("label",), ("fit", "-o", model)):
        refused = linnet(*words, "-t", path)
        assert refused.returncode == 1 and "too coarse" in refused.stderr and not model.exists()
    # A few reads of 0 are no reason.
    assert inflection_point([np.where(np.arange(4000) % 50 == 0, 0, latency + 100_000)]).latency_ns >= 100_000
