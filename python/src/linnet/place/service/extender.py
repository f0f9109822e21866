# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scheduler-extender protocol of Kubernetes (k8s.io/kube-scheduler/extender/v1): filter and prioritize.

The protocol's Go types have no JSON names, so fields on the wire are capitalised as in Go.

A pod declares its workload by annotations; a node's drives are those whose name begins with the node's name and a
colon, as in `node-7:nvme0n1`. A pod without annotations fits everywhere and prefers nothing, so the extender can be
switched on in a cluster whose pods know nothing of it. One with some of them and no workload fits nowhere: its promises
would be lost unsaid.

| annotation | meaning |
|---|---|
| `linnet.io/profile` | name of a profile that the service knows, or `unknown` to be staged and measured |
| `linnet.io/io-class` | the same, for clusters that name classes of workloads; `profile` wins |
| `linnet.io/capacity-bytes` | what the pod stores; 0 if absent |
| `linnet.io/slos` | JSON list of SLOs, as in `POST /v1/tenants` |

The protocol asks and does not reserve. pods.py watches where pods went and keeps their room in the books.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from linnet.place.service.errors import Answered
from linnet.place.service.replies import Problem, Reply
from linnet.place.service.rows import BYTES_MAX, UNKNOWN
from linnet.place.service.schema import Slos
from linnet.place.slo import Asked, Tenant, unusable

if TYPE_CHECKING:
    from linnet.place.service.operations import Operations
    from linnet.place.service.pods import Pods

PREFIX = "linnet.io/"
NOTES = ("profile", "io-class", "capacity-bytes", "slos")
WORD_MAX, TEXT_MAX = 40, 300
"""Characters of a word of an annotation that are told, and of a whole reason: it is sent once for each node."""
PRIORITY_MAX = 10
"""The protocol's MaxExtenderPriority."""
ASKED = "the pod"
"""Id of a pod that is asked about. No tenant has it: ids have no spaces."""
BAD_BODY: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not UTF-8 text."},
    413: {"model": Problem, "description": "The body is too large."},
    415: {"model": Problem, "description": "The body is not said to be JSON."},
}
SLOS: TypeAdapter[Any] = TypeAdapter(Slos)


def _texts(value: Any) -> Any:
    """One error for all that are no text: there may be a million."""
    if isinstance(value, dict) and any(not isinstance(one, str) for one in value.values()):
        raise ValueError("annotations are texts")
    return value


class Metadata(BaseModel):
    """What is read of an object's metadata."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    name: str = ""
    """Name of the pod or node."""
    namespace: str = ""
    """Namespace of the pod."""
    uid: str = ""
    """The cluster's id of the pod."""
    annotations: Annotated[dict[str, str] | None, BeforeValidator(_texts)] = None
    """Those of `linnet.io/` declare a workload."""


class Pod(BaseModel):
    """What is read of a pod."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    metadata: Metadata = Metadata()
    """Its name, and annotations."""


class Node(BaseModel):
    """What is read of a node. The rest is given back as it came."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    metadata: Metadata = Metadata()
    """Its name, and annotations."""


class NodeList(BaseModel):
    """Nodes."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)
    items: Annotated[list[Node], Field(fail_fast=True)] | None = None
    """The nodes."""


class ExtenderArgs(Reply):
    """A question: a pod, and the nodes as objects, or as names if the extender is `nodeCacheCapable`."""

    pod: Annotated[Pod, Field(alias="Pod")]
    """The pod that is to be placed."""
    nodes: Annotated[NodeList | None, Field(alias="Nodes")] = None
    """The nodes, as objects."""
    nodenames: Annotated[Annotated[list[str], Field(fail_fast=True)] | None, Field(alias="NodeNames")] = None
    """The nodes, as names."""


class ExtenderFilterResult(Reply):
    """Nodes that may take the pod, in the form of the question, and why the others may not."""

    nodes: Annotated[NodeList | None, Field(alias="Nodes")] = None
    """The nodes, as objects."""
    nodenames: Annotated[list[str] | None, Field(alias="NodeNames")] = None
    """The nodes, as names."""
    failed: Annotated[dict[str, str], Field(alias="FailedNodes")]
    """Empty: the nodes that may not take the pod are unresolvable."""
    unresolvable: Annotated[dict[str, str], Field(alias="FailedAndUnresolvableNodes")]
    """Why the others may not take the pod, by their names."""
    error: Annotated[str, Field(alias="Error")] = ""
    """Why nothing can be said."""


class HostPriority(Reply):
    """A node's score, 0 to 10."""

    host: Annotated[str, Field(alias="Host")]
    """The node's name."""
    score: Annotated[int, Field(alias="Score")]
    """Its score."""


class Unreadable(ValueError):
    """Annotations that say nothing usable."""

    def __init__(self, said: str) -> None:
        super().__init__(said if len(said) <= TEXT_MAX else f"{said[:TEXT_MAX]}...")


class NotFollowed(Exception):
    """The pods of the cluster are not known, so no promise can be judged."""


def notes_of(pod: Pod) -> dict[str, str]:
    """A pod's annotations that are for this service, without their prefix."""
    return {k.removeprefix(PREFIX): v for k, v in (pod.metadata.annotations or {}).items() if k.startswith(PREFIX)}


def declares(pod: Pod) -> bool:
    """Whether a pod's annotations name a workload."""
    return not notes_of(pod).keys().isdisjoint(("profile", "io-class"))


def _short(word: str) -> str:
    return repr(word if len(word) <= WORD_MAX else f"{word[:WORD_MAX]}...")


def _digits(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def wanted(pod: Pod, operations: Operations, tenant_id: str) -> Tenant | None:
    """The tenant that a pod's annotations describe; nothing for a pod that declares no workload."""
    notes = notes_of(pod)
    if unknown := sorted(notes.keys() - set(NOTES)):
        known = ", ".join(NOTES)
        raise Unreadable(f"annotation {PREFIX}: {_short(unknown[0])} is none of {known}")
    name = notes.get("profile", notes.get("io-class"))
    if name is None:
        if notes:
            raise Unreadable(f"annotation {PREFIX}{min(notes)} without {PREFIX}profile: nothing can be promised")
        return None
    if name != UNKNOWN and name not in operations.profiles:
        raise Unreadable(
            f"annotation {PREFIX}profile: no profile {_short(name)} is known; PUT /v1/profiles/NAME stores one"
        )
    capacity = notes.get("capacity-bytes", "0")
    if len(capacity) > len(str(BYTES_MAX)) or not _digits(capacity) or int(capacity) > BYTES_MAX:
        raise Unreadable(f"annotation {PREFIX}capacity-bytes: {_short(capacity)} is not a number of bytes")
    try:
        slos = tuple(one.slo() for one in SLOS.validate_json(notes.get("slos", "[]")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:WORD_MAX]
        raise Unreadable(f"annotation {PREFIX}slos: {where}: {first['msg']}") from error
    if said := operations.allocator.checker.unpromisable(slos):
        raise Unreadable(f"annotation {PREFIX}slos: {said}")
    profile = None if name == UNKNOWN else operations.profiles[name]
    tenant = Tenant(tenant_id, int(capacity), profile, slos, Asked.by(profile, named=True))
    if said := unusable(tenant):
        raise Unreadable(f"annotation {PREFIX}profile: {said}")
    return tenant


def drives_of(operations: Operations) -> Mapping[str, list[int]]:
    """Indices of each node's drives."""
    found: dict[str, list[int]] = {}
    for index in np.flatnonzero(operations.cluster.open):
        node, colon, _ = operations.cluster.specs[index].drive.name.partition(":")
        if colon:
            found.setdefault(node, []).append(int(index))
    return found


def judge(operations: Operations, tenant: Tenant, nodes: list[str]) -> dict[str, tuple[float | None, str]]:
    """For each node how full its fullest drive is that may take the tenant, or nothing and the reason."""
    homes = drives_of(operations)
    chosen = {node: homes.get(node, []) for node in nodes}
    drives = np.array(sorted({drive for found in chosen.values() for drive in found}), np.intp)
    may = operations.allocator.may_take(tenant, drives)
    answer: dict[str, tuple[float | None, str]] = {}
    for node, found in chosen.items():
        loads = [operations.allocator.fullness(drive) for drive in found if may[drive]]
        if loads:
            answer[node] = (max(loads), "")
        elif found:
            answer[node] = (None, f"linnet: {_refusal(operations, tenant, found)}")
        else:
            answer[node] = (None, "linnet: no drive of the node is registered")
    return answer


def _refusal(operations: Operations, tenant: Tenant, drives: list[int]) -> str:
    """Why none of a node's drives may take a tenant. The scheduler counts nodes by their reason."""
    unknown = tenant.profile is None
    suited = [drive for drive in drives if operations.cluster.staging[drive] == unknown]
    if unknown:
        said = "the node's staging drives are full" if suited else "no drive of the node is a staging drive"
        return f"the workload is unknown, and {said}"
    if not suited:
        return "the node has staging drives alone, which are for pods of unknown workload"
    slow = [operations.allocator.too_much(tenant, drive) for drive in suited]
    other = "a tenant's SLO would be broken on each of the node's drives, or they are full"
    return slow[0] if slow[0] and all(slow) else other


def filter_nodes(operations: Operations, question: ExtenderArgs) -> tuple[list[str], dict[str, str]]:
    """Judge for `filter`: the nodes that may take the pod, and why the others may not."""
    names = names_of(question)
    try:
        tenant = wanted(question.pod, operations, ASKED)
    except Unreadable as error:
        return [], dict.fromkeys(names, str(error))
    if tenant is None:
        return names, {}
    verdicts = judge(operations, tenant, names)
    failed = {node: why for node, (load, why) in verdicts.items() if load is None}
    return [node for node in names if node not in failed], failed


def prioritize_nodes(operations: Operations, question: ExtenderArgs) -> list[dict[str, Any]]:
    """Answer `prioritize`: the fuller the drive that takes the pod, the better, so that drives stay free."""
    names = names_of(question)
    try:
        tenant = wanted(question.pod, operations, ASKED)
    except Unreadable:
        tenant = None
    if tenant is None:
        return [{"Host": name, "Score": 0} for name in names]
    verdicts = judge(operations, tenant, names)
    return [{"Host": name, "Score": _score(verdicts[name][0])} for name in names]


def _score(load: float | None) -> int:
    return 0 if load is None else 1 + round((PRIORITY_MAX - 1) * min(1.0, max(0.0, load)))


def names_of(question: ExtenderArgs) -> list[str]:
    """Names of the nodes, whichever form the question has."""
    if question.nodenames is not None:
        return list(dict.fromkeys(question.nodenames))
    items = question.nodes.items if question.nodes is not None and question.nodes.items is not None else []
    return list(dict.fromkeys(node.metadata.name for node in items))


def result(question: ExtenderArgs, good: list[str], refused: dict[str, str]) -> dict[str, Any]:
    """The answer to `filter`, in the form of the question."""
    # Preemption would be tried for a node in FailedNodes, without asking the service: the scheduler then finds that the
    # pod fits without a victim, and reports an error.
    found: dict[str, Any] = {"FailedNodes": {}, "FailedAndUnresolvableNodes": refused, "Error": ""}
    if question.nodenames is not None:
        return found | {"NodeNames": good}
    nodes = question.nodes.model_dump(exclude_unset=True) if question.nodes is not None else {}
    items = question.nodes.items if question.nodes is not None and question.nodes.items is not None else []
    chosen = set(good)
    kept = [node.model_dump(exclude_unset=True) for node in items if node.metadata.name in chosen]
    return found | {"Nodes": nodes | {"items": kept}}


def _told(question: ExtenderArgs, good: list[str], refused: dict[str, str]) -> Answered:
    """The answer. What the question has of its nodes is given back: JSON may write a number that no JSON can say."""
    try:
        return Answered(result(question, good, refused))
    except ValueError as error:
        where = {"type": "finite_number", "loc": ("body", "Nodes"), "msg": "a number is too large, or none"}
        raise RequestValidationError([where]) from error


def routes(read: Callable[[Callable[[Operations], Any]], Awaitable[Any]], pods: Pods | None) -> APIRouter:
    """The protocol's routes. With ``pods`` a pod is judged when those before it are in the books."""
    router = APIRouter(prefix="/kubernetes", tags=["kubernetes"])

    @router.post("/filter", response_model=None, responses={200: {"model": ExtenderFilterResult}, **BAD_BODY})
    async def filter_pods(question: ExtenderArgs) -> Any:
        """Which nodes may take the pod."""
        # The nodes that are given back are put together elsewhere than where the others wait.
        if pods is None or not declares(question.pod):
            good, refused = await read(lambda operations: filter_nodes(operations, question))
            return await asyncio.to_thread(_told, question, good, refused)
        uid = question.pod.metadata.uid
        try:
            await asyncio.to_thread(pods.turn, uid)
        except NotFollowed as error:
            return result(question, [], {}) | {"Error": f"linnet: {error}"}
        let_go = False
        try:
            good, refused = await read(lambda operations: filter_nodes(operations, question))
            told = await asyncio.to_thread(_told, question, good, refused)
            let_go = bool(good)
            return told
        finally:
            pods.judged(uid, let_go)

    @router.post("/prioritize", response_model=None, responses={200: {"model": list[HostPriority]}, **BAD_BODY})
    async def prioritize_pods(question: ExtenderArgs) -> Any:
        """How good each node is."""
        return await read(lambda operations: prioritize_nodes(operations, question))

    return router
