"""Who looks after time, in a thread of its own.

A lease is lost once this process has seen it unchanged for `Limits.lease_seconds` by its own
monotonic clock. No clock is compared with another machine's, or with itself before a jump: a sweep
that comes late only ends leases later, and tokens keep one that ends too early harmless.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from quod.errors import QuodError
from quod.service.queue.blob_store import Spool
from quod.service.queue.operations.forget import MOST_AT_ONCE, collect
from quod.service.queue.operations.payloads import ended_rows, erase, row_bytes
from quod.service.queue.operations.rules import Rules
from quod.service.queue.operations.sweep import (
    Running,
    expire,
    live_payloads,
    lose,
    running,
)
from quod.service.queue.stores.store import Store
from quod.service.queue.transaction import Transaction
from quod.service.queue.writer import Writer

ORPHAN_SECONDS = 600.0
"""How long a file of nobody's is left to processes that may yet submit it."""

SHRED_SECONDS = 30.0
"""How long a busy queue's log may hold payloads of jobs that have ended."""

_ORPHANS_EVERY = 60.0

_log = logging.getLogger(__name__)


def _lose(tx: Transaction, rules: Rules, given: Sequence[tuple[list[Running], bool]]) -> list[int]:
    return [lose(tx, rules, leases, blamed=blamed) for leases, blamed in given]


def _erase(tx: Transaction, rules: Rules, given: Sequence[list[int]]) -> list[None]:
    for jobs in given:
        erase(tx, jobs)
    return [None] * len(given)


def _expire(tx: Transaction, rules: Rules, given: Sequence[None]) -> list[int]:
    return [expire(tx, rules) for _ in given]


def _collect(tx: Transaction, rules: Rules, given: Sequence[None]) -> list[int]:
    return [collect(tx, rules) for _ in given]


OPERATIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "lose": _lose,
    "expire": _expire,
    "collect": _collect,
    "erase": _erase,
}


class Sweeper:
    """Sweeps when it is asked, and by itself if it is given a time for it."""

    def __init__(self, store: Store, spool: Spool, rules: Rules, writer: Writer) -> None:
        self._store, self._spool, self._rules, self._writer = store, spool, rules, writer
        self._sweeping = threading.Lock()
        self._seen: dict[Running, float] = {}
        self._orphans_at = rules.clock.steady()
        self._erased = self._shredded = 0
        self._shredded_at = self._orphans_at
        self.row_bytes = 0
        """Of payloads that are rows: as the last sweep found them, and those that came since."""

        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, every: float | None) -> None:
        """What a queue that is opened does first.

        With a store of its own, leases and stray files are those of a process that has died: its
        workers are fenced off, and keys are not blamed for it.
        """
        if not self._store.shared:
            if leases := self._store.read(running):
                self._writer.do("lose", (leases, False))
                _log.warning(
                    "work of a process that has ended is given out again",
                    extra={"partitions": len(leases)},
                )
            if rows := self._store.read(ended_rows):
                self._writer.do("erase", rows)
            self._delete_orphans(0.0)
            self._count_rows()
        if every is not None:
            self._thread = threading.Thread(
                target=self._run, args=(every,), name="quod-sweep", daemon=True
            )
            self._thread.start()

    def sweep(self) -> None:
        """Once now."""
        with self._sweeping:
            if lost := self._not_renewed():
                self._writer.do("lose", (lost, True))
            for kind in ("expire", "collect"):
                while self._writer.do(kind, None) >= MOST_AT_ONCE:
                    pass
            now = self._rules.clock.steady()
            if now - self._orphans_at >= _ORPHANS_EVERY:
                self._orphans_at = now
                self._delete_orphans(ORPHAN_SECONDS)
            self._shred(now)
            self._count_rows()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, every: float) -> None:
        while not self._closed.wait(every):
            try:
                self.sweep()
            except QuodError as error:
                _log.warning("a sweep of the queue failed: %s", error)
            except Exception:
                _log.exception("a sweep of the queue failed")

    def _not_renewed(self) -> list[Running]:
        """Leases that have been as they are for too long."""
        now = self._rules.clock.steady()
        self._seen = {lease: self._seen.get(lease, now) for lease in self._store.read(running)}
        limit = self._rules.limits.lease_seconds
        return [lease for lease, since in self._seen.items() if now - since >= limit]

    def _count_rows(self) -> None:
        if self._store.most_body:
            self.row_bytes = self._store.read(row_bytes)

    def _shred(self, now: float) -> None:
        """Takes deleted payloads out of the log once there is nothing to do, or after a while.

        A log that is written over is faster than one that grows, so not each time.
        """
        erased, before = self._writer.erased, self._erased
        self._erased = erased
        if erased == self._shredded:
            self._shredded_at = now
        elif erased == before or now - self._shredded_at >= SHRED_SECONDS:
            if self._store.shred():
                self._shredded, self._shredded_at = erased, now

    def _delete_orphans(self, patience: float) -> None:
        files = self._spool.orphans(self._rules.clock.steady(), patience)
        if files:
            live = self._store.read(live_payloads)
            deleted = self._spool.delete_orphans(name for name in files if name not in live)
            if deleted:
                _log.info("%d files of no job were deleted from the spool", deleted)
