"""Guarantees to clients: the same job for the same request, quotas, results, events, waiting."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quod.errors import InputError, ServiceError
from quod.service.errors import (
    AlreadyExistsError,
    DeadlinePassedError,
    KeySuspendedError,
    NotFoundError,
    QueueFullError,
    UnavailableError,
)
from quod.service.queue import Job, JobState, Quota, job_queue, open_queue
from tests.service.queue.conftest import on_both_stores
from tests.service.queue.places import DIGESTS, Place, request, submitted


@on_both_stores
def test_the_same_request_is_the_same_job(place: Place) -> None:
    queue = place.open(quota=Quota(jobs=1))
    job = submitted(queue, b"witness", idempotency_key="1", deadline=place.clock.now + 5)
    place.clock.now += 6
    again = submitted(queue, b"witness", idempotency_key="1", deadline=place.clock.now - 1)
    assert again == job  # though the quota is used up and its deadline has passed
    assert len(place.files()) == 1
    with pytest.raises(AlreadyExistsError) as refused:
        submitted(queue, b"witness", idempotency_key="1", digest=DIGESTS[1])
    assert refused.value.status == "ALREADY_EXISTS"
    assert len(place.files()) == 1
    assert queue.find("ann", "1") == job
    with pytest.raises(NotFoundError):
        queue.find("bob", "1")
    other = submitted(queue, client="bob", idempotency_key="1", digest=DIGESTS[1])
    assert other.id != job.id


def test_batch_submissions_are_accepted_individually(place: Place) -> None:
    queue = place.open(quota=Quota(jobs=2))
    outcomes = queue.submit_many(
        [
            request(idempotency_key="1"),
            request(idempotency_key="1"),
            request(idempotency_key="1", digest=DIGESTS[1]),
            request(deadline=place.clock.now - 1),
            request(),
            request(),
        ]
    )
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds[2:4] + kinds[5:] == [AlreadyExistsError, DeadlinePassedError, QueueFullError]
    assert outcomes[0] == outcomes[1]
    assert [lease.job for lease in queue.claim("w", most=9)] == [outcomes[0].id, outcomes[4].id]  # type: ignore[union-attr]
    assert queue.submit_many([]) == []


def test_equal_concurrent_submissions_return_the_same_job(place: Place) -> None:
    with (
        open_queue(**place.arguments) as first,
        open_queue(**place.arguments) if place.shared else first as other,
    ):

        def submit(number: int) -> str:
            queue = first if number % 2 else other
            return submitted(queue, b"w", idempotency_key=f"{number % 10}").id

        with ThreadPoolExecutor(16) as pool:
            ids = list(pool.map(submit, range(100)))
        assert [len({*ids[number::10]}) for number in range(10)] == [1] * 10
        assert len(set(ids)) == first.status().kept == 10
        first.blob_store.drain()
        other.blob_store.drain()
        assert len(place.files()) == 10


def test_submissions_of_a_client_are_serialised(on_postgres: Place) -> None:
    """One of a client's submissions to two servers at the same time must see the other."""
    import psycopg

    from quod.service.queue.stores.postgres import PostgresTransaction

    queue = on_postgres.open()
    assert on_postgres.database is not None
    with psycopg.connect(on_postgres.database) as connection, ThreadPoolExecutor(1) as pool:
        PostgresTransaction(connection, 0).serialise(["ann"])
        submitted(queue, client="bob")
        waiting = pool.submit(submitted, queue)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.2)
        connection.rollback()
        assert waiting.result(timeout=60).client == "ann"


@pytest.mark.parametrize(
    ("limits", "fields", "what"),
    [
        ({"quota": Quota(jobs=3)}, {}, "the client's quota of jobs is 3, and 3 are in use"),
        ({"quota": Quota(payload_bytes=10)}, {}, "the client's quota of bytes is 10, and 9"),
        ({"clients": {"ann": Quota(jobs=3)}}, {}, "the client's quota of jobs is 3"),
        ({"jobs": 3}, {"client": "dan"}, "the queue's limit of jobs is 3, and 3 are in use"),
        ({"payload_bytes": 10}, {"client": "dan"}, "the queue's limit of bytes is 10, and 9"),
        ({"kept_jobs": 3}, {"client": "dan"}, "the queue's limit of jobs is 3, and 3 are in use"),
        ({"jobs": 4}, {}, "the queue's limit of jobs is 4, and 1 are free: the client has 1"),
        ({"payload_bytes": 14}, {}, "the queue's limit of bytes is 14, and 5 are free"),
    ],
)
def test_full_queue_names_the_limit(
    limits: dict[str, Any], fields: dict[str, Any], what: str, on_sqlite: Place
) -> None:
    queue = on_sqlite.open(**limits)
    of_one = "quota" in limits or "clients" in limits
    for client in ("ann", "bob", "cid"):
        submitted(queue, b"abc", client="ann" if of_one else client)
    with pytest.raises(QueueFullError, match=what) as refused:
        submitted(queue, b"abc", **fields)
    assert (refused.value.status, refused.value.exit_code) == ("RESOURCE_EXHAUSTED", 11)
    assert refused.value.retry_seconds == queue.limits.lease_seconds  # nothing has ended yet
    assert len(on_sqlite.files()) == 3


def test_retry_time_follows_the_completion_rate(place: Place) -> None:
    queue = place.open(quota=Quota(jobs=300))

    def refused() -> float:
        with pytest.raises(QueueFullError) as error:
            submitted(queue)
        return error.value.retry_seconds

    queue.submit_many([request()] * 300)
    for lease in queue.claim("w", most=120):
        queue.finish(lease, b"proof")
    queue.submit_many([request()] * 120)
    # Two a second; a tenth of the quota is 30.
    assert refused() == pytest.approx(15)
    place.clock.now += 90
    assert refused() == queue.limits.lease_seconds
    # Whatever the clock on the wall says meanwhile.
    place.clock.jump = -1e5
    for lease in queue.claim("w", most=60):
        queue.finish(lease, b"proof")
    queue.submit_many([request()] * 60)
    place.clock.now += 2
    assert refused() == pytest.approx(30)


def test_retry_time_follows_the_jobs_holding_the_quota(place: Place) -> None:
    queue = place.open(jobs=40, quota=Quota(jobs=10, payload_bytes=1000))

    def refused(witness: bytes = b"", **fields: Any) -> float:
        with pytest.raises(QueueFullError) as error:
            submitted(queue, witness, **fields)
        return error.value.retry_seconds

    # 60 jobs of bob's end in a minute, and none of ann's.
    for _ in range(6):
        queue.submit_many([request(client="bob")] * 10)
        for lease in queue.claim("w", most=10):
            queue.finish(lease, b"proof")
    queue.submit_many([request()] * 10)
    assert refused() == queue.limits.lease_seconds
    for _ in range(4):
        submitted(queue, bytes(250), client="bob")
    # Two of bob's four jobs must end for so many bytes.
    assert refused(bytes(500), client="bob") == pytest.approx(2)


@pytest.mark.parametrize("ended", [False, True])
def test_one_client_cannot_fill_the_queue(place: Place, ended: bool) -> None:
    limits = {"kept_jobs": 300} if ended else {"jobs": 300}
    queue = place.open(quota=Quota(jobs=1000), **limits)
    outcomes: list[Job | ServiceError] = []
    for _ in range(6):
        outcomes += queue.submit_many([request()] * 50)
        for lease in queue.claim("w", most=50) if ended else ():
            queue.finish(lease, b"proof")
    taken = [outcome for outcome in outcomes if isinstance(outcome, Job)]
    # Half of what waits, and all of what has ended: that gives way.
    assert len(taken) == (300 if ended else 150)
    first = submitted(queue, client="bob")
    queue.submit_many([request(client="bob")] * 99)
    assert queue.status().kept == (300 if ended else 225)
    kept = queue.jobs(client="bob", most=1000)
    assert (len(kept), kept[-1].id) == (100 if ended else 75, first.id)
    # Of the client that keeps more, the oldest jobs are forgotten, and nothing of them stays.
    numbers = [int(job.id.split("-")[0]) for job in queue.jobs(client="ann", most=1000)]
    assert numbers == list(range(300, 100, -1)) if ended else list(range(150, 0, -1))
    rows = queue._store.read(
        lambda tx: [
            tx.rows(f"SELECT count(DISTINCT job) FROM {name}") for name in ("part", "event")
        ]
    )
    assert rows == [[(queue.status().kept,)]] * 2


def test_own_finished_jobs_are_forgotten_first(place: Place) -> None:
    queue = place.open(kept_jobs=6)
    jobs = {}
    for client in ("ann", "bob", "bob", "bob", "bob", "bob"):
        jobs[submitted(queue, client=client).id] = client
        queue.finish(queue.claim("w")[0], b"proof")
    for _ in range(5):
        jobs[submitted(queue, client="bob").id] = "bob"
        queue.finish(queue.claim("w")[0], b"proof")
    # Bob's new jobs have taken the room of bob's old ones.
    assert [jobs[job.id] for job in queue.jobs()] == ["bob"] * 5 + ["ann"]
    assert [job.id for job in queue.jobs(client="bob")] == list(reversed(jobs))[:5]
    # Jobs that have not ended are never forgotten; they are the limit.
    for client in ("ann", "ann", "bob", "cid", "dan", "eve"):
        submitted(queue, client=client)
    assert {job.state for job in queue.jobs()} == {JobState.QUEUED}
    with pytest.raises(QueueFullError, match="limit of jobs is 6, and 6 are in use"):
        submitted(queue, client="fay")


def test_a_lower_limit_is_reached_in_bounded_steps(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quod.service.queue.operations.submit.MAX_AT_ONCE", 3)
    queue = place.open()
    for lease in [submitted(queue) for _ in range(9)] and queue.claim("w", most=9):
        queue.finish(lease, b"proof")
    place.close()
    queue = place.open(kept_jobs=2)
    kept = []
    for _ in range(4):
        queue.cancel(submitted(queue).id)
        kept.append(queue.status().kept)
    assert kept == [7, 5, 3, 2]


def test_quota_is_released_when_a_job_ends(place: Place) -> None:
    queue = place.open(quota=Quota(jobs=1))
    first = submitted(queue)
    with pytest.raises(QueueFullError):
        submitted(queue)
    queue.cancel(first.id)
    submitted(queue)


@on_both_stores
def test_results_keep_partition_order(place: Place) -> None:
    queue = place.open()
    job = submitted(queue, b"w", partitions=3)
    leases = queue.claim("w", most=9)
    assert [lease.partition for lease in leases] == [0, 1, 2]
    for lease in reversed(leases):
        with pytest.raises(
            ServiceError, match="no result: its state is running; wait until it has ended"
        ):
            queue.results(job.id)
        done = queue.finish(lease, bytes([lease.partition]) * 3)
    assert (done.state, done.remaining) == (JobState.SUCCEEDED, 0)
    assert queue.results(job.id, client="ann") == [b"\0\0\0", b"\1\1\1", b"\2\2\2"]
    assert place.files() == []
    events = queue.events(job.id)
    kinds = ["queued", "started", "started", "started", "partition", "partition", "ended"]
    assert [event.kind for event in events] == kinds
    assert events[4].data == {"partition": 2, "remaining": 2}
    assert events[6].data == {"state": "succeeded"}


def test_jobs_of_other_clients_are_hidden(place: Place) -> None:
    queue = place.open()
    job = submitted(queue)
    for call in (queue.job, queue.results, queue.events, queue.wait, queue.cancel):
        with pytest.raises(NotFoundError):
            call(job.id, client="bob")
    for wrong in (job.id + "0", job.id.replace("-", "-0")[:-1], "1-" + "0" * 16, "x", ""):
        with pytest.raises(NotFoundError):
            queue.job(wrong)
    assert queue.jobs(client="bob") == []


@on_both_stores
def test_jobs_are_listed_newest_first(place: Place) -> None:
    queue = place.open()
    ids = [submitted(queue, client=f"c{number % 2}").id for number in range(6)]
    assert [job.id for job in queue.jobs()] == ids[::-1]
    assert [job.id for job in queue.jobs(client="c1", most=2)] == [ids[5], ids[3]]
    assert [job.id for job in queue.jobs(client="c1", before=ids[3])] == [ids[1]]


def test_event_stream_resumes_after_the_last_event(place: Place) -> None:
    queue = place.open(stage_events=2)
    job = submitted(queue)
    assert [event.number for event in queue.wait(job.id, after=0, timeout=5)[1]] == [1]
    [lease] = queue.claim("w")
    for stage in ("ntt", "ntt", "msm", "check"):
        queue.renew([lease], stage=stage)
    current, events = queue.wait(job.id, after=1, timeout=5)
    # A stage is told once, and only as many as the limit says.
    assert [event.data.get("stage") for event in events] == [None, "ntt", "msm"]
    assert queue.events(job.id, after=current.last_event) == []
    assert [event.number for event in queue.events(job.id, after=1, most=2)] == [2, 3]


def test_waiting_ends_with_the_job_or_in_time(place: Place) -> None:
    with open_queue(**place.arguments) as queue:
        job = submitted(queue)
        current, _ = queue.wait(job.id, timeout=0.05)
        assert current.state is JobState.QUEUED
        woken, ends = threading.Event(), threading.Event()
        unsubscribe = queue.watch(job.id, woken.set)
        told: list[Any] = []
        queue.watch_end(job.id, told.append)
        at_end = queue.watch(job.id, ends.set, end=True)
        assert queue.outcome(job.id) == (current, [])

        def work() -> None:
            [lease] = queue.claim("w", wait=60)
            queue.renew([lease], stage="msm")
            queue.finish(lease, b"proof")

        worker = threading.Thread(target=work)
        worker.start()
        current, events = queue.wait(job.id, timeout=60)
        worker.join()
        assert current.state is JobState.SUCCEEDED
        assert events[-1].kind == "ended"
        assert queue.outcome(job.id) == (current, [b"proof"])
        # Who looks by himself may see the end before it is told.
        assert ends.wait(60)
        assert woken.wait(60)
        # Of other processes nothing is told but that there is something.
        assert told == [None if place.shared else queue.outcome(job.id)]
        at_end()
        unsubscribe()
        unsubscribe()


@on_both_stores
def test_a_claim_waits_for_work(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is told: it does not look by itself before the test has ended.
    monkeypatch.setattr(job_queue, "LOOK_AGAIN_SECONDS", 3600.0)
    with open_queue(**place.arguments) as queue:
        assert queue.claim("w", wait=0.05) == []
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(queue.claim, "w", wait=300)
            time.sleep(0.05)
            job = submitted(queue)
            begin = time.monotonic()
            assert [lease.job for lease in waiting.result()] == [job.id]
            assert time.monotonic() - begin < 200


def test_closed_queue_raises_unavailable(place: Place) -> None:
    queue = place.open()
    job = submitted(queue)
    place.close()
    for call in (lambda: submitted(queue), lambda: queue.job(job.id), lambda: queue.claim("w")):
        with pytest.raises(UnavailableError):
            call()
    assert place.open().job(job.id).state is JobState.QUEUED


def test_suspended_keys_reject_jobs(place: Place) -> None:
    queue = place.open()
    queue.suspend("k", "it is broken")
    with pytest.raises(KeySuspendedError):
        submitted(queue, b"w")
    assert place.files() == []
    submitted(queue, key="other")
    [status] = queue.key_status()
    assert (status.key, status.suspended, status.reason) == ("k", True, "it is broken")


def test_payloads_belong_to_one_job(place: Place) -> None:
    queue = place.open()
    name = queue.blob_store.write(b"witness")
    # A witness in place of its name is a secret still.
    with pytest.raises(
        InputError, match=r"^the payload must be the result of blob_store.write, not a bytes$"
    ):
        request(payload=b"witness")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not written by this spool"):
        queue.submit_many([request(payload=name), request(payload=name)])
    queue.submit(request(payload=name))  # which was not used up by the mistake
    for wrong in (name, "0" * 32, "../queue.db"):
        with pytest.raises(InputError):
            queue.submit(request(payload=wrong))


def test_jobs_ahead_of_a_job(place: Place) -> None:
    queue = place.open()
    jobs = [submitted(queue, priority=priority) for priority in (1, 5, 1, 5)]
    assert [queue.jobs_before(job.id) for job in jobs] == [2, 0, 3, 1]
    queue.cancel(jobs[1].id)
    assert [queue.jobs_before(job.id) for job in jobs[2:]] == [2, 0]
    with pytest.raises(NotFoundError):
        queue.jobs_before("7-" + "0" * 16)
