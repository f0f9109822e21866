# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clients of the placement service that leave, stall, or ask for too much at once."""

import contextlib
import http.client
import resource
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from linnet.place.service import connections
from place_client import Client, Service, drives, tenant

ENDLESS = """
import time
import linnet.place.service.advice as advice
true = advice.rebalance
def endless(allocator, moves_max, late):
    while not late():
        time.sleep(0.01)
    return true(allocator, moves_max, late=late)
advice.rebalance, advice.ADVICE_S = endless, 600.0
"""
"""A search for moves that ends only when it is told so."""
HASTY = """
import linnet.place.service.connections as connections, linnet.place.service.serve as serve
connections.STALL_S, connections.CONNECTIONS_MAX = {stall}, {most}
serve.ARRIVE_S, serve.FINISH_S = {arrive}, {finish}
"""
SMALL = """
import socket, linnet.place.service.app as app, linnet.place.service.serve as serve
class Small(socket.socket):
    def listen(self, backlog):
        self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        super().listen(backlog)
serve.socket.socket, app.PART = Small, 4096
"""
"""The kernel takes little of an answer whose client reads nothing."""
HALF_HEAD = b"GET /healthz HTTP/1.1\r\nHo"
HALF_BODY = (
    b"POST /v1/tenants HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"id":'
)


def hasty(stall: float = 600.0, most: int = 1024, arrive: float = 600.0, finish: int = 600) -> str:
    return HASTY.format(stall=stall, most=most, arrive=arrive, finish=finish)


def asking(service: Service, path: str = "/v1/rebalance") -> Client:
    client = service.client()
    client.connection.request("GET", path)
    return client


def stalled(service: Service, sent: bytes) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", service.port), timeout=60)
    found.sendall(sent)
    return found


def unread(service: Service, path: str, times: int) -> socket.socket:
    """A client that asks and reads no answer."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(60)
    found.connect(("127.0.0.1", service.port))
    for _ in range(times):
        found.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return found


def closed(one: socket.socket) -> bool:
    with contextlib.suppress(ConnectionResetError):
        return one.recv(1) == b""
    return True


def status_of(client: Client) -> int:
    return client.ask("GET", "/v1/rebalance")[0]


def test_searches_of_clients_that_left_end_and_others_are_told_to_come_again(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db", before=ENDLESS) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(1))
        client.ask("POST", "/v1/tenants", tenant("a"))
        runs = asking(service)
        time.sleep(0.5)
        waits = asking(service)
        time.sleep(0.5)
        client.connection.request("GET", "/v1/rebalance")
        answer = client.connection.getresponse()
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert b'"busy"' in answer.read()
        assert client.ask("GET", "/v1/rebalance?moves_max=0")[0] == 200, "nothing is searched for"
        for one in (runs, waits):
            one.connection.close()
        time.sleep(1)
        last = asking(service)
        time.sleep(0.5)
        # The last one searches now: it neither waits nor was refused.
        waits = asking(service)
        time.sleep(0.5)
        assert status_of(client) == 503
        client.connection.close()
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 20
        for one in (last, waits):
            answer = one.connection.getresponse()
            assert answer.status == 200 and b'"complete":false' in answer.read()


def test_a_request_that_does_not_arrive_does_not_keep_the_service_from_ending(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db", before=hasty(arrive=0.5)) as service:
        sockets = [stalled(service, sent) for sent in (b"", HALF_HEAD, HALF_BODY)]
        time.sleep(0.5)
        assert service.stop() == 0
        assert all(closed(one) for one in sockets)
        assert service.process.stderr.read() == ""


def test_an_answer_that_nobody_takes_does_not_either(tmp_path: Path) -> None:
    """It is given up after FINISH_S."""
    with Service(tmp_path / "s.db", before=hasty(finish=1)) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(3000))
        deaf = unread(service, "/v1/drives?limit=1000", 40)
        client.connection.close()
        time.sleep(1)
        assert service.stop(signal.SIGTERM) == 0
        deaf.close()


def test_a_request_that_does_not_end_does_not_either(tmp_path: Path) -> None:
    """The process then ends without it, and says so."""
    stuck = "import linnet.place.service.writer as writer\nfrom linnet.place.service.operations import Operations\n"
    stuck += "writer.STOP_S, Operations.list_drives = 0.5, lambda *words: time.sleep(600)\n"
    with Service(tmp_path / "s.db", before=f"import time\n{hasty(finish=1)}{stuck}") as service:
        service.client().ask("POST", "/v1/drives", drives(1))
        asking(service, "/v1/drives")
        time.sleep(0.5)
        assert service.stop() == 0
        assert "a request that still runs is given up" in service.process.stderr.read()
    with Service(tmp_path / "s.db") as service:
        assert service.client().ask("GET", "/v1/drives")[1]["total"] == 1


def test_an_answer_of_which_nothing_is_taken_is_given_up(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db", before=hasty(stall=1.0) + SMALL) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(3000))
        files = Path(f"/proc/{service.process.pid}/fd")
        before = len(list(files.iterdir()))
        deaf = [unread(service, path, times) for path, times in (("/v1/drives?limit=1000", 1), ("/v1/backup", 9))]
        client.ask("GET", "/healthz")
        until = time.monotonic() + 60
        while len(list(files.iterdir())) > before:
            assert time.monotonic() < until
            time.sleep(0.1)
        for one in deaf:
            with contextlib.closing(one), pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                answer = http.client.HTTPResponse(one)
                answer.begin()
                answer.read()


def test_an_answer_that_is_taken_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Mock(cycle=Mock(response_complete=True))
    left = [*range(10, 0, -1), 1]
    monkeypatch.setattr(connections, "untaken", lambda one: left.pop(0))
    slow = connections.Slow(1)
    for step in range(10):
        slow.look([one], step * connections.STALL_S)
    assert not one.transport.abort.called
    slow.look([one], 10 * connections.STALL_S + 1)
    assert one.transport.abort.called


def test_a_client_takes_what_it_acknowledges() -> None:
    """Only then, and not when the kernel has it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        transport = SimpleNamespace(get_write_buffer_size=lambda: 1, get_extra_info=lambda name: server)
        with server:
            assert connections.untaken(SimpleNamespace(transport=transport)) == 1
            server.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while server.send(bytes(100_000)):
                    pass
            full = connections.untaken(SimpleNamespace(transport=transport))
            assert full > 1
            until = time.monotonic() + 60
            while connections.untaken(SimpleNamespace(transport=transport)) == full:
                client.recv(100_000)
                assert time.monotonic() < until
            transport.get_write_buffer_size = lambda: 0
            assert connections.untaken(SimpleNamespace(transport=transport)) == 0


def test_one_backup_is_fetched_at_a_time(tmp_path: Path) -> None:
    """The log is not taken into the file until its client has taken it, or has left."""
    with Service(tmp_path / "s.db", before=SMALL) as service:
        client = service.client()
        client.ask("POST", "/v1/drives", drives(3000))
        for leaves in (False, True):
            slow = unread(service, "/v1/backup", 1)
            slow.recv(1, socket.MSG_PEEK)  # the answer has begun
            status, body = client.ask("GET", "/v1/backup")
            assert (status, body["code"]) == (503, "busy")
            if not leaves:
                answer = http.client.HTTPResponse(slow)
                answer.begin()
                assert answer.read().startswith(b"SQLite format 3\0")
            slow.close()
            until = time.monotonic() + 60
            while True:
                client.connection.request("GET", "/v1/backup")
                answer = client.connection.getresponse()
                if answer.read().startswith(b"SQLite format 3\0"):
                    break
                assert answer.status == 503 and time.monotonic() < until


def test_a_connection_whose_request_does_not_arrive_is_closed(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db", before=hasty(stall=1.0)) as service:
        idle = service.client()
        assert idle.ask("GET", "/healthz")[0] == 200
        again = stalled(service, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with http.client.HTTPResponse(again) as answer:
            answer.begin()
            answer.read()
        again.sendall(HALF_HEAD)
        sockets = [again, *(stalled(service, sent) for sent in (b"", HALF_HEAD, HALF_BODY))]
        began = time.monotonic()
        assert all(closed(one) for one in sockets)
        assert time.monotonic() - began < 20
        kept = idle.connection.sock
        assert idle.ask("GET", "/healthz")[0] == 200
        assert idle.connection.sock is kept, "one that is idle between requests is kept longer"


def test_too_many_connections_are_refused_with_one_line(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db", before=hasty(stall=4.0, most=8)) as service:
        silent = [stalled(service, b"") for _ in range(10)]
        time.sleep(1.5)
        for _ in range(3):
            with contextlib.closing(service.client().connection) as one:
                one.request("GET", "/healthz")
                assert one.getresponse().status == 503
        assert all(closed(one) for one in silent)
        service.client().wait()
        assert service.stop() == 0
        said = service.process.stderr.read()
        assert said.count("\n") == 1 and "the limit is 8: requests are refused" in said


def test_a_service_that_is_full_refuses_and_says_so_and_is_alive(tmp_path: Path) -> None:
    """With clients that ask now and then, as pools have them."""
    with Service(tmp_path / "s.db", before=hasty(most=8)) as service:
        kept = [service.client() for _ in range(8)]
        assert [one.ask("GET", "/healthz")[0] for one in kept] == [200] * 8
        for _ in range(3):
            refused, live = service.client(), service.client()
            status, body = refused.ask("GET", "/healthz")
            assert (status, body["code"]) == (503, "busy")
            assert live.ask("GET", "/livez") == (200, {"status": "ok"})
            assert refused.connection.sock is live.connection.sock is None, "neither is kept"
        assert [one.ask("GET", "/healthz")[0] for one in kept] == [200] * 8
        text = kept[0].ask("GET", "/metrics")[1]
        assert 'linnet_place_requests_total{method="GET",route="other",status="503"} 3.0' in text
        for one in kept:
            one.connection.close()
        service.client().wait()
        assert service.stop() == 0
        said = service.process.stderr.read()
        assert said == "linnet place: 9 connections, the limit is 8: requests are refused until there are fewer\n"


def test_files_may_be_open_up_to_the_hard_limit(tmp_path: Path) -> None:
    low = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))"
    with Service(tmp_path / "s.db", before=low) as service:
        assert resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE) == (300, 300)
