# SPDX-License-Identifier: MIT OR Apache-2.0
"""Nodes with drives, and pods, of the cluster that the cases use."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import yaml
from control_plane import PACKAGED, ControlPlane, wait

PODS = "/api/v1/namespaces/default/pods"
DRIVE_BYTES = 960 * 10**9
LATENCY = {"profile": "oltp", "slos": json.dumps([{"metric": "read_latency_p99_us", "bound": 500}])}
"""A latency-sensitive pod: the drive of the packaged file holds its promise beside one `backup` and not beside two."""
HEAVY = {"profile": "backup"}
ROOM = {"profile": "web", "capacity-bytes": str(DRIVE_BYTES * 6 // 10)}
"""Two of these do not fit on a drive."""


def write_drives(path: Path, nodes: list[str]) -> None:
    """A drive for each node, with the data sheet of the packaged file."""
    documents = yaml.safe_load_all((PACKAGED / "place.yaml").read_text())
    text = next(one["data"]["drives.toml"] for one in documents if one["kind"] == "ConfigMap")
    (packaged,) = tomllib.loads(text)["drives"]
    assert packaged["capacity_bytes"] == DRIVE_BYTES
    sheet = ", ".join(f"{name} = {value}" for name, value in packaged["sheet"].items())
    with path.open("w") as file:
        for node in nodes:
            file.write(f'[[drives]]\nname = "{node}:nvme0n1"\nmodel = "{packaged["model"]}"\n')
            file.write(f"capacity_bytes = {DRIVE_BYTES}\nsheet = {{ {sheet} }}\n")


class Bed:
    """What the cases do to the cluster."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.api

    def add_node(self, name: str, cpus: int) -> None:
        """A node that is ready, as its kubelet and the controllers would have it."""
        room = {"cpu": str(cpus), "memory": "64Gi", "pods": "500", "ephemeral-storage": "100Gi"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        self.api.done("POST", "/api/v1/nodes", {"kind": "Node", "metadata": meta, "status": status})
        # The server gives each new node the taint that a controller takes away when the node is ready.
        patch = "application/merge-patch+json"
        self.api.done("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}}, patch)

    def create(self, name: str, notes: dict[str, str] | None = None, node: str | None = None, **more: str) -> str:
        """Make a pod, with ``more`` in its spec; with ``node`` it suits that one only. Returns its UID."""
        meta = {"name": name, "annotations": {f"linnet.io/{key}": value for key, value in (notes or {}).items()}}
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
        spec: dict[str, Any] = {"containers": [container], **more}
        if node is not None:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        made = self.api.done("POST", PODS, {"kind": "Pod", "metadata": meta, "spec": spec})
        return str(made["metadata"]["uid"])

    def node_of(self, name: str) -> str | None:
        """The node that a pod is bound to."""
        found = self.api.done("GET", f"{PODS}/{name}")["spec"].get("nodeName")
        return None if found is None else str(found)

    def bound(self, name: str) -> str:
        """The same when it is bound."""
        return str(wait(f"pod {name} to be bound; {self.said(name)}", lambda: self.node_of(name)))

    def placed(self, name: str, notes: dict[str, str] | None = None, node: str | None = None) -> str:
        """Make a pod and wait for its node, and for the service's books to have it."""
        uid = self.create(name, notes, node)
        home = self.bound(name)
        if notes:
            wait(f"pod {name} in the books", lambda: self.plane.books().get(f"pod:{uid}"))
        return home

    def refused(self, name: str) -> str:
        """The event that says why a pod has no node, when there is one."""
        found = wait(f"an event of pod {name}", lambda: self.said(name))
        assert self.node_of(name) is None, f"pod {name} is bound"
        return found

    def said(self, name: str) -> str:
        """The last FailedScheduling event of a pod."""
        events = self.api.done("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        mine = [one for one in events if one["regarding"].get("name") == name and one["reason"] == "FailedScheduling"]
        return str(mine[-1]["note"]) if mine else ""

    def remove(self, name: str) -> None:
        """Delete a pod at once, as if it had ended."""
        self.api.done("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    def clear(self) -> None:
        """Delete all pods and events, and wait until the books are empty."""
        self.api.done("DELETE", f"{PODS}?gracePeriodSeconds=0")
        self.api.done("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events")
        wait("no pods", lambda: not self.api.done("GET", PODS)["items"])
        wait("empty books", lambda: not self.plane.books())
