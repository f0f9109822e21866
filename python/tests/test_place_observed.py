# SPDX-License-Identifier: MIT OR Apache-2.0
"""Promises that were observed to be broken, where the model sees none: who moves, and who is kept off the drive."""

from pathlib import Path
from typing import Any

from linnet.place.allocate import Allocator, Settings
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.drift import VIOLATIONS
from linnet.place.rebalance import rebalance
from linnet.place.service.extender import ExtenderArgs, Pod, prioritize_nodes
from linnet.place.service.operations import Operations
from linnet.place.service.pods import home_of
from linnet.place.service.serve import prepare
from linnet.place.service.state import State
from linnet.place.sheet import SheetModel
from place_client import Client, Service, drives
from place_made import GB, Line, drive, tenant

BROKEN = {"metrics": {"read_latency_p99_us": 5000.0}}


def made(victim_bytes: int = GB, beside_bytes: int = 0) -> Allocator:
    """Drives a and b; by the model all promises hold, and the victim on a may go to b if that has room for it."""
    found = Allocator(Cluster(), Line(), Settings(policy="best-fit"))
    found.add_drives([DriveSpec(drive(name), 100 * GB) for name in "ab"])
    on_a = [tenant("victim", 1000, 150.0, victim_bytes), tenant("light", 500, capacity=GB)]
    on_a.append(tenant("heavy", 9000, capacity=GB))
    found.restore([*((one, "a") for one in on_a), (tenant("other", 100, capacity=GB + beside_bytes), "b")])
    return found


def observe(allocator: Allocator, name: str = "victim") -> None:
    allocator.cluster.suffers[allocator.cluster.row_of(name)] = True


def test_who_suffers_moves_first_and_nobody_moves_to_the_drive() -> None:
    allocator = made()
    assert [(one.tenant, one.target) for one in rebalance(allocator).moves] == [("other", "a")], "a is the fuller one"
    observe(allocator)
    advice = rebalance(allocator)
    assert (advice.broken_before, advice.drives_observed_broken) == (0, 1)
    first = advice.moves[0]
    assert (first.tenant, first.source, first.target) == ("victim", "a", "b")
    assert first.reason == "promises to it were observed to be broken"
    assert {one.target for one in advice.moves} == {"b"}
    for move in advice.moves:
        row = allocator.cluster.row_of(move.tenant)
        allocator.take(row)
        assert allocator.place_row(row, allocator.cluster.drive_index(move.target)).drive == move.target
    none = rebalance(made(), moves_max=0)
    assert (none.drives_observed_broken, none.moves) == (0, [])
    observe(counted := made())
    assert rebalance(counted, moves_max=0).drives_observed_broken == 1


def test_the_heaviest_neighbour_moves_where_no_drive_takes_who_suffers() -> None:
    allocator = made(victim_bytes=60 * GB, beside_bytes=60 * GB)
    observe(allocator)
    advice = rebalance(allocator)
    assert [(one.tenant, one.target) for one in advice.moves] == [("heavy", "b")]
    assert advice.moves[0].reason == "promises to victim were observed to be broken beside it"


def test_placement_asks_such_a_drive_last() -> None:
    allocator = made()
    observe(allocator)
    newcomer = tenant("new", 10, capacity=97 * GB)
    assert allocator.place(tenant("first", 10, capacity=2 * GB)).drive == "b"
    allocator.add_drives([DriveSpec(drive("c"), 3 * GB)])
    allocator.remove("first")
    assert allocator.place(newcomer).drive == "b"
    assert allocator.place(tenant("small", 10, capacity=3 * GB)).drive == "c", "an empty one"
    assert allocator.place(tenant("last", 10, capacity=3 * GB)).drive == "a", "there is room nowhere else"


def served(client: Client) -> None:
    rows = drives(2)["drives"]
    rows.append({"name": "s0", "model": "made", "capacity_bytes": GB, "staging": True})
    assert client.ask("POST", "/v1/drives", {"drives": rows})[0] == 201
    oltp = client.ask("GET", "/v1/profiles/oltp")[1]["features"]
    for name, profile, home in (("victim", "oltp", "d0"), ("backup", "backup", "d0"), ("other", "web", "d1")):
        slos = [{"metric": "read_latency_p99_us", "bound": 500}] if name == "victim" else []
        body = {"id": name, "capacity_bytes": GB, "profile_name": profile, "drive": home, "slos": slos}
        assert client.ask("POST", "/v1/tenants", body)[0] == 201
    for _ in range(VIOLATIONS):
        status, said = client.ask("POST", "/v1/tenants/victim/observations", BROKEN | {"features": oltp})
    assert (status, said["broken_windows"], said["advice"]) == (200, 3, "rebalance")


def first_move(advice: dict[str, Any]) -> list[tuple[str, str, str]]:
    assert advice["drives_observed_broken"] == 1
    assert "d0" not in {move["to"] for move in advice["moves"]}
    return [(move["tenant"], move["from"], move["to"]) for move in advice["moves"]][:1]


def test_the_service_advises_by_what_was_observed_until_it_is_carried_out(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    with Service(state) as running:
        served(running.client())
        running.stop()
    with Service(state) as running:
        client = running.client()
        assert first_move(client.ask("GET", "/v1/rebalance")[1]) == [("victim", "d0", "d1")], "after a start as well"
        shown = client.ask("GET", "/v1/tenants/victim")[1]
        assert (shown["windows"], shown["broken_windows"]) == (3, 3)
        newcomer = {"id": "new", "capacity_bytes": GB, "profile_name": "web"}
        assert client.ask("POST", "/v1/tenants", newcomer)[1]["drive"] == "d1"
        assert client.ask("POST", "/v1/tenants/backup/move", {"drive": "d1"})[0] == 200
        shown = client.ask("GET", "/v1/tenants/victim")[1]
        assert (shown["windows"], shown["broken_windows"]) == (0, 0), "what was seen beside backup is over"
        assert client.ask("GET", "/v1/rebalance?moves_max=0")[1]["drives_observed_broken"] == 0


def operations(path: Path) -> Operations:
    specs = [DriveSpec(drive(name), 100 * GB) for name in ("n1:a", "n2:b", "n3:c")]
    return prepare(State(path), SheetModel(), {}, specs)


def test_a_move_that_is_undone_brings_the_observations_back(tmp_path: Path) -> None:
    do = operations(tmp_path / "state.db")
    for name in ("victim", "beside"):
        do.admit([], tenant(name, 1000, 9000.0), "n1:a")
        for _ in range(VIOLATIONS):
            do.observe([], name, {"read_latency_mean_us": 1e6}, None)
    marks, undo = do.cluster.suffers.copy(), []
    assert marks.sum() == 2
    do.move(undo, "beside", "n2:b")
    assert (do.windows, do.cluster.suffers.sum()) == ({}, 0)
    for step in reversed(undo):
        step()
    assert (do.windows, do.cluster.suffers.tolist()) == (
        dict.fromkeys(("beside", "victim"), [True] * 3),
        marks.tolist(),
    )


def test_pods_are_drawn_to_other_nodes_and_drives(tmp_path: Path) -> None:
    do = operations(tmp_path / "state.db")
    do.admit([], tenant("victim", 100_000, 9000.0), "n1:a")
    do.admit([], tenant("quiet", 100), "n2:b")
    pod = Pod.model_validate({"metadata": {"name": "p", "annotations": {"linnet.io/profile": "web"}}})
    question = ExtenderArgs(Pod=pod, NodeNames=["n1", "n2", "n3"])

    def scores() -> dict[str, int]:
        return {one["Host"]: one["Score"] for one in prioritize_nodes(do, question)}

    assert max(scores(), key=scores().__getitem__) == "n1"
    assert home_of(do, tenant("pod:p", 10), [0, 1, 2]) == 0
    for _ in range(VIOLATIONS):
        do.observe([], "victim", {"read_latency_mean_us": 1e6}, None)
    assert scores() == {"n1": 1, "n2": 1, "n3": 1}
    assert [home_of(do, tenant("pod:p", 10), found) for found in ([0, 1], [0, 2], [0])] == [1, 2, 0]
