"""The limits of a queue: quotas, retries, retention and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quod.service.queue.validation import checked_name, checked_seconds
from quod.validation import instance, whole_number

_MAX = (1 << 62) - 1
_REMEDY = "write Quota(jobs=..., payload_bytes=...)"


@dataclass(frozen=True)
class Quota:
    """The maximum number of unfinished jobs of one client, and of bytes of their payloads."""

    jobs: int = 10_000
    payload_bytes: int = 64 << 30

    def __post_init__(self) -> None:
        jobs = whole_number("the jobs of a quota", self.jobs, 0, _MAX)
        payload_bytes = whole_number("the bytes of a quota", self.payload_bytes, 0, _MAX)
        self.__dict__.update(jobs=jobs, payload_bytes=payload_bytes)


@dataclass(frozen=True)
class Limits:
    """The limits of a queue.

    quota: the quota of each client that has none in `clients`.
    clients: quotas of single clients, by name.
    jobs, payload_bytes: limits for all clients together. A client with unfinished jobs may
        submit another only if its total would not exceed what is free.
    kept_jobs: unfinished and ended jobs together; at this limit a new job evicts the oldest ended
        jobs of the client that keeps most jobs.
    max_attempts: attempts at a partition.
    lease_seconds: the time after which a lease that is not renewed is lost.
    suspend_after: jobs in a row with which workers died before their key is suspended.
    keep_seconds: retention of ended jobs.
    result_bytes: the maximum size of a result.
    stage_events: stage events recorded for one job.
    ballast_bytes: reserved disk space; a job is accepted only if as many bytes again are free.
    """

    quota: Quota = field(default_factory=Quota)
    clients: Mapping[str, Quota] = field(default_factory=dict)
    jobs: int = 100_000
    payload_bytes: int = 1 << 40
    kept_jobs: int = 1_000_000
    max_attempts: int = 3
    lease_seconds: float = 30.0
    suspend_after: int = 3
    keep_seconds: float = 86_400.0
    result_bytes: int = 1 << 20
    stage_events: int = 100
    ballast_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        instance("the quota", self.quota, Quota, _REMEDY)
        instance("the clients", self.clients, dict, "map names of clients to Quotas")
        for client, quota in self.clients.items():
            instance(f"the quota of {checked_name('the client', client)}", quota, Quota, _REMEDY)
        for name in ("jobs", "payload_bytes", "kept_jobs", "result_bytes", "stage_events"):
            self.__dict__[name] = whole_number(name, getattr(self, name), 0, _MAX)
        for name in ("max_attempts", "suspend_after"):
            self.__dict__[name] = whole_number(name, getattr(self, name), 1, 1000)
        # File systems allocate at least one page.
        ballast_bytes = whole_number("ballast_bytes", self.ballast_bytes, 4096, _MAX)
        self.__dict__.update(ballast_bytes=ballast_bytes)
        for name in ("lease_seconds", "keep_seconds"):
            checked_seconds(name, getattr(self, name))

    def quota_of(self, client: str) -> Quota:
        return self.clients.get(client, self.quota)
