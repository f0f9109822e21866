# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces as Arrow tables. Reading and writing happen in the Rust crate ``linnet-trace``; nothing is parsed here.

Tables need ``linnet[arrow]``, which is loaded by the first table; a :class:`linnet.Trace` needs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from linnet._native import Trace, TraceError
from linnet.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

    SCHEMA: pa.Schema
    """Columns of a trace: those of ``spec/trace-record.md``. ``op`` is 0 for a read and 1 for a write."""

_NONE = 2**64 - 1
"""Stands for "no latency" in the columns of a :class:`linnet.Trace`."""
_MANTISSA = {16: 11, 32: 24, 64: 53}
"""Of floating types by their width, both in bits: whole numbers below 2 to this power are all exact."""


@cache
def _schema() -> pa.Schema:
    require("arrow", "a trace as an Arrow table")
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("arrive_ns", pa.uint64(), nullable=False),
            pa.field("op", pa.uint8(), nullable=False),
            pa.field("offset_bytes", pa.uint64(), nullable=False),
            pa.field("size_bytes", pa.uint32(), nullable=False),
            pa.field("device", pa.uint32(), nullable=False),
            pa.field("latency_ns", pa.uint64(), nullable=True),
            pa.field("tenant", pa.uint32(), nullable=False),
        ]
    )


def __getattr__(name: str) -> Any:
    if name == "SCHEMA":
        return _schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def read_trace(
    path: str | PathLike[str], format: str | None = None, progress: Callable[[int, int], None] | None = None
) -> pa.Table:
    """Read a trace file of any known format as an Arrow table, sorted by arrival.

    ``format`` overrides detection (see :func:`linnet.trace_formats`). ``progress`` is called with bytes read and bytes
    in all. The table's schema metadata carries ``linnet.format`` and the counts of skipped rows. Raises
    :class:`linnet.TraceError`, which says file, record and field.
    """
    return trace_to_table(Trace.read(path, format=format, progress=progress))


def trace_to_table(trace: Trace) -> pa.Table:
    """Give a trace's records as an Arrow table with :data:`SCHEMA`."""
    schema = _schema()
    import pyarrow as pa

    columns = trace.columns()
    latency = columns.pop("latency_ns")
    missing = latency == np.uint64(_NONE)
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays["latency_ns"] = pa.array(latency, mask=missing)
    metadata = {"linnet.format": trace.format, **{f"linnet.skipped.{k}": str(v) for k, v in trace.skipped.items()}}
    return pa.table([arrays[f.name] for f in schema], schema=schema.with_metadata(metadata))


def _first_without(values: pa.Array, kind: pa.DataType) -> int:
    """The first row whose value is none of a type, given that one is not."""
    import pyarrow as pa

    first, rows = 0, len(values)
    while rows > 1:
        half = rows // 2
        try:
            values.slice(first, half).cast(kind)
            first, rows = first + half, rows - half
        except pa.ArrowException:
            rows = half
    return first


def _column(table: pa.Table, name: str, field: pa.Field) -> np.ndarray:
    """A column as the schema has it: what may be absent is then 0, or no latency, and no latency is 2^64-1."""
    import pyarrow as pa
    from pyarrow import types

    count = table.column_names.count(field.name)
    if count == 0:
        return np.full(table.num_rows, _NONE if field.nullable else 0, dtype=field.type.to_pandas_dtype())
    if count > 1:
        raise TraceError(f"{name}: {count} columns have the name {field.name!r}")
    values = table.column(field.name).combine_chunks()
    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    numeric = (types.is_integer, types.is_boolean, types.is_floating, types.is_decimal, types.is_null)
    if not any(holds(kind) for holds in numeric):
        raise TraceError(f"{name}: column {field.name!r} is of type {values.type}, where whole numbers are expected")
    try:
        numbers = values.cast(field.type)
    except pa.ArrowException:
        row = _first_without(values, field.type)
        most = 2**field.type.bit_width - 1
        raise TraceError(
            f"{name}: row {row}: {field.name} is {values[row]}, not a whole number from 0 to {most}"
        ) from None
    empty = np.asarray(numbers.is_null())
    if empty.any() and not field.nullable:
        raise TraceError(f"{name}: row {empty.argmax()}: {field.name} is null, which only latency_ns may be")
    if types.is_floating(kind):
        exact = _MANTISSA[kind.bit_width]
        if (wide := np.asarray(numbers.fill_null(0)) >= 2**exact).any():
            row = int(wide.argmax())
            raise TraceError(
                f"{name}: row {row}: {field.name} is {numbers[row]} in a column of type {values.type}, which rounds "
                f"whole numbers from 2^{exact} up; give integers"
            )
    filled = np.asarray(numbers.fill_null(_NONE if field.nullable else 0))
    if field.nullable and (wrong := (filled == _NONE) & ~empty).any():
        raise TraceError(f"{name}: row {wrong.argmax()}: {field.name} is 2^64-1; null means none")
    return filled


def trace_from_table(table: pa.Table, name: str = "table") -> Trace:
    """Take a table with the columns of :data:`SCHEMA` as a trace.

    ``device``, ``latency_ns`` and ``tenant`` may be absent, and a latency may be null. Columns may be of any integer,
    boolean, decimal or floating type that holds whole numbers in the range of the schema; those of a floating type are
    below the first that it rounds, 2^53 for 64 bits and 2^24 for 32. Raises :class:`linnet.TraceError`, which says
    column and row, and :class:`TypeError` for what is no table.
    """
    schema = _schema()
    if not _is_table(table):
        raise TypeError(f"a {type(table).__name__} where a pyarrow.Table is needed: linnet.read_trace(path) gives one")
    required = [f.name for f in schema if f.name not in ("device", "latency_ns", "tenant")]
    lacking = [c for c in required if c not in table.column_names]
    if lacking:
        raise TraceError(f"{name}: no column {lacking[0]!r}; a trace has {', '.join(f.name for f in schema)}")
    return Trace.from_columns(name, **{field.name: _column(table, name, field) for field in schema})


def _is_table(given: object) -> bool:
    # Without pyarrow nobody has a table.
    return "pyarrow" in sys.modules and isinstance(given, sys.modules["pyarrow"].Table)


def as_trace(given: Trace | pa.Table) -> Trace:
    """Give a trace as it is and a table as a trace; raise :class:`TypeError` for anything else."""
    if isinstance(given, Trace):
        return given
    if _is_table(given):
        return trace_from_table(given)
    advice = "read it first: linnet.Trace.read(path)" if isinstance(given, (str, bytes, PathLike)) else ""
    raise TypeError(
        f"{given!r:.60} is a {type(given).__name__}, and a trace is needed: "
        + (advice or "a linnet.Trace, or a table of linnet.read_trace")
    )


def as_traces(given: Trace | pa.Table | Sequence[Trace | pa.Table]) -> list[Trace]:
    """Give the traces of one or several devices, each as :func:`as_trace` does."""
    if isinstance(given, (Trace, str, bytes, PathLike)) or _is_table(given) or not hasattr(given, "__iter__"):
        return [as_trace(given)]
    return [as_trace(one) for one in given]


def write_trace(trace: Trace | pa.Table, path: str | PathLike[str]) -> None:
    """Write a trace; the ending of ``path`` says how: ``.parquet``, ``.csv`` or ``.iolog``.

    Parquet alone holds ``origin_ns``, by which :func:`linnet.compare` puts traces of one clock beside each other. A
    trace that is read begins at its first I/O, so what :meth:`linnet.Trace.delayed` added is kept in that alone. The
    file appears whole or not at all. Raises :class:`TypeError` for what is no trace.
    """
    as_trace(trace).write(path)
