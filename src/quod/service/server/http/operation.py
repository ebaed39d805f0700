"""The routes of operators: workers, status, stages, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from quod.service.encoding import encode_answer
from quod.service.server.clients import Role
from quod.service.server.http.bodies import KeyBody, body_schema
from quod.service.server.http.context import Caller, Service
from quod.service.server.http.streams import COMMENT_SECONDS, event_stream

_POLL_SECONDS: Final = 0.25

router: Final = APIRouter(tags=["operation"])


@router.post("/v1/workers/{worker}/resume", openapi_extra=body_schema(KeyBody))
async def resume_worker(worker: str, service: Service, client: Caller) -> Response:
    """Resume a quarantined worker. For operators."""
    await service.resume_worker(client, worker)
    return JSONResponse({})


@router.get("/status")
async def status(service: Service, client: Caller) -> Response:
    """Queue, workers, keys, jobs and the stages of the last minute. For operators."""
    return JSONResponse(await service.status(client))


@router.get("/status/jobs/{job}")
async def job_status(job: str, service: Service, client: Caller) -> Response:
    """A job of any client with its events and attempts. For operators."""
    return JSONResponse(await service.job_page(client, job))


@router.get("/status/stages")
async def stages(
    service: Service, client: Caller, after: Annotated[int, Query(ge=0)] = 0
) -> Response:
    """Stages as they end (server-sent events), after the number `after`, as in `stages_after` of
    GET /status. For operators."""
    client.require(Role.OPERATOR)

    async def run() -> AsyncGenerator[tuple[list[Any], int], None]:
        last, silent_seconds = after, 0.0
        with service.streams.hold(client.name):
            while not service.draining:
                stage_records, number = service.activity.stages(last)
                if number != last or silent_seconds == 0.0 or silent_seconds >= COMMENT_SECONDS:
                    yield stage_records, number
                    silent_seconds = 0.0
                last, silent_seconds = number, silent_seconds + _POLL_SECONDS
                await asyncio.sleep(_POLL_SECONDS)

    def text(page: tuple[list[Any], int]) -> str:
        data = JSONResponse({"stages": encode_answer(page[0])}).body
        return f"id: {page[1]}\nevent: stages\ndata: {bytes(data).decode()}\n\n"

    return await event_stream(run(), text)


@router.get("/metrics")
async def metrics(service: Service, client: Caller) -> Response:
    """Metrics for Prometheus. For clients with the role `metrics`."""
    client.require(Role.METRICS)
    text = await service.read(service.observer.metrics.text)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)
