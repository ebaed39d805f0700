"""Workers of this process: proofs, client and device errors, cancellation, draining."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from quod.device.emulated.device import EmulatedDevice
from quod.errors import DeviceError, InputError
from quod.formats import Witness
from quod.frozen import replace
from quod.groth16 import ProvingKey, VerifyingKey
from quod.service.errors import KeyInUseError, NotFoundError, UnavailableError
from quod.service.keys.needs import Tier
from quod.service.payload import PayloadKind, path_body
from quod.service.queue import JobState
from quod.service.worker.budget import MemoryBudget
from quod.service.worker.buffers import HEADER_BYTES
from quod.service.worker.pools.local import LocalPool
from quod.service.worker.pools.pool import Stage, WorkerState
from quod.service.worker.result import read_result, result_bytes
from quod.service.worker.settings import WorkerSettings, sharing
from tests.service.keys.conftest import BLS, BN254
from tests.service.keys.test_resident import MEMBERSHIP
from tests.service.worker.conftest import PROOF_STAGES, SECONDS, WITNESS, Bench, eventually


def test_jobs_are_proved(bench: Bench, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "w.wtns").write_bytes(WITNESS)
    by_path = path_body(root, "w.wtns")
    jobs = [bench.submit() for _ in range(5)]
    jobs += [bench.submit(*[WITNESS] * 3), bench.submit(by_path, by_path, kind=PayloadKind.PATH)]
    pool = bench.pool(WorkerSettings(warm=("small",)))
    for job in jobs:
        assert bench.ended(job).state is JobState.SUCCEEDED
        bench.check_results(job)
        assert all(attempt.worker == "cpu" for attempt in bench.queue.attempts(job.id))
    assert pool.ready
    assert pool.drain(SECONDS)
    [status] = pool.status()
    assert (status.name, status.device, status.state) == ("cpu", "cpu", WorkerState.DRAINING)
    assert (status.proofs, status.failures, status.restarts) == (10, 0, 0)
    assert status.jobs == {}
    assert 0 < status.busy_seconds <= time.time() - status.started
    assert status.memory["keys"] > 0
    assert status.memory["workspace"] == 0
    # Each stage of each partition was told of, once, in order.
    assert len(bench.records) == 5 * 10
    for job in jobs:
        for partition in range(job.partitions):
            records = [
                record
                for record in bench.records
                if (record.job, record.partition) == (job.id, partition)
            ]
            assert [record.stage for record in records] == PROOF_STAGES
            assert all(record.begin <= record.end for record in records)
            assert job.created <= records[0].begin
            assert records[-1].end <= time.time() + 1
            uploads = [record for record in records if record.stage is Stage.UPLOAD]
            assert {record.copied_bytes for record in uploads} != {0}
    bench.queue.blob_store.drain()
    assert list((tmp_path / "queue" / "spool").iterdir()) == []


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"nonsense", "INVALID_ARGUMENT", "the witness: is not a wtns file"),
        (WITNESS[:-1], "INVALID_ARGUMENT", "the witness, section 2, offset"),
        (WITNESS[:40], "INVALID_ARGUMENT", "truncated"),
        ((BLS / "witness.wtns").read_bytes(), "INVALID_ARGUMENT", "over bls12_381"),
        # The last value, below the prime, and another.
        (WITNESS[:-32] + bytes(32), "INVALID_ARGUMENT", "does not satisfy the circuit"),
    ],
)
def test_a_witness_that_is_wrong_is_the_clients(
    bench: Bench, body: bytes, code: str, message: str
) -> None:
    pool = bench.pool()
    wrong, right = bench.submit(body), bench.submit()
    job = bench.ended(wrong)
    assert (job.state, job.code) == (JobState.FAILED, code)
    assert message in job.message
    assert len(bench.queue.attempts(wrong.id)) == 1
    assert bench.ended(right).state is JobState.SUCCEEDED
    eventually(lambda: (pool.status()[0].proofs, pool.status()[0].failures) == (1, 1))
    assert pool.status()[0].state is not WorkerState.QUARANTINED


def test_missing_key_and_calculator_are_reported(bench: Bench) -> None:
    bench.pool()
    unknown = bench.ended(bench.submit(key="0" * 64))
    assert (unknown.state, unknown.code) == (JobState.FAILED, "NOT_FOUND")
    inputs = bench.ended(bench.submit(b"{}", kind=PayloadKind.INPUTS))
    assert (inputs.state, inputs.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    assert "accepts no inputs" in inputs.message


def test_inputs_are_turned_into_witnesses(bench: Bench) -> None:
    pytest.importorskip("wasmtime")
    key = bench.repository.add(MEMBERSHIP / "circuit.zkey", wasm=MEMBERSHIP / "circuit.wasm")
    inputs = (MEMBERSHIP / "input.json").read_bytes()
    bench.pool()
    right = bench.submit(inputs, key=key.identity, kind=PayloadKind.INPUTS)
    wrong = bench.submit(b'{"secret": 1}', key=key.identity, kind=PayloadKind.INPUTS)
    assert bench.ended(right).state is JobState.SUCCEEDED
    [result] = bench.queue.results(right.id)
    proof, public = read_result(result)
    verifying = VerifyingKey.from_json(MEMBERSHIP / "verification_key.json", allow_insecure=True)
    assert verifying.verify(public, proof)
    job = bench.ended(wrong)
    assert (job.state, job.code) == (JobState.FAILED, "INVALID_ARGUMENT")


def test_a_witness_beyond_the_budget_is_refused(bench: Bench) -> None:
    bench.pool(WorkerSettings(memory_bytes=10))
    job = bench.ended(bench.submit())
    assert (job.state, job.code) == (JobState.FAILED, "FAILED_PRECONDITION")
    assert "the budget of work is 10 bytes" in job.message


def test_file_grown_after_memory_reservation_is_rejected(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.wtns"
    path.write_bytes(WITNESS)
    take = MemoryBudget.take

    def grow(self: MemoryBudget, nbytes: int, **options: Any) -> bool:
        os.truncate(path, 64 << 20)
        return take(self, nbytes, **options)

    monkeypatch.setattr(MemoryBudget, "take", grow)
    bench.pool(WorkerSettings(memory_bytes=1 << 20))
    job = bench.ended(bench.submit(path_body(tmp_path, "w.wtns"), kind=PayloadKind.PATH))
    assert (job.state, job.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    assert "has 67108864 bytes, and a witness of this key at most" in job.message


def test_work_waits_for_memory(bench: Bench) -> None:
    """One witness at a time has room; all are proved."""
    bench.pool(WorkerSettings(memory_bytes=(len(WITNESS) + HEADER_BYTES) * 3 // 2))
    jobs = [bench.submit() for _ in range(6)]
    assert {bench.ended(job).state for job in jobs} == {JobState.SUCCEEDED}


def test_workers_of_one_device_share_its_memory(bench: Bench) -> None:
    names = ("cuda", "cuda:0", "cuda:1", "emulated", "cpu")
    settings = [WorkerSettings(name, ahead=3) for name in names]
    assert [worker.of_device for worker in sharing(settings)] == [2, 2, 1, 1, 1]
    assert {worker.of_host for worker in sharing(settings)} == {5}
    assert [replace(worker, of_device=1, of_host=1) for worker in sharing(settings)] == settings
    alone, half = WorkerSettings(), WorkerSettings(of_host=2)
    assert half.work_bytes == alone.work_bytes // 2
    assert WorkerSettings(memory_bytes=7, of_host=2).work_bytes == 7
    pool = bench.pool(WorkerSettings("emulated"), WorkerSettings("emulated", device_bytes=1 << 20))
    eventually(lambda: pool.ready)
    first, second = (status.keys.budgets[Tier.DEVICE] for status in pool.status())
    assert (first, second) == (EmulatedDevice().memory_budget // 2, 1 << 20)


def test_operators_load_evict_and_drain(bench: Bench) -> None:
    pool = bench.pool(WorkerSettings(), WorkerSettings())
    eventually(lambda: pool.ready)
    assert [status.name for status in pool.status()] == ["cpu#0", "cpu#1"]
    pool.preload("other", timeout=SECONDS)
    assert all([use.key for use in status.keys.keys] == [bench.other] for status in pool.status())
    pool.evict("other", worker="cpu#1")
    tiers = [status.keys.keys[0].ready for status in pool.status()]
    assert tiers == [True, False]
    with pytest.raises(NotFoundError, match=r"the workers are cpu#0, cpu#1"):
        pool.preload("other", worker="cuda")
    with pytest.raises(NotFoundError):
        pool.preload("nothing")
    jobs = [bench.submit() for _ in range(8)]
    assert pool.drain(SECONDS)
    for job in jobs:
        # Either not begun, or brought to its end.
        assert bench.queue.job(job.id).state in (JobState.QUEUED, JobState.SUCCEEDED)
    assert bench.queue.status().running == 0
    pool.close()
    with pytest.raises(UnavailableError):
        pool.preload("other")


def test_initial_keys_are_loaded_before_ready(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, bool]] = []
    begin = ProvingKey.begin

    def spied(key: ProvingKey, witness: Witness, **options: Any) -> Any:
        tried.append((key.curve, pool.ready))
        if key.curve == "bls12_381":
            raise DeviceError("no memory")
        return begin(key, witness, **options)

    monkeypatch.setattr(ProvingKey, "begin", spied)
    pool = LocalPool(bench.queue, bench.repository, [WorkerSettings(warm=("small", "other"))])
    bench.started(pool)
    eventually(lambda: pool.ready)
    # Also of one with which it fails: that is for the proof to tell.
    assert tried == [("bn254", False), ("bls12_381", False)]
    assert bench.records == []
    [status] = pool.status()
    assert (status.proofs, status.failures, status.problem) == (0, 0, "")
    bench.check_results(bench.ended(bench.submit()))
    # What workers elsewhere go by: keys are loaded before they are tried.
    states = {state for state in WorkerState if replace(status, state=state).ready}
    assert states == {*WorkerState} - {WorkerState.STARTING, WorkerState.DEAD}


def test_closing_releases_claimed_jobs(bench: Bench) -> None:
    pool = bench.pool()
    jobs = [bench.submit() for _ in range(20)]
    bench.ended(jobs[0])
    pool.close()
    assert bench.queue.status().running == 0
    # The work goes on elsewhere, and what was given back was no attempt.
    bench.pool()
    for job in jobs:
        assert bench.ended(job).state is JobState.SUCCEEDED
        bench.check_results(job)


def test_passed_deadline_ends_the_job(bench: Bench) -> None:
    job = bench.submit(deadline=time.time() + 600)
    bench.clock.late = 600
    assert bench.ended(job).state is JobState.EXPIRED
    bench.pool()
    late = bench.submit()
    assert bench.ended(late).state is JobState.SUCCEEDED
    assert bench.queue.job(job.id).state is JobState.EXPIRED


def test_results_use_the_snarkjs_format() -> None:
    from quod.groth16 import Proof

    proof = Proof.from_json(BN254 / "proof.json", curve="bn254")
    data = result_bytes(proof, [33, 0])
    assert json.loads(data) == {
        "proof": json.loads((BN254 / "proof.json").read_text()), "publicSignals": ["33", "0"],
    }  # fmt: skip
    assert read_result(data) == (proof, (33, 0))
    for bad in (b"", b"[]", b"{}", b'{"proof": {}}', data.replace(b'"33"', b'"033"')):
        with pytest.raises(InputError):
            read_result(bad)


def test_invalid_settings_are_rejected(bench: Bench) -> None:
    for bad in ({"ahead": 0}, {"lanes": 17}, {"memory_bytes": -1}, {"warm": "small"},
                {"patience_seconds": 0}, {"device": ""}, {"together": 0}, {"together": 33},
                {"together": True}):  # fmt: skip
        with pytest.raises(InputError):
            WorkerSettings(**bad)
    with pytest.raises(InputError, match="a pool needs a worker"):
        LocalPool(bench.queue, bench.repository, ())


def test_a_key_in_use_is_not_evicted(bench: Bench) -> None:
    pool = bench.pool()
    eventually(lambda: pool.ready)
    worker = pool._workers["cpu"]
    with worker._opened().lease("small"), pytest.raises(KeyInUseError):
        pool.evict("small")
    pool.evict("small")
