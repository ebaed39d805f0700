"""The routes of jobs: submit, wait, cancel, and watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from quod.errors import InputError
from quod.service.encoding import encode_answer
from quod.service.payload import PayloadKind
from quod.service.queue import Job
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.service.refusals import refusal_of
from quod.service.server.budget import Reservation
from quod.service.server.clients import Client, Role
from quod.service.server.http.answers import event_text, job_response
from quod.service.server.http.bodies import (
    ManyBody,
    ProofBody,
    ProveBody,
    admitted,
    body_schema,
    read_json,
)
from quod.service.server.http.context import Caller, Service
from quod.service.server.http.guard import BYTES, content_type
from quod.service.server.http.streams import COMMENT_SECONDS, event_stream, while_connected
from quod.service.server.intake import announced_length
from quod.service.server.requests import ProofRequest
from quod.service.server.service import ProvingService, Submit

router: Final = APIRouter(tags=["proofs"])


async def _upload_query(
    request: Request,
    key: Annotated[str | None, Query(description="Of an upload of bytes.")] = None,
    priority: Annotated[int, Query(ge=0, le=HIGHEST_PRIORITY)] = 0,
    deadline: Annotated[float | None, Query()] = None,
    kind: Annotated[
        Literal["wtns", "inputs"],
        Query(description="Of an upload: a .wtns file, or inputs of the circuit as JSON."),
    ] = "wtns",
) -> Callable[[int], ProofRequest]:
    """Return a function from the length of an upload to its request."""
    header = request.headers.get("idempotency-key", "")
    return lambda length: ProofRequest(
        key or "", PayloadKind[kind.upper()], (length,), header, priority, deadline
    )


UploadQuery = Annotated[Callable[[int], ProofRequest], Depends(_upload_query)]


@router.post("/v1/proofs", status_code=202, openapi_extra=body_schema(ProofBody, raw=True))
async def submit_proof(
    request: Request, service: Service, client: Caller, query: UploadQuery
) -> Response:
    """Submit a job: JSON, or a .wtns file or inputs as bytes with the key in the query."""
    with admitted(request, service.intake, client, Role.CLIENT) as reservation:
        if content_type(request) == BYTES:
            job = await _upload(service, client, request, query, reservation)
        else:
            header = request.headers.get("idempotency-key")
            proof_request = await read_json(
                request,
                service.intake,
                reservation,
                ProofBody,
                lambda body: body.to_request(header),
            )
            job = await service.submit(client, proof_request)
    return JSONResponse(encode_answer(job), 202, {"Location": f"/v1/proofs/{job.id}"})


@router.post("/v1/proofs/batch", openapi_extra=body_schema(ManyBody))
async def submit_proofs(request: Request, service: Service, client: Caller) -> Response:
    """Submit up to 1,000 jobs with one sync of the disk; each succeeds or fails on its own."""
    with admitted(request, service.intake, client, Role.CLIENT) as reservation:
        proof_requests = await read_json(
            request, service.intake, reservation, ManyBody, ManyBody.to_request
        )
        outcomes = [
            {"job": encode_answer(outcome)} if isinstance(outcome, Job)
            else {"error": encode_answer(refusal_of(outcome))}
            for outcome in await service.submit_many(client, proof_requests)
        ]  # fmt: skip
    return JSONResponse({"outcomes": outcomes})


@router.post("/v1/prove", openapi_extra=body_schema(ProveBody, raw=True))
async def prove(
    request: Request, service: Service, client: Caller, query: UploadQuery,
    timeout: Annotated[float | None, Query(ge=0)] = None,
) -> Response:  # fmt: skip
    """Submit a job and wait for its end. Without an idempotency key a disconnect cancels it."""
    received = asyncio.Event()
    with admitted(request, service.intake, client, Role.CLIENT) as reservation:
        header = request.headers.get("idempotency-key")
        keep = bool(header)

        async def upload_job(_taken: object) -> Job:
            try:
                return await _upload(service, client, request, query, reservation)
            finally:
                received.set()

        submit: Submit = upload_job
        if content_type(request) != BYTES:
            proof_request, seconds = await read_json(
                request, service.intake, reservation, ProveBody,
                lambda body: body.to_timed_request(header),
            )  # fmt: skip
            received.set()
            timeout = seconds if timeout is None else timeout
            keep = keep or bool(proof_request.proof.idempotency_key)
            submit = partial(service.submit, client, proof_request)
            # The witness is on disk long before the proof is made; free its memory.
            del proof_request
        proving = asyncio.ensure_future(
            service.prove(client, submit, timeout, keep=keep, submitted=reservation.close)
        )
        del submit
        return job_response(await while_connected(request, proving, received))


@router.get("/v1/proofs")
async def list_proofs(
    service: Service,
    client: Caller,
    most: Annotated[int, Query(ge=1, le=1000)] = 50,
    before: str | None = None,
) -> Response:
    """List the newest jobs of the client, without results."""
    return await service.jobs(
        client, most, before, lambda jobs: JSONResponse({"jobs": encode_answer(list(jobs))})
    )


@router.get("/v1/proofs/{job}")
async def await_proof(
    request: Request, job: str, service: Service, client: Caller,
    timeout: Annotated[float, Query(ge=0)] = 0.0,
) -> Response:  # fmt: skip
    """Return a job; with `timeout` (seconds), wait that long for its end."""
    waiting = asyncio.ensure_future(service.wait(client, job, timeout))
    return job_response(await while_connected(request, waiting))


@router.delete("/v1/proofs/{job}")
async def cancel_proof(job: str, service: Service, client: Caller) -> Response:
    """Cancel a job; an ended job stays unchanged."""
    return JSONResponse(encode_answer(await service.cancel(client, job)))


@router.get("/v1/proofs/{job}/events")
async def watch_proof(
    request: Request, job: str, service: Service, client: Caller,
    after: Annotated[int, Query(ge=0)] = 0,
) -> Response:  # fmt: skip
    """Stream the events of a job until its end; `Last-Event-ID` resumes after that event."""
    last = request.headers.get("last-event-id", "")
    if last and not (last.isascii() and last.isdigit() and len(last) < 19):
        raise InputError("must be the number of an event", section="Last-Event-ID")
    events = service.watch(client, job, int(last or after), COMMENT_SECONDS)
    return await event_stream(events, event_text)


async def _upload(
    service: ProvingService, client: Client, request: Request,
    query: Callable[[int], ProofRequest], reservation: Reservation,
) -> Job:  # fmt: skip
    """Take a job whose witness or inputs are the body of its request."""
    length = announced_length(request, service.intake.limits.witness_bytes)
    if length is None:
        raise InputError("an upload needs a Content-Length", section="Content-Length")
    chunks = service.intake.chunks(request, reservation)
    return await service.upload(client, query(length), chunks)
