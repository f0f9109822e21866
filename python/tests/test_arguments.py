# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arguments that are no trace, or no number of their range: the error names the argument and what it takes."""

from pathlib import Path

import linnet
import numpy as np
import pyarrow as pa
import pytest
from conftest import device_trace
from linnet import FitSettings, LearnError, Setup, Trace
from linnet._native import Device, KnobModel, profile_trace, train_network
from linnet.estimator import LinnosClassifier
from linnet.traces import as_traces, trace_to_table

QUICK = FitSettings(epochs=1)


def test_a_table_is_as_good_as_its_trace() -> None:
    trace, later = device_trace(0), device_trace(5)
    table, test = trace_to_table(trace), trace_to_table(later)
    (fitted,) = linnet.fit([trace], settings=QUICK, test=[later])
    for given in (table, [table], iter([table])):
        (same,) = linnet.fit(given, settings=QUICK, test=test)
        assert same.model.to_bytes() == fitted.model.to_bytes()
    assert linnet.evaluate(fitted.model, [table]) == linnet.evaluate(fitted.model, trace)
    assert linnet.evaluate(fitted.model, table) == linnet.evaluate(fitted.model, trace)
    setup = Setup("consumer-deep", 2, fit=QUICK)
    rows = [linnet.compare(given, setup, ["baseline"]) for given in ([trace], [table], table)]
    assert [row[0]["mean_us"] for row in rows] == [rows[0][0]["mean_us"]] * 3


@pytest.mark.parametrize("wrong", [None, 5, object(), {}, pa.array([1]), linnet.FloatNetwork, np.zeros(3)])
def test_what_is_no_trace_is_refused(wrong, tmp_path: Path) -> None:
    (fitted,) = linnet.fit([device_trace()], settings=QUICK)
    for takes in (
        lambda: linnet.fit([device_trace(), wrong]),
        lambda: linnet.fit([device_trace()], test=[wrong]),
        lambda: linnet.evaluate(fitted.model, [wrong]),
        lambda: linnet.compare([wrong]),
        lambda: linnet.compare([device_trace()], [wrong]),
        lambda: linnet.write_trace(wrong, tmp_path / "t.csv"),
        lambda: linnet.trace_from_table(wrong),
    ):
        with pytest.raises(
            TypeError, match=r"a linnet\.Trace, or a table of|pyarrow\.Table is needed|give a linnet.Setup"
        ):
            takes()
    if wrong is None:
        with pytest.raises(TypeError, match="None is a NoneType, and a trace is needed"):
            linnet.fit(wrong)


def test_an_item_of_a_list_is_named_with_its_place() -> None:
    trace, array, drive = device_trace(), linnet.Array("sata", 2, 0), Device("sata", precondition=False)
    table = trace_to_table(trace)
    for told, takes in (
        (r"streams\[1\] is a Table; give a list of linnet.Trace", lambda: array.run([trace, table], "baseline", [])),
        (r"streams is a Trace; give a list of linnet.Trace", lambda: array.run(trace, "baseline", [])),
        (r"models\[1\] is a int; give a list of linnet.Model or None", lambda: array.run([], "baseline", [None, 5])),
        (r"models is a NoneType; give a list", lambda: array.run([trace, trace], "baseline", None)),
        (r"streams\[0\] is a str; give a list of linnet.Trace", lambda: drive.run(["t.csv"])),
        (r"traces\[1\] is a Table; give a list of linnet.Trace", lambda: Trace.merge([trace, table])),
    ):
        with pytest.raises(TypeError, match=f"^{told}"):
            takes()


@pytest.mark.parametrize("wrong", [None, 5, Setup()])
def test_settings_of_another_type_are_named(wrong) -> None:
    with pytest.raises(TypeError, match=r"^setup\.fit is a \w+; give a linnet\.FitSettings"):
        linnet.compare([device_trace()], Setup("sata", 1, fit=wrong))
    if wrong is not None:
        with pytest.raises(TypeError, match=r"^settings is a \w+; give a linnet\.FitSettings"):
            linnet.fit([device_trace()], settings=wrong)


def test_a_parameter_file_with_a_comma_is_refused_as_such(linnet, small_drive: Path, tmp_path: Path) -> None:
    device_trace().write(tmp_path / "t.csv")
    comma = tmp_path / "a,b.toml"
    comma.write_text(small_drive.read_text())
    for command in ("compare", "label"):
        done = linnet(command, "-t", tmp_path / "t.csv", "--preset", comma)
        assert done.returncode == 2
        assert "has a comma, which separates" in " ".join(done.stderr.replace("│", " ").split())


def test_latencies_of_one_device_are_given_in_a_list() -> None:
    latencies = device_trace().read_latencies()
    with pytest.raises(ValueError, match=r"^latencies_ns_per_device is one array; give a list of arrays"):
        linnet.inflection_point(latencies, device=0)
    same = linnet.inflection_point(np.stack([latencies, latencies])), linnet.inflection_point([latencies, latencies])
    assert same[0].latency_ns == same[1].latency_ns


@pytest.mark.parametrize("path", ["t.parquet", b"t.parquet", Path("t.parquet")])
def test_a_path_is_to_be_read_first(path) -> None:
    for given in (path, [path]):
        with pytest.raises(TypeError, match=r"t\.parquet.* is a .*read it first: linnet\.Trace\.read\(path\)"):
            as_traces(given)


RANGE = [-1, -(2**63), 2**64, 2**200]


@pytest.mark.parametrize("wrong", RANGE)
def test_a_whole_number_out_of_range_is_named(wrong: int, tmp_path: Path) -> None:
    trace = device_trace()
    trace.write(tmp_path / "t.csv")
    digits, slow = np.zeros((20, 31), np.uint8), np.arange(20) % 2 == 0
    rows, classes = np.zeros((4, 2), np.float32), [0, 1, 0, 1]
    drive = Device("sata", precondition=False)
    for name, takes in (
        ("inflection_ns", lambda: linnet.training_rows(trace, wrong)),
        ("inflection_ns", lambda: linnet.inflight_rows(trace, wrong)),
        ("seed", lambda: linnet.fit([trace], seed=wrong)),
        ("seed", lambda: linnet.synth("bs-c", 1.0, 1, wrong)),
        ("seed", lambda: linnet.Array("consumer-deep", 1, wrong)),
        ("seed", lambda: linnet.compare([trace], Setup("consumer-deep", 1, wrong))),
        ("seed", lambda: LinnosClassifier(seed=wrong).fit(digits, slow)),
        ("seed", lambda: KnobModel.fit(rows, classes, [4, 8], seed=wrong)),
        ("device", lambda: linnet.inflection_point([trace.read_latencies()], device=wrong)),
        ("device", lambda: Trace.read(tmp_path / "t.csv", device=wrong)),
        ("most", lambda: Trace.read(tmp_path / "t.csv", most=wrong)),
        ("max_depth", lambda: linnet.Tree.fit(rows, classes, max_depth=wrong)),
        ("batch", lambda: train_network(digits, slow, [4], 1, wrong, 1.0, 0)),
        ("slow_ns", lambda: linnet.fit([trace], slow_ns=wrong)),
        ("pieces", lambda: trace.slices(wrong)),
        ("at_ns", lambda: trace.split_at(wrong)),
        ("by_ns", lambda: trace.delayed(wrong)),
        ("seed", lambda: Device("sata", seed=wrong, precondition=False)),
        ("size_bytes", lambda: drive.unloaded_read_ns(wrong)),
        ("timeline", lambda: drive.run([trace], timeline=wrong)),
        *(
            (name, lambda name=name: linnet.Forest.from_sklearn([], **{name: wrong}))
            for name in ("schema", "rows", "seed")
        ),
        *(
            (name, lambda name=name: linnet.fit([trace], settings=FitSettings(**{name: wrong})))
            for name in ("max_rows", "epochs", "batch", "replicas", "failover_ns")
        ),
    ):
        with pytest.raises(ValueError, match=f"^{name} is {wrong}, no whole number from [01] to "):
            takes()


def test_what_is_no_whole_number_is_named() -> None:
    trace = device_trace()
    for wrong in (1.5, "1", [1]):
        with pytest.raises(TypeError, match=r"seed is .*, no whole number"):
            linnet.fit([trace], seed=wrong)
    with pytest.raises(TypeError, match="inflection_ns is None, no whole number"):
        linnet.training_rows(trace, None)
    with pytest.raises(ValueError, match=r"^closed_loop is 0, no whole number from 1 to"):
        linnet.Array("consumer-deep", 1, 0).run([trace], "baseline", [], closed_loop=0)
    with pytest.raises(ValueError, match=r"^batch is 0, no whole number from 1 to"):
        linnet.fit([trace], settings=FitSettings(batch=0))
    # Numpy's integers are whole numbers.
    assert len(linnet.training_rows(trace, np.int64(1000))[1])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((1, 10**12, 4096), r"ios is 1000000000000; those of \d+ fit"),
        ((1, 2**63, 4096), "ios is 9223372036854775808; those of"),
        ((0, 1, 4096), "at least 1"),
        ((1, 2**64, 4096), "ios is 18446744073709551616, no whole number"),
        ((1, 1, 4096, float("nan")), "write_share is NaN; it lies in 0 to 1"),
        ((1, 1, 4096, 1.5), "write_share is 1.5"),
    ],
)
def test_a_load_that_no_machine_holds_is_refused(arguments, told: str, small_drive: Path) -> None:
    drive = Device(params=small_drive, precondition=False)
    with pytest.raises(ValueError, match=told):
        drive.saturate(*arguments)


def test_more_in_flight_than_there_are_is_all_of_them(small_drive: Path) -> None:
    drive = Device(params=small_drive, precondition=False)
    (end, latencies), (same, others) = drive.saturate(2**62, 50, 4096), drive.saturate(50, 50, 4096)
    assert end == same and (latencies == others).all()


@pytest.mark.parametrize("rate", [0.0, float("nan"), float("inf"), 1e10])
def test_a_rate_that_no_tenant_has_is_refused(rate: float, small_drive: Path) -> None:
    with pytest.raises(ValueError, match="a rate above 0 and up to 1e9"):
        Device(params=small_drive, precondition=False).tenants([(rate, 0.0, False, 1)], 0.0, 1.0, 0)


def columns(**other: object) -> dict[str, object]:
    own = {"arrive_ns": [0, 5], "op": [0, 1], "offset_bytes": [0, 512], "size_bytes": [512, 512], "device": [0, 0]}
    return own | {"latency_ns": np.array([7, 2**64 - 1], np.uint64)} | other


@pytest.mark.parametrize(
    ("column", "wrong", "error", "told"),
    [
        ("arrive_ns", [0.0, 1.5], TypeError, 'an array of kind "f" where integers'),
        ("arrive_ns", np.array([-1, 5]), ValueError, "a value does not fit uint64"),
        ("size_bytes", [512, 2**32], ValueError, "a value does not fit uint32"),
        ("device", [[0, 0]], ValueError, r"an array of shape \(1, 2\), not a column"),
        ("tenant", ["a", "b"], TypeError, 'an array of kind "U" where integers'),
    ],
)
def test_a_column_that_is_none_is_named(column: str, wrong: object, error: type, told: str) -> None:
    for kind in (np.int64, np.uint64):
        assert len(Trace.from_columns("t", **columns(arrive_ns=np.array([0, 5], kind)))) == 2
    with pytest.raises(error, match=f"t: column {column}: {told}"):
        Trace.from_columns("t", **columns(**{column: wrong}))


def test_an_array_of_another_shape_is_said_with_the_one_that_is_needed() -> None:
    network = linnet.Network.from_integers([(np.zeros((2, 3), int), np.zeros(2, int))], [1])
    (fitted,) = linnet.fit([device_trace()], settings=QUICK)
    tree = linnet.Tree.fit(np.eye(4), [0, 1, 0, 1])
    for wrong, takes, needed in (
        (np.zeros(3, int), network.decide, r"rows \(n, 3\) of digits"),
        (np.zeros(16, int), fitted.model.scores, r"rows \(n, 16\) of features"),
        (np.zeros(4), tree.predict, r"rows \(n, inputs\)"),
        (np.zeros(2, int), lambda wrong: linnet.Network.from_integers([(wrong, [0])], [1]), "weights"),
        (np.zeros((2, 2), int), lambda wrong: linnet.inflection_point([wrong]), "a column"),
    ):
        with pytest.raises(ValueError, match=rf"an array of shape \(.*\), not {needed}"):
            takes(wrong)


def test_what_would_measure_nothing_is_refused() -> None:
    trace = device_trace(reads=200)
    array = linnet.Array("sata", 2, 0)
    with pytest.raises(ValueError, match=f"the last I/O arrives at {trace.last_ns}: nothing would be measured"):
        array.run([trace, trace], "baseline", [], warm_up_ns=trace.last_ns + 1)
    with pytest.raises(ValueError, match="chosen is empty"):
        linnet.compare([trace], Setup("sata", 2, fit=QUICK), [])
    for wrong in (float("nan"), -1.0, float("inf"), 4e7):
        with pytest.raises(ValueError, match=r"end_s is .* 400 days"):
            profile_trace(trace, end_s=wrong)
        with pytest.raises(ValueError, match=r"the end of an interval is .* 400 days"):
            profile_trace(trace, intervals=[(0.0, wrong)])


def test_more_epochs_than_any_run_ends_are_refused() -> None:
    for epochs in (0, 1_000_001, 2**62, 2**64 - 1):
        with pytest.raises(LearnError, match=f"epochs is {epochs}, it must be 1 to 1,000,000"):
            linnet.fit([device_trace()], settings=FitSettings(epochs=epochs))


def test_features_of_any_integer_type_have_the_same_score() -> None:
    model = linnet.fit([device_trace()], settings=QUICK)[0].model
    features = linnet.inflight_rows(device_trace(), model.inflection_ns)[0]
    for kind in ("i1", "i8", ">u4", "u8"):
        given = features.astype(kind)
        assert np.array_equal(model.scores(given), model.scores(features))
        assert np.array_equal(model.predict_latency(given), model.predict_latency(features))
        assert np.array_equal(model.predict("latencies", given[:5].tolist()), model.predict_latency(features[:5]))
    for wrong in (-1, 256):
        with pytest.raises(ValueError, match="a value does not fit uint8"):
            model.scores(np.full((2, 16), wrong))
    with pytest.raises(TypeError, match="integers are needed"):
        model.scores(np.zeros((2, 16)))


def test_the_guide_needs_no_private_name() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "python.md"
    assert "_native" not in guide.read_text()
    assert {"Array", "synth"} <= set(linnet.__all__)
