"""Two servers on one database: a job that one took is waited for at the other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from quod.service.client import JobState, ProofRequest
from quod.service.errors import AlreadyExistsError
from tests.service.queue.conftest import cluster  # noqa: F401
from tests.service.server.conftest import Start
from tests.support.postgres import Cluster


def test_two_servers(start: Start, cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    shared = {"data": tmp_path, "database": cluster.url, "database_schema": "two_servers"}
    first = start(go=False, **shared, listen={"grpc": ["unix:a"], "http": ["unix:b"]})
    second = start(go=False, **shared, listen={"grpc": ["unix:c"], "http": ["unix:d"]})
    with first.client() as one, second.client() as other:
        request = ProofRequest("membership", wtns=b"x", idempotency_key="7")
        job = one.submit(request)
        assert other.submit(request).id == job.id
        with pytest.raises(AlreadyExistsError):
            other.submit(ProofRequest("membership", wtns=b"y", idempotency_key="7"))
        events = other.watch(job.id)
        assert next(events).kind == "queued"
        ended: list[JobState] = []
        waiting = threading.Thread(target=lambda: ended.append(other.wait(job.id).state))
        waiting.start()
        for server in (first, second):
            server.pool.leave.set()
        waiting.join(60)
        assert ended == [JobState.SUCCEEDED]
        assert [event.kind for event in events][-1] == "ended"
        assert first.pool.proofs + second.pool.proofs == 1
        assert one.wait(job.id) == other.wait(job.id)
