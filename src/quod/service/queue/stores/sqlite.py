"""The queue in an SQLite file, for one process on one host.

The log is write-ahead with `synchronous=FULL`: a commit is on disk before it returns. A lock file,
which the kernel unlocks however its owner dies, keeps a second process out. One thread writes;
readers have connections of their own and never wait for the disk.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from quod.errors import InputError
from quod.service.errors import StorageFullError, StoreInUseError, UnavailableError
from quod.service.queue.blob_store import RETRY_SECONDS_OF_A_FULL_DISK
from quod.service.queue.operations.payloads import MAX_BODY_BYTES
from quod.service.queue.reserved_space import ReservedSpace
from quod.service.queue.schema import APPLICATION_ID, MIGRATIONS, statements
from quod.service.queue.signals import Signals
from quod.service.queue.stores.boots import ended_well, machine_crashed
from quod.service.queue.stores.pool import Pool
from quod.service.queue.transaction import Changes, Parameters, Row

T = TypeVar("T")

# Network file systems, on which shared memory and range locks do not work.
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "glusterfs")
# The delay after which clients retry once the queue is broken, until the server is restarted.
_RESTART_SECONDS = 60.0

# Results that only a defect of Quod causes, and which are reported as defects.
_DEFECTS = (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH,
            sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_LOCKED)  # fmt: skip
_SYNC_ERRORS = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


class SqliteTransaction:
    """A transaction on one connection."""

    for_update = ""
    skip_locked = ""
    stripe = 0

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.changes = Changes()

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        return self._connection.execute(statement, parameters).fetchall()

    def run(self, statement: str, parameters: Parameters = ()) -> int:
        return self._connection.execute(statement, parameters).rowcount

    def many(self, statement: str, rows: Sequence[Parameters]) -> None:
        self._connection.executemany(statement, rows)

    def numbers(self, count: int) -> list[int]:
        [(end,)] = self.rows("UPDATE counter SET next = next + ? RETURNING next", (count,))
        return list(range(end - count, end))

    def serialise(self, clients: Iterable[str]) -> None:
        """Do nothing: the single writer thread serialises all transactions."""


class SqliteStore:
    """A database file, opened or created; see `quod.service.queue.stores.store.Store`.

    Raises StoreInUseError if another process has it open, InputError if the file is damaged or
    belongs to another program or a newer Quod.
    """

    name = "sqlite"
    shared = False
    max_row_payload = MAX_BODY_BYTES

    def __init__(self, path: Path, reserved_space: ReservedSpace) -> None:
        self.signals = Signals()
        self._path, self._reserved_space = path, reserved_space
        self._broken = ""
        _refuse_network_folder(path.parent)
        self._lock = _lock(path.with_suffix(".lock"))
        # A job may have crashed the machine: sync its attempts, so that they count after a crash.
        self._always_sync = machine_crashed(self._lock)
        self._synced = True
        try:
            self._writer = self._connect()
            self._prepare()
        except BaseException:
            os.close(self._lock)
            raise
        self._readers = Pool(self._reader, sqlite3.Connection.close)

    def write(
        self, work: Callable[[SqliteTransaction], T], *, durable: bool = True
    ) -> tuple[T, Changes]:
        if self._broken:
            raise self._unavailable()
        transaction = SqliteTransaction(self._writer)
        with self._errors():
            self._set_synced(durable or self._always_sync)
            outcome = self._commit(lambda: work(transaction))
            if not self._synced and transaction.changes.ends:
                # One sync also covers all earlier entries of the log.
                self._set_synced(True)
                self._commit(lambda: transaction.run("UPDATE counter SET next = next"))
        return outcome, transaction.changes

    def notify(self, changes: Changes) -> None:
        self.signals.notify(changes.topics, changes.news)

    def _commit(self, work: Callable[[], T]) -> T:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            outcome = work()
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        return outcome

    def _set_synced(self, synced: bool) -> None:
        if synced is not self._synced:
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._synced = synced

    def shred(self) -> bool:
        if self._broken:
            return False
        with self._errors(), closing(self._connect()) as checkpointer:
            checkpointer.execute("PRAGMA busy_timeout = 0")
            [(busy, _, _)] = checkpointer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not busy

    def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        if self._broken:
            raise self._unavailable()
        with self._errors(), self._readers.connection() as connection:
            connection.execute("BEGIN")
            try:
                return work(SqliteTransaction(connection))
            finally:
                connection.execute("ROLLBACK")

    def close(self) -> None:
        self._broken = self._broken or "it is closed"
        self._readers.close()
        self._writer.close()
        ended_well(self._lock)
        os.close(self._lock)

    def _connect(self) -> sqlite3.Connection:
        # Created here with mode 0600, as SQLite would let other users read the file.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout = 5000")
        return connection

    def _reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = 1")
        return connection

    def _prepare(self) -> None:
        """Check that the file is an intact queue, and migrate its tables."""
        try:
            [(application,)] = self._writer.execute("PRAGMA application_id")
            [(version,)] = self._writer.execute("PRAGMA user_version")
            [(tables,)] = self._writer.execute("SELECT count(*) FROM sqlite_master")
            if application != APPLICATION_ID and (application or version or tables):
                raise InputError(
                    "is a database of another program; name another folder", path=self._path
                )
            if version > len(MIGRATIONS):
                raise InputError(
                    f"is a queue of version {version}, and this Quod supports up to "
                    f"{len(MIGRATIONS)}; use a newer Quod",
                    path=self._path,
                )
            problems = self._writer.execute("PRAGMA quick_check(1)").fetchall()
            if problems != [("ok",)]:
                raise sqlite3.DatabaseError(problems[0][0])
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            # Payloads are secret: deleted content is overwritten.
            self._writer.execute("PRAGMA secure_delete = ON")
            for step in range(version, len(MIGRATIONS)):
                self._migrate(step)
        except sqlite3.OperationalError as error:
            raise StorageFullError(
                f"the database of the queue cannot be opened ({error})",
                retry_seconds=RETRY_SECONDS_OF_A_FULL_DISK,
            ) from error
        except sqlite3.DatabaseError as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"is damaged or not a database ({reason}); restore it", path=self._path
            ) from error

    def _migrate(self, step: int) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            if step == 0:
                self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._writer.execute("CREATE TABLE counter (next INTEGER NOT NULL) STRICT")
                self._writer.execute("INSERT INTO counter (next) VALUES (1)")
            for statement in statements(MIGRATIONS[step], sqlite=True):
                self._writer.execute(statement)
            self._writer.execute(f"PRAGMA user_version = {step + 1}")
            self._writer.execute("COMMIT")
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of SQLite to errors of Quod.

        After a failed disk write the content of the file is unknown, so writes are refused until
        the queue is opened again and reads it.
        """
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF in _DEFECTS and not self._broken:
                raise
            if self._is_full(code):
                self._make_space()
                raise StorageFullError(
                    "the disk of the queue is full", retry_seconds=RETRY_SECONDS_OF_A_FULL_DISK
                ) from error
            self._broken = self._broken or f"its database failed ({error})"
            raise self._unavailable() from error

    def _make_space(self) -> None:
        """Free the reserved space, and checkpoint the log, which shrinks it."""
        self._reserved_space.release()
        with suppress(sqlite3.OperationalError):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _is_full(self, code: int) -> bool:
        """Report whether a write failed for lack of space, which leaves the log unchanged."""
        if code & 0xFF == sqlite3.SQLITE_IOERR and code not in _SYNC_ERRORS:
            return self._reserved_space.full()
        return code == sqlite3.SQLITE_FULL

    def _unavailable(self) -> UnavailableError:
        return UnavailableError(
            f"the queue cannot be used: {self._broken}", retry_seconds=_RESTART_SECONDS
        )


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreInUseError(
            f"{path.parent}: another process has this queue open; sharing a queue needs Postgres"
        ) from None
    return descriptor


def _refuse_network_folder(folder: Path) -> None:
    """Raise InputError for file systems on which SQLite's log does not work."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return
    resolved = folder.resolve()
    folder_type = ""
    longest = -1
    for _, point, file_system, *_ in mounts:
        path = Path(point.encode().decode("unicode_escape"))
        if resolved.is_relative_to(path) and len(path.parts) >= longest:
            folder_type, longest = file_system, len(path.parts)
    if folder_type in _NETWORK_FILE_SYSTEMS:
        raise InputError(
            f"is on a network file system ({folder_type}), where SQLite loses data; name a "
            "folder on a local disk",
            path=folder,
        )
