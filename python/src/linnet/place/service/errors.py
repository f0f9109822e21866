# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is answered to a request that is not carried out, and JSON that any name can stand in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from linnet.place.service.replies import Problem
from linnet.place.service.state_file import StateError
from linnet.place.service.writer import Refused

ERRORS_MAX = 20
"""Errors of one request that are told."""


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of a route."""
    said = {
        400: "The body is not UTF-8 text.",
        404: "There is none of this name.",
        409: "The request conflicts with the state, or no drive can take the tenant.",
        413: "The body is too large.",
        415: "The body is not said to be JSON.",
        500: "The service failed, or a kept answer is damaged; nothing was changed.",
        503: "The state cannot be written, or too much is asked at once; nothing was changed.",
    }
    return {code: {"model": Problem, "description": said[code]} for code in codes}


class Answered(JSONResponse):
    """JSON in ASCII: a name that a request gave may be no text that UTF-8 can say, such as half of a surrogate pair."""

    def render(self, content: Any) -> bytes:
        """The bytes."""
        return json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def problem(code: str, message: str, status: int, headers: Mapping[str, str] | None = None) -> Answered:
    """The answer of a Problem without reasons."""
    return Answered({"code": code, "message": message, "reasons": []}, status, headers)


def answer_errors(app: FastAPI) -> None:
    """Answer every error of the application as a Problem."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        body = {"code": error.code, "message": error.message, "reasons": error.more.get("reasons", [])}
        headers = {"Retry-After": "5"} if error.status == 503 else None
        return Answered(body, error.status, headers)

    @app.exception_handler(StateError)
    async def damaged(request: Request, error: StateError) -> JSONResponse:
        return problem("state_damaged", str(error), 500)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was sent: it may be a number or a text that JSON cannot say.
        found, first = error.errors(), error.errors()[:ERRORS_MAX]
        detail = [{name: one[name] for name in ("type", "loc", "msg")} for one in first]
        reasons = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in first]
        more = f" (the first of {len(found)} errors)" if len(found) > 1 else ""
        body = {"code": "invalid", "message": reasons[0] + more, "reasons": reasons, "detail": detail}
        return Answered(body, 422)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        # The traceback is in the log. A change that fails is undone before it is answered.
        said = "the service failed at this request, and nothing was changed; its log says how"
        return problem("internal", said, 500, {"Connection": "close"})

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        if error.status_code == 405:
            # A path has a route for each of its methods; the framework names those of one.
            methods = [
                route.methods or set()
                for route in app.routes
                if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
            ]
            headers["allow"] = ", ".join(sorted(set().union(*methods)))
        code = "too_large" if error.status_code == 413 else HTTPStatus(error.status_code).name.lower()
        return problem(code, str(error.detail), error.status_code, headers)
