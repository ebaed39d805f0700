"""The queue in plain Python: lists, no database, nothing that could be lost.

It says what the queue is to answer; `test_interleavings` compares the two after each step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from quod.service.errors import (
    AlreadyExistsError,
    DeadlinePassedError,
    KeySuspendedError,
    LeaseLostError,
    NotFoundError,
    QueueFullError,
)
from quod.service.queue import JobState, Limits, Outcome, Submission


@dataclass
class Part:
    """A partition: "queued", "held", "running", "done" or "dropped"."""

    state: str = "queued"
    token: int = 0
    attempts: int = 0
    renewals: int = 0
    stage: str = ""
    result: bytes = b""


@dataclass
class ModelJob:
    """A job, with the kinds of its events and the outcomes of its attempts."""

    given: Submission
    parts: list[Part]
    state: JobState = JobState.QUEUED
    started: bool = False
    code: str = ""
    ended_at: float = 0.0
    stages: int = 0
    collected: bool = False
    events: list[str] = field(default_factory=lambda: ["queued"])
    attempts: list[tuple[int, int, Outcome]] = field(default_factory=list)

    @property
    def remaining(self) -> int:
        return sum(part.state != "done" for part in self.parts)


@dataclass
class Key:
    suspended: bool = False
    losses: int = 0
    last: int = -1


Held = tuple[int, int, int]
"""A job's place in the list, a partition and a token."""


@dataclass(eq=False)
class Waiting:
    """A claim that waits, and what it is given."""

    keys: list[str] | None
    most: int
    found: list[Held] = field(default_factory=list)


class Model:
    """Model of a queue without crashes, disks and threads."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.jobs: list[ModelJob] = []
        self.keys: dict[str, Key] = {}
        self.claims: list[Waiting] = []
        self.now = 0.0
        self.seen: dict[tuple[int, int, int, int], float] = {}

    def submit(self, submission: Submission) -> int:
        """The place of the job; raises what the queue is to raise."""
        for at, job in enumerate(self.jobs):
            same = (job.given.client, job.given.idempotency_key)
            if not job.collected and submission.idempotency_key and same == (
                submission.client, submission.idempotency_key
            ):  # fmt: skip
                if job.given.digest != submission.digest:
                    raise AlreadyExistsError("")
                return at
        if submission.deadline is not None and submission.deadline <= self.now:
            raise DeadlinePassedError("")
        if self.keys.get(submission.key, Key()).suspended:
            raise KeySuspendedError("")
        open_jobs = [job for job in self.jobs if not job.state.ended]
        client_jobs = sum(job.given.client == submission.client for job in open_jobs)
        limits = self.limits
        free = min(limits.jobs, limits.kept_jobs) - len(open_jobs)
        if (
            client_jobs >= limits.quota_of(submission.client).jobs
            or free < 1
            or (client_jobs and client_jobs + 1 > free)
        ):
            raise QueueFullError("", retry_seconds=1)
        self.jobs.append(ModelJob(submission, [Part() for _ in range(submission.partitions)]))
        return len(self.jobs) - 1

    def make_room(self) -> None:
        """Forgets the oldest ended job of the client that keeps most, as often as need be."""
        while True:
            kept = [job for job in self.jobs if not job.collected]
            ended = [job for job in kept if job.state.ended]
            if len(kept) <= self.limits.kept_jobs or not ended:
                return
            jobs = Counter(job.given.client for job in kept)
            victim = min(
                {job.given.client for job in ended}, key=lambda client: (-jobs[client], client)
            )
            next(job for job in ended if job.given.client == victim).collected = True

    def claim(self, keys: list[str] | None, most: int) -> list[Held]:
        claimed: list[Held] = []
        while len(claimed) < most:
            waiting = sorted(
                (-job.given.priority, at, number)
                for at, job in enumerate(self.jobs)
                for number, part in enumerate(job.parts)
                if part.state == "queued" and (keys is None or job.given.key in keys)
            )[: most - len(claimed)]
            if not waiting:
                break
            for _, at, number in waiting:
                job = self.jobs[at]
                deadline = job.given.deadline
                if not job.state.ended and deadline is not None and deadline <= self.now:
                    self.end(job, JobState.EXPIRED, "DEADLINE_EXCEEDED")
                if job.state.ended:
                    continue
                part = job.parts[number]
                part.state, part.token, part.attempts = "running", part.token + 1, part.attempts + 1
                part.renewals, part.stage = 0, ""
                job.state, job.started = JobState.RUNNING, True
                job.events.append("started")
                claimed.append((at, number, part.token))
        return claimed

    def serve(self) -> None:
        """Gives claims that wait what there is, in the order of their coming."""
        for claim in tuple(self.claims):
            claim.found = self.claim(claim.keys, claim.most)
            if claim.found:
                self.claims.remove(claim)

    def held(self, held: Held) -> tuple[ModelJob, Part]:
        at, number, token = held
        job = self.jobs[at]
        part = job.parts[number]
        if job.collected or part.state != "running" or part.token != token:
            raise LeaseLostError("")
        return job, part

    def renew(self, held: Held, stage: str) -> None:
        job, part = self.held(held)
        part.renewals += 1
        if stage and stage != part.stage and job.stages < self.limits.stage_events:
            part.stage = stage
            job.stages += 1
            job.events.append("stage")

    def finish(self, held: Held, result: bytes) -> None:
        job, part = self.held(held)
        part.state, part.result = "done", result
        job.attempts.append((held[1], held[2], Outcome.SUCCEEDED))
        key = self.keys.get(job.given.key)
        if key is not None:
            key.losses, key.last = 0, -1
        if job.remaining:
            job.events.append("partition")
        else:
            self.end(job, JobState.SUCCEEDED, "")

    def give_up(self, held: Held, outcome: Outcome, code: str, *, retry: bool = True) -> None:
        job, part = self.held(held)
        if outcome is Outcome.RELEASED:
            part.attempts -= 1
        job.attempts.append((held[1], held[2], outcome))
        if retry and part.attempts < self.limits.max_attempts:
            suspended = self.keys.get(job.given.key, Key()).suspended
            part.state = "held" if suspended else "queued"
            job.events.append("released" if outcome is Outcome.RELEASED else "retrying")
        else:
            part.state = "dropped"
            self.end(job, JobState.FAILED, code)

    def lose(self, held: Held) -> None:
        self.held(held)
        self.blame(held[0])
        self.give_up(held, Outcome.LOST, "DIED")

    def blame(self, at: int) -> None:
        name = self.jobs[at].given.key
        key = self.keys.setdefault(name, Key())
        if key.last != at:
            key.losses, key.last = key.losses + 1, at
        if key.losses >= self.limits.suspend_after and not key.suspended:
            self.suspend(name)

    def suspend(self, name: str) -> None:
        self.keys.setdefault(name, Key()).suspended = True
        self.move(name, "queued", "held", "held")

    def resume(self, name: str) -> None:
        self.keys.pop(name, None)
        self.move(name, "held", "queued", "resumed")

    def move(self, name: str, before: str, after: str, kind: str) -> None:
        for job in self.jobs:
            parts = [part for part in job.parts if part.state == before]
            if job.given.key == name and parts:
                for part in parts:
                    part.state = after
                job.events.append(kind)

    def cancel(self, at: int) -> None:
        if self.jobs[at].collected:
            raise NotFoundError("")
        if not self.jobs[at].state.ended:
            self.end(self.jobs[at], JobState.CANCELLED, "CANCELLED")

    def end(self, job: ModelJob, state: JobState, code: str) -> None:
        for number, part in enumerate(job.parts):
            if part.state == "running":
                job.attempts.append((number, part.token, Outcome.ENDED))
            if part.state != "done":
                part.state = "dropped"
        job.state, job.code, job.ended_at = state, code, self.now
        job.events.append("ended")

    def running(self) -> list[tuple[int, int, int, int]]:
        return [
            (at, number, part.token, part.renewals)
            for at, job in enumerate(self.jobs)
            for number, part in enumerate(job.parts)
            if part.state == "running"
        ]

    def lose_all(self, leases: list[tuple[int, int, int, int]], *, blamed: bool) -> None:
        keys: dict[str, int] = {}
        for at, number, token, _ in leases:
            if self.jobs[at].parts[number].state == "running":
                keys.setdefault(self.jobs[at].given.key, at)
                self.give_up((at, number, token), Outcome.LOST, "WORKER_LOST")
        for at in keys.values() if blamed else ():
            self.blame(at)

    def sweep(self) -> None:
        self.seen = {lease: self.seen.get(lease, self.now) for lease in self.running()}
        limits = self.limits
        old = [
            lease for lease, since in self.seen.items() if self.now - since >= limits.lease_seconds
        ]
        self.lose_all(old, blamed=True)
        self.serve()
        for job in self.jobs:
            deadline = job.given.deadline
            if not job.state.ended and deadline is not None and deadline <= self.now:
                self.end(job, JobState.EXPIRED, "DEADLINE_EXCEEDED")
            if job.state.ended and self.now - job.ended_at >= limits.keep_seconds:
                job.collected = True

    def reopen(self, *, shared: bool) -> None:
        """The process ended and began anew; where it was alone, so did its workers."""
        self.seen, self.claims = {}, []
        if not shared:
            self.lose_all(self.running(), blamed=False)

    def waiting(self) -> dict[str, int]:
        return dict(Counter(submission.key for submission in self._queued()))

    def priorities(self) -> dict[int, int]:
        return dict(Counter(submission.priority for submission in self._queued()))

    def _queued(self) -> list[Submission]:
        return [job.given for job in self.jobs for part in job.parts if part.state == "queued"]
