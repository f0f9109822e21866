# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where independent pieces of work are done: on threads of this process, or on the processes of a Ray cluster.

Results come in any order, each as soon as it is there, so that the caller can keep it. Work that a dead process or node
of the cluster had begun is done again by others; what it had finished is with the caller.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol

from linnet.extras import require
from linnet.threads import Threads

Work = Callable[[Any, Any], Any]
"""A function of a module: receives what all pieces share, and a piece. Equal pieces have equal results."""


class Workers(Protocol):
    """Does work."""

    def map(self, work: Work, shared: Any, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        """Work on all pieces; yields the index of each and its result, in the order in which they are finished.
        A piece is taken from `pieces` when it is begun.

        When the caller stops, by an exception such as Ctrl-C, no further piece is begun.
        """
        ...


class RayCluster:
    """Processes of a Ray cluster. Every node needs this package; what is shared and the results travel by Ray."""

    def __init__(self, address: str) -> None:
        """``address`` is a cluster's, ``auto`` for the one that this machine belongs to, or ``local`` to start one."""
        require("ray", "--ray")
        self.address = address
        self.done_by: Counter[str] = Counter()
        """Pieces by the id of the node that did them."""

    def map(self, work: Work, shared: Any, pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        """See :class:`Workers`."""
        import ray  # noqa: PLC0415

        if not ray.is_initialized():
            ray.init(
                address=self.address,
                include_dashboard=False if self.address == "local" else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        # A piece is tried again for as long as its processes or nodes die, not when it fails by itself.
        remote = ray.remote(num_cpus=1, max_retries=-1)(_piece)
        held = ray.put(shared)
        untyped: Any = ray
        outstanding = max(2, 3 * int(untyped.cluster_resources().get("CPU", 1)))
        waiting: dict[Any, int] = {}
        todo = iter(enumerate(pieces))
        try:
            while True:
                while len(waiting) < outstanding and (piece := next(todo, None)) is not None:
                    waiting[remote.remote(work, held, piece[1])] = piece[0]
                if not waiting:
                    return
                done, _ = ray.wait(list(waiting), num_returns=1)
                for one in done:
                    node, result = ray.get(one)
                    self.done_by[node] += 1
                    yield waiting.pop(one), result
        finally:
            for one in waiting:
                ray.cancel(one, force=True)


def _piece(work: Work, shared: Any, piece: Any) -> tuple[str, Any]:
    import ray  # noqa: PLC0415

    return ray.get_runtime_context().get_node_id(), work(shared, piece)


def workers_of(ray: str | None) -> Workers:
    """A Ray cluster by its address, threads without one."""
    return Threads() if ray is None else RayCluster(ray)
