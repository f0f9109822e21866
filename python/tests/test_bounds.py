# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory and time have bounds, errors name them, and nothing that Python calls ends or hangs the process."""

import functools
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import Model, Trace, TraceError, _native, write_trace
from linnet.calibration.iocost import read_result
from linnet.place.cache import Cache
from linnet.place.fitted_file import read_model
from linnet.place.profile_file import read_profile
from linnet.place.profiles import from_file
from linnet.place.service.serve import read_drives

NONE = 2**64 - 1
RECORDS = 2_200_000
"""More than :data:`SMALL` holds, and more than one sorted run of what is too far out of order (2^21 records)."""
SMALL = 320 << 20
"""A limit of the address space: a start takes 70 to 150 MiB of it."""
LEAST = 150 << 20
"""A limit under which every command starts; what it does may not fit, which it then says."""


def made(arrive: Sequence[int] | np.ndarray, offset: int = 0, latency: int = NONE) -> Trace:
    """A trace of reads at these times."""
    n = len(arrive)
    return Trace.from_columns(
        "made",
        arrive_ns=np.array(arrive, np.uint64),
        op=np.zeros(n, np.uint8),
        offset_bytes=np.full(n, offset, np.uint64),
        size_bytes=np.full(n, 4096, np.uint32),
        device=np.zeros(n, np.uint32),
        latency_ns=np.full(n, latency, np.uint64),
    )


def child(code: str, **limits: int) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, which must end within two minutes."""

    def limit() -> None:
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, preexec_fn=limit)


def test_slices_are_bounded() -> None:
    trace = made([0, 5, 9])
    assert sum(len(part) for part in trace.slices(1000)) == 3
    for pieces in (10**6 + 1, 10**12, 2**63):
        with pytest.raises(ValueError, match="limit is 1000000"):
            trace.slices(pieces)


def test_columns_have_the_bounds_of_the_readers(tmp_path: Path) -> None:
    """What is taken can be written and read again, and no run lasts centuries."""
    for wrong, field in (
        (lambda: made([0, 1000, 2**64 - 1]), "arrive_ns"),
        (lambda: made([0], offset=2**63 - 4095), "offset_bytes"),
        (lambda: made([0], latency=2**63), "latency_ns"),
    ):
        with pytest.raises(TraceError, match=field):
            wrong()
    edge = made([7, 7 + 400 * 86400 * 10**9], offset=2**63 - 4097, latency=2**63 - 1)
    write_trace(edge, tmp_path / "edge.parquet")
    again = Trace.read(tmp_path / "edge.parquet").columns()
    assert all((again[name] == column).all() for name, column in edge.columns().items())


@pytest.mark.parametrize("drive", ["small_drive", "small_queued_drive"])
def test_a_run_over_a_long_gap_ends(request: pytest.FixtureRequest, drive: str) -> None:
    array = _native.Array(str(request.getfixturevalue(drive)), 2, 0)
    run = array.run([made([0, 1000, 400 * 86400 * 10**9])] * 2, "baseline", [])
    assert len(run.latency_ns()) == 6


@pytest.mark.slow
def test_ctrl_c_ends_a_run(small_queued_drive: Path) -> None:
    # Run after run without an instruction of Python between them, so that a run itself must notice the signal.
    code = f"""
        from collections import deque
        from functools import partial
        import numpy as np
        from linnet import Trace, _native
        n = 3_000_000
        column = lambda kind, value=0: np.full(n, value, kind)
        trace = Trace.from_columns("x", np.arange(n, dtype=np.uint64) * 100_000, column(np.uint8), column(np.uint64),
                                   column(np.uint32, 4096), column(np.uint32), column(np.uint64, 2**64 - 1))
        array = _native.Array({str(small_queued_drive)!r}, 2, 0)
        print("runs", flush=True)
        deque(iter(partial(array.run, [trace] * 2, "baseline", []), None), maxlen=0)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as runs:
        assert runs.stdout is not None
        assert runs.stdout.readline() == "runs\n"
        time.sleep(0.3)
        runs.send_signal(signal.SIGINT)
        try:
            assert "KeyboardInterrupt" in runs.communicate(timeout=60)[1]
        finally:
            runs.kill()


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the limit for files of this kind"):
        Model.load("/dev/zero")
    with pytest.raises(_native.DeviceError, match="limit"):
        _native.Device(params="/dev/zero", precondition=False)
    with pytest.raises(_native.DeviceError, match="not a snapshot"):
        _native.Device.load("/dev/zero")
    for read in (read_result, read_drives, read_model, read_profile, from_file):
        path = Path("/dev/zero")
        if read is from_file:
            path = tmp_path / "zero.fio"
            path.symlink_to("/dev/zero")
        with pytest.raises(OSError, match="limit for files of this kind"):
            read(path)
    with pytest.raises(OSError, match="not a regular file"):
        Cache(Path("/dev/zero"))


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zeros.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(65):
            file.write(bytes(1 << 20))
    with pytest.raises(OSError, match="limit"):
        read_result(path)


def test_a_panic_is_an_exception(linnet) -> None:
    with pytest.raises(Exception, match="by design") as caught:
        _native._panic("by design")
    assert isinstance(caught.value, _native.Panic)


def test_work_on_all_cpus_goes_on_after_a_fork(small_drive: Path) -> None:
    """The child has none of the parent's threads, and must not wait for them."""
    done = child(f"""
        import os, sys, threading
        from linnet import _native

        def work(seed):
            _native.Array({str(small_drive)!r}, 2, seed)

        work(0)
        forked = threading.Event()

        def keep_busy():
            while not forked.is_set():
                work(0)

        busy = threading.Thread(target=keep_busy)
        busy.start()
        children = []
        for i in range(10):
            process = os.fork()
            if process == 0:
                work(i)
                os._exit(7)
            children.append(process)
        forked.set()
        busy.join()
        print([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in children])
    """)
    assert done.stdout.strip() == str([7] * 10), done.stderr


def test_a_forked_child_leaves_the_parents_server_alone(tmp_path: Path) -> None:
    done = child(f"""
        import os, sys
        from linnet import _native
        drive = _native.Device("sata", precondition=False)
        server = _native.Server([("a", drive)], unix={str(tmp_path / "sock")!r})
        process = os.fork()
        if process == 0:
            assert server.stop() is None and server.stats() is None
            del server
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), os.path.exists({str(tmp_path / "sock")!r}))
        server.stop()
    """)
    assert done.stdout.split() == ["7", "True"], done.stderr


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More records than :data:`SMALL` holds, in order but for one in 1,000, which no buffer can put in its place."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    times = np.arange(RECORDS) * 1000
    times[::1000] = 0
    write_trace(made(times, latency=5000), path)
    return path


def test_a_limit_that_the_process_has_by_now_counts(tmp_path: Path) -> None:
    """With room for a small trace beside what is in use, and not for a larger one."""
    small, larger = tmp_path / "small.parquet", tmp_path / "larger.parquet"
    write_trace(made(range(1_000)), small)
    write_trace(made(range(400_000)), larger)
    done = child(f"""
        import resource
        from linnet import Trace, TraceError
        Trace.read({str(small)!r})
        in_use = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + (56 << 20),) * 2)
        print(len(Trace.read({str(small)!r})))
        try:
            print(len(Trace.read({str(larger)!r})))
        except TraceError as error:
            print(error)
    """)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "1000" and "RLIMIT_AS" in second, done.stdout


@pytest.mark.slow
def test_the_guard_of_memory_follows_the_limit_of_the_process(large: Path) -> None:
    code = f"""
        from linnet import Trace, TraceError
        try:
            print(len(Trace.read({str(large)!r})))
        except TraceError as error:
            print(error)
    """
    assert child(code).stdout.strip() == str(RECORDS)
    done = child(code, AS=SMALL)
    assert done.returncode == 0, done.stderr
    assert "RLIMIT_AS" in done.stdout


@pytest.mark.slow
def test_stat_streams(linnet: Callable[..., subprocess.CompletedProcess[str]], large: Path, tmp_path: Path) -> None:
    """Statistics of a file that does not fit in the memory that the command may take."""
    path = tmp_path / "made.parquet"
    write_trace(device_trace(), path)
    of_file = json.loads(linnet("trace", "stat", path, "--json").stdout)
    del of_file["notes"]  # how few reads they are
    assert of_file == Trace.read(path).stat()
    done = linnet("trace", "stat", large, "--json", preexec_fn=_small)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == RECORDS


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "rerate LARGE --factor 2 -o OUT.parquet",
        "convert LARGE -o OUT.csv",
        "merge LARGE LARGE --keep-tenants -o OUT.parquet",
    ],
)
def test_what_goes_from_file_to_file_streams(linnet, large: Path, tmp_path: Path, words: str) -> None:
    """Conversions, rates and merges of what does not fit."""
    files = {"LARGE": str(large), "OUT.parquet": str(tmp_path / "out.parquet"), "OUT.csv": str(tmp_path / "out.csv")}
    done = linnet("trace", *(files.get(word, word) for word in words.split()), preexec_fn=_small)
    assert done.returncode == 0, done.stderr
    assert f"{RECORDS * (2 if words.startswith('merge') else 1):,} records" in done.stdout
    if "OUT.csv" in words:
        assert (tmp_path / "out.csv").read_text().count("\n") == RECORDS + 1


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 20 << 20, 60 << 20])
def test_what_does_not_fit_is_refused_and_the_limit_named(linnet, large: Path, tmp_path: Path, more: int) -> None:
    """Just above what a command takes to start, it either works or says which limit is in the way."""
    for words in (
        ("trace", "stat", large),
        ("trace", "convert", large, "-o", tmp_path / "d.parquet"),
        ("trace", "merge", large, large, "--keep-tenants", "-o", tmp_path / "d.csv"),
        ("place", "profile", large, "-o", tmp_path / "d"),
        ("fit", "-t", large, "--epochs", "1", "-o", tmp_path / "d.linnet"),
        ("compare", "-t", large, "--policy", "baseline"),
    ):
        done = linnet(*words, preexec_fn=functools.partial(_small, LEAST + more))
        assert done.returncode == 0 or (done.returncode == 1 and "RLIMIT_AS" in done.stderr), (words, done.stderr)


@pytest.mark.slow
def test_what_must_fit_takes_a_part_or_is_refused(linnet, large: Path) -> None:
    """A part of a trace is blocks of it, and is said; the whole is refused by name where it does not fit."""
    part = Trace.read(large, most=100_000)
    assert (len(part), part.every) == (73_728, 32)
    assert f"73728 of {RECORDS} records are used: one of every 32 blocks" in part.warnings[0]
    refused = linnet("label", "-t", large, preexec_fn=_small)
    assert refused.returncode == 1
    assert "RLIMIT_AS" in refused.stderr


def test_a_fit_takes_a_part_that_it_states(linnet, tmp_path: Path) -> None:
    write_trace(device_trace(reads=60_000), tmp_path / "a.parquet")
    words = ("fit", "-t", tmp_path / "a.parquet", "--epochs", "1", "--json", "-o", tmp_path / "a.linnet")
    done = linnet(*words, "--max-records", "20000")
    found = json.loads(done.stdout)
    assert found["block_of_every"] == [4]
    assert found["train_rows"] + found["test_rows"] <= 2 * 8192
    assert "16384 of 60000 records are used" in done.stderr.replace("\n", " ")
    assert json.loads(linnet(*words).stdout)["block_of_every"] == [1]


def _small(limit: int = SMALL) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
