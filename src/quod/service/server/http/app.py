"""The HTTP application: a router for each topic, and the derived OpenAPI document."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import quod.service
from quod import __version__
from quod.errors import InputError, QuodError
from quod.service.refusals import Refusal
from quod.service.server.clients import Clients
from quod.service.server.http import generation, health, keys, operation, proofs
from quod.service.server.http.answers import refusal_response, refused
from quod.service.server.http.guard import Guard, Observed
from quod.service.server.service import ProvingService

PAGE: Final = Path(quod.service.__file__).parent / "page"
"""Static files, if installed: `index.html` is the page at ``/``."""

ROUTERS: Final = (proofs.router, generation.router, keys.router, operation.router, health.router)
"""The routes of each topic, in the order of the OpenAPI document."""


def http_app(
    service: ProvingService, clients: Clients, hosts: frozenset[str], *, is_local: bool
) -> ASGIApp:
    """Build the application of a listener; `is_local` if only this user reaches it."""
    app = FastAPI(
        title="Quod", version=__version__, description="The proving service.",
        docs_url=None, redoc_url=None, openapi_url="/openapi.json",
    )  # fmt: skip
    app.state.service, app.state.clients, app.state.is_local = service, clients, is_local
    for router in ROUTERS:
        app.include_router(router)
    if PAGE.is_dir():
        app.mount("/", StaticFiles(directory=PAGE, html=True))
    _add_refusals(app)
    return Observed(Guard(app, hosts), service.observer)


def _add_refusals(app: FastAPI) -> None:
    """Answer all errors in one format."""

    async def answer_error(_: Request, error: Exception) -> Response:
        return refused(error)

    async def answer_invalid_argument(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field = str(first["loc"][-1])
        return refused(InputError(first["msg"], section=field))

    async def answer_routing_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = {404: "NOT_FOUND", 405: "INVALID_ARGUMENT"}.get(error.status_code, "INTERNAL")
        return refusal_response(Refusal(status, status, str(error.detail)), error.status_code)

    async def answer_disconnect(_: Request, _error: Exception) -> Response:
        # The client has gone.
        return Response(status_code=499)

    app.add_exception_handler(QuodError, answer_error)
    app.add_exception_handler(RequestValidationError, answer_invalid_argument)
    app.add_exception_handler(HTTPException, answer_routing_error)
    app.add_exception_handler(ClientDisconnect, answer_disconnect)
    app.add_exception_handler(Exception, answer_error)
