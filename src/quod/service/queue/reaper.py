"""The reaper: a thread that ends expired leases and jobs and deletes old data.

A lease is lost once this process has seen it unchanged for `Limits.lease_seconds` by its own
monotonic clock. Clocks of different machines are never compared, so clock jumps have no effect. A
late sweep only ends leases later; tokens make a lease that ended too early harmless.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from quod.errors import QuodError
from quod.service.queue.blob_store import BlobStore
from quod.service.queue.operations.forget import MAX_AT_ONCE, collect
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
"""Seconds after which a file that no job names is deleted; until then another process may submit
it."""

SHRED_SECONDS = 30.0
"""Seconds for which a busy queue's log may hold payloads of ended jobs."""

_ORPHAN_INTERVAL_SECONDS = 60.0

_log = logging.getLogger(__name__)


def _lose(
    tx: Transaction, rules: Rules, arguments: Sequence[tuple[list[Running], bool]]
) -> list[int]:
    return [lose(tx, rules, leases, blamed=blamed) for leases, blamed in arguments]


def _erase(tx: Transaction, rules: Rules, arguments: Sequence[list[int]]) -> list[None]:
    for jobs in arguments:
        erase(tx, jobs)
    return [None] * len(arguments)


def _expire(tx: Transaction, rules: Rules, arguments: Sequence[None]) -> list[int]:
    return [expire(tx, rules) for _ in arguments]


def _collect(tx: Transaction, rules: Rules, arguments: Sequence[None]) -> list[int]:
    return [collect(tx, rules) for _ in arguments]


OPERATIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "lose": _lose,
    "expire": _expire,
    "collect": _collect,
    "erase": _erase,
}


class Reaper:
    """The runner of sweeps, on request and periodically if an interval is set."""

    def __init__(self, store: Store, blob_store: BlobStore, rules: Rules, writer: Writer) -> None:
        self._store, self._blob_store, self._rules, self._writer = store, blob_store, rules, writer
        self._sweeping = threading.Lock()
        self._seen: dict[Running, float] = {}
        self._orphans_at = rules.clock.steady()
        # The numbers of rows erased at the last sweep, and when the log was last truncated.
        self._erased = self._shredded = 0
        self._shredded_at = self._orphans_at
        self.row_bytes = 0
        """Bytes of payloads stored as rows: as of the last sweep, plus those added since."""

        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, interval: float | None) -> None:
        """Recover after a restart, then start sweeps every `interval` seconds; None starts none.

        If the store is not shared, existing leases and stray files belong to a process that died.
        The leases are ended without counting against keys.
        """
        if not self._store.shared:
            if leases := self._store.read(running):
                self._writer.do("lose", (leases, False))
                _log.warning(
                    "the work of a process that has ended is queued again",
                    extra={"partitions": len(leases)},
                )
            if rows := self._store.read(ended_rows):
                self._writer.do("erase", rows)
            self._delete_orphans(0.0)
            self._count_rows()
        if interval is not None:
            self._thread = threading.Thread(
                target=self._run, args=(interval,), name="quod-sweep", daemon=True
            )
            self._thread.start()

    def sweep(self) -> None:
        """Run one sweep now."""
        with self._sweeping:
            if expired := self._expired_leases():
                self._writer.do("lose", (expired, True))
            for kind in ("expire", "collect"):
                while self._writer.do(kind, None) >= MAX_AT_ONCE:
                    pass
            now = self._rules.clock.steady()
            if now - self._orphans_at >= _ORPHAN_INTERVAL_SECONDS:
                self._orphans_at = now
                self._delete_orphans(ORPHAN_SECONDS)
            self._shred(now)
            self._count_rows()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, interval: float) -> None:
        while not self._closed.wait(interval):
            try:
                self.sweep()
            except QuodError as error:
                _log.warning("a sweep of the queue failed: %s", error)
            except Exception:
                _log.exception("a sweep of the queue failed")

    def _expired_leases(self) -> list[Running]:
        """Return the leases that were not renewed within `Limits.lease_seconds`."""
        now = self._rules.clock.steady()
        self._seen = {lease: self._seen.get(lease, now) for lease in self._store.read(running)}
        limit = self._rules.limits.lease_seconds
        return [lease for lease, since in self._seen.items() if now - since >= limit]

    def _count_rows(self) -> None:
        if self._store.max_row_payload:
            self.row_bytes = self._store.read(row_bytes)

    def _shred(self, now: float) -> None:
        """Truncate the log, which holds deleted payloads, when the queue is idle or after a while.

        A sweep of a busy queue does not: overwriting a log is faster than growing it again.
        """
        erased, erased_before = self._writer.erased, self._erased
        self._erased = erased
        if erased == self._shredded:
            self._shredded_at = now
        elif erased == erased_before or now - self._shredded_at >= SHRED_SECONDS:
            if self._store.shred():
                self._shredded, self._shredded_at = erased, now

    def _delete_orphans(self, patience: float) -> None:
        files = self._blob_store.unchanged_files(self._rules.clock.steady(), patience)
        if files:
            live_names = self._store.read(live_payloads)
            deleted = self._blob_store.delete_orphans(
                name for name in files if name not in live_names
            )
            if deleted:
                _log.info("%d files without a job were deleted from the spool", deleted)
