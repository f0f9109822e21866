# SPDX-License-Identifier: MIT OR Apache-2.0
"""etcd, kube-apiserver, kube-scheduler and the placement service on loopback ports, and a client of the API server.

There is no kubelet and no controller: nodes are objects that the test makes, and nothing runs a pod that is bound.
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PACKAGED = ROOT / "packaging" / "kubernetes"
PROGRAM = ROOT / "build" / "kubernetes" / "cluster"
ABSENT = ("dial tcp", "no such host", "module lookup disabled", "toolchain not available", "requires go >=")
"""What `go build` says where modules or the compiler cannot be had, as opposed to a program that does not compile."""
START_S = 300.0
Found = TypeVar("Found")


class Skipped(Exception):
    """The machine lacks something."""


def build() -> None:
    """Compile the program that has the three parts of the control plane."""
    if shutil.which("go") is None:
        raise Skipped("go is not installed; it compiles tests/kubernetes/cluster")
    if shutil.which("openssl") is None:
        raise Skipped("openssl is not installed; it makes the key of service accounts")
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-p", "2", "-trimpath", "-o", str(PROGRAM), "."]
    done = subprocess.run(command, cwd=HERE / "cluster", capture_output=True, text=True, check=False)
    if done.returncode and any(word in done.stderr for word in ABSENT):
        raise Skipped(
            f"the Go modules of tests/kubernetes/cluster cannot be had: {done.stderr.strip().splitlines()[-1]}"
        )
    assert done.returncode == 0, done.stderr


def wait(what: str, look: Callable[[], Found], seconds: float = 120.0) -> Found:
    """Look until something is found."""
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.05)
    return found


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class ControlPlane:
    """The processes, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.client_port, self.peer_port, self.api_port, self.service_port = free_ports(4)
        self.url = f"https://127.0.0.1:{self.api_port}"
        self.api = Api(self)

    def start(self) -> None:
        """Start etcd and the API server, and apply the packaged manifests."""
        urls = [f"http://127.0.0.1:{port}" for port in (self.client_port, self.peer_port)]
        self.run("etcd", PROGRAM, "etcd", self.folder / "etcd", *urls)
        key, tokens = self.folder / "accounts.key", self.folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        tokens.write_text('admin,admin,admin,"system:masters"\nscheduler,system:kube-scheduler,scheduler\n')
        options = {
            "etcd-servers": urls[0],
            "bind-address": "127.0.0.1",
            "secure-port": self.api_port,
            "cert-dir": self.folder / "certificates",
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            "token-auth-file": tokens,
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-signing-key-file": key,
            "service-account-key-file": key,
            # No controller makes the account `default` that this plugin demands of each pod.
            "disable-admission-plugins": "ServiceAccount",
        }
        self.run("kube-apiserver", PROGRAM, "kube-apiserver", *(f"--{name}={value}" for name, value in options.items()))
        wait("the API server", lambda: self.alive("kube-apiserver") and self.api.answers("/readyz"), START_S)
        wait("the namespace default", lambda: self.api.answers("/api/v1/namespaces/default"), START_S)
        for document in yaml.safe_load_all((PACKAGED / "place.yaml").read_text()):
            self.api.apply(document)

    def scheduler(self, change: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Start kube-scheduler, again if it runs, by the packaged file with these addresses, and ``change``."""
        self.stop("kube-scheduler")
        # The lease of the one before would be waited for.
        self.api.ask("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
        kubeconfig = self.folder / "scheduler.conf"
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        parts = {"clusters": ("cluster", cluster), "users": ("user", {"token": "scheduler"})}
        parts["contexts"] = ("context", {"cluster": "it", "user": "it"})
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "it"}
        body |= {name: [{"name": "it", key: value}] for name, (key, value) in parts.items()}
        kubeconfig.write_text(json.dumps(body))
        config = yaml.safe_load((PACKAGED / "scheduler.yaml").read_text())
        config["clientConnection"]["kubeconfig"] = str(kubeconfig)
        config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{self.service_port}/kubernetes"
        # On a busy machine the lease of the default, 15 s, is lost, and the scheduler ends.
        config["leaderElection"] = {"leaseDuration": "600s", "renewDeadline": "300s", "retryPeriod": "2s"}
        if change is not None:
            change(config)
        file = self.folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(config))
        self.run("kube-scheduler", PROGRAM, "kube-scheduler", f"--config={file}", "--secure-port=0", "--v=2")
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
        wait("the scheduler", lambda: self.alive("kube-scheduler") and self.api.answers(lease), START_S)

    def service(self, drives: Path) -> None:
        """Start the placement service with the rights of the packaged service account, again if it runs."""
        self.stop("service")
        folder = self.folder / "credentials"
        folder.mkdir(exist_ok=True)
        path = "/api/v1/namespaces/linnet/serviceaccounts/place/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        (folder / "token").write_text(self.api.done("POST", path, asked)["status"]["token"])
        shutil.copy(self.authority, folder / "ca.crt")
        options = {"listen": f"127.0.0.1:{self.service_port}", "state": self.folder / "place.db", "drives": drives}
        options |= {"kubernetes": self.url, "kubernetes-credentials": folder}
        command = [Path(sys.executable).with_name("linnet"), "place", "serve"]
        self.run("service", *command, *(f"--{name}={value}" for name, value in options.items()))
        wait(
            "the service to follow the pods",
            lambda: self.alive("service") and self.metric("place_pods_followed"),
            START_S,
        )

    def books(self) -> dict[str, str]:
        """Tenants of the service and their drives."""
        answer = _asked(
            http.client.HTTPConnection("127.0.0.1", self.service_port, timeout=30), "GET", "/v1/tenants?limit=1000"
        )
        return {one["id"]: one["drive"] for one in json.loads(answer[1])["tenants"]}

    def metric(self, name: str) -> float:
        """A number among the service's metrics; 0 where it does not answer."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.service_port, timeout=30)
            found = re.search(rf"^linnet_{name} (\S+)$", _asked(connection, "GET", "/metrics")[1].decode(), re.M)
        except OSError:
            return 0.0
        return float(found[1]) if found else 0.0

    @property
    def authority(self) -> Path:
        """The API server's own certificate, which it has signed itself."""
        return self.folder / "certificates" / "apiserver.crt"

    def run(self, name: str, *command: object) -> None:
        """Start a process whose output goes to a file of its name."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)

    def alive(self, name: str) -> bool:
        """That a process runs; its last words otherwise."""
        assert self.running[name].poll() is None, f"{name} ended:\n{self.log(name)[-4000:]}"
        return True

    def log(self, name: str) -> str:
        """What a process said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self, name: str) -> None:
        """End a process if it runs."""
        process = self.running.pop(name, None)
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """End all of them, the last one first."""
        for name in reversed(list(self.running)):
            self.stop(name)


class Api:
    """A client of the API server, as its administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.connection: http.client.HTTPSConnection | None = None

    def connect(self) -> http.client.HTTPSConnection:
        """A connection that trusts the server's certificate alone."""
        context = ssl.create_default_context(cafile=str(self.plane.authority))
        return http.client.HTTPSConnection("127.0.0.1", self.plane.api_port, timeout=60, context=context)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        """Status and body of a request."""
        self.connection = self.connection or self.connect()
        text = None if body is None else json.dumps(body)
        try:
            status, answer = _asked(self.connection, method, path, text, kind)
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise
        return status, json.loads(answer) if answer.startswith(b"{") else answer

    def done(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The body of a request that is carried out."""
        status, answer = self.ask(method, path, body, kind)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def answers(self, path: str) -> bool:
        """Whether a path is served."""
        try:
            return self.ask("GET", path)[0] == 200
        except OSError:
            return False

    def apply(self, document: dict[str, Any]) -> None:
        """Make an object; a field that the server does not know is an error."""
        kinds = {"NetworkPolicy": "networkpolicies"}
        plural = kinds.get(document["kind"], document["kind"].lower() + "s")
        version = document["apiVersion"]
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        space = document["metadata"].get("namespace")
        self.done("POST", f"{root}/{f'namespaces/{space}/' if space else ''}{plural}?fieldValidation=Strict", document)

    def watch_pods(self, version: str) -> Iterator[dict[str, Any]]:
        """Events of the pods of `default` since a version, on a connection of its own."""
        connection = self.connect()
        path = f"/api/v1/namespaces/default/pods?watch=true&resourceVersion={version}"
        connection.request("GET", path, headers={"Authorization": "Bearer admin"})
        answer = connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)


def _asked(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: str | None = None,
    kind: str = "application/json",
) -> tuple[int, bytes]:
    connection.request(method, path, body, {"Authorization": "Bearer admin", "Content-Type": kind})
    answer = connection.getresponse()
    return answer.status, answer.read()
