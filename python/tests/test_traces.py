# SPDX-License-Identifier: MIT OR Apache-2.0
import json
import pickle
import signal

import linnet
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from linnet import Trace, TraceError, read_trace, trace_from_table, write_trace
from linnet._native import Array
from linnet.traces import SCHEMA, trace_to_table


def test_a_trace_survives_parquet_and_csv(made: Trace, tmp_path) -> None:
    table = trace_to_table(made)
    assert table.schema.equals(SCHEMA)
    for name in ("t.parquet", "t.csv"):
        write_trace(made, tmp_path / name)
        assert read_trace(tmp_path / name).equals(table), name


def test_a_conversion_says_what_it_leaves_out(linnet, tmp_path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("t_ns,op,lba_512,sectors,latency_ns,tenant\n0,R,0,8,5000,0\n1500,W,8,0,,1\n2500,W,8,8,,1\n")
    done = linnet("trace", "convert", source, "-o", tmp_path / "out.iolog", "--json")
    told, lost = json.loads(done.stdout), ("latency_ns not held by iolog", "tenant not held by iolog")
    assert told["skipped"] == dict.fromkeys(("zero size", *lost, "arrive_ns cut to whole us"), 1)
    assert told["records"] == 2 and done.returncode == 0
    assert "in.csv: left out" in done.stderr and all(f"{reason} 1" in done.stderr for reason in told["skipped"])
    done = linnet("trace", "convert", source, "-o", tmp_path / "out.csv")
    assert "zero size 1" in done.stderr and "not held" not in done.stderr
    done = linnet("trace", "convert", tmp_path / "out.csv", "-o", tmp_path / "out.parquet")
    assert done.stderr == "" and "2 records from workload-csv" in done.stdout


def test_a_trace_of_writes_has_no_reads_to_learn_from(linnet, tmp_path) -> None:
    (tmp_path / "writes.csv").write_text("t_ns,op,lba_512,sectors,latency_ns\n0,W,0,8,5000\n")
    assert "no reads" in linnet("trace", "stat", tmp_path / "writes.csv").stdout
    for more in ((), ("--preset", "sata")):
        assert "no reads" in linnet("label", "-t", tmp_path / "writes.csv", *more).stderr


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


GOOD = {"arrive_ns": [0, 1, 2], "op": [0, 1, 0], "offset_bytes": [0] * 3, "size_bytes": [4096] * 3}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"device": [1, None, 2]}, "row 1: device is null"),
        ({"tenant": [1, 2, None]}, "row 2: tenant is null"),
        ({"op": [None, 0, 0]}, "row 0: op is null"),
        ({"arrive_ns": [0, 1, -1]}, "row 2: arrive_ns is -1, not a whole number from 0 to 18446744073709551615"),
        ({"arrive_ns": [0, 0.5, 1]}, "row 1: arrive_ns is 0.5, not"),
        ({"latency_ns": [1.0, float("nan"), None]}, "row 1: latency_ns is nan, not"),
        ({"latency_ns": pa.array([1, 2**64 - 1, None], pa.uint64())}, "row 1: latency_ns is 2.64-1; null means none"),
        ({"latency_ns": pa.array([1, 2**63, None], pa.uint64())}, "row 1: latency_ns 9223372036854775808 is beyond"),
        ({"size_bytes": [1, 2, 2**32]}, "row 2: size_bytes is 4294967296, not"),
        ({"size_bytes": [1, 0, 2]}, "row 1: size_bytes is 0"),
        ({"op": [0, 2, 0]}, "row 1: op 2; 0 is a read"),
        (
            {"arrive_ns": [0.0, 2.0**53 - 1, 2.0**53]},
            r"row 2: arrive_ns is 9007199254740992 in a column of type double",
        ),
        (
            {"arrive_ns": pa.array([0, 2**24, 1], pa.float32())},
            r"row 1: arrive_ns is 16777216 .* rounds .* from 2\^24 up",
        ),
        (
            {"latency_ns": pa.array([None, 2**53, 7], pa.float64())},
            r"row 1: latency_ns is .* from 2\^53 up; give integers",
        ),
        ({"op": ["R", "W", "R"]}, "column 'op' is of type string"),
        ({"arrive_ns": pa.array([0, 1, 2], pa.timestamp("us"))}, r"column 'arrive_ns' is of type timestamp\[us\]"),
    ],
)
def test_a_table_is_refused_with_its_column_and_row(columns: dict, message: str) -> None:
    table = pa.table(GOOD | columns)
    for whole in (table, pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        with pytest.raises(TraceError, match=f"^table: {message}"):
            trace_from_table(whole)


def test_a_column_of_a_table_is_there_once() -> None:
    table = pa.table(GOOD)
    for field in ("op", "latency_ns"):
        twice = table.append_column(field, table["op"]).append_column(field, table["op"])
        with pytest.raises(TraceError, match=f"columns have the name '{field}'"):
            trace_from_table(twice)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8(), pa.float64(), pa.decimal128(20, 0)])
def test_whole_numbers_of_any_type_make_a_trace(kind: pa.DataType) -> None:
    table = pa.table({**GOOD, "size_bytes": [64] * 3, "device": [3] * 3, "latency_ns": [7, None, 9], "tenant": [1] * 3})
    other = pa.table([column.cast(kind) for column in table.columns], names=table.column_names)
    for whole in (other, pa.concat_tables([other.slice(0, 2), other.slice(2)])):
        assert trace_to_table(trace_from_table(whole)).equals(trace_to_table(trace_from_table(table)))
    coded = table.set_column(1, "op", table["op"].dictionary_encode())
    assert trace_from_table(coded).columns()["op"].tolist() == [0, 1, 0]
    assert trace_from_table(table).columns()["latency_ns"].tolist() == [7, 2**64 - 1, 9]
    none = trace_from_table(table.set_column(5, "latency_ns", pa.nulls(3)))
    assert not none.has_latency
    with pytest.raises(TraceError, match="no records"):
        trace_from_table(other.slice(0, 0))


def test_a_file_begins_at_its_first_record(tmp_path) -> None:
    later = trace_from_table(pa.table(GOOD)).delayed(1_000_000)
    assert later.columns()["arrive_ns"].tolist() == [1_000_000, 1_000_001, 1_000_002]
    later.write(tmp_path / "t.parquet")
    assert Trace.read(tmp_path / "t.parquet").columns()["arrive_ns"].tolist() == [0, 1, 2]


def test_what_the_guide_says_cannot_be_pickled() -> None:
    tree = linnet.Tree.fit(np.array([[0], [1]], np.float32), [0, 1])
    network = linnet.FloatNetwork.from_arrays([(np.ones((1, 1)), np.zeros(1))], ["linear"])
    for one in (tree, network, trace_from_table(pa.table(GOOD))):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(one)


def test_tenants_survive_tables_and_files(tmp_path) -> None:
    columns = {"arrive_ns": [0, 2, 5], "op": [0, 1, 0], "offset_bytes": [0, 4096, 0], "size_bytes": [4096, 512, 512]}
    table = pa.table(columns | {"tenant": [7, 0, 2**32 - 1]})
    assert trace_from_table(table).columns()["tenant"].tolist() == [7, 0, 2**32 - 1]
    for name in ("t.parquet", "t.csv"):
        write_trace(table, tmp_path / name)
        assert read_trace(tmp_path / name)["tenant"].to_pylist() == [7, 0, 2**32 - 1], name
    assert trace_from_table(table).stat()["tenants"] == 3
    without = trace_from_table(pa.table(columns))
    assert without.columns()["tenant"].tolist() == [0, 0, 0]
    assert without.stat()["tenants"] == 1


def test_parquet_of_other_tools_may_lack_tenants_but_holds_no_empty_ones(tmp_path) -> None:
    columns = {"arrive_ns": [0, 2], "op": [0, 1], "offset_bytes": [0, 4096], "size_bytes": [4096, 512]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet")["tenant"].to_pylist() == [0, 0]
    for name in ("tenant", "device"):
        pq.write_table(pa.table(columns | {name: [1, None]}), tmp_path / "t.parquet")
        with pytest.raises(TraceError, match=f"row 1: field {name}"):
            read_trace(tmp_path / "t.parquet")


def test_latencies_of_which_some_are_absent_may_be_doubles(tmp_path) -> None:
    columns = {"arrive_ns": [0, 5, 9], "op": [0, 1, 0], "offset_bytes": [0, 512, 0], "size_bytes": [512] * 3}
    file, nan = tmp_path / "t.parquet", float("nan")
    for latencies in ([7.0, nan, 2.0**53], [7.0, None, 2.0**53], [nan] * 3):
        pq.write_table(pa.table(columns | {"latency_ns": pa.array(latencies, pa.float64())}), file)
        known = [int(own) if own in (7.0, 2.0**53) else None for own in latencies]
        assert read_trace(file).column("latency_ns").to_pylist() == known
    for wrong in (0.5, -1.0, 2.0**63, float("inf")):
        pq.write_table(pa.table(columns | {"latency_ns": [1.0, wrong, nan]}), file)
        with pytest.raises(TraceError, match=r"row 1: field latency_ns: .* is no whole number from 0 to 2\^63 - 1"):
            Trace.read(file)
    pq.write_table(pa.table(columns | {"arrive_ns": [0.0, 1.0, 2.0]}), file)
    with pytest.raises(TraceError, match="column arrive_ns: DOUBLE where a flat integer is expected"):
        Trace.read(file)


@pytest.mark.parametrize("codec", ["gzip", "brotli", "lz4"])
def test_a_codec_that_is_not_read_is_named_with_those_that_are(codec: str, tmp_path) -> None:
    columns = {"arrive_ns": [0, 5], "op": [0, 1], "offset_bytes": [0, 512], "size_bytes": [512, 512]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", compression=codec)
    told = rf"column arrive_ns is compressed with {codec.upper()}(_RAW)?; zstd, snappy and none are read"
    with pytest.raises(TraceError, match=told):
        Trace.read(tmp_path / "t.parquet")
    # One that is not read may be as it likes.
    other = pa.table(columns | {"other": [1, 2]})
    for known in ("none", "snappy", "zstd"):
        pq.write_table(other, tmp_path / "t.parquet", compression={name: known for name in columns} | {"other": codec})
        assert len(Trace.read(tmp_path / "t.parquet")) == 2


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_parquet_of_other_tools_may_be_signed_but_not_negative(tmp_path, bits: int) -> None:
    """A latency of -1, for none, was read as 4.29 s."""
    file = tmp_path / "t.parquet"
    columns = {"arrive_ns": 5, "op": 0, "offset_bytes": 64, "size_bytes": 64, "device": 0, "latency_ns": 7}
    signed, unsigned = pa.type_for_alias(f"int{bits}"), pa.type_for_alias(f"uint{bits}")
    for name, good in columns.items():
        table = pa.table({key: pa.array([value, value], signed) for key, value in columns.items()})
        pq.write_table(table, file)
        assert read_trace(file)["latency_ns"].to_pylist() == [7, 7]
        at = table.schema.get_field_index(name)
        pq.write_table(table.set_column(at, name, pa.array([good, -1], signed)), file)
        with pytest.raises(TraceError, match=f"row 1: field {name}: `-1` is negative"):
            read_trace(file)
    most = 2 ** min(bits, 63) - 1
    pq.write_table(table.set_column(5, "latency_ns", pa.array([0, most], unsigned)), file)
    assert read_trace(file)["latency_ns"].to_pylist() == [0, most]


def test_the_second_reading_of_a_trace_out_of_order_asks_as_the_first(tmp_path) -> None:
    file = tmp_path / "reversed.csv"
    rows = "\n".join(f"{t},R,0,8" for t in range(200_000, 0, -1))
    file.write_text(f"t_ns,op,lba_512,sectors\n{rows}\n")
    told: list[int] = []
    assert len(Trace.read(file, most=8192, progress=lambda done, _: told.append(done))) == 8192
    # The first one ends soon after the records that a buffer mends, at which both ask.
    assert told[1] == told[0] < told[-1]
    calls = iter(range(len(told)))
    with pytest.raises(KeyboardInterrupt):
        Trace.read(file, most=8192, progress=lambda *_: next(calls) < 1)


@pytest.mark.slow
def test_a_search_for_a_factor_lets_signals_through(made: Trace) -> None:
    ios = 100_000
    columns = {
        "arrive_ns": np.arange(ios, dtype=np.uint64) * np.uint64(100_000),
        "op": np.zeros(ios, np.uint8),
        "offset_bytes": np.arange(ios, dtype=np.uint64) * np.uint64(4096) % np.uint64(1 << 30),
        "size_bytes": np.full(ios, 4096, np.uint32),
        "device": np.zeros(ios, np.uint32),
        "latency_ns": np.full(ios, 2**64 - 1, np.uint64),
    }
    long = Trace.from_columns("long", **columns)
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        long.rerate_like(made, "sata", 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # Those that come while the engine runs on by itself are one.
    assert len(seen) > 2

    def stop(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError):
            long.rerate_like(made, "sata", 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_run_says_whose_reads_it_answered(made: Trace) -> None:
    columns = made.columns()
    tenant = (np.arange(len(made)) % 3).astype(np.uint32)
    shared = Trace.from_columns("shared", **columns | {"tenant": tenant})
    run = Array("consumer-deep", 1, 1).run([shared], "baseline", [], log=True)
    assert len(run.tenant()) == len(run.latency_ns())
    reads = tenant[columns["op"] == 0]
    assert np.bincount(run.tenant()).tolist() == np.bincount(reads).tolist()
    assert run.logs()[0].columns()["tenant"].tolist() == tenant.tolist()


def test_merged_traces_are_one_tenant_each(made: Trace) -> None:
    first, second = made.split(0.5)
    merged = Trace.merge([first, second, made])
    columns = merged.columns()
    assert np.bincount(columns["tenant"]).tolist() == [len(first), len(second), len(made)]
    assert (np.diff(columns["arrive_ns"].astype(np.int64)) >= 0).all()
    assert not merged.has_latency
    again = Trace.merge([merged, merged], keep_tenants=True)
    assert again.stat()["tenants"] == 6
    with pytest.raises(TraceError, match="at least one"):
        Trace.merge([])


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
    cut = int(made.columns()["arrive_ns"][len(made) // 2])
    first, second = made.split_at(cut)
    assert len(first) < len(made) and second.columns()["arrive_ns"][0] == 0
    again = first.followed_by(second, cut)
    assert all((column == again.columns()[name]).all() for name, column in made.columns().items())
    with pytest.raises(ValueError, match=f"records after {cut - 1} ns"):
        made.followed_by(second, cut - 1)
    faster = made.rerate(4)
    assert faster.columns()["arrive_ns"][-1] == pytest.approx(made.columns()["arrive_ns"][-1] / 4, abs=1)
    assert not faster.has_latency
    with pytest.raises(TraceError, match=r"400 days.*at least 0\.00000003"):
        made.rerate(1e-9)
