"""The client that blocks."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import TypeVar

import grpc

from quod.errors import QuodError
from quod.service.client import wire
from quod.service.client.records import ProofRequest, RemoteJob
from quod.service.queue.records import Event
from quod.service.records import RemoteKey, ServerStatus

T = TypeVar("T")


class Client(wire.Connection):
    """A server, for any threads.

    `address` is ``unix:PATH`` or ``HOST:PORT``. A `token` says who one is; over TCP give a
    `certificate` (that of the authority, or True for those of the system) so that nobody reads it.
    """

    def __init__(
        self, address: str, *, token: str | None = None,
        certificate: str | os.PathLike[str] | bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(grpc, address, token, certificate)

    def submit(self, request: ProofRequest) -> RemoteJob:
        """Has a job taken; it is on the server's disk when this returns."""
        return self._do(wire.submit(request))

    def submit_many(self, requests: Sequence[ProofRequest]) -> list[RemoteJob | QuodError]:
        """Has up to 1,000 jobs taken; for each the job, or why it was not taken.

        They are sent in as few messages of up to 3 MiB as possible. If one of several messages
        fails, its error is returned for each of its jobs.
        """
        groups, outcomes = wire.groups(requests), list[RemoteJob | QuodError]()
        for group in groups:
            try:
                answered = self._do(wire.submit_many(group))
                outcomes += answered
            except QuodError as error:
                outcomes += wire.refused_group(groups, group, error)
        return outcomes

    def prove(self, request: ProofRequest, timeout: float | None = None) -> RemoteJob:
        """Submits and waits; the job succeeded, or `ServiceError` says why not.

        Small witnesses take one call, and without an idempotency key the job ends with it.
        """
        limit = wire.limit_of(timeout)
        if wire.is_large(request):
            call = wire.submit(request)
        else:
            call = wire.prove(request, min(wire.left(limit), wire.WAIT_SECONDS))
        job = self._do(call)
        job = job if job.state.ended else self.wait(job.id, wire.left(limit))
        job.require_results()
        return job

    def wait(self, job: str, timeout: float | None = None) -> RemoteJob:
        """A job at its end, or as it is once `timeout` seconds are over."""
        limit = wire.limit_of(timeout)
        while True:
            found = self._do(wire.await_proof(job, min(wire.left(limit), wire.WAIT_SECONDS)))
            if found.state.ended or wire.left(limit) <= 0:
                return found

    def watch(self, job: str, after: int = 0) -> Generator[Event, None, None]:
        """Events of a job until its end, from number `after` + 1 on.

        After `UnavailableError` go on with the number of the last event.
        """
        call = wire.watch(job, after)
        events = self._calls[call.name](call.request, metadata=self._metadata)
        try:
            for event in events:
                yield call.read(event)
        except grpc.RpcError as error:
            raise wire.told(error, self._address) from None
        finally:
            events.cancel()

    def cancel(self, job: str) -> RemoteJob:
        """Ends a job at once; one that has ended stays as it is."""
        return self._do(wire.cancel(job))

    def jobs(self, most: int = 50, before: str = "") -> list[RemoteJob]:
        """The newest jobs of this client, without results; older than the job `before`."""
        return self._do(wire.jobs(most, before))

    def status(self) -> ServerStatus:
        """The server, and what this client has there."""
        return self._do(wire.status())

    def keys(self) -> list[RemoteKey]:
        """The keys that this client may use."""
        return self._do(wire.keys())

    def preload(self, key: str, worker: str = "", timeout: float | None = None) -> None:
        """Loads a key, on all workers or one. For operators, as what follows."""
        self._do(wire.preload(key, worker, timeout))

    def evict(self, key: str, worker: str = "") -> None:
        """Gives a key's memory back."""
        self._do(wire.evict(key, worker))

    def resume_key(self, key: str) -> None:
        """Gives out the jobs of a suspended key again."""
        self._do(wire.resume_key(key))

    def resume_worker(self, worker: str) -> None:
        """Lets a quarantined worker work again."""
        self._do(wire.resume_worker(worker))

    def close(self) -> None:
        """Ends the connection, and calls that wait."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, call: wire.Call[T]) -> T:
        request = iter(call.request) if isinstance(call.request, list) else call.request
        try:
            return call.read(self._calls[call.name](request, metadata=self._metadata))
        except grpc.RpcError as error:
            raise wire.told(error, self._address) from None
