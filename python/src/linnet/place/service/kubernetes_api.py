# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the service asks of a Kubernetes API server: the pods that have a node, first as a list, then each change.

Plain HTTP and JSON; the token and the certificate authority are read from the folder in which a pod finds those of
its service account. The token is read for each request, because the kubelet renews it.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

SELECTED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Pods on a node that have not ended. One that leaves the selection is reported as deleted."""
PAGE = 500
"""Pods of one page of the list."""
SILENT_S = 90.0
"""A connection without a byte for so long is taken for lost. Servers send a bookmark about once a minute."""
WATCH_S = 600
"""After so long the server ends a watch. The pods are then listed again, which mends what the events did not tell."""


class Expired(Exception):
    """The server does not have the changes since the given version any more: list again."""


class ApiError(OSError):
    """The server refused, or said what cannot be read."""


@dataclass(frozen=True)
class Api:
    """An API server, and the folder of its credentials. Over plain HTTP, as to `kubectl proxy`, no token is sent."""

    url: str
    credentials: Path

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is not the URL of an API server, as https://kubernetes.default.svc")

    def pods(self) -> tuple[list[dict[str, Any]], str]:
        """The selected pods, and the version of the cluster that they are of."""
        found: list[dict[str, Any]] = []
        page = ""
        while True:
            with self._get(limit=PAGE, **({"continue": page} if page else {})) as answer:
                body = _json(answer.read())
            found += body.get("items") or []
            meta = body.get("metadata") or {}
            page = meta.get("continue") or ""
            if not page:
                return found, str(meta.get("resourceVersion", ""))

    def changes(self, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Kind and object of each change since a version, until the server ends the watch."""
        options = {"watch": "true", "resourceVersion": version, "timeoutSeconds": WATCH_S}
        with self._get(allowWatchBookmarks="true", **options) as answer:
            while line := answer.readline():
                event = _json(line)
                kind, what = str(event.get("type")), event.get("object") or {}
                if kind == "ERROR":
                    if what.get("code") == http.HTTPStatus.GONE:
                        raise Expired
                    raise ApiError(f"{self.url}: {what.get('message', line.decode(errors='replace'))}")
                yield kind, what

    @contextmanager
    def _get(self, **options: Any) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        headers = {"Accept": "application/json"}
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            trusted = ssl.create_default_context(cafile=str(self.credentials / "ca.crt"))
            connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=SILENT_S, context=trusted)
            headers["Authorization"] = f"Bearer {(self.credentials / 'token').read_text().strip()}"
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SILENT_S)
        query = urlencode({"fieldSelector": SELECTED, **options})
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/api/v1/pods?{query}", headers=headers)
            answer = connection.getresponse()
            if answer.status == http.HTTPStatus.GONE:
                raise Expired
            if answer.status != http.HTTPStatus.OK:
                said = answer.read(2000).decode(errors="replace").strip()
                raise ApiError(f"{self.url}: the pods were refused: {answer.status} {said}")
            yield answer
        except http.client.HTTPException as error:
            raise ApiError(f"{self.url}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ApiError(f"the API server's answer is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ApiError("the API server's answer is not an object")
    return found
