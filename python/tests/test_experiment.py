# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an experiment does with a device that has nothing to learn from, and with devices that stall."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linnet import DeviceError, FitSettings, LearnError, PolicyError, Trace, write_trace
from linnet._native import Array
from linnet.cli.compare import QUANTILES, beaten_oracle, gains_of, given_up
from linnet.experiment import ORACLE, READ_LIMIT_S, UNANSWERED, Experiment, Setup, borrowings, periods
from linnet.verdict import false_share
from numpy.typing import NDArray


def columns(op: NDArray[np.bool_], seed: int) -> Trace:
    """A trace without latencies, in which these are writes."""
    chance = np.random.default_rng(seed)
    return Trace.from_columns(
        f"stream-{seed}",
        arrive_ns=np.cumsum(chance.exponential(150_000, len(op))).astype(np.uint64),
        op=op.astype(np.uint8),
        offset_bytes=(chance.integers(0, 1 << 20, len(op)) * 4096).astype(np.uint64),
        size_bytes=np.full(len(op), 4096, np.uint32),
        device=np.zeros(len(op), np.uint32),
        latency_ns=np.full(len(op), 2**64 - 1, np.uint64),
    )


def stream(seed: int, writes: float, records: int = 1200) -> Trace:
    """This share of writes."""
    return columns(np.random.default_rng(seed).random(records) < writes, seed)


FIT = FitSettings(epochs=1)
STREAMS = [stream(0, 1.0), stream(1, 0.3), stream(2, 0.3)]


def test_a_device_without_reads_has_the_model_of_another_of_its_preset(small_drive: Path) -> None:
    experiment = Experiment(STREAMS, Setup(preset=str(small_drive), fit=FIT))
    rows = experiment.compare(["linnet-best", "ewma-inflight"])
    first, second, third = experiment.fitted
    assert first and second and third
    assert first.model is second.model
    assert third.model is not second.model
    assert first.report["of_device"] == 1
    assert borrowings(experiment.reports()) == ["device 0 has no read to learn from, so it has the model of device 1"]
    assert rows[0].row["reads"] == rows[1].row["reads"] > 500


def test_without_another_of_its_preset_a_device_has_no_model_and_the_others_do(small_drive: Path) -> None:
    experiment = Experiment(STREAMS, Setup(preset=f"sata,{small_drive},{small_drive}", fit=FIT))
    (best,) = experiment.compare(["linnet-best"])
    first, second, third = experiment.models()
    assert first is None and second and third and second is not third
    assert borrowings(experiment.reports()) == [
        "device 0 has no read to learn from, nor has another of its preset: no model"
    ]
    # Reads go to the device without a model, too.
    assert best.row["reads"] > 500
    rows = experiment.array.run(experiment.run_part, "linnet-best", experiment.models(), log=True)
    assert all(np.isfinite(log.read_latencies()).any() for log in rows.logs())


def test_on_an_array_of_different_drives_all_trees_predict_the_same(small_drive: Path) -> None:
    streams = [stream(seed, 0.3) for seed in range(2)]

    def slow_and_own(preset: str) -> tuple[list[float], list[float]]:
        reports = [one.report for one in Experiment(streams, Setup(preset=preset, replicas=2, fit=FIT)).learn()]
        return [one["slow_above_us"] for one in reports], [one["inflection"]["latency_us"] for one in reports]

    slow, own = slow_and_own(f"sata,{small_drive}")
    assert own[0] != own[1] and slow == pytest.approx([(own[0] * own[1]) ** 0.5] * 2, abs=0.001)
    slow, own = slow_and_own(str(small_drive))
    assert slow == own


def test_a_continued_test_part_follows_the_training_part_and_is_measured_alone(small_drive: Path) -> None:
    streams = [stream(seed, 0.3) for seed in range(3)]
    cold, warm = (
        Experiment(streams, Setup(preset=str(small_drive), fit=FIT, continued=continued)) for continued in (False, True)
    )
    whole = cold.array.run(warm.run_part, "ewma-hedged", [], **cold.run_settings())
    apart, after = (one.run("ewma-hedged") for one in (cold, warm))
    assert len(after.latency_ns) == len(apart.latency_ns) == after.row["reads"] > 500
    # All reads of the run, less those that the first part alone would have.
    assert len(whole.latency_ns()) - len(after.latency_ns) == sum(
        int((trace.columns()["op"] == 0).sum()) for trace in warm.train_part
    )
    assert set(after.latency_ns) <= set(whole.latency_ns())
    assert (after.latency_ns != apart.latency_ns).any()
    for one in (cold, warm):
        one.learn()
    assert [len(found.report) for found in cold.fitted] == [len(found.report) for found in warm.fitted]


def test_in_a_closed_loop_more_in_flight_are_served_faster_and_times_mean_nothing(small_drive: Path) -> None:
    streams = [stream(seed, 0.3) for seed in range(3)]
    rates = {}
    for in_flight in (1, 4):
        setup = Setup(preset=str(small_drive), fit=FIT, continued=True, closed_loop=in_flight)
        experiment = Experiment(streams, setup)
        (best,) = experiment.compare(["linnet-best"])
        assert best.row["reads"] == sum(int((trace.columns()["op"] == 0).sum()) for trace in experiment.test_part)
        slower = Experiment([trace.rerate(0.1) for trace in streams], setup)
        slower.fitted = experiment.fitted
        assert slower.run("linnet-best").row["mean_us"] == best.row["mean_us"]
        rates[in_flight] = best.row["ios_per_s"]
    assert 1.5 * rates[1] < rates[4] < 4 * rates[1]
    with pytest.raises(PolicyError, match="stalls come at times of the trace"):
        Experiment(streams, replace(setup, stalls_per_minute=1.0)).run("baseline")


def test_seeds_as_far_apart_as_replicas_have_no_drive_in_common(linnet, small_drive: Path) -> None:
    streams = [stream(7, 0.3)] * 2
    answers = {}
    for seed in (0, 1, 2):
        logs = Array(str(small_drive), 2, seed).run(streams, "baseline", [], log=True).logs()
        answers |= {(seed, i): log.columns()["latency_ns"].tobytes() for i, log in enumerate(logs)}
    assert answers[0, 1] == answers[1, 0] and answers[1, 1] == answers[2, 0]
    assert len({answers[0, 0], answers[0, 1], answers[2, 0], answers[2, 1]}) == 4
    for command in ("compare", "whatif"):
        told = " ".join(linnet(command, "--help").stdout.replace("│", " ").split())
        assert "use seeds at least as far apart as replicas" in told


def test_a_limit_of_0_is_a_limit(small_drive: Path) -> None:
    streams = [stream(seed, 0.3) for seed in range(3)]
    hedges = {}
    for limit in (None, 0):
        experiment = Experiment(streams, Setup(preset=str(small_drive), fit=FIT, hedge_bytes_max=limit))
        (best,) = experiment.compare(["ewma-hedged"])
        hedges[limit] = best.row["extra_io"]
    assert hedges[None] > hedges[0] == 0
    with pytest.raises(ValueError, match="closed_loop is 0, no whole number from 1 to"):
        Experiment(streams, Setup(preset=str(small_drive), fit=FIT, closed_loop=0)).run("baseline")


@pytest.mark.parametrize("preset", ["consumer-deep", pytest.param("consumer-deep-queued", marks=pytest.mark.slow)])
def test_a_rebuilt_device_has_less_to_collect(preset: str) -> None:
    writes = [stream(seed, 1.0, 12_000).rerate(0.1) for seed in range(2)]
    array = Array(preset, 2, 0, rebuilt=1)
    used, rebuilt = array.run(writes, "baseline", []).device_stats()
    assert rebuilt["waf"] < used["waf"] / 1.5
    with pytest.raises(DeviceError, match="3 rebuilt devices of 2"):
        Array(preset, 2, 0, rebuilt=3)


def test_nothing_to_learn_from_at_all_is_an_error(small_drive: Path) -> None:
    with pytest.raises(LearnError, match="no device has reads to learn from"):
        Experiment([stream(seed, 1.0) for seed in range(3)], Setup(preset=str(small_drive), fit=FIT)).learn()


def test_command_and_report_say_whose_model_it_is(linnet, small_drive: Path, tmp_path: Path) -> None:
    file, page = tmp_path / "first-third-writes.parquet", tmp_path / "report.html"
    writes = np.random.default_rng(5).random(3600) < 0.3
    writes[:1200] = True
    write_trace(columns(writes, 5), file)
    words = ("--preset", small_drive, "--policy", "baseline", "--policy", "linnet-best", "--report", page)
    done = linnet("compare", "-t", file, *words)
    assert done.returncode == 0, done.stderr
    assert "device 0 has no read to learn from, so it has the model of device 1" in done.stdout
    assert "the model of device 1" in page.read_text()
    notes = json.loads(linnet("compare", "-t", file, *words[:4], "--json").stdout)["notes"]
    (note,) = [one for one in notes if "no read to learn from" in one]
    assert note.endswith("device 0 has no read to learn from, so it has the model of device 1") and "on 3 x" in note


@pytest.mark.slow
def test_devices_that_stall_answer_late_and_a_peek_knows_it() -> None:
    setup = Setup("consumer-deep", 3, 0, writes_to_all=True, fit=FitSettings(epochs=1))
    train, test = periods("az-c", 20.0, setup)
    rows = {}
    for stalls in (0.0, 30.0):
        experiment = Experiment(train, replace(setup, stalls_per_minute=stalls), "az-c", test=test)
        rows[stalls] = {outcome.row["policy"]: outcome.row for outcome in experiment.compare(["baseline", ORACLE])}
    assert rows[30.0]["baseline"]["p99_us"] > 10 * rows[0.0]["baseline"]["p99_us"]
    assert rows[30.0][ORACLE]["p99_us"] < rows[30.0]["baseline"]["p99_us"] / 5, "it goes where nothing stalls"
    with pytest.raises(DeviceError, match="601 stalls a minute; give 0 to 600"):
        Array("consumer-deep", 3, 0, stalls_per_minute=601)


@pytest.mark.slow
def test_reads_that_no_device_answers_are_told(linnet) -> None:
    words = ("compare", "-w", "az-c", "--seconds", 20, "--epochs", 1, "--policy", "baseline,hedge-p95,oracle")
    usual = linnet(*words, "--json")
    assert all(row[key] == 0 for row in json.loads(usual.stdout)["rows"] for key in UNANSWERED)
    rows = json.loads(linnet(*words, "--stalls", 600, "--json").stdout)["rows"]
    base = rows[0]
    # The time limit of the array, once for each replica; a failover costs 15 us.
    assert base["p99_us"] == 3e6 * READ_LIMIT_S + 2 * 15 and base["timeouts"] > base["reads_failed"] > 0
    # A hedge whose delay is longer than the time limit is never sent.
    assert rows[1] == base | {"policy": "hedge-p95"}
    shown = " ".join(linnet(*words, "--stalls", 600).stdout.split())
    assert "failed reads" in shown and "time-outs" in shown and "failed writes" not in shown
    assert "3 attempts of 1 s: at p95, p99, p99.9, p99.99, values from 3,000,000 us" in shown


def test_notes_of_a_comparison() -> None:
    row = dict.fromkeys(QUANTILES, 900.0) | {"reads_failed": 0}
    rows = [row | {"policy": name, "mean_us": us} for name, us in (("baseline", 100.0), ("oracle", 50.0), ("c3", 40.0))]
    assert gains_of(rows) == [0.0, 1.0, 1.2] and gains_of(rows[:1]) == [None]
    assert "more than the possible gain: c3. The oracle is greedy" in beaten_oracle(rows)
    assert beaten_oracle(rows[:2]) == "" and given_up(rows, 3) == ""
    # Where the oracle gains too little, or the baseline is not there, no gain is told, but a lower mean is.
    worse = [row | {"policy": name, "mean_us": us} for name, us in (("baseline", 49.9), ("c3", 40.0), ("clone", 51.0))]
    for others, better in ((worse, "baseline, c3"), (worse[1:], "c3")):
        told = beaten_oracle([*others, rows[1]])
        assert told.startswith(f"a lower mean than the oracle: {better}. The oracle is greedy"), told
    assert beaten_oracle(worse) == ""
    failed = row | {"reads_failed": 9, "p999_us": 2_000_015.0, "p9999_us": 2_000_015.0}
    assert "2 attempts of 1 s: at p99.9, p99.99, values from 2,000,000 us" in given_up([row, failed], 2)
    assert given_up([failed], 3) == "", "with a third replica these may be answers"


def test_false_revokes_are_a_share_of_the_revokes() -> None:
    """Of the reads they may be more than all: one read is revoked by several replicas."""
    row: dict[str, Any] = {"reads": 100, "revokes": 200, "false_revoke": 1.25}
    assert false_share(row) == 0.625
    assert false_share(row | {"revokes": 0, "false_revoke": 0.0}) is None
    assert false_share(row | {"false_revoke": None}) is None, "not counted on the queued engine"


def test_drives_that_are_too_slow_for_the_load_are_called_so() -> None:
    streams = [stream(seed, 0.3, 2_000).rerate(1e6) for seed in range(3)]
    for continued in (False, True):
        with pytest.raises(LearnError, match="too slow for this load; lower --rerate"):
            Experiment(streams, Setup(preset="sata", fit=FIT, continued=continued)).learn()
