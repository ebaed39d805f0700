"""The queue in a Postgres database, for several processes and hosts (psycopg 3).

Commits use `synchronous_commit=on`; rows that another process has locked are skipped. Waiting
processes are notified with LISTEN and NOTIFY after the commit, as a NOTIFY within it would
serialise all commits of the database. A lost notification delays them until the next poll.
"""

from __future__ import annotations

import logging
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from quod.errors import InputError, ServiceError
from quod.extras import installation
from quod.service.errors import StorageFullError, UnavailableError
from quod.service.queue.blob_store import RETRY_SECONDS_OF_A_FULL_DISK
from quod.service.queue.schema import APPLICATION_ID, MIGRATIONS, statements
from quod.service.queue.signals import Signals
from quod.service.queue.stores.pool import Pool
from quod.service.queue.stores.store import UndoneError
from quod.service.queue.transaction import Changes, Parameters, Row

try:
    import psycopg
    from psycopg import errors, sql
except ImportError as error:
    raise ServiceError(f"Postgres needs psycopg: {installation('postgres')}") from error

if TYPE_CHECKING:
    Connection = psycopg.Connection[Row]

T = TypeVar("T")

STRIPES = 64
"""The number of stripes of the table `usage`; a process counts in one of them, drawn at random."""

_RETRY_SECONDS = 2.0
_LISTEN_SECONDS = 0.5
_TOPICS_AT_ONCE = 400  # a notification has less than 8,000 bytes

_log = logging.getLogger(__name__)


class PostgresTransaction:
    """A transaction on one connection."""

    for_update = " FOR UPDATE"
    skip_locked = " FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: Connection, stripe: int) -> None:
        self._connection = connection
        self.stripe = stripe
        self.changes = Changes()

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        return self._connection.execute(_statement(statement), parameters).fetchall()

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        return self._connection.execute(_statement(statement), parameters).rowcount

    def many(self, statement: str, rows: Sequence[Parameters]) -> None:
        if len(rows) == 1:
            self.run(statement, rows[0])
        elif rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(_statement(statement), rows)

    def numbers(self, count: int) -> list[int]:
        rows = self.rows("SELECT nextval('job_number') FROM generate_series(1, ?::int)", (count,))
        return [number for (number,) in rows]

    def serialise(self, clients: Iterable[str]) -> None:
        for lock in sorted({zlib.crc32(client.encode()) - (1 << 31) for client in clients}):
            self.run("SELECT pg_advisory_xact_lock(?::int, ?::int)", (APPLICATION_ID, lock))


@lru_cache(maxsize=1024)
def _statement(statement: str) -> Any:
    """Replace the placeholders `?` of a statement with those of psycopg."""
    return statement.replace("?", "%s")


class PostgresStore:
    """A schema of a database, opened or created; see `quod.service.queue.stores.store.Store`.

    Raises UnavailableError if the database cannot be reached, InputError if the schema belongs to
    another program or a newer Quod.
    """

    name = "postgres"
    shared = True
    max_row_payload = 0

    def __init__(self, url: str, schema: str) -> None:
        self.signals = Signals()
        self._url, self._schema = url, schema
        self._channel = f"quod_{schema}"
        self._stripe = secrets.randbelow(STRIPES)
        self._closed = threading.Event()
        self._pool = Pool(self._connect, _close)
        self._writer: Connection | None = None
        with self._errors():
            self._prepare()
        self._listener = threading.Thread(target=self._listen, name="quod-listen", daemon=True)
        self._listener.start()

    def write(
        self, work: Callable[[PostgresTransaction], T], *, durable: bool = True
    ) -> tuple[T, Changes]:
        # Always durable: workers on other machines outlive a crash of the database's, and the
        # partitions that they hold must not be leased again under the same token.
        with self._errors():
            if self._writer is None or self._writer.closed or self._writer.broken:
                self._writer = self._connect()
            transaction = PostgresTransaction(self._writer, self._stripe)
            with self._writer.transaction():
                outcome = work(transaction)
        return outcome, transaction.changes

    def notify(self, changes: Changes) -> None:
        topics = sorted(changes.topics)
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            payload = " ".join(f"{topic:x}" for topic in topics[start : start + _TOPICS_AT_ONCE])
            # The transaction is committed: if this fails, waiting processes poll.
            self._notify(payload)

    def read(self, work: Callable[[PostgresTransaction], T]) -> T:
        with self._errors(), self._pool.connection() as connection:
            # One snapshot for all statements, as an SQLite reader has.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                return work(PostgresTransaction(connection, self._stripe))

    def shred(self) -> bool:
        return True

    def close(self) -> None:
        self._closed.set()
        self._pool.close()
        if self._writer is not None:
            # Wakes the listener, which then finds the queue closed.
            self._notify("")
            self._writer.close()
        self._listener.join()

    def _connect(self) -> Connection:
        connection = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        try:
            connection.execute(
                sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema))
            )
            connection.execute("SET synchronous_commit TO on")
            # Plans are made while tables are empty, and cached: none may scan a whole table.
            connection.execute("SET enable_seqscan TO off")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        """Create the schema or migrate it, one process at a time."""
        self._writer = self._connect()
        with self._writer.transaction():
            tx = PostgresTransaction(self._writer, 0)
            tx.run("SELECT pg_advisory_xact_lock(?::bigint)", (APPLICATION_ID,))
            self._writer.execute(
                sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._schema))
            )
            tables = {
                name
                for (name,) in tx.rows(
                    "SELECT table_name::text FROM information_schema.tables WHERE table_schema = ?",
                    (self._schema,),
                )
            }
            if "quod_queue" not in tables:
                if tables:
                    raise InputError(
                        f"the schema {self._schema} has tables of another program; name "
                        "another schema"
                    )
                tx.run("CREATE TABLE quod_queue (version BIGINT NOT NULL)")
                tx.run("INSERT INTO quod_queue (version) VALUES (0)")
                tx.run("CREATE SEQUENCE job_number")
            [(version,)] = tx.rows("SELECT version FROM quod_queue")
            if version > len(MIGRATIONS):
                raise InputError(
                    f"the schema {self._schema} is a queue of version {version}, and "
                    f"this Quod supports up to {len(MIGRATIONS)}; use a newer Quod"
                )
            for step in MIGRATIONS[version:]:
                for statement in statements(step, sqlite=False):
                    tx.run(statement)
            tx.run("UPDATE quod_queue SET version = ?", (len(MIGRATIONS),))

    def _notify(self, payload: str) -> None:
        if self._writer is not None:
            with suppress(psycopg.Error):
                self._writer.execute("SELECT pg_notify(%s, %s)", (self._channel, payload))

    def _listen(self) -> None:
        responds = True
        while not self._closed.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    self.signals.notify_all()
                    if not responds:
                        _log.info("the queue's database responds again")
                    responds = True
                    while not self._closed.is_set():
                        for notification in connection.notifies(timeout=_LISTEN_SECONDS):
                            self.signals.notify(
                                int(topic, 16) for topic in notification.payload.split()
                            )
                            if self._closed.is_set():
                                break
            except psycopg.Error as error:
                responds = False
                _log.warning("the queue's database does not respond: %s", _first_line(error))
                self._closed.wait(_RETRY_SECONDS)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of psycopg to errors of Quod."""
        if self._closed.is_set():
            raise UnavailableError("the queue is closed", retry_seconds=_RETRY_SECONDS)
        try:
            yield
        except (errors.DeadlockDetected, errors.SerializationFailure) as error:
            raise UndoneError(_first_line(error)) from error
        except errors.DiskFull as error:
            raise StorageFullError(
                "the disk of the database is full", retry_seconds=RETRY_SECONDS_OF_A_FULL_DISK
            ) from error
        except (errors.IntegrityError, errors.DataError):
            raise  # a defect of Quod, reported as one
        except psycopg.Error as error:
            raise UnavailableError(
                f"the database of the queue cannot be used: {_first_line(error)}",
                retry_seconds=_RETRY_SECONDS,
            ) from error


def _close(connection: Connection) -> None:
    connection.close()


def _first_line(error: Exception) -> str:
    """Return the first line of an error message: later lines may show values of rows."""
    return (str(error).splitlines() or [type(error).__name__])[0]
