"""Limits, clocks and disk state for all operations, and the rate at which jobs end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quod.service.queue.blob_store import BlobStore
from quod.service.queue.clock import MICROSECONDS, Clock
from quod.service.queue.limits import Limits
from quod.service.queue.transaction import Transaction

_WINDOW_SECONDS = 60
"""Seconds over which the rate is measured."""

_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 300.0


@dataclass
class Rules:
    """Context of the operations of one queue."""

    limits: Limits
    clock: Clock
    blob_store: BlobStore
    storage_full: Callable[[], bool]
    _rates: tuple[float, dict[str, float]] = field(
        default_factory=lambda: (float("-inf"), {}), init=False
    )

    def retry_seconds(self, tx: Transaction, jobs: int, client: str | None) -> float:
        """Estimate the seconds until `jobs` jobs, of one client or all, have ended.

        Uses the rate of the last minute, or the lease duration if no job ended in it.
        """
        now = self.clock.steady()
        if now - self._rates[0] > 1:
            # The `keep_until` of a job that ends now: jobs have no other time by this clock.
            newest = self.clock.stamp() + int(self.limits.keep_seconds * MICROSECONDS)
            rows = tx.rows(
                "SELECT client, count(*) FROM job WHERE keep_until > ? GROUP BY client",
                (newest - _WINDOW_SECONDS * MICROSECONDS,),
            )
            self._rates = now, {name: ended / _WINDOW_SECONDS for name, ended in rows}
        rates = self._rates[1]
        rate = sum(rates.values()) if client is None else rates.get(client, 0.0)
        seconds = max(jobs, 1) / rate if rate else self.limits.lease_seconds
        return min(max(seconds, _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)
