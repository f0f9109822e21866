# SPDX-License-Identifier: MIT OR Apache-2.0
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from linnet import Trace, TraceError, read_trace, trace_from_table, write_trace
from linnet.traces import SCHEMA, trace_to_table


def test_a_trace_survives_parquet_and_csv(made: Trace, tmp_path) -> None:
    table = trace_to_table(made)
    assert table.schema.equals(SCHEMA)
    for name in ("t.parquet", "t.csv"):
        write_trace(made, tmp_path / name)
        assert read_trace(tmp_path / name).equals(table), name


def test_parquet_written_here_is_plain_parquet(made: Trace, tmp_path) -> None:
    write_trace(made, tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").select(["arrive_ns", "size_bytes"]).num_rows == len(made)


def test_tables_need_their_columns() -> None:
    with pytest.raises(TraceError, match="size_bytes"):
        trace_from_table(pa.table({"arrive_ns": [0], "op": [0], "offset_bytes": [0]}))
    table = pa.table({"arrive_ns": [5, 2], "op": [0, 1], "offset_bytes": [0, 4096], "size_bytes": [4096, 512]})
    trace = trace_from_table(table)
    assert trace.columns()["arrive_ns"].tolist() == [0, 3]
    assert not trace.has_latency


def test_real_traces_match_what_is_written_of_them(shared) -> None:
    table = read_trace(shared / "traces/msprod/msnfs.first90s.trace.zst")
    assert table.num_rows == 112_886
    assert round(100 * (1 - np.mean(table["op"].to_numpy())), 1) == 90.6
    assert table["latency_ns"].null_count == table.num_rows
    real = read_trace(shared / "traces/flashnet-nvme/tencent.cut.per_50k.rw_75_25.379.trace.zst")
    reads = real.filter(pa.compute.equal(real["op"], 0))["latency_ns"].to_numpy() / 1000
    assert np.percentile(reads, 50) == pytest.approx(1529, rel=0.01)


def test_splitting_and_rerating_keep_every_record(made: Trace) -> None:
    first, second = made.split(0.5)
    assert len(first) + len(second) == len(made)
    assert sum(map(len, made.slices(3))) == len(made)
    faster = made.rerate(4)
    assert faster.columns()["arrive_ns"][-1] == pytest.approx(made.columns()["arrive_ns"][-1] / 4, abs=1)
    assert not faster.has_latency
