"""Several witnesses in one launch schedule give the bytes of sequential proofs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.future import Outcome
from quod.errors import DeviceError, InputError, VerificationError
from quod.formats import Witness, Zkey
from quod.groth16 import Proof, ProvingKey, generate_key
from quod.groth16 import proof_stream as many
from quod.groth16.batch_prover import BatchedProof
from quod.groth16.gpu import bases
from quod.groth16.gpu import batch_prover as batches
from quod.groth16.gpu.batch_prover import GpuBatches, batch_size
from quod.groth16.gpu.gpu_sums import GpuSums, RunningSums
from quod.groth16.memory_estimate import KeyCounts, device_parts
from quod.groth16.slots import Slots
from tests.groth16.circuits import recurrence

Made = list[tuple[Proof, list[int]]]

_COUNT = 4


@pytest.fixture(autouse=True)
def no_multiples(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `test_key`."""
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))
    # However slow the machine is, the witnesses of a list come together.
    monkeypatch.setattr(many, "_MAX_WAIT_SECONDS", 1e9)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A key, and witnesses of different statements."""
    folder = tmp_path_factory.mktemp("batches")
    key = folder / "c.zkey"
    generate_key(recurrence("bn254", 2).write_r1cs(folder / "c.r1cs"), key, 1)
    return key, [
        recurrence("bn254", 2, start).write_wtns(folder / f"{start}.wtns")
        for start in range(3, 3 + _COUNT)
    ]


@pytest.fixture(scope="module")
def expected(files: tuple[Path, list[Path]]) -> Made:
    """Proofs of the processor, one after the other."""
    key = ProvingKey.from_zkey(files[0])
    return [key.prove(witness, seed=9) for witness in files[1]]


@pytest.fixture(scope="module")
def key(files: tuple[Path, list[Path]], gpu_device: AnyDevice) -> Iterator[ProvingKey]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bases, "_MULTIPLES", (1,))
        patch.setattr(batches, "MAX_BATCH", 2)
        proving_key = ProvingKey(Zkey.open(files[0], owned=True), gpu_device)
        alone = proving_key.resident.nbytes
        assert proving_key.resident.batches is not None
        assert proving_key.resident.batches.most == 2
        assert proving_key.resident.nbytes > alone
    yield proving_key
    proving_key.close()


def test_batched_proofs_equal_sequential_proofs(
    files: tuple[Path, list[Path]], expected: Made, key: ProvingKey
) -> None:
    """Two batches, each in its own slot; the last witness is in device memory."""

    class InMemory(Witness):
        device = key.device

        @property
        def memory(self) -> Any:
            return key.device.upload(self.values)

        def first(self, count: int) -> Any:
            return self.values[:count]

    last = Witness.open(files[1][-1])
    there = InMemory(last.path, last.curve, last.values, last.size)
    assert list(key.prove_many([*files[1][:-1], there], seed=9)) == expected


@pytest.mark.thorough
def test_partial_batch(
    files: tuple[Path, list[Path]], expected: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros fill the batch, and three proofs take hardly more launches than one."""
    device = EmulatedDevice()
    key = ProvingKey(Zkey.open(files[0], owned=True), device)
    assert key.resident.batches is not None
    assert key.resident.batches.most == batches.MAX_BATCH
    assert device.memory.in_use < 1.1 * key.resident.nbytes
    launches: list[str] = []
    execute = EmulatedDevice.execute

    def counted(self: EmulatedDevice, kernel: Any, *arguments: Any) -> None:
        launches.append(kernel.name)
        execute(self, kernel, *arguments)

    monkeypatch.setattr(EmulatedDevice, "execute", counted)
    assert key.prove(files[1][0], seed=9) == expected[0]
    alone, launches = len(launches), []
    assert list(key.prove_many(files[1][:3], seed=9)) == expected[:3]
    # Of more buckets a sort may take two steps.
    assert len(launches) <= alone + 8
    key.close()


@pytest.mark.thorough
def test_unreduced_witness_value_is_reported(
    files: tuple[Path, list[Path]], expected: Made, key: ProvingKey
) -> None:
    """The error names its own witness, as with `prove`."""
    good = Witness.open(files[1][0])
    values = good.values.copy()
    values[-1] = 0xFFFFFFFF
    bad = Witness("bad.wtns", good.curve, values, good.size)
    proofs = key.prove_many([good, bad], seed=9)
    assert next(proofs) == expected[0]
    with pytest.raises(InputError, match=r"scalar \d is not below the order of bn254\.g1"):
        next(proofs)


@pytest.mark.thorough
def test_proofs_begun_together_share_one_slot(
    files: tuple[Path, list[Path]], expected: Made, key: ProvingKey
) -> None:
    """Each proof finishes on its own; one computation serves all, and the slot is released."""
    meter, free = BusyMeter(), len(key.resident.batches._slots._free)  # type: ignore[union-attr]
    pending = key.begin_batch([Witness.open(path) for path in files[1][:2]], meter=meter)
    spans = []
    for proof, (_, public) in zip(pending, expected[:2], strict=True):
        assert isinstance(proof, BatchedProof)
        proof.check(proof.compute())
        assert proof.public == public
        spans.append(proof.spans)
        proof.close()
    assert spans[0]["compute"] == spans[1]["compute"]
    assert spans[0]["upload"][1] == spans[1]["upload"][0]
    begin, end = spans[0]["compute"]
    assert meter.seconds >= (end - begin) / 1e9 > 0
    # A slot of an earlier test may have become free meanwhile.
    assert len(key.resident.batches._slots._free) >= free  # type: ignore[union-attr]


@pytest.mark.thorough
def test_prepared_kernels_are_not_recompiled(
    files: tuple[Path, list[Path]], expected: Made, key: ProvingKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    key.prepare(with_batches=True)
    key.prepare(with_batches=True)

    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(batches, "SumRecordings", never)
    groups = [[Witness.open(path) for path in files[1][:2]]] * batches.BATCHES
    pending = [proof for group in groups for proof in key.begin_batch(group)]
    for proof, (_, public) in zip(pending, 3 * expected[:2], strict=True):
        assert isinstance(proof, BatchedProof)
        proof.check(proof.compute())
        assert proof.public == public
        proof.close()


@pytest.mark.thorough
def test_every_proof_is_checked(
    files: tuple[Path, list[Path]], expected: Made, key: ProvingKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of the second proof is wrong."""
    finish = bases.RecordedPointArrays.finish

    def wrong(self: bases.RecordedPointArrays) -> Any:
        vectors = finish(self)
        if "H" in vectors:
            vectors["H"][1] = 0
        return vectors

    monkeypatch.setattr(bases.RecordedPointArrays, "finish", wrong)
    proofs = key.prove_many(files[1][:2], seed=9)
    assert next(proofs) == expected[0]
    with pytest.raises(VerificationError, match=r"4\.wtns"):
        next(proofs)


# --- how many


def test_the_size_of_a_batch() -> None:
    """Twice what is resident, as far as kernels reach: powers of two."""
    device = EmulatedDevice(resident_lanes=270_336)
    sizes = {log2: batch_size(device, 1 << log2, 96 << log2) for log2 in (10, 14, 15, 17, 18, 19)}
    assert sizes == {10: batches.MAX_BATCH, 14: 32, 15: 16, 17: 4, 18: 2, 19: 1}
    assert batch_size(device, 1 << 24, 96 << 24) == 1
    small = EmulatedDevice(resident_lanes=270_336, largest_buffer=5 << 20)
    assert batch_size(small, 1 << 14, 1 << 20) == 4
    assert batch_size(small, 1 << 14, 6 << 20) == 1


@pytest.mark.thorough
def test_low_memory_reduces_the_batch(files: tuple[Path, list[Path]], expected: Made) -> None:
    """Smaller batches are proved, or single proofs."""
    zkey, device = Zkey.open(files[0], owned=True), EmulatedDevice()
    key = ProvingKey(zkey, device)
    resident: Any = key.resident
    [lane], size = resident._lanes, zkey.variables * zkey.fr.bytes
    room = {most: batches._batch_memory(lane, most, size) for most in (16, 4, 2)}
    for most, needed in room.items():
        gpu_batches = GpuBatches(device, lane, 16, size, needed, resident.slots, RunningSums())
        assert (gpu_batches.most, gpu_batches.nbytes) == (most, needed)
        gpu_batches.close()
    with pytest.raises(DeviceError, match="no memory for the sums of two witnesses"):
        GpuBatches(device, lane, 16, size, room[2] - 1, resident.slots, RunningSums())
    # What is reckoned from the counts of a key's header is enough for as many.
    entries = len(zkey.coefficients)
    counts = KeyCounts(zkey.curve, zkey.variables, zkey.public, zkey.domain_size, entries)
    parts = device_parts(counts, device, 1 << 40, 1 << 40)
    batches_bytes = parts.pop("batches")
    assert 1 <= batches_bytes / batches._batch_memory(lane, batches.MAX_BATCH, size) < 1.3
    least = sum(parts.values())
    fewer = device_parts(counts, device, least + batches_bytes - 1, 1 << 40)
    assert (
        batches._batch_memory(lane, batches.MAX_BATCH // 2, size)
        <= fewer.pop("batches")
        < batches_bytes
    )
    assert fewer == parts == device_parts(counts, device, least, 1 << 40)
    # No key is beyond its budget.
    resident._budget = resident.nbytes + room[2] - 1
    assert resident.batches is None
    assert list(key.prove_many(files[1][:1], seed=9)) == expected[:1]
    key.close()


class Turns:
    """Batches of up to three that wait on threads of their own, beside sums that a test ends."""

    def __init__(self) -> None:
        self.batches = GpuBatches.__new__(GpuBatches)
        self.batches.most, self.batches._running_sums = 3, RunningSums()
        self.batches._single_slots, self.batches._slots = Slots(object, 2), Slots(object, 1)
        self.ended: list[str] = []

    def begin(self) -> Outcome[None]:
        running: Outcome[None] = Outcome()
        self.batches._running_sums.add(cast("GpuSums", SimpleNamespace(running=running)))
        return running

    def wait(self, name: str, waiting: Callable[[], int]) -> threading.Thread:
        def run() -> None:
            self.batches.wait(waiting)
            self.ended.append(name)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


def test_waiting_for_a_slot() -> None:
    """A single proof takes a free slot at once; a batch waits."""
    turns = Turns()
    gpu_batches = turns.batches
    gpu_batches.wait(lambda: 1)
    gpu_batches.wait(lambda: 2)
    taken = gpu_batches._slots.acquire()
    gpu_batches.wait(lambda: 1)
    company = turns.wait("company", lambda: 2)
    alone_slots = [gpu_batches._single_slots.acquire() for _ in range(2)]
    alone = turns.wait("alone", lambda: 1)
    assert not turns.ended
    gpu_batches._slots.release(taken)
    for thread in (company, alone):
        thread.join(60)
    assert sorted(turns.ended) == ["alone", "company"]
    # They have taken none.
    assert gpu_batches._slots.acquire() is taken
    assert len(alone_slots) == 2


def test_jobs_arriving_during_a_batch_form_the_next_batch() -> None:
    turns = Turns()
    running = [turns.begin(), turns.begin()]
    alone = turns.wait("alone", lambda: 1)
    counts = iter([1, 2])
    # A full batch does not wait, nor one that has become full.
    turns.wait("full", lambda: 3).join(60)
    turns.wait("filled", lambda: next(counts, 3)).join(60)
    assert turns.ended == ["full", "filled"]
    running.pop().set(None)
    alone.join(0.02)
    assert alone.is_alive()
    # What fails is over as well, and so is what nobody is left to do.
    running.pop().fail(DeviceError("lost"))
    alone.join(60)
    turns.batches._running_sums.add(
        cast("GpuSums", SimpleNamespace(running=Outcome[None](lambda: True)))
    )
    turns.wait("behind what is lost", lambda: 1).join(60)
    assert turns.ended[2:] == ["alone", "behind what is lost"]


def test_failed_sums_keep_nothing_alive() -> None:
    class Known:
        """An object that the frames of an error refer to."""

    turns, sums = Turns(), Known()
    error = DeviceError("lost")
    error.known, gone = sums, weakref.ref(sums)  # type: ignore[attr-defined]
    before = turns.begin()
    turns.begin().fail(error)
    del error, sums
    assert gone() is None
    # Those that go on are waited for still.
    alone = turns.wait("alone", lambda: 1)
    alone.join(0.02)
    assert alone.is_alive()
    before.set(None)
    alone.join(60)
    assert turns.ended == ["alone"]


def test_memory_for_batches_is_allocated_at_once() -> None:
    """All memory of a batch is allocated at once, so that none fails midway."""
    device = EmulatedDevice(memory_budget=1 << 16)

    class Lane:
        msms = SimpleNamespace(largest_batch=lambda wanted: wanted)
        runner = None

        def batch_bytes(self, sizes: tuple[int, ...]) -> int:
            return 1000 * max(sizes)

        def sibling(self, sizes: tuple[int, ...]) -> Lane:
            other = Lane()
            other.memory = device.allocate(self.batch_bytes(sizes))  # type: ignore[attr-defined]
            return other

    lane: Any = Lane()
    room, alone = batches._batch_memory(lane, 2, 128), Slots(object, 1)
    others = device.allocate(device.memory.limit - room + 1)
    with pytest.raises(DeviceError, match="no memory for a buffer"):
        GpuBatches(device, lane, 2, 128, room, alone, RunningSums())
    assert device.memory.in_use == others.nbytes
    del others
    gpu_batches = GpuBatches(device, lane, 2, 128, room, alone, RunningSums())
    assert device.memory.in_use == gpu_batches.nbytes == room


def test_bases_that_are_streamed_have_no_batches(
    files: tuple[Path, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = bases.MsmMemory._streamed.__func__  # type: ignore[attr-defined]

    def streamed(device: AnyDevice, parts: list[Any], budget: int, *, lanes: int) -> Any:
        return fitting(bases.MsmMemory, device, parts[:3], parts[3:], budget)

    monkeypatch.setattr(bases.MsmMemory, "fitting", streamed)
    key = ProvingKey.from_zkey(files[0], device=EmulatedDevice())
    assert key.resident.batches is None
    key.close()
