"""The blocking client of a proving server."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import TypeVar

import grpc

from quod.errors import QuodError
from quod.service.client import wire
from quod.service.client.records import ProofRequest, RemoteJob, Tokens, tokens_of
from quod.service.generation.requests import GenerationRequest
from quod.service.queue.records import Event
from quod.service.records import RemoteKey, RemoteModel, ServerStatus

T = TypeVar("T")


class Client(wire.Connection):
    """A connection to a server. Thread-safe.

    address: ``unix:PATH`` or ``HOST:PORT``.
    token: the secret that identifies the client.
    certificate: the file of the authority that signed the server's certificate, or True for the
        system's authorities; needed over TCP to encrypt the connection.
    """

    def __init__(
        self, address: str, *, token: str | None = None,
        certificate: str | os.PathLike[str] | bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(grpc, address, token, certificate)

    def submit(self, request: ProofRequest) -> RemoteJob:
        """Submit a job; returns when the server has stored the job on disk."""
        return self._do(wire.submit(request))

    def submit_many(self, requests: Sequence[ProofRequest]) -> list[RemoteJob | QuodError]:
        """Submit up to 1,000 jobs; return the job or the error of each request, in order.

        The jobs are sent in as few messages of up to 3 MiB as possible. If one of several messages
        fails, its error is the outcome of each of its jobs; the error of a single message is
        raised.
        """
        groups, outcomes = wire.groups(requests), list[RemoteJob | QuodError]()
        for group in groups:
            try:
                group_outcomes = self._do(wire.submit_many(group))
                outcomes += group_outcomes
            except QuodError as error:
                outcomes += wire.failed_group(groups, group, error)
        return outcomes

    def prove(self, request: ProofRequest, timeout: float | None = None) -> RemoteJob:
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
        job = self._do(call)
        job = job if job.state.ended else self.wait(job.id, wire.remaining_seconds(deadline))
        job.require_results()
        return job

    def wait(self, job: str, timeout: float | None = None) -> RemoteJob:
        """Wait up to `timeout` seconds for the end of a job; return the job as it is then."""
        deadline = wire.deadline_after(timeout)
        while True:
            remote_job = self._do(
                wire.await_proof(job, min(wire.remaining_seconds(deadline), wire.WAIT_SECONDS))
            )
            if remote_job.state.ended or wire.remaining_seconds(deadline) <= 0:
                return remote_job

    def watch(self, job: str, after: int = 0) -> Generator[Event, None, None]:
        """Yield the events of a job with numbers above `after`, until the job ends.

        After an UnavailableError call it again with the number of the last event.
        """
        yield from self._stream(wire.watch(job, after))

    def submit_generation(self, request: GenerationRequest) -> RemoteJob:
        """Submit a job that generates text; returns when the server has stored the job on disk."""
        return self._do(wire.submit_generation(request))

    def generate(self, request: GenerationRequest) -> Generator[Tokens, None, None]:
        """Generate text; yield its tokens as the server sends them.

        Raises ServiceError with the reason if the job fails. If the generator is closed before its
        end, the server cancels the job, unless the request has an idempotency key.
        """
        for item in self._stream(wire.generate(request)):
            if (tokens := tokens_of(item)) is not None:
                yield tokens

    def models(self) -> list[RemoteModel]:
        """Return the language models that this client may use."""
        return self._do(wire.models())

    def cancel(self, job: str) -> RemoteJob:
        """Cancel a job; an ended job stays unchanged."""
        return self._do(wire.cancel(job))

    def jobs(self, most: int = 50, before: str = "") -> list[RemoteJob]:
        """Return at most `most` jobs of this client, newest first, without results.

        before: the id of a job; only older jobs are returned.
        """
        return self._do(wire.jobs(most, before))

    def status(self) -> ServerStatus:
        """Return the state of the server and of this client's jobs."""
        return self._do(wire.status())

    def keys(self) -> list[RemoteKey]:
        """Return the keys that this client may use."""
        return self._do(wire.keys())

    def preload(self, key: str, worker: str = "", timeout: float | None = None) -> None:
        """Load a key on one worker, or on all. For operators."""
        self._do(wire.preload(key, worker, timeout))

    def evict(self, key: str, worker: str = "") -> None:
        """Evict a key from one worker, or from all. For operators."""
        self._do(wire.evict(key, worker))

    def resume_key(self, key: str) -> None:
        """Resume a suspended key. For operators."""
        self._do(wire.resume_key(key))

    def resume_worker(self, worker: str) -> None:
        """Resume a quarantined worker. For operators."""
        self._do(wire.resume_worker(worker))

    def close(self) -> None:
        """Close the connection and end pending calls."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stream(self, call: wire.Call[T]) -> Generator[T, None, None]:
        """Yield the responses of a call; closing the generator ends the call."""
        responses = self._calls[call.name](call.request, metadata=self._metadata)
        try:
            for response in responses:
                yield call.read(response)
        except grpc.RpcError as error:
            raise wire.error_of_call(error, self._address) from None
        finally:
            responses.cancel()

    def _do(self, call: wire.Call[T]) -> T:
        request = iter(call.request) if isinstance(call.request, list) else call.request
        try:
            return call.read(self._calls[call.name](request, metadata=self._metadata))
        except grpc.RpcError as error:
            raise wire.error_of_call(error, self._address) from None
