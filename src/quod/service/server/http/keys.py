"""The routes of keys: list, preload, evict, and resume."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from quod.service.server.clients import Role
from quod.service.server.http.bodies import KeyBody, admitted, body_schema, read_json
from quod.service.server.http.context import Caller, Service

router: Final = APIRouter(tags=["keys"])


@router.get("/v1/keys")
async def list_keys(service: Service, client: Caller) -> Response:
    """The keys that the client may use."""
    found = []
    for key in await service.keys(client):
        row: dict[str, Any] = {
            "identity": key.identity, "names": list(key.names), "problem": key.problem,
        }  # fmt: skip
        if key.record is not None:
            row |= {
                "curve": key.record.curve,
                "constraints": key.record.constraints,
                "public": key.record.public,
                "bytes": sum(file.bytes for file in key.record.files.values()),
                "takes_inputs": "circuit.wasm" in key.record.files,
            }
        found.append(row)
    return JSONResponse({"keys": found})


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
