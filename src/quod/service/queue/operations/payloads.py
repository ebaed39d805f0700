"""Small payloads stored as rows, which costs less than a file and its syncs.

Only SQLite stores them: it overwrites deleted rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from quod.service.errors import NotFoundError
from quod.service.queue.operations.rows import UNENDED
from quod.service.queue.transaction import Transaction, in_chunks, placeholders

MAX_BODY_BYTES = 256 << 10
"""Up to this size, writing and overwriting a row is faster than creating and deleting a file."""

MAX_ROW_BYTES = 256 << 20
"""Total bytes of rows above which payloads become files.

A database never shrinks: the space used by a burst would be lost to other files.
"""

_NAME = re.compile(r"row-([1-9][0-9]{0,17})")


def payload_of(job: int) -> str:
    """Return the payload name of a job with a row; distinct from all names of the blob store."""
    return f"row-{job}"


def row_of(payload: str) -> int | None:
    """Return the job number of a payload stored as a row; None for a file."""
    match = _NAME.fullmatch(payload)
    return None if match is None else int(match[1])


def read_payload(tx: Transaction, job: int) -> bytes:
    """Read a payload row; raises NotFoundError once its job has ended."""
    for (body,) in tx.rows("SELECT body FROM payload WHERE job = ?", (job,)):
        return bytes(body)
    raise NotFoundError("the payload is not in the queue; its job has ended")


def row_bytes(tx: Transaction) -> int:
    """Return the total bytes of payload rows."""
    [(total,)] = tx.rows("SELECT coalesce(sum(length(body)), 0) FROM payload")
    return int(total)


def erase(tx: Transaction, jobs: Iterable[int]) -> None:
    """Delete the payload rows of jobs."""
    for chunk in in_chunks(jobs):
        tx.run(f"DELETE FROM payload WHERE job IN {placeholders(chunk)}", chunk)


def ended_rows(tx: Transaction) -> list[int]:
    """Return the rows of ended jobs, left by a process that died before it erased them."""
    return [
        job
        for (job,) in tx.rows(
            f"SELECT job FROM payload WHERE job NOT IN (SELECT number FROM job WHERE {UNENDED})"
        )
    ]
