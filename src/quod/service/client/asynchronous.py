"""The asyncio client, with the calls of `Client` as coroutines."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

import grpc

from quod.errors import QuodError
from quod.service.client import wire
from quod.service.client.records import ProofRequest, RemoteJob, Tokens, tokens_of
from quod.service.generation.requests import GenerationRequest
from quod.service.queue.records import Event
from quod.service.records import RemoteKey, RemoteModel, ServerStatus

T = TypeVar("T")


class AsyncClient(wire.Connection):
    """A connection to a server, bound to the current event loop.

    address: ``unix:PATH`` or ``HOST:PORT``.
    token: the secret that identifies the client.
    certificate: the file of the authority that signed the server's certificate, or True for the
        system's authorities; needed over TCP to encrypt the connection.
    """

    def __init__(
        self, address: str, *, token: str | None = None,
        certificate: str | os.PathLike[str] | bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(grpc.aio, address, token, certificate)

    async def submit(self, request: ProofRequest) -> RemoteJob:
        """Submit a job; returns when the server has stored the job on disk."""
        return await self._do(wire.submit(request))

    async def submit_many(self, requests: Sequence[ProofRequest]) -> list[RemoteJob | QuodError]:
        """Submit up to 1,000 jobs; return the job or the error of each request, in order.

        The jobs are sent in as few messages of up to 3 MiB as possible. If one of several messages
        fails, its error is the outcome of each of its jobs; the error of a single message is
        raised.
        """
        groups, outcomes = wire.groups(requests), list[RemoteJob | QuodError]()
        for group in groups:
            try:
                group_outcomes = await self._do(wire.submit_many(group))
                outcomes += group_outcomes
            except QuodError as error:
                outcomes += wire.failed_group(groups, group, error)
        return outcomes

    async def prove(self, request: ProofRequest, timeout: float | None = None) -> RemoteJob:
        """Submit a job and wait until it succeeds; raises ServiceError with the reason otherwise.

        timeout: the maximum wait in seconds; None waits without a limit.
        A request with a small witness is a single call. If that call is interrupted, the server
        cancels the job, unless the request has an idempotency key.
        """
        deadline = wire.deadline_after(timeout)
        if wire.is_large(request):
            call = wire.submit(request)
        else:
            call = wire.prove(request, min(wire.remaining_seconds(deadline), wire.WAIT_SECONDS))
        job = await self._do(call)
        job = job if job.state.ended else await self.wait(job.id, wire.remaining_seconds(deadline))
        job.require_results()
        return job

    async def wait(self, job: str, timeout: float | None = None) -> RemoteJob:
        """Wait up to `timeout` seconds for the end of a job; return the job as it is then."""
        deadline = wire.deadline_after(timeout)
        while True:
            remote_job = await self._do(
                wire.await_proof(job, min(wire.remaining_seconds(deadline), wire.WAIT_SECONDS))
            )
            if remote_job.state.ended or wire.remaining_seconds(deadline) <= 0:
                return remote_job

    async def watch(self, job: str, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yield the events of a job with numbers above `after`, until the job ends.

        After an UnavailableError call it again with the number of the last event.
        """
        async with aclosing(self._stream(wire.watch(job, after))) as events:
            async for event in events:
                yield event

    async def submit_generation(self, request: GenerationRequest) -> RemoteJob:
        """Submit a job that generates text; returns when the server has stored the job on disk."""
        return await self._do(wire.submit_generation(request))

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Tokens, None]:
        """Generate text; yield its tokens as the server sends them.

        Raises ServiceError with the reason if the job fails. If the generator is closed before its
        end, the server cancels the job, unless the request has an idempotency key.
        """
        async with aclosing(self._stream(wire.generate(request))) as items:
            async for item in items:
                if (tokens := tokens_of(item)) is not None:
                    yield tokens

    async def models(self) -> list[RemoteModel]:
        """Return the language models that this client may use."""
        return await self._do(wire.models())

    async def cancel(self, job: str) -> RemoteJob:
        """Cancel a job; an ended job stays unchanged."""
        return await self._do(wire.cancel(job))

    async def jobs(self, most: int = 50, before: str = "") -> list[RemoteJob]:
        """Return at most `most` jobs of this client, newest first, without results.

        before: the id of a job; only older jobs are returned.
        """
        return await self._do(wire.jobs(most, before))

    async def status(self) -> ServerStatus:
        """Return the state of the server and of this client's jobs."""
        return await self._do(wire.status())

    async def keys(self) -> list[RemoteKey]:
        """Return the keys that this client may use."""
        return await self._do(wire.keys())

    async def preload(self, key: str, worker: str = "", timeout: float | None = None) -> None:
        """Load a key on one worker, or on all. For operators."""
        await self._do(wire.preload(key, worker, timeout))

    async def evict(self, key: str, worker: str = "") -> None:
        """Evict a key from one worker, or from all. For operators."""
        await self._do(wire.evict(key, worker))

    async def resume_key(self, key: str) -> None:
        """Resume a suspended key. For operators."""
        await self._do(wire.resume_key(key))

    async def resume_worker(self, worker: str) -> None:
        """Resume a quarantined worker. For operators."""
        await self._do(wire.resume_worker(worker))

    async def close(self) -> None:
        """Close the connection and end pending calls."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _stream(self, call: wire.Call[T]) -> AsyncGenerator[T, None]:
        """Yield the responses of a call; closing the generator ends the call."""
        responses = self._calls[call.name](call.request, metadata=self._metadata)
        try:
            async for response in responses:
                yield call.read(response)
        except grpc.RpcError as error:
            raise wire.error_of_call(error, self._address) from None
        finally:
            responses.cancel()

    async def _do(self, call: wire.Call[T]) -> T:
        request = iter(call.request) if isinstance(call.request, list) else call.request
        try:
            return call.read(await self._calls[call.name](request, metadata=self._metadata))
        except grpc.RpcError as error:
            raise wire.error_of_call(error, self._address) from None
