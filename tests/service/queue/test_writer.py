"""Group commit: calls share a transaction, and a failed call does not fail others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from quod.service.errors import StorageFullError, UnavailableError
from quod.service.queue import BlobStore
from quod.service.queue.signals import Signals
from quod.service.queue.stores.store import UndoneError
from quod.service.queue.transaction import Changes
from quod.service.queue.writer import Call, Writer
from tests.service.queue.places import Place, request


class Written(list[int]):
    """Writes of a fake transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = Changes()


class FakeStore:
    """Transactions that are lists of what was written; `errors` are those of the next ones."""

    name = "fake"
    signals = Signals()

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self.errors: list[Exception | None] = []
        self.committed: list[list[int]] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def write(self, work: Callable[[Any], Any], *, durable: bool = True) -> tuple[Any, Changes]:
        self.entered.set()
        self.open.wait()
        written = Written()
        result = work(written)
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.committed.append(written)
        return result, written.changes

    def notify(self, changes: Changes) -> None: ...

    def close(self) -> None: ...


def add(written: list[int], numbers: Sequence[int]) -> list[int]:
    """Writes numbers; zero is a mistake."""
    for number in numbers:
        written.append(number * number // number)
    return [number * 10 for number in numbers]


@pytest.fixture
def fake() -> FakeStore:
    return FakeStore()


@pytest.fixture
def writer(fake: FakeStore, tmp_path: Any) -> Any:
    queue_writer = Writer(fake, BlobStore(tmp_path / "spool"), {"add": add, "other": add})  # type: ignore[arg-type]
    yield queue_writer
    fake.open.set()
    queue_writer.close()


def together(fake: FakeStore, writer: Writer, *calls: Call) -> list[Future[Any]]:
    """Puts calls while the writer is busy with another one, so that they are one group."""
    fake.open.clear()
    fake.entered.clear()
    writer.put(Call("add", 99))
    fake.entered.wait()
    futures = [writer.put(call) for call in calls]
    fake.open.set()
    return futures


def test_concurrent_calls_share_a_commit(fake: FakeStore, writer: Writer) -> None:
    futures = together(fake, writer, *(Call("add", number) for number in range(1, 6)))
    assert [future.result() for future in futures] == [10, 20, 30, 40, 50]
    assert fake.committed == [[99], [1, 2, 3, 4, 5]]


def test_shared_store_commits_one_kind_at_a_time(fake: FakeStore, writer: Writer) -> None:
    fake.shared = True
    calls = [Call("add", 1), Call("other", 2), Call("add", 3)]
    assert [future.result() for future in together(fake, writer, *calls)] == [10, 20, 30]
    assert fake.committed == [[99], [1, 3], [2]]


def test_failed_call_does_not_fail_others(
    fake: FakeStore, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[BaseException] = []
    calls = [Call("add", 1), Call("add", 0, heard.append), Call("add", 3)]
    first, second, third = together(fake, writer, *calls)
    assert (first.result(), third.result()) == (10, 30)
    with pytest.raises(ZeroDivisionError):
        second.result()
    assert [type(error) for error in heard] == [ZeroDivisionError]
    assert "an operation of the queue failed: add" in caplog.text
    assert sorted(number for written in fake.committed for number in written) == [1, 3, 99]


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (UndoneError("deadlock"), UnavailableError),
        (StorageFullError("full", retry_seconds=1), StorageFullError),
    ],
)
def test_rolled_back_calls_are_retried(
    error: Exception, ends: type[Exception], fake: FakeStore, writer: Writer
) -> None:
    fake.errors = [None, error, error, None]
    assert [f.result() for f in together(fake, writer, Call("add", 1), Call("add", 2))] == [10, 20]
    fake.errors = [error] * 5
    with pytest.raises(ends):
        writer.do("add", 1)
    assert writer.do("add", 2) == 20


def test_possibly_committed_calls_are_not_retried(fake: FakeStore, writer: Writer) -> None:
    fake.errors = [None, UnavailableError("gone", retry_seconds=1)]
    for future in together(fake, writer, Call("add", 1), Call("add", 2)):
        with pytest.raises(UnavailableError):
            future.result()
    assert fake.committed == [[99]]


def test_calls_queued_before_close_are_done(fake: FakeStore, writer: Writer) -> None:
    [future] = together(fake, writer, Call("add", 1))
    writer.close()
    assert future.result() == 10
    with pytest.raises(UnavailableError):
        writer.put(Call("add", 1))


def test_payload_is_kept_if_the_commit_outcome_is_unknown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the database knows whether a job uses it."""
    queue = place.open()

    def fails(_: object, **__: object) -> None:
        raise UnavailableError("gone", retry_seconds=1)

    with monkeypatch.context() as patched:
        patched.setattr(queue._store, "write", fails)
        with pytest.raises(UnavailableError):
            queue.submit(request(payload=queue.blob_store.write(b"w")))
    assert len(place.files()) == 1
    for _ in range(2):
        place.clock.now += 600
        queue.sweep()
    assert place.files() == []
