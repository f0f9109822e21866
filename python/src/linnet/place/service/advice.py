# SPDX-License-Identifier: MIT OR Apache-2.0
"""Advice over HTTP: what a tenant would do, and which tenants should move."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request

from linnet.place.allocate import Allocator
from linnet.place.rebalance import Advice, rebalance
from linnet.place.service import replies, schema
from linnet.place.service.errors import problems
from linnet.place.service.forms import advised
from linnet.place.service.writer import Refused

if TYPE_CHECKING:
    from linnet.place.service.app import Service

ADVICE_S = 20.0
"""Seconds after which the moves that were found are the advice."""
Moves = Annotated[int, Query(ge=0, le=1000, description="Moves at most; with 0, promises are only counted.")]
LOOK_S = 0.2
"""Seconds between two looks at whether a client that waits for advice is still there."""


class Searches:
    """Searches for moves: one at a time, since each takes a processor and the memory of a copy; one more may wait.

    A search ends when its client has left, or when the service ends.
    """

    def __init__(self) -> None:
        self._free, self._waited_for = asyncio.Event(), False
        self._free.set()
        self._ending = threading.Event()

    def end(self) -> None:
        """Let those that run, and those that come, end with the moves that they have."""
        self._ending.set()

    async def search(self, request: Request, aside: Callable[[], Awaitable[Allocator]], moves_max: int) -> Advice:
        """At most so many moves, by a copy of the cluster. Raises Refused, 503 and `busy`, where another waits."""
        await self._turn(request)
        left = threading.Event()
        try:
            allocator = await aside()
            until = time.monotonic() + ADVICE_S

            def late() -> bool:
                return time.monotonic() > until or left.is_set() or self._ending.is_set()

            found = asyncio.ensure_future(asyncio.to_thread(rebalance, allocator, moves_max, late=late))
            while not (await asyncio.wait({found}, timeout=LOOK_S))[0]:
                if await request.is_disconnected():
                    left.set()
            return await found
        finally:
            left.set()
            self._free.set()

    async def _turn(self, request: Request) -> None:
        if self._waited_for:
            raise Refused(503, "busy", "one search for moves runs and another waits; ask again later")
        self._waited_for = True
        try:
            while not self._free.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._free.wait(), LOOK_S)
                if await request.is_disconnected():
                    raise Refused(503, "busy", "the client left before its turn")
        finally:
            self._waited_for = False
        self._free.clear()


def routes(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    do = service.operations

    @app.post("/v1/whatif", tags=["advice"], responses=problems(400, 404, 409, 413, 415))
    async def whatif(body: schema.TenantIn) -> replies.WhatIfOut:
        """May this tenant go there, and who suffers? Changes nothing."""
        if (body.profile is None) == (body.profile_name is None):
            raise Refused(409, "one_profile", "give profile or profile_name, one of them")

        def ask() -> dict[str, Any]:
            named = None if body.profile_name is None else do.profile(body.profile_name)
            return do.what_if(body.tenant(named), body.drive)

        return replies.WhatIfOut(**await service.read(ask))

    @app.get("/v1/rebalance", tags=["advice"], responses=problems(503))
    async def advise(request: Request, moves_max: Moves = 20) -> replies.RebalanceOut:
        """Which tenants should move. Changes nothing; POST /v1/tenants/{id}/move carries a move out."""
        if not moves_max:
            # Broken promises are counted, and nothing is searched for.
            return replies.RebalanceOut(**await service.read(lambda: do.advice(0)))
        # The service goes on meanwhile.
        found = await service.searches.search(request, lambda: service.read(do.aside), moves_max)
        return replies.RebalanceOut(**advised(found))
