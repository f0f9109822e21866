# SPDX-License-Identifier: MIT OR Apache-2.0
"""The placement service over HTTP: its routes, its errors, and what it answers twice."""

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from linnet.cli.place_service import parse_slo
from place_client import DRIVES_TOML, Client, Service, drives, tenant
from place_made import GB, SHEET
from typer import BadParameter

STRICT = [{"metric": "read_latency_mean_us", "degradation_percent": 5}]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "drives.toml").write_text(DRIVES_TOML)
    with Service(folder / "state.db", "--drives", folder / "drives.toml") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    found = service.client()
    yield found
    for one in found.ask("GET", "/v1/tenants?limit=1000")[1]["tenants"]:
        found.ask("DELETE", f"/v1/tenants/{one['id']}")


def test_a_tenant_comes_is_shown_and_leaves(client: Client) -> None:
    status, body = client.ask(
        "POST", "/v1/tenants", tenant("a", slos=[{"metric": "read_latency_p99_us", "bound": 900}])
    )
    assert (status, body["drive"], body["staged"]) == (201, "d0", False)
    status, shown = client.ask("GET", "/v1/tenants/a")
    assert status == 200
    assert shown["slos"] == ["read_latency_p99_us <= 900"]
    one = shown["predictions"]["read_latency_p99_us"]
    assert one["low90"] <= one["value"] <= one["high90"]
    assert client.ask("GET", "/v1/drives/d0")[1]["tenant_ids"] == ["a"]
    assert client.ask("DELETE", "/v1/tenants/a") == (200, {"id": "a", "drive": "d0"})
    assert client.ask("DELETE", "/v1/tenants/a")[0] == 404
    assert client.ask("GET", "/v1/drives/d0")[1]["used_bytes"] == 0


def test_the_same_tenant_again_is_told_where_it_is_and_another_is_refused(client: Client) -> None:
    assert client.ask("POST", "/v1/tenants", tenant("a"))[0] == 201
    assert client.ask("POST", "/v1/tenants", tenant("a"))[0] == 200
    status, body = client.ask("POST", "/v1/tenants", tenant("a", capacity=1))
    assert (status, body["code"]) == (409, "tenant_exists")


def test_a_request_id_is_carried_out_once(client: Client) -> None:
    first = client.ask("POST", "/v1/tenants", tenant("a"), key="one")
    assert first[0] == 201
    client.ask("DELETE", "/v1/tenants/a", key="two")
    assert client.ask("POST", "/v1/tenants", tenant("a"), key="one") == first
    assert client.ask("GET", "/v1/tenants/a")[0] == 404, "the second time only the answer is given again"
    assert client.ask("DELETE", "/v1/tenants/a", key="two")[0] == 200
    status, body = client.ask("POST", "/v1/tenants", tenant("b"), key="one")
    assert (status, body["code"]) == (409, "request_id_reused")


def test_a_refused_request_may_be_tried_again_with_its_id(client: Client) -> None:
    client.ask("POST", "/v1/tenants", tenant("big", capacity=95 * GB))
    status, body = client.ask("POST", "/v1/tenants", tenant("a"), key="again")
    assert (status, body["code"]) == (409, "no_room")
    assert "bytes free" in body["reasons"][0]
    client.ask("DELETE", "/v1/tenants/big")
    assert client.ask("POST", "/v1/tenants", tenant("a"), key="again")[0] == 201


def test_what_if(client: Client) -> None:
    client.ask("POST", "/v1/tenants", tenant("strict", slos=STRICT))
    status, body = client.ask("POST", "/v1/whatif", tenant("loud", reads=300_000.0, drive="d0"))
    assert (status, body["allowed"]) == (200, False)
    worst = body["effects"][0]
    assert (worst["tenant"], worst["broken"], worst["cause"]) == ("strict", True, "reads")
    assert worst["after"]["value"] > worst["limit"] > worst["before"]["value"]
    assert client.ask("GET", "/v1/tenants/loud")[0] == 404
    status, body = client.ask("POST", "/v1/whatif", {"id": "x", "capacity_bytes": 0, "profile_name": "oltp"})
    assert status == 200 and "x" in body["text"]


def test_an_unknown_workload_is_staged_measured_and_moved(client: Client) -> None:
    status, body = client.ask("POST", "/v1/tenants", {"id": "new", "capacity_bytes": GB})
    assert (status, body["drive"], body["staged"]) == (201, "s0", True)
    features = tenant("new")["profile"]
    status, body = client.ask("PUT", "/v1/tenants/new/profile", {"features": features})
    assert (status, body["from"], body["drive"], body["staged"]) == (200, "s0", "d0", False)


def test_observations_lead_to_advice(client: Client) -> None:
    client.ask("POST", "/v1/tenants", tenant("a", slos=[{"metric": "read_latency_p99_us", "bound": 900}]))
    bad = {"metrics": {"read_latency_p99_us": 2000.0}}
    said = [client.ask("POST", "/v1/tenants/a/observations", bad)[1] for _ in range(3)]
    assert [one["advice"] for one in said] == ["none", "none", "reprofile"]
    assert said[-1]["broken_windows"] == 3
    moved = {"metrics": {}, "features": tenant("a", reads=5000.0)["profile"]}
    body = client.ask("POST", "/v1/tenants/a/observations", moved)[1]
    assert body["advice"] == "reprofile" and body["drift"] > 0.3
    assert "linnet_place_slo_violations_total 3.0" in client.ask("GET", "/metrics")[1]
    for _ in range(2):
        client.ask("POST", "/v1/tenants/a/observations", bad, key="seen-once")
    assert "linnet_place_slo_violations_total 4.0" in client.ask("GET", "/metrics")[1]


def test_drives_are_registered_listed_and_removed(client: Client) -> None:
    assert client.ask("POST", "/v1/drives", drives(3, first=10)) == (201, {"registered": 3, "known": 0})
    assert client.ask("POST", "/v1/drives", drives(4, first=10)) == (201, {"registered": 1, "known": 3})
    assert client.ask("POST", "/v1/drives", drives(1, capacity=GB, first=10))[1]["code"] == "drive_exists"
    page = client.ask("GET", "/v1/drives?offset=2&limit=2")[1]
    assert (page["total"], [one["name"] for one in page["drives"]]) == (6, ["d10", "d11"])
    assert client.ask("POST", "/v1/tenants", tenant("a", drive="d12"))[1]["drive"] == "d12"
    assert client.ask("POST", "/v1/tenants/a/move", {"drive": "d11"})[1]["from"] == "d12"
    assert client.ask("DELETE", "/v1/drives/d11")[1]["code"] == "drive_in_use"
    for name in ("d10", "d12", "d13"):
        assert client.ask("DELETE", f"/v1/drives/{name}")[0] == 200
    advice = client.ask("GET", "/v1/rebalance")[1]
    assert advice["moves"] == [] and advice["drives_before"] == 1
    client.ask("DELETE", "/v1/tenants/a")
    assert client.ask("DELETE", "/v1/drives/d11")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "a b", "capacity_bytes": 1},
        {"id": "a", "capacity_bytes": -1},
        {"id": "a", "capacity_bytes": "1"},
        {"id": "a", "capacity_bytes": 1, "surprise": 1},
        {"id": "a", "capacity_bytes": 1, "profile": {"speed": 1.0}},
        {"id": "a", "capacity_bytes": 1, "profile": {"read_random_ratio": 1.5}},
        {"id": "a", "capacity_bytes": 1, "profile": {"read_aligned_bandwidth_mean": 1e6}},
        {"id": "a", "capacity_bytes": 1, "profile": {"read_aligned_rate_std": 1.0}},
        {"id": "a", "capacity_bytes": 1, "profile": {"read_aligned_rate_mean": 1.0}},
        {"id": "a", "capacity_bytes": 1, "profile": {}, "slos": [{"metric": "read_latency_p99_us", "bound": 1}]},
        {"id": "a", "capacity_bytes": 1, "slos": [{"metric": "speed", "bound": 1}]},
        {
            "id": "a",
            "capacity_bytes": 1,
            "slos": [{"metric": "read_latency_p99_us", "bound": 1, "confidence_percent": 7}],
        },
        {"id": "a", "capacity_bytes": 1, "slos": [{"metric": "read_bandwidth_mean", "degradation_percent": 101}]},
    ],
)
def test_bad_input_is_told_where_it_is_wrong(client: Client, body: object) -> None:
    status, answer = client.ask("POST", "/v1/tenants", body)
    assert status == 422
    assert answer["detail"][0]["loc"][0] == "body"


def test_a_profile_that_says_nothing_is_not_taken_as_idle(client: Client) -> None:
    for features, field in (
        ({"write_aligned_bandwidth_std": 1.0}, "write_aligned_rate_mean"),
        ({"write_aligned_rate_mean": 1.0}, "write_aligned_size_bytes_mean"),
    ):
        status, body = client.ask("PUT", "/v1/profiles/odd", {"features": features})
        assert status == 422 and f"{field}: zero or absent" in body["detail"][0]["msg"]
    slos = [{"metric": "read_latency_p99_us", "bound": 900}]
    for features in ({}, {"depth": 0.0}):
        assert client.ask("PUT", "/v1/profiles/none", {"features": features})[1]["code"] == "bad_profile"
    assert client.ask("PUT", "/v1/profiles/none", {"features": {"depth": 1.0}})[0] == 200
    status, body = client.ask("PUT", "/v1/profiles/unknown", {"features": {"depth": 1.0}})
    assert (status, body["code"]) == (409, "bad_profile") and "give another name" in body["message"]
    unknown = {"id": "a", "capacity_bytes": 0, "profile_name": "unknown"}
    assert "without a profile is measured" in client.ask("POST", "/v1/tenants", unknown)[1]["message"]
    named = {"id": "a", "capacity_bytes": 0, "profile_name": "none"}
    for path in ("/v1/tenants", "/v1/whatif"):
        assert client.ask("POST", path, named | {"slos": slos})[1]["code"] == "bad_profile"
    assert client.ask("POST", "/v1/tenants", named)[0] == 201
    client.ask("POST", "/v1/tenants", tenant("b", slos=slos))
    assert client.ask("PUT", "/v1/tenants/b/profile", {"features": {}})[1]["code"] == "bad_profile"
    assert client.ask("GET", "/v1/tenants/b")[1]["predictions"]
    client.ask("POST", "/v1/tenants", {"id": "c", "capacity_bytes": 0})
    status, body = client.ask("PUT", "/v1/tenants/c/profile", {"features": {"depth": 0.0}})
    assert (status, body["code"]) == (409, "bad_profile") and "every feature is zero" in body["message"]
    assert client.ask("GET", "/v1/tenants/c")[1]["staged"]


def test_a_profile_is_stored_shown_and_removed_when_nobody_was_placed_by_it(client: Client) -> None:
    features = tenant("a")["profile"]
    assert client.ask("PUT", "/v1/profiles/made", {"features": features})[0] == 200
    assert client.ask("GET", "/v1/profiles/made") == (200, {"name": "made", "features": features})
    client.ask("POST", "/v1/tenants", {"id": "a", "capacity_bytes": 0, "profile_name": "made"})
    status, body = client.ask("DELETE", "/v1/profiles/made", key="while-used")
    assert (status, body["code"]) == (409, "profile_in_use")
    assert "1 tenants were placed by it, a is one" in body["message"]
    client.ask("PUT", "/v1/tenants/a/profile", {"features": features})
    assert client.ask("DELETE", "/v1/profiles/made")[0] == 409, "the request by which a came would find none"
    client.ask("DELETE", "/v1/tenants/a")
    assert client.ask("DELETE", "/v1/profiles/made") == (200, {"name": "made"})
    for method in ("GET", "DELETE"):
        assert client.ask(method, "/v1/profiles/made")[1]["code"] == "no_profile"
    assert "made" not in client.ask("GET", "/v1/profiles")[1]["names"]


def test_a_shipped_profile_that_was_replaced_is_told_at_the_start(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    with Service(state) as running:
        assert running.client().ask("PUT", "/v1/profiles/oltp", {"features": tenant("a")["profile"]})[0] == 200
        running.stop()
    with Service(state) as running:
        assert running.client().ask("DELETE", "/v1/profiles/oltp")[0] == 200
        running.stop()
        assert running.process.stderr.read().startswith("linnet place: profile oltp is not the shipped one; DELETE ")
    with Service(state) as running:
        assert "oltp" in running.client().ask("GET", "/v1/profiles")[1]["names"]
        running.stop()
        assert running.process.stderr.read() == ""


def test_a_window_without_a_measurement_is_not_kept(client: Client) -> None:
    client.ask("POST", "/v1/tenants", tenant("a"))
    path = "/v1/tenants/a/observations"
    status, body = client.ask("POST", path, {"metrics": {}})
    assert status == 422 and "metrics: empty" in body["detail"][0]["msg"]
    seen = client.ask("POST", path, {"metrics": {}, "features": tenant("a")["profile"]})[1]
    assert (seen["windows"], seen["drift"]) == (0, 0.0)
    assert client.ask("POST", path, {"metrics": {"read_latency_mean_us": 1.0}})[1]["windows"] == 1


def test_no_page_loads_scripts_from_elsewhere(client: Client) -> None:
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
        assert client.ask("GET", path)[0] == 404
    assert client.ask("GET", "/openapi.json")[0] == 200


JSON = {"content-type": "application/json"}


def test_other_bad_requests(client: Client) -> None:
    two = {**tenant("a"), "profile_name": "oltp"}
    assert client.ask("POST", "/v1/tenants", two)[1]["code"] == "two_profiles"
    missing = {"id": "a", "capacity_bytes": 1, "profile_name": "none-such"}
    assert client.ask("POST", "/v1/tenants", missing)[0] == 404
    assert client.ask("POST", "/v1/tenants", tenant("a", drive="none-such"))[0] == 404
    assert client.ask("POST", "/v1/whatif", {"id": "a", "capacity_bytes": 1})[1]["code"] == "one_profile"
    assert client.ask("GET", "/v1/tenants/a%20b")[0] == 422
    large = Client(client.connection.port).connection
    large.request("POST", "/v1/tenants", b"x", JSON | {"content-length": str(10**9)})
    assert large.getresponse().status == 413
    large.close()


def test_a_body_that_does_not_say_its_length_is_bounded(client: Client) -> None:
    large = Client(client.connection.port).connection
    pieces = (b" " * (1 << 20) for _ in range(32))
    with contextlib.suppress(OSError):  # the service may close the connection while we send
        large.request("POST", "/v1/tenants", pieces, JSON | {"transfer-encoding": "chunked"}, encode_chunked=True)
    answer = large.getresponse()
    assert answer.status == 413 and json.loads(answer.read())["code"] == "too_large"
    large.close()
    assert client.ask("GET", "/healthz")[0] == 200


def test_openapi_and_metrics(client: Client) -> None:
    document = client.ask("GET", "/openapi.json")[1]
    for path in ("/v1/tenants", "/v1/tenants/{id}", "/v1/whatif", "/v1/drives"):
        assert path in document["paths"]
    schemas = document["components"]["schemas"]
    assert len(schemas["Features"]["properties"]) == 27
    fields = [(name, field, said) for name, one in schemas.items() for field, said in one.get("properties", {}).items()]
    assert len(fields) > 170
    assert [(name, field) for name, field, said in fields if not said.get("description")] == []
    client.ask("POST", "/v1/tenants", tenant("a"))
    text = client.ask("GET", "/metrics")[1]
    assert "linnet_place_drives 2.0" in text
    assert 'linnet_place_requests_total{method="POST",route="/v1/tenants",status="201"}' in text
    assert 'linnet_place_request_seconds_bucket{le="30.0",method="POST",route="/v1/tenants"}' in text
    assert re.search(r'linnet_place_state_bytes\{file="state"\} [1-9]', text)
    assert 'linnet_place_state_bytes{file="log"}' in text and "linnet_place_commits_failed_total 0.0" in text
    assert "pods_followed" not in text, "there is no cluster"
    odd = Client(client.connection.port).connection
    odd.request("PROPFIND", "/v1/tenants")
    assert odd.getresponse().status == 405
    assert "PROPFIND" not in client.ask("GET", "/metrics")[1]


@pytest.mark.slow
def test_commands_work_on_the_state_and_the_service_finds_what_they_did(linnet, tmp_path: Path) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    profile = tmp_path / "p.json"
    profile.write_text(json.dumps({"name": "p", "features": tenant("p")["profile"]}))
    state = ["--state", tmp_path / "s.db"]
    assert linnet("place", "drives", *state, "--add", tmp_path / "drives.toml").returncode == 0
    done = linnet("place", "admit", "a", *state, "--profile", profile, "--slo", "read_latency_p99_us<=900", "--json")
    assert json.loads(done.stdout)["drive"] == "d0", done.stderr
    done = linnet("place", "whatif", "b", *state, "--profile", profile, "--picture", tmp_path / "b.svg")
    assert "b may go to d0" in done.stdout, done.stderr
    assert (tmp_path / "b.svg").read_text().startswith("<svg")
    assert linnet("place", "admit", "c", *state).stdout == "c: s0 (staged: to be measured)\n"
    assert "0 moves" in linnet("place", "rebalance", *state).stdout
    with Service(tmp_path / "s.db") as service:
        client = service.client()
        assert client.ask("GET", "/v1/tenants/a")[1]["drive"] == "d0"
        locked = linnet("place", "remove", "a", *state)
        assert locked.returncode == 1 and "in use by another process" in locked.stderr
        assert service.stop() == 0
    assert linnet("place", "remove", "a", *state).stdout == "a: left d0\n"
    assert "there is none of this id" in linnet("place", "remove", "a", *state).stderr
    full = linnet("place", "admit", "big", *state, "--profile", profile, "--capacity-bytes", 10**12)
    assert full.returncode == 1 and "1 drives have less than 1000000000000 bytes free" in full.stderr
    for words in (["--slo", "read_latency_p99_us>=5"], ["--profile", "none-such"], ["--slo", "fast"]):
        assert linnet("place", "admit", "x", *state, *words).returncode == 2


@pytest.mark.parametrize("percent", [50, 60, 90, 95])
@pytest.mark.parametrize(
    "text", ["read_latency_p99_us <= 900", "read_bandwidth_mean >= 1e+08", "read_bandwidth_mean -5 %"]
)
def test_an_slo_is_read_as_it_is_printed(text: str, percent: int) -> None:
    sure = "" if percent == 50 else f" at {percent} %"
    slo = parse_slo(text + sure)
    assert slo.text() == text + sure and slo.confidence_percent == percent
    assert parse_slo(f"{text} at {percent}%".replace(" ", "")) == slo
    for odd in (42, 100):
        with pytest.raises(BadParameter, match=f"{odd}, not one of 50"):
            parse_slo(f"{text} at {odd}%")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"nothing" * 1000), "not a state file, or damaged"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE other (x)"), "not the state of a placement"),
        (lambda path: _made(path, "PRAGMA user_version = 99"), "state version 99"),
        (lambda path: _made(path, "UPDATE drives SET sheet = '{'"), "table drives, row d0"),
    ],
)
def test_a_spoilt_state_is_refused(linnet, tmp_path: Path, spoil, said: str) -> None:
    state = tmp_path / "s.db"
    spoil(state)
    done = linnet("place", "drives", "--state", state)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(state) in done.stderr and said in done.stderr
    assert "Traceback" not in done.stderr


def _made(path: Path, change: str) -> None:
    from linnet.place.cluster import DriveSpec
    from linnet.place.service.state import State
    from linnet.place.words import Drive

    state = State(path)
    with state.transaction():
        state.add_drive(DriveSpec(Drive("d0", "made", SHEET), GB))
    state.close()
    database = sqlite3.connect(path)
    database.execute(change)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[drives]]\nname = 'a'\n", "drives.0.model"),
        ("drives = 3", "drives"),
        ("[[", "not TOML"),
        (DRIVES_TOML.replace("100_000_000_000", "-1"), "drives.0.capacity_bytes"),
    ],
)
def test_a_bad_file_of_drives_is_told_where_it_is_wrong(linnet, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "d.toml").write_text(text)
    done = linnet("place", "drives", "--state", tmp_path / "s.db", "--add", tmp_path / "d.toml")
    assert done.returncode == 1
    assert f"{tmp_path / 'd.toml'}: " in done.stderr and said in done.stderr


def test_an_address_that_is_none_or_taken(linnet, tmp_path: Path, service: Service) -> None:
    assert linnet("place", "serve", "--state", tmp_path / "s.db", "--listen", "nowhere").returncode == 2
    taken = linnet("place", "serve", "--state", tmp_path / "s.db", "--listen", f"127.0.0.1:{service.port}")
    assert taken.returncode == 1 and "cannot listen" in taken.stderr


def test_without_its_packages_the_service_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\nclass Block:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('fastapi', 'uvicorn'):\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\nfrom linnet.cli import main\n"
        f"sys.argv = ['linnet', 'place', 'serve', '--state', {str(tmp_path / 's.db')!r}]\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'WHEEL[serve]'" in done.stderr
    assert not list(tmp_path.iterdir())


SURE = [{"metric": "read_latency_p99_us", "bound": 900, "confidence_percent": 80}]


def test_a_confidence_that_the_model_does_not_know_is_refused(client: Client) -> None:
    for path in ("/v1/tenants", "/v1/whatif"):
        status, body = client.ask("POST", path, tenant("a", slos=SURE))
        assert (status, body["code"]) == (409, "not_predicted"), path
        assert "this model knows 50 and 95 only" in body["message"]


def test_a_refusal_at_a_confidence_says_what_was_compared(client: Client) -> None:
    """The model of data sheets multiplies a latency by three for the end of its interval."""
    value = client.ask("POST", "/v1/whatif", tenant("a", drive="d0"))[1]["effects"][0]["after"]
    bound, end = 2 * value["value"], value["high90"]
    slos = [{"metric": "read_latency_p99_us", "bound": bound, "confidence_percent": 95}]
    said = f"a: read_latency_p99_us {end:.4g} at 95 % is above {bound:.4g}"
    status, body = client.ask("POST", "/v1/tenants", tenant("a", slos=slos))
    assert (status, body["reasons"]) == (409, [f"d0: {said}"])
    one = client.ask("POST", "/v1/whatif", tenant("a", slos=slos, drive="d0"))[1]["effects"][0]
    assert (one["compared"], one["confidence_percent"], one["broken"]) == (end, 95, True)
    # Staged, and measured on a drive that cannot keep the promise.
    client.ask("POST", "/v1/tenants", {"id": "a", "capacity_bytes": 0, "slos": slos})
    told = client.ask("PUT", "/v1/tenants/a/profile", {"features": tenant("a")["profile"]})[1]
    assert told["reasons"] == [f"d0: {said}"]
    loose = [slos[0] | {"bound": 4 * value["value"]}]
    client.ask("POST", "/v1/tenants", tenant("b", slos=loose))
    told = client.ask("PUT", "/v1/tenants/b/profile", {"features": tenant("b", reads=400_000.0)["profile"]})[1]
    assert " at 95 % is above " in told["broken"][0]
    assert client.ask("GET", "/v1/drives/d0")[1]["broken"] == told["broken"]


def test_a_placed_tenant_is_not_somewhere_else_and_may_have_another_profile_by_now(client: Client) -> None:
    client.ask("POST", "/v1/tenants", tenant("a", drive="d0"))
    assert client.ask("POST", "/v1/tenants", tenant("a", drive="d0"))[0] == 200
    status, body = client.ask("POST", "/v1/tenants", tenant("a", drive="s0"))
    assert (status, body["code"]) == (409, "tenant_exists")
    assert "it is on drive d0; POST /v1/tenants/a/move" in body["message"]
    unknown = {"id": "b", "capacity_bytes": 0}
    assert client.ask("POST", "/v1/tenants", unknown)[1]["staged"]
    client.ask("PUT", "/v1/tenants/b/profile", {"features": tenant("b")["profile"]})
    assert client.ask("POST", "/v1/tenants", unknown) == (200, {"id": "b", "drive": "d0", "staged": False})


def test_what_json_cannot_say_is_refused_and_not_echoed(service: Service, client: Client) -> None:
    for text in ('{"id": "a", "capacity_bytes": 1e999}', '{"id": "\\ud800", "capacity_bytes": 0}', '{"\\udfff": NaN}'):
        asked = client.connection
        asked.request("POST", "/v1/tenants", text, {"Content-Type": "application/json"})
        answer = asked.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 422, text
        assert said["detail"][0]["loc"][0] == "body"


def test_a_drive_whose_sheet_lacks_what_a_promise_needs_does_not_get_it(client: Client) -> None:
    lacking = {"seq_read_mbs": 6800, "seq_write_mbs": 1400, "rnd_write_iops": 85000}
    client.ask(
        "POST", "/v1/drives", {"drives": [{"name": "bare", "model": "made", "capacity_bytes": GB, "sheet": lacking}]}
    )
    asked = tenant("a", capacity=0, slos=STRICT, drive="bare")
    status, body = client.ask("POST", "/v1/tenants", asked)
    assert (status, body["code"]) == (409, "no_room")
    assert body["reasons"] == ["bare: a: read_latency_mean_us cannot be predicted on this drive"]
    told = client.ask("POST", "/v1/whatif", asked)[1]
    assert not told["allowed"]
    assert "a: read_latency_mean_us cannot be predicted on bare" in told["reasons"]
    client.ask("DELETE", "/v1/drives/bare")


def test_a_move_forgets_what_was_seen_before(client: Client) -> None:
    client.ask("POST", "/v1/drives", drives(1, first=1))
    client.ask("POST", "/v1/tenants", tenant("a", slos=STRICT, drive="d0"))
    for _ in range(3):
        client.ask("POST", "/v1/tenants/a/observations", {"metrics": {"read_latency_mean_us": 1e6}})
    assert client.ask("POST", "/v1/tenants/a/move", {"drive": "d1"})[0] == 200
    seen = client.ask("POST", "/v1/tenants/a/observations", {"metrics": {"read_latency_mean_us": 1.0}})[1]
    assert (seen["windows"], seen["broken_windows"], seen["advice"]) == (1, 0, "none")
    client.ask("DELETE", "/v1/tenants/a")
    client.ask("DELETE", "/v1/drives/d1")


def test_a_drive_gets_other_figures(client: Client) -> None:
    client.ask("POST", "/v1/drives", drives(1, first=5))
    bound = [{"metric": "read_latency_mean_us", "bound": 900}]
    client.ask("POST", "/v1/tenants", tenant("a", slos=bound, drive="d5"))
    body = {name: value for name, value in drives(1, first=5)["drives"][0].items() if name != "name"}
    assert client.ask("PUT", "/v1/drives/none", body)[1]["code"] == "no_drive"
    assert client.ask("PUT", "/v1/drives/d5", body | {"name": "d6"})[0] == 422
    found = client.ask("PUT", "/v1/drives/d5", body | {"sheet": SHEET | {"read_latency_us": 9000.0}}, key="slower")
    assert found[0] == 200 and found[1]["tenant_ids"] == ["a"] and "read_latency_mean_us" in found[1]["broken"][0]
    shown = client.ask("GET", "/v1/drives/d5")[1]
    assert found[1] == {**shown, "warnings": []}
    same = drives(1, first=5)
    assert client.ask("PUT", "/v1/drives", same) == (200, {"changed": 1, "broken": {}, "warnings": []})
    assert client.ask("PUT", "/v1/drives", same) == (200, {"changed": 0, "broken": {}, "warnings": []})
    assert client.ask("PUT", "/v1/drives", {"drives": same["drives"] * 2})[1]["code"] == "drive_twice"
    client.ask("DELETE", "/v1/tenants/a")
    client.ask("DELETE", "/v1/drives/d5")


def test_a_drive_that_is_known_by_other_figures_stops_the_start_in_words(linnet, tmp_path: Path) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    state = str(tmp_path / "state.db")
    assert linnet("place", "drives", "--state", state, "--add", str(tmp_path / "drives.toml")).returncode == 0
    (tmp_path / "drives.toml").write_text(DRIVES_TOML.replace("85000", "85001"))
    words = ("place", "serve", "--listen", "127.0.0.1:0", "--state", state, "--drives", str(tmp_path / "drives.toml"))
    ended = linnet(*words)
    assert ended.returncode == 1
    assert "drive d0: registered already, with other figures; `PUT /v1/drives/d0`" in ended.stderr
    assert "Traceback" not in ended.stderr
    promised = ("--profile", "oltp", "--slo", "read_latency_mean_us<=900")
    assert linnet("place", "admit", "a", "--state", state, *promised).returncode == 0
    (tmp_path / "drives.toml").write_text(DRIVES_TOML.replace("85000 }", "85000, read_latency_us = 8000 }"))
    mended = linnet("place", "drives", "--state", state, "--update", str(tmp_path / "drives.toml"))
    assert mended.returncode == 0 and "d0: a: read_latency_mean_us 8" in mended.stdout, mended.stdout + mended.stderr
    assert linnet("place", "drives", "--state", state, "--add", str(tmp_path / "drives.toml")).returncode == 0
    (tmp_path / "drives.toml").write_text(DRIVES_TOML.replace('"d0"', '"d9"'))
    absent = linnet("place", "drives", "--state", state, "--update", str(tmp_path / "drives.toml"))
    assert absent.returncode == 1 and "drive d9: there is none of this name" in absent.stderr


@pytest.mark.slow
def test_the_books_need_no_model(linnet, tmp_path: Path) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    state = tmp_path / "state.db"
    linnet("place", "drives", "--state", str(state), "--add", str(tmp_path / "drives.toml"))
    made = {"name": "web", "features": tenant("a")["profile"]}
    (tmp_path / "web.json").write_text(json.dumps(made))
    asked = ("--state", str(state), "--profile", str(tmp_path / "web.json"), "--slo", "read_latency_p99_us<=900")
    admitted = linnet("place", "admit", "a", *asked)
    assert admitted.returncode == 0, admitted.stderr
    with contextlib.closing(sqlite3.connect(state)) as db, db:
        # As a fitted model promises.
        db.execute("UPDATE tenants SET slos = ?", (json.dumps([["read_latency_p99_9_us", 900.0, None, 80]]),))
    assert linnet("place", "drives", "--state", str(state)).returncode == 0
    assert "does not predict read_latency_p99_9_us" in linnet("place", "rebalance", "--state", str(state)).stderr
    assert linnet("place", "remove", "a", "--state", str(state)).returncode == 0


def test_requests_are_answered_while_advice_is_sought(tmp_path: Path) -> None:
    never = "import threading\nfrom linnet.place.allocate import Allocator\n"
    never += "Allocator.trial = lambda self: threading.Event().wait()"
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    with Service(tmp_path / "state.db", "--drives", tmp_path / "drives.toml", before=never) as running:
        asking = running.client()
        asking.connection.request("GET", "/v1/rebalance")
        client = running.client()
        for name in "abc":
            assert client.ask("POST", "/v1/tenants", tenant(name))[0] == 201
        assert client.ask("GET", "/healthz") == (200, {"status": "ok"})


def test_advice_that_takes_too_long_is_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    hasty = "import linnet.place.service.advice as advice; advice.ADVICE_S = -1.0"
    with Service(tmp_path / "state.db", "--drives", tmp_path / "drives.toml", before=hasty) as running:
        client = running.client()
        assert client.ask("POST", "/v1/tenants", tenant("a"))[0] == 201
        status, advice = client.ask("GET", "/v1/rebalance")
        assert (status, advice["complete"], advice["moves"], advice["drives_after"]) == (200, False, [], 1)
