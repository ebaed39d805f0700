"""Checks on every HTTP request before routing: host, origin and content type.

A page of another site can make a browser send requests to a server on this machine. Such requests
have another `Host` (DNS rebinding) or `Origin`. JSON and byte content types need a CORS preflight,
which the server never grants.
"""

from __future__ import annotations

import re
import time
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quod.errors import InputError, QuodError
from quod.service.errors import PermissionDeniedError
from quod.service.refusals import STATUS_OF_HTTP
from quod.service.server.http.answers import refused
from quod.service.server.observing import TRACEPARENT, Observer

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"

_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?")
_WITH_BODY: Final = ("POST", "PUT", "PATCH")
# The label values of metrics: callers may send any method, and each would be a new metric.
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Middleware that refuses requests to other hosts, from other origins or of other types."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        request = HTTPConnection(scope)
        TRACEPARENT.set(request.headers.get("traceparent", ""))
        try:
            self._check(request, scope["method"])
        except QuodError as error:
            await refused(error)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _check(self, request: HTTPConnection, method: str) -> None:
        headers = request.headers
        hosts = headers.getlist("host")
        match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if match is None or match[1] not in self._hosts:
            raise PermissionDeniedError(
                "this server does not have that name (Host); the operator lists its "
                "names in listen.hosts"
            )
        origins = headers.getlist("origin")
        if origins and origins != [f"{request.scope['scheme']}://{hosts[0]}"]:
            raise PermissionDeniedError("the request comes from another site's page (Origin)")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise PermissionDeniedError(
                "the request comes from another site's page (Sec-Fetch-Site)"
            )
        if method in _WITH_BODY and content_type(request) not in (JSON, BYTES):
            raise InputError(f"the content type must be {JSON}", section="Content-Type")


def content_type(request: HTTPConnection) -> str:
    """Return the declared content type of a request, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class Observed:
    """Middleware that reports each answered request to the observer."""

    def __init__(self, app: ASGIApp, observer: Observer) -> None:
        self._app, self._observer = app, observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, code = time.perf_counter(), 500

        async def observed(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, observed)
        finally:
            # Labelled by the route, as paths contain job ids.
            route = getattr(scope.get("route"), "path", "other")
            status = "OK" if code < 400 else STATUS_OF_HTTP.get(code, "UNKNOWN")
            client = scope.get("state", {}).get("client", "")
            seconds = time.perf_counter() - begin
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._observer.answered(f"{method} {route}", client, status, seconds)
