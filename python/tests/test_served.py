# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives served over NBD from Python."""

import time
from pathlib import Path

import numpy as np
import pytest
from linnet import Trace
from linnet._native import Device, Server, replay


def load(ios: int) -> Trace:
    """Reads and writes of 4 and 8 KiB, 2 ms apart."""
    number = np.arange(ios)
    return Trace.from_columns(
        "load",
        arrive_ns=(number * 2_000_000).astype(np.uint64),
        op=(number % 3 == 1).astype(np.uint8),
        offset_bytes=(number * 65_536).astype(np.uint64),
        size_bytes=np.where(number % 2, 4096, 8192).astype(np.uint32),
        device=np.zeros(ios, np.uint32),
        latency_ns=np.zeros(ios, np.uint64),
    )


def answered(server: Server, drive: str, numbers: range) -> dict[str, np.ndarray]:
    """The requests of a drive once those numbered `numbers` are among them: an answer is sent first, then recorded."""
    until = time.monotonic() + 30
    while (seen := server.requests(drive)) is not None and not set(numbers) <= set(seen["offset_bytes"] // 65_536):
        assert time.monotonic() < until, f"requests of {drive} are never recorded"
        time.sleep(0.001)
    return seen


def test_a_server_tells_the_requests_of_a_drive(tmp_path: Path) -> None:
    drives = [(name, Device("sata", seed=i, precondition=False)) for i, name in enumerate(("a", "b"))]
    server = Server(drives, unix=tmp_path / "sock", log_len=60)
    assert len(server.requests("a")["op"]) == 0
    replay(server.uris, [load(100), load(1)], "baseline", [])
    seen = answered(server, "a", range(40, 100))
    assert len(seen["op"]) == 60, "the last 60 of 100"
    order = np.argsort(seen["offset_bytes"])
    number = (seen["offset_bytes"][order] // 65_536).astype(int)
    np.testing.assert_array_equal(number, np.arange(40, 100))
    np.testing.assert_array_equal(seen["op"][order], number % 3 == 1)
    np.testing.assert_array_equal(seen["size_bytes"][order], np.where(number % 2, 4096, 8192))
    assert (np.diff(seen["arrive_ns"][order].astype(np.int64)) > 0).all()
    assert (seen["latency_ns"] >= seen["latency_ns_model"]).all() and (seen["latency_ns_model"] > 0).all()
    assert answered(server, "b", range(1))["offset_bytes"].tolist() == [0]
    with pytest.raises(KeyError, match="c"):
        server.requests("c")
    server.stop()
    assert server.requests("a") is None
