"""The calls that generate text, on a server with models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from quod.service.errors import NotFoundError
from quod.service.generation.models import Models
from quod.service.generation.pool import GenerationPool
from quod.service.generation.requests import GenerationRequest
from quod.service.keys.names import parse_name
from quod.service.payload import PayloadKind
from quod.service.queue import Event, Job
from quod.service.records import RemoteModel
from quod.service.server.clients import Client, Role
from quod.service.server.requests import CompleteRequest, ProofRequest
from quod.service.server.service import JobWithResults, ProvingService
from quod.service.server.submission import check_key_name, to_its_end

_SMALL_CHARACTERS = 1 << 14
"""A longer prompt is split into tokens alone, as many at a time would take the server's threads."""

Progress = JobWithResults | Event | None


def models_of(service: ProvingService) -> Models:
    """Return the models of a server; raises NotFoundError if it has none."""
    if not isinstance(service.pool, GenerationPool):
        raise NotFoundError("this server has no models; its operator configures them")
    return service.pool.models


def list_models(service: ProvingService, client: Client) -> list[RemoteModel]:
    """Return the models that a client may use; for operators all models."""
    client.require(Role.CLIENT, Role.OPERATOR)
    records = [model.record() for model in models_of(service)]
    if Role.OPERATOR in client.roles or client.keys is None:
        return records
    return [each for each in records if str(parse_name(each.name)) in client.keys]


async def submit_generation(
    service: ProvingService, client: Client, request: GenerationRequest
) -> Job:
    """Submit a job that generates text; it is on disk when this returns.

    Raises PermissionDeniedError and NotFoundError for the model, and InputError as
    `ServedModel.prompt`.
    """
    client.require(Role.CLIENT)
    check_key_name(client, request.model)
    model = models_of(service).of(request.model)

    def body() -> bytes:
        return model.prompt(request).body()

    if _characters(request) <= _SMALL_CHARACTERS:
        data = await service.read(body)
    else:
        async with service.parsing:
            data = await to_its_end(service.read(body))
    proof = ProofRequest(
        request.model, PayloadKind.PROMPT, (len(data),), request.idempotency_key,
        request.priority, request.deadline,
    )  # fmt: skip
    return await service.submit(client, CompleteRequest(proof, (data,)))


async def generate(
    service: ProvingService, client: Client, request: GenerationRequest, tick: float | None = None
) -> AsyncGenerator[Progress, None]:
    """Submit a job and yield it, then its events, and at its end the job with its result.

    Without an idempotency key the job is cancelled if the caller stops early. With `tick`, yields
    None after each `tick` seconds without an event.
    """
    keep = bool(request.idempotency_key)
    with service.abandoning(
        partial(submit_generation, service, client, request), keep=keep
    ) as submission:
        job = await asyncio.shield(submission)
        yield JobWithResults(job)
        async with aclosing(service.watch(client, job.id, 0, tick)) as events:
            async for event in events:
                yield event
        outcome = await service.wait(client, job.id, 0.0)
    yield outcome


def _characters(request: GenerationRequest) -> int:
    messages = request.messages or ()
    return len(request.prompt or "") + sum(len(message["content"]) for message in messages)
