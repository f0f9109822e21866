# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which I/Os of a trace a model learns: order, cut, device, clock."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import device_trace
from linnet import FitSettings, LearnError, Trace, evaluate, fit, inflection_point
from linnet._native import Array
from linnet.mixing import mixed
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


def listed_by_completion(seed: int = 0) -> Trace:
    """Four reads at one time, every 5 ms, of which each is slow by chance, listed as they complete."""
    chance = np.random.default_rng(seed)
    slow = chance.random((5000, 4)) < 0.25
    latency = np.where(slow, 900_000, 80_000) + chance.integers(0, 20_000, slow.shape)
    return reads("listed", np.repeat(np.arange(5000) * 5_000_000, 4), np.sort(latency, axis=1).ravel())


def test_the_order_of_a_recorder_tells_a_model_nothing() -> None:
    listed = listed_by_completion()
    (fitted,) = fit([listed], settings=SETTINGS)
    told = evaluate(fitted.model, listed, 0.5)
    for figures in (fitted.report["biased"], fitted.report["linnet"], told, told["linnet"]):
        assert figures["roc_auc"] == pytest.approx(0.5, abs=0.02)
    assert told["linnet"] == fitted.report["linnet"]
    (apart,) = fit([listed], settings=SETTINGS, test=[listed_by_completion(1)])
    assert apart.report["linnet"]["roc_auc"] == pytest.approx(0.5, abs=0.02)


def test_what_was_drawn_is_not_drawn_again() -> None:
    listed = listed_by_completion()
    once = listed.without_ties(3)
    columns = listed.columns()
    drawn = np.lexsort((mixed(np.arange(len(listed), dtype=np.uint64), 3), columns["arrive_ns"]))
    assert (once.columns()["offset_bytes"] == columns["offset_bytes"][drawn]).all()
    for again in (once.without_ties(4), once.named("other").split(0.5)[0].without_ties(4)):
        offsets = again.columns()["offset_bytes"]
        assert (offsets == once.columns()["offset_bytes"][: len(again)]).all()
    assert not (listed.without_ties(4).columns()["offset_bytes"] == once.columns()["offset_bytes"]).all()
    models = [fit([trace], 3, SETTINGS)[0].model.to_bytes() for trace in (listed, once)]
    assert models[0] == models[1]


def test_the_log_of_a_modelled_device_keeps_the_order_in_which_it_was_served() -> None:
    (log,) = Array("consumer-deep", 1, 1).run([listed_by_completion()], "baseline", [], log=True).logs()
    kept = log.without_ties(1).columns()
    assert all((kept[name] == column).all() for name, column in log.columns().items())


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


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A file of two devices in turn, of which device 7 takes eight times as long."""
    made = device_trace(0, 4000).columns()
    device = np.where(np.arange(4000) % 2, 7, 2)
    path = tmp_path / "two.csv"
    latency = np.where(device == 7, 8 * made["latency_ns"], made["latency_ns"])
    reads("two", made["arrive_ns"], latency, device).write(path)
    return path


def test_a_model_is_of_one_device(linnet: Callable[..., Any], two: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.linnet"
    stat = json.loads(linnet("trace", "stat", two, "--json").stdout)
    assert stat["devices"] == Trace.read(two).stat()["devices"] == 2
    assert re.search(r"devices\W+2", linnet("trace", "stat", two).stdout)
    fit_options = ("--epochs", 1, "-o", model)
    for words in (("label",), ("fit", *fit_options)):
        refused = linnet(*words, "-t", two)
        assert refused.returncode == 1 and not model.exists()
        assert "two.csv has I/Os of 2 devices (2, 7)" in refused.stderr and "--device N" in refused.stderr
    found = {}
    for device in ("2", "7", "all"):
        (row,) = json.loads(linnet("label", "-t", two, "--device", device, "--json").stdout)["rows"]
        found[device] = row["reads"], row["inflection_us"]
    assert [count for count, _ in found.values()] == [2000, 2000, 4000]
    assert found["7"][1] > 4 * found["2"][1]
    assert linnet("fit", "-t", two, "--device", 7, *fit_options).returncode == 0
    assert "2 devices" in linnet("evaluate", "-m", model, "-t", two).stderr
    own = json.loads(linnet("evaluate", "-m", model, "-t", two, "--device", 7, "--json").stdout)
    # Half of those that have a row of the network: the first arrive before four have completed.
    assert 990 < own["linnet"]["rows"] == own["rows"] < 1000

    part = tmp_path / "seven.parquet"
    linnet("trace", "convert", two, "--device", 7, "-o", part)
    assert Trace.read(part).devices == [7] and len(Trace.read(part)) == 2000
    absent = linnet("label", "-t", two, "--device", 1)
    assert absent.returncode == 1 and "another device" in absent.stderr
    for wrong in ("-1", "every", "4294967296"):
        assert linnet("label", "-t", two, "--device", wrong).returncode == 2


@pytest.mark.slow
def test_whatif_says_where_it_replays_several_devices_as_one(linnet: Callable[..., Any], two: Path) -> None:
    options = ("--seeds", 1, "--replicas", 2, "--preset", "sata", "--json")
    assert "the I/Os of 2 devices are replayed as those of one" in linnet("whatif", two, *options).stderr


def test_the_library_wants_one_device_too(two: Path) -> None:
    whole = Trace.read(two)
    assert whole.devices == [2, 7]
    (fitted,) = fit([Trace.read(two, device=2)], settings=SETTINGS)
    for refused in (
        lambda: fit([whole], settings=SETTINGS),
        lambda: fit([Trace.read(two, device=2)], settings=SETTINGS, test=[whole]),
        lambda: evaluate(fitted.model, whole),
    ):
        with pytest.raises(LearnError, match=r"two.csv has I/Os of 2 devices \(2, 7\)"):
            refused()
    one = whole.as_one_device()
    assert one.devices == [0] and len(fit([one], settings=SETTINGS)) == 1


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


def test_reads_that_are_all_about_equally_fast_are_warned_about(linnet: Callable[..., Any], tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for name, latency in (
        ("equal", 900_000 + chance.integers(0, 1000, 6000)),
        ("unequal", np.where(chance.random(6000) < 0.1, 5_000_000, 80_000) + chance.integers(0, 1000, 6000)),
    ):
        path = tmp_path / f"{name}.csv"
        reads(name, np.arange(6000) * 500_000, latency).write(path)
        for words in (("label",), ("fit", "--epochs", 1, "-o", tmp_path / "m.linnet")):
            done = linnet(*words, "-t", path)
            assert done.returncode == 0
            assert ("better sent elsewhere" in done.stderr) == (name == "equal"), done.stderr
