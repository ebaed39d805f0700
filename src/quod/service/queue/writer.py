"""The one thread that writes: what arrives while it commits shares the next commit.

Callers get a future for each call. Nothing waits for company: a call that comes alone is committed
at once, and the disk's own time gathers the others. With Postgres a transaction has calls of one
kind only, for it holds locks that other processes wait for.

Claims that wait are kept here until there is work for them: with SQLite that of the transaction in
which the work comes, which has them done as well.
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
from quod.service.queue.blob_store import Spool
from quod.service.queue.operations.claim import Claimed
from quod.service.queue.operations.payloads import erase, row_of
from quod.service.queue.signals import WORK
from quod.service.queue.stores.store import Store, UndoneError
from quod.service.queue.transaction import Transaction

Operation = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""What a kind of call does: outcomes for a list of arguments, in their order."""

_WITHDRAW, _LOOK = "withdraw", "look"
"""What is said to the writer, and no operation."""

_MOST_CALLS = 4096
_ATTEMPTS = 5

_MOST_ROWS = 64
"""Payloads of ended jobs that wait until nothing else does."""

_NOT_DURABLE = {"claim", "renew"}
"""What a machine that goes down takes along with all workers: leases are void then, lost or not."""

_log = logging.getLogger(__name__)


@dataclass
class Call:
    """Something to be written; its future gets the outcome once that is durable."""

    kind: str
    argument: Any
    undone: Callable[[BaseException], None] = lambda error: None
    """Hears of an error of the whole call before its caller does."""
    future: Future[Any] = field(default_factory=Future)
    waits: bool = False
    """Of a claim: its future ends once something is claimed, or it is withdrawn."""

    def fail(self, error: BaseException) -> None:
        self.undone(error)
        self.future.set_exception(error)


class Writer:
    """Runs the operations of a queue in its own thread."""

    def __init__(self, store: Store, spool: Spool, operations: Mapping[str, Operation]) -> None:
        self._store, self._spool, self._operations = store, spool, operations
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._waiting: list[Call] = []
        # Whether nothing was left the last time that all was asked for.
        self._empty = False
        self._rows: list[int] = []
        self.erased = 0
        """How many payloads that were rows have been deleted."""

        self._thread = threading.Thread(target=self._run, name="quod-queue", daemon=True)
        self._thread.start()

    def put(self, call: Call) -> Future[Any]:
        """Has an operation done; `UnavailableError` once the writer is closed."""
        with self._closing:
            if self._closed:
                raise UnavailableError("the queue is closed", retry_seconds=1.0)
            self._calls.put(call)
        return call.future

    def do(self, kind: str, argument: Any) -> Any:
        """Has an operation done, and waits for its outcome."""
        return self.put(Call(kind, argument)).result()

    def withdraw(self, call: Call) -> Any:
        """Has a claim wait no longer: its outcome, when it is looked at once more."""
        self.put(Call(_WITHDRAW, call))
        return call.future.result()

    def look(self) -> None:
        """Another process has work: those who wait look again. Does nothing once it is closed."""
        with self._closing:
            if not self._closed:
                self._calls.put(Call(_LOOK, None))

    def close(self) -> None:
        """Does what was put before, then ends."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        ending = False
        while not ending:
            calls = [self._calls.get()]
            try:
                while len(calls) < _MOST_CALLS:
                    calls.append(self._calls.get_nowait())
            except Empty:
                pass
            ending = None in calls
            for group in self._groups(self._sorted(calls)):
                self._write(group)
            if self._rows and (ending or len(self._rows) > _MOST_ROWS or self._calls.empty()):
                self._erase()
        for call in self._waiting:
            call.fail(UnavailableError("the queue is closed", retry_seconds=1.0))

    def _sorted(self, calls: Sequence[Call | None]) -> list[Call]:
        """Those that are to be written; claims that are known to be in vain wait."""
        found = []
        for call in calls:
            if call is None:
                continue
            if call.kind == _LOOK:
                self._empty = False
                found += self._waiting
                self._waiting = []
            elif call.kind == _WITHDRAW:
                own = call.argument
                own.waits = False
                if own in self._waiting:
                    self._waiting.remove(own)
                    found.append(own)
            elif call.waits and self._empty:
                self._waiting.append(call)
            else:
                found.append(call)
        return found

    def _erase(self) -> None:
        """Nobody waits for it, nor does it for the disk: what is lost of it the next start does."""
        rows, self._rows = self._rows, []
        try:
            self._store.write(lambda tx: erase(tx, rows), durable=False)
        except QuodError as error:
            _log.warning("payloads of ended jobs could not be deleted yet: %s", error)
            self._rows = rows
            return
        self.erased += len(rows)

    def _groups(self, calls: Sequence[Call]) -> list[list[Call]]:
        """Calls that share a transaction."""
        if not self._store.shared:
            return [list(calls)] if calls else []
        by_kind: dict[str, list[Call]] = defaultdict(list)
        for call in calls:
            by_kind[call.kind].append(call)
        return list(by_kind.values())

    def _write(self, calls: Sequence[Call], attempt: int = 1) -> None:
        """Does calls in one transaction; if that is undone, once more, each alone."""
        waiting = self._waiting if attempt == 1 and not self._store.shared else []

        def work(tx: Transaction) -> list[tuple[Call, Any]]:
            claims = [call for call in calls if call.kind == "claim"]
            found = self._outcomes(tx, [call for call in calls if call.kind != "claim"])
            if WORK in tx.changes.topics:
                claims = [*waiting, *claims]
            # Whoever waits for work is told first: a worker has the longer way.
            return [*self._outcomes(tx, claims), *found]

        try:
            durable = any(call.kind not in _NOT_DURABLE for call in calls)
            outcomes, changes = self._store.write(work, durable=durable)
        except UnavailableError as error:
            # They may have been committed: to do them again is the callers' decision.
            for call in calls:
                call.fail(error)
            return
        except BaseException as error:
            self._again(calls, error, attempt, joined=bool(waiting))
            return
        self._spool.settle(changes.kept)
        rows = [(name, row_of(name)) for name in changes.garbage]
        self._spool.discard_soon([name for name, row in rows if row is None])
        self._rows += [row for _, row in rows if row is not None]
        if WORK in changes.topics:
            self._empty = False
        for call, outcome in outcomes:
            self._answer(call, outcome)
        # Who has watched a job since it was taken hears of what that transaction did with it, too.
        self._store.tell(changes)
        for level, message, fields in changes.notes:
            _log.log(level, message, extra=fields)
        if WORK in changes.topics and self._waiting and attempt > 1:
            again, self._waiting = self._waiting, []
            self._write(again)

    def _answer(self, call: Call, outcome: Any) -> None:
        """Ends a call, unless it waits for more."""
        if isinstance(outcome, Claimed):
            self._empty = self._empty or outcome.all
            if call.waits and not outcome.leases:
                if call not in self._waiting:
                    self._waiting.append(call)
                return
            if call in self._waiting:
                self._waiting.remove(call)
        call.future.set_result(outcome)

    def _outcomes(self, tx: Transaction, calls: Sequence[Call]) -> list[tuple[Call, Any]]:
        by_kind: dict[str, list[int]] = defaultdict(list)
        for at, call in enumerate(calls):
            by_kind[call.kind].append(at)
        outcomes: list[Any] = [None] * len(calls)
        for kind, operation in self._operations.items():
            places = by_kind.get(kind, [])
            if not places:
                continue
            found = operation(tx, [calls[at].argument for at in places])
            for at, outcome in zip(places, found, strict=True):
                outcomes[at] = outcome
        return list(zip(calls, outcomes, strict=True))

    def _again(
        self, calls: Sequence[Call], error: BaseException, attempt: int, *, joined: bool
    ) -> None:
        """After a transaction that was undone: of several calls perhaps one alone was the cause.

        Or a claim that `joined` them.
        """
        once_more = isinstance(error, (UndoneError, StorageFullError)) and attempt < _ATTEMPTS
        if len(calls) > 1 or joined or once_more:
            for call in calls:
                self._write([call], attempt + 1)
            return
        if not isinstance(error, QuodError):
            _log.error("an operation of the queue failed: %s", calls[0].kind, exc_info=error)
        if isinstance(error, UndoneError):
            error = UnavailableError(f"the database is too busy: {error}", retry_seconds=1.0)
        calls[0].fail(error)
