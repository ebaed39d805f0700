"""Open a queue: its folder, database, blob store and reserved disk space."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quod.errors import InputError, OutputError
from quod.service.errors import StorageFullError
from quod.service.queue.blob_store import BlobStore
from quod.service.queue.clock import Clock
from quod.service.queue.job_queue import JobQueue
from quod.service.queue.limits import Limits
from quod.service.queue.operations.rules import Rules
from quod.service.queue.reserved_space import ReservedSpace
from quod.service.queue.stores.store import Store
from quod.service.queue.validation import checked_seconds
from quod.validation import file_path

_URL = re.compile(r"postgres(ql)?://\S*")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def open_queue(
    folder: str | os.PathLike[str],
    *,
    database: str | None = None,
    schema: str = "quod",
    limits: Limits | None = None,
    sweep_seconds: float | None = 1.0,
    clock: Clock | None = None,
) -> JobQueue:
    """Open the queue in a folder, which is created with mode 0700 if it is missing.

    database: None for an SQLite file in the folder, which one process may open; or a Postgres URL
        (``postgresql://user@host/name``), for any number of processes that share the folder.
    schema: the schema of the Postgres tables.
    sweep_seconds: the interval of sweeps for leases, deadlines and retention; with None only
        `JobQueue.sweep` runs them.
    Raises InputError if the folder or database is not a queue or is from a newer Quod,
    StoreInUseError if another process has it open, UnavailableError if the database does not
    answer, and OutputError if the disk is full or the folder cannot be written to.
    """
    limits = Limits() if limits is None else limits
    clock = Clock() if clock is None else clock
    if sweep_seconds is not None:
        checked_seconds("sweep_seconds", sweep_seconds)
    if database is not None:
        checked_database(database)
    _match("the schema", schema, _SCHEMA, "a name in lower case")
    queue_folder = private_folder(Path(file_path(folder)))
    with _naming_folder(queue_folder):
        return _open_in(queue_folder, database, schema, limits, sweep_seconds, clock)


def _open_in(
    queue_folder: Path, database: str | None, schema: str, limits: Limits,
    sweep_seconds: float | None, clock: Clock,
) -> JobQueue:  # fmt: skip
    reserved_space = ReservedSpace(queue_folder / "ballast", limits.ballast_bytes)
    store: Store
    if database is None:
        from quod.service.queue.stores.sqlite import SqliteStore

        store = SqliteStore(queue_folder / "queue.db", reserved_space)
    else:
        from quod.service.queue.stores.postgres import PostgresStore

        store = PostgresStore(database, schema)
    try:
        blob_store = BlobStore(queue_folder / "spool")
    except BaseException:
        store.close()
        raise
    return JobQueue(
        store, blob_store, Rules(limits, clock, blob_store, reserved_space.full), sweep_seconds
    )


def checked_database(url: object) -> str:
    """Return a Postgres URL; raises InputError for anything else."""
    return _match("the database", url, _URL, "a URL of Postgres, postgresql://user@host/name")


def _match(what: str, value: object, pattern: re.Pattern[str], kind: str) -> str:
    """Return text that matches; messages omit the value, as URLs contain passwords."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InputError(f"{what} must be {kind}")
    return value


def private_folder(folder: Path) -> Path:
    """Return a queue's folder, created with mode 0700 if it is missing.

    Raises OutputError if it cannot be created, InputError if others may write to it.
    """
    with _naming_folder(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise InputError("other users may write to this folder; give it mode 0700", path=folder)
    return folder


@contextmanager
def _naming_folder(folder: Path) -> Iterator[None]:
    """Raise OutputError with the folder for errors of its file system."""
    try:
        yield
    except OSError as error:
        raise _unusable(folder, os.strerror(error.errno or 0)) from error
    except StorageFullError as error:
        raise _unusable(folder, str(error)) from error


def _unusable(folder: Path, reason: str) -> OutputError:
    return OutputError(
        f"{folder}: cannot be used as the folder of a queue ({reason}); name a folder that you may "
        "write to, on a disk with free space"
    )
