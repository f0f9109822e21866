# SPDX-License-Identifier: MIT OR Apache-2.0
"""The service follows the pods of a cluster: a stand-in for the API server lists them and tells what changes."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from place_client import Service, tenant
from place_made import GB, SHEET

NODES = ["node-1", "node-2"]


class Cluster:
    """Pods with a node, and who watches them. ``down`` refuses every request."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}
        self.down = False
        self.lists = 0
        self.watchers: list[queue.Queue[dict[str, Any] | None]] = []
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
                mine: queue.Queue[dict[str, Any] | None] = queue.Queue()
                cluster.watchers.append(mine)
                while (event := mine.get()) is not None:
                    self.wfile.write(json.dumps(event).encode() + b"\n")

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def page(self, asked: dict[str, list[str]]) -> dict[str, Any]:
        """One pod to a page."""
        at = int(asked.get("continue", ["0"])[0])
        self.lists += not at
        more = {"continue": str(at + 1)} if at + 1 < len(self.pods) else {}
        return {"items": list(self.pods.values())[at : at + 1], "metadata": {"resourceVersion": "7", **more}}

    def tell(self, event: dict[str, Any] | None) -> None:
        for one in self.watchers:
            one.put(event)
        if event is None:
            self.watchers.clear()

    def bind(self, uid: str, node: str, **notes: str) -> None:
        self.pods[uid] = pod(uid, **notes) | {"spec": {"nodeName": node}}
        self.tell({"type": "ADDED", "object": self.pods[uid]})

    def end(self, uid: str) -> None:
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


def started(state: Path, cluster: Cluster) -> Service:
    service = Service(state, "--kubernetes", cluster.url)
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


def test_a_restart_learns_what_it_missed(tmp_path: Path, cluster: Cluster) -> None:
    cluster.bind("a", "node-1", profile="web")
    with started(tmp_path / "state.db", cluster) as service:
        assert service.client().ask("POST", "/v1/tenants", tenant("by-hand", drive="node-2:nvme0n1"))[0] == 201
        cluster.bind("b", "node-1", profile="web")
        wait(lambda: "pod:b" in books(service))
    del cluster.pods["a"]
    cluster.bind("c", "node-2", profile="web")
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service))
        assert sorted(books(service)) == ["by-hand", "pod:b", "pod:c"]


@pytest.mark.parametrize("end", [{"type": "ERROR", "object": {"code": 410, "message": "too old"}}, None])
def test_a_watch_that_ends_is_begun_again_by_a_list(tmp_path: Path, cluster: Cluster, end: Any) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service) and cluster.watchers)
        cluster.pods["missed"] = pod("missed", profile="web") | {"spec": {"nodeName": "node-1"}}
        cluster.tell(end)
        wait(lambda: "pod:missed" in books(service))


def test_the_next_pod_is_judged_when_the_last_is_in_the_books(tmp_path: Path, cluster: Cluster) -> None:
    big = {"profile": "web", "capacity_bytes": str(60 * GB)}
    with started(tmp_path / "state.db", cluster) as service, ThreadPoolExecutor() as pool:
        wait(lambda: follows(service) and cluster.watchers)
        assert asked(service, pod("a", **big))["NodeNames"] == NODES
        second = pool.submit(asked, service, pod("b", **big))
        time.sleep(0.3)  # time enough for an answer that does not wait
        cluster.bind("a", "node-1", **big)
        assert second.result()["NodeNames"] == ["node-2"]
        # A pod that never gets its node holds the next one up for a while only.
        assert asked(service, pod("c", **big))["NodeNames"] == ["node-2"]


def test_a_pod_that_is_there_without_room_is_recorded(tmp_path: Path, cluster: Cluster) -> None:
    with started(tmp_path / "state.db", cluster) as service:
        wait(lambda: follows(service) and cluster.watchers)
        for uid in ("a", "b", "c"):
            cluster.bind(uid, "node-1", profile="web", capacity_bytes=str(60 * GB))
        wait(lambda: len(books(service)) == 3)
        drive = service.client().ask("GET", "/v1/drives/node-1:nvme0n1")[1]
        assert (drive["used_bytes"], drive["tenants"]) == (100 * GB, 3)
        assert asked(service, pod("d", profile="web", capacity_bytes="1"))["NodeNames"] == ["node-2"]


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
        wait(lambda: follows(service) and cluster.watchers)
        cluster.bind("a", "node-1", profile="web")
        wait(lambda: "pod:a" in books(service))
        del cluster.pods["a"]["metadata"]["annotations"]
        cluster.bind("b", "node-2", profile="web")
        wait(lambda: "pod:b" in books(service))
        cluster.tell(None)
        cluster.pods["c"] = pod("c", profile="web") | {"spec": {"nodeName": "node-1"}}
        wait(lambda: "pod:c" in books(service))
        assert "pod:a" in books(service)
        wait(lambda: cluster.watchers)
        cluster.end("a")
        wait(lambda: "pod:a" not in books(service))
