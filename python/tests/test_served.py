# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives served over NBD from Python."""

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from errno import EIO
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from linnet import FitSettings, Trace, fit
from linnet._native import Device, PolicyError, Server, check_replay_policy, replay
from linnet.cli.replay import lateness


def load(ios: int) -> Trace:
    """Reads and writes of 4 and 8 KiB, 67 us apart."""
    number = np.arange(ios)
    return Trace.from_columns(
        "load",
        arrive_ns=(number * 66_667).astype(np.uint64),
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
    server = Server(drives, unix=tmp_path / "sock", log_len=60, time_scale=30)
    assert len(server.requests("a")["op"]) == 0
    # As slow as this, no thread that stalls sends a read elsewhere.
    replay(server.uris, [load(100), load(1)], "baseline", [], time_scale=30, writes_to_all=False)
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


def test_a_drive_that_is_served_at_another_speed_is_refused(linnet, tmp_path: Path) -> None:
    """Its latencies would be wrong by the factor between the two."""
    where = tmp_path / "t.parquet"
    load(10).write(where)
    server = Server([("a", Device("sata", precondition=False))], unix=tmp_path / "sock", time_scale=1)
    words = ("replay", "-t", where, "-u", server.uris[0], "--overwrite")
    done = linnet(*words, "--time-scale", 4)
    assert (done.returncode, done.stdout) == (1, "")
    assert "served with --time-scale 1, and the replay has 4" in done.stderr
    assert linnet(*words).returncode == 0
    server.stop()


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("oracle", "real ones give none"),
        ("linnos", "network of drive 0: give a model"),
        ("linnet-best", "trees of drive 0: give a model"),
        ("hedge-p95", "95th percentile of drive 0: give a model"),
        ("fastest", "unknown policy"),
    ],
)
def test_a_replay_refuses_policies_that_would_run_as_another(policy: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        check_replay_policy(policy, [], 2)


def test_a_replay_with_a_model_runs_what_the_model_has(made: Trace) -> None:
    (fitted,) = fit([made], settings=FitSettings(epochs=1))
    for policy in ("linnos", "linnet-best", "hedge-p95", "ewma-inflight"):
        check_replay_policy(policy, [fitted.model], 1)
    # It asks no model, and its hedge finds its delay by itself.
    check_replay_policy("ewma-hedged", [], 2)


def serving(listener: socket.socket, error: int, requests: int | None = None) -> None:
    """An NBD server of one export and connection, which ends every request with this error, 0 for none. It closes the
    connection after so many requests."""
    peer, _ = listener.accept()
    with peer:
        peer.sendall(b"NBDMAGIC" + b"IHAVEOPT" + struct.pack(">H", 3))

        def take(size: int) -> bytes:
            got = b""
            while len(got) < size:
                if not (piece := peer.recv(size - len(got))):
                    raise EOFError
                got += piece
            return got

        take(4 + 8 + 4)
        take(struct.unpack(">I", take(4))[0])
        reply = struct.pack(">QI", 0x3E889045565A9, 7)
        peer.sendall(reply + struct.pack(">IIHQH", 3, 12, 0, 1 << 30, 1) + reply + struct.pack(">II", 1, 0))
        with suppress(EOFError, OSError):
            for _ in count() if requests is None else range(requests):
                _, _, command, cookie, _, size = struct.unpack(">IHHQQI", take(28))
                if command == 2:
                    return
                take(size if command == 1 else 0)
                data = bytes(size if command == 0 and not error else 0)
                peer.sendall(struct.pack(">IIQ", 0x67446698, error, cookie) + data)


def test_reads_without_an_answer_are_told_and_counted_at_the_tail(linnet, tmp_path: Path) -> None:
    where = tmp_path / "t.parquet"
    load(10).write(where)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        thread = threading.Thread(target=serving, args=(listener, EIO))
        thread.start()
        uri = f"nbd+unix:///a?socket={tmp_path}/sock"
        done = linnet("replay", "-t", where, "-u", uri, "--overwrite", "--json")
        thread.join(60)
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["reads_failed"], row["writes_failed"], row["errors"]) == (7, 3, 10)
    assert row["p50_us"] >= 1_000_000, "the time limit of a read"
    assert row["false_revoke"] is None and row["writes"] == "all"
    assert "7 of 7 reads and 3 writes failed" in " ".join(done.stderr.split())


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_closed_connection_keeps_the_rows_of_the_policies_before_it(linnet, tmp_path: Path, words: list[str]) -> None:
    where = tmp_path / "t.parquet"
    load(10).write(where)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()

        def serve() -> None:
            serving(listener, 0)
            serving(listener, 0, requests=3)

        thread = threading.Thread(target=serve)
        thread.start()
        uri = f"nbd+unix:///a?socket={tmp_path}/sock"
        policies = "baseline,shortest-queue,ewma-inflight"
        done = linnet("replay", "-t", where, "-u", uri, "--overwrite", "--policy", policies, *words)
        thread.join(60)
    assert done.returncode == 1
    assert done.stderr.startswith("linnet: shortest-queue: device 0: ") and done.stderr.count("\n") == 1
    if words:
        (row,) = json.loads(done.stdout)["rows"]
        assert (row["policy"], row["reads"], row["reads_failed"]) == ("baseline", 7, 0)
    else:
        assert "baseline" in done.stdout and "shortest-queue" not in done.stdout


def test_a_trace_keeps_its_load_on_more_drives(linnet, tmp_path: Path) -> None:
    where = tmp_path / "t.parquet"
    load(60).write(where)
    drives = [(name, Device("sata", seed=i, precondition=False)) for i, name in enumerate(("a", "b", "c"))]
    server = Server(drives, unix=tmp_path / "sock", time_scale=30)
    uris = [f"-u{uri}" for uri in server.uris]
    words = ("--overwrite", "--writes", "own", "--time-scale", 30, "--json")
    done = linnet("replay", "-t", where, *uris, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][0]["reads"] == 40
    answered(server, "a", range(60))
    sent = [server.requests(name)["offset_bytes"] for name in "abc"]
    assert [len(offsets) for offsets in sent] == [60, 0, 0], "slices side by side are three times the load"
    refused = linnet("replay", *["-t", where] * 4, *uris, *words)
    server.stop()
    assert refused.returncode == 2
    assert "4 traces for 3 drives: give --uri 4 times" in " ".join(refused.stderr.replace("│", " ").split())


def test_lateness_is_by_nearest_rank() -> None:
    assert lateness([1000 * n for n in range(1, 101)]) == {"late_us_p50": 50, "late_us_p99": 99}
    assert lateness([]) == {}


def test_a_replay_without_a_drive_prints_no_rows(linnet, tmp_path: Path) -> None:
    where = tmp_path / "t.parquet"
    load(10).write(where)
    done = linnet("replay", "-t", where, "-u", f"nbd+unix:///a?socket={tmp_path}/none", "--overwrite", "--json")
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith("linnet: baseline: nbd+unix:")


def test_ctrl_c_ends_the_wait_for_a_server(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(tmp_path / "sock"))
        listener.listen(0)
        first.connect(str(tmp_path / "sock"))
        asked = count()
        uri = f"nbd+unix:///a?socket={tmp_path}/sock"
        with pytest.raises(KeyboardInterrupt):
            replay([uri], [load(10)], "baseline", [], progress=lambda _: next(asked) < 2)


def test_a_drive_is_not_its_own_replica(linnet, tmp_path: Path) -> None:
    where = tmp_path / "t.csv"
    load(10).write(where)
    server = Server([("a", Device("sata", precondition=False))], unix=tmp_path / "sock")
    again = f"nbd+unix:///?socket={tmp_path / 'sock'}"
    for words in ((server.uris[0], server.uris[0]), (server.uris[0], again)):
        done = linnet("replay", "-t", where, *(f"-u{uri}" for uri in words), "--overwrite")
        assert done.returncode == 1 and "give each drive once" in done.stderr, done.stderr
    server.stop()


def test_a_replay_says_that_traces_may_not_have_begun_together(linnet, tmp_path: Path) -> None:
    where = [tmp_path / f"{name}.csv" for name in ("a", "b")]
    for i, path in enumerate(where):
        load(10 + i).write(path)
    server = Server([(name, Device("sata", precondition=False)) for name in ("a", "b")], unix=tmp_path / "sock")
    words = [word for path in where for word in ("-t", path)] + [f"-u{uri}" for uri in server.uris]
    told = json.loads(linnet("replay", *words, "--overwrite", "--json").stdout)
    assert told["notes"][0].startswith("the traces may not have begun together: all begin at 0")
    assert told["notes"][1].endswith("depend on a handful of them")
    server.stop()


def test_no_drive_is_served_that_is_larger_than_its_model(linnet, tmp_path: Path) -> None:
    capacity = Device("sata", precondition=False).capacity_bytes
    larger = linnet(
        *("ssd", "serve", "--preset", "sata", "--size", capacity + 1, "--seconds", 0, "--unix", tmp_path / "s")
    )
    assert larger.returncode == 1 and f"more than the {capacity} of the modelled drive" in larger.stderr, larger.stderr
    Server([("a", Device("sata", precondition=False))], size_bytes=capacity, unix=tmp_path / "s").stop()
