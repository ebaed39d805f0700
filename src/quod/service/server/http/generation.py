"""The routes of text generation: submit, and stream."""

from __future__ import annotations

import json
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from quod.service.encoding import encode_answer
from quod.service.generation.requests import DEFAULT_TOKENS, MAX_SEED, GenerationRequest
from quod.service.queue.records import HIGHEST_PRIORITY
from quod.service.server.clients import Role
from quod.service.server.http.answers import event_text, job_document
from quod.service.server.http.bodies import (
    StrictBody,
    admitted,
    body_schema,
    merged_key,
    read_json,
)
from quod.service.server.http.context import Caller, Service
from quod.service.server.http.streams import COMMENT_SECONDS, event_stream
from quod.service.server.service import JobWithResults

router: Final = APIRouter(tags=["generation"])


class MessageBody(StrictBody):
    """A message of a conversation."""

    role: str = Field(description="system, user or assistant.")
    content: str


class GenerationBody(StrictBody):
    """A request for text: either a prompt or messages."""

    model: str = Field(description="The name of a model of the server.")
    prompt: str | None = Field(None, description="The text to continue.")
    messages: list[MessageBody] | None = Field(None, description="A conversation.")
    max_tokens: int = Field(DEFAULT_TOKENS, ge=0)
    temperature: float = Field(0.0, description="0, or from 0.01 to 100.")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Default: from the prompt.")
    priority: int = Field(0, ge=0, le=HIGHEST_PRIORITY)
    deadline: float | None = Field(None, description="Seconds since 1970.")
    idempotency_key: str = Field("", description="Or the header Idempotency-Key.")

    def to_request(self, header: str | None) -> GenerationRequest:
        """Convert to a request; `header` is the idempotency key of the HTTP header."""
        return GenerationRequest(
            self.model, self.prompt,
            None if self.messages is None else [each.model_dump() for each in self.messages],
            self.max_tokens, self.temperature, self.seed,
            merged_key(self.idempotency_key, header), self.priority, self.deadline,
        )  # fmt: skip


@router.post("/v1/generations", status_code=202, openapi_extra=body_schema(GenerationBody))
async def submit_generation(request: Request, service: Service, client: Caller) -> Response:
    """Submit a job that generates text; its events and its result are those of `/v1/proofs/JOB`."""
    # The module loads language models, which other servers do not have.
    from quod.service.generation import calls

    with admitted(request, service.intake, client, Role.CLIENT) as reservation:
        header = request.headers.get("idempotency-key")
        generation = await read_json(
            request, service.intake, reservation, GenerationBody,
            lambda body: body.to_request(header),
        )  # fmt: skip
        job = await calls.submit_generation(service, client, generation)
    return JSONResponse(encode_answer(job), 202, {"Location": f"/v1/proofs/{job.id}"})


@router.post("/v1/generate", openapi_extra=body_schema(GenerationBody))
async def generate(request: Request, service: Service, client: Caller) -> Response:
    """Generate text as server-sent events: the job, its events, and the job with its result.

    Without an idempotency key a disconnect cancels the job.
    """
    from quod.service.generation import calls

    with admitted(request, service.intake, client, Role.CLIENT) as reservation:
        header = request.headers.get("idempotency-key")
        generation = await read_json(
            request, service.intake, reservation, GenerationBody,
            lambda body: body.to_request(header),
        )  # fmt: skip
        return await event_stream(
            calls.generate(service, client, generation, COMMENT_SECONDS), _progress_text
        )


@router.get("/v1/models")
async def list_models(service: Service, client: Caller) -> Response:
    """List the language models that the client may use."""
    from quod.service.generation import calls

    return JSONResponse({"models": encode_answer(calls.list_models(service, client))})


def _progress_text(progress: object) -> str:
    """Format a job or an event as a server-sent event."""
    if isinstance(progress, JobWithResults):
        return f"event: job\ndata: {json.dumps(job_document(progress))}\n\n"
    return event_text(progress)  # type: ignore[arg-type]
