# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pods of a Kubernetes cluster, and the room that they have in the service's books.

The scheduler-extender protocol asks where a pod may go, and never says where it went. So the service watches the pods
that have a node: one that declares a workload becomes a tenant, `pod:` and its UID, on a drive of its node, and gives
the room back when it ends. The cluster is right: what runs on a node is recorded there, whether or not the model would
have allowed it.

A scheduler asks about the next pod before the last one is seen on its node. By the books as they are then, both would
get the same room. `Pods.turn` therefore lets the next question wait until the last pod has been seen, or `WAIT_S`.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from linnet.place.service.extender import NotFollowed, Pod, declares, drives_of, wanted
from linnet.place.service.kubernetes_api import Api, Expired
from linnet.place.service.rows import POD
from linnet.place.service.writer import Answer, Undo
from linnet.place.slo import Tenant

if TYPE_CHECKING:
    from linnet.place.service.operations import Operations

WAIT_S = 1.0
"""How long a question waits for the pods of earlier ones. Schedulers are told to wait two seconds for an answer."""
RETRY_S = 1.0
"""After a failure, and after a watch that ended sooner than this, the pods are listed again after so long."""
RETRY_MAX_S = 30.0
"""The pause is doubled each time that the pods could be listed but not watched, up to this: a list costs the server."""

Noted = TypeVar("Noted")
Change = Callable[[Callable[[list[Undo]], Answer], str | None, str], "Future[Answer]"]


class Pods:
    """Follows the pods of a cluster, in a thread of its own."""

    def __init__(self, api: Api, operations: Operations, change: Change, told: Callable[[bool], None]) -> None:
        """``change`` carries out a change of the books; ``told`` is told whether they are those of the cluster."""
        self._api, self._operations, self._change, self._told = api, operations, change, told
        self._state = threading.Condition()
        self._known = False
        self._said = ""
        self._watched = math.inf
        """Since when there is a watch."""
        self._coming: dict[str, float] = {}
        """Pods that may be on their way to a node, and until when they are waited for."""
        threading.Thread(target=self._run, name="linnet-place-pods", daemon=True).start()

    def turn(self, uid: str) -> None:
        """Wait until those before a pod are in the books, or have had their time; the pod is then one of them.

        Raises `NotFollowed` if the pods of the cluster are not known.
        """
        until = time.monotonic() + WAIT_S
        with self._state:
            self._coming.pop(uid, None)
            while (end := min(until, self._settled())) > time.monotonic():
                self._state.wait(max(0.0, end - time.monotonic()))
            if not self._known:
                raise NotFollowed("the pods of the cluster are not known; the service's log says why")
            now = time.monotonic()
            self._coming = {other: end for other, end in self._coming.items() if end > now}
            self._coming[uid] = now + 2 * WAIT_S

    def judged(self, uid: str, let_go: bool) -> None:
        """A pod was judged. If it was let go to a node, the next one waits for it a while."""
        with self._state:
            if not let_go:
                self._coming.pop(uid, None)
            elif uid in self._coming:
                self._coming[uid] = time.monotonic() + WAIT_S
            self._state.notify_all()

    def _settled(self) -> float:
        """When nothing is waited for any more, at the latest."""
        return max(self._coming.values(), default=0.0) if self._known else math.inf

    def _run(self) -> None:
        pause = RETRY_S
        while True:
            self._watched, failed = math.inf, ""
            try:
                self._follow()
            except Expired:
                self._tell(False)
            except Exception as error:  # whatever it is, the cluster goes on: say it and begin again
                failed = str(error) or repr(error)
            lasted = time.monotonic() - self._watched
            if lasted >= RETRY_S:
                self._said, pause = "", RETRY_S
                if not failed:
                    continue  # as each watch ends at some time
            self._say(failed or "a watch ends as soon as it begins; the API server or a proxy before it does that")
            self._tell(False)
            time.sleep(pause)
            pause = min(2 * pause, RETRY_MAX_S) if lasted >= 0 else RETRY_S

    def _say(self, what: str) -> None:
        """Say why the pods are not followed, once until they are or something else is the matter."""
        if what != self._said:
            print(f"linnet place: the pods of the cluster are not followed: {what}", file=sys.stderr, flush=True)
        self._said = what

    def _follow(self) -> None:
        listed, version = self._api.pods()
        pods = {one.metadata.uid: (one, node) for one, node in map(_read, listed)}
        running = {uid: found for uid, found in pods.items() if declares(found[0])}
        self._note(agree, pods)
        self._tell(True, running)
        self._watched = time.monotonic()
        for kind, what in self._api.changes(version):
            one, node = _read(what)
            uid = one.metadata.uid
            if kind == "DELETED":
                self._note(leave, [POD + uid])
                running.pop(uid, None)
            elif kind != "BOOKMARK" and declares(one) and uid not in running:
                running[uid] = (one, node)
                self._note(arrive, {uid: running[uid]})
                self._tell(True, [uid])

    def _note(self, step: Callable[[Operations, list[Undo], Noted], Answer], what: Noted) -> None:
        self._change(lambda undo: step(self._operations, undo, what), None, "").result()

    def _tell(self, known: bool, arrived: Iterable[str] = ()) -> None:
        with self._state:
            if known != self._known:
                self._known = known
                self._told(known)
            for uid in arrived:
                self._coming.pop(uid, None)
            self._state.notify_all()


def agree(operations: Operations, undo: list[Undo], running: dict[str, tuple[Pod, str]]) -> Answer:
    """Let the books have the pods that run and declare a workload, or did when they came, and no others."""
    ours = [one.id for one in operations.cluster.tenants if one is not None and one.id.startswith(POD)]
    leave(operations, undo, [name for name in ours if name.removeprefix(POD) not in running])
    return arrive(operations, undo, running)


def arrive(operations: Operations, undo: list[Undo], found: dict[str, tuple[Pod, str]]) -> Answer:
    """Record pods that have a node, but not those that cannot be read and those whose node has no drives.

    One pod must not keep the others out: `filter` has told its owner what is wrong.
    """
    homes = drives_of(operations)
    for uid, (pod, node) in found.items():
        if operations.cluster.has_tenant(POD + uid) or not homes.get(node):
            continue
        try:
            tenant = wanted(pod, operations, POD + uid)
        except ValueError:
            continue
        if tenant is not None:
            operations.record(undo, tenant, home_of(operations, tenant, homes[node]))
    return Answer(200, {})


def leave(operations: Operations, undo: list[Undo], names: list[str]) -> Answer:
    """Give the room of pods back."""
    for name in names:
        if operations.cluster.has_tenant(name):
            operations.remove(undo, name)
    return Answer(200, {})


def home_of(operations: Operations, tenant: Tenant, drives: list[int]) -> int:
    """The drive of a node that a pod is on: the fullest that may take it, as the scores say; else the emptiest.

    A pod of unknown workload on a node without a staging drive is on an ordinary one, where then nothing is promised.
    """
    may = operations.allocator.may_take(tenant, np.array(drives, np.intp))
    if good := [drive for drive in drives if may[drive]]:
        return max(good, key=operations.allocator.fullness)
    cluster = operations.cluster
    suited = [drive for drive in drives if cluster.staging[drive] == (tenant.profile is None)] or drives
    return max(suited, key=lambda drive: int(cluster.capacity[drive] - cluster.used[drive]))


def _read(item: dict[str, Any]) -> tuple[Pod, str]:
    return Pod.model_validate({"metadata": item.get("metadata") or {}}), (item.get("spec") or {}).get("nodeName", "")
