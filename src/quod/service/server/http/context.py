"""The service and the client of a request, for the parameters of routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request

from quod.service.server.clients import Client, Clients
from quod.service.server.service import ProvingService


def set_context(app: FastAPI, service: ProvingService, clients: Clients, is_local: bool) -> None:
    """Set what the routes of an application use; `is_local` if only this user reaches it."""
    app.state.service, app.state.clients, app.state.is_local = service, clients, is_local


async def _service(request: Request) -> ProvingService:
    service: ProvingService = request.app.state.service
    return service


async def _client(request: Request) -> Client:
    state, sent = request.app.state, request.headers.getlist("authorization")
    client: Client = state.clients.client(",".join(sent) if sent else None, is_local=state.is_local)
    request.state.client = client.name
    return client


Service = Annotated[ProvingService, Depends(_service)]
Caller = Annotated[Client, Depends(_client)]
"""The authenticated client of a request."""
