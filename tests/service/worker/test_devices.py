"""Workers on devices with memory of their own: an interpreted one, and the GPUs that there are."""

from __future__ import annotations

import pytest

from quod.groth16.gpu import bases
from quod.service.keys import Tier
from quod.service.queue import JobState
from quod.service.worker.pools.local import LocalPool
from quod.service.worker.pools.pool import Stage
from quod.service.worker.pools.processes import ProcessPool
from quod.service.worker.settings import WorkerSettings
from tests.conftest import need_backend
from tests.service.worker.conftest import SECONDS, WITNESS, Bench, eventually


@pytest.mark.thorough
def test_streams_of_an_emulated_gpu(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # Multiples take an interpreter long.
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))
    check(bench, bench.pool(WorkerSettings("emulated", lanes=2)), 2)


@pytest.mark.device("cuda")
@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("device", ["cuda"])
def test_jobs_on_several_gpus(bench: Bench, device: str, lanes: int, processes: bool) -> None:
    need_backend(device)
    settings = WorkerSettings(device, lanes=lanes, warm=("small",))
    if processes:
        pool = ProcessPool(bench.queue, bench.repository, [settings])
        bench.started(pool)
        check(bench, pool, 40)
    else:
        check(bench, bench.pool(settings), 40)


def check(bench: Bench, pool: LocalPool | ProcessPool, count: int) -> None:
    """All jobs are proved on the device, and a wrong witness is the client's."""
    jobs = [bench.submit() for _ in range(count)]
    wrong = bench.submit(WITNESS[:-32] + bytes(32))
    for job in jobs:
        assert bench.ended(job).state is JobState.SUCCEEDED
        bench.check_results(job)
    failed = bench.ended(wrong)
    assert (failed.state, failed.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    assert "does not satisfy" in failed.message
    eventually(lambda: pool.status()[0].proofs == count)
    [status] = pool.status()
    [use] = status.keys.keys
    assert use.tier is Tier.DEVICE
    assert status.memory["keys"] == use.device_bytes > 0
    assert status.busy_seconds > 0
    uploads = [record for record in bench.records if record.stage is Stage.UPLOAD]
    # All of a file but its headers.
    assert {record.copied_bytes for record in uploads} == {len(WITNESS) - 76}
    assert pool.drain(SECONDS)
