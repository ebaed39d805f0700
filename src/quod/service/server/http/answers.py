"""JSON answers: jobs, and refusals with the HTTP status that matches their gRPC code."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import JSONResponse, Response

from quod.service.encoding import encode_answer
from quod.service.queue import Event
from quod.service.refusals import HTTP_STATUS, Refusal, refusal_of
from quod.service.server.service import JobWithResults


def refused(error: BaseException) -> Response:
    """Build the answer to a request that failed with an error."""
    return refusal_response(refusal_of(error))


def refusal_response(refusal: Refusal, status: int | None = None) -> Response:
    """Build the answer for a refusal, with `Retry-After` if a retry may succeed."""
    headers = {}
    if refusal.retry_seconds is not None:
        headers["Retry-After"] = str(math.ceil(refusal.retry_seconds))
    if refusal.status == "UNAUTHENTICATED":
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(
        {"error": encode_answer(refusal)},
        status or HTTP_STATUS.get(refusal.status, 500),
        headers,
    )


def job_document(job_results: JobWithResults) -> dict[str, Any]:
    """Encode a job with its results."""
    document: dict[str, Any] = encode_answer(job_results.job)
    if job_results.results:
        document["results"] = [json.loads(result) for result in job_results.results]
    return document


def job_response(job_results: JobWithResults) -> Response:
    """Build the answer for a job with its results: 202 until it has ended, then 200."""
    return JSONResponse(job_document(job_results), 200 if job_results.job.state.ended else 202)


def event_text(event: Event | None) -> str:
    """Format a server-sent event; None is a comment, which keeps the connection open."""
    if event is None:
        return ":\n\n"
    data = json.dumps(encode_answer(event))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n"
