"""Page-locked memory that witnesses are read into: taken, waited for, given back, copied from."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import open_device
from quod.groth16 import Proof
from quod.groth16.gpu import bases
from quod.groth16.gpu import batch_prover as batches
from quod.groth16.gpu.upload import UploadBuffer
from quod.groth16.prover import PendingProof
from quod.service.payload import PayloadKind, path_body
from quod.service.queue import JobState
from quod.service.worker.buffers import WitnessBuffers
from quod.service.worker.pools.pool import WorkerState
from quod.service.worker.settings import WorkerSettings
from quod.service.worker.work import Work
from tests.service.worker.conftest import WITNESS, Bench, eventually


def test_taking_waits_for_a_free_buffer() -> None:
    device = open_device("emulated")
    pool = WitnessBuffers(device, 1000, 2, 1 << 20)
    taken = [pool.take(1000, given_up=lambda: False) for _ in range(2)]
    assert all(buffer is not None and len(buffer) >= 1000 for buffer in taken)
    received: list[Any] = []
    waiting = threading.Thread(
        target=lambda: received.append(pool.take(10, given_up=lambda: False))
    )  # fmt: skip
    waiting.start()
    assert received == []
    assert taken[0] is not None
    pool.give_back(taken[0])
    waiting.join()
    assert received[0] is taken[0]
    # Who is not wanted any more does not wait.
    assert pool.take(10, given_up=lambda: True) is None
    # Nor who would find none that is long enough.
    assert pool.take(1 << 20, given_up=lambda: False) is None


def test_no_buffers_if_useless_or_too_large() -> None:
    assert WitnessBuffers(open_device("cpu"), 1000, 2, 1 << 20).count == 0
    device = open_device("emulated")
    assert WitnessBuffers(device, 0, 2, 1 << 20).count == 0
    assert WitnessBuffers(device, 1000, 9, 3000).count == 2
    none = WitnessBuffers(device, 1000, 9, 100)
    assert none.count == 0
    assert none.take(10, given_up=lambda: False) is None


@pytest.mark.thorough
def test_witnesses_are_uploaded_from_their_read_buffer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Multiples take an interpreter long, and batches, which are copied once more.
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))
    monkeypatch.setattr(batches, "MAX_BATCH", 1)
    buffer_pools: list[WitnessBuffers] = []
    make, fill = WitnessBuffers.__init__, UploadBuffer.fill
    seen: list[tuple[bool, bool]] = []

    def making(self: WitnessBuffers, *arguments: Any) -> None:
        make(self, *arguments)
        assert self._free
        buffer_pools.append(self)
        buffers.extend(self._free)

    def filling(self: UploadBuffer, words: Any, *, pinned: bool = False) -> None:
        seen.append((pinned, any(np.may_share_memory(words, buffer) for buffer in buffers)))
        fill(self, words, pinned=pinned)

    buffers: list[Any] = []
    monkeypatch.setattr(WitnessBuffers, "__init__", making)
    monkeypatch.setattr(UploadBuffer, "fill", filling)
    pool = bench.pool(WorkerSettings("emulated", warm=("small",), ahead=1))
    good = bench.submit()
    # Longer than a witness of the key can be: an unknown section.
    longer = WITNESS[:8] + (3).to_bytes(4, "little") + WITNESS[12:]
    longer += (9).to_bytes(4, "little") + (5000).to_bytes(8, "little") + bytes(5000)
    long = bench.submit(longer)
    wrong = bench.submit(WITNESS[:-32] + bytes(32))
    bad = bench.submit(WITNESS[:-1])
    assert bench.ended(good).state is JobState.SUCCEEDED
    bench.check_results(good)
    # Who is to blame is found out with a witness that is read again.
    assert bench.ended(wrong).message.startswith("the witness does not satisfy")
    assert bench.ended(bad).state is JobState.FAILED
    assert "a witness of this key at most" in bench.ended(long).message
    assert pool.drain(60)
    # The warm-up proof, two proofs of witnesses in buffers, and the wrong witness once more.
    assert sorted(seen) == [(False, False)] * 2 + [(True, True)] * 2
    assert len(buffer_pools[0]._free) == buffer_pools[0].count == 4


def of_ordinary_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a worker on a processor read witnesses into buffers, as one on a GPU does."""
    monkeypatch.setattr("quod.service.worker.buffers.in_host_memory", lambda device: False)


@pytest.mark.parametrize("swapped", [True, False])
def test_file_swapped_between_reads_fails_its_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swapped: bool
) -> None:
    of_ordinary_memory(monkeypatch)
    wrong = WITNESS[:-32] + bytes(32)
    named = tmp_path / "witness.wtns"
    named.write_bytes(wrong)
    leave = Work.release_buffer

    def leaving(self: Work) -> None:
        """The client replaces its file as soon as the device has the witness."""
        used = self.buffer is not None
        leave(self)
        if used:
            named.write_bytes(WITNESS if swapped else wrong)

    monkeypatch.setattr(Work, "release_buffer", leaving)
    pool = bench.pool(WorkerSettings("cpu", warm=("small",)))
    body = path_body(tmp_path, "witness.wtns")
    job = bench.ended(bench.submit(body, kind=PayloadKind.PATH))
    assert (job.state, job.code) == (JobState.FAILED, "INVALID_ARGUMENT")
    why = "the witness: has changed since" if swapped else "the witness does not satisfy"
    assert job.message.startswith(why)
    assert pool.status()[0].state is not WorkerState.QUARANTINED
    # The worker goes on.
    named.write_bytes(WITNESS)
    good = bench.submit(body, kind=PayloadKind.PATH)
    assert bench.ended(good).state is JobState.SUCCEEDED


def test_unchanged_file_blames_the_device(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_ordinary_memory(monkeypatch)
    (tmp_path / "witness.wtns").write_bytes(WITNESS)
    pool = bench.pool(WorkerSettings("cpu", warm=("small",)))
    eventually(lambda: pool.ready)
    compute, first = PendingProof.compute, threading.Lock()

    def wrong(self: PendingProof) -> Proof:
        right = compute(self)
        if not first.acquire(blocking=False):
            return right
        return Proof(right.curve, right.c, right.b, right.a)

    monkeypatch.setattr(PendingProof, "compute", wrong)
    job = bench.submit(path_body(tmp_path, "witness.wtns"), kind=PayloadKind.PATH)
    assert bench.ended(job).state is JobState.SUCCEEDED
    eventually(lambda: pool.status()[0].state is WorkerState.QUARANTINED)
