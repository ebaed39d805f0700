"""The protocol of cuzk, Curio's proving daemon: its calls as jobs of the service."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc

from quod.device.backends import backend_of
from quod.filecoin.parameters.identifiers import ProofKind
from quod.filecoin.statements import Statement
from quod.service.filecoin.circuit_ids import CIRCUITS, circuit_id, parameters_of
from quod.service.filecoin.parameter_folder import require_parameters
from quod.service.filecoin.requests import check_devices, parse_request, priority_of
from quod.service.keys import Tier
from quod.service.payload import PayloadKind
from quod.service.protocol import cuzk_pb2 as pb
from quod.service.protocol.calls import CUZK_CALLS, CUZK_SERVICE
from quod.service.queue import Job, JobState
from quod.service.server.clients import Client, Clients
from quod.service.server.requests import CompleteRequest, ProofRequest
from quod.service.server.rpc import AdmissionControl, Submitted, service_handlers
from quod.service.server.service import JobWithResults, ProvingService
from quod.service.server.submission import to_its_end

_STATUSES: Final = {
    JobState.SUCCEEDED: pb.AwaitProofResponse.COMPLETED,
    JobState.FAILED: pb.AwaitProofResponse.FAILED,
    JobState.CANCELLED: pb.AwaitProofResponse.CANCELLED,
}
"""The status of ended jobs; an expired job, and one that has not ended in time, is TIMEOUT."""

_KINDS: Final = {
    ProofKind.POREP: pb.POREP_SEAL_COMMIT,
    ProofKind.UPDATE: pb.SNAP_DEALS_UPDATE,
    ProofKind.WINDOW: pb.WINDOW_POST_PARTITION,
    ProofKind.WINNING: pb.WINNING_POST,
}

_SMALL_BYTES: Final = 1 << 20
"""The largest request that is parsed concurrently with others: that of a WinningPoSt fits."""

_TIMES: Final = ("srs_load_ms", "synthesis_ms", "gpu_compute_ms")


def cuzk_handlers(
    service: ProvingService, clients: Clients, folder: Path, *, is_local: bool
) -> grpc.GenericRpcHandler:
    """Return the handlers of cuzk's calls for grpcio; see `quod.service.server.rpc.handlers`.

    folder: the folder of the parameters.
    """
    admission = AdmissionControl(service, clients, is_local)
    return service_handlers(CUZK_SERVICE, CUZK_CALLS, CuzkCalls(service, folder), admission)


class CuzkCalls:
    """The calls of cuzk's protocol, for authenticated clients."""

    def __init__(self, service: ProvingService, folder: Path) -> None:
        self._service, self._folder = service, folder

    async def submit_proof(
        self, client: Client, request: pb.SubmitProofRequest
    ) -> pb.SubmitProofResponse:
        job = await self._service.submit(client, await self._complete_request(client, request))
        position = await self._service.read(partial(self._service.queue.jobs_before, job.id))
        return pb.SubmitProofResponse(job_id=job.id, queue_position=position)

    async def await_proof(
        self, client: Client, request: pb.AwaitProofRequest
    ) -> pb.AwaitProofResponse:
        timeout = request.timeout_ms / 1000 or None
        return _result(await self._service.wait(client, request.job_id, timeout))

    async def prove(
        self, client: Client, request: pb.ProveRequest, submitted: Submitted
    ) -> pb.ProveResponse:
        complete_request = await self._complete_request(client, request.submit)
        proving = self._service.prove(
            client, partial(self._service.submit, client, complete_request), None, keep=False,
            submitted=submitted,
        )  # fmt: skip
        # Drop the references to the vanilla proofs, which `submit` stores, during the proof.
        del request, complete_request
        return pb.ProveResponse(result=_result(await proving))

    async def cancel_proof(
        self, client: Client, request: pb.CancelProofRequest
    ) -> pb.CancelProofResponse:
        job = await self._service.cancel(client, request.job_id)
        was_running = job.state is JobState.CANCELLED and job.started is not None
        return pb.CancelProofResponse(was_running=was_running)

    async def get_status(
        self, _client: Client, _request: pb.GetStatusRequest
    ) -> pb.GetStatusResponse:
        service = self._service
        workers, unfinished = await service.read(
            lambda: (service.pool.status(), service.queue.unfinished())
        )
        response = pb.GetStatusResponse(
            total_proofs_completed=sum(worker.proofs for worker in workers),
            total_proofs_failed=sum(worker.failures for worker in workers),
            uptime_seconds=max(int(time.time() - service.started), 0),
        )
        for ordinal, worker in enumerate(workers):
            # A worker has one job.
            job = next(iter(worker.jobs), "")
            key = next(iter(worker.wanted), "")
            row = backend_of(worker.device)
            has_vram = row is None or not row.of_the_processor
            response.gpus.add(
                ordinal=ordinal, name=worker.device,
                vram_total_bytes=sum(worker.memory.values()) if has_vram else 0,
                vram_free_bytes=worker.memory.get("free", 0) if has_vram else 0, current_job_id=job,
                current_proof_kind=_kind_name(key) if key else "",
            )  # fmt: skip
            for usage in worker.keys.keys:
                tier = pb.SRSStatus.HOT if usage.tier is Tier.DEVICE else pb.SRSStatus.WARM
                response.loaded_srs.add(
                    circuit_id=usage.key, tier=tier,
                    size_bytes=usage.host_bytes + usage.device_bytes, ref_count=usage.leases,
                )  # fmt: skip
        jobs: Counter[tuple[str, bool]] = Counter()
        for (key, state), count in unfinished.items():
            jobs[_kind_name(key), state is JobState.RUNNING] += count
        for kind in sorted({kind for kind, _ in jobs}):
            response.queues.add(
                proof_kind=kind, pending=jobs[kind, False], in_progress=jobs[kind, True]
            )
        return response

    async def get_metrics(
        self, _client: Client, _request: pb.GetMetricsRequest
    ) -> pb.GetMetricsResponse:
        text = await self._service.read(self._service.observer.metrics.text)
        return pb.GetMetricsResponse(prometheus_text=text.decode())

    async def preload_srs(
        self, _client: Client, request: pb.PreloadSrsRequest
    ) -> pb.PreloadSrsResponse:
        name = circuit_id(parameters_of(request.circuit_id))
        loaded = name in self._loaded_bytes()
        begin = time.monotonic()
        await self._service.change_keys(lambda: self._service.pool.preload(name))
        seconds = time.monotonic() - begin
        return pb.PreloadSrsResponse(already_loaded=loaded, load_time_ms=round(1000 * seconds))

    async def evict_srs(self, _client: Client, request: pb.EvictSrsRequest) -> pb.EvictSrsResponse:
        name = circuit_id(parameters_of(request.circuit_id))
        freed = self._loaded_bytes().get(name, 0)
        await self._service.change_keys(lambda: self._service.pool.evict(name))
        return pb.EvictSrsResponse(was_loaded=freed > 0, freed_bytes=freed)

    def _loaded_bytes(self) -> Counter[str]:
        """Return the bytes of the loaded parameters on all workers, by circuit."""
        loaded: Counter[str] = Counter()
        for worker in self._service.pool.status():
            for usage in worker.keys.keys:
                loaded[usage.key] += usage.host_bytes + usage.device_bytes
        return loaded

    async def _complete_request(
        self, client: Client, request: pb.SubmitProofRequest
    ) -> CompleteRequest:
        """Parse a request; return the request and the payload of its job.

        Raises the errors of `parse_request`, and NotFoundError if the server lacks the parameters.
        """

        devices = [worker.device for worker in self._service.pool.status()]

        def parse() -> tuple[bytes, Statement]:
            statement = parse_request(request).statement
            check_devices(statement.parameters, devices)
            require_parameters(self._folder, statement.parameters)
            return request.SerializeToString(), statement

        if request.ByteSize() <= _SMALL_BYTES:
            body, statement = await self._service.read(parse)
        else:
            async with self._service.parsing:
                body, statement = await to_its_end(self._service.read(parse))
        parameters, partitions = statement.parameters, statement.partitions
        bodies = (body, *[b""] * (partitions - 1))
        # The kind of proof may give a higher priority than the client may use. Clients of this
        # protocol do not choose it, so it is lowered instead of refused.
        priority = min(priority_of(request, parameters.kind), client.priority)
        proof = ProofRequest(
            circuit_id(parameters), PayloadKind.VANILLA_PROOFS, tuple(map(len, bodies)),
            priority=priority,
        )  # fmt: skip
        return CompleteRequest(proof, bodies)


def _result(outcome: JobWithResults) -> pb.AwaitProofResponse:
    """Encode the state of a job, with the proof of all partitions if it has succeeded."""
    job, results = outcome.job, [json.loads(result) for result in outcome.results]
    times: dict[str, Any] = {name: sum(result[name] for result in results) for name in _TIMES}
    return pb.AwaitProofResponse(
        job_id=job.id,
        status=_STATUSES.get(job.state, pb.AwaitProofResponse.TIMEOUT),
        proof=b"".join(bytes.fromhex(result["proof"]) for result in results),
        error_message=job.message,
        queue_wait_ms=_milliseconds(job, job.started),
        total_ms=_milliseconds(job, job.ended),
        **times,
    )


def _milliseconds(job: Job, end: float | None) -> int:
    """Return the milliseconds from a job's submission to a time; 0 for no time."""
    return 0 if end is None else max(round(1000 * (end - job.created)), 0)


def _kind_name(key: str) -> str:
    """Return the name of the kind of proof of a job's key, such as WINNING_POST."""
    parameters = CIRCUITS.get(key)
    return "" if parameters is None else pb.ProofKind.Name(_KINDS[parameters.kind])
