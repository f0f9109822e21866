# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTTP interface: routes and request ids. The work is in operations.py, its order in writer.py."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import Future
from contextlib import asynccontextmanager
from enum import Enum
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from linnet._native import __version__
from linnet.place.service import replies, schema
from linnet.place.service.advice import Searches
from linnet.place.service.advice import routes as advice_routes
from linnet.place.service.errors import Answered, answer_errors, problems
from linnet.place.service.extender import routes as extender_routes
from linnet.place.service.gates import LIVE, Bounded, Crowded, Hosts, Json, Measured
from linnet.place.service.kubernetes_api import Api
from linnet.place.service.operations import Operations
from linnet.place.service.pods import Pods
from linnet.place.service.rows import POD
from linnet.place.service.schema import NAME, profile_of
from linnet.place.service.state_file import Copy
from linnet.place.service.telemetry import Telemetry
from linnet.place.service.writer import Answer, Refused, Undo, Writer, not_written
from linnet.place.words import Profile

TENANTS: list[str | Enum] = ["tenants"]
DRIVES: list[str | Enum] = ["drives"]
ABOUT = """Places tenants on shared SSDs so that no SLO of those that share a drive is broken, as a model predicts.

Changes take an `Idempotency-Key` header: the same key with the same request is carried out once, and answered alike."""

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", pattern=r"^[\x21-\x7e]{1,128}$", description="Id of the request, chosen by you."),
]
Id = Annotated[str, Path(pattern=NAME, alias="id", description="Its id or name.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="How many come before the page.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many the page has at most.")]


class Copied(Response):
    """An SQLite file, of which a part is in memory."""

    media_type = "application/vnd.sqlite3"

    def __init__(self, content: Copy, taken: Callable[[], None], status_code: int = 200) -> None:
        """``taken`` is called when no part is asked for any more."""
        super().__init__(None, status_code, {"content-length": str(content.size)})
        self._content, self._taken = content, taken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, each part when the one before is nearly sent."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for at in range(0, self._content.size, PART):
                part = await asyncio.to_thread(self._content.part, at, PART)
                more = at + PART < self._content.size
                await send({"type": "http.response.body", "body": part, "more_body": more})
        finally:
            self._taken()


COPIED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "An SQLite file.",
        "content": {Copied.media_type: {"schema": {"type": "string", "format": "binary"}}},
    }
}
PART = 1 << 18
"""Bytes of a backup that are sent at once."""


class Service:
    """The writer with the operations that it carries out."""

    def __init__(
        self, operations: Operations, telemetry: Telemetry, broken: Callable[[], None], api: Api | None = None
    ) -> None:
        """With ``api`` the pods of a Kubernetes cluster are followed."""
        self.operations = operations
        self.telemetry = telemetry
        self.writer = Writer(operations.state, broken, telemetry.committed, telemetry.failed.inc)
        self.searches = Searches()
        self._copying = False
        self.stuck = False
        """Whether something still ran when the service was to end."""
        self.pods = None if api is None else Pods(api, operations, self.writer.change, telemetry.followed.set)

    async def read(self, work: Callable[[], Any]) -> Any:
        """Run a question on the writer's thread."""
        return (await _wait(self.writer.read(work))).body

    async def change(self, request: Request, key: str | None, work: Callable[[list[Undo]], Answer]) -> JSONResponse:
        """Run a change on the writer's thread."""
        digest = ""
        if key is not None:
            said = f"{request.method} {request.url.path}\n".encode() + await request.body()
            digest = hashlib.blake2b(said, digest_size=16).hexdigest()

        def shown(undo: list[Undo]) -> Answer:
            answer = work(undo)
            Answered(answer.body)  # what cannot be said is not done
            return answer

        answer = await _wait(self.writer.change(shown, key, digest))
        return Answered(answer.body, answer.status)

    async def copy(self) -> Copied:
        """A copy of the state, one at a time: its client decides how long the log is not taken into the file."""
        if self._copying:
            raise Refused(503, "busy", "a backup is being fetched; ask again later")

        def made() -> Copy:
            # On the writer's thread, whether or not the client still waits.
            content = self.operations.state.copy()
            made_of.append(content)
            return content

        def taken() -> None:
            for content in made_of:
                content.done()
            self._copying = False

        made_of: list[Copy] = []
        self._copying = True
        asking = asyncio.ensure_future(self.read(made))
        try:
            return Copied(await asyncio.shield(asking), taken)
        except BaseException:
            asking.add_done_callback(lambda asked: taken())
            raise

    def close(self) -> None:
        """Finish what waits and give the state back. What takes too long keeps it, and the service is ``stuck``."""
        self.stuck = not self.writer.stop()
        if not self.stuck:
            self.operations.state.close()


async def _wait(done: Future[Answer]) -> Answer:
    # A client that leaves does not cancel its request: the writer carries it out, and the same id finds the answer.
    return await asyncio.shield(asyncio.wrap_future(done))


def build(
    service: Service, hosts: Collection[str] | None = None, crowded: Callable[[], bool] = lambda: False
) -> FastAPI:
    """The application. Requests for another host than ``hosts`` are refused, if any are given, and all while
    ``crowded`` says that there are too many connections.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="linnet place",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        # The framework's pages load scripts from elsewhere, onto an interface that has no authentication.
        docs_url=None,
        redoc_url=None,
        default_response_class=Answered,
        responses={422: {"model": replies.Invalid, "description": "The request is not of the form described here."}},
        # A redirect would lead to the host that the request names.
        redirect_slashes=False,
    )
    answer_errors(app)
    app.add_middleware(Bounded)
    app.add_middleware(Json)
    app.add_middleware(Hosts, names=hosts)
    app.add_middleware(Crowded, crowded=crowded)
    app.add_middleware(Measured, telemetry=service.telemetry)
    _tenants(app, service)
    _drives(app, service)
    advice_routes(app, service)
    _profiles(app, service)
    app.include_router(extender_routes(lambda ask: service.read(lambda: ask(service.operations)), service.pods))

    @app.get("/healthz", tags=["operation"], responses=problems(503))
    async def healthz() -> dict[str, str]:
        """Whether changes are carried out: the writer answers, its file is where it was, and can be written."""
        if (error := await service.read(service.writer.unwritten)) is not None:
            raise not_written(error)
        return {"status": "ok"}

    @app.get(LIVE, tags=["operation"])
    async def livez() -> dict[str, str]:
        """Whether the process takes requests. It waits for no other request, so it is no reason to send none."""
        return {"status": "ok"}

    @app.get("/v1/backup", tags=["operation"], response_class=Response, responses=COPIED | problems(503))
    async def backup() -> Response:
        """A copy of the state, with everything that was answered before. `linnet place serve --state` takes it.

        One is fetched at a time.
        """
        return await service.copy()

    @app.get("/metrics", tags=["operation"], response_class=Response)
    async def metrics() -> Response:
        """Metrics in Prometheus' text format."""
        await service.read(lambda: _gauges(service))
        return Response(service.telemetry.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


def _tenants(app: FastAPI, service: Service) -> None:
    do, tags = service.operations, TENANTS

    @app.post(
        "/v1/tenants",
        status_code=201,
        tags=tags,
        responses=_also(200, replies.Admitted) | problems(400, 404, 409, 413, 415, 500, 503),
    )
    async def admit(request: Request, body: schema.TenantIn, key: Key = None) -> replies.Admitted:
        """Place a tenant: 201, or 200 where it was placed before by the same request."""
        if body.profile is not None and body.profile_name is not None:
            raise Refused(409, "two_profiles", "give profile or profile_name, not both")
        _not_a_pod(service, body.id, "give another id")

        def work(undo: list[Undo]) -> Answer:
            named = None if body.profile_name is None else do.profile(body.profile_name)
            return do.admit(undo, body.tenant(named), body.drive)

        return await service.change(request, key, work)  # type: ignore[return-value]

    @app.get("/v1/tenants", tags=tags)
    async def list_tenants(offset: Offset = 0, limit: Limit = 100) -> replies.Tenants:
        """Tenants, by id."""
        return replies.Tenants(**await service.read(lambda: do.list_tenants(offset, limit)))

    @app.get("/v1/tenants/{id}", tags=tags, responses=problems(404))
    async def show_tenant(tenant: Id) -> replies.TenantOut:
        """A tenant, its drive, and what the model predicts for it."""
        return replies.TenantOut(**await service.read(lambda: do.show_tenant(tenant)))

    @app.delete("/v1/tenants/{id}", tags=tags, responses=problems(404, 409, 500, 503))
    async def remove(request: Request, tenant: Id, key: Key = None) -> replies.Removed:
        """Take a tenant away. A pod's room is given back when the pod ends, if the cluster's pods are followed."""
        _not_a_pod(service, tenant, "its room is given back when the pod ends")
        return await service.change(request, key, lambda undo: do.remove(undo, tenant))  # type: ignore[return-value]

    @app.post("/v1/tenants/{id}/move", tags=tags, responses=problems(400, 404, 409, 413, 415, 500, 503))
    async def move(request: Request, tenant: Id, body: schema.MoveIn, key: Key = None) -> replies.Moved:
        """Move a tenant to a drive, if the model allows it there."""
        return await service.change(request, key, lambda undo: do.move(undo, tenant, body.drive))  # type: ignore[return-value]

    @app.put("/v1/tenants/{id}/profile", tags=tags, responses=problems(400, 404, 409, 413, 415, 500, 503))
    async def reprofile(request: Request, tenant: Id, body: schema.ProfileIn, key: Key = None) -> replies.Moved:
        """Give a tenant a measured profile. A staged tenant leaves its staging drive if another takes it."""
        profile = profile_of(tenant, body.features)
        return await service.change(request, key, lambda undo: do.reprofile(undo, tenant, profile))  # type: ignore[return-value]

    @app.post("/v1/tenants/{id}/observations", tags=tags, responses=problems(400, 404, 409, 413, 415, 500, 503))
    async def observe(request: Request, tenant: Id, body: schema.ObservationIn, key: Key = None) -> replies.Observed:
        """Tell what was measured of a tenant; the answer says whether it should be measured again or moved."""
        seen = None if body.features is None else profile_of(tenant, body.features)

        broken: list[bool] = []

        def work(undo: list[Undo]) -> Answer:
            answer = do.observe(undo, tenant, body.metrics, seen)
            broken.append(bool(answer.body["broken"]))
            return answer

        answer = await service.change(request, key, work)
        # Neither where the commit failed, nor where the answer is that of an earlier request.
        service.telemetry.violations.inc(sum(broken))
        return answer  # type: ignore[return-value]


def _not_a_pod(service: Service, tenant_id: str, hint: str) -> None:
    """Refuse an id of which the cluster decides whether it is there."""
    if service.pods is not None and tenant_id.startswith(POD):
        said = f"tenant {tenant_id}: ids that begin with {POD} are those of the cluster's pods; {hint}"
        raise Refused(409, "reserved_id", said)


def _drives(app: FastAPI, service: Service) -> None:
    do, tags = service.operations, DRIVES

    @app.post("/v1/drives", status_code=201, tags=tags, responses=problems(400, 409, 413, 415, 500, 503))
    async def register(request: Request, body: schema.DrivesIn, key: Key = None) -> replies.Registered:
        """Register drives: all of them, or none. One that is known with the same figures counts as known."""
        specs = [one.spec() for one in body.drives]
        return await service.change(request, key, lambda undo: do.register(undo, specs))  # type: ignore[return-value]

    @app.get("/v1/drives", tags=tags)
    async def list_drives(offset: Offset = 0, limit: Limit = 100) -> replies.Drives:
        """Drives, in the order in which they were registered."""
        return replies.Drives(**await service.read(lambda: do.list_drives(offset, limit)))

    @app.get("/v1/drives/{id}", tags=tags, responses=problems(404))
    async def show_drive(drive: Id) -> replies.DriveDetail:
        """A drive, its tenants, and promises that the model sees broken."""
        return replies.DriveDetail(**await service.read(lambda: do.show_drive(drive)))

    @app.put("/v1/drives", tags=tags, responses=problems(400, 404, 409, 413, 415, 500, 503))
    async def correct(request: Request, body: schema.DrivesIn, key: Key = None) -> replies.Corrected:
        """Give drives other figures: all of them, or none. Their tenants stay, whatever it breaks."""
        specs = [one.spec() for one in body.drives]
        return await service.change(request, key, lambda undo: do.correct(undo, specs))  # type: ignore[return-value]

    @app.put("/v1/drives/{id}", tags=tags, responses=problems(400, 404, 409, 413, 415, 500, 503))
    async def correct_one(
        request: Request, drive: Id, body: schema.FiguresIn, key: Key = None
    ) -> replies.DriveCorrected:
        """Give a drive other figures. Its tenants stay: the answer has the promises that the model then sees broken."""
        spec = body.spec_of(drive)
        return await service.change(request, key, lambda undo: do.correct_one(undo, spec))  # type: ignore[return-value]

    @app.delete("/v1/drives/{id}", tags=tags, responses=problems(404, 409, 500, 503))
    async def unregister(request: Request, drive: Id, key: Key = None) -> replies.Named:
        """Forget a drive that has no tenants. A later start with `--drives` does not bring it back."""
        return await service.change(request, key, lambda undo: do.unregister(undo, drive))  # type: ignore[return-value]


def _profiles(app: FastAPI, service: Service) -> None:
    do = service.operations

    @app.get("/v1/profiles", tags=["profiles"])
    async def list_profiles() -> replies.Profiles:
        """Names of the profiles that tenants may name."""
        return replies.Profiles(names=await service.read(lambda: sorted(do.profiles)))

    @app.get("/v1/profiles/{id}", tags=["profiles"], responses=problems(404))
    async def show_profile(name: Id) -> replies.ProfileOut:
        """A profile. Features that it lacks are zero."""
        found = await service.read(lambda: do.profile(name))
        return replies.ProfileOut(name=name, features=dict(found.features))

    @app.delete("/v1/profiles/{id}", tags=["profiles"], responses=problems(404, 409, 500, 503))
    async def remove_profile(request: Request, name: Id, key: Key = None) -> replies.Named:
        """Forget a profile by whose name no tenant was placed. A shipped one is there again after the next start."""
        return await service.change(request, key, lambda undo: do.remove_profile(undo, name))  # type: ignore[return-value]

    @app.put("/v1/profiles/{id}", tags=["profiles"], responses=problems(400, 409, 413, 415, 500, 503))
    async def name_profile(request: Request, name: Id, body: schema.ProfileIn, key: Key = None) -> replies.Named:
        """Store a profile under a name."""
        profile: Profile = profile_of(name, body.features)
        return await service.change(request, key, lambda undo: do.name_profile(undo, profile))  # type: ignore[return-value]


def _also(status: int, model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": model, "description": "Done before."}}


def _gauges(service: Service) -> None:
    cluster, telemetry = service.operations.cluster, service.telemetry
    telemetry.drives.set(len(cluster))
    telemetry.drives_used.set(cluster.drives_used)
    telemetry.tenants.set(cluster.placed)
    telemetry.drives_overfull.set(int(np.count_nonzero(cluster.used > cluster.capacity)))
    for file, size in zip(("state", "log"), service.operations.state.sizes(), strict=True):
        telemetry.state.labels(file).set(size)
    # As floats: no integer holds the sum of many drives at their largest.
    telemetry.capacity.set(cluster.capacity[cluster.open].sum(dtype=float))
    telemetry.used.set(cluster.used.sum(dtype=float))
