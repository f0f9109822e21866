# SPDX-License-Identifier: MIT OR Apache-2.0
import copy
import pickle
from typing import Any

import numpy as np
import pytest
from conftest import device_trace
from linnet import FitSettings, Forest, LearnError, Model, ModelError, Trace, evaluate, fit, inflection_point
from linnet._native import Array, inflight_rows, synth
from linnet.cli.learn import measured
from linnet.cli.output import Bars
from linnet.estimator import LinnosClassifier
from linnet.learning import SCHEMAS, dominant_reads, is_better_than_base_rate
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data


def test_inflection_point_falls_into_the_gap_of_two_modes() -> None:
    chance = np.random.default_rng(1)
    slow = chance.random(20_000) < 0.1
    latency = np.where(slow, 5_000_000, 100_000) + chance.integers(0, 10_000, 20_000)
    percentile, latency_ns, boost = inflection_point([latency, latency, latency])
    assert 87 <= percentile <= 93
    assert 100_000 < latency_ns <= 5_010_000
    assert boost.shape[1] == 3
    assert boost[:, 2].max() > 0
    again = inflection_point([latency, latency, latency])
    assert (percentile, latency_ns) == again[:2]


def test_no_latencies_are_an_error_that_says_so() -> None:
    with pytest.raises(LearnError, match="latenc"):
        inflection_point([np.array([], np.uint64)])


@pytest.mark.parametrize("wrong", [-1, -5.0, float("nan"), float("inf"), 100_000.5, 2.0**64, 1e30])
def test_latencies_that_an_integer_cannot_hold_are_refused(wrong: float) -> None:
    good = device_trace().read_latencies()
    bad = good.astype(np.int64 if isinstance(wrong, int) else np.float64)
    bad[7] = wrong
    with pytest.raises(ValueError, match=r"latencies of device 1: .* at index 7 .* whole number of ns"):
        inflection_point([good, bad])


def test_masked_latencies_are_refused() -> None:
    good = device_trace().read_latencies()
    masked = np.ma.array(good, mask=good > np.median(good))
    with pytest.raises(ValueError, match="latencies of device 1: an array with masked values"):
        inflection_point([good, masked])
    assert inflection_point([np.ma.array(good, mask=False)])[:2] == inflection_point([good])[:2]


def test_latencies_of_any_numeric_type_give_the_same_point() -> None:
    good = device_trace().read_latencies()
    point = inflection_point([good])[:2]
    for same in (good.astype(np.int64), good.astype(np.float64), good.tolist()):
        assert inflection_point([same])[:2] == point
    for kind in (str, complex, object, "m8[ns]"):
        with pytest.raises(TypeError, match="latencies of device 0: an array of"):
            inflection_point([good.astype(kind)])


def test_fit_learns_busy_episodes_and_the_model_survives_its_file(tmp_path) -> None:
    fitted = fit([device_trace(0)], seed=3, unbiased=True)[0]
    result = fitted.report["biased"]
    assert result["roc_auc"] > 0.9
    assert result["false_submit"] < 0.05
    assert result["rows"] > 1000
    path = tmp_path / "m.linnet"
    path.write_bytes(fitted.model.to_bytes())
    again = Model.load(path)
    assert again.to_bytes() == fitted.model.to_bytes()
    fresh = evaluate(again, device_trace(9))
    assert fresh["accuracy"] > fresh["base_rate"]
    assert (again.network is not None, again.has_trees, again.has_latencies) == (True, True, True)
    assert (fresh["model"], fresh["linnet"]["roc_auc"] > 0.9) == ("linnos", True)
    # The same test with the file: both parts of the model in it are what was fitted.
    held_out = evaluate(again, device_trace(0), 0.5)
    assert held_out["linnet"] == fitted.report["linnet"]
    assert held_out["latencies"] == fitted.report["latencies"]
    assert {k: held_out[k] for k in fitted.report["linnet"]} == {k: result[k] for k in fitted.report["linnet"]}
    assert fit([device_trace(0)], seed=3, unbiased=True)[0].model.to_bytes() == fitted.model.to_bytes()
    assert fit([device_trace(0)], seed=4, settings=FitSettings(epochs=1))[0].model.to_bytes() != fitted.model.to_bytes()


@pytest.mark.slow
def test_linnet_best_takes_its_trees_from_the_file() -> None:
    array = Array("consumer-deep", 2, 1)
    streams = synth("az-e", 20.0, 2, 7)
    logs = array.run(streams, "baseline", [], log=True).logs()
    models = [one.model for one in fit(logs, settings=FitSettings(epochs=1))]
    again = [Model.from_bytes(model.to_bytes()) for model in models]
    runs = [array.run(streams, "linnet-best", given) for given in (models, again, [])]
    fresh, read, without = [run.latency_ns().tolist() for run in runs]
    assert fresh == read
    assert fresh != without


def test_predicted_latencies_hold_on_another_period() -> None:
    model = fit([device_trace(0)], settings=FitSettings(epochs=1))[0].model
    features, slow, latency_ns = inflight_rows(device_trace(5), model.inflection_ns)
    told = model.predict_latency(features)
    assert told.shape == (len(features), 5)
    assert (np.diff(told.astype(np.int64), axis=1) >= 0).all()
    covered = (latency_ns[:, None] <= told).mean(axis=0)
    assert np.abs(covered - [0.5, 0.9, 0.95, 0.99, 0.999]).max() < 0.06
    # The network has no rows of the first few reads, and what is tested is tested on the same reads.
    tested = evaluate(model, device_trace(5))
    last = (latency_ns[:, None] <= told)[-tested["rows"] :].mean(axis=0)
    assert last.tolist() == [row["covered"] for row in tested["latencies"]]
    scores = model.scores(features)
    assert scores[slow].mean() > scores[~slow].mean()
    assert np.median(told[scores > 0, 0]) > np.median(told[scores < 0, 0])
    with pytest.raises(ValueError, match="16"):
        model.predict_latency(features[:, :15].copy())
    features[5, 3] = 64
    for call in (model.scores, model.predict_latency):
        with pytest.raises(ValueError, match="feature 3 of row 5 is 64; features are 0 to 63"):
            call(features)


def test_trees_of_linnet_2_differ_by_one_feature_and_say_so() -> None:
    trace = device_trace(0, 2000)
    first, second = (fit([trace], settings=FitSettings(epochs=1, schema=schema))[0] for schema in SCHEMAS)
    assert (first.model.schema, second.model.schema) == SCHEMAS
    rows = [inflight_rows(trace, first.model.inflection_ns, schema)[0] for schema in SCHEMAS]
    assert (rows[0] != rows[1]).any(axis=0).nonzero()[0].tolist() == [9]
    assert Model.from_bytes(second.model.to_bytes()).schema == "linnet-2"
    assert evaluate(second.model, trace, 0.5)["linnet"] == second.report["linnet"]
    assert first.report["linnet"] != second.report["linnet"]
    with pytest.raises(ValueError, match="known: linnet-1, linnet-2"):
        fit([trace], settings=FitSettings(epochs=1, schema="linnet-3"))


def test_trees_and_network_are_tested_on_the_same_reads() -> None:
    # A burst, of which the network has no rows, before each trace.
    made = {seed: device_trace(seed, 2000).columns() for seed in (0, 5)}
    for columns in made.values():
        columns["arrive_ns"][:500] = columns["arrive_ns"][500]
    first, second = (Trace.from_columns("t", **columns) for columns in made.values())
    (fitted,) = fit(first, settings=FitSettings(epochs=1), test=second)
    counts = ("rows", "base_rate")
    for one in (fitted.report["biased"] | {"linnet": fitted.report["linnet"]}, evaluate(fitted.model, second)):
        assert [one[name] for name in counts] == [one["linnet"][name] for name in counts]
        assert one["rows"] < 1600 * 0.9
    (split,) = fit(first, settings=FitSettings(epochs=1, train_share=0.1))
    for share in (0.9, 1 - 0.1):
        assert evaluate(split.model, first, share)["linnet"] == split.report["linnet"]


def test_a_trace_without_a_row_to_test_is_named() -> None:
    whole = device_trace(0, 2000)
    columns = whole.columns()
    few = Trace.from_columns("few", **{name: column[:3] for name, column in columns.items()})
    burst = Trace.from_columns("burst", **(columns | {"arrive_ns": np.zeros(2000, np.uint64)}))
    (fitted,) = fit(whole, settings=FitSettings(epochs=1))
    for wrong, share, told in (
        (few, 1.0, "^few: 0 rows for testing"),
        (few, 0.5, "^few: 0 rows for testing"),
        (burst, 1.0, "^burst: none of .* has a history"),
        (burst, 0.5, "^burst: none of .* has a history"),
        (whole, 1e-9, f"^{whole.name}: 0 rows for testing"),
    ):
        for given in (wrong, [whole, wrong]):
            with pytest.raises(LearnError, match=told):
                evaluate(fitted.model, given, share)


def test_several_traces_make_one_model_with_both_parts() -> None:
    traces = [device_trace(seed, 2000) for seed in (0, 1)]
    pooled = fit(traces, settings=FitSettings(epochs=1), pooled=True)
    assert len(pooled) == 1
    assert (pooled[0].model.network is not None, pooled[0].model.has_trees) == (True, True)
    evaluated = evaluate(pooled[0].model, traces, 0.5)
    assert evaluated["linnet"] == pooled[0].report["linnet"]


def test_devices_of_one_type_may_have_their_trees_in_common() -> None:
    traces = [device_trace(seed, 2000) for seed in (0, 1)]
    settings = FitSettings(epochs=1)
    apart, shared = (fit(traces, settings=settings, shared_trees=s) for s in (False, True))
    rows = inflight_rows(device_trace(5), shared[0].model.inflection_ns)[0]
    alike = [(a.model.scores(rows) == b.model.scores(rows)).all() for a, b in (apart, shared)]
    assert alike == [False, True]
    for own, common in zip(apart, shared, strict=True):
        assert own.model.thresholds == common.model.thresholds
        assert own.report["biased"] == common.report["biased"]
        assert evaluate(common.model, traces[apart.index(own)], 0.5)["linnet"] == common.report["linnet"]
    alone = fit(traces[:1], settings=settings, shared_trees=True)[0].model
    assert alone.to_bytes() == apart[0].model.to_bytes()


def test_trees_of_different_devices_may_predict_one_event() -> None:
    traces = [device_trace(seed, 2000) for seed in (0, 1)]
    settings = FitSettings(epochs=1)
    own, alike, given = (
        fit(traces, settings=settings, **how) for how in ({}, {"mean_slow": True}, {"slow_ns": 123_456})
    )
    points = [one.report["inflection"]["latency_us"] for one in own]
    assert [one.report["slow_above_us"] for one in own] == points
    assert [one.report["slow_above_us"] for one in alike] == pytest.approx(
        [(points[0] * points[1]) ** 0.5] * 2, abs=0.001
    )
    assert [one.report["slow_above_us"] for one in given] == [123.456] * 2
    assert [one.model.thresholds for one in alike] == [one.model.thresholds for one in own]


def test_trees_are_tested_by_the_latency_that_they_were_fitted_with() -> None:
    trace = device_trace(0, 2000)
    (given,) = fit([trace], settings=FitSettings(epochs=1), slow_ns=105_000)
    shown = evaluate(given.model, trace, 0.5, slow_ns=105_000)
    assert shown["linnet"] == given.report["linnet"]
    # By the inflection point fewer reads are slow.
    assert evaluate(given.model, trace, 0.5)["linnet"]["base_rate"] > shown["linnet"]["base_rate"] + 0.1
    assert shown["base_rate"] == evaluate(given.model, trace, 0.5)["base_rate"]


def test_what_arrives_at_one_time_is_in_no_order_that_tells_its_latency() -> None:
    made = device_trace(0, 4000).columns()
    made["arrive_ns"] = made["arrive_ns"] // 10_000_000 * 10_000_000
    # As recorders list I/Os: by completion.
    order = np.lexsort((made["latency_ns"], made["arrive_ns"]))
    listed = Trace.from_columns("listed", **{key: column[order] for key, column in made.items()})

    def growing(trace: Trace) -> float:
        columns = trace.columns()
        tied = np.diff(columns["arrive_ns"].astype(np.int64)) == 0
        return float((np.diff(columns["latency_ns"].astype(np.int64))[tied] > 0).mean())

    (given,) = measured([listed], None, None, 0, Bars())
    assert growing(listed) > 0.99 and 0.45 < growing(given) < 0.55
    assert len(given) == len(listed) and given.has_latency
    alone = device_trace(0)
    kept = measured([alone], None, None, 0, Bars())[0].columns()
    assert all((kept[key] == column).all() for key, column in alone.columns().items())


@pytest.mark.parametrize("both", [{"pooled": True, "shared_trees": True}, {"mean_slow": True, "slow_ns": 1}])
def test_options_that_exclude_each_other_are_refused(both: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=", ".join(both)):
        fit([device_trace(0, 2000)], **both)


def test_every_damaged_byte_of_a_model_is_noticed() -> None:
    data = bytearray(fit([device_trace(0, 2000)], settings=FitSettings(epochs=1))[0].model.to_bytes())
    for at in [*range(0, 120), *range(120, len(data), 997), len(data) - 1]:
        damaged = data.copy()
        damaged[at] ^= 0x10
        with pytest.raises(ModelError):
            Model.from_bytes(bytes(damaged))
    for length in (0, 7, 95, len(data) - 1):
        with pytest.raises(ModelError):
            Model.from_bytes(bytes(data[:length]))


def test_classifier_keeps_scikit_learn_conventions() -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    chance = np.random.default_rng(0)
    rows = chance.integers(0, 10, (2000, 31)).astype(np.uint8)
    labels = np.where(rows[:, 3] > 6, "slow", "fast")
    model = clone(LinnosClassifier(epochs=6, false_submit_weight=1.0))
    with pytest.raises(NotFittedError):
        model.predict(rows)
    model.fit(rows, labels)
    assert model.score(rows, labels) > 0.95
    assert set(model.predict(rows[:50])) <= {"fast", "slow"}
    assert ((model.decision_function(rows) > 0) == (model.predict(rows) == "slow")).all()
    with pytest.raises(ValueError, match="digits"):
        model.fit(rows + 0.5, labels)
    for odd in (10, 208, -1):
        wrong = rows.astype(int)
        wrong[7, 4] = odd
        with pytest.raises(ValueError, match=f"digits, 0 to 9: number 4 of row 7 is {odd}$"):
            model.predict(wrong)
    masked = np.ma.array(rows, mask=rows == 3)
    for call in (lambda: model.fit(masked, labels), lambda: model.predict(masked)):
        with pytest.raises(ValueError, match="rows: an array with masked values"):
            call()
    with pytest.raises(ValueError, match="labels: an array with masked values"):
        model.fit(rows, np.ma.array(labels, mask=labels == "slow"))
    with pytest.raises(ValueError, match="masked values"):
        model.network_.logits(masked)


class Digitising(LinnosClassifier):
    """Takes any numbers that are not negative, as scikit-learn's checks give them."""

    def _rows(self, rows, reset):
        numbers = validate_data(self, rows, reset=reset, dtype="numeric")
        return super()._rows(np.minimum(np.floor(2.0 * numbers), 9), reset=False)


@pytest.mark.filterwarnings("ignore")
def test_classifier_passes_the_checks_of_scikit_learn() -> None:
    digitising = Digitising(hidden=(32,), epochs=30, batch=16, false_submit_weight=1.0)
    found = check_estimator(digitising, on_skip=None, on_fail=None)
    assert {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"} == {}
    assert len(found) > 40


def test_labels_and_epochs_that_train_nothing_are_refused() -> None:
    rows, labels = np.random.default_rng(0).integers(0, 10, (40, 31)), np.arange(40) % 2
    for wrong, told in (
        (np.where(labels, np.nan, 0.0), "labels contains NaN"),
        (np.where(labels, np.inf, 0.0), "labels contains infinity"),
        (labels[:20], "40 rows but 20 labels"),
        (np.stack([labels, labels], 1), r"shape \(40, 2\)"),
        (None, r"shape \(\)"),
        (labels + 0.5, "the target is continuous"),
        (np.arange(40) % 3, r"^Only binary classification is supported\. The type of the target is multiclass"),
        (np.zeros(40), "all labels are of 1 class"),
        (np.array([1, "a"] * 20, object), "Unknown label type"),
        (np.array(["a", 1] * 20, object), "Unknown label type"),
    ):
        with pytest.raises(ValueError, match=told):
            LinnosClassifier(epochs=1).fit(rows, wrong)
    with pytest.raises(ValueError, match="epochs is 0"):
        LinnosClassifier(epochs=0).fit(rows, labels)
    for hidden, error, told in (
        (64, TypeError, "hidden is 64, no sequence of sizes"),
        ((8, "a"), TypeError, "hidden is 'a', no whole number"),
        ((-1,), ValueError, "hidden is -1, no whole number from 0"),
        ((2**200,), ValueError, "hidden is 16069"),
        ((0,), ModelError, "a layer of 0"),
    ):
        with pytest.raises(error, match=told):
            LinnosClassifier(hidden=hidden, epochs=1).fit(rows, labels)
    with pytest.raises(ValueError, match="batch is 0"):
        LinnosClassifier(batch=0, epochs=1).fit(rows, labels)


def test_what_is_fitted_survives_pickle() -> None:
    rows, labels = np.random.default_rng(0).integers(0, 10, (60, 31)), np.arange(60) % 2
    classifier = LinnosClassifier(hidden=(8,), epochs=2).fit(rows, labels)
    for same in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):
        np.testing.assert_array_equal(same.decision_function(rows), classifier.decision_function(rows))
    (fitted,) = fit(device_trace(), settings=FitSettings(epochs=1))
    forest = Forest.from_sklearn([("a", RandomForestRegressor(2).fit(rows, labels))], schema=40_000)
    for one in (fitted.model, forest):
        assert pickle.loads(pickle.dumps(one)).to_bytes() == one.to_bytes()


def test_what_is_better_than_one_answer() -> None:
    """Of 1,000 reads with 100 slow ones, chance strays from 0.5 by 0.03; of one class nothing can be said."""
    figures = {"rows": 1000, "base_rate": 0.9, "balanced_accuracy": 0.7}
    cases = {None: None, 0.4: False, 0.5: False, 0.55: False, 0.57: True, 0.9: True}
    assert {auc: is_better_than_base_rate(figures | {"roc_auc": auc}) for auc in cases} == cases
    assert is_better_than_base_rate(figures | {"roc_auc": 0.9, "balanced_accuracy": 0.5}) is False


def test_the_share_of_the_highest_latencies() -> None:
    assert dominant_reads(np.array([], np.uint64)) == (0, 0.0)
    assert dominant_reads(np.array([1, 1, 6], np.uint64)) == (1, 0.75)
    many = np.ones(20_000, np.uint64)
    many[:2] = 10_000
    assert dominant_reads(many) == (2, 20_000 / 39_998)
