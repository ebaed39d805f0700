"""Files on the disk: foreign files, versions, a second process, a full disk."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError, OutputError
from quod.service.errors import StorageFullError, StoreInUseError, UnavailableError
from quod.service.queue import JobQueue, JobState, Limits, open_queue, schema
from quod.service.queue.reserved_space import ReservedSpace
from quod.service.queue.stores import sqlite
from quod.service.queue.stores.sqlite import SqliteStore
from tests.service.queue.conftest import on_both_stores
from tests.service.queue.crashing import REPOSITORY
from tests.service.queue.places import Place, request, submitted


def pragma(queue: JobQueue, name: str) -> Any:
    """A setting of the connection that writes."""
    assert isinstance(queue._store, SqliteStore)
    return queue._store._writer.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_commit_is_on_disk_before_it_is_acknowledged(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    assert (pragma(queue, "journal_mode"), pragma(queue, "synchronous")) == ("wal", 2)


def test_files_are_for_their_owner(on_sqlite: Place) -> None:
    folder = on_sqlite.folder = on_sqlite.folder / "new" / "queue"
    before = os.umask(0)
    try:
        submitted(on_sqlite.open(), b"witness")
    finally:
        os.umask(before)
    modes = {
        path.relative_to(folder).parts[0]: stat.S_IMODE(path.stat().st_mode)
        for path in [*folder.rglob("*"), folder]
        if path != folder and path.parent.name != "spool"
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes["spool"] == 0o700
    assert {modes[name] for name in modes if name != "spool"} == {0o600}
    [witness] = (folder / "spool").iterdir()
    assert stat.S_IMODE(witness.stat().st_mode) == 0o600


def test_a_second_process_is_refused(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    code = f"from quod.service.queue import open_queue; open_queue({str(on_sqlite.folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert "StoreInUseError" in done.stderr
    with pytest.raises(StoreInUseError, match="sharing a queue needs Postgres"):
        on_sqlite.open()
    submitted(queue)
    on_sqlite.close()
    assert len(on_sqlite.open().jobs()) == 1


def _damaged(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(os.urandom(8 * 4096))


def _foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE job (id TEXT)")


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS) + 1}")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda path: path.write_bytes(b"no database at all" * 1000),
            "is damaged or not a database",
        ),
        (_damaged, "is damaged or not a database"),
        (lambda path: os.truncate(path, 3 * 4096), "is damaged or not a database"),
        (_foreign, "is a database of another program"),
        (_newer, "is a queue of version 3, and this Quod supports up to 2; use a newer Quod"),
    ],
    ids=["text", "damaged", "cut off", "foreign", "newer"],
)
def test_foreign_database_file_is_not_modified(spoil: Any, message: str, on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    queue.submit_many([request()] * 100)
    on_sqlite.close()
    path = on_sqlite.folder / "queue.db"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=message) as refused:
        on_sqlite.open()
    assert refused.value.path == str(path)
    assert path.read_bytes() == before


def test_foreign_schema_is_not_modified(on_postgres: Place) -> None:
    import psycopg

    on_postgres.open()
    on_postgres.close()
    assert on_postgres.database is not None
    with psycopg.connect(on_postgres.database, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {on_postgres.schema}")
        connection.execute("UPDATE quod_queue SET version = 7")
        with pytest.raises(InputError, match="is a queue of version 7"):
            on_postgres.open()
        connection.execute("DROP TABLE quod_queue")
        with pytest.raises(InputError, match="has tables of another program"):
            on_postgres.open()


@on_both_stores
def test_old_schemas_are_migrated(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submitted(place.open())
    place.close()
    migrations = schema.MIGRATIONS
    steps = [
        ("ALTER TABLE job ADD COLUMN note BIGINT", "UPDATE job SET note = 7"),
        ("NO SUCH WORD",),
    ]
    for module in (schema, sqlite):
        monkeypatch.setattr(module, "MIGRATIONS", (*migrations, *steps))
    if place.database is not None:
        from quod.service.queue.stores import postgres

        monkeypatch.setattr(postgres, "MIGRATIONS", schema.MIGRATIONS)
    with pytest.raises((UnavailableError, OutputError)):
        place.open()  # the last step fails, and is undone
    for module in (sqlite, *([postgres] if place.database is not None else [])):
        monkeypatch.setattr(module, "MIGRATIONS", schema.MIGRATIONS[: len(migrations) + 1])
    queue = place.open()
    assert queue._store.read(lambda tx: tx.rows("SELECT note FROM job")) == [(7,)]
    assert queue.job(job.id).state is JobState.QUEUED


def test_folders_accessible_to_others_are_rejected(on_sqlite: Place) -> None:
    on_sqlite.folder.chmod(0o777)
    with pytest.raises(InputError, match="other users may write"):
        on_sqlite.open()
    on_sqlite.folder.chmod(0o700)
    (on_sqlite.folder / "spool").mkdir(mode=0o755)
    with pytest.raises(InputError, match="not private to this user"):
        on_sqlite.open()
    (on_sqlite.folder / "spool").chmod(0o700)
    on_sqlite.open()  # and the refusal has let go of the database
    with pytest.raises(OutputError):
        open_queue(on_sqlite.folder / "queue.db" / "below")


def test_networks_are_refused(on_sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def mounts(path: Path) -> str:
        assert path == Path("/proc/mounts")
        return f"host:/x {on_sqlite.folder} nfs4 rw 0 0\n/dev/a / ext4 rw 0 0\n"

    monkeypatch.setattr(Path, "read_text", mounts)
    with pytest.raises(InputError, match=r"on a network file system \(nfs4\)"):
        on_sqlite.open()


def test_full_database_rejects_jobs_but_finishes_others(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    job = submitted(queue, b"w")
    [lease] = queue.claim("w")
    ballast = on_sqlite.folder / "ballast"
    assert ballast.stat().st_size == 4096
    pages = pragma(queue, "page_count")
    pragma(queue, f"max_page_count = {pages}")
    with pytest.raises(StorageFullError) as refused:
        queue.submit_many([request(payload=queue.blob_store.write(b"w"))] * 1 + [request()] * 500)
    assert refused.value.status == "RESOURCE_EXHAUSTED"
    assert not ballast.exists()
    assert len(on_sqlite.files()) == 1
    # What ends shares no transaction with what does not fit.
    assert queue.finish(lease, b"proof").state is JobState.SUCCEEDED
    pragma(queue, "max_page_count = 1000000")
    assert submitted(queue).state is JobState.QUEUED
    assert ballast.exists()
    assert queue.results(job.id) == [b"proof"]


def test_a_failed_write_of_the_disk_closes_the_queue(on_sqlite: Place) -> None:
    """After a failed sync the contents of a disk are unknown."""
    queue = on_sqlite.open()

    def fails(_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC  # type: ignore[misc]
        raise error

    with pytest.raises(UnavailableError, match="its database failed"):
        queue._store.write(fails)
    with pytest.raises(UnavailableError):
        submitted(queue)
    on_sqlite.close()
    submitted(on_sqlite.open())


def test_full_disk_rejects_jobs_but_finishes_others(small_disk: Path) -> None:
    limits = Limits(ballast_bytes=1 << 20)
    filler = small_disk / "filler"
    with open_queue(small_disk / "queue", limits=limits, sweep_seconds=None) as queue:
        jobs = [submitted(queue, b"witness") for _ in range(20)]
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        with pytest.raises(StorageFullError):
            submitted(queue)
        with pytest.raises(StorageFullError):
            queue.blob_store.write(bytes(100_000))
        assert queue.status().storage_full
        while leases := queue.claim("w", most=5):
            for lease in leases:
                queue.finish(lease, bytes(20_000))
        assert not (small_disk / "queue" / "ballast").exists()
        assert {queue.job(job.id).state for job in jobs} == {JobState.SUCCEEDED}
        queue.blob_store.drain()
        assert list((small_disk / "queue" / "spool").iterdir()) == []
        with pytest.raises(StorageFullError):
            submitted(queue)
        filler.unlink()
        assert submitted(queue, b"w").state is JobState.QUEUED
        assert (small_disk / "queue" / "ballast").stat().st_size == 1 << 20


def test_a_disk_that_is_full_at_the_start(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(2 << 20))
    limits = Limits(ballast_bytes=1 << 20)
    queue = open_queue(small_disk / "queue", limits=limits, sweep_seconds=None)
    with queue, pytest.raises(StorageFullError):
        submitted(queue)


def test_reserved_space_is_resized(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    path.write_bytes(b"x")
    assert not ReservedSpace(path, 8192).full()
    assert path.stat().st_size == 8192
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert ReservedSpace(path, 8192).full()  # a link is not followed
