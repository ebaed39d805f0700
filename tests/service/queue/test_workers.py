"""Guarantees to workers: order, fencing, attempts, keys that kill, clocks that jump."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from quod.errors import InputError
from quod.service.errors import LeaseLostError, UnavailableError
from quod.service.queue import Job, JobQueue, JobState, Lease, Outcome, open_queue
from quod.service.queue.operations.claim import Request
from quod.service.queue.operations.sweep import running
from quod.service.queue.writer import Call
from tests.service.queue.conftest import on_both_stores
from tests.service.queue.places import Place, request, submitted
from tests.service.worker.conftest import eventually


def claimed(queue: JobQueue) -> Lease:
    [lease] = queue.claim("w")
    return lease


def test_claims_follow_priority_then_age_then_partition(place: Place) -> None:
    queue = place.open()
    low = submitted(queue, partitions=2)
    old = submitted(queue, priority=5, partitions=3, key="other")
    new = submitted(queue, priority=5)
    place.clock.jump = -1e6  # age is the order of submission, whatever the clock says
    newest = submitted(queue, priority=5)
    first = claimed(queue)
    assert (first.job, first.partition) == (old.id, 0)
    queue.release(first)
    order = [(lease.job, lease.partition) for lease in queue.claim("w", most=2)]
    assert order == [(old.id, 0), (old.id, 1)]
    assert [lease.job for lease in queue.claim("w", most=2, keys=["k"])] == [new.id, newest.id]
    remaining = [(lease.job, lease.partition) for lease in queue.claim("w", most=9)]
    assert remaining == [(old.id, 2), (low.id, 0), (low.id, 1)]
    assert queue.claim("w", keys=[]) == []


class Chooser:
    """Leaves some keys to others, and remembers what it is told."""

    def __init__(self, *skipped_keys: str) -> None:
        self.left = skipped_keys
        self.told: list[tuple[list[str], dict[str, float]]] = []
        self.taken: list[set[str]] = []

    def choose(
        self, worker: str, waiting: Callable[[], Sequence[str]], waited: Callable[[str], float]
    ) -> list[str] | None:
        assert worker == "w"
        keys = list(waiting())
        self.told.append((keys, {key: waited(key) for key in [*keys, "nothing"]}))
        return [key for key in keys if key not in self.left] if self.left else None

    def record_claim(self, worker: str, keys: Collection[str]) -> None:
        assert worker == "w"
        self.taken.append(set(keys))


def counted(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The claims that the queue looks at from now on."""
    asked: list[Any] = []
    operations: Any = queue._writer._operations
    look = operations["claim"]

    def count(tx: Any, requests: Sequence[Any]) -> Sequence[Any]:
        asked.extend(requests)
        return look(tx, requests)

    monkeypatch.setitem(operations, "claim", count)
    return asked


def test_waiting_claims_do_not_poll_an_empty_queue(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once all work is claimed, a claim waits for new work before it reads again."""
    with open_queue(**on_sqlite.arguments) as queue:
        asked = counted(queue, monkeypatch)

        def looks(**options: Any) -> tuple[int, int]:
            """Count the queries to the queue within the time, and the leases it returned."""
            asked.clear()
            leases = queue.claim("w", wait=0.02, **options)
            return len(asked), len(leases)

        job = submitted(queue)
        submitted(queue)
        [lease] = queue.claim("w", wait=60)
        # As much as was asked for: there may be more, and there is.
        assert looks(most=2) == (1, 1)
        # Not before the time is over.
        assert looks(most=2) == (1, 0)
        # Of some keys only: others may be left.
        submitted(queue, key="other")
        assert looks(most=2, keys=["k"]) == (2, 0)
        assert looks(most=2, keys=["k"]) == (2, 0)
        assert looks(most=2) == (1, 1)
        # What comes back is new work.
        queue.fail(lease, "C", "once more", retry=True)
        [again] = queue.claim("w", most=2, wait=60)
        assert (again.job, again.attempt) == (job.id, 2)
        # Of those that are chosen, likewise.
        submitted(queue)
        submitted(queue, key="other")
        chooser = Chooser("other")
        assert looks(most=9, chooser=chooser) == (1, 1)
        assert looks(most=9, chooser=chooser) == (2, 0)
        assert looks(most=9, chooser=Chooser()) == (1, 1)
        assert looks(most=9, chooser=Chooser()) == (1, 0)


class Refuses(Chooser):
    """Fails whenever it is asked."""

    def choose(self, worker: str, *_: Any) -> list[str] | None:
        raise ValueError(worker)


def test_waiting_claim_gets_work_in_the_submitting_transaction(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        open_queue(**on_sqlite.arguments, sweep_seconds=None) as queue,
        ThreadPoolExecutor(3) as pool,
    ):
        written: list[bool] = []
        write = queue._store.write

        def counted(work: Any, *, durable: bool = True) -> Any:
            written.append(durable)
            return write(work, durable=durable)

        first = pool.submit(queue.claim, "v", wait=60, keys=["other"])
        second = pool.submit(queue.claim, "w", wait=60)
        eventually(lambda: len(queue._writer._waiting) == 2)
        monkeypatch.setattr(queue._store, "write", counted)
        job = queue.submit(request(body=b"witness"))
        [lease] = second.result(60)
        assert written == [True]
        assert (lease.job, lease.token, lease.body) == (job.id, 1, b"witness")
        assert b"witness" not in repr(lease).encode()
        assert queue.job(job.id).state is JobState.RUNNING
        assert not first.done()
        # It has no worker's work, and what it fails with is its own.
        third = pool.submit(queue.claim, "w", wait=60, chooser=Refuses())
        with pytest.raises(ValueError, match="w"):
            third.result(60)
        queue._writer._waiting.append(
            broken := Call("claim", Request("w", None, 1, Refuses()), waits=True)
        )
        taken = queue.submit(request(key="other"))
        with pytest.raises(ValueError, match="w"):
            broken.future.result(60)
        assert first.result(60)[0].job == taken.id
        waits = pool.submit(queue.claim, "w", wait=60)
        eventually(lambda: queue._writer._waiting)
        queue.close()
        with pytest.raises(UnavailableError):
            waits.result(60)


def test_interrupted_claim_takes_no_work(on_sqlite: Place) -> None:
    """Otherwise work would be lost, and its key be blamed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    queue = on_sqlite.open()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            queue.claim("w", wait=60)
    finally:
        signal.signal(signal.SIGALRM, before)
    job = submitted(queue)
    assert queue.job(job.id).state is JobState.QUEUED
    assert claimed(queue).token == 1


def test_watcher_is_notified_in_the_ending_transaction(
    on_sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline may pass before a waiting claim sees the job."""
    queue = on_sqlite.open()
    operations: Any = queue._writer._operations
    look, told = operations["claim"], list[Any]()

    def late(tx: Any, requests: Sequence[Any]) -> Sequence[Any]:
        on_sqlite.clock.now += 2.0
        return look(tx, requests)

    def submitted(**fields: Any) -> Any:
        def watch(job: Job) -> None:
            queue.watch_end(job.id, told.append)

        return queue.begin_submit([request(**fields)], watch)

    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(queue.claim, "w", wait=60)
        eventually(lambda: queue._writer._waiting)
        with monkeypatch.context() as patched:
            patched.setitem(operations, "claim", late)
            [expired] = submitted(deadline=on_sqlite.clock.now + 1.0).result()
            eventually(lambda: told)
        assert told == [queue.outcome(expired.id)]
        assert told[0][0].state is JobState.EXPIRED
        submitted(idempotency_key="x").result()
        [lease] = waits.result(60)
    told.clear()
    entered, leave = threading.Event(), threading.Event()

    def held(tx: Any, requests: Any) -> Any:
        entered.set()
        assert leave.wait(60)
        return [None] * len(requests)

    monkeypatch.setitem(operations, "hold", held)
    queue._writer.put(Call("hold", None))
    assert entered.wait(60)
    # In one transaction, in which the job has ended before it is looked for.
    again = submitted(idempotency_key="x")
    end = queue.begin_finish([(lease, b"result")])
    leave.set()
    assert again.result()[0].state is JobState.SUCCEEDED
    assert end() == [None]
    eventually(lambda: len(told) == 2)
    assert told == [queue.outcome(lease.job)] * 2


def test_chooser_selects_the_keys_a_worker_claims(place: Place) -> None:
    queue, chooser = place.open(), Chooser("k")
    assert queue.claim("w", chooser=chooser) == []
    assert chooser.told == [([], {"nothing": 0.0})]
    assert chooser.taken == []
    old = submitted(queue, partitions=2)
    place.clock.jump = 7.0
    other = submitted(queue, key="other")
    submitted(queue, key="third")
    submitted(queue, key="k", priority=9)
    place.clock.jump = 9.0
    first, _ = queue.claim("w", most=2, chooser=chooser)
    assert first.job == other.id
    keys, waits = chooser.told[-1]
    assert keys == ["k", "other", "third"]
    # The oldest counts, though it is not the next.
    assert {key: round(wait) for key, wait in waits.items()} == {
        "k": 9, "other": 2, "third": 2, "nothing": 0
    }  # fmt: skip
    assert chooser.taken == [{"other", "third"}]
    assert queue.claim("w", chooser=chooser) == []
    # It is asked of no worker that knows its keys, and may leave all to the queue's order.
    asked = len(chooser.told)
    assert queue.claim("w", keys=["other"], chooser=chooser) == []
    assert len(chooser.told) == asked
    free = Chooser()
    assert queue.claim("w", most=3, chooser=free)[1].job == old.id
    assert free.taken == [{"k"}]


@on_both_stores
def test_workers_never_share_a_partition(place: Place) -> None:
    with (
        open_queue(**place.arguments) as first,
        open_queue(**place.arguments) if place.shared else first as other,
    ):
        first.submit_many([request(partitions=4)] * 25)

        def work(number: int) -> list[tuple[str, int]]:
            queue, mine = (first, other)[number % 2], []
            while leases := queue.claim(f"w{number}", most=3):
                for lease in leases:
                    queue.finish(lease, b"proof")
                    mine.append((lease.job, lease.partition))
            return mine

        with ThreadPoolExecutor(6) as pool:
            claimed_parts = [pair for mine in pool.map(work, range(6)) for pair in mine]
        assert len(claimed_parts) == len(set(claimed_parts)) == 100
        assert {job.state for job in first.jobs()} == {JobState.SUCCEEDED}


def test_progress_renews_a_lease(place: Place) -> None:
    queue = place.open(lease_seconds=10.0)
    submitted(queue)
    lease = claimed(queue)
    for _ in range(5):
        queue.sweep()
        place.clock.now += 9
        assert queue.renew([lease]) == [None]
    queue.finish(lease, b"proof")


@on_both_stores
def test_results_finished_in_one_call(place: Place) -> None:
    """Each result is accepted or rejected on its own; the last one of a job ends it."""
    queue = place.open()
    first_job, second_job = submitted(queue, partitions=2), submitted(queue)
    first, second, other = queue.claim("w", most=3)
    queue.release(other)
    outcomes = queue.finish_many(
        [(first, b"1"), (other, b"void"), (second, bytes(queue.limits.result_bytes + 1))]
    )
    assert outcomes[0] is None
    assert isinstance(outcomes[1], LeaseLostError)
    assert isinstance(outcomes[2], InputError)
    assert queue.job(first_job.id).remaining == 1
    assert queue.finish_many([(second, b"2"), (claimed(queue), b"3")]) == [None, None]
    assert queue.results(first_job.id) == [b"1", b"2"]
    assert queue.results(second_job.id) == [b"3"]
    assert [event.kind for event in queue.events(second_job.id)][-1] == "ended"
    assert queue.finish_many([]) == []
    for bad in ((first,), b"12", None):
        [error] = queue.finish_many([bad])  # type: ignore[list-item]
        assert isinstance(error, InputError)
    with pytest.raises(InputError, match="the results"):
        queue.finish_many(b"proof")  # type: ignore[arg-type]


def test_lease_renewed_during_expiry_survives(place: Place) -> None:
    queue = place.open()
    submitted(queue)
    lease = claimed(queue)
    [seen] = queue._store.read(running)
    queue.renew([lease])
    assert queue._writer.do("lose", ([seen], True)) == 0
    assert queue._writer.do("lose", ([replace(seen, renewals=1)], True)) == 1
    assert queue._writer.do("lose", ([replace(seen, renewals=1)], True)) == 0


def test_calls_with_a_lost_lease_are_rejected(place: Place) -> None:
    queue = place.open(lease_seconds=10.0)
    job = submitted(queue, b"w")
    old = claimed(queue)
    queue.sweep()
    place.clock.now += 10
    queue.sweep()
    new = claimed(queue)
    assert (new.token, new.attempt) == (old.token + 1, 2)
    for call in (
        lambda: queue.finish(old, b"wrong"),
        lambda: queue.fail(old, "BAD", "bad", retry=False),
        lambda: queue.lose(old),
        lambda: queue.release(old),
    ):
        with pytest.raises(LeaseLostError, match="not renewed in time"):
            call()
    lost, kept = queue.renew([old, new], stage="msm")
    assert isinstance(lost, LeaseLostError)
    assert kept is None
    queue.finish(new, b"right")
    with pytest.raises(LeaseLostError, match="succeeded"):
        queue.finish(new, b"wrong")
    assert queue.results(job.id) == [b"right"]
    outcomes = [
        (attempt.token, attempt.outcome, attempt.code) for attempt in queue.attempts(job.id)
    ]
    assert outcomes == [(1, Outcome.LOST, "WORKER_LOST"), (2, Outcome.SUCCEEDED, "")]


def test_clock_jumps_do_not_expire_leases(place: Place) -> None:
    queue = place.open(lease_seconds=10.0, keep_seconds=100.0)
    done, running = submitted(queue), submitted(queue)
    late = submitted(queue, deadline=place.clock.now + 1000)
    queue.finish(claimed(queue), b"proof")
    lease = claimed(queue)
    queue.sweep()
    for jump in (1e7, -1e7, 500.0):
        place.clock.jump = jump
        place.clock.now += 3
        queue.sweep()
        assert queue.job(running.id).state is JobState.RUNNING
        assert queue.results(done.id) == [b"proof"]  # kept for as long as was said
    queue.finish(lease, b"proof")
    # A deadline is a time of the wall: it was past when the clock said so.
    assert queue.job(late.id).state is JobState.EXPIRED


def test_attempts_are_counted_and_reported(place: Place) -> None:
    queue = place.open(max_attempts=3)
    job = submitted(queue, b"w")
    for number in range(3):
        lease = claimed(queue)
        assert lease.attempt == number + 1
        queue.release(lease)
        again = claimed(queue)
        assert again.attempt == number + 1  # giving back is no attempt
        failed = queue.fail(again, "GPU_LOST", f"no\n{number}\x1b", retry=True)
    assert (failed.state, failed.code, failed.message) == (JobState.FAILED, "GPU_LOST", "no 2")
    assert queue.claim("w") == []
    assert place.files() == []
    wanted = [Outcome.RELEASED, Outcome.FAILED] * 3
    assert [attempt.outcome for attempt in queue.attempts(job.id)] == wanted
    assert [attempt.message for attempt in queue.attempts(job.id)][1::2] == ["no 0", "no 1", "no 2"]


def test_an_error_of_the_client_is_final(place: Place) -> None:
    queue = place.open()
    job = submitted(queue, b"w", partitions=2)
    first, second = queue.claim("w", most=2)
    queue.fail(first, "INVALID_ARGUMENT", "the witness does not satisfy the circuit", retry=False)
    with pytest.raises(LeaseLostError, match="failed"):
        queue.finish(second, b"proof")
    ended = queue.job(job.id)
    assert (ended.state, ended.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    outcomes = [attempt.outcome for attempt in queue.attempts(job.id)]
    assert outcomes == [Outcome.FAILED, Outcome.ENDED]


@pytest.mark.parametrize("stage", ["queued", "claimed", "half done", "ended"])
def test_cancel_at_every_stage(stage: str, place: Place) -> None:
    queue = place.open()
    job = submitted(queue, b"w", partitions=2)
    leases = [] if stage == "queued" else queue.claim("w", most=2)
    for lease in leases[: {"half done": 1, "ended": 2}.get(stage, 0)]:
        queue.finish(lease, b"proof")
    cancelled = queue.cancel(job.id, client="ann")
    ended = JobState.SUCCEEDED if stage == "ended" else JobState.CANCELLED
    assert cancelled.state is ended
    assert (cancelled.started is None) == (stage == "queued")
    assert queue.cancel(job.id) == cancelled
    assert queue.claim("w") == []
    assert place.files() == []
    for lease in leases:
        [lost] = queue.renew([lease])
        assert isinstance(lost, LeaseLostError)
        with pytest.raises(LeaseLostError, match=str(ended)):
            queue.finish(lease, b"proof")
    assert [event.kind for event in queue.events(job.id)].count("ended") == 1


def test_deadlines_end_waiting_and_running_jobs(place: Place) -> None:
    queue = place.open()
    jobs = [submitted(queue, b"w", deadline=place.clock.now + 5) for _ in range(3)]
    lease = claimed(queue)
    place.clock.now += 5
    # A worker gets nothing that is too late, though nobody has swept yet.
    assert queue.claim("w", most=9) == []
    assert [queue.job(job.id).state for job in jobs[1:]] == [JobState.EXPIRED] * 2
    assert queue.job(jobs[0].id).state is JobState.RUNNING
    queue.sweep()
    expired = queue.job(jobs[0].id)
    assert (expired.state, expired.code) == (JobState.EXPIRED, "DEADLINE_EXCEEDED")
    with pytest.raises(LeaseLostError, match="expired"):
        queue.finish(lease, b"proof")
    assert place.files() == []


@on_both_stores
def test_a_key_that_kills_workers_is_suspended(place: Place) -> None:
    queue = place.open(suspend_after=2, max_attempts=3)
    jobs = [submitted(queue, partitions=2) for _ in range(2)]
    other = submitted(queue, key="good")
    for _ in range(2):  # one job, which may be the job's fault
        queue.lose(claimed(queue))
    assert [(key.losses, key.suspended) for key in queue.key_status()] == [(1, False)]
    leases = queue.claim("w", most=3)
    queue.lose(leases[2])  # of the second job
    [status] = queue.key_status()
    assert (status.key, status.losses, status.suspended) == ("k", 2, True)
    assert queue.status().held == 2
    assert [lease.job for lease in queue.claim("w", most=9)] == [other.id]
    for lease in leases[:2]:  # what runs may be finished
        queue.finish(lease, b"proof")
    assert queue.job(jobs[0].id).state is JobState.SUCCEEDED
    queue.resume("k")
    assert queue.key_status() == []
    assert [lease.job for lease in queue.claim("w", most=9)] == [jobs[1].id] * 2
    assert [event.kind for event in queue.events(jobs[1].id)][-3:] == [
        "resumed",
        "started",
        "started",
    ]


def test_a_machine_that_is_lost_does_not_suspend_a_key(place: Place) -> None:
    queue = place.open(suspend_after=2, lease_seconds=10.0)
    for _ in range(5):
        submitted(queue)
    queue.claim("w", most=5)
    queue.sweep()
    place.clock.now += 10
    queue.sweep()
    assert [(key.losses, key.suspended) for key in queue.key_status()] == [(1, False)]
    queue.finish(claimed(queue), b"proof")
    assert [key.losses for key in queue.key_status()] == [0]


def test_failures_and_recoveries_are_in_the_log(
    on_sqlite: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quod")
    queue = on_sqlite.open(max_attempts=3, suspend_after=1)
    job = submitted(queue)
    queue.fail(claimed(queue), "INTERNAL", "the witness is 314159", retry=True)
    queue.lose(claimed(queue))
    queue.resume("k")
    claimed(queue)
    on_sqlite.close()
    on_sqlite.open()
    on_sqlite.close()
    fields = ("message", "job", "outcome", "attempt", "key", "partitions")
    logged = [
        {name: vars(record)[name] for name in fields if name in vars(record)}
        for record in caplog.records if vars(record).setdefault("message", record.getMessage())
    ]  # fmt: skip
    again = "an attempt has failed and is retried"
    assert logged == [
        {"message": again, "job": job.id, "outcome": "failed", "attempt": 1, "key": "k"},
        {"message": "a key was suspended", "key": "k"},
        {"message": again, "job": job.id, "outcome": "lost", "attempt": 2, "key": "k"},
        {"message": "a key was resumed", "key": "k"},
        {"message": "a job has ended", "job": job.id, "key": "k"},
        {"message": "the work of a process that has ended is queued again", "partitions": 1},
    ]
    assert "314159" not in caplog.text


@on_both_stores
def test_old_jobs_and_their_idempotency_keys_expire(place: Place) -> None:
    queue = place.open(keep_seconds=100.0, kept_jobs=2)
    job = submitted(queue, b"w", idempotency_key="1", partitions=2)
    for lease in queue.claim("w", most=2):
        queue.finish(lease, b"proof")
    place.clock.now += 99
    queue.sweep()
    assert len(queue.results(job.id)) == 2
    place.clock.now += 1
    queue.sweep()
    assert (queue.jobs(), queue.status().kept) == ([], 0)
    remaining_rows = queue._store.read(
        lambda tx: [
            tx.rows(f"SELECT count(*) FROM {name}") for name in ("part", "event", "attempt")
        ]
    )
    assert remaining_rows == [[(0,)]] * 3
    again = submitted(queue, idempotency_key="1")
    assert int(again.id.split("-")[0]) > int(job.id.split("-")[0])  # numbers are not used again


def test_results_have_a_limit(place: Place) -> None:
    queue = place.open(result_bytes=10)
    submitted(queue)
    lease = claimed(queue)
    with pytest.raises(InputError, match="has 11 bytes, more than the limit of 10"):
        queue.finish(lease, bytes(11))
    queue.finish(lease, bytes(10))
