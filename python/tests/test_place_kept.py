# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the service keeps beside drives and tenants: what was asked, and which drives were removed."""

import contextlib
import json
import re
import sqlite3
import tomllib
from pathlib import Path

import pytest
from linnet.place.service.state import State
from place_client import DRIVES_TOML, Service, tenant


@pytest.mark.parametrize("named", ["oltp", "a"], ids=["another name", "the tenant's name"])
def test_a_request_is_the_same_after_its_tenant_was_measured(tmp_path: Path, named: str) -> None:
    (tmp_path / "drives.toml").write_text(DRIVES_TOML)
    measured = {"features": tenant("a", reads=300.0)["profile"]}
    requests: list[dict[str, object]] = [
        {"id": "a", "capacity_bytes": 5, "profile_name": named},
        {"id": "b", "capacity_bytes": 5, "profile": tenant("b", reads=200.0)["profile"]},
        {"id": "c", "capacity_bytes": 5},
    ]
    others = [{"profile": measured["features"]}, {"profile_name": "web"}, {"profile": tenant("d")["profile"]}]
    with Service(tmp_path / "s.db", "--drives", tmp_path / "drives.toml") as running:
        client = running.client()
        client.ask("PUT", "/v1/profiles/a", {"features": tenant("a")["profile"]})
        for body in requests:
            assert client.ask("POST", "/v1/tenants", body)[0] == 201
            assert client.ask("PUT", f"/v1/tenants/{body['id']}/profile", measured)[0] == 200
            assert client.ask("POST", "/v1/tenants", body)[0] == 200
        running.stop()
    with Service(tmp_path / "s.db") as running:
        client = running.client()
        assert client.ask("DELETE", f"/v1/profiles/{named}")[1]["code"] == "profile_in_use"
        for body, other in zip(requests, others, strict=True):
            assert client.ask("POST", "/v1/tenants", body)[0] == 200
            changed = {key: body[key] for key in ("id", "capacity_bytes")} | other
            assert client.ask("POST", "/v1/tenants", changed)[1]["code"] == "tenant_exists"


def test_a_removed_drive_stays_removed_until_it_is_registered(linnet, tmp_path: Path) -> None:
    state, listed = tmp_path / "s.db", tmp_path / "drives.toml"
    listed.write_text(DRIVES_TOML)
    with Service(state, "--drives", listed) as running:
        client = running.client()
        assert client.ask("DELETE", "/v1/drives/d0")[0] == 200
        assert client.ask("DELETE", "/v1/drives/s0")[0] == 200
        again = {"drives": tomllib.loads(DRIVES_TOML)["drives"][:1]}
        assert client.ask("POST", "/v1/drives", again)[1]["registered"] == 1
        running.stop()
    with Service(state, "--drives", listed) as running:
        names = [one["name"] for one in running.client().ask("GET", "/v1/drives")[1]["drives"]]
        assert names == ["d0"]
        running.stop()
        assert running.process.stderr is not None
        said = running.process.stderr.read()
        assert "drive s0 was removed, and stays so" in said and "drive d0" not in said
    assert linnet("place", "drives", "--state", state, "--add", listed).returncode == 0
    with contextlib.closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT name FROM removed").fetchall() == []
        # As where an earlier version, which does not know the table, registered it.
        db.execute("INSERT INTO removed VALUES ('d0')")
        db.commit()
    with contextlib.closing(State(state)) as kept:
        assert kept.removed() == set()


GUIDE = Path(__file__).parents[2] / "docs/guide/place-service.md"


def test_the_correction_of_the_guide_drops_no_figure(tmp_path: Path) -> None:
    text = GUIDE.read_text()
    listed = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    put = re.search(r"-X PUT http://127.0.0.1:8717(/v1/drives/\S+) .*? -d '(.*?)'\n", text, re.DOTALL)
    assert listed and put
    file, state = tmp_path / "drives.toml", tmp_path / "s.db"
    file.write_text(listed[1])
    figures = json.loads(put[2])
    name = put[1].removeprefix("/v1/drives/")
    with Service(state, "--drives", file) as running:
        client = running.client()
        status, said = client.ask("PUT", put[1], figures)
        assert (status, said["warnings"], said["broken"]) == (200, [], [])
        running.stop()
    old = re.search(r"sheet = {.*}", listed[1])
    assert old
    sheet = ", ".join(f"{one} = {value}" for one, value in figures["sheet"].items())
    file.write_text(listed[1].replace(old[0], f"sheet = {{ {sheet} }}"))
    with Service(state, "--drives", file) as running:
        client = running.client()
        assert client.ask("GET", "/v1/drives")[1]["total"] == 2, "by the same figures the next start is not refused"
        left = {one: figures["sheet"].pop(one) for one in ("seq_read_mbs", "read_latency_us")}
        said = client.ask("PUT", put[1], figures)[1]["warnings"]
        what = "not known any more: seq_read_mbs, read_latency_us; its load cannot be judged without"
        assert said == [f"drive {name}: {what}, so it is told as 0 and keeps no tenant out"]
        again = {"drives": [{"name": name, **figures, "sheet": figures["sheet"] | left}]}
        assert client.ask("PUT", "/v1/drives", again)[1] == {"changed": 1, "broken": {}, "warnings": []}
        del again["drives"][0]["sheet"]["read_latency_us"]
        said = client.ask("PUT", "/v1/drives", again)[1]["warnings"]
        assert said == [f"drive {name}: not known any more: read_latency_us"]
