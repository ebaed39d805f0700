"""Two servers on one database: a client waits at one for a job of the other."""

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
    with first.client() as first_client, second.client() as second_client:
        request = ProofRequest("membership", wtns=b"x", idempotency_key="7")
        job = first_client.submit(request)
        assert second_client.submit(request).id == job.id
        with pytest.raises(AlreadyExistsError):
            second_client.submit(ProofRequest("membership", wtns=b"y", idempotency_key="7"))
        events = second_client.watch(job.id)
        assert next(events).kind == "queued"
        ended: list[JobState] = []
        waiting = threading.Thread(target=lambda: ended.append(second_client.wait(job.id).state))
        waiting.start()
        for server in (first, second):
            server.pool.leave.set()
        waiting.join(60)
        assert ended == [JobState.SUCCEEDED]
        assert [event.kind for event in events][-1] == "ended"
        assert first.pool.proofs + second.pool.proofs == 1
        assert first_client.wait(job.id) == second_client.wait(job.id)
