# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arguments that are no trace or out of their range: the error says what is needed."""

from pathlib import Path

import linnet
import numpy as np
import pyarrow as pa
import pytest
from conftest import device_trace
from linnet import FitSettings, LearnError, Setup
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


@pytest.mark.parametrize("path", ["t.parquet", b"t.parquet", Path("t.parquet")])
def test_a_path_is_to_be_read_first(path) -> None:
    for given in (path, [path]):
        with pytest.raises(TypeError, match=r"t\.parquet.* is a .*read it first: linnet\.Trace\.read\(path\)"):
            as_traces(given)


def test_more_epochs_than_any_run_ends_are_refused() -> None:
    for epochs in (0, 1_000_001, 2**62, 2**64 - 1):
        with pytest.raises(LearnError, match=f"epochs is {epochs}, it must be 1 to 1,000,000"):
            linnet.fit([device_trace()], settings=FitSettings(epochs=epochs))


def test_the_guide_needs_no_private_name() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "python.md"
    assert "_native" not in guide.read_text()
    assert {"Array", "synth"} <= set(linnet.__all__)
