# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scheduler-extender protocol: filter and prioritize, for pods with annotations and for those without."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from linnet.place.service.extender import ExtenderArgs, Metadata, Node, NodeList, result
from place_client import Service, drives, tenant
from place_made import GB, SHEET, profile

NODES = ["node-1", "node-2", "node-3"]
STRICT = [{"metric": "read_latency_mean_us", "degradation_percent": 1}]
UNREACHED = ("dial tcp", "no such host", "TLS handshake timeout", "i/o timeout", "context deadline exceeded")
"""What `go build` says where its modules cannot be fetched."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """node-1 has a tenant with a strict SLO, node-2 a quiet one, node-3 no drive."""
    with Service(tmp_path_factory.mktemp("kubernetes") / "state.db") as running:
        client = running.client()
        rows = [
            {"name": f"{node}:nvme0n1", "model": "made", "capacity_bytes": 100 * GB, "sheet": SHEET}
            for node in NODES[:2]
        ]
        assert client.ask("POST", "/v1/drives", {"drives": [*rows, *drives(1)["drives"]]})[0] == 201
        assert client.ask("POST", "/v1/tenants", tenant("strict", slos=STRICT, drive="node-1:nvme0n1"))[0] == 201
        assert client.ask("POST", "/v1/tenants", tenant("quiet", reads=50_000, drive="node-2:nvme0n1"))[0] == 201
        yield running


def pod(**annotations: str) -> dict[str, Any]:
    notes = {f"linnet.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": "p", "uid": "u1", "annotations": notes or None}, "spec": {"containers": []}}


def ask(service: Service, route: str, one: dict[str, Any], nodes: list[str] | None = None) -> Any:
    question = {"Pod": one, "NodeNames": NODES if nodes is None else nodes}
    status, body = service.client().ask("POST", f"/kubernetes/{route}", question)
    assert status == 200, body
    return body


def test_a_pod_goes_where_nobody_is_harmed(service: Service) -> None:
    found = ask(service, "filter", pod(profile="oltp"))
    assert found["NodeNames"] == ["node-2"]
    refused = found["FailedAndUnresolvableNodes"]
    assert list(refused) == ["node-1", "node-3"] and not found["FailedNodes"]
    assert "SLO would be broken" in refused["node-1"] and "no drive" in refused["node-3"]
    scores = {one["Host"]: one["Score"] for one in ask(service, "prioritize", pod(profile="oltp"))}
    assert scores["node-1"] == 0 == scores["node-3"] and 0 < scores["node-2"] <= 10


def test_a_pod_that_offers_more_than_a_drive_does_is_told_so(service: Service) -> None:
    features = dict(profile("flood", 0, 170_000).features)
    assert service.client().ask("PUT", "/v1/profiles/flood", {"features": features})[0] == 200
    refused = ask(service, "filter", pod(profile="flood"))["FailedAndUnresolvableNodes"]
    assert refused["node-2"].startswith("linnet: the pod alone asks for 200.0% of the time of node-2:nvme0n1")


def test_a_pod_without_annotations_goes_anywhere(service: Service) -> None:
    found = ask(service, "filter", pod())
    assert (found["NodeNames"], found["FailedNodes"], found["Error"]) == (NODES, {}, "")
    assert ask(service, "prioritize", pod()) == [{"Host": node, "Score": 0} for node in NODES]


@pytest.mark.parametrize("number", ["1e999", "NaN", "[-Infinity]"])
def test_a_number_that_no_json_can_say_is_an_error_of_the_question(service: Service, number: str) -> None:
    """A whole node is given back as it came."""
    node = '{"metadata": {"name": "node-2"}, "status": {"x": %s}}'
    for notes, status in ((pod(), 422), (pod(profile="oltp"), 422), (pod(profile="none-such"), 200)):
        question = f'{{"Pod": {json.dumps(notes)}, "Nodes": {{"items": [{node % number}, {node % "1.5"}]}}}}'
        client = service.client()
        client.connection.request("POST", "/kubernetes/filter", question, {"Content-Type": "application/json"})
        with client.connection.getresponse() as answer:
            assert answer.status == status
            assert status == 200 or "body.Nodes: a number" in json.loads(answer.read())["message"]


def test_capacity_slos_and_classes_count(service: Service) -> None:
    assert ask(service, "filter", pod(io_class="oltp", capacity_bytes=str(95 * GB)))["NodeNames"] == []
    impossible = json.dumps([{"metric": "read_latency_p99_us", "bound": 1}])
    assert ask(service, "filter", pod(io_class="oltp", slos=impossible))["NodeNames"] == []
    easy = json.dumps([{"metric": "read_latency_p99_us", "bound": 1e6}])
    assert ask(service, "filter", pod(io_class="oltp", slos=easy))["NodeNames"] == ["node-2"]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"profile": "none-such"}, "no profile 'none-such'"),
        ({"profile": "web", "capacity_bytes": "many"}, "not a number of bytes"),
        ({"profile": "web", "capacity_bytes": "\u0661\u0662"}, "not a number of bytes"),
        ({"profile": "web", "slos": "fast"}, "linnet.io/slos"),
        ({"profile": "web", "slos": '[{"metric": "speed", "bound": 1}]'}, "linnet.io/slos"),
        ({"slos": "[]"}, "linnet.io/slos without linnet.io/profile"),
        ({"capacity_bytes": "1"}, "linnet.io/capacity-bytes without linnet.io/profile"),
        ({"profle": "web"}, "'profle' is none of profile, io-class"),
    ],
)
def test_annotations_that_say_nothing_usable_fit_nowhere_and_say_why(
    service: Service, annotations: dict[str, str], said: str
) -> None:
    found = ask(service, "filter", pod(**annotations))
    assert found["NodeNames"] == []
    assert all(said in why for why in found["FailedAndUnresolvableNodes"].values())


@pytest.mark.parametrize(
    "annotations",
    [
        {"profile": "x" * 250_000},
        {"x" * 250_000: "web"},
        {"profile": "web", "slos": json.dumps([{"x" * 250_000: 1}])},
        {"profile": "web", "capacity_bytes": "9" * 250_000},
    ],
)
def test_a_reason_is_short_however_long_the_annotation(service: Service, annotations: dict[str, str]) -> None:
    found = ask(service, "filter", pod(**annotations), [f"node-{k}" for k in range(1000)])
    assert found["NodeNames"] == [] and len(json.dumps(found)) < 1_000_000


def test_a_pod_whose_profile_has_no_load_is_promised_nothing(service: Service) -> None:
    assert service.client().ask("PUT", "/v1/profiles/none", {"features": {"depth": 1.0}})[0] == 200
    slos = json.dumps([{"metric": "read_latency_p99_us", "bound": 1e6}])
    found = ask(service, "filter", pod(profile="none", slos=slos))
    assert found["NodeNames"] == []
    assert all("no rate_mean is above 0" in why for why in found["FailedAndUnresolvableNodes"].values())


def test_a_node_without_the_kind_of_drive_is_refused_with_that_reason(service: Service) -> None:
    client = service.client()
    staging = {"name": "node-4:sda", "model": "made", "capacity_bytes": GB, "sheet": SHEET, "staging": True}
    assert client.ask("POST", "/v1/drives", {"drives": [staging]})[0] == 201

    def refused(one: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = ask(service, "filter", one, ["node-2", "node-4"])["FailedAndUnresolvableNodes"]
        return found

    said = "linnet: the workload is unknown, and "
    assert refused(pod(profile="unknown")) == {"node-2": f"{said}no drive of the node is a staging drive"}
    assert refused(pod(profile="unknown", capacity_bytes=str(2 * GB))) == {
        "node-2": f"{said}no drive of the node is a staging drive",
        "node-4": f"{said}the node's staging drives are full",
    }
    assert refused(pod(profile="oltp"))["node-4"].startswith("linnet: the node has staging drives alone")
    assert client.ask("DELETE", "/v1/drives/node-4:sda")[0] == 200


def test_asking_reserves_nothing(service: Service) -> None:
    before = service.client().ask("GET", "/v1/tenants")[1]
    ask(service, "filter", pod(profile="oltp"))
    assert service.client().ask("GET", "/v1/tenants")[1] == before


@pytest.mark.slow
def test_an_answer_about_whole_nodes_looks_at_each_a_few_times() -> None:
    """So that time grows with the nodes, not with their square."""
    looks = 0

    class Name(str):
        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            assert looks < 10 * 20_000
            return super().__hash__()

    names = [Name(f"node-{number}") for number in range(20_000)]
    nodes = [Node.model_construct({"metadata"}, metadata=Metadata.model_construct(name=name)) for name in names]
    question = ExtenderArgs.model_construct(nodes=NodeList.model_construct({"items"}, items=nodes))
    assert len(result(question, names[::2], {})["Nodes"]["items"]) == 10_000


def test_the_protocol_by_its_own_types(service: Service, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("skipped: go is not installed; it compiles tests/kubernetes")
    program = tmp_path / "extender"
    built = subprocess.run(
        ["go", "build", "-o", program, "."],
        cwd=ROOT / "tests" / "kubernetes",
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and any(said in built.stderr for said in UNREACHED):
        pytest.skip("skipped: the Go modules of tests/kubernetes cannot be fetched here")
    assert built.returncode == 0, built.stderr
    url = f"http://127.0.0.1:{service.port}/kubernetes"
    done = subprocess.run([program, url, "oltp", "[]", *NODES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in map(json.loads, done.stdout.splitlines()):
        assert line["Nodes"] == ["node-2"]
        assert line["Labels"] == (["zone of node-2", "k"] if line["Form"] == "nodes" else None)
        assert not line["Failed"] and list(line["Hopeless"]) == ["node-1", "node-3"]
        assert [(one["Host"], one["Score"] > 0) for one in line["Priorities"]] == [(n, n == "node-2") for n in NODES]
    done = subprocess.run([program, url, "", "[]", *NODES], capture_output=True, text=True, check=False)
    assert [json.loads(line)["Nodes"] for line in done.stdout.splitlines()] == [NODES, NODES]
