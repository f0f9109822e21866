# SPDX-License-Identifier: MIT OR Apache-2.0
"""What kube-scheduler does with the service beside it. Nodes 1 to 3 have a drive each, node-4 has none.

node-1 has by far the most processors, so the scheduler prefers it for each pod that the service says nothing about.
"""

from __future__ import annotations

import json
import time
from typing import Any

from cluster_bed import HEAVY, LATENCY, ROOM, Bed
from control_plane import wait

NODES = {"node-1": 64, "node-2": 4, "node-3": 4, "node-4": 4}
WITH_DRIVES = ["node-1", "node-2", "node-3"]


def latency_is_kept_from_writers(bed: Bed) -> None:
    """Two heavy writers on node-1: a latency-sensitive pod goes elsewhere, one without annotations to node-1."""
    for number in range(2):
        assert bed.placed(f"writer-{number}", HEAVY, "node-1") == "node-1"
    assert bed.placed("control") == "node-1"
    assert bed.placed("latency", LATENCY) in ("node-2", "node-3")


def scheduler_alone_takes_the_writers_node(bed: Bed) -> None:
    """The case before would not pass without the extender: the scheduler alone takes node-1."""
    bed.plane.scheduler(lambda config: config.pop("extenders"))
    for number in range(2):
        bed.placed(f"writer-{number}", HEAVY, "node-1")
    assert bed.placed("latency", LATENCY) == "node-1"
    bed.plane.scheduler()


def pods_go_where_the_filter_lets_them(bed: Bed) -> None:
    """Pods of a profile, of a class of I/O and of a size are bound to nodes with a drive that may take them."""
    assert bed.placed("full", {"profile": "web", "capacity-bytes": "950000000000"}, "node-1") == "node-1"
    for number in range(4):
        assert bed.placed(f"class-{number}", {"io-class": "mail", "capacity-bytes": "20000000000"}) in (
            "node-2",
            "node-3",
        )
    homes = {bed.placed(f"plain-{number}") for number in range(4)}
    assert homes == {"node-1"}, homes


def what_fits_nowhere_waits_and_says_why(bed: Bed) -> None:
    """No drive keeps 1 us; and annotations that cannot be read."""
    bound = json.dumps([{"metric": "read_latency_p99_us", "bound": 1}])
    bed.create("fast", {"profile": "oltp", "slos": bound})
    said = bed.refused("fast")
    assert "3 linnet: a tenant's SLO would be broken" in said and "1 linnet: no drive of the node" in said, said
    bed.create("unknown", {"profile": "none-such"})
    assert "no profile 'none-such' is known" in bed.refused("unknown")


def room_is_taken_once(bed: Bed) -> None:
    """Eight pods at once, and room for one on each drive: three are bound, each to its own drive."""
    for number in range(8):
        bed.create(f"big-{number}", ROOM)
    names = [f"big-{number}" for number in range(8)]
    wait("each to be bound or refused", lambda: all(bed.node_of(name) or bed.said(name) for name in names))
    wait("three to be bound", lambda: sum(bed.node_of(name) is not None for name in names) == 3)
    time.sleep(1)
    homes = [home for name in names if (home := bed.node_of(name)) is not None]
    assert sorted(homes) == WITH_DRIVES, homes
    wait("the books to have them", lambda: sorted(bed.plane.books().values()) == [f"{n}:nvme0n1" for n in WITH_DRIVES])
    gone = next(name for name in names if bed.node_of(name) is not None)
    bed.remove(gone)
    names.remove(gone)
    wait("one that waits to take the room", lambda: sum(bed.node_of(name) is not None for name in names) == 3)
    assert sorted(filter(None, map(bed.node_of, names))) == WITH_DRIVES


def nobody_is_evicted_in_vain(bed: Bed) -> None:
    """The service does not take part in preemption: a pod of high priority waits like any other, and evicts nobody."""
    meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    bed.api.done("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", meta)
    for node in WITH_DRIVES:
        bed.placed(f"low-{node}", ROOM, node)
    bed.create("high", ROOM, priorityClassName="high")
    said = bed.refused("high")
    assert "Preemption is not helpful" in said, said
    assert len(bed.plane.books()) == 3


def service_down(bed: Bed) -> None:
    """`ignorable: true` binds pods without the service, which learns of them later; `false` lets them wait."""
    gone = bed.create("before", LATENCY)
    wait("pod before in the books", lambda: f"pod:{gone}" in bed.plane.books())
    bed.plane.stop("service")
    uid = bed.create("during", LATENCY)
    assert bed.bound("during") == "node-1"
    bed.remove("before")
    bed.plane.scheduler(lambda config: config["extenders"][0].update(ignorable=False))
    bed.create("patient", LATENCY)
    assert "connection refused" in bed.refused("patient")
    bed.plane.service(bed.plane.folder / "drives.toml")
    books = bed.plane.books()
    assert books.get(f"pod:{uid}") == "node-1:nvme0n1" and f"pod:{gone}" not in books, books
    bed.bound("patient")
    bed.plane.scheduler()


def node_objects(bed: Bed) -> None:
    """`nodeCacheCapable: false`: the service is sent whole nodes and gives those back that may take the pod."""
    bed.plane.scheduler(lambda config: config["extenders"][0].update(nodeCacheCapable=False))
    latency_is_kept_from_writers(bed)
    bed.create("fast", {"profile": "oltp", "slos": json.dumps([{"metric": "read_latency_p99_us", "bound": 1}])})
    assert "3 linnet: a tenant's SLO would be broken" in bed.refused("fast")
    bed.plane.scheduler()


def many_nodes(bed: Bed) -> None:
    """Among 304 nodes pods find the one that has room; not each of them does without `percentageOfNodesToScore`."""
    for number in range(300):
        bed.add_node(f"bare-{number}", 4)
    for node in ("node-1", "node-2"):
        bed.placed(f"full-{node}", {"profile": "web", "capacity-bytes": "950000000000"}, node)
    small = {"profile": "web", "capacity-bytes": "50000000000"}
    for number in range(4):
        assert bed.placed(f"found-{number}", small) == "node-3"
        assert not bed.said(f"found-{number}")
    bed.plane.scheduler(lambda config: config.pop("percentageOfNodesToScore"))
    # The scheduler goes on after the 145 nodes that it looked at for the pod before: it misses node-3 every other time.
    pods = [f"lost-{number}" for number in range(4)]
    for name in pods:
        bed.create(name, small)
        wait(f"{name} to be bound or refused", lambda name=name: bed.node_of(name) or bed.said(name))
    assert any(map(bed.said, pods)), "the scheduler looks at all nodes by itself"
    bed.plane.scheduler()


CASES: dict[str, Any] = {
    one.__name__.replace("_", "-"): one
    for one in (
        latency_is_kept_from_writers,
        scheduler_alone_takes_the_writers_node,
        pods_go_where_the_filter_lets_them,
        what_fits_nowhere_waits_and_says_why,
        room_is_taken_once,
        nobody_is_evicted_in_vain,
        service_down,
        node_objects,
        many_nodes,
    )
}
