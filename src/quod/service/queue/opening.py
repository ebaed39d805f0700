"""Opening a queue: its folder, its database, its spool and its ballast."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from quod.errors import InputError, OutputError
from quod.service.queue.blob_store import Spool
from quod.service.queue.clock import Clock
from quod.service.queue.job_queue import JobQueue
from quod.service.queue.limits import Limits
from quod.service.queue.operations.rules import Rules
from quod.service.queue.reserved_space import Ballast
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
    """Opens the queue of a folder, which is made with mode 0700 if it is not there.

    Without a `database` it is a file of SQLite there, which one process may have open. A database
    is a URL of Postgres (``postgresql://user@host/name``), where the tables are in a schema; then
    any number of processes may, and the folder, with payloads, must be one that all of them share.
    Every `sweep_seconds` the queue looks after leases, deadlines and old results; with None only
    `JobQueue.sweep` does.

    Raises `InputError` for what is no queue or a newer Quod's, `StoreInUseError` if another process
    has it, `UnavailableError` if the database does not answer.
    """
    limits = Limits() if limits is None else limits
    clock = Clock() if clock is None else clock
    if sweep_seconds is not None:
        checked_seconds("sweep_seconds", sweep_seconds)
    if database is not None:
        checked_database(database)
    _match("the schema", schema, _SCHEMA, "a name in lower case")
    own = own_folder(Path(file_path(folder)))
    ballast = Ballast(own / "ballast", limits.ballast_bytes)
    store: Store
    if database is None:
        from quod.service.queue.stores.sqlite import SqliteStore

        store = SqliteStore(own / "queue.db", ballast)
    else:
        from quod.service.queue.stores.postgres import PostgresStore

        store = PostgresStore(database, schema)
    try:
        spool = Spool(own / "spool")
    except BaseException:
        store.close()
        raise
    return JobQueue(store, spool, Rules(limits, clock, spool, ballast.full), sweep_seconds)


def checked_database(url: object) -> str:
    """A URL of Postgres; `InputError` for anything else."""
    return _match("the database", url, _URL, "a URL of Postgres, postgresql://user@host/name")


def _match(what: str, value: object, pattern: re.Pattern[str], kind: str) -> str:
    """Text of a form; the message does not show it, for URLs have passwords."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InputError(f"{what} must be {kind}")
    return value


def own_folder(folder: Path) -> Path:
    """The folder of a queue, which is made with mode 0700 if it is not there.

    `OutputError` where it cannot be made, `InputError` if others may write to it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot be the folder of a queue ({os.strerror(error.errno or 0)}); "
            "name one that you may write to"
        ) from error
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise InputError("others may write to this folder; give it mode 0700", path=folder)
    return folder
