# SPDX-License-Identifier: MIT OR Apache-2.0
"""A placement service in a process of its own, and a client, for the tests. Loopback only."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from place_made import GB, SHEET
from starter import Started, starter

DRIVES_TOML = """
[[drives]]
name = "d0"
model = "made"
capacity_bytes = 100_000_000_000
sheet = { seq_read_mbs = 6800, seq_write_mbs = 1400, rnd_read_iops = 530000, rnd_write_iops = 85000 }

[[drives]]
name = "s0"
model = "made"
capacity_bytes = 100_000_000_000
staging = true
"""
"""An ordinary drive and one for staging."""

FICKLE_CLOCK = """
import itertools, time
steps = itertools.cycle([0.0, 86400.0 * 400, -86400.0 * 9000, 3600.0, -1.0])
true_time, true_ns = time.time, time.time_ns
time.time = lambda: true_time() + next(steps)
time.time_ns = lambda: true_ns() + int(next(steps) * 1e9)
"""
"""A wall clock that steps by hours and years between two looks."""


class Service:
    """`linnet place serve` on a free port."""

    def __init__(
        self, state: Path, *options: object, before: str = "", said: str = r"http://127\.0\.0\.1:(\d+)"
    ) -> None:
        """``before`` is run first in its process; ``said`` is what it prints, with its port."""
        words = ["place", "serve", "--listen", "127.0.0.1:0", "--state", str(state), *map(str, options)]
        self.process: Started | subprocess.Popen[str] = self._started(words, before)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(said, line)
        assert found, line + self.process.communicate()[1]
        self.port = int(found.group(1))

    @staticmethod
    def _started(words: list[str], before: str) -> Started | subprocess.Popen[str]:
        started = None if before else starter(words).start(words)
        if started is not None:
            return started
        code = f"{before}\nimport sys\nfrom linnet.cli import main\nsys.argv[0] = 'linnet'\nmain()"
        command = [sys.executable, "-c", code, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def client(self) -> "Client":
        return Client(self.port)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, one: signal.Signals = signal.SIGTERM) -> int:
        os.kill(self.process.pid, one)
        return self.process.wait(30)

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        headers = {"content-type": "application/json"} if body is not None else {}
        if key is not None:
            headers["Idempotency-Key"] = key
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(text) if kind.startswith("application/json") else text.decode()

    def wait(self) -> None:
        for _ in range(200):
            try:
                if self.ask("GET", "/healthz")[0] == 200:
                    return
            except OSError:
                self.connection.close()
            time.sleep(0.05)
        raise AssertionError("the service does not answer")


def drives(count: int, capacity: int = 100 * GB, first: int = 0) -> dict[str, Any]:
    rows = [
        {"name": f"d{first + i}", "model": "made", "capacity_bytes": capacity, "sheet": SHEET} for i in range(count)
    ]
    return {"drives": rows}


def tenant(name: str, capacity: int = 10 * GB, reads: float = 100.0, **more: Any) -> dict[str, Any]:
    features = {
        "read_aligned_size_bytes_mean": 4096.0,
        "read_aligned_rate_mean": reads,
        "read_aligned_bandwidth_mean": reads * 4096,
        "read_random_ratio": 1.0,
        "depth": 4.0,
    }
    return {"id": name, "capacity_bytes": capacity, "profile": features, **more}
