"""The routes of keys: list, preload, evict, and resume."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from quod.service.encoding import encode_answer
from quod.service.records import RemoteKey
from quod.service.server.clients import Role
from quod.service.server.http.bodies import KeyBody, admitted, body_schema, read_json
from quod.service.server.http.context import Caller, Service

router: Final = APIRouter(tags=["keys"])


@router.get("/v1/keys")
async def list_keys(service: Service, client: Caller) -> Response:
    """List the keys that the client may use."""
    return JSONResponse({"keys": [*map(_key_answer, await service.keys(client))]})


@router.post("/v1/keys/{key}/{action}", openapi_extra=body_schema(KeyBody))
async def act_on_key(
    request: Request, key: str, action: str, service: Service, client: Caller
) -> Response:
    """`preload`, `evict` or `resume` a key. For operators."""
    with admitted(request, service.intake, client, Role.OPERATOR) as reservation:
        worker, timeout = await read_json(
            request, service.intake, reservation, KeyBody,
            lambda body: (body.worker, body.timeout),
        )  # fmt: skip
    if action == "preload":
        await service.preload(client, key, worker, timeout)
    elif action == "evict":
        await service.evict(client, key, worker)
    elif action == "resume":
        await service.resume_key(client, key)
    else:
        raise HTTPException(404)
    return JSONResponse({})


def _key_answer(key: RemoteKey) -> dict[str, Any]:
    """Encode a key; a damaged key without the fields read from its files."""
    document: dict[str, Any] = encode_answer(key)
    if key.curve:
        return document
    return {name: document[name] for name in ("identity", "names", "problem")}
