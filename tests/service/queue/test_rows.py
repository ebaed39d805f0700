"""Payloads stored as rows, and the order of writes to the disk."""

from __future__ import annotations

import os
import shutil
from io import SEEK_END
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.service.errors import NotFoundError, StorageFullError
from quod.service.queue import JobQueue, JobState, Limits, Submission, job_queue, open_queue
from quod.service.queue.stores import boots
from quod.service.queue.stores.sqlite import SqliteStore
from tests.service.queue.places import DIGESTS, Place, request

_SECRET = b"what nobody may find " * 1000


def _found(folder: Path) -> list[str]:
    """Files in which some of the payload is."""
    return [
        path.name for path in folder.rglob("*")
        if path.is_file() and _SECRET[:21] in path.read_bytes()
    ]  # fmt: skip


def _rows(queue: JobQueue) -> list[Any]:
    return queue._store.read(lambda tx: tx.rows("SELECT job FROM payload"))


def _shredded(place: Place, queue: JobQueue) -> None:
    """Has the writer done all it has to do, and a sweep find nothing new."""
    queue._writer.do("renew", _NOTHING)
    place.clock.now += 1
    queue.sweep()
    queue.sweep()


class _Nothing:
    leases = ()
    stage = ""


_NOTHING = _Nothing()


def test_payload_row_is_deleted_when_its_job_ends(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    job = queue.submit(request(body=_SECRET, partitions=2))
    assert job.payload_bytes == queue.status().payload_bytes["ann"] == len(_SECRET)
    assert on_sqlite.files() == []
    leases = queue.claim("w", most=2)
    for lease in leases:
        with queue.open_payload(lease) as file:
            assert file.read() == _SECRET
            assert file.seek(0, SEEK_END) == len(_SECRET)
    assert _found(on_sqlite.folder)
    for lease in leases:
        queue.finish(lease, b"proof")
    _shredded(on_sqlite, queue)
    assert _rows(queue) == []
    assert _found(on_sqlite.folder) == []
    assert queue.results(job.id) == [b"proof"] * 2
    with pytest.raises(NotFoundError, match="its job has ended"):
        queue.open_payload(leases[0])


@pytest.mark.parametrize("how", ["cancel", "fail", "expire"])
def test_payload_row_is_deleted_for_every_outcome(how: str, on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    job = queue.submit(request(body=_SECRET, deadline=on_sqlite.clock.now + 5))
    [lease] = queue.claim("w")
    if how == "cancel":
        queue.cancel(job.id)
    elif how == "fail":
        queue.fail(lease, "BAD", "bad", retry=False)
    else:
        on_sqlite.clock.now += 6
        queue.sweep()
    _shredded(on_sqlite, queue)
    assert queue.job(job.id).state.ended
    assert _found(on_sqlite.folder) == []


def test_busy_write_ahead_log_is_wiped(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    for number in range(4):
        job = queue.submit(request(body=_SECRET))
        queue.cancel(job.id)
        queue._writer.do("renew", _NOTHING)
        on_sqlite.clock.now += 15
        queue.sweep()
        # Something was erased before each of the sweeps; after half a minute that is no excuse.
        assert bool(_found(on_sqlite.folder)) is (number % 2 == 0)


def test_closing_deletes_rows_of_ended_jobs(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    queue.cancel(queue.submit(request(body=_SECRET)).id)
    on_sqlite.close()
    assert _found(on_sqlite.folder) == []


def test_rows_of_a_dead_process_are_deleted_at_start(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = on_sqlite.open()
    kept = queue.submit(request(body=b"kept"))
    monkeypatch.setattr(queue._writer, "_erase", lambda: None)
    queue.cancel(queue.submit(request(body=_SECRET)).id)
    assert len(_rows(queue)) == 2
    on_sqlite.close()
    queue = on_sqlite.open()
    assert len(_rows(queue)) == 1
    [lease] = queue.claim("w", most=2)
    assert lease.job == kept.id
    with queue.open_payload(lease) as file:
        assert file.read() == b"kept"


def test_oversized_payload_rows_are_rejected(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    most = queue.max_body
    assert queue.submit(request(body=bytes(most))).payload_bytes == most
    with pytest.raises(
        InputError, match=f"{most + 1} bytes, more than this queue's limit of {most}"
    ):
        queue.submit(request(body=bytes(most + 1)))
    with pytest.raises(InputError, match="not both"):
        Submission("ann", "k", DIGESTS[0], "a" * 32, body=b"x")
    with pytest.raises(InputError, match="the body"):
        Submission("ann", "k", DIGESTS[0], body="text")  # type: ignore[arg-type]
    assert "secret" not in repr(Submission("ann", "k", DIGESTS[0], body=b"secret"))


def test_payloads_beyond_the_row_limit_are_files(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database file does not shrink."""
    monkeypatch.setattr(job_queue, "MAX_ROW_BYTES", 1000)
    queue = on_sqlite.open()
    jobs = []
    while queue.max_body:
        jobs.append(queue.submit(request(body=bytes(300))))
    assert len(jobs) == 4
    # Who decided before it was full is not refused.
    jobs.append(queue.submit(request(body=bytes(300))))
    queue.sweep()
    assert queue.max_body == 0
    on_sqlite.close()
    queue = on_sqlite.open()
    assert queue.max_body == 0
    for job in jobs[1:]:
        queue.cancel(job.id)
    queue._writer.do("renew", _NOTHING)
    queue.sweep()
    assert queue.max_body == 256 << 10


def test_rows_on_a_full_disk(small_disk: Path) -> None:
    """Existing rows are finished and erased, if necessary in the reserved disk space."""
    limits = Limits(ballast_bytes=1 << 20)
    filler = small_disk / "filler"
    with open_queue(small_disk / "queue", limits=limits, sweep_seconds=None) as queue:
        jobs = [queue.submit(request(body=_SECRET[:20_000])) for _ in range(20)]
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        with pytest.raises(StorageFullError):
            queue.submit(request(body=_SECRET))
        while leases := queue.claim("w", most=5):
            for lease in leases:
                with queue.open_payload(lease) as payload:
                    assert payload.read() == _SECRET[:20_000]
                queue.finish(lease, bytes(2_000))
        assert {queue.job(job.id).state for job in jobs} == {JobState.SUCCEEDED}
        filler.unlink()
        queue._writer.do("renew", _NOTHING)
        queue.sweep()
        queue.sweep()
        assert _rows(queue) == []
        assert _found(small_disk) == []
        queue.submit(request(body=_SECRET))


def test_postgres_keeps_no_rows(on_postgres: Place) -> None:
    """Postgres may keep old rows in its log and tables."""
    queue = on_postgres.open()
    assert queue.max_body == 0
    with pytest.raises(InputError, match="write it to the spool"):
        queue.submit(request(body=b"x"))


def test_repeated_request_stores_one_row(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    first, second = queue.submit_many([request(body=b"x", idempotency_key="1")] * 2)
    assert not isinstance(first, Exception)
    assert not isinstance(second, Exception)
    assert first.id == second.id == queue.submit(request(body=b"x", idempotency_key="1")).id
    assert len(_rows(queue)) == 1


def test_power_loss_after_a_claim(on_sqlite: Place, tmp_path: Path) -> None:
    """The claim may be gone with the worker that had it; what was told a client is not."""
    queue = on_sqlite.open()
    log = on_sqlite.folder / "queue.db-wal"
    job = queue.submit(request(body=b"w"))
    synced = log.stat().st_size
    [lease] = queue.claim("w")
    assert lease.token == 1
    assert log.stat().st_size > synced

    def lost(name: str, nbytes: int) -> JobQueue:
        """The queue as the disk has it if only so much of the log came there."""
        place = Place(None, tmp_path / name)
        shutil.copytree(on_sqlite.folder, place.folder)
        os.truncate(place.folder / "queue.db-wal", nbytes)
        (place.folder / "queue.db-shm").unlink()
        return place.open()

    after = lost("before the claim", synced)
    assert after.job(job.id).state is JobState.QUEUED
    [again] = after.claim("another")
    assert (again.token, again.attempt) == (1, 1)
    with after.open_payload(again) as file:
        assert file.read() == b"w"
    assert after.finish(again, b"proof").state is JobState.SUCCEEDED
    after.close()
    torn = lost("within the claim", synced + 100)
    assert torn.job(job.id).state is JobState.QUEUED
    torn.close()


def _commits(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record whether each commit from now on was synced."""
    store, synced = queue._store, list[bool]()
    assert isinstance(store, SqliteStore)
    commit = store._commit

    def noted(work: Any) -> Any:
        [(level,)] = store._writer.execute("PRAGMA synchronous")
        synced.append(level == 2)
        return commit(work)

    monkeypatch.setattr(store, "_commit", noted)
    return synced


def test_commits_that_are_synced(on_sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = on_sqlite.open()
    commits = _commits(queue, monkeypatch)
    queue.submit(request())
    [lease] = queue.claim("w")
    queue.renew([lease], stage="msm")
    queue.finish(lease, b"proof")
    assert commits == [True, False, False, True]
    # A claim that finds a deadline passed ends the job, which clients are told.
    late = queue.submit(request(deadline=on_sqlite.clock.now + 1))
    on_sqlite.clock.now += 2
    commits.clear()
    assert queue.claim("w") == []
    assert commits == [False, True]
    assert queue.job(late.id).state is JobState.EXPIRED


@pytest.mark.parametrize(("boot", "careful"), [("", False), ("own", False), ("other", True)])
def test_claims_are_synced_after_an_unclean_shutdown(
    boot: str, careful: bool, on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that crashes the machine must not be retried forever."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (on_sqlite.folder / "queue.lock").write_text(boot_id if boot == "own" else boot)
    queue = on_sqlite.open()
    commits = _commits(queue, monkeypatch)
    queue.submit(request())
    assert len(queue.claim("w")) == 1
    assert commits == [True, careful]
    assert (on_sqlite.folder / "queue.lock").read_text() == (boot if careful else boot_id)
    on_sqlite.close()
    assert (on_sqlite.folder / "queue.lock").read_text() == ""


def test_machine_without_a_boot_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boots, "_BOOT", tmp_path / "none")
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        assert [boots.machine_crashed(lock) for _ in range(3)] == [False, True, True]
        boots.ended_well(lock)
        assert not boots.machine_crashed(lock)
    finally:
        os.close(lock)
