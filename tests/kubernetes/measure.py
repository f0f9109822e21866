# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a pod waits for its node with and without the service, and how long the service's answers take."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from cluster_bed import PODS, Bed, write_drives
from control_plane import ControlPlane, wait

PODS_EACH = 60
ASKED = 200


def measure(plane: ControlPlane, count: int) -> None:
    """Print a JSON line for each figure."""
    nodes = [f"node-{number}" for number in range(count)]
    bed = Bed(plane)
    for node in nodes:
        bed.add_node(node, 64)
    drives = plane.folder / "drives.toml"
    write_drives(drives, nodes)
    plane.service(drives)
    seen = Seen(plane)
    for name, notes, change in (
        ("no extender", None, lambda config: config.pop("extenders")),
        ("extender, pods without annotations", None, None),
        ("extender, pods with annotations", {"profile": "web", "capacity-bytes": "1000000000"}, None),
    ):
        plane.scheduler(change)
        bed.create("warm", notes)
        bed.bound("warm")
        took = []
        for number in range(PODS_EACH):
            began = time.monotonic()
            bed.create(f"one-{number}", notes)
            took.append(seen.at(f"one-{number}") - began)
        bed.clear()
        began = time.monotonic()
        for number in range(PODS_EACH):
            bed.create(f"many-{number}", notes)
        made = time.monotonic() - began
        for number in range(PODS_EACH):
            seen.at(f"many-{number}")
        row = {"nodes": count, "pods": PODS_EACH, "with": name, **shown(took), "burst_made_ms": round(1e3 * made, 1)}
        print(json.dumps({**row, "burst_bound_ms": round(1e3 * (seen.last - began), 1)}), flush=True)
        bed.clear()
    for form in ("names", "objects"):
        for route in ("filter", "prioritize"):
            row = {"nodes": count, "route": route, "form": form, **answers(bed, route, form, nodes)}
            print(json.dumps(row), flush=True)


class Seen:
    """When each pod was first seen with a node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.when: dict[str, float] = {}
        self.last = 0.0
        self.api = plane.api
        self.version = str(plane.api.done("GET", f"{PODS}?limit=1")["metadata"]["resourceVersion"])
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        # The server ends the watch of a client that is slow, as on a busy machine.
        with suppress(OSError):  # when the server goes, at the end
            while True:
                for event in self.api.watch_pods(self.version):
                    self._see(event["type"], event["object"])

    def _see(self, kind: str, pod: dict[str, Any]) -> None:
        self.version = pod["metadata"]["resourceVersion"]
        if kind == "DELETED":
            self.when.pop(pod["metadata"]["name"], None)
        elif pod["spec"].get("nodeName"):
            self.last = time.monotonic()
            self.when.setdefault(pod["metadata"]["name"], self.last)

    def at(self, name: str) -> float:
        """The moment of a pod, when it has come."""
        return wait(f"pod {name} to be bound", lambda: self.when.get(name))


def answers(bed: Bed, route: str, form: str, nodes: list[str]) -> dict[str, float]:
    """Ask the service as the scheduler does, on one connection."""
    bed.create("asked", {"profile": "oltp", "node": "none"}, "no-such-node")
    pod = bed.api.done("GET", f"{PODS}/asked")
    listed = {"items": bed.api.done("GET", "/api/v1/nodes")["items"]} if form == "objects" else None
    text = json.dumps({"Pod": pod, "Nodes": listed, "NodeNames": None if listed else nodes})
    connection = http.client.HTTPConnection("127.0.0.1", bed.plane.service_port, timeout=30)
    took, worked = [], processor_seconds(bed.plane.running["service"].pid)
    for _ in range(ASKED):
        began = time.monotonic()
        connection.request("POST", f"/kubernetes/{route}", text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        took.append(time.monotonic() - began)
        assert answer.status == 200, body
    worked = processor_seconds(bed.plane.running["service"].pid) - worked
    bed.clear()
    sizes = {"question_bytes": len(text), "answer_bytes": len(body)}
    return {**sizes, "processor_ms_mean": round(1e3 * worked / ASKED, 2), **shown(took)}


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shown(took: list[float]) -> dict[str, float]:
    """Median, 90th percentile and maximum in milliseconds."""
    ordered = sorted(1e3 * one for one in took)
    found = {"median": statistics.median(ordered), "p90": ordered[int(0.9 * len(ordered))], "max": ordered[-1]}
    return {f"ms_{name}": round(value, 2) for name, value in found.items()}
