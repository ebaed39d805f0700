"""Forget ended jobs when their retention is over, or earlier to make room for new jobs."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

from quod.service.queue.operations.rows import count
from quod.service.queue.operations.rules import Rules
from quod.service.queue.transaction import Row, Transaction, in_chunks, placeholders

MAX_AT_ONCE = 500
"""The maximum number of jobs that one transaction ends or forgets, so that others wait briefly."""


def collect(tx: Transaction, rules: Rules) -> int:
    """Forget jobs whose retention is over, with results, events and attempts; return the count."""
    return _forget(tx, "keep_until <= ?", "", (rules.clock.stamp(), MAX_AT_ONCE))


def make_room(tx: Transaction, kept: Mapping[str, Sequence[int]], excess: int) -> None:
    """Forget `excess` ended jobs, the oldest of the client that keeps most jobs first.

    kept: per client, the number of kept jobs, and the number of those that have ended.
    So a new job of one client does not evict jobs of another that keeps fewer.
    """
    heap = [
        (-kept_count, client) for client, (kept_count, ended_count) in kept.items() if ended_count
    ]
    heapq.heapify(heap)
    evicted_counts = Counter[str]()
    while heap and evicted_counts.total() < excess:
        negative_count, client = heap[0]
        evicted_counts[client] += 1
        if evicted_counts[client] == kept[client][1]:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (negative_count + 1, client))
    for client, evicted_count in sorted(evicted_counts.items()):
        _forget(tx, "client = ? AND state >= 2", "ORDER BY number ", (client, evicted_count))


def _forget(tx: Transaction, condition: str, order: str, parameters: tuple[object, object]) -> int:
    """Delete jobs, at most as many as the last parameter says, with their dependent rows."""
    rows: list[Row] = tx.rows(
        f"DELETE FROM job WHERE number IN (SELECT number FROM job WHERE {condition} {order}"
        f"LIMIT ?{tx.skip_locked}) RETURNING number, client",
        parameters,
    )
    for chunk in in_chunks(number for number, _ in rows):
        for table in ("part", "attempt", "event"):
            tx.run(f"DELETE FROM {table} WHERE job IN {placeholders(chunk)}", chunk)
    for client, deleted_count in sorted(Counter(client for _, client in rows).items()):
        count(tx, client, 0, 0, -deleted_count)
    return len(rows)
