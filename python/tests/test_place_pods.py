# SPDX-License-Identifier: MIT OR Apache-2.0
"""The service follows the pods of a cluster: a stand-in for the API server lists them and tells what changes."""

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from linnet.place.service import pods
from linnet.place.service.kubernetes_api import Api, Expired
from linnet.place.service.operations import Operations
from linnet.place.service.writer import Answer
from place_client import Service, tenant
from place_made import GB, SHEET

NODES = ["node-1", "node-2"]
BIG = {"profile": "web", "capacity_bytes": str(60 * GB)}
"""Notes of a pod of which a drive holds one."""


class Cluster:
    """Pods with a node, and a log of what happened to them. ``down`` refuses every request.

    As that of Kubernetes, the server's list has a version, and a watch is told all that came after its version,
    however late it begins. A watch without a version is told nothing, since it may have missed something.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.down = False
        self.lists: list[tuple[int, list[dict[str, Any]]]] = []
        """What each list began with: its version and its pods, of which a later page tells as well."""
        self.log: list[bytes | None] = []
        """Lines of a watch; where there is none, the server ends it. The length of the log is the version."""
        self.changed = threading.Condition()
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                assert asked["fieldSelector"] == ["spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"]
                self.send_response(500 if cluster.down else 200)
                self.end_headers()
                if cluster.down:
                    return
                if "watch" not in asked:
                    self.wfile.write(json.dumps(cluster.page(asked)).encode())
                    return
                for line in cluster.changes(int(asked.get("resourceVersion", [sys.maxsize])[0])):
                    self.wfile.write(line)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def page(self, asked: dict[str, list[str]]) -> dict[str, Any]:
        """One pod to a page."""
        if "continue" not in asked:
            with self.changed:
                self.lists.append((len(self.log), list(self.pods.values())))
        number, at = map(int, asked.get("continue", [f"{len(self.lists) - 1} 0"])[0].split())
        version, pods = self.lists[number]
        more = {"continue": f"{number} {at + 1}"} if at + 1 < len(pods) else {}
        return {"items": pods[at : at + 1], "metadata": {"resourceVersion": str(version), **more}}

    def changes(self, version: int) -> Iterator[bytes]:
        for at in itertools.count(version):
            with self.changed:
                self.changed.wait_for(lambda at=at: at < len(self.log))
                line = self.log[at]
            if line is None:
                return
            yield line

    def tell(self, event: dict[str, Any] | None) -> None:
        with self.changed:
            self.log.append(None if event is None else json.dumps(event).encode() + b"\n")
            self.changed.notify_all()

    def bind(self, uid: str, node: str, **notes: str) -> None:
        with self.changed:
            self.pods[uid] = pod(uid, **notes) | {"spec": {"nodeName": node}}
            self.tell({"type": "ADDED", "object": self.pods[uid]})

    def end(self, uid: str) -> None:
        with self.changed:
            self.tell({"type": "DELETED", "object": self.pods.pop(uid)})


def pod(uid: str, **notes: str) -> dict[str, Any]:
    named = {f"linnet.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    return {"metadata": {"name": uid, "uid": uid, "annotations": named}}


def wait(look: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.tell(None)
    made.server.shutdown()
    made.server.server_close()


def started(state: Path, cluster: Cluster, before: str = "") -> Service:
    service = Service(state, "--kubernetes", cluster.url, before=before)
    rows = [{"name": f"{n}:nvme0n1", "model": "made", "capacity_bytes": 100 * GB, "sheet": SHEET} for n in NODES]
    assert service.client().ask("POST", "/v1/drives", {"drives": rows})[0] == 201
    return service


def books(service: Service) -> dict[str, str]:
    return {one["id"]: one["drive"] for one in service.client().ask("GET", "/v1/tenants")[1]["tenants"]}


def follows(service: Service) -> bool:
    return "linnet_place_pods_followed 1.0" in service.client().ask("GET", "/metrics")[1]


def asked(service: Service, one: dict[str, Any]) -> Any:
    status, body = service.client().ask("POST", "/kubernetes/filter", {"Pod": one, "NodeNames": NODES})
    assert status == 200, body
    return body


def test_pods_become_tenants_and_leave(tmp_path: Path, cluster: Cluster) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        cluster.bind("a", "node-1", profile="web", capacity_bytes=str(GB))
        cluster.bind("plain", "node-1")
        cluster.bind("b", "node-2", io_class="mail")
        cluster.bind("c", "node-without-drives", io_class="mail")
        cluster.bind("d", "node-2", io_class="none-such")
        cluster.bind("e", "node-2", profile="web")
        there = {"pod:a": "node-1:nvme0n1", "pod:b": "node-2:nvme0n1", "pod:e": "node-2:nvme0n1"}
        wait(lambda: "pod:e" in books(service))
        assert books(service) == there
        cluster.tell({"type": "MODIFIED", "object": cluster.pods["a"]})
        cluster.tell({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
        cluster.end("plain")
        cluster.end("b")
        wait(lambda: "pod:b" not in books(service))
        assert books(service) == {name: home for name, home in there.items() if name != "pod:b"}


def test_ids_of_pods_are_those_of_the_cluster(tmp_path: Path, cluster: Cluster) -> None:
    """A tenant of such an id would be taken away with the next list."""
    with started(tmp_path / "state.db", cluster) as service:
        status, body = service.client().ask("POST", "/v1/tenants", tenant("pod:mine"))
        assert (status, body["code"]) == (409, "reserved_id")
        assert service.client().ask("POST", "/v1/whatif", tenant("pod:mine"))[0] == 200
    with Service(tmp_path / "state.db") as service:
        assert service.client().ask("POST", "/v1/tenants", tenant("pod:mine"))[0] == 201


def test_the_room_of_a_pod_that_runs_is_not_given_away(tmp_path: Path, cluster: Cluster) -> None:
    cluster.bind("a", "node-1", **BIG)
    with started(tmp_path / "state.db", cluster) as service:
        # On a node whose drives were not known yet, a pod is not recorded.
        cluster.tell(None)
        wait(lambda: "pod:a" in books(service))
        status, body = service.client().ask("DELETE", "/v1/tenants/pod:a")
        assert (status, body["code"]) == (409, "reserved_id")
        assert "its room is given back when the pod ends" in body["message"]
        assert books(service) == {"pod:a": "node-1:nvme0n1"}
        service.stop()
    with Service(tmp_path / "state.db") as service:
        assert service.client().ask("DELETE", "/v1/tenants/pod:a")[0] == 200, "no pods are followed"


def test_a_restart_learns_what_it_missed(tmp_path: Path, cluster: Cluster) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        assert service.client().ask("POST", "/v1/tenants", tenant("by-hand", drive="node-2:nvme0n1"))[0] == 201
        # Not before it has started: on a node whose drives it does not know yet, a pod is not recorded.
        cluster.bind("a", "node-1", profile="web")
        cluster.bind("b", "node-1", profile="web")
        wait(lambda: {"pod:a", "pod:b"} <= books(service).keys())
    del cluster.pods["a"]
    cluster.bind("c", "node-2", profile="web")
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        assert sorted(books(service)) == ["by-hand", "pod:b", "pod:c"]


@pytest.mark.parametrize("end", [{"type": "ERROR", "object": {"code": 410, "message": "too old"}}, None])
def test_a_watch_that_ends_is_begun_again_by_a_list(tmp_path: Path, cluster: Cluster, end: Any) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        cluster.pods["missed"] = pod("missed", profile="web") | {"spec": {"nodeName": "node-1"}}
        cluster.tell(end)
        wait(lambda: "pod:missed" in books(service))


def commits(service: Service) -> str:
    found: str = service.client().ask("GET", "/metrics")[1]
    return found.split("linnet_place_commit_requests_count ", 1)[1].split("\n", 1)[0]


def test_a_list_that_changes_nothing_is_no_commit(tmp_path: Path, cluster: Cluster) -> None:
    cluster.pods["a"] = pod("a", profile="web") | {"spec": {"nodeName": "node-1"}}
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        cluster.tell(None)
        wait(lambda: "pod:a" in books(service))
        before, lists = commits(service), len(cluster.lists)
        cluster.tell(None)
        wait(lambda: len(cluster.lists) > lists and follows(service))
        assert commits(service) == before


class Ending:
    """An API server whose watches end, or expire, when they have lasted so long, and its clock.

    It fails as long as there are ``failures``. The thread that asks it stops when it has paused so often.
    """

    def __init__(self, lasting_s: list[float], pauses: int, failures: int = 0, expired: bool = False) -> None:
        self.lasting_s, self.left, self.failures, self.expired = lasting_s, pauses, failures, expired
        self.now, self.pauses_s = 0.0, list[float]()
        self.done = threading.Event()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, pause_s: float) -> None:
        self.now += pause_s
        self.pauses_s.append(pause_s)
        if len(self.pauses_s) == self.left:
            self.done.set()
            threading.Event().wait()

    def pods(self) -> tuple[list[dict[str, Any]], str]:
        self.now += 5.0
        if self.failures:
            self.failures -= 1
            raise OSError("no route")
        return [], "1"

    def changes(self, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        self.now += self.lasting_s.pop(0) if self.lasting_s else 0.0
        if self.expired:
            raise Expired
        yield from ()


def taken(work: object, key: str | None, digest: str) -> "Future[Answer]":
    done: Future[Answer] = Future()
    done.set_result(Answer(200, {}))
    return done


@pytest.mark.parametrize("expired", [False, True])
def test_an_api_server_whose_watches_end_at_once_is_asked_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], expired: bool
) -> None:
    """Not one whose watches last, or that is away: such a one is asked at the same pace."""
    server = Ending([600.0, 600.0, 0.0, 0.0, 600.0], pauses=10, failures=2, expired=expired)
    monkeypatch.setattr(pods, "time", server)
    told: list[bool] = []
    pods.Pods(cast(Api, server), cast(Operations, None), taken, told.append)
    assert server.done.wait(60)
    assert server.pauses_s == [1.0, 1.0, 1.0, 2.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert told[-1] is False, "what happens in a pause is not seen"
    said = capfd.readouterr().err.splitlines()
    assert [line.split(": ", 2)[2].split()[0] for line in said] == ["no", "a", "a"]


def test_the_next_pod_is_judged_when_the_last_is_in_the_books(tmp_path: Path, cluster: Cluster) -> None:
    # So long that the books end the wait, and not the time, even where this machine stalls.
    patient = "import linnet.place.service.pods as p; p.WAIT_S = 600"
    with started(tmp_path / "state.db", cluster, patient) as service, ThreadPoolExecutor() as pool:
        wait(lambda: follows(service))
        assert asked(service, pod("a", **BIG))["NodeNames"] == NODES
        second = pool.submit(asked, service, pod("b", **BIG))
        time.sleep(0.3)  # time enough for an answer that does not wait
        assert not second.done()
        cluster.bind("a", "node-1", **BIG)
        assert second.result()["NodeNames"] == ["node-2"]


def test_a_pod_that_never_gets_its_node_holds_the_next_up_for_a_while_only(tmp_path: Path, cluster: Cluster) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        assert asked(service, pod("a", **BIG))["NodeNames"] == NODES
        assert asked(service, pod("b", **BIG))["NodeNames"] == NODES


def test_a_pod_that_is_there_without_room_is_recorded_with_what_it_declares(tmp_path: Path, cluster: Cluster) -> None:
    def drive(service: Service) -> tuple[int, int]:
        found = service.client().ask("GET", "/v1/drives/node-1:nvme0n1")[1]
        return found["used_bytes"], found["tenants"]

    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        for uid in ("a", "b", "c"):
            cluster.bind(uid, "node-1", profile="web", capacity_bytes=str(60 * GB))
        wait(lambda: len(books(service)) == 3)
        assert drive(service) == (180 * GB, 3)
        assert "linnet_place_drives_overfull 1.0" in service.client().ask("GET", "/metrics")[1]
        assert asked(service, pod("d", profile="web", capacity_bytes="1"))["NodeNames"] == ["node-2"]
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        assert drive(service) == (180 * GB, 3)
        cluster.end("a")
        cluster.end("b")
        wait(lambda: len(books(service)) == 1)
        assert drive(service) == (60 * GB, 1)
        for size, nodes in ((41, ["node-2"]), (40, NODES)):
            found = asked(service, pod(f"d{size}", profile="web", capacity_bytes=str(size * GB)))
            assert found["NodeNames"] == nodes


def test_no_sum_of_what_pods_declare_is_too_large_for_the_books(tmp_path: Path, cluster: Cluster) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        for uid in range(12):
            cluster.bind(str(uid), "node-1", profile="web", capacity_bytes=str(10**18))
        cluster.bind("small", "node-1", profile="web", capacity_bytes=str(GB))
        wait(lambda: "pod:small" in books(service))
        assert asked(service, pod("d", profile="web", capacity_bytes="1"))["NodeNames"] == ["node-2"]
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        for uid in range(12):
            cluster.end(str(uid))
        wait(lambda: list(books(service)) == ["pod:small"])
        drive = service.client().ask("GET", "/v1/drives/node-1:nvme0n1")[1]
        assert drive["used_bytes"] == GB


def test_without_the_api_server_no_promise_is_judged(tmp_path: Path, cluster: Cluster) -> None:
    cluster.down = True
    with started(tmp_path / "state.db", cluster) as service:
        assert "not known" in asked(service, pod("a", profile="web"))["Error"]
        assert asked(service, pod("b"))["NodeNames"] == NODES
        cluster.down = False
        wait(lambda: follows(service))
        assert asked(service, pod("a", profile="web"))["NodeNames"] == NODES


def test_a_pod_that_asks_for_what_no_model_knows_keeps_nobody_out(tmp_path: Path, cluster: Cluster) -> None:
    sure = json.dumps([{"metric": "read_latency_p99_us", "bound": 900, "confidence_percent": 80}])
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        refused = asked(service, pod("bad", profile="web", slos=sure))["FailedAndUnresolvableNodes"]
        assert "this model knows 50 and 95 only" in refused["node-1"]
        cluster.bind("bad", "node-1", profile="web", slos=sure)
        cluster.bind("long", "node-1", profile="web", capacity_bytes="9" * 5000)
        cluster.bind("good", "node-1", profile="web")
        wait(lambda: "pod:good" in books(service))
        assert list(books(service)) == ["pod:good"]
        assert follows(service)


def test_a_pod_keeps_its_room_when_its_annotation_goes(tmp_path: Path, cluster: Cluster) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        cluster.bind("a", "node-1", profile="web")
        wait(lambda: "pod:a" in books(service))
        del cluster.pods["a"]["metadata"]["annotations"]
        cluster.bind("b", "node-2", profile="web")
        wait(lambda: "pod:b" in books(service))
        cluster.pods["c"] = pod("c", profile="web") | {"spec": {"nodeName": "node-1"}}
        cluster.tell(None)
        wait(lambda: "pod:c" in books(service))
        assert "pod:a" in books(service)
        cluster.end("a")
        wait(lambda: "pod:a" not in books(service))
