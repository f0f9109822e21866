# SPDX-License-Identifier: MIT OR Apache-2.0
"""Beside a tenant of unknown workload nothing is predicted, so nothing is promised."""

from pathlib import Path

from linnet.place.allocate import Allocator, Settings
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.rebalance import rebalance
from linnet.place.service.pods import Pod, arrive
from linnet.place.service.serve import prepare
from linnet.place.service.state import State
from linnet.place.sheet import SheetModel
from linnet.place.slo import Tenant
from linnet.place.whatif import what_if
from linnet.place.words import Profile
from place_made import GB, Line, drive, tenant

SAID = "read_latency_mean_us cannot be predicted on this drive: pod:x is not measured"


def made(*drives: str, staging: bool = False) -> Allocator:
    found = Allocator(Cluster(), Line(), Settings())
    specs = [DriveSpec(drive(name), 100 * GB) for name in drives]
    found.add_drives([*specs, *([DriveSpec(drive("s"), 100 * GB, staging=True)] if staging else [])])
    found.restore([(tenant("a", 100, 900.0), "d0"), (Tenant("pod:x", GB), "d0")])
    return found


def test_a_promise_beside_an_unknown_workload_is_refused_and_one_that_is_there_is_broken() -> None:
    allocator = made("d0", "d1")
    assert [one.text() for one in allocator.breaches(0)] == [f"a: {SAID}"]
    promised = tenant("b", 100, 900.0)
    assert allocator.place(promised, "d0").reasons == [f"d0: b: {SAID}"]
    assert allocator.place(tenant("c", 100), "d0").drive is None, "what a sees beside it cannot be predicted"
    assert allocator.place(promised).drive == "d1"
    asked = what_if(allocator, tenant("n", 100, 900.0), "d0")
    assert (asked.allowed, asked.effects) == (False, [])
    where = SAID.replace("this drive", "d0")
    assert asked.reasons == [f"a: {where}", f"n: {where}"]
    allocator.remove("a")
    assert what_if(allocator, tenant("n", 100), "d0").allowed
    assert allocator.place(tenant("c", 100), "d0").drive == "d0", "nobody is promised anything"


def test_an_idle_tenant_is_not_one_of_unknown_workload() -> None:
    allocator = made("d0", "d1")
    allocator.restore([(tenant("b", 100, 900.0), "d1"), (Tenant("idle", GB, Profile("idle", {})), "d1")])
    assert allocator.cluster.state[0] != allocator.cluster.state[1]
    assert allocator.place(tenant("c", 100, 900.0)).drive == "d1"
    assert allocator.breaches(1) == []


def test_the_unknown_one_is_moved_to_a_staging_drive() -> None:
    advice = rebalance(made("d0", staging=True))
    assert [(one.tenant, one.target) for one in advice.moves] == [("pod:x", "s")]
    assert (advice.broken_before, advice.broken_after) == (1, 0)


def test_several_unknown_ones_are_counted() -> None:
    allocator = made("d0")
    allocator.restore([(Tenant("pod:y", GB), "d0"), (Tenant("pod:z", GB), "d0")])
    assert allocator.breaches(0)[0].text().endswith(": pod:x and 2 more are not measured")


def test_a_pod_of_unknown_workload_on_an_ordinary_drive(tmp_path: Path) -> None:
    do = prepare(State(tmp_path / "state.db"), SheetModel(), {}, [DriveSpec(drive("n1:a"), 100 * GB)])
    assert do.admit([], tenant("a", 100, 900.0)).body["drive"] == "n1:a"
    assert do.show_tenant("a")["predictions"] and do.show_drive("n1:a")["broken"] == []
    pod = Pod.model_validate({"metadata": {"name": "x", "uid": "x", "annotations": {"linnet.io/profile": "unknown"}}})
    arrive(do, [], {"x": (pod, "n1")})
    assert do.show_drive("n1:a")["broken"] == [f"a: {SAID}"]
    assert do.show_tenant("a")["predictions"] == {}
    do.remove([], "pod:x")
    assert do.show_drive("n1:a")["broken"] == []
