"""The interface of a transaction for operations, and the actions after its commit.

Statements are written once, with `?` for parameters. `for_update` and `skip_locked` are the lock
clauses of Postgres, and empty for a database with a single writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from quod.service.queue.records import Job
from quod.service.queue.signals import Topic, is_end

Row = tuple[Any, ...]
Parameters = Sequence[object]

_MAX_VALUES = 500
"""The number of values in one list of a statement, within the limits of both databases."""


@dataclass
class Changes:
    """Actions after a commit.

    topics: topics to notify.
    kept: payloads that now belong to jobs.
    garbage: payloads to delete.
    bodies: payloads stored as rows by this transaction, by job number.
    news: ended jobs with their results, by topic.
    notes: log lines (level, message, fields).
    """

    topics: set[Topic] = field(default_factory=set)
    kept: list[str] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict)
    news: dict[Topic, tuple[Job, list[bytes]]] = field(default_factory=dict)
    notes: list[tuple[int, str, dict[str, object]]] = field(default_factory=list)

    def note(self, level: int, message: str, **fields: object) -> None:
        """Log a line after the commit."""
        self.notes.append((level, message, fields))

    @property
    def ends(self) -> bool:
        """Report whether a job has ended in this transaction."""
        return any(is_end(topic) for topic in self.topics)


class Transaction(Protocol):
    """A write transaction of a store, or a read snapshot."""

    @property
    def changes(self) -> Changes: ...

    @property
    def for_update(self) -> str: ...

    @property
    def skip_locked(self) -> str: ...

    @property
    def stripe(self) -> int:
        """The stripe of `usage` in which this process counts."""
        ...

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """Execute a statement; return its rows."""
        ...

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        """Execute a statement; return the number of changed rows."""
        ...

    def many(self, statement: str, rows: Sequence[Parameters]) -> None:
        """Execute a statement for each parameter row."""
        ...

    def numbers(self, count: int) -> list[int]:
        """Return `count` new job numbers, greater than all earlier ones of this store."""
        ...

    def serialise(self, clients: Iterable[str]) -> None:
        """Lock these clients against submissions of other transactions until this one ends."""
        ...


def in_chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Split values into lists short enough for `placeholders`."""
    remaining = iter(values)
    while chunk := list(islice(remaining, _MAX_VALUES)):
        yield chunk


def placeholders(values: Sequence[object]) -> str:
    """Return a parenthesised SQL list with one parameter for each value."""
    return f"({', '.join('?' * len(values))})"
