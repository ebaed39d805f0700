"""Submission of jobs: permissions, payloads on disk, and the queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from quod.errors import InputError, QuodError
from quod.frozen import frozen
from quod.service.errors import PermissionDeniedError, QueueFullError
from quod.service.keys import KeyRepository
from quod.service.keys.names import is_identity, parse_name
from quod.service.payload import PayloadKind, path_body, payload_header
from quod.service.queue import Job, JobQueue, Submission
from quod.service.queue.blob_store import BlobWriter
from quod.service.server.clients import Client, Role
from quod.service.server.config import RequestLimits
from quod.service.server.pending_bytes import PendingBytes
from quod.service.server.requests import CompleteRequest, ProofRequest
from quod.service.server.slots import Slots

T = TypeVar("T")

MAX_SUBMISSIONS = 1000
"""The maximum number of jobs that one call submits."""

_MIN_GROUP = 8
"""From this number of payloads on, one sync of the file system is faster than one per file."""

_NAME_SECONDS = 0.5
"""Seconds for which a resolved name is cached, as resolving takes as long as the rest of a call."""

_MAX_NAMES = 1000

_WRITERS = 8
"""Threads that write payloads: they mostly wait for the disk, which syncs several at once."""

OnTaken = Callable[[Job], None]

_Payload = tuple[CompleteRequest, tuple[bytes, ...]]
"""A request, and the chunks of its payload."""


@frozen
class _StoredPayload:
    """The digest of a request, with its payload or the payload's name in the blob store."""

    digest: bytes
    name: str = ""
    body: bytes = b""


def read_submissions(
    items: Sequence[T], read: Callable[[T], CompleteRequest]
) -> list[CompleteRequest | QuodError]:
    """Read the requests of one call; for each the request, or the error of reading it.

    Raises `InputError` for too many requests, before any of them is read.
    """
    if len(items) > MAX_SUBMISSIONS:
        raise InputError(
            f"a call submits up to {MAX_SUBMISSIONS} jobs, not {len(items)}; use several calls"
        )
    requests: list[CompleteRequest | QuodError] = []
    for item in items:
        try:
            requests.append(read(item))
        except QuodError as error:
            requests.append(error)
    return requests


class Submitter:
    """The submission of jobs, for the event loop's thread, which never waits for a sync.

    A completely received request is submitted even if its client disconnects meanwhile.
    """

    def __init__(self, queue: JobQueue, repository: KeyRepository, limits: RequestLimits) -> None:
        self._queue, self._repository, self._limits = queue, repository, limits
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="quod-payload")
        # A single thread, so that slow path lookups delay only other path lookups.
        self._finder = ThreadPoolExecutor(1, thread_name_prefix="quod-find")
        self._uploads = Slots("uploads", limits.uploads)
        self._pending = PendingBytes(queue.limits)
        self._identities: dict[str, tuple[str, float]] = {}

    def close(self) -> None:
        """Stop the threads."""
        self._finder.shutdown()
        self._writers.shutdown()

    def identity(self, client: Client, key: str) -> str:
        """Return the identity of a key that the client may use. Thread-safe.

        Raises PermissionDeniedError for any other key, whether or not it exists.
        """
        if client.keys is not None:
            name = key if is_identity(key) else str(parse_name(key))
            if name not in client.keys and not self._is_one_of(name, client.keys):
                raise PermissionDeniedError(f"{client.name} may not use this key")
        cached_identity = self._identities.get(key)
        if cached_identity is None or cached_identity[1] < time.monotonic():
            if len(self._identities) >= _MAX_NAMES:
                self._identities.clear()
            cached_identity = self._repository.resolve(key), time.monotonic() + _NAME_SECONDS
            self._identities[key] = cached_identity
        return cached_identity[0]

    async def submit(
        self, client: Client, request: CompleteRequest, taken: OnTaken | None = None
    ) -> Job:
        """Submit a job with its payload; for `taken` see `JobQueue.begin_submit`."""
        [outcome] = await self.submit_many(client, [request], taken)
        if isinstance(outcome, QuodError):
            raise outcome
        return outcome

    async def submit_many(
        self, client: Client, requests: Sequence[CompleteRequest | QuodError],
        taken: OnTaken | None = None,
    ) -> list[Job | QuodError]:  # fmt: skip
        """Submit jobs with one commit; return for each the job or its error.

        Requests that are errors already are returned unchanged.
        """
        client.require(Role.CLIENT)
        return await to_its_end(self._submit_many(client, requests, taken))

    async def _submit_many(
        self, client: Client, requests: Sequence[CompleteRequest | QuodError], taken: OnTaken | None
    ) -> list[Job | QuodError]:
        outcomes: list[Job | QuodError | None] = [None] * len(requests)
        # Resolving client paths, or many keys, would block the event loop.
        loop = asyncio.get_running_loop()
        if any(map(_names_files, requests)):
            checked_requests = await loop.run_in_executor(
                self._finder, self._check_requests, client, requests
            )
        elif len(requests) >= _MIN_GROUP:
            checked_requests = await loop.run_in_executor(
                self._writers, self._check_requests, client, requests
            )
        else:
            checked_requests = self._check_requests(client, requests)
        accepted: list[tuple[int, CompleteRequest, str, tuple[bytes, ...]]] = []
        for index, checked_request in enumerate(checked_requests):
            if isinstance(checked_request, QuodError):
                outcomes[index] = checked_request
            else:
                accepted.append((index, *checked_request))
        stored_payloads = await self._store_payloads(
            [(request, chunks) for _, request, _, chunks in accepted]
        )
        submissions: list[Submission] = []
        indices: list[int] = []
        for (index, request, identity, _), payload in zip(accepted, stored_payloads):
            if isinstance(payload, QuodError):
                outcomes[index] = payload
                continue
            try:
                submissions.append(_submission(client, request.proof, identity, payload))
                indices.append(index)
            except QuodError as error:
                outcomes[index] = error
                await self._in_thread(self._queue.blob_store.discard, [payload.name])
        if submissions:
            results = await asyncio.wrap_future(self._queue.begin_submit(submissions, taken))
            for index, outcome in zip(indices, results, strict=True):
                outcomes[index] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def _check_requests(
        self, client: Client, requests: Sequence[CompleteRequest | QuodError]
    ) -> list[tuple[CompleteRequest, str, tuple[bytes, ...]] | QuodError]:
        """Check requests; return for each its key's identity and its payload, or the error."""
        outcomes: list[tuple[CompleteRequest, str, tuple[bytes, ...]] | QuodError] = []
        for request in requests:
            try:
                if isinstance(request, QuodError):
                    raise request
                identity = self._check_permissions(client, request.proof)
                outcomes.append((request, identity, self._payload(client, request)))
            except QuodError as error:
                outcomes.append(error)
        return outcomes

    async def upload(
        self, client: Client, request: ProofRequest, chunks: AsyncIterator[bytes]
    ) -> Job:
        """Submit a job whose witnesses arrive in chunks, of the lengths in the request.

        Raises InputError and deletes the chunks if they are shorter or longer.
        """
        client.require(Role.CLIENT)
        identity = self._check_permissions(client, request)
        header = payload_header(request.kind, request.lengths)
        total, digest = sum(request.lengths), request.digest()
        self._check_size(client, len(header) + total)
        with self._uploads.hold(client.name), ExitStack() as pending, ExitStack() as unfinished:
            usage = await self._in_thread(lambda: self._queue.status().payload_bytes)
            pending.enter_context(self._pending.reserve(client.name, len(header) + total, usage))
            writer = unfinished.enter_context(self._queue.blob_store.writing())
            await self._in_thread(writer.write, header)
            await self._receive(writer, total, chunks, digest)
            complete_file = unfinished.pop_all()
            return await to_its_end(
                self._submit_upload(
                    client, request, identity, digest.digest(), complete_file, writer.name
                )
            )

    async def _receive(
        self, writer: BlobWriter, total: int, chunks: AsyncIterator[bytes], digest: Any
    ) -> None:
        received, loop, idle = 0, asyncio.get_running_loop(), self._limits.idle_seconds
        seconds = self._limits.seconds_for(total)
        last_deadline = loop.time() + seconds
        while True:
            deadline = min(loop.time() + idle, last_deadline)
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                limit_text = (
                    f"in {seconds:g} s"
                    if deadline == last_deadline
                    else f"before a pause of {idle:g} s"
                )
                raise InputError(
                    f"{received} of {total} bytes arrived {limit_text}; send them faster"
                ) from None
            if chunk is None:
                break
            received += len(chunk)
            if received > total:
                raise InputError(f"the upload has more than the announced {total} bytes")
            digest.update(chunk)
            await self._in_thread(writer.write, chunk)
        if received < total:
            raise InputError(f"the upload ended early: {received} of {total} bytes arrived")

    async def _submit_upload(
        self, client: Client, request: ProofRequest, identity: str, digest: bytes,
        complete_file: ExitStack, name: str,
    ) -> Job:  # fmt: skip
        """Submit a complete upload; closing `complete_file` syncs and names its file."""
        await self._in_thread(complete_file.close)
        try:
            submission = _submission(client, request, identity, _StoredPayload(digest, name))
        except QuodError:
            await self._in_thread(self._queue.blob_store.discard, [name])
            raise
        [outcome] = await asyncio.wrap_future(self._queue.begin_submit([submission]))
        if isinstance(outcome, QuodError):
            raise outcome
        return outcome

    async def _store_payloads(
        self, payloads: Sequence[_Payload]
    ) -> list[_StoredPayload | QuodError]:
        """Write payloads to disk, or keep small ones for the queue; return the result for each."""
        if len(payloads) < _MIN_GROUP and all(map(self._is_small, payloads)):
            # Waking a thread would take longer.
            return self._write_payloads(payloads)
        # No cancellation reaches this call: `submit_many` runs it to its end.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writers, self._write_payloads, payloads)

    def _write_payloads(self, payloads: Sequence[_Payload]) -> list[_StoredPayload | QuodError]:
        blob_store = self._queue.blob_store
        large_payloads = [
            chunks for request, chunks in payloads if not self._is_small((request, chunks))
        ]
        names: list[str] = []
        try:
            if len(large_payloads) < _MIN_GROUP:
                names += map(blob_store.write, large_payloads)
            else:
                names += blob_store.write_many(large_payloads)
        except QuodError as error:
            blob_store.discard(names)
            return [error] * len(payloads)
        unclaimed_names = iter(names)
        return [
            _StoredPayload(digest, body=b"".join(chunks))
            if self._is_small((request, chunks))
            else _StoredPayload(digest, next(unclaimed_names))
            for request, chunks in payloads
            for digest in [_digest(request)]
        ]

    def _is_small(self, payload: _Payload) -> bool:
        """Report whether the queue stores the payload with the job, which saves a sync."""
        return sum(map(len, payload[1])) <= self._queue.max_body

    def _check_permissions(self, client: Client, request: ProofRequest) -> str:
        """Check priority, root and key of a request; return the key's identity."""
        if request.priority > client.priority:
            raise PermissionDeniedError(
                f"the highest priority of {client.name} is {client.priority}, not "
                f"{request.priority}"
            )
        if request.kind is PayloadKind.PATH and client.root is None:
            raise PermissionDeniedError(
                f"{client.name} has no root and must not name files; send the witness"
            )
        if request.kind in (PayloadKind.VANILLA_PROOFS, PayloadKind.PROMPT):
            return check_key_name(client, request.key)
        return self.identity(client, request.key)

    def _payload(self, client: Client, request: CompleteRequest) -> tuple[bytes, ...]:
        """Build the chunks of a request's payload."""
        bodies = request.bodies
        if request.proof.kind is PayloadKind.PATH:
            root = client.root or ""
            bodies = tuple(path_body(root, body.decode(errors="replace")) for body in bodies)
        header = payload_header(request.proof.kind, [len(body) for body in bodies])
        self._check_size(client, len(header) + sum(map(len, bodies)))
        return (header, *bodies)

    def _check_size(self, client: Client, size: int) -> None:
        """Raise at once if a payload exceeds a limit by itself, before it is on disk."""
        if size > self._limits.witness_bytes:
            raise InputError(
                f"the payload would have {size} bytes, more than the limit of "
                f"{self._limits.witness_bytes}"
            )
        limits = self._queue.limits
        max_bytes = min(limits.quota_of(client.name).payload_bytes, limits.payload_bytes)
        if size > max_bytes:
            raise QueueFullError(
                f"the payload would have {size} bytes, more than the client's limit of "
                f"{max_bytes} for all payloads",
                retry_seconds=limits.keep_seconds,
            )

    def _is_one_of(self, key: str, names: frozenset[str]) -> bool:
        try:
            identity = self._repository.resolve(key)
        except QuodError:
            return False
        return identity in names or identity in self._identities_of(names)

    def _identities_of(self, names: frozenset[str]) -> set[str]:
        """Return the identities of a client's key names.

        Only these names are resolved, as a repository may have many others.
        """
        identities = set()
        for name in names:
            with suppress(QuodError):
                identities.add(self._repository.resolve(name))
        return identities

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        async def run() -> T:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._writers, work, *arguments)

        # A file must not be closed while a thread writes to it.
        return await to_its_end(run())


def _names_files(request: CompleteRequest | QuodError) -> bool:
    return isinstance(request, CompleteRequest) and request.proof.kind is PayloadKind.PATH


def check_key_name(client: Client, name: str) -> str:
    """Return the name of a Filecoin circuit or a language model, the key of its jobs.

    Raises PermissionDeniedError for one that the client may not use, whether or not it exists.
    """
    if client.keys is not None and str(parse_name(name)) not in client.keys:
        raise PermissionDeniedError(f"{client.name} may not use this key")
    return name


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, even if the caller is cancelled; the caller waits for the end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            # The error is retrieved and dropped, as its caller was cancelled.
            task.exception()
        raise


def _digest(request: CompleteRequest) -> bytes:
    """Return the digest of a request, without its bodies if it has no idempotency key."""
    includes_bodies = bool(request.proof.idempotency_key)
    request_digest: bytes = request.proof.digest(request.bodies if includes_bodies else ()).digest()
    return request_digest


def _submission(
    client: Client, request: ProofRequest, identity: str, payload: _StoredPayload
) -> Submission:
    return Submission(
        client.name, identity, payload.digest, payload.name, request.idempotency_key,
        request.priority, request.deadline, len(request.lengths), payload.body,
    )  # fmt: skip
