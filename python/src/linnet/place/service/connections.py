# SPDX-License-Identifier: MIT OR Apache-2.0
"""Connections of the service: how many there may be, and how long a client may keep one waiting."""

from __future__ import annotations

import fcntl
import resource
import sys
import termios
from array import array
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

STALL_S = 30.0
"""Seconds that the head of a request may take, and then its body; and those in which none of an answer is taken."""
CONNECTIONS_MAX = 1024
"""Connections; while there are more, requests are answered 503."""
FILES = 64
"""Descriptors that are not connections: the state, its log, the loop, and connections that are closed at once."""


def raise_files() -> int:
    """Raise the soft limit of open files to the hard one. Returns how many connections the service may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a hard limit above what the kernel allows now
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else max(1, min(CONNECTIONS_MAX, soft - FILES))


class Slow:
    """Ends connections that wait too long for their client, and says once when there are too many connections.

    uvicorn bounds how long an idle connection is kept, but not how long it may take to send its first request, how long
    a request may take, or how long an answer waits in memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._over = limit, False
        self._since: dict[Any, tuple[object, float]] = {}
        """For each connection that waits for its client, what it waits for, and since when for the same."""

    def look(self, connections: Iterable[Any], now: float) -> None:
        """Look at uvicorn's connections, every second or so; ``now`` is of a clock that never steps back."""
        waiting = {one: what for one in connections if (what := awaited(one))}
        self._since = {
            one: seen if (seen := self._since.get(one)) and seen[0] == what else (what, now)
            for one, what in waiting.items()
        }
        for one, (_, since) in self._since.items():
            if now - since > STALL_S:
                one.transport.abort()  # to close it would first send what nobody takes

    def too_many(self, connections: int) -> bool:
        """Whether there are more than the limit. Says so, once until there are fewer than that again."""
        over = connections > self._limit
        if over and not self._over:
            said = f"{connections} connections, the limit is {self._limit}: requests are refused until there are fewer"
            print(f"linnet place: {said}", file=sys.stderr, flush=True)
        # One that is refused is closed, and there are as many as the limit again.
        self._over = over or (self._over and connections == self._limit)
        return over


def awaited(one: Any) -> tuple[object, int] | None:
    """What one of uvicorn's connections waits for: the request, and how much of the answers is to be taken first."""
    size = untaken(one)
    return (one.cycle, size) if size or arrives(one) else None


def untaken(one: Any) -> int:
    """Bytes of answers that one of uvicorn's connections keeps, with those that its client has not acknowledged.

    0 where the kernel has all of them. It takes them in large parts, so that a slow client is seen by what it
    acknowledges.
    """
    if not (size := int(one.transport.get_write_buffer_size())):
        return 0
    sent = array("i", [0])
    with suppress(OSError):  # it is closed just now
        fcntl.ioctl(one.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, sent)
    return size + sent[0]


def arrives(one: Any) -> bool:
    """Whether a request on one of uvicorn's connections has not arrived whole: its head, or its body."""
    if one.cycle is None or one.cycle.response_complete:
        # After an answer uvicorn's own timer runs until the next request begins.
        return one.timeout_keep_alive_task is None
    return bool(one.cycle.more_body)
