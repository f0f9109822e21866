# SPDX-License-Identifier: MIT OR Apache-2.0
"""The file of a fitted placement model: spec/place-model.md."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from linnet._native import crc32c

MAGIC = b"\x89LNT\r\n\x1a\n"
VERSION = 2
KIND = 4
FIXED = struct.Struct("<8sHHIIII")
"""Magic, version, kind, bytes of the head, bytes of the file, rows, columns."""
MOST_BYTES = 64 << 20
MOST_ROWS = 1 << 16
MOST_COLUMNS = 256


def pack(head: dict[str, Any], columns: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    """The bytes of a file. ``columns`` is (columns, rows)."""
    text = json.dumps(head, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    count, rows = columns.shape
    size = FIXED.size + len(text) + columns.size * 8 + 4
    body = FIXED.pack(MAGIC, VERSION, KIND, len(text), size, rows, count) + text
    body += np.ascontiguousarray(columns, "<f8").tobytes()
    return body + struct.pack("<I", crc32c(body))


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def unpack(data: bytes) -> tuple[dict[str, Any], np.ndarray[Any, np.dtype[np.float64]]]:
    """Head and columns of a file. Raises ValueError, which says what is wrong, and at which offset."""
    if len(data) >= len(MAGIC) and data[: len(MAGIC)] != MAGIC:
        raise ValueError("not a model file (magic, offset 0)")
    if len(data) < FIXED.size + 4:
        raise ValueError(f"truncated at {len(data)} bytes")
    _, version, kind, head_bytes, size, rows, count = FIXED.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"version {version} (offset 8); this reader knows {VERSION}")
    if kind != KIND:
        raise ValueError(f"a model of kind {kind} (offset 10), not of placement ({KIND})")
    if size > MOST_BYTES or rows > MOST_ROWS or count > MOST_COLUMNS:
        raise ValueError(f"too large (offset 16): {size} bytes, {rows} rows, {count} columns")
    if FIXED.size + head_bytes + rows * count * 8 + 4 != size:
        raise ValueError("its parts do not add up to its size (offset 16)")
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes; its head says {size} (offset 16)")
    if struct.unpack_from("<I", data, size - 4)[0] != crc32c(data[:-4]):
        raise ValueError(f"checksum does not match (offset {size - 4}); the file is damaged")
    start = FIXED.size + head_bytes
    try:
        head = json.loads(data[FIXED.size : start].decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its head is not JSON (offset {FIXED.size}): {error}") from error
    if not isinstance(head, dict):
        raise ValueError(f"its head is not an object (offset {FIXED.size})")
    columns = np.frombuffer(data, "<f8", rows * count, start).reshape(count, rows).astype(np.float64)
    if not np.isfinite(columns).all():
        raise ValueError(f"a number is not finite (offset {start + 8 * int(np.flatnonzero(~np.isfinite(columns))[0])})")
    return head, columns
