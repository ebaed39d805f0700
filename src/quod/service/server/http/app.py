"""The service over HTTP and JSON: routes, with the OpenAPI document that follows from them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import quod.service
from quod import __version__
from quod.errors import InputError, QuodError
from quod.service.payload import PayloadKind
from quod.service.queue import Job
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.service.refusals import Refusal, refusal_of
from quod.service.server.budget import Reservation
from quod.service.server.clients import Client, Clients, Role
from quod.service.server.http.answers import (
    event_text,
    found_json,
    job_json,
    refusal_document,
    refusal_response,
    refused,
)
from quod.service.server.http.bodies import (
    KeyBody,
    ManyBody,
    ProofBody,
    ProveBody,
    admitted,
    read_json,
)
from quod.service.server.http.guard import BYTES, Guard, Observed, content_type
from quod.service.server.intake import announced_length
from quod.service.server.requests import ProofRequest
from quod.service.server.service import FoundJob, ProvingService, Submit
from quod.service.status import stage_document

PAGE: Final = Path(quod.service.__file__).parent / "page"
"""Static files, if there are such: `index.html` is the page at ``/``."""

_COMMENT_SECONDS: Final = 15.0
_STAGES_SECONDS: Final = 0.25

_log = logging.getLogger(__name__)


def http_app(
    service: ProvingService, clients: Clients, hosts: frozenset[str], *, is_local: bool
) -> ASGIApp:
    """The application of a listener; `is_local` if only this user reaches it."""
    app = FastAPI(
        title="Quod", version=__version__, description="The proving service.",
        docs_url=None, redoc_url=None, openapi_url="/openapi.json",
    )  # fmt: skip

    def recognise(request: Request) -> Client:
        sent = request.headers.getlist("authorization")
        found = clients.client(",".join(sent) if sent else None, is_local=is_local)
        request.state.client = found.name
        return found

    own = Depends(recognise)
    _add_proofs(app, service, own)
    _add_operation(app, service, own)
    _add_health(app, service)
    if PAGE.is_dir():
        app.mount("/", StaticFiles(directory=PAGE, html=True))
    _add_refusals(app)
    return Observed(Guard(app, hosts), service.observer)


def _add_proofs(app: FastAPI, service: ProvingService, own: Any) -> None:
    """What clients do."""
    both = _body(ProofBody, raw=True)
    intake = service.intake

    async def upload(
        request: Request, client: Client, query: dict[str, Any], reservation: Reservation
    ) -> Job:
        length = announced_length(request, intake.limits.witness_bytes)
        if length is None:
            raise InputError("an upload needs its length", section="Content-Length")
        wanted = ProofRequest(
            query["key"] or "", query["kind"], (length,),
            request.headers.get("idempotency-key", ""), query["priority"], query["deadline"],
        )  # fmt: skip
        return await service.upload(client, wanted, intake.pieces(request, reservation))

    def upload_query(
        key: Annotated[str | None, Query(description="Of an upload of bytes.")] = None,
        priority: Annotated[int, Query(ge=0, le=HIGHEST_PRIORITY)] = 0,
        deadline: Annotated[float | None, Query()] = None,
        kind: Annotated[
            Literal["wtns", "inputs"],
            Query(description="Of an upload: a .wtns file, or inputs of the circuit as JSON."),
        ] = "wtns",
    ) -> dict[str, Any]:
        return {
            "key": key, "priority": priority, "deadline": deadline,
            "kind": PayloadKind[kind.upper()],
        }  # fmt: skip

    of_upload = Depends(upload_query)

    @app.post("/v1/proofs", status_code=202, openapi_extra=both, tags=["proofs"])
    async def submit_proof(
        request: Request, client: Client = own, query: dict[str, Any] = of_upload
    ) -> Response:
        """Takes a job: JSON, or a .wtns file or inputs as bytes with the key in the query."""
        with admitted(request, intake, client, Role.CLIENT) as reservation:
            if content_type(request) == BYTES:
                job = await upload(request, client, query, reservation)
            else:
                header = request.headers.get("idempotency-key")
                wanted = await read_json(
                    request, intake, reservation, ProofBody, lambda body: body.wanted(header)
                )
                job = await service.submit(client, wanted)
        return JSONResponse(job_json(job), 202, {"Location": f"/v1/proofs/{job.id}"})

    @app.post("/v1/proofs/batch", openapi_extra=_body(ManyBody), tags=["proofs"])
    async def submit_proofs(request: Request, client: Client = own) -> Response:
        """Takes up to 1,000 jobs with one sync of the disk; each is taken or refused for itself."""
        with admitted(request, intake, client, Role.CLIENT) as reservation:
            wanted = await read_json(request, intake, reservation, ManyBody, ManyBody.wanted)
            outcomes = [
                {"job": job_json(outcome)} if isinstance(outcome, Job)
                else {"error": refusal_document(refusal_of(outcome))}
                for outcome in await service.submit_many(client, wanted)
            ]  # fmt: skip
        return JSONResponse({"outcomes": outcomes})

    @app.post("/v1/prove", openapi_extra=_body(ProveBody, raw=True), tags=["proofs"])
    async def prove(
        request: Request, client: Client = own, query: dict[str, Any] = of_upload,
        timeout: Annotated[float | None, Query(ge=0)] = None,
    ) -> Response:  # fmt: skip
        """Submits and waits. Without an idempotency key the job ends with the connection."""
        received = asyncio.Event()
        with admitted(request, intake, client, Role.CLIENT) as reservation:
            header = request.headers.get("idempotency-key")
            keep = bool(header)

            async def uploading(_taken: object) -> Job:
                try:
                    return await upload(request, client, query, reservation)
                finally:
                    received.set()

            submitting: Submit = uploading
            if content_type(request) != BYTES:
                wanted, seconds = await read_json(
                    request, intake, reservation, ProveBody, lambda body: body.wanted_until(header)
                )
                received.set()
                timeout = seconds if timeout is None else timeout
                keep = keep or bool(wanted.proof.idempotency_key)
                submitting = partial(service.submit, client, wanted)
                # The witness is on disk long before the proof is made; free its memory.
                del wanted
            proving = asyncio.ensure_future(
                service.prove(client, submitting, timeout, keep=keep, submitted=reservation.close)
            )
            del submitting
            return _found(await _while_connected(request, proving, received))

    @app.get("/v1/proofs", tags=["proofs"])
    async def list_proofs(
        client: Client = own,
        most: Annotated[int, Query(ge=1, le=1000)] = 50,
        before: str | None = None,
    ) -> Response:
        """The newest jobs of the client, without results."""
        return await service.jobs(
            client, most, before, lambda jobs: JSONResponse({"jobs": [*map(job_json, jobs)]})
        )

    @app.get("/v1/proofs/{job}", tags=["proofs"])
    async def await_proof(
        request: Request, job: str, client: Client = own,
        timeout: Annotated[float, Query(ge=0)] = 0.0,
    ) -> Response:  # fmt: skip
        """A job; with `timeout` (seconds) at its end, or as it is then."""
        waiting = asyncio.ensure_future(service.wait(client, job, timeout))
        return _found(await _while_connected(request, waiting))

    @app.delete("/v1/proofs/{job}", tags=["proofs"])
    async def cancel_proof(job: str, client: Client = own) -> Response:
        """Ends a job at once; one that has ended stays as it is."""
        return JSONResponse(job_json(await service.cancel(client, job)))

    @app.get("/v1/proofs/{job}/events", tags=["proofs"])
    async def watch_proof(
        request: Request, job: str, client: Client = own,
        after: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:  # fmt: skip
        """Server-sent events until the job's end; `Last-Event-ID` goes on after that one."""
        last = request.headers.get("last-event-id", "")
        if last and not (last.isascii() and last.isdigit() and len(last) < 19):
            raise InputError("must be the number of an event", section="Last-Event-ID")
        events = service.watch(client, job, int(last or after), _COMMENT_SECONDS)
        return await _stream(events, event_text)

    @app.get("/v1/keys", tags=["keys"])
    async def list_keys(client: Client = own) -> Response:
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


def _add_operation(app: FastAPI, service: ProvingService, own: Any) -> None:
    """What operators do and look at."""

    @app.post("/v1/keys/{key}/{action}", openapi_extra=_body(KeyBody), tags=["keys"])
    async def act_on_key(request: Request, key: str, action: str, client: Client = own) -> Response:
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

    @app.post("/v1/workers/{worker}/resume", openapi_extra=_body(KeyBody), tags=["operation"])
    async def resume_worker(worker: str, client: Client = own) -> Response:
        """Lets a quarantined worker work again. For operators."""
        await service.resume_worker(client, worker)
        return JSONResponse({})

    @app.get("/status", tags=["operation"])
    async def status(client: Client = own) -> Response:
        """Queue, workers, keys, jobs and the stages of the last minute. For operators."""
        return JSONResponse(await service.status(client))

    @app.get("/status/jobs/{job}", tags=["operation"])
    async def job_status(job: str, client: Client = own) -> Response:
        """A job of any client with its events and attempts. For operators."""
        return JSONResponse(await service.job_page(client, job))

    @app.get("/status/stages", tags=["operation"])
    async def stages(client: Client = own, after: Annotated[int, Query(ge=0)] = 0) -> Response:
        """Stages as they end (server-sent events), from `stages_after` on. For operators."""
        client.require(Role.OPERATOR)

        async def run() -> AsyncGenerator[tuple[list[Any], int], None]:
            last, quiet = after, 0.0
            with service.streams.one(client.name):
                while not service.draining:
                    found, number = service.activity.stages(last)
                    if number != last or quiet == 0.0 or quiet >= _COMMENT_SECONDS:
                        yield found, number
                        quiet = 0.0
                    last, quiet = number, quiet + _STAGES_SECONDS
                    await asyncio.sleep(_STAGES_SECONDS)

        def text(one: tuple[list[Any], int]) -> str:
            data = JSONResponse({"stages": [stage_document(stage) for stage in one[0]]}).body
            return f"id: {one[1]}\nevent: stages\ndata: {bytes(data).decode()}\n\n"

        return await _stream(run(), text)

    @app.get("/metrics", tags=["operation"])
    async def metrics(client: Client = own) -> Response:
        """Metrics for Prometheus. For the role metrics."""
        client.require(Role.METRICS)
        text = await service.read(service.observer.metrics.text)
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _add_health(app: FastAPI, service: ProvingService) -> None:
    """Whether the process lives, and whether it should be sent work; for anybody."""

    @app.get("/health/live", tags=["health"])
    async def live() -> Response:
        return JSONResponse({"live": True})

    @app.get("/health/ready", tags=["health"])
    async def ready() -> Response:
        state = service.state().state
        return JSONResponse({"state": state}, 200 if service.ready else 503)


def _add_refusals(app: FastAPI) -> None:
    """Whatever goes wrong is answered in one form."""

    async def of_quod(_: Request, error: Exception) -> Response:
        return refused(error)

    async def of_arguments(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field = str(first["loc"][-1])
        return refused(InputError(first["msg"], section=field))

    async def of_routes(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = {404: "NOT_FOUND", 405: "INVALID_ARGUMENT"}.get(error.status_code, "INTERNAL")
        return refusal_response(Refusal(status, status, str(error.detail)), error.status_code)

    async def of_leaving(_: Request, _error: Exception) -> Response:
        # Nobody reads it.
        return Response(status_code=499)

    async def of_anything(_: Request, error: Exception) -> Response:
        return refused(error)

    app.add_exception_handler(QuodError, of_quod)
    app.add_exception_handler(RequestValidationError, of_arguments)
    app.add_exception_handler(HTTPException, of_routes)
    app.add_exception_handler(ClientDisconnect, of_leaving)
    app.add_exception_handler(Exception, of_anything)


def _body(model: type[BaseModel], *, raw: bool = False) -> dict[str, Any]:
    """What OpenAPI says of a body that a handler reads itself."""
    schema = model.model_json_schema()
    inner = schema.pop("$defs", {})
    content: dict[str, Any] = {"application/json": {"schema": _inlined(schema, inner)}}
    if raw:
        content[BYTES] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(schema: Any, inner: dict[str, Any]) -> Any:
    """A schema with the models in place that it refers to; none refers to itself."""
    if isinstance(schema, list):
        return [_inlined(one, inner) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(inner[schema["$ref"].rpartition("/")[2]], inner)
    return {name: _inlined(one, inner) for name, one in schema.items()}


def _found(found: FoundJob) -> Response:
    return JSONResponse(found_json(found), 200 if found.job.state.ended else 202)


async def _stream(items: AsyncGenerator[Any, None], text: Callable[[Any], str]) -> Response:
    """A response of server-sent events; what is refused is refused before it begins."""
    first = await anext(items, None)

    async def lines() -> AsyncIterator[str]:
        async with aclosing(items):
            yield text(first)
            async for item in items:
                yield text(item)

    return StreamingResponse(lines(), media_type="text/event-stream")


async def _while_connected(
    request: Request, work: asyncio.Future[FoundJob], received: asyncio.Event | None = None
) -> FoundJob:
    """Return the result of `work`, which is cancelled if the client disconnects.

    Until the request is `received`, its reader notices a disconnect.
    """

    async def gone() -> None:
        if received is not None:
            await received.wait()
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(gone())
    try:
        both: list[asyncio.Future[Any]] = [work, leaving]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        return work.result()
    finally:
        leaving.cancel()
        if not work.done():
            work.cancel()
