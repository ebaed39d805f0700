"""Random sequences of calls on both stores: each answers what the plain model does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quod.errors import ServiceError
from quod.service.errors import NotFoundError, UnavailableError
from quod.service.queue import JobState, Lease, Limits, Outcome, Quota, Submission
from quod.service.queue.operations.claim import Request
from quod.service.queue.writer import Call
from tests.service.queue.model import Held, Model, Waiting
from tests.service.queue.places import DIGESTS, Place

LIMITS: dict[str, Any] = {
    "quota": Quota(jobs=5),
    "jobs": 8,
    "kept_jobs": 9,
    "max_attempts": 2,
    "lease_seconds": 10.0,
    "suspend_after": 2,
    "keep_seconds": 40.0,
    "stage_events": 3,
}
KEYS = st.sampled_from(["k1", "k2"])
REQUESTS = st.fixed_dictionaries(
    {
        "client": st.sampled_from(["ann", "bob"]),
        "key": KEYS,
        "digest": st.sampled_from(DIGESTS[:2]),
        "idempotency_key": st.sampled_from(["", "", "x", "y"]),
        "priority": st.integers(0, 2),
        "deadline": st.sampled_from([None, None, None, -1.0, 5.0, 30.0]),
        "partitions": st.integers(1, 3),
        "as_row": st.booleans(),
    }
)
ANY = st.integers(0, 1 << 16)


class Interleaving(RuleBasedStateMachine):
    """Calls, with leases and jobs of before at random, those that are void included."""

    database: str | None

    @initialize()
    def begin(self) -> None:
        self.place = Place(self.database)
        self.queue = self.place.open(**LIMITS)
        self.model = Model(Limits(**LIMITS))
        self.model.now = self.place.clock.now
        self.ids: list[str] = []
        self.leases: list[tuple[Held, Lease]] = []
        self.waiting: list[tuple[Waiting, Call]] = []

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.remove()

    def both(self, wanted: Callable[[], object], asked: Callable[[], object]) -> None:
        """The queue refuses what the model refuses, and for the same reason."""
        refusal: type[Exception] | None = None
        try:
            wanted()
        except ServiceError as error:
            refusal = type(error)
        if refusal is None:
            asked()
        else:
            with pytest.raises(refusal) as raised:
                asked()
            assert type(raised.value) is refusal

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=3))
    def submit(self, requests: list[dict[str, Any]]) -> None:
        submissions = []
        for request in requests:
            deadline = request["deadline"]
            absolute = None if deadline is None else self.model.now + deadline
            if request.pop("as_row") and self.queue.max_body:
                payload_fields: dict[str, Any] = {"body": b"secret"}
            else:
                payload_fields = {"payload": self.queue.blob_store.write(b"secret")}
            submissions.append(Submission(**request | {"deadline": absolute} | payload_fields))
        for submission, outcome in zip(
            submissions, self.queue.submit_many(submissions), strict=True
        ):
            refusal, at = None, -1
            try:
                at = self.model.submit(submission)
            except ServiceError as error:
                refusal = error
            assert (type(outcome) if isinstance(outcome, ServiceError) else None) is (
                type(refusal) if refusal else None
            )
            if isinstance(outcome, ServiceError):
                continue
            if at == len(self.ids):
                self.ids.append(outcome.id)
            assert outcome.id == self.ids[at]
        self.model.make_room()

    @rule(keys=st.none() | st.lists(KEYS, max_size=2, unique=True), most=st.integers(1, 3))
    def claim(self, keys: list[str] | None, most: int) -> None:
        wanted = self.model.claim(keys, most)
        leases = self.queue.claim("w", keys=keys, most=most)
        assert [(lease.job, lease.partition, lease.token) for lease in leases] == [
            (self.ids[at], number, token) for at, number, token in wanted
        ]
        self.leases += zip(wanted, leases, strict=True)

    @precondition(lambda self: not self.place.shared)
    @rule(keys=st.none() | st.lists(KEYS, max_size=2, unique=True), most=st.integers(1, 3))
    def wait_for_work(self, keys: list[str] | None, most: int) -> None:
        """A wait in one process only: among several processes the order is not defined."""
        claim = Waiting(keys, most)
        call = Call("claim", Request("w", keys and tuple(keys), most), waits=True)
        self.model.claims.append(claim)
        self.waiting.append((claim, call))
        self.queue._writer.put(call)

    @precondition(lambda self: self.model.claims)
    @rule(at=ANY)
    def withdraw(self, at: int) -> None:
        claim = self.model.claims.pop(at % len(self.model.claims))
        [waiter] = [waiter for waiter in self.waiting if waiter[0] is claim]
        self.waiting.remove(waiter)
        assert self.queue._writer.withdraw(waiter[1]).leases == []

    def serve(self) -> None:
        """Claims that wait have what came; the others wait on, or end with the queue."""
        self.model.serve()
        for waiter in tuple(self.waiting):
            claim, call = waiter
            if claim.found:
                leases = call.future.result(60).leases
                assert [(lease.job, lease.partition, lease.token) for lease in leases] == [
                    (self.ids[at], number, token) for at, number, token in claim.found
                ]
                assert all(lease.body in (b"", b"secret") for lease in leases)
                self.leases += zip(claim.found, leases, strict=True)
            elif claim in self.model.claims:
                assert not call.future.done()
                continue
            else:
                assert isinstance(call.future.exception(60), UnavailableError)
            self.waiting.remove(waiter)

    @precondition(lambda self: self.leases)
    @rule(at=ANY, stage=st.sampled_from(["", "msm", "ntt"]))
    def renew(self, at: int, stage: str) -> None:
        held, lease = self.leases[at % len(self.leases)]

        def ask() -> None:
            [error] = self.queue.renew([lease], stage=stage)
            if error is not None:
                raise error

        self.both(lambda: self.model.renew(held, stage), ask)

    @precondition(lambda self: self.leases)
    @rule(at=ANY, newest=st.booleans())
    def finish(self, at: int, newest: bool) -> None:
        held, lease = self.leases[-1 if newest else at % len(self.leases)]
        result = repr(held).encode()
        self.both(lambda: self.model.finish(held, result), lambda: self.queue.finish(lease, result))

    @precondition(lambda self: self.leases)
    @rule(at=ANY, retry=st.booleans())
    def fail(self, at: int, retry: bool) -> None:
        held, lease = self.leases[at % len(self.leases)]
        self.both(
            lambda: self.model.give_up(held, Outcome.FAILED, "BAD", retry=retry),
            lambda: self.queue.fail(lease, "BAD", "bad", retry=retry),
        )

    @precondition(lambda self: self.leases)
    @rule(at=ANY)
    def lose(self, at: int) -> None:
        held, lease = self.leases[at % len(self.leases)]
        self.both(lambda: self.model.lose(held), lambda: self.queue.lose(lease, "DIED"))

    @precondition(lambda self: self.leases)
    @rule(at=ANY)
    def release(self, at: int) -> None:
        held, lease = self.leases[at % len(self.leases)]
        self.both(
            lambda: self.model.give_up(held, Outcome.RELEASED, ""),
            lambda: self.queue.release(lease),
        )

    @precondition(lambda self: self.ids)
    @rule(at=ANY)
    def cancel(self, at: int) -> None:
        at %= len(self.ids)
        self.both(lambda: self.model.cancel(at), lambda: self.queue.cancel(self.ids[at]))

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0, 25.0]))
    def sweep(self, seconds: float) -> None:
        self.place.clock.now += seconds
        self.model.now += seconds
        self.model.sweep()
        self.queue.sweep()

    @rule(key=KEYS)
    def suspend(self, key: str) -> None:
        self.model.suspend(key)
        self.queue.suspend(key, "the operator said so")

    @rule(key=KEYS)
    def resume(self, key: str) -> None:
        self.model.resume(key)
        self.queue.resume(key)

    @rule()
    def reopen(self) -> None:
        self.place.close()
        self.queue = self.place.open(**LIMITS)
        self.model.reopen(shared=self.place.shared)

    @invariant()
    def the_same(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.serve()
        for job_id, job in zip(self.ids, self.model.jobs, strict=True):
            if job.collected:
                with pytest.raises(NotFoundError):
                    self.queue.job(job_id)
                continue
            seen, events = self.queue.wait(job_id, after=0, timeout=0)
            assert (seen.state, seen.remaining, seen.code, seen.started is not None) == (
                job.state, job.remaining, job.code, job.started
            )  # fmt: skip
            assert [event.number for event in events] == list(range(1, seen.last_event + 1))
            assert [event.kind for event in events] == job.events
            attempts = self.queue.attempts(job_id)
            ended = [(a.partition, a.token, a.outcome) for a in attempts if a.outcome is not None]
            assert ended == sorted(job.attempts)
            if job.state is JobState.SUCCEEDED:
                assert self.queue.results(job_id) == [part.result for part in job.parts]
        status = self.queue.status()
        assert status.waiting == self.model.waiting()
        assert status.priorities == self.model.priorities()
        assert status.running == len(self.model.running())
        live = [job for job in self.model.jobs if not job.state.ended]
        assert sum(status.jobs.values()) == len(live)
        assert sum(status.payload_bytes.values()) == len(live) * len(b"secret")
        assert status.kept == sum(not job.collected for job in self.model.jobs)
        # Witnesses are there for as long as they are needed, and not longer.
        assert len(self.place.files()) == sum(job.given.payload != "" for job in live)


def test_both_stores_match_the_model(store: str | None) -> None:
    machine = type("OnStore", (Interleaving,), {"database": store})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25 if store is None else 2,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
