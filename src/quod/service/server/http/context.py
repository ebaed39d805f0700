"""The service and the client of a request, which routes take as parameters."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from quod.service.server.clients import Client
from quod.service.server.service import ProvingService


async def _service(request: Request) -> ProvingService:
    service: ProvingService = request.app.state.service
    return service


async def _client(request: Request) -> Client:
    state, headers = request.app.state, request.headers.getlist("authorization")
    client: Client = state.clients.client(
        ",".join(headers) if headers else None, is_local=state.is_local
    )
    request.state.client = client.name
    return client


Service = Annotated[ProvingService, Depends(_service)]
Caller = Annotated[Client, Depends(_client)]
"""The authenticated client of a request."""
