"""What all operations go by: limits, clocks, the disk; and the rate at which jobs end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quod.service.queue.clock import MICROSECONDS, Clock
from quod.service.queue.limits import Limits
from quod.service.queue.spool import Spool
from quod.service.queue.transaction import Transaction

_WINDOW = 60
"""Seconds over which the rate is measured."""

_LEAST_WAIT, _LONGEST_WAIT = 1.0, 300.0


@dataclass
class Rules:
    """Shared by the operations of one queue."""

    limits: Limits
    clock: Clock
    spool: Spool
    storage_full: Callable[[], bool]
    _rate: tuple[float, float] = field(default=(float("-inf"), 0.0), init=False)

    def retry_seconds(self, tx: Transaction, limit: int) -> float:
        """How long a tenth of `limit` jobs takes at the rate of the last minute.

        That is when a client that waits finds some place, and not only the first to ask again.
        """
        begin = self.clock.steady()
        if begin - self._rate[0] > 1:
            newest = self.clock.stamp() + int(self.limits.keep_seconds * MICROSECONDS)
            [(ended,)] = tx.rows(
                "SELECT count(*) FROM job WHERE keep_until > ?", (newest - _WINDOW * MICROSECONDS,)
            )
            self._rate = begin, ended / _WINDOW
        rate = self._rate[1]
        seconds = max(limit // 10, 1) / rate if rate else self.limits.lease_seconds
        return min(max(seconds, _LEAST_WAIT), _LONGEST_WAIT)
