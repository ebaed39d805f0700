"""The service over gRPC: each call of the protocol, implemented with `ProvingService`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final, cast

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from quod.errors import InputError, QuodError
from quod.service.generation.requests import DEFAULT_TOKENS, GenerationRequest
from quod.service.payload import PayloadKind
from quod.service.protocol import quod_pb2 as pb
from quod.service.protocol.calls import CALLS, SERVICE, RemoteCall
from quod.service.protocol.fields import check_fields, malformed
from quod.service.protocol.messages import (
    decode_message,
    duration,
    encode_message,
    job_message,
    time_of,
)
from quod.service.queue import Job
from quod.service.records import ServerStatus
from quod.service.refusals import DOMAIN, INTERNAL, Refusal, refusal_of
from quod.service.server.budget import CALL_BYTES, Reservation, owner_of
from quod.service.server.clients import Client, Clients, Role
from quod.service.server.intake import MAX_VALUES
from quod.service.server.observing import TRACEPARENT
from quod.service.server.requests import CompleteRequest, ProofRequest
from quod.service.server.service import JobWithResults, ProvingService
from quod.service.server.submission import read_submissions

Context = grpc.aio.ServicerContext[Any, Any]

PUSHBACK: Final = "grpc-retry-pushback-ms"

_OPERATOR: Final = (Role.OPERATOR,)
_ROLES: Final[Mapping[str, tuple[Role, ...]]] = {
    "CancelProof": (Role.CLIENT, Role.OPERATOR),
    "GetStatus": tuple(Role),
    "ListKeys": (Role.CLIENT, Role.OPERATOR),
    "ListModels": (Role.CLIENT, Role.OPERATOR),
    "PreloadKey": _OPERATOR,
    "EvictKey": _OPERATOR,
    "ResumeKey": _OPERATOR,
    "ResumeWorker": _OPERATOR,
    "PreloadSRS": _OPERATOR,
    "EvictSRS": _OPERATOR,
    "GetMetrics": (Role.METRICS, Role.OPERATOR),
}
"""The roles that may make a call of either service: CLIENT for calls that are not listed."""

Submitted = Callable[[], None]

_log = logging.getLogger(__name__)


class Calls:
    """The calls of the protocol, for authenticated clients."""

    def __init__(self, service: ProvingService) -> None:
        self._service = service

    async def submit_proof(self, client: Client, request: pb.SubmitProofRequest) -> pb.Job:
        return job_message(await self._service.submit(client, _complete_request(request)))

    async def submit_proofs(
        self, client: Client, request: pb.SubmitProofsRequest
    ) -> pb.SubmitProofsResponse:
        proof_requests = read_submissions(request.proofs, _complete_request)
        outcomes = await self._service.submit_many(client, proof_requests)
        return pb.SubmitProofsResponse(outcomes=map(_outcome, outcomes))

    async def upload_proof(
        self, client: Client, requests: AsyncIterator[pb.UploadProofRequest]
    ) -> pb.Job:
        first = await anext(requests, None)
        if first is None or first.WhichOneof("part") != "begin":
            raise InputError("the first message of an upload must be the request")
        kind = PayloadKind.INPUTS if first.begin.inputs else PayloadKind.WTNS
        proof_request = decode_message(ProofRequest, first.begin, kind=kind)
        return job_message(await self._service.upload(client, proof_request, _chunks(requests)))

    async def prove(self, client: Client, request: pb.ProveRequest, submitted: Submitted) -> pb.Job:
        proof_request, timeout = _complete_request(request.proof), time_of(request, "timeout")
        proving = self._service.prove(
            client, partial(self._service.submit, client, proof_request), timeout,
            keep=bool(proof_request.proof.idempotency_key), submitted=submitted,
        )  # fmt: skip
        # Drop the references to the witness, which `submit` stores, while the proof is made.
        del request, proof_request
        return _job_message(await proving)

    async def await_proof(self, client: Client, request: pb.AwaitProofRequest) -> pb.Job:
        return _job_message(
            await self._service.wait(client, request.job, time_of(request, "timeout"))
        )

    async def cancel_proof(self, client: Client, request: pb.CancelProofRequest) -> pb.Job:
        return job_message(await self._service.cancel(client, request.job))

    async def watch_proof(
        self, client: Client, request: pb.WatchProofRequest
    ) -> AsyncGenerator[pb.Event, None]:
        async with aclosing(self._service.watch(client, request.job, request.after)) as events:
            async for event in events:
                if event is not None:
                    yield encode_message(pb.Event, event)

    async def submit_generation(self, client: Client, request: pb.GenerationRequest) -> pb.Job:
        # The module loads language models, which other servers do not have.
        from quod.service.generation import calls

        generation = _generation_request(request)
        return job_message(await calls.submit_generation(self._service, client, generation))

    async def generate(
        self, client: Client, request: pb.GenerationRequest
    ) -> AsyncGenerator[pb.GenerateResponse, None]:
        from quod.service.generation import calls

        generation = _generation_request(request)
        async with aclosing(calls.generate(self._service, client, generation)) as items:
            async for item in items:
                if isinstance(item, JobWithResults):
                    yield pb.GenerateResponse(job=_job_message(item))
                elif item is not None:
                    yield pb.GenerateResponse(event=encode_message(pb.Event, item))

    async def list_models(
        self, client: Client, _request: pb.ListModelsRequest
    ) -> pb.ListModelsResponse:
        from quod.service.generation import calls

        models = calls.list_models(self._service, client)
        return pb.ListModelsResponse(models=[encode_message(pb.Model, model) for model in models])

    async def list_proofs(
        self, client: Client, request: pb.ListProofsRequest
    ) -> pb.ListProofsResponse:
        return await self._service.jobs(
            client, request.most or 50, request.before or None,
            lambda jobs: pb.ListProofsResponse(jobs=map(job_message, jobs)),
        )  # fmt: skip

    async def get_status(self, client: Client, _request: pb.GetStatusRequest) -> pb.Status:
        jobs, size = await self._service.usage(client)
        is_operator = Role.OPERATOR in client.roles
        document = await self._service.status(client) if is_operator else None
        state = self._service.state()
        status = ServerStatus(state.version, state.state, state.started, jobs, size, document)
        return encode_message(pb.Status, status)

    async def preload_key(
        self, client: Client, request: pb.PreloadKeyRequest
    ) -> pb.PreloadKeyResponse:
        timeout = time_of(request, "timeout")
        await self._service.preload(client, request.key, request.worker, timeout)
        return pb.PreloadKeyResponse()

    async def evict_key(self, client: Client, request: pb.EvictKeyRequest) -> pb.EvictKeyResponse:
        await self._service.evict(client, request.key, request.worker)
        return pb.EvictKeyResponse()

    async def resume_key(
        self, client: Client, request: pb.ResumeKeyRequest
    ) -> pb.ResumeKeyResponse:
        await self._service.resume_key(client, request.key)
        return pb.ResumeKeyResponse()

    async def resume_worker(
        self, client: Client, request: pb.ResumeWorkerRequest
    ) -> pb.ResumeWorkerResponse:
        await self._service.resume_worker(client, request.worker)
        return pb.ResumeWorkerResponse()

    async def list_keys(self, client: Client, _request: pb.ListKeysRequest) -> pb.ListKeysResponse:
        keys = await self._service.keys(client)
        return pb.ListKeysResponse(keys=[encode_message(pb.Key, key) for key in keys])


def handlers(
    service: ProvingService, clients: Clients, *, is_local: bool
) -> grpc.GenericRpcHandler:
    """Return the handlers of the calls for grpcio; `is_local` if only this user has access."""
    admission = AdmissionControl(service, clients, is_local)
    return service_handlers(SERVICE, CALLS, Calls(service), admission)


def service_handlers(
    service: str, table: Mapping[str, RemoteCall], calls: object, admission: AdmissionControl
) -> grpc.GenericRpcHandler:
    """Return the handlers of a service, whose calls are methods of `calls`."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for name, call in table.items():
        work = getattr(calls, _snake(name))
        if call.response_streams:
            methods[name] = grpc.stream_stream_rpc_method_handler(admission.streaming(call, work))
        else:
            methods[name] = grpc.stream_unary_rpc_method_handler(admission.answering(call, work))
    return grpc.method_handlers_generic_handler(service, methods)


class AdmissionControl:
    """Admission control of calls: checks the token, the role and the memory budget."""

    def __init__(self, service: ProvingService, clients: Clients, is_local: bool) -> None:
        self._service, self._clients, self._is_local = service, clients, is_local

    def answering(
        self, call: RemoteCall, work: Callable[..., Awaitable[Any]]
    ) -> Callable[[AsyncIterator[bytes], Context], Awaitable[bytes]]:
        """Wrap a call with one answer."""
        # The request of Prove is on disk long before its answer, so its memory is freed early.
        frees_request = call.name == "Prove"

        async def run(messages: AsyncIterator[bytes], context: Context) -> bytes:
            async with self._admitted(call.name, context) as (client, reservation):
                release = [partial(reservation.return_to, CALL_BYTES)] if frees_request else []
                if call.request_streams:
                    answer = await work(client, self._requests(call, messages, reservation))
                else:
                    answer = await work(
                        client, await self._request(call, messages, reservation), *release
                    )
                data = call.write_response(answer)
                reservation.return_to(CALL_BYTES)
                if len(data) > CALL_BYTES:
                    reservation.take(len(data))
                return data

        return run

    def streaming(
        self, call: RemoteCall, work: Callable[[Client, Any], AsyncGenerator[Any, None]]
    ) -> Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]:
        """Wrap a call with a stream of answers."""

        async def run(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            async with self._admitted(call.name, context) as (client, reservation):
                request = await self._request(call, messages, reservation)
                async with aclosing(work(client, request)) as answers:
                    async for answer in answers:
                        yield call.write_response(answer)

        return run

    @asynccontextmanager
    async def _admitted(
        self, name: str, context: Context
    ) -> AsyncIterator[tuple[Client, Reservation]]:
        begin, client_name, status = time.perf_counter(), "", "OK"
        TRACEPARENT.set(_header(context, "traceparent") or "")
        try:
            header = _header(context, "authorization")
            client = self._clients.client(header, is_local=self._is_local)
            client_name = client.name
            client.require(*_ROLES.get(name, (Role.CLIENT,)))
            reservation = self._service.intake.budget.of(owner_of(client, context.peer()))
            # An answer that the client has not read stays in memory after the handler ends.
            at_end(context, reservation.close)
            reservation.take(CALL_BYTES)
            yield client, reservation
        except Exception as error:
            refusal = _refusal(name, error)
            status = refusal.status
            await refuse(context, refusal)
        finally:
            self._service.observer.answered(name, client_name, status, time.perf_counter() - begin)

    async def _request(
        self, call: RemoteCall, messages: AsyncIterator[bytes], reservation: Reservation
    ) -> Any:
        """Receive the only request of a call."""
        intake = self._service.intake
        message = await intake.message(messages, reservation)
        if message is None:
            raise InputError("the call has no request; send one")
        return await intake.parse(message, partial(_read, call))

    async def _requests(
        self, call: RemoteCall, messages: AsyncIterator[bytes], reservation: Reservation
    ) -> AsyncIterator[Any]:
        """Receive the requests of a call one by one."""
        intake = self._service.intake
        while (message := await intake.message(messages, reservation)) is not None:
            yield await intake.parse(message, partial(_read, call))
            reservation.return_to(CALL_BYTES)


def _read(call: RemoteCall, request: bytes) -> Any:
    check_fields(request, call.request_fields, MAX_VALUES)
    try:
        return call.read_request(request)
    except DecodeError:
        raise malformed() from None


def _refusal(name: str, error: Exception) -> Refusal:
    if not isinstance(error, QuodError):
        # Its text may contain anything, so only its type and traceback are logged.
        _log.error("the call %s failed: %s", name, type(error).__name__, exc_info=error)
    return refusal_of(error)


def rich_status(refusal: Refusal) -> status_pb2.Status:
    """Encode a refusal with the details of google.rpc."""
    details: list[Any] = [error_details_pb2.ErrorInfo(reason=refusal.reason, domain=DOMAIN)]
    if refusal.retry_seconds is not None:
        details.append(error_details_pb2.RetryInfo(retry_delay=duration(refusal.retry_seconds)))
    if refusal.status == "INVALID_ARGUMENT":
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=refusal.field, description=refusal.message
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    packed = []
    for detail in details:
        packed.append(any_pb2.Any())
        packed[-1].Pack(detail)
    code = code_pb2.Code.Value(refusal.status)
    return status_pb2.Status(code=code, message=refusal.message, details=packed)


def at_end(context: Context, work: Callable[[], None]) -> None:
    """Call `work` once a call has ended, whether or not its answer was read."""

    # The stubs name a concrete class.
    context.add_done_callback(lambda _: work())  # type: ignore[arg-type]


async def refuse(context: Context, refusal: Refusal) -> None:
    """End a call with a refusal and its details."""
    status = rpc_status.to_status(rich_status(refusal))
    trailers = list(status.trailing_metadata or ())
    if refusal.retry_seconds is not None:
        trailers.append((PUSHBACK, str(round(refusal.retry_seconds * 1000))))
    code = (
        grpc.StatusCode[refusal.status] if refusal.status != INTERNAL else grpc.StatusCode.INTERNAL
    )
    await context.abort(code, refusal.message, tuple(trailers))


def _header(context: Context, name: str) -> str | None:
    """Return the value of a header: None if missing, "" (never valid) if repeated."""
    values = [value for key, value in context.invocation_metadata() or () if key == name]
    return cast(str, values[0]) if len(values) == 1 else "" if values else None


async def _chunks(requests: AsyncIterator[pb.UploadProofRequest]) -> AsyncIterator[bytes]:
    async for request in requests:
        if request.WhichOneof("part") != "piece":
            raise InputError("after its first message an upload may have only chunks")
        yield request.piece


def _complete_request(request: pb.SubmitProofRequest) -> CompleteRequest:
    sources = [witness.WhichOneof("source") for witness in request.witnesses]
    if len({*sources}) != 1 or sources[0] is None:
        raise InputError(
            "a job must have one witness for each partition, all of one kind: wtns, path or inputs",
            section="witnesses",
        )
    [source] = {*sources}
    bodies = [getattr(witness, source) for witness in request.witnesses]
    if source != "wtns":
        bodies = [body.encode() for body in bodies]
    proof = decode_message(
        ProofRequest, request, kind=PayloadKind[source.upper()], lengths=tuple(map(len, bodies))
    )
    return CompleteRequest(proof, tuple(bodies))


def _generation_request(request: pb.GenerationRequest) -> GenerationRequest:
    messages = [{"role": each.role, "content": each.content} for each in request.messages]
    return GenerationRequest(
        request.model, request.prompt if request.HasField("prompt") else None, messages or None,
        request.max_tokens if request.HasField("max_tokens") else DEFAULT_TOKENS,
        request.temperature, request.seed if request.HasField("seed") else None,
        request.idempotency_key, request.priority, time_of(request, "deadline"),
    )  # fmt: skip


def _outcome(outcome: Job | QuodError) -> pb.SubmitProofsResponse.Outcome:
    if isinstance(outcome, Job):
        return pb.SubmitProofsResponse.Outcome(job=job_message(outcome))
    return pb.SubmitProofsResponse.Outcome(refusal=encode_message(pb.Refusal, refusal_of(outcome)))


def _job_message(job_results: JobWithResults) -> pb.Job:
    return job_message(job_results.job, job_results.results)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
