# SPDX-License-Identifier: MIT OR Apache-2.0
"""The placement service under many clients on the loopback interface, and the books afterwards.

The service runs in a process of its own with a fresh state file; the clients are coroutines of this process, each with
one connection. A client admits tenants one after the other, each by a request id that it sends twice in a row for every
tenth tenant, and removes every fourth. Afterwards what the clients were told is compared with what the service has.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from linnet._native import quantiles_ns
from linnet.studies.placing import SHEETS, SLOS, workload

DRIVE_BYTES = 4 * 10**12
TENANT_BYTES = 100 * 10**9


class Connection:
    """One HTTP/1.1 connection that is kept open."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", key: str = "") -> tuple[int, Any]:
        """Status and JSON body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        identity = f"Idempotency-Key: {key}\r\n" if key else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{identity}"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(re.search(r"content-length: (\d+)", answer, re.IGNORECASE).group(1))  # type: ignore[union-attr]
        return int(answer.split(" ", 2)[1]), json.loads(await reader.readexactly(length))

    def close(self) -> None:
        """Leave."""
        if self._streams is not None:
            self._streams[1].close()


def measure(
    clients: int, tenants_each: int, drives: int, seed: int, progress: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Run the service and the clients: requests per second, milliseconds, and what was lost or doubled."""
    with tempfile.TemporaryDirectory() as folder:
        code = "from linnet.cli import main; main()"
        options = ["place", "serve", "--listen", "127.0.0.1:0", "--state", str(Path(folder) / "state.db")]
        service = subprocess.Popen([sys.executable, "-c", code, *options], stdout=subprocess.PIPE, text=True)
        try:
            assert service.stdout is not None
            found = re.search(r":(\d+),", service.stdout.readline())
            if found is None:
                raise ValueError("the service did not start")
            return asyncio.run(_load(int(found.group(1)), clients, tenants_each, drives, seed, progress))
        finally:
            service.terminate()
            service.wait()
            assert service.stdout is not None
            service.stdout.close()


async def _load(
    port: int, clients: int, tenants_each: int, drives: int, seed: int, progress: Callable[[int], None]
) -> dict[str, Any]:
    first = Connection(port)
    names = ("seq_read_mbs", "seq_write_mbs", "rnd_read_iops", "rnd_write_iops")
    rows = [
        {
            "name": f"d{i}",
            "model": SHEETS[i % len(SHEETS)][0],
            "capacity_bytes": DRIVE_BYTES,
            "sheet": dict(zip(names, SHEETS[i % len(SHEETS)][1:], strict=True)),
        }
        for i in range(drives)
    ]
    status, _ = await first.ask("POST", "/v1/drives", json.dumps({"drives": rows}).encode())
    assert status == 201
    bodies = [[_body(seed, client, number) for number in range(tenants_each)] for client in range(clients)]
    placed: dict[str, str] = {}
    statuses: Counter[int] = Counter()
    took_ns: list[int] = []
    doubled = 0

    async def client(index: int) -> None:
        nonlocal doubled
        connection = Connection(port)

        async def ask(method: str, path: str, body: bytes = b"", key: str = "") -> tuple[int, Any]:
            began = time.perf_counter_ns()
            status, answer = await connection.ask(method, path, body, key)
            took_ns.append(time.perf_counter_ns() - began)
            statuses[status] += 1
            progress(len(took_ns))
            return status, answer

        for number, body in enumerate(bodies[index]):
            name = f"t{index}-{number}"
            status, answer = await ask("POST", "/v1/tenants", body, name)
            if status == 201:
                placed[name] = answer["drive"]
            if number % 10 == 9:
                _, again = await ask("POST", "/v1/tenants", body, name)
                doubled += status == 201 and again != answer
            if number % 4 == 3 and name in placed:
                await ask("DELETE", f"/v1/tenants/{name}")
                del placed[name]
        connection.close()

    began = time.perf_counter()
    await asyncio.gather(*(client(index) for index in range(clients)))
    took = time.perf_counter() - began
    there: dict[str, str] = {}
    while len(there) < (page := (await first.ask("GET", f"/v1/tenants?limit=1000&offset={len(there)}"))[1])["total"]:
        there |= {one["id"]: one["drive"] for one in page["tenants"]}
    overfull, used = 0, Counter(there.values())
    for offset in range(0, drives, 1000):
        page = (await first.ask("GET", f"/v1/drives?limit=1000&offset={offset}"))[1]
        overfull += sum(one["used_bytes"] > one["capacity_bytes"] for one in page["drives"])
        overfull += sum(one["used_bytes"] != TENANT_BYTES * used[one["name"]] for one in page["drives"])
    first.close()
    median, p99 = quantiles_ns(np.array(took_ns, np.uint64), [0.5, 0.99])
    return {
        "clients": clients,
        "drives": drives,
        "requests": len(took_ns),
        "requests_per_second": round(len(took_ns) / took, 1),
        "ms_median": round(median / 1e6, 2),
        "ms_p99": round(p99 / 1e6, 2),
        "placed": len(placed),
        "lost": len(placed.keys() - there.keys()),
        "doubled": doubled + len(there.keys() - placed.keys()),
        "elsewhere": sum(there.get(name) not in (None, drive) for name, drive in placed.items()),
        "wrong_books": overfull,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
    }


def _body(seed: int, client: int, number: int) -> bytes:
    chance = np.random.default_rng([seed, client, number])
    profile = workload(chance, "w", reads=4000.0)
    slos = [
        {"metric": slo.metric, "bound": slo.bound}
        if slo.bound is not None
        else {"metric": slo.metric, "degradation_percent": slo.degradation_percent}
        for slo in SLOS[number % len(SLOS)]
    ]
    tenant = {"id": f"t{client}-{number}", "capacity_bytes": TENANT_BYTES, "profile": dict(profile.features)}
    return json.dumps({**tenant, "slos": slos}).encode()
