"""Workers as actors of a local cluster of Ray's, of machines that are processes, on Postgres."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quod.errors import InputError
from quod.service.errors import NotFoundError
from quod.service.queue import JobState, Limits, open_queue
from quod.service.server.config import Config
from quod.service.server.pools import make_pool
from quod.service.worker.pools.pool import WorkerState
from quod.service.worker.settings import WorkerSettings
from tests.service.worker.conftest import SECONDS, Bench, eventually
from tests.support.postgres import Cluster as Postgres
from tests.support.postgres import why_no_postgres

pytestmark = pytest.mark.thorough

SOURCE = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """A cluster with a head that has place for nothing."""
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    if (reason := why_no_postgres()) is not None:
        pytest.skip(reason)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    memory = 100 << 20
    cluster = cluster_utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": memory},
    )
    # Actors import what is tested here.
    path = os.pathsep.join([str(SOURCE / "src"), str(SOURCE)])
    ray.init(
        address=cluster.address, namespace="quod", log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )  # fmt: skip
    cluster.add = lambda: cluster.add_node(num_cpus=1, object_store_memory=memory)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def fleet(tmp_path: Path, machines: Any) -> Iterator[Bench]:
    """A queue on Postgres, as `bench` is one on SQLite."""
    with Postgres() as postgres:
        harness = Bench(tmp_path)
        harness.queue.close()
        harness.url = postgres.url  # type: ignore[attr-defined]
        harness.data = tmp_path / "data"  # type: ignore[attr-defined]
        harness.queue = open_queue(
            tmp_path / "data", database=postgres.url, sweep_seconds=0.1,
            limits=Limits(ballast_bytes=4096, lease_seconds=3.0),
        )  # fmt: skip
        yield harness
        harness.close()


def pool_of(fleet: Any, count: int) -> Any:
    """As a configuration asks for it."""
    workers = {"devices": ["cpu"] * count, "ray": "auto", "warm": ["small"]}
    config = Config.model_validate(
        {"data": fleet.data, "keys": fleet.repository.path, "database": fleet.url,
         "workers": workers}
    )  # fmt: skip
    return fleet.started(make_pool(config, fleet.queue, fleet.repository))


def test_lost_machine_loses_no_job(fleet: Bench, machines: Any) -> None:
    pool = pool_of(fleet, 2)
    # Without a machine there is a place for none.
    assert {status.state for status in pool.status()} == {WorkerState.STARTING}
    assert not pool.ready
    early = fleet.submit()
    lost_node, other = machines.add(), machines.add()
    eventually(lambda: pool.ready)
    assert fleet.ended(early).state is JobState.SUCCEEDED
    pool.preload("small", worker="cpu#1", timeout=SECONDS)
    with pytest.raises(NotFoundError, match="there is no key none"):
        pool.preload("none")
    with pytest.raises(NotFoundError, match="there is no worker"):
        pool.resume("none")

    jobs = [fleet.submit() for _ in range(40)]
    fleet.ended(jobs[5])
    machines.remove_node(lost_node, allow_graceful=False)
    for job in jobs:
        assert fleet.ended(job).state is JobState.SUCCEEDED
        fleet.check_results(job)
    eventually(lambda: any(status.restarts for status in pool.status()))
    # Ray may place an actor on a machine that is gone before it knows.
    [lost] = [status for status in pool.status() if status.restarts]
    assert lost.state is WorkerState.DEAD
    assert "its actor is lost" in lost.problem
    # Stages are told, and each job's is of one of the two.
    assert {record.job for record in fleet.records} >= {jobs[0].id}

    # Another machine takes its place.
    third = machines.add()
    eventually(lambda: pool.ready)
    assert {status.state for status in pool.status()} <= {WorkerState.READY, WorkerState.BUSY}
    assert pool.drain(SECONDS)
    eventually(lambda: {status.state for status in pool.status()} == {WorkerState.DRAINING})
    pool.close()
    for machine in (other, third):
        machines.remove_node(machine)


def test_a_cluster_needs_a_database(fleet: Bench) -> None:
    from quod.service.worker.cluster.pool import RayPool

    with pytest.raises(InputError, match="in Postgres"):
        RayPool(
            fleet.queue, fleet.repository, [WorkerSettings()], address="auto", data="data",
            database=None,
        )  # fmt: skip
