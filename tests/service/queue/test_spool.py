"""Payloads: complete or absent, on disk before their job, deleted with it, and never shown."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from quod.errors import InputError, OutputError, QuodError
from quod.service.errors import NotFoundError, StorageFullError
from quod.service.queue import BlobStore
from quod.service.queue import blob_store as spool_module
from quod.service.queue import reaper as sweeper
from tests.service.queue.places import Place, request, submitted

SECRET = b"secret-witness-5e1f"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def test_chunks_form_one_payload(folder: Path) -> None:
    blobs = BlobStore(folder)
    name = blobs.write([b"ab", bytearray(b"cd"), memoryview(b"ef")])
    with blobs.open(name) as file:
        assert file.read() == b"abcdef"
    assert blobs.reserve(name) == 6
    with blobs.writing() as writer:
        writer.write(b"abc")
        # Until it is whole nobody can read it.
        with pytest.raises(NotFoundError):
            blobs.open(writer.name)
    assert blobs.reserve(writer.name) == writer.bytes == 3


def test_interrupted_writes_leave_no_file(folder: Path) -> None:
    blobs = BlobStore(folder)

    def chunks():  # type: ignore[no-untyped-def]
        yield SECRET
        raise KeyError("the client has gone")

    with pytest.raises(KeyError):
        blobs.write(chunks())
    for wrong in ([b"a", "b"], [1], "text", 5, None, {b"a": 1}):
        with pytest.raises(InputError):
            blobs.write(wrong)  # type: ignore[arg-type]
    assert list(folder.iterdir()) == []


def test_disk_writes_are_ordered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    blobs = BlobStore(folder)

    def fsync(descriptor: int) -> None:
        calls.append(f"fsync {os.readlink(f'/proc/self/fd/{descriptor}')}")

    rename = os.rename

    def renamed(before: str, after: str, **dir_fds: int) -> None:
        calls.append(f"rename {after}")
        rename(before, after, **dir_fds)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    name = blobs.write(b"w")
    blobs.sync()
    blobs.sync()  # there is nothing new
    assert calls == [f"fsync {folder}/.{name}", f"rename {name}", f"fsync {folder}"]


def test_the_folder_is_synced_before_the_commit(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = on_sqlite.open()
    order: list[str] = []
    sync = queue.blob_store.sync
    monkeypatch.setattr(queue.blob_store, "sync", lambda: (order.append("sync"), sync()))
    tx = queue._store._writer  # type: ignore[attr-defined]
    tx.set_trace_callback(lambda text: order.append(text) if text == "COMMIT" else None)
    submitted(queue, b"w")
    tx.set_trace_callback(None)
    assert order == ["sync", "COMMIT"]


def test_client_supplied_names_are_rejected(folder: Path) -> None:
    blobs = BlobStore(folder)
    (folder.parent / "secret").write_bytes(b"x")
    (folder / ("a" * 32)).symlink_to(folder.parent / "secret")
    for wrong in ("../secret", "/etc/passwd", "", ".", "A" * 32, "0" * 31, None, 5, b"0" * 32):
        with pytest.raises(InputError):
            blobs.open(wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        blobs.open("a" * 32)  # a link is not followed
    blobs.discard(["../secret", "secret"])
    assert (folder.parent / "secret").exists()


def test_full_disk_error_does_not_leak_the_payload(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = BlobStore(folder)
    for number, kind in ((28, StorageFullError), (27, StorageFullError), (5, OutputError)):

        def fails(descriptor: int, data: bytes, number: int = number) -> int:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", fails)
            with pytest.raises(kind) as refused:
                blobs.write(SECRET)
        assert str(folder) not in str(refused.value)
        assert list(folder.iterdir()) == []


def test_orphans_are_deleted_at_start(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    kept = submitted(queue, SECRET)
    queue.blob_store.write(b"never submitted")
    ended = submitted(queue, SECRET)
    queue.blob_store.discard_soon = lambda names: None  # type: ignore[method-assign]
    queue.cancel(ended.id)
    (on_sqlite.folder / "spool" / ".part").write_bytes(b"half a witness")
    assert len(on_sqlite.files()) == 4
    on_sqlite.close()
    queue = on_sqlite.open()
    assert len(on_sqlite.files()) == 1
    [lease] = queue.claim("w")
    with queue.open_payload(lease) as file:
        assert (file.read(), lease.job) == (SECRET, kept.id)


def test_old_orphans_of_other_processes_are_deleted(place: Place) -> None:
    queue = place.open()
    blob = queue.blob_store.write(SECRET)
    job = submitted(queue, SECRET)
    stray, growing = place.folder / "spool" / "stray", place.folder / "spool" / "growing"
    stray.write_bytes(b"x")
    for size in range(4):
        growing.write_bytes(bytes(size))
        place.clock.now += sweeper.ORPHAN_SECONDS / 2
        queue.sweep()
    assert not stray.exists()
    assert growing.exists()  # somebody is writing it
    assert queue.blob_store.reserve(blob) == len(SECRET)
    assert queue.job(job.id).payload_bytes == len(SECRET)
    assert len(place.files()) == 3


def test_missing_payload_is_rejected(place: Place) -> None:
    queue = place.open()
    name = queue.blob_store.write(SECRET)
    (place.folder / "spool" / name).unlink()
    with pytest.raises(NotFoundError, match="send it again"):
        queue.submit(request(payload=name))
    assert queue.jobs() == []


def test_witnesses_are_never_logged_or_shown(
    place: Place, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    queue = place.open(max_attempts=2)
    shown: list[object] = []
    job = submitted(queue, SECRET, idempotency_key="1")
    [lease] = queue.claim("w")
    queue.renew([lease], stage="msm")
    queue.lose(lease)
    [lease] = queue.claim("w")
    shown += [queue.fail(lease, "BAD", "it does not satisfy the circuit", retry=True)]
    shown += [queue.events(job.id), queue.attempts(job.id), queue.status(), queue.jobs()]
    for wrong in (
        lambda: queue.submit(request(payload=queue.blob_store.write(SECRET), deadline=1.0)),
        lambda: queue.blob_store.write([SECRET, SECRET.decode()]),  # type: ignore[list-item]
        lambda: queue.finish(lease, SECRET.decode()),  # type: ignore[arg-type]
        lambda: queue.submit(request(digest=SECRET)),
    ):
        with pytest.raises(QuodError) as refused:
            wrong()
        shown.append(refused.value)
    text = repr(shown) + caplog.text + "".join(capfd.readouterr())
    assert SECRET.decode() not in text
    for name in (lease.payload, "spool/"):
        assert name not in text
    # Nor is it anywhere on the disk.
    place.close()
    for path in place.folder.rglob("*"):
        assert path.is_dir() or SECRET not in path.read_bytes()


def test_many_payloads_are_written_together(on_sqlite: Place) -> None:
    queue = on_sqlite.open()
    names = queue.blob_store.write_many([b"%d" % at for at in range(50)] + [[b"a", b"b"]])
    assert len({*names}) == 51
    assert on_sqlite.files() == sorted(names)
    for at in (0, 49):
        with queue.blob_store.open(names[at]) as file:
            assert file.read() == b"%d" % at
    with queue.blob_store.open(names[50]) as file:
        assert file.read() == b"ab"
    job = queue.submit(request(payload=names[0]))
    assert job.payload_bytes == 1
    queue.blob_store.discard(names[1:])
    assert on_sqlite.files() == [names[0]]
    assert queue.blob_store.write_many([]) == []


@pytest.mark.parametrize("can_sync_all", [True, False])
def test_invalid_payload_fails_the_whole_batch(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch, can_sync_all: bool
) -> None:
    if not can_sync_all:
        monkeypatch.setattr(spool_module, "_syncfs", None)
    queue = on_sqlite.open()
    with pytest.raises(InputError, match="as bytes, not a str"):
        queue.blob_store.write_many([b"a", ["text"]])  # type: ignore[list-item]
    assert on_sqlite.files() == []
    assert len(queue.blob_store.write_many([b"a", b"b"])) == 2


def test_batch_write_on_a_failing_disk(on_sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = on_sqlite.open()
    monkeypatch.setattr(spool_module, "_syncfs", lambda _: -1)
    with pytest.raises(OutputError, match="the spool could not be written"):
        queue.blob_store.write_many([b"secret"])
    assert on_sqlite.files() == []
