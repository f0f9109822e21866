# SPDX-License-Identifier: MIT OR Apache-2.0
"""Starting the service, and the file that lists its drives."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import sys
import time
import tomllib
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import ValidationError

from linnet.files import read_bounded
from linnet.place.allocate import Settings
from linnet.place.cluster import DriveSpec
from linnet.place.service.app import Service, build
from linnet.place.service.connections import Slow, arrives, raise_files
from linnet.place.service.gates import BODY_MAX
from linnet.place.service.kubernetes_api import Api
from linnet.place.service.operations import Operations
from linnet.place.service.placed_by import origin, other_model
from linnet.place.service.schema import DrivesIn
from linnet.place.service.state import State
from linnet.place.service.telemetry import Telemetry
from linnet.place.words import Interference
from linnet.signals import ends

BACKLOG = 2048
"""Connections that wait to be accepted."""
IDLE_S = 75
"""Seconds after which an idle connection is closed: longer than the pools of common clients keep one."""


ARRIVE_S = 3.0
"""Seconds after a signal that a request may still take to arrive."""
FINISH_S = 10
"""Seconds after a signal until requests that were not answered are given up."""


LOOPBACK = ("127.0.0.1", "[::1]", "localhost")


class _Server(uvicorn.Server):
    """Ends with status 0 after a signal: uvicorn's own raises the signal again when it has shut down.

    What it says when it is ready is said once signals end it in order.
    """

    def __init__(self, config: uvicorn.Config, ready: str, ending: Callable[[], None], slow: Slow) -> None:
        """``ending`` is called when the shutdown begins."""
        super().__init__(config)
        self._ready, self._ending, self._slow = ready, ending, slow

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        print(self._ready, flush=True)

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections each second: this is called ten times as often."""
        if counter % 10 == 0:
            connections = list(self.server_state.connections)
            self._slow.too_many(len(connections))
            self._slow.look(connections, time.monotonic())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what runs, but do not wait long for a request that does not arrive."""
        self._ending()
        asyncio.get_running_loop().call_later(ARRIVE_S, self._cut)
        await super().shutdown(sockets)

    def _cut(self) -> None:
        for one in list(self.server_state.connections):
            if arrives(one):
                one.transport.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let the first SIGINT, or signal that asks for an end, finish what runs, and a second SIGINT end it."""
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, *ends())}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def read_drives(path: Path) -> list[DriveSpec]:
    """Drives of a TOML file: tables `[[drives]]` with the fields of `POST /v1/drives`."""
    try:
        return [
            one.spec() for one in DrivesIn.model_validate(tomllib.loads(read_bounded(path, BODY_MAX).decode())).drives
        ]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path}: {where}: {first['msg']}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error


def prepare(state: State, model: Interference, chosen: Mapping[str, Any], drives: list[DriveSpec]) -> Operations:
    """The cluster of a state; drives that it never had are registered, and the shipped profiles stored.

    A drive that was removed stays so: that was said of this drive, and is newer than the list.

    The settings that were chosen are kept in the state; the others are those that it has. So is which model file was
    given; where none is, or another, that is said.
    """
    kept = state.settings()
    for name, value in chosen.items():
        if kept.get(name, value) != value:
            print(f"linnet place: {name} is {value} from now on; it was {kept[name]}", file=sys.stderr, flush=True)
    given = origin(model)
    if said := other_model(state, model):
        print(f"linnet place: {said}{'; this one does from now on' if given else ''}", file=sys.stderr, flush=True)
    do = Operations(state, model, Settings(**{**kept, **chosen}))
    with state.transaction():
        state.keep_settings(chosen)
        if given:
            state.keep_model(*given)
        removed = state.removed()
        for name in (one.drive.name for one in drives if one.drive.name in removed):
            said = f"drive {name} was removed, and stays so; POST /v1/drives registers it again, or `drives --add FILE`"
            print(f"linnet place: {said}", file=sys.stderr, flush=True)
        if known := [one for one in drives if one.drive.name not in removed]:
            do.register([], known)
        for name in do.named.ship():
            said = f"profile {name} is not the shipped one; DELETE /v1/profiles/{name} and a new start bring that back"
            print(f"linnet place: {said}", file=sys.stderr, flush=True)
    # Before it says that it is ready: kube-scheduler waits two seconds for an answer.
    do.allocator.settle()
    return do


def _give_up(path: Path) -> None:
    """Memory and disk may differ after an undo that failed: the state on disk is whole, so start again from it."""
    traceback.print_exc()
    said = f"a change could not be undone in memory. {path} is whole: the service ends, and starts from it again"
    print(f"linnet place: {said}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _leave() -> None:
    """End at once, whatever the writer's thread does: what was answered is in the state."""
    said = "a request that still runs is given up; the state is whole, and has all that was answered"
    print(f"linnet place: {said}", file=sys.stderr, flush=True)
    os._exit(0)


def serve(
    path: Path,
    host: str,
    port: int,
    model: Interference,
    chosen: Mapping[str, Any],
    drives: list[DriveSpec],
    api: Api | None = None,
    names: Collection[str] = (),
) -> None:
    """Serve until a signal. Prints the address when it is ready, so that port 0 can be used.

    On a loopback address only requests for it or for ``names`` are answered; on others those for any host, or for
    ``names`` if there are some.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    state = State(path)
    close = state.give_up
    try:
        do = prepare(state, model, chosen, drives)
        service = Service(do, Telemetry(pods=api is not None), broken=lambda: _give_up(path), api=api)
        close = service.close
        address = listener.getsockname()[0]
        shown = f"[{address}]" if family == socket.AF_INET6 else host or address
        hosts = {*LOOPBACK, shown, *names} if names or ipaddress.ip_address(address).is_loopback else None
        ready = f"linnet place: http://{shown}:{listener.getsockname()[1]}, {len(do.cluster)} drives, "
        ready += f"{do.cluster.placed} tenants; state in {path}"
        slow = Slow(raise_files())
        server: _Server | None = None

        def crowded() -> bool:
            return server is not None and slow.too_many(len(server.server_state.connections))

        config = uvicorn.Config(
            build(service, hosts, crowded),
            ws="none",
            log_level="warning",
            access_log=False,
            backlog=BACKLOG,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=FINISH_S,
        )
        server = _Server(config, ready, service.searches.end, slow)
        server.run(sockets=[listener])
        if service.stuck:
            _leave()
    except BaseException:
        # Ctrl-C before it served, say. What ends a service that serves ends it without one.
        close()
        raise
