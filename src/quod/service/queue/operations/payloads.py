"""Payloads that are rows: those small enough that a file and its syncs would cost more.

Only SQLite has them, whose deleted rows are overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quod.service.errors import NotFoundError
from quod.service.queue.transaction import Transaction, in_chunks, placeholders

MOST_BODY_BYTES = 256 << 10
"""Up to here a row is written and overwritten sooner than a file is synced, named and deleted."""

MOST_ROW_BYTES = 256 << 20
"""Of all rows together; from there on payloads are files.

A database does not shrink: what a burst has made it would be missing on the disk for ever.
"""

_NAME = re.compile(r"row-([1-9][0-9]{0,17})")


def payload_of(job: int) -> str:
    """What a job with a row calls its payload; no name of the spool is such."""
    return f"row-{job}"


def row_of(payload: str) -> int | None:
    """The job whose row a payload is; None for one of the spool."""
    found = _NAME.fullmatch(payload)
    return None if found is None else int(found[1])


def read_payload(tx: Transaction, job: int) -> bytes:
    """A row; `NotFoundError` once its job has ended."""
    for (body,) in tx.rows("SELECT body FROM payload WHERE job = ?", (job,)):
        return bytes(body)
    raise NotFoundError("the payload is not in the queue; its job has ended")


def row_bytes(tx: Transaction) -> int:
    """Of all rows together."""
    [(total,)] = tx.rows("SELECT coalesce(sum(length(body)), 0) FROM payload")
    return int(total)


def erase(tx: Transaction, jobs: Iterable[int]) -> None:
    """Deletes rows of jobs that have ended."""
    for chunk in in_chunks(jobs):
        tx.run(f"DELETE FROM payload WHERE job IN {placeholders(chunk)}", chunk)


def ended_rows(tx: Transaction) -> list[int]:
    """Rows that a process has left which died between the end of their jobs and their erasure."""
    return [
        job
        for (job,) in tx.rows(
            "SELECT job FROM payload WHERE job NOT IN (SELECT number FROM job WHERE state < 2)"
        )
    ]
