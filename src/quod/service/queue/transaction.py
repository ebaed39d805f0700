"""What operations need of a database: statements, and a note of what is to be done afterwards.

Statements are written once, with `?` for parameters; `for_update` and `skip_locked` are what
Postgres needs beside them, and empty where one writer is alone.
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

_AT_ONCE = 500
"""Values in a list of a statement: well within what either database takes."""


@dataclass
class Changes:
    """What follows a commit: who is told, and payloads that are jobs' now or nobody's any more.

    `bodies` are those payloads of jobs of this transaction that are rows, by the job's number.
    `news` are jobs that have ended, by topic, with their results. `notes` are log lines: a level, a
    message and fields.
    """

    topics: set[Topic] = field(default_factory=set)
    kept: list[str] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)
    bodies: dict[int, bytes] = field(default_factory=dict)
    news: dict[Topic, tuple[Job, list[bytes]]] = field(default_factory=dict)
    notes: list[tuple[int, str, dict[str, object]]] = field(default_factory=list)

    def note(self, level: int, message: str, **fields: object) -> None:
        """Log a line once the transaction is committed."""
        self.notes.append((level, message, fields))

    @property
    def ends(self) -> bool:
        """Whether a job has ended."""
        return any(is_end(topic) for topic in self.topics)


class Transaction(Protocol):
    """A transaction of a store, or a snapshot to read."""

    @property
    def changes(self) -> Changes: ...

    @property
    def for_update(self) -> str: ...

    @property
    def skip_locked(self) -> str: ...

    @property
    def stripe(self) -> int:
        """Which of several counters of a client this process counts in."""
        ...

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """Runs a statement; its rows."""
        ...

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        """Runs a statement; how many rows it has changed."""
        ...

    def many(self, statement: str, rows: Sequence[Parameters]) -> None:
        """Runs a statement for each of the rows."""
        ...

    def numbers(self, count: int) -> list[int]:
        """So many numbers for jobs, each greater than all before in this store."""
        ...

    def serialise(self, clients: Iterable[str]) -> None:
        """Lets no other transaction submit for these clients before this one has ended."""
        ...


def in_chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Values in lists that are short enough for `placeholders`."""
    left = iter(values)
    while chunk := list(islice(left, _AT_ONCE)):
        yield chunk


def placeholders(values: Sequence[object]) -> str:
    """A list of as many parameters."""
    return f"({', '.join('?' * len(values))})"
