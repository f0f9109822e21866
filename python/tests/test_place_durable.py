# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the placement service promises when things go wrong: many clients, kill -9, a full disk, a clock that steps."""

import contextlib
import http.client
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from linnet.place.service.state import State
from linnet.place.service.state_file import StateFull
from linnet.place.service.writer import CHECKPOINT_S, Answer, Refused, Writer
from place_client import FICKLE_CLOCK, Client, Service, drives, tenant
from place_made import GB

CLIENTS = 16
EACH = 12


def load(service: Service, work: Callable[[Client, int], None]) -> None:
    """Run ``work`` on this many connections at the same time."""
    problems: list[BaseException] = []

    def run(index: int) -> None:
        try:
            work(service.client(), index)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def check_books(client: Client, expected: dict[str, str]) -> None:
    """Every tenant that was answered is where the answer said, nobody else is there, and no drive is overfull."""
    found = {one["id"]: one["drive"] for one in client.ask("GET", "/v1/tenants?limit=1000")[1]["tenants"]}
    assert found == expected
    counts = Counter(found.values())
    for one in client.ask("GET", "/v1/drives?limit=1000")[1]["drives"]:
        assert one["tenants"] == counts[one["name"]]
        assert one["used_bytes"] == 10 * GB * counts[one["name"]] <= one["capacity_bytes"]


def test_no_room_is_given_twice(tmp_path: Path) -> None:
    """Room for 100 tenants, 192 that ask at the same time, each twice with the same id."""
    with Service(tmp_path / "s.db") as service:
        service.client().ask("POST", "/v1/drives", drives(10))
        placed: dict[str, str] = {}
        statuses: list[int] = []

        def work(client: Client, index: int) -> None:
            for number in range(EACH):
                name = f"t{index}-{number}"
                first = client.ask("POST", "/v1/tenants", tenant(name), key=name)
                second = client.ask("POST", "/v1/tenants", tenant(name), key=name)
                statuses.append(first[0])
                for status, body in (first, second):
                    if status == 201:
                        assert placed.setdefault(name, body["drive"]) == body["drive"]

        load(service, work)
        assert Counter(statuses) == {201: 100, 409: CLIENTS * EACH - 100}
        check_books(service.client(), placed)


def test_tenants_come_and_go_at_the_same_time(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db") as service:
        service.client().ask("POST", "/v1/drives", drives(20))
        left: dict[str, str] = {}

        def work(client: Client, index: int) -> None:
            for number in range(EACH):
                name = f"t{index}-{number}"
                status, body = client.ask("POST", "/v1/tenants", tenant(name))
                assert status == 201
                if number % 2:
                    assert client.ask("DELETE", f"/v1/tenants/{name}")[0] == 200
                else:
                    left[name] = body["drive"]

        load(service, work)
        check_books(service.client(), left)


def kill_after(enough: threading.Event, service: Service) -> None:
    enough.wait(60)
    service.kill()


EAGER = "import linnet.place.service.writer as writer; writer.CHECKPOINT_S = 0.0"
"""A checkpoint after each commit: a kill may cut one."""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", EAGER])
def test_kill_9_loses_nothing_that_was_answered_and_doubles_nothing(tmp_path: Path, before: str) -> None:
    """Killed three times under load. What got no answer is asked again with its id, as a client would."""
    placed: dict[str, str] = {}
    waiting = [f"t{index}" for index in range(CLIENTS * EACH)]
    for life in range(4):
        with Service(tmp_path / "s.db", before=before) as service:
            client = service.client()
            client.ask("POST", "/v1/drives", drives(40))
            there = {one["id"]: one["drive"] for one in client.ask("GET", "/v1/tenants?limit=1000")[1]["tenants"]}
            assert placed.items() <= there.items(), "what was answered is there"
            if life == 3:
                for name in waiting:
                    status, body = client.ask("POST", "/v1/tenants", tenant(name), key=f"id-{name}")
                    assert status == 201
                    assert placed.setdefault(name, body["drive"]) == body["drive"]
                check_books(client, placed)
                break
            answers = 0
            enough = threading.Event()

            def work(client: Client, index: int, enough: threading.Event = enough) -> None:
                nonlocal answers
                for name in waiting[index::CLIENTS]:
                    if name in placed:
                        continue
                    try:
                        status, body = client.ask("POST", "/v1/tenants", tenant(name), key=f"id-{name}")
                    except (OSError, http.client.HTTPException):
                        return
                    assert status == 201
                    placed[name] = body["drive"]
                    answers += 1
                    if answers > 40:
                        enough.set()

            killer = threading.Thread(target=kill_after, args=(enough, service))
            killer.start()
            load(service, work)
            enough.set()
            killer.join()
    assert sqlite3.connect(tmp_path / "s.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    """No file of the process may grow, as if the disk were full; then it may again."""
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(50))
        placed = {}
        for number in range(5):
            body = client.ask("POST", "/v1/tenants", tenant(f"before{number}"))[1]
            placed[body["id"]] = body["drive"]
        size = max(path.stat().st_size for path in tmp_path.iterdir())
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        refused = 0
        for number in range(60):
            status, body = client.ask("POST", "/v1/tenants", tenant(f"full{number}"), key=f"full{number}")
            if status == 201:
                placed[body["id"]] = body["drive"]
                continue
            assert (status, body["code"]) == (503, "state_not_written")
            refused += 1
        assert refused > 0
        check_books(client, placed)
        free = resource.RLIM_INFINITY
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (free, free))
        for number in range(60):
            status, body = client.ask("POST", "/v1/tenants", tenant(f"full{number}"), key=f"full{number}")
            assert status == 201
            assert placed.setdefault(body["id"], body["drive"]) == body["drive"]
        check_books(client, placed)
    with Service(tmp_path / "s.db") as service:
        check_books(service.client(), placed)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="skipped: mounting a small file system needs root")
def test_a_small_file_system_that_fills_up(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", disk], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"skipped: no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        with Service(disk / "s.db") as service:
            client = service.client()
            assert client.ask("POST", "/v1/drives", drives(60))[0] == 201
            placed, refused = {}, 0
            (disk / "ballast").write_bytes(bytes(100_000))
            for number in range(400):
                status, body = client.ask("POST", "/v1/tenants", tenant(f"t{number}"))
                if status == 201:
                    placed[body["id"]] = body["drive"]
                else:
                    assert (status, body["code"]) == (503, "state_not_written")
                    refused += 1
            assert refused and placed
            check_books(client, placed)
            time.sleep(2 * CHECKPOINT_S)  # one is tried, and finds no space
        with Service(disk / "s.db") as service:
            check_books(service.client(), placed)
            (disk / "ballast").unlink()
        with Service(disk / "s.db") as service:
            client = service.client()
            assert client.ask("DELETE", f"/v1/tenants/{next(iter(placed))}")[0] == 200
            placed.pop(next(iter(placed)))
            check_books(client, placed)
    finally:
        subprocess.run(["umount", disk], check=False)


@pytest.mark.slow
def test_a_clock_that_steps_changes_nothing(tmp_path: Path) -> None:
    """The service's wall clock steps by years, both ways, at every look."""
    placed = {}
    with Service(tmp_path / "s.db", before=FICKLE_CLOCK) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(10))
        for number in range(40):
            name = f"t{number}"
            answers = [client.ask("POST", "/v1/tenants", tenant(name), key=name) for _ in range(2)]
            assert answers[0] == answers[1]
            placed[name] = answers[0][1]["drive"]
        bad = {"metrics": {"read_latency_p99_us": 1.0}}
        assert client.ask("POST", "/v1/tenants/t0/observations", bad)[1]["windows"] == 1
    with Service(tmp_path / "s.db", before=FICKLE_CLOCK) as service:
        client = service.client()
        check_books(client, placed)
        assert client.ask("POST", "/v1/tenants/t0/observations", bad)[1]["windows"] == 2
        again = client.ask("POST", "/v1/tenants", tenant("t3"), key="t3")
        assert again[1]["drive"] == placed["t3"]


INTERRUPTED = """
import os, signal
import linnet.place.service.serve as serve

def then_interrupted(work):
    def done(*words, **more):
        answer = work(*words, **more)
        os.kill(os.getpid(), signal.SIGINT)
        return answer
    return done

serve.NAME = then_interrupted(WORK)
from linnet.cli import main
main()
"""


@pytest.mark.parametrize(("name", "work", "status"), [("print", "print", 0), ("prepare", "serve.prepare", 130)])
def test_ctrl_c_at_the_start_closes_the_state(tmp_path: Path, name: str, work: str, status: int) -> None:
    """When the address is printed, and when the state is there but nothing is served."""
    State(tmp_path / "s.db").close()
    code = INTERRUPTED.replace("NAME", name).replace("WORK", work)
    words = ["place", "serve", "--state", tmp_path / "s.db", "--listen", "127.0.0.1:0"]
    done = subprocess.run([sys.executable, "-c", code, *words], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert ("interrupted" in done.stderr) == (status == 130) and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"], "the write-ahead log was taken in"
    State(tmp_path / "s.db", create=False).close()


@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_finishes_what_runs(tmp_path: Path, one: signal.Signals) -> None:
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        client.ask("POST", "/v1/tenants", tenant("a"))
        client.connection.close()
        assert service.stop(one) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"], "the write-ahead log was taken in"


def test_a_broken_promise_is_counted_once_it_is_kept(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        client.ask("POST", "/v1/tenants", tenant("a", slos=[{"metric": "read_latency_p99_us", "bound": 900}]))
        # Commits go to the log, until it has the size of the file.
        full = max(path.stat().st_size for path in tmp_path.iterdir())
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        bad, kept = {"metrics": {"read_latency_p99_us": 2000.0}}, 0
        while client.ask("POST", "/v1/tenants/a/observations", bad)[0] == 200:
            kept += 1
            assert kept < 1000
        assert f"linnet_place_slo_violations_total {kept:.1f}" in client.ask("GET", "/metrics")[1]


@pytest.mark.parametrize("how", ["moved", "replaced"])
def test_a_state_that_is_moved_while_it_is_open_is_said(tmp_path: Path, how: str) -> None:
    """What was answered then was in a file that no later start opens."""
    state, other = tmp_path / "s.db", tmp_path / "other.db"
    with Service(state) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        state.rename(other)
        if how == "replaced":
            state.write_bytes(other.read_bytes())
        for path, body in (("/v1/tenants", tenant("a")), ("/healthz", None)):
            status, said = client.ask("GET" if body is None else "POST", path, body)
            assert (status, said["code"]) == (503, "state_moved")
            assert said["message"].startswith(f"{state}: its file was moved, removed or replaced")
        assert client.ask("GET", "/v1/tenants/a")[0] == 404
        assert client.ask("GET", "/livez")[0] == 200
        assert "linnet_place_commits_failed_total 1.0" in client.ask("GET", "/metrics")[1]
        other.rename(state)
        client.wait()
        assert client.ask("POST", "/v1/tenants", tenant("a"))[0] == 201
        client.connection.close()
        assert service.stop() == 0
    assert _tenants_of(tmp_path / "copy.db", state.read_bytes()) == ["a"]


@pytest.mark.parametrize("how", ["moved", "replaced", "removed"])
def test_a_log_that_is_moved_while_it_is_open_is_said(tmp_path: Path, how: str) -> None:
    """What is written to it then nobody reads after kill -9. What was answered before gets into the file."""
    state, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    with Service(state) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        assert client.ask("POST", "/v1/tenants", tenant("a"))[0] == 201
        if how == "removed":
            log.unlink()
        else:
            log.rename(tmp_path / "other")
        if how == "replaced":
            log.write_bytes(b"")
        for path, body in (("/v1/tenants", tenant("b")), ("/healthz", None)):
            status, said = client.ask("GET" if body is None else "POST", path, body)
            assert (status, said["code"]) == (503, "state_moved")
            assert said["message"].startswith(f"{log}: its log was moved, removed or replaced")
        until = time.monotonic() + 60
        while _tenants_of(tmp_path / "copy.db", state.read_bytes()) != ["a"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        service.kill()
    with Service(state) as service:
        assert [one["id"] for one in service.client().ask("GET", "/v1/tenants")[1]["tenants"]] == ["a"]


def test_a_state_that_cannot_be_written_is_no_health_until_it_can_be(tmp_path: Path) -> None:
    """Then by itself: where nobody sends changes to a service that is not well, none of them shows that it is."""
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        client.ask("POST", "/v1/tenants", tenant("a"))
        assert client.ask("GET", "/healthz")[0] == 200
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        for _ in range(2):
            for path, body in (("/v1/tenants", tenant("b")), ("/healthz", None)):
                status, said = client.ask("GET" if body is None else "POST", path, body)
                assert (status, said["code"]) == (503, "state_not_written")
            assert client.ask("POST", "/v1/tenants", tenant("a"))[0] == 200, "nothing is written for it"
            assert client.ask("GET", "/healthz")[0] == 503
            time.sleep(2)
        assert client.ask("GET", "/livez")[0] == 200
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        client.wait()
        assert client.ask("POST", "/v1/tenants", tenant("b"))[0] == 201
        assert client.ask("GET", "/healthz")[0] == 200


def test_the_file_alone_has_what_was_answered_a_moment_ago(tmp_path: Path) -> None:
    alone = tmp_path / "alone.db"
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        client.ask("POST", "/v1/tenants", tenant("a"))
        until = time.monotonic() + 60
        while not _tenants_of(alone, (tmp_path / "s.db").read_bytes()):
            assert time.monotonic() < until
            time.sleep(0.05)
    assert _tenants_of(alone, alone.read_bytes()) == ["a"]


def test_a_backup_has_what_was_answered_before(tmp_path: Path) -> None:
    """Also while there are requests, and on a full disk."""
    copy = tmp_path / "copy.db"
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(2))
        full = max(path.stat().st_size for path in tmp_path.iterdir())
        for number in range(3):
            client.ask("POST", "/v1/tenants", tenant(f"t{number}"))
            if number == 2:
                resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
            client.connection.request("GET", "/v1/backup")
            answer = client.connection.getresponse()
            assert (answer.status, answer.headers["content-type"]) == (200, "application/vnd.sqlite3")
            assert _tenants_of(copy, answer.read()) == [f"t{k}" for k in range(number + 1)]
        asked = client.ask("GET", "/v1/tenants?limit=1000")[1]
    with Service(copy) as service:
        assert service.client().ask("GET", "/v1/tenants?limit=1000")[1] == asked


def _tenants_of(copy: Path, content: bytes) -> list[str]:
    copy.write_bytes(content)
    with contextlib.closing(State(copy, create=False)) as state:
        return [one.id for one, _, _ in state.tenants()]


def test_a_kept_answer_that_is_damaged_is_said_and_stops_nothing(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    with Service(state) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        assert client.ask("POST", "/v1/tenants", tenant("a"), key="k1")[0] == 201
        client.connection.close()
        assert service.stop() == 0
    with contextlib.closing(sqlite3.connect(state)) as db, db:
        db.execute("UPDATE requests SET body = '{' WHERE key = 'k1'")
    with Service(state) as service:
        client = service.client()
        client.connection.timeout = 20
        status, body = client.ask("POST", "/v1/tenants", tenant("a"), key="k1")
        assert (status, body["code"]) == (500, "state_damaged")
        assert body["message"].startswith(f"{state}: table requests, row k1: ")
        placed = client.ask("POST", "/v1/tenants", tenant("b"), key="k2")[1]
        check_books(client, {"a": "d0", placed["id"]: placed["drive"]})
        client.connection.close()
        assert service.stop() == 0


class Boxes:
    """A state of one number in memory and on disk, to see the writer undo."""

    def __init__(self, path: Path) -> None:
        self.state = State(path)
        self.number = 0
        self.broken = 0

        def fail() -> None:
            self.broken += 1

        self.writer = Writer(self.state, fail, lambda size, seconds: None)

    def add(self, amount: int, error: Exception | None = None) -> Any:
        def work(undo: list[Callable[[], None]]) -> Answer:
            self.number += amount
            undo.append(lambda: setattr(self, "number", self.number - amount))
            self.state.answer(f"box{self.number}-{amount}", "", 200, "x" * 5000)
            if error is not None:
                raise error
            return Answer(200, self.number)

        return self.writer.change(work, None, "")


def test_a_refusal_undoes_its_own_request_only(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path / "s.db")
    one, two, three = boxes.add(1), boxes.add(10, Refused(409, "no", "no")), boxes.add(100)
    assert one.result(60).body == 1
    with pytest.raises(Refused, match="no"):
        two.result(60)
    assert three.result(60).body == 101
    assert boxes.number == 101
    assert boxes.state.answered("box1-1") is not None and boxes.state.answered("box11-10") is None
    with pytest.raises(ZeroDivisionError):
        boxes.add(1, ZeroDivisionError()).result(60)
    assert boxes.number == 101, "an error of ours undoes its request too"
    boxes.writer.stop()


def test_a_commit_that_fails_undoes_the_whole_group(tmp_path: Path) -> None:
    boxes = Boxes(tmp_path / "s.db")
    assert boxes.add(1).result(60).body == 1
    entered, gate = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        gate.wait()

    held = boxes.writer.read(hold)
    assert entered.wait(60)
    # The writer is busy, so these wait and make one group; the disk is full after some of them.
    boxes.state.limit_pages(boxes.state.pages() + 4)
    results = [boxes.add(10) for _ in range(20)]
    gate.set()
    held.result(60)
    for result in results:
        with pytest.raises(Refused) as refused:
            result.result(60)
        assert refused.value.status == 503
    assert (boxes.number, boxes.broken) == (1, 0)
    assert boxes.state.answered("box11-10") is None
    boxes.state.limit_pages(100_000)
    assert boxes.add(1000).result(60).body == 1001
    boxes.writer.stop()


def test_a_commit_that_fails_otherwise_ends_the_process_and_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = Boxes(tmp_path / "s.db")

    def release(keep: bool) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(boxes.state, "release", release)
        with pytest.raises(ZeroDivisionError):
            boxes.add(1).result(20)
    assert boxes.broken == 1
    boxes.writer.stop()


def test_a_transaction_that_cannot_begin_or_end_is_an_error_of_the_disk(tmp_path: Path) -> None:
    state = State(tmp_path / "s.db")
    with pytest.raises(StateFull), state.transaction():
        raise sqlite3.OperationalError("database or disk is full")
    with pytest.raises(ValueError, match="mine"), state.transaction():
        state.answer("k", "", 200, {})
        raise ValueError("mine")
    assert state.answered("k") is None
