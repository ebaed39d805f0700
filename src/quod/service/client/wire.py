"""The gRPC calls of both clients: each is a request and the decoder of its response."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from quod.errors import InputError, QuodError, ServiceError
from quod.frozen import frozen
from quod.service.client.records import ProofRequest, RemoteJob
from quod.service.errors import UnauthenticatedError, UnavailableError
from quod.service.generation.requests import GenerationRequest
from quod.service.protocol import quod_pb2 as pb
from quod.service.protocol.calls import CALLS, RemoteCall
from quod.service.protocol.messages import (
    decode_message,
    duration,
    encode_message,
    seconds_of,
    timestamp,
)
from quod.service.queue.records import Event
from quod.service.records import RemoteKey, RemoteModel, ServerStatus
from quod.service.refusals import DOMAIN, Refusal, error_of
from quod.validation import file_path

T = TypeVar("T")

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 60_000),
)
WAIT_SECONDS: Final = 600.0
"""The maximum wait of one call in seconds; longer waits take several calls."""

# A server that stops ends its pending calls with CANCELLED.
_NO_ANSWER: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)
# Larger witnesses are uploaded in chunks.
_MAX_INLINE_WITNESS_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20
_MAX_PEM_BYTES: Final = 1 << 20
# gRPC's default limit of messages is 4 MiB.
_MAX_INLINE_INPUT_BYTES: Final = 3 << 20
_MAX_GROUP_BYTES: Final = 3 << 20
# An upper bound on the fields of a request other than its witnesses.
_REQUEST_OVERHEAD_BYTES: Final = 1 << 10
_RETRY_SECONDS: Final = 1.0

_job: Final = partial(decode_message, RemoteJob)


@frozen
class Call(Generic[T]):
    """A call: its name in the protocol, its request, and the decoder of its response.

    request: a message, or a list of messages for a streaming request.
    """

    name: str
    request: Any
    read: Callable[[Any], T]


def is_large(request: ProofRequest) -> bool:
    """Report whether the witnesses or inputs of a request are uploaded in chunks."""
    limit = _MAX_INLINE_WITNESS_BYTES if request.wtns is not None else _MAX_INLINE_INPUT_BYTES
    return request.path is None and sum(map(len, _bodies(request))) > limit


def submit(request: ProofRequest) -> Call[RemoteJob]:
    """Submit a job in one message, or in chunks if the witnesses or inputs are large."""
    if is_large(request):
        return Call("UploadProof", list(_upload(request)), _job)
    message = pb.SubmitProofRequest()
    _write(message, request)
    return Call("SubmitProof", message, _job)


def groups(requests: Sequence[ProofRequest]) -> list[list[ProofRequest]]:
    """Split requests in order into groups, one for each message; a large request is alone."""
    result: list[list[ProofRequest]] = []
    free_bytes = 0
    for request in requests:
        size = sum(map(len, _bodies(request))) + _REQUEST_OVERHEAD_BYTES
        if size > free_bytes or is_large(request):
            result.append([])
            free_bytes = _MAX_GROUP_BYTES
        free_bytes = 0 if is_large(request) else free_bytes - size
        result[-1].append(request)
    return result


def submit_many(group: Sequence[ProofRequest]) -> Call[list[RemoteJob | QuodError]]:
    """Submit a group of requests that `groups` returned."""
    if len(group) == 1 and is_large(group[0]):
        return Call("UploadProof", list(_upload(group[0])), lambda answer: [_job(answer)])
    message = pb.SubmitProofsRequest()
    for request in group:
        _write(message.proofs.add(), request)
    return Call("SubmitProofs", message, lambda answer: [*map(_outcome, answer.outcomes)])


def prove(request: ProofRequest, timeout: float | None) -> Call[RemoteJob]:
    message = pb.ProveRequest(timeout=duration(timeout))
    _write(message.proof, request)
    return Call("Prove", message, _job)


def await_proof(job: str, timeout: float | None) -> Call[RemoteJob]:
    """Wait for the end of a job, at most `timeout` seconds."""
    message = pb.AwaitProofRequest(job=job, timeout=duration(timeout))
    return Call("AwaitProof", message, _job)


def cancel(job: str) -> Call[RemoteJob]:
    return Call("CancelProof", pb.CancelProofRequest(job=job), _job)


def watch(job: str, after: int) -> Call[Event]:
    return Call(
        "WatchProof", pb.WatchProofRequest(job=job, after=after), partial(decode_message, Event)
    )


def submit_generation(request: GenerationRequest) -> Call[RemoteJob]:
    return Call("SubmitGeneration", _generation_message(request), _job)


def generate(request: GenerationRequest) -> Call[RemoteJob | Event]:
    """Submit a job that generates text and stream it, its events and its end."""
    return Call("Generate", _generation_message(request), _job_or_event)


def _generation_message(request: GenerationRequest) -> pb.GenerationRequest:
    messages = [pb.Message(**message) for message in request.messages or ()]
    return pb.GenerationRequest(
        model=request.model, prompt=request.prompt, messages=messages,
        max_tokens=request.max_tokens, temperature=request.temperature, seed=request.seed,
        idempotency_key=request.idempotency_key, priority=request.priority,
        deadline=timestamp(request.deadline),
    )  # fmt: skip


def _job_or_event(response: pb.GenerateResponse) -> RemoteJob | Event:
    if response.WhichOneof("content") == "job":
        return _job(response.job)
    return decode_message(Event, response.event)


def models() -> Call[list[RemoteModel]]:
    return Call(
        "ListModels", pb.ListModelsRequest(),
        lambda answer: [decode_message(RemoteModel, model) for model in answer.models],
    )  # fmt: skip


def jobs(most: int, before: str) -> Call[list[RemoteJob]]:
    message = pb.ListProofsRequest(most=most, before=before)
    return Call("ListProofs", message, lambda answer: [*map(_job, answer.jobs)])


def status() -> Call[ServerStatus]:
    return Call("GetStatus", pb.GetStatusRequest(), partial(decode_message, ServerStatus))


def keys() -> Call[list[RemoteKey]]:
    return Call(
        "ListKeys", pb.ListKeysRequest(),
        lambda answer: [decode_message(RemoteKey, key) for key in answer.keys],
    )  # fmt: skip


def preload(key: str, worker: str, timeout: float | None) -> Call[None]:
    message = pb.PreloadKeyRequest(key=key, worker=worker, timeout=duration(timeout))
    return Call("PreloadKey", message, _nothing)


def evict(key: str, worker: str) -> Call[None]:
    return Call("EvictKey", pb.EvictKeyRequest(key=key, worker=worker), _nothing)


def resume_key(key: str) -> Call[None]:
    return Call("ResumeKey", pb.ResumeKeyRequest(key=key), _nothing)


def resume_worker(worker: str) -> Call[None]:
    return Call("ResumeWorker", pb.ResumeWorkerRequest(worker=worker), _nothing)


def metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return the headers of every call.

    Raises InputError for a malformed token, without showing it.
    """
    if token is None:
        return ()
    text: object = token
    if not isinstance(text, str) or not (text.isascii() and text.isprintable() and text):
        raise InputError("a token must be printable text")
    return (("authorization", f"Bearer {token}"),)


def channel(library: Any, address: object, certificate: object) -> Any:
    """Open a channel of `grpc` or `grpc.aio`.

    Raises InputError for a malformed address or an unreadable certificate.
    """
    if not isinstance(address, str) or not (":" in address and address.isprintable()):
        raise InputError("the server's address must be unix:PATH or HOST:PORT")
    if certificate is None or certificate is False:
        return library.insecure_channel(address, _OPTIONS)
    authority = None
    if certificate is not True:
        path = file_path(certificate)
        try:
            with open(path, "rb") as file:
                authority = file.read(_MAX_PEM_BYTES + 1)
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", path=path) from None
        if len(authority) > _MAX_PEM_BYTES:
            raise InputError(
                f"is longer than the limit for a certificate ({_MAX_PEM_BYTES:,} bytes)", path=path
            )
    return library.secure_channel(address, grpc.ssl_channel_credentials(authority), _OPTIONS)


def error_of_call(error: Any, address: str) -> QuodError:
    """Convert gRPC's error of a call to the server at `address` to an error of Quod."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    refusal = None if status is None else _refusal(error.code().name, status)
    if refusal is not None:
        return error_of(refusal)
    code, message = error.code(), " ".join((error.details() or "").split())
    if code in _NO_ANSWER:
        # gRPC describes its connection attempts before the last colon.
        reason = message.rpartition(": ")[2]
        return UnavailableError(
            f"the server at {address} does not answer ({reason})", retry_seconds=_RETRY_SECONDS
        )
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return UnauthenticatedError(message)
    return ServiceError(f"the call failed: {code.name}: {message}")


class Connection:
    """The channel of a client, of `grpc` or `grpc.aio`, and its calls."""

    def __init__(
        self, library: Any, address: str, token: str | None,
        certificate: str | os.PathLike[str] | bool | None,
    ) -> None:  # fmt: skip
        self._address = address
        self._metadata = metadata(token)
        self._channel = channel(library, address, certificate)
        self._calls = {name: bound(self._channel, call) for name, call in CALLS.items()}


def failed_group(
    groups: Sequence[object], group: Sequence[object], error: QuodError
) -> list[QuodError]:
    """Return a group's error for each of its jobs; raises the error if it is the only group."""
    if len(groups) == 1:
        raise error
    return [error] * len(group)


def bound(channel: Any, call: RemoteCall) -> Callable[..., Any]:
    """Return the callable of a unary or streaming call on a channel."""
    make = (
        channel.unary_stream
        if call.response_streams
        else channel.stream_unary if call.request_streams else channel.unary_unary
    )  # fmt: skip
    multi_callable: Callable[..., Any] = make(
        call.path, request_serializer=call.write_request, response_deserializer=call.read_response
    )
    return multi_callable


def deadline_after(timeout: float | None) -> float:
    """Return the deadline of a timeout in seconds on the monotonic clock; None is no deadline."""
    return float("inf") if timeout is None else time.monotonic() + timeout


def remaining_seconds(limit: float) -> float:
    """Return the seconds until a deadline, at least 0."""
    return max(limit - time.monotonic(), 0.0)


def _refusal(code: str, status: Any) -> Refusal | None:
    """Decode the refusal of a status; None if the status is not from the service."""
    reason, retry = "", None
    for detail in status.details:
        error_info, retry_info = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(error_info) and error_info.domain == DOMAIN:
            reason = error_info.reason
        elif detail.Unpack(retry_info):
            retry = seconds_of(retry_info.retry_delay)
    return Refusal(code, reason, status.message, retry) if reason else None


def _write(message: pb.SubmitProofRequest, request: ProofRequest) -> None:
    """Write a request into a message in place, as a new message would copy the witnesses again."""
    message.MergeFrom(encode_message(pb.SubmitProofRequest, request))
    for body in _bodies(request):
        message.witnesses.add(**{request.source: body})


def _bodies(request: ProofRequest) -> list[Any]:
    """Return what is transmitted for each partition: bytes, a path, or inputs as ASCII JSON."""
    return [*map(_json, request.witnesses)] if request.inputs is not None else request.witnesses


def _upload(request: ProofRequest) -> Iterator[pb.UploadProofRequest]:
    bodies = _bodies(request)
    if request.inputs is not None:
        bodies = [body.encode() for body in bodies]
    begin = encode_message(
        pb.UploadProofRequest.Begin, request, lengths=map(len, bodies),
        inputs=request.inputs is not None,
    )  # fmt: skip
    yield pb.UploadProofRequest(begin=begin)
    for body in bodies:
        for start in range(0, len(body), _CHUNK_BYTES):
            yield pb.UploadProofRequest(piece=body[start : start + _CHUNK_BYTES])


def _json(inputs: object) -> str:
    try:
        return json.dumps(inputs, allow_nan=False)
    except (TypeError, ValueError):
        raise InputError(
            "inputs must map names to whole numbers, strings, or lists of these"
        ) from None


def _outcome(outcome: pb.SubmitProofsResponse.Outcome) -> RemoteJob | QuodError:
    if outcome.WhichOneof("outcome") == "job":
        return _job(outcome.job)
    return error_of(decode_message(Refusal, outcome.refusal))


def _nothing(_answer: object) -> None:
    return None
