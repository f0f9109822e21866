# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the placement service refuses, and in which words: sizes, figures, hosts, and its own failures."""

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from linnet.place.allocate import Allocator
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.service.state import State
from linnet.place.sheet import SheetModel
from linnet.place.slo import Tenant
from linnet.place.words import Drive, Profile
from place_client import Client, Service, drives, tenant
from place_made import GB, SHEET


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service") / "state.db", "--host-name", "Place.example") as running:
        running.client().ask("POST", "/v1/drives", drives(2))
        yield running


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


def asked(client: Client, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    found = Client(client.connection.port).connection
    found.putrequest(method, path, skip_host="Host" in headers)
    for name, value in {"Content-Length": str(len(body or b"")), "Content-Type": "application/json", **headers}.items():
        found.putheader(name, value)
    found.endheaders(body)
    with contextlib.closing(found), found.getresponse() as answer:
        return answer.status, json.loads(answer.read())


FIELDS = {f"field{number:05}": 0 for number in range(50_000)}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/profiles/x", {"features": FIELDS}),
        ("POST", "/v1/tenants", FIELDS),
        ("POST", "/v1/tenants", {"id": "a", "capacity_bytes": 0, "slos": [FIELDS]}),
        ("POST", "/v1/tenants/a/observations", {"metrics": FIELDS}),
        ("PUT", "/v1/drives/d0", {"model": "m", "capacity_bytes": 1, "sheet": FIELDS}),
        ("POST", "/v1/drives", {"drives": [{} for _ in range(10_000)]}),
        ("POST", "/v1/drives", {"drives": [{f"x{k}": 0 for k in range(20)} for _ in range(9_000)]}),
        ("POST", "/kubernetes/filter", {"Pod": {}, "NodeNames": [1] * 100_000}),
        ("POST", "/kubernetes/filter", {"Pod": {}, "Nodes": {"items": [1] * 100_000}}),
        ("POST", "/kubernetes/filter", {"Pod": {"metadata": {"annotations": FIELDS}}}),
    ],
)
def test_many_errors_are_not_put_together(client: Client, method: str, path: str, body: object) -> None:
    status, answer = client.ask(method, path, body)
    assert (status, answer["code"]) == (422, "invalid")
    assert len(answer["detail"]) == len(answer["reasons"]) <= 20
    count = re.search(r"of (\d+) errors", answer["message"])
    assert count is None or int(count[1]) < 60


def test_a_large_body_is_for_drives_and_nodes_alone(client: Client) -> None:
    body = json.dumps({"features": {f"a{number:x}": 0 for number in range(500_000)}}).encode()
    status, answer = asked(client, "PUT", "/v1/profiles/x", body)
    assert (status, answer["code"]) == (413, "too_large") and "at most 1048576" in answer["message"]
    for path in ("/v1/drives", "/kubernetes/filter"):
        assert asked(client, "POST", path, b" " * (2 << 20) + b"{}")[0] == 422


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "text/json", ""])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/tenants"), ("PUT", "/v1/drives"), ("POST", "/kubernetes/filter")]
)
def test_a_page_of_a_stranger_changes_nothing(client: Client, kind: str | None, method: str, path: str) -> None:
    """Such kinds of bodies are sent without asking the service first."""
    body = json.dumps(tenant("strange") if path == "/v1/tenants" else {}).encode()
    for length in ({"Content-Length": str(len(body))}, {"Transfer-Encoding": "chunked"}):
        found = Client(client.connection.port).connection
        found.putrequest(method, path)
        for name, value in (length | ({} if kind is None else {"Content-Type": kind})).items():
            found.putheader(name, value)
        found.endheaders(body, encode_chunked="Transfer-Encoding" in length)
        with contextlib.closing(found), found.getresponse() as answer:
            assert (answer.status, json.loads(answer.read())["code"]) == (415, "unsupported_media_type")
    assert client.ask("OPTIONS", path)[0] == 405
    assert client.ask("GET", "/v1/tenants/strange")[0] == 404


def test_json_has_parameters_and_a_request_without_a_body_needs_no_kind(client: Client) -> None:
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert asked(client, "POST", "/v1/drives", b"{}", **{"Content-Type": kind})[0] == 422
    assert asked(client, "POST", "/v1/drives", b"", **{"Content-Type": ""})[0] == 422
    assert asked(client, "DELETE", "/v1/tenants/none", b"", **{"Content-Type": ""})[0] == 404


def test_errors_have_one_form_and_are_counted(client: Client) -> None:
    status, body = client.ask("POST", "/v1/tenants", {"id": "a b", "capacity_bytes": -1, "drive": 3})
    assert status == 422 and set(body) == {"code", "message", "reasons", "detail"}
    assert body["reasons"][1] == "body.capacity_bytes: Input should be greater than or equal to 0"
    assert body["message"] == f"{body['reasons'][0]} (the first of 3 errors)"
    assert [one["loc"] for one in body["detail"]] == [["body", "id"], ["body", "capacity_bytes"], ["body", "drive"]]


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        ({"metric": "read_latency_p9_us", "bound": 500}, "metric: Input should be 'read_bandwidth_mean'"),
        ({"metric": "read_latency_p9_us", "degradation_percent": 5}, "metric: Input should be 'read_latency_mean_us'"),
        ({"metric": "read_bandwidth", "degradation_percent": 5}, "metric: Input should be 'read_bandwidth_mean'"),
        ({"metric": "read_latency_p99_us"}, "bound: Field required"),
        ({"metric": "read_latency_p99_us", "bound": 5, "degradation_percent": 5}, "bound: Extra inputs"),
        (5, "an SLO is an object with a metric, and bound or degradation_percent"),
    ],
)
def test_an_slo_has_one_error(client: Client, slo: object, said: str) -> None:
    status, body = client.ask("POST", "/v1/tenants", {"id": "a", "capacity_bytes": 0, "slos": [slo]})
    assert status == 422 and len(body["reasons"]) == 1, body
    assert said in body["reasons"][0]


@pytest.mark.parametrize("figure", [5e-324, 1e-310, 1e-300, 1e13])
def test_figures_that_no_drive_has_are_refused(client: Client, figure: float) -> None:
    body = {"model": "made", "capacity_bytes": 100 * GB, "sheet": SHEET | {"rnd_read_iops": figure}}
    status, answer = client.ask("PUT", "/v1/drives/d0", body)
    assert status == 422 and "sheet.rnd_read_iops" in answer["message"]
    assert client.ask("GET", "/v1/drives")[0] == 200


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"read_aligned_rate_mean": 5e-324, "read_aligned_rate_std": 1e15}, "is neither 0 nor 1e-09 or more"),
        ({"read_aligned_rate_std": 1e15}, "read_aligned_rate_std: 1e+15 is more than 1e+06 times the mean, 100"),
        ({"read_aligned_size_bytes_mean": 1e-300}, "is neither 0 nor 1e-09 or more"),
    ],
)
def test_features_that_no_workload_has_are_refused(client: Client, more: dict[str, float], said: str) -> None:
    features = tenant("a")["profile"] | more
    status, body = client.ask("POST", "/v1/tenants", {"id": "a", "capacity_bytes": 0, "profile": features})
    assert status == 422 and said in body["message"]


@pytest.mark.parametrize("figure", [5e-324, 1e-310])
@pytest.mark.parametrize("random", [0.0, 1.0])
def test_a_drive_of_an_older_state_that_no_number_measures_counts_as_full(
    tmp_path: Path, figure: float, random: float
) -> None:
    """0 times infinity is no number: it counted as no load."""
    sheet = SHEET | {"rnd_read_iops": figure}
    features = tenant("a")["profile"] | {"read_random_ratio": random}
    there = Tenant("a", 0, Profile("a", features))
    allocator = Allocator(Cluster(), SheetModel())
    allocator.add_drives([DriveSpec(Drive("d0", "made", sheet), GB)])
    assert allocator.place(there).drive is None
    state = State(tmp_path / "s.db")
    with state.transaction():
        state.add_drive(DriveSpec(Drive("d0", "made", sheet), GB))
        for name in "ab":
            state.add_tenant(Tenant(name, 0, there.profile), "d0")
    state.close()
    with Service(tmp_path / "s.db") as running:
        client = running.client()
        assert client.ask("GET", "/v1/drives")[1]["drives"][0]["load"] > 1e6
        assert client.ask("POST", "/v1/tenants", tenant("c"))[0] == 409
        assert client.ask("DELETE", "/v1/tenants/a")[0] == 200


def test_a_failure_is_told_in_json_and_nothing_is_changed(tmp_path: Path) -> None:
    """Of the service's own code; and of an answer that JSON cannot say, which is found out before the commit."""
    odd = """
from linnet.place.service import operations
true = operations.Operations.admit
def admit(self, undo, tenant, drive=None):
    answer = true(self, undo, tenant, drive)
    if tenant.id == "nan":
        answer.body["asked"] = float("nan")
    if tenant.id == "none":
        raise ZeroDivisionError
    return answer
operations.Operations.admit = admit
"""
    with Service(tmp_path / "s.db", before=odd) as running:
        client = running.client()
        client.ask("POST", "/v1/drives", drives(1))
        for name in ("nan", "none"):
            status, body = client.ask("POST", "/v1/tenants", tenant(name))
            assert (status, body["code"], body["reasons"]) == (500, "internal", [])
            assert client.ask("GET", f"/v1/tenants/{name}")[0] == 404
        assert running.stop() == 0
        assert "ZeroDivisionError" in running.process.stderr.read()


def test_an_undo_that_fails_is_said_before_the_end(tmp_path: Path) -> None:
    broken = """
from linnet.place.service import operations
def admit(self, undo, tenant, drive=None):
    undo.append(lambda: 1 / 0)
    raise ValueError("the model failed")
operations.Operations.admit = admit
"""
    with Service(tmp_path / "s.db", before=broken) as running:
        client = running.client()
        with pytest.raises(OSError):
            client.ask("POST", "/v1/tenants", tenant("a"))
        assert running.process.wait(30) == -signal.SIGKILL
        said = running.process.stderr.read()
    assert "ZeroDivisionError" in said and "the model failed" in said
    assert f"linnet place: a change could not be undone in memory. {tmp_path / 's.db'} is whole" in said


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:8717", 200),
        ("[::1]:8717", 200),
        ("place.example:80", 200),
        ("localhost.", 200),
        ("Place.example.:80", 200),
        ("evil.example.", 421),
        ("localhost..", 421),
        (".", 421),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8717", 421),
        ("", 421),
    ],
)
def test_a_request_for_another_host_is_refused(client: Client, host: str, status: int) -> None:
    found, body = asked(client, "GET", "/v1/tenants", Host=host)
    assert found == status and ("code" not in body) == (status == 200)


def test_no_request_is_sent_to_the_host_that_it_names(client: Client) -> None:
    for path in ("/v1/tenants/", "/kubernetes/filter/", "/metrics/"):
        assert asked(client, "GET", path)[0] == 404


def test_the_address_that_is_printed_is_one(tmp_path: Path) -> None:
    with Service(tmp_path / "s.db", "--listen", ":0", said=r"http://0\.0\.0\.0:(\d+)") as running:
        assert asked(running.client(), "GET", "/healthz", Host="any.example")[0] == 200
