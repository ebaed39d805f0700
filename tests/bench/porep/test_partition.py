"""Partitions of PoRep's shape: their matrices, their key in device memory, their proofs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

from quod.bench.porep.circuit import B_STRIDE, WIRES_BEFORE_BLOCKS
from quod.bench.porep.matrix import DevicePartition
from quod.bench.porep.witness import device_witness
from quod.curve.groups import GROUPS
from quod.device import open_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordedStream, SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError, VerificationError
from quod.field.array import words_to_integers
from quod.formats import SparseMatrix, Witness
from quod.groth16 import ProvingKey
from quod.groth16.device_key import bases, sums
from quod.groth16.device_key.bases import base_bytes, group_of
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.device_key.memory import RING, KeyMemory
from quod.groth16.device_key.streamed import Mode, StreamedKey
from quod.groth16.setup import make_key
from quod.msm.fixed_base import FixedBase
from tests.support.submissions import are_under_way
from tests.support.traces import share_traces

# Of two blocks and a piece of a third.
SMALL = DevicePartition("bn254", 57, 24, 3)
SEED = 5


def product(circuit: DevicePartition, matrix: SparseMatrix, values: list[int], row: int) -> int:
    entries = slice(int(matrix.row_ptr[row]), int(matrix.row_ptr[row + 1]))
    coefficients = words_to_integers(circuit.fr, matrix.value[entries])
    wires = matrix.column[entries].tolist()
    return sum(
        coefficient * values[wire] for coefficient, wire in zip(coefficients, wires, strict=True)
    )


@pytest.mark.parametrize(
    "circuit",
    [SMALL, DevicePartition.like_porep(12), DevicePartition.like_porep(11, bit_percent=90)],
    ids=lambda circuit: str(circuit.constraints),
)
def test_the_witness_satisfies_the_constraints(circuit: DevicePartition) -> None:
    r = circuit.fr.value
    values = words_to_integers(circuit.fr, circuit.witness(seed=2).values)
    assert len(values) == circuit.wires
    assert max(values) < r
    a, b, c = circuit.matrices
    rows = random.Random(1).sample(range(circuit.constraints), min(circuit.constraints, 300))
    for row in {*rows, 0, circuit.constraints - 1}:
        left, right = product(circuit, a, values, row), product(circuit, b, values, row)
        assert left * right % r == product(circuit, c, values, row) % r
    assert set(b.column.tolist()) <= set(range(WIRES_BEFORE_BLOCKS, circuit.used_in_a, B_STRIDE))
    assert a.column.max() < circuit.used_in_a
    # No value but a full one is anything but a bit, and these are no bits.
    places = [
        (wire - WIRES_BEFORE_BLOCKS) % circuit.width
        for wire in range(WIRES_BEFORE_BLOCKS, circuit.wires)
    ]
    assert all(
        (values[WIRES_BEFORE_BLOCKS + wire] > 1) == (place < circuit.full_wires)
        for wire, place in enumerate(places)
    )


def test_a_device_computes_the_witness_of_the_model() -> None:
    with open_device("cpu") as device:
        assert (device_witness(device, SMALL, 2).values == SMALL.witness(seed=2).values).all()


def test_a_whole_partition_has_the_shape_of_poreps() -> None:
    circuit = DevicePartition.like_porep()
    assert (circuit.constraints, circuit.log2_domain) == (130_278_869, 27)
    assert circuit.constraints / circuit.wires == pytest.approx(0.997, abs=1e-3)
    assert len(circuit.wires_of_b) / circuit.wires == pytest.approx(0.33, abs=5e-3)
    assert circuit.full_wires / circuit.width == pytest.approx(0.01, abs=1e-4)
    denser = DevicePartition.like_porep(bit_percent=90)
    assert denser.full_wires / denser.width == pytest.approx(0.1, abs=1e-4)
    h200 = open_device("emulated", memory_budget=int(0.92 * (139 << 30)))
    assert 90 < KeyMemory(h200, circuit).nbytes / 2**30 < 128


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((100, 25, 3), "a block of 25 wires with 3 full wires"),
        ((100, 24, 4), "with 4 full wires"),
        ((100, 24, 24), "with 24 full wires"),
        ((100, 12, 3), "with at least 24 wires"),
        ((100, 24, 0), "at least 3 are full"),
        ((100, 24, 21), "3 neither full nor quiet"),
        ((0, 24, 3), "0 constraints"),
        ((1 << 30, 24, 3), "1073741824 constraints"),
    ],
)
def test_inconsistent_sizes_are_rejected(sizes: tuple[int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DevicePartition("bn254", *sizes)


@pytest.mark.parametrize(("log2", "bit_percent"), [(8, 99), (28, 99), (12, 49), (12, 100)])
def test_invalid_partitions_are_rejected(log2: int, bit_percent: int) -> None:
    with pytest.raises(InputError, match="of bits is invalid"):
        DevicePartition.like_porep(log2, bit_percent=bit_percent)


@pytest.fixture(scope="module", autouse=True)
def shared_traces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share_traces(patch)
        yield


@pytest.fixture(scope="module")
def key(gpu_device: AnyDevice) -> Iterator[DeviceKey]:
    """A key of which an interpreter makes the points in G1 alone; those in G2 take it longer."""
    if gpu_device.kind == "webgpu":
        pytest.skip("keys of this size need a GPU whose kernels reach all memory")
    with pytest.MonkeyPatch.context() as patch:
        if gpu_device.kind == "emulated":
            classes = iter([FixedBase])
            patch.setattr(
                bases, "FixedBase", lambda *arguments: next(classes, HostMultiples)(*arguments)
            )
        partition_key = DeviceKey.make(SMALL, gpu_device, SEED)
    yield partition_key
    partition_key.close()


@pytest.fixture(scope="module")
def expected() -> ProvingKey:
    return ProvingKey(make_key(SMALL, SEED))


@pytest.mark.thorough
def test_resident_key_matches_the_setup(key: DeviceKey, expected: ProvingKey) -> None:
    zkey, device = expected.zkey, key.device
    bases = key.resident.bases  # type: ignore[attr-defined]
    in_b = slice(WIRES_BEFORE_BLOCKS, SMALL.used_in_a, B_STRIDE)
    for name, points in (
        ("A", zkey.a[: SMALL.used_in_a]), ("B1", zkey.b_g1[in_b]), ("B2", zkey.b_g2[in_b]),
        ("C", zkey.c), ("H", zkey.h),
    ):  # fmt: skip
        downloaded = np.zeros(points.shape, np.uint32)
        device.download(bases[name], downloaded)
        assert (downloaded == points).all(), name
    # The other wires are in no row.
    assert not zkey.a[SMALL.used_in_a :].any()
    assert not np.delete(zkey.b_g1, in_b, axis=0).any()
    assert key.digest == expected.digest


@pytest.mark.thorough
def test_proofs_match_the_cpu(key: DeviceKey, expected: ProvingKey) -> None:
    witness = device_witness(key.device, SMALL, 2)
    assert (witness.values == SMALL.witness(seed=2).values).all()
    several = [witness, SMALL.witness(seed=3)]
    assert list(key.prove_many(several, seed=9)) == [
        expected.prove(statement, seed=9) for statement in several
    ]


@pytest.mark.thorough
def test_sums_may_complete_immediately(
    key: DeviceKey, expected: ProvingKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum over h may complete before the others are recorded."""

    class Done:
        def __init__(self, stream: SubmittedStream) -> None:
            stream.wait()

        def wait(self) -> None:
            """It is done."""

    submit = vars(sums)["replay"]
    monkeypatch.setattr(sums, "replay", lambda *arguments: Done(submit(*arguments)))
    witness, timeline = SMALL.witness(seed=6), Timeline()
    assert key.prove(witness, seed=9, timeline=timeline) == expected.prove(witness, seed=9)
    labels = {stage.name for stage in timeline.rows()}
    assert {"MSM A: ones: accumulate", "MSM B2: others: accumulate", "MSM H: accumulate"} <= labels


@pytest.mark.thorough
def test_invalid_witness_is_rejected(key: DeviceKey) -> None:
    values = SMALL.witness().values.copy()
    values[WIRES_BEFORE_BLOCKS:, 1] = 7
    wrong = Witness("wrong.wtns", SMALL.curve, values, values.nbytes)
    with pytest.raises(VerificationError, match=r"wrong\.wtns: the proof does not verify"):
        key.prove(wrong)
    values[9] = 0xFFFFFFFF
    with pytest.raises(InputError, match="scalar 9 is not below the order"):
        key.prove(wrong)


def test_memory_error_names_the_sum() -> None:
    device = open_device("emulated", memory_budget=1 << 18)
    with pytest.raises(DeviceError, match=r"takes .* of emulated.*bases B1 \d.*smaller circuit"):
        DeviceKey.make(SMALL, device, SEED)


def test_partition_key_rejects_host_memory_devices() -> None:
    with pytest.raises(InputError, match="computes in host memory"):
        DeviceKey.make(SMALL, "cpu", SEED)
    assert group_of(SMALL, 2) is GROUPS["bn254.g2"]


def failing_sums(number: int) -> Any:
    """Submits all but the sums of this number."""
    submit, countdown = RecordedStream.submit, iter(range(number, -1, -1))

    def fails(self: RecordedStream, *arguments: Any, **named: Any) -> SubmittedStream:
        if self.name == "sums" and not next(countdown):
            raise DeviceError("no memory for sums")
        return submit(self, *arguments, **named)

    return fails


class HostMultiples(FixedBase):
    """Multiples of a point for memory of a device, made by the processor: an interpreter takes
    long, and the key's own test has it make all of them."""

    def __init__(self, device: AnyDevice, *arguments: Any) -> None:
        super().__init__(open_device("cpu"), *arguments)
        self._target = device

    def multiply_into(self, scalars: Buffer, out: Buffer) -> None:
        words = np.zeros(scalars.nbytes // 4, np.uint32)
        self._target.download(scalars, words)
        points = self.multiply(words.reshape(-1, SMALL.fr.bytes // 4))
        self._target.upload(points, into=out)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", sorted(get_args(Mode)))
def test_streamed_bases_give_the_same_proof(
    expected: ProvingKey, monkeypatch: pytest.MonkeyPatch, submitted: list[SubmittedStream],
    mode: Mode,
) -> None:  # fmt: skip
    monkeypatch.setattr(bases, "FixedBase", HostMultiples)
    key = DeviceKey.make(SMALL, open_device("emulated"), SEED, share=0.9, chunk=24)
    resident = key.resident
    assert isinstance(resident, StreamedKey)
    streamed = [chunk for chunk in resident.chunks if chunk.host is not None]
    assert len(streamed) > RING
    assert resident.nbytes <= 0.9 * sum(base_bytes(SMALL).values())
    streamed_bytes = sum(chunk.bases.nbytes for chunk in streamed)
    witness, timeline = SMALL.witness(seed=2), Timeline()
    proof = expected.prove(witness, seed=9)
    assert key.prove(witness, seed=9, timeline=timeline) == proof
    copies = [stage for stage in timeline.rows() if stage.track == "copies" and stage.bytes]
    assert sum(stage.bytes for stage in copies) == 2 * streamed_bytes
    assert resident.mode == "deferred"
    resident.mode = mode
    with monkeypatch.context() as patch:
        patch.setattr(RecordedStream, "submit", failing_sums(1))
        del submitted[:]
        with pytest.raises(DeviceError, match="no memory for sums"):
            key.prove(witness, seed=9)
    # A copy that is late would reach the ring when that is the next proof's.
    resident._slots.release(resident._slots.acquire())
    assert len(submitted) == (1 if mode == "synchronous" else 1 + RING)
    assert not are_under_way(submitted)
    if mode != "deferred":
        assert key.prove(witness, seed=9) == proof
    key.close()


def test_share_too_small_for_resident_bases_is_rejected() -> None:
    with pytest.raises(DeviceError, match=r"40% of the .* cannot hold the bases of B and 3"):
        DeviceKey.make(SMALL, open_device("emulated"), SEED, share=0.4, chunk=24)
