"""The writer thread: calls that arrive during a commit share the next commit.

Callers get a future for each call. A call is never delayed to fill a batch: calls that arrive while
one batch is committed form the next. With Postgres a transaction has calls of one kind only, as it
holds locks that other processes wait for.

Waiting claims are kept here until work arrives. With SQLite they are answered in the transaction
that submits the work.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from quod.errors import QuodError
from quod.service.errors import StorageFullError, UnavailableError
from quod.service.queue.blob_store import BlobStore
from quod.service.queue.operations.claim import Claimed
from quod.service.queue.operations.payloads import erase, row_of
from quod.service.queue.signals import WORK
from quod.service.queue.stores.store import Store, UndoneError
from quod.service.queue.transaction import Transaction

Operation = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""A function that executes calls of one kind: from arguments to outcomes, in order."""

_WITHDRAW, _LOOK = "withdraw", "look"
"""Messages to the writer that are not operations."""

_MAX_CALLS = 4096
_MAX_ATTEMPTS = 5

_MAX_UNERASED_ROWS = 64
"""Above this number of rows to erase, they are erased even under load."""

_NOT_DURABLE = {"claim", "renew"}
"""Kinds of calls whose loss in a machine crash is harmless: the crash voids all leases anyway."""

_log = logging.getLogger(__name__)


@dataclass
class Call:
    """A call for the writer; its future gets the outcome after the commit."""

    kind: str
    argument: Any
    undone: Callable[[BaseException], None] = lambda error: None
    """Called with an error of the whole call before the caller gets it."""
    future: Future[Any] = field(default_factory=Future)
    waits: bool = False
    """For a claim: whether its future waits until there is work or it is withdrawn."""

    def fail(self, error: BaseException) -> None:
        self.undone(error)
        self.future.set_exception(error)


class Writer:
    """A thread that runs the operations of a queue."""

    def __init__(
        self, store: Store, blob_store: BlobStore, operations: Mapping[str, Operation]
    ) -> None:
        self._store, self._blob_store, self._operations = store, blob_store, operations
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._waiting: list[Call] = []
        # Whether the last claim without keys found the queue empty.
        self._is_empty = False
        self._rows_to_erase: list[int] = []
        self.erased = 0
        """The number of payload rows erased so far."""

        self._thread = threading.Thread(target=self._run, name="quod-queue", daemon=True)
        self._thread.start()

    def put(self, call: Call) -> Future[Any]:
        """Enqueue a call; return its future. Raises UnavailableError once the writer is closed."""
        with self._closing:
            if self._closed:
                raise UnavailableError("the queue is closed", retry_seconds=1.0)
            self._calls.put(call)
        return call.future

    def do(self, kind: str, argument: Any) -> Any:
        """Run an operation and return its outcome."""
        return self.put(Call(kind, argument)).result()

    def withdraw(self, call: Call) -> Any:
        """Stop a waiting claim; return its outcome after one last attempt."""
        self.put(Call(_WITHDRAW, call))
        return call.future.result()

    def look(self) -> None:
        """Retry waiting claims, as another process has added work; ignored once closed."""
        with self._closing:
            if not self._closed:
                self._calls.put(Call(_LOOK, None))

    def close(self) -> None:
        """Execute all enqueued calls, then stop the thread."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            calls = [self._calls.get()]
            try:
                while len(calls) < _MAX_CALLS:
                    calls.append(self._calls.get_nowait())
            except Empty:
                pass
            is_last = None in calls
            for group in self._groups(self._runnable_calls(calls)):
                self._write(group)
            if self._rows_to_erase and (
                is_last or len(self._rows_to_erase) > _MAX_UNERASED_ROWS or self._calls.empty()
            ):
                self._erase()
        for call in self._waiting:
            call.fail(UnavailableError("the queue is closed", retry_seconds=1.0))

    def _runnable_calls(self, calls: Sequence[Call | None]) -> list[Call]:
        """Select the calls to execute now; claims that would find nothing wait."""
        runnable = []
        for call in calls:
            if call is None:
                continue
            if call.kind == _LOOK:
                self._is_empty = False
                runnable += self._waiting
                self._waiting = []
            elif call.kind == _WITHDRAW:
                withdrawn = call.argument
                withdrawn.waits = False
                if withdrawn in self._waiting:
                    self._waiting.remove(withdrawn)
                    runnable.append(withdrawn)
            elif call.waits and self._is_empty:
                self._waiting.append(call)
            else:
                runnable.append(call)
        return runnable

    def _erase(self) -> None:
        """Erase payload rows without a sync; the next start repeats what a crash undoes."""
        rows, self._rows_to_erase = self._rows_to_erase, []
        try:
            self._store.write(lambda tx: erase(tx, rows), durable=False)
        except QuodError as error:
            _log.warning("payloads of finished jobs could not be deleted yet: %s", error)
            self._rows_to_erase = rows
            return
        self.erased += len(rows)

    def _groups(self, calls: Sequence[Call]) -> list[list[Call]]:
        """Group calls by transaction."""
        if not self._store.shared:
            return [list(calls)] if calls else []
        by_kind: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            by_kind[call.kind].append(call)
        return list(by_kind.values())

    def _write(self, calls: Sequence[Call], attempt: int = 1) -> None:
        """Execute calls in one transaction; if it is rolled back, retry each call alone."""
        waiting = self._waiting if attempt == 1 and not self._store.shared else []

        def work(tx: Transaction) -> list[tuple[Call, Any]]:
            claims = [call for call in calls if call.kind == "claim"]
            other_outcomes = self._outcomes(tx, [call for call in calls if call.kind != "claim"])
            if WORK in tx.changes.topics:
                claims = [*waiting, *claims]
            # Claims are answered first: workers need longer to react.
            return [*self._outcomes(tx, claims), *other_outcomes]

        try:
            durable = any(call.kind not in _NOT_DURABLE for call in calls)
            outcomes, changes = self._store.write(work, durable=durable)
        except UnavailableError as error:
            # The calls may have been committed, so their callers decide whether to repeat them.
            for call in calls:
                call.fail(error)
            return
        except BaseException as error:
            self._retry_alone(calls, error, attempt, joined=bool(waiting))
            return
        self._blob_store.forget(changes.kept)
        rows = [(name, row_of(name)) for name in changes.garbage]
        self._blob_store.discard_soon([name for name, row in rows if row is None])
        self._rows_to_erase += [row for _, row in rows if row is not None]
        if WORK in changes.topics:
            self._is_empty = False
        for call, outcome in outcomes:
            self._resolve(call, outcome)
        # A watcher subscribed by the submission also receives the events of this transaction.
        self._store.notify(changes)
        for level, message, fields in changes.notes:
            _log.log(level, message, extra=fields)
        # A transaction that is a retry answers no waiting claims.
        if WORK in changes.topics and self._waiting and attempt > 1:
            retries, self._waiting = self._waiting, []
            self._write(retries)

    def _resolve(self, call: Call, outcome: Any) -> None:
        """Resolve a call, unless it is a claim that keeps waiting."""
        if isinstance(outcome, Claimed):
            self._is_empty = self._is_empty or outcome.all
            if call.waits and not outcome.leases:
                if call not in self._waiting:
                    self._waiting.append(call)
                return
            if call in self._waiting:
                self._waiting.remove(call)
        call.future.set_result(outcome)

    def _outcomes(self, tx: Transaction, calls: Sequence[Call]) -> list[tuple[Call, Any]]:
        by_kind: dict[str, list[int]] = defaultdict(list)
        for index, call in enumerate(calls):
            by_kind[call.kind].append(index)
        outcomes: list[Any] = [None] * len(calls)
        for kind, operation in self._operations.items():
            indices = by_kind.get(kind, [])
            if not indices:
                continue
            results = operation(tx, [calls[index].argument for index in indices])
            for index, outcome in zip(indices, results, strict=True):
                outcomes[index] = outcome
        return list(zip(calls, outcomes, strict=True))

    def _retry_alone(
        self, calls: Sequence[Call], error: BaseException, attempt: int, *, joined: bool
    ) -> None:
        """After a rollback, retry each call alone, as one of them may be the cause.

        `joined` is true if waiting claims were part of the transaction.
        """
        is_retried = isinstance(error, (UndoneError, StorageFullError)) and attempt < _MAX_ATTEMPTS
        if len(calls) > 1 or joined or is_retried:
            for call in calls:
                self._write([call], attempt + 1)
            return
        if not isinstance(error, QuodError):
            _log.error("an operation of the queue failed: %s", calls[0].kind, exc_info=error)
        if isinstance(error, UndoneError):
            error = UnavailableError(f"the database is too busy: {error}", retry_seconds=1.0)
        calls[0].fail(error)
