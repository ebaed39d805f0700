"""The health checks, without authentication: liveness and readiness."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from quod.service.server.http.context import Service

router: Final = APIRouter(tags=["health"])


@router.get("/health/live")
async def live() -> Response:
    return JSONResponse({"live": True})


@router.get("/health/ready")
async def ready(service: Service) -> Response:
    state = service.state().state
    return JSONResponse({"state": state}, 200 if service.ready else 503)
