# SPDX-License-Identifier: MIT OR Apache-2.0
"""What every request passes before its route: there is room for it, its host is checked, its body is JSON and not
too large, and it is counted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from linnet.place.service.errors import problem
from linnet.place.service.telemetry import Telemetry

BODY_MAX = 16 * 1024 * 1024
"""Bytes of a request with many drives or nodes."""
ONE_MAX = 1024 * 1024
"""Bytes of any other request."""
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
"""Methods that are counted by their names."""
LIVE = "/livez"
"""Path at which the service says whether the process takes requests."""
WITH_BODY = ("POST", "PUT")
"""Methods whose body is read."""
JSON = b"application/json"
PORT = re.compile(r":\d*$")
SHOWN_MAX = 80
"""Letters of a host's name that are repeated."""


class Bounded:
    """Refuses a body that is too large: before it is read if it says its length, and when it gets there otherwise."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        length, got = int(said) if said.isdigit() else 0, 0
        many = scope["path"] == "/v1/drives" or scope["path"].startswith("/kubernetes/")
        limit = BODY_MAX if many else ONE_MAX

        async def counted() -> Message:
            nonlocal got
            message: Message = {} if length > limit else await receive()
            got += len(message.get("body", b""))
            if max(length, got) > limit:
                raise HTTPException(413, f"the body has {max(length, got)} bytes or more; at most {limit}")
            return message

        await self._app(scope, counted, send)


class Json:
    """Refuses a body that is not said to be JSON.

    A page of a stranger may send another kind, or none, to any address; before it sends this one, its browser asks the
    service, which allows it to nobody. Not every version of the framework refuses a body of no kind.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["method"] in WITH_BODY:
            heads = dict(scope["headers"])
            kind = heads.get(b"content-type", b"").split(b";")[0].strip().lower()
            empty = b"transfer-encoding" not in heads and heads.get(b"content-length", b"0") == b"0"
            if kind != JSON and not empty:
                said = "send the body with the header `Content-Type: application/json`"
                answer = problem("unsupported_media_type", said, 415)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


class Hosts:
    """Refuses requests for another host than ours.

    A page of a stranger may have its own name lead to a loopback address; its scripts could then ask a service that
    only this machine reaches. Their requests have that name.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] | None) -> None:
        """Names and addresses without a port, an IPv6 address in brackets; None lets all pass."""
        self._app = app
        self._names = None if names is None else {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and self._names is not None:
            for header, value in scope["headers"]:
                # The dot at the end of a full name is no other host.
                name = PORT.sub("", value.decode("latin-1")).lower().removesuffix(".")
                if header == b"host" and name not in self._names:
                    said = f"this service is not {name[:SHOWN_MAX]}; `linnet place serve --host-name` names it so"
                    answer = problem("wrong_host", said, 421)
                    await answer(scope, receive, send)
                    return
        await self._app(scope, receive, send)


class Crowded:
    """Refuses requests while there are too many connections, and closes those that they came on.

    Whether the process takes requests is answered all the same: it would be killed for its clients.
    """

    def __init__(self, app: ASGIApp, crowded: Callable[[], bool]) -> None:
        self._app, self._crowded = app, crowded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or not self._crowded():
            await self._app(scope, receive, send)
            return

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        said = "there are too many connections; ask again later"
        busy = problem("busy", said, 503, {"Retry-After": "5"})
        await (self._app if scope["path"] == LIVE else busy)(scope, receive, last)


class Measured:
    """Counts requests and the seconds to their answers."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app, self._telemetry = app, telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            # A client may send any word as a method: each would be kept for ever.
            labels = (
                getattr(scope.get("route"), "path", "other"),
                method if (method := scope["method"]) in METHODS else "other",
            )
            self._telemetry.requests.labels(*labels, status).inc()
            self._telemetry.seconds.labels(*labels).observe(time.monotonic() - began)
