"""Proofs on a GPU: the same bytes as on the CPU, or an error and nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.bench.chain import ChainCircuit
from quod.curve.groups import GROUPS
from quod.device.cpu.device import CpuDevice
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.device.runtime.busy_time import BusyMeter
from quod.device.runtime.recording import Recording
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError, KernelError, MismatchError, VerificationError
from quod.formats import Witness, Zkey
from quod.groth16 import ProvingKey, generate_key, setup
from quod.groth16.context import ProofContext
from quod.groth16.gpu import bases
from quod.groth16.resident import KeyBases
from quod.groth16.setup import make_key
from quod.msm.fixed_base import FixedBase
from tests.conftest import open_for_test
from tests.groth16.circuits import Circuit, recurrence
from tests.groth16.conftest import Made
from tests.groth16.test_setup import TRIVIAL
from tests.support.thorough import one_and_others

Make = Callable[..., Made]


@pytest.fixture(autouse=True)
def no_multiples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bases alone: multiples take an interpreter long, and MSMs have tests of their own."""
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))


@pytest.fixture(scope="module")
def key(circuit_files: Make, gpu_device: AnyDevice) -> Iterator[ProvingKey]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bases, "_MULTIPLES", (1,))
        proving_key = ProvingKey.from_zkey(circuit_files("bn254").zkey, device=gpu_device)
    yield proving_key
    proving_key.close()


# --- the same proofs


@pytest.mark.parametrize("curve", ["bn254", pytest.param("bls12_381", marks=pytest.mark.thorough)])
def test_proof_matches_the_cpu(circuit_files: Make, gpu_device: AnyDevice, curve: str) -> None:
    files = circuit_files(curve, steps=20)
    key = ProvingKey.from_zkey(files.zkey, device=gpu_device)
    expected = ProvingKey.from_zkey(files.zkey).prove(files.wtns, seed=9)
    assert key.prove(files.wtns, seed=9) == expected
    assert expected[1] == files.circuit.public
    key.close()


def test_with_multiples_of_the_bases(
    circuit_files: Make, gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if gpu_device.kind == "emulated":
        pytest.skip("multiples are slow in an interpreter; tests of MSMs cover them")
    monkeypatch.undo()
    files = circuit_files("bn254")
    key = ProvingKey.from_zkey(files.zkey, device=gpu_device)
    assert key.prove(files.wtns, seed=9) == ProvingKey.from_zkey(files.zkey).prove(
        files.wtns, seed=9
    )
    key.close()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "nothing" else pytest.mark.thorough)
     for name in TRIVIAL],
)  # fmt: skip
def test_trivial_circuits(gpu_device: AnyDevice, name: str, tmp_path: Path) -> None:
    circuit = TRIVIAL[name]
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 3)
    wtns = circuit.write_wtns(tmp_path / "c.wtns")
    expected = ProvingKey.from_zkey(tmp_path / "c.zkey").prove(wtns, seed=1)
    key = ProvingKey.from_zkey(tmp_path / "c.zkey", device=gpu_device)
    assert key.prove(wtns, seed=1) == expected
    key.close()


@pytest.mark.thorough
def test_many_infinite_bases(gpu_device: AnyDevice, tmp_path: Path) -> None:
    """Sixteen variables are in A alone, so that both b arrays are gathered."""
    wires = range(2, 18)
    circuit = Circuit(
        "bn254",
        [[(wire, 1) for wire in wires], [(18, 1)]],
        [[(18, 1)], [(18, 1)]],
        [[(1, 1)], [(19, 1)]],
        [1, 3 * sum(wires), *wires, 3, 9],
        outputs=1,
        inputs=0,
    )
    assert circuit.satisfied(circuit.witness)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 3)
    wtns = circuit.write_wtns(tmp_path / "c.wtns")
    zkey = Zkey.open(tmp_path / "c.zkey")
    assert sum(point.any() for point in zkey.b_g2) < len(zkey.b_g2) / 2
    key = ProvingKey(zkey, gpu_device)
    assert key.prove(wtns, seed=1) == ProvingKey(zkey).prove(wtns, seed=1)
    key.close()


def test_a_key_made_on_the_device(gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    if gpu_device.kind == "emulated":
        # Multiples of the generators have a test of their own, and take an interpreter long.
        monkeypatch.setattr(
            setup, "FixedBase", lambda _, *arguments: FixedBase(CpuDevice(), *arguments)
        )
    circuit = ChainCircuit("bn254", 6)
    here, there = make_key(circuit, 7), make_key(circuit, 7, device=gpu_device)
    assert here.circuit_hash == there.circuit_hash
    assert here.coefficients.tobytes() == there.coefficients.tobytes()
    assert (circuit.witness(device=gpu_device).values == circuit.witness().values).all()


# --- many proofs


@pytest.mark.thorough
def test_many_witnesses(circuit_files: Make, key: ProvingKey, tmp_path: Path) -> None:
    """The last one violates the circuit."""
    files = circuit_files("bn254")
    wrong = list(files.circuit.witness)
    wrong[7] += 1
    path = files.circuit.write_wtns(tmp_path / "wrong.wtns", wrong)
    witness = Witness.open(files.wtns)
    expected = ProvingKey.from_zkey(files.zkey).prove(witness, seed=9)
    proofs = key.prove_many([files.wtns, witness, path], seed=9)
    assert next(proofs) == next(proofs) == expected
    with pytest.raises(VerificationError, match=r"wrong\.wtns: the proof does not verify"):
        next(proofs)
    assert list(key.prove_many([])) == []


@pytest.mark.thorough
def test_invalid_witness_in_a_batch_is_reported(circuit_files: Make, key: ProvingKey) -> None:
    proofs = key.prove_many([circuit_files("bn254").wtns, circuit_files("bls12_381").wtns], seed=9)
    assert next(proofs)[1] == circuit_files("bn254").circuit.public
    with pytest.raises(MismatchError):
        next(proofs)


@pytest.mark.thorough
def test_threads_may_share_a_key(circuit_files: Make, key: ProvingKey) -> None:
    files = circuit_files("bn254")
    expected = ProvingKey.from_zkey(files.zkey).prove(files.wtns, seed=1)
    with ThreadPoolExecutor(2) as pool:
        proofs = list(pool.map(lambda _: key.prove(files.wtns, seed=1), range(2)))
    assert proofs == [expected] * 2


def test_many_witnesses_on_the_cpu(circuit_files: Make) -> None:
    files = circuit_files("bls12_381")
    key = ProvingKey.from_zkey(files.zkey)
    assert list(key.prove_many([files.wtns] * 3, seed=2)) == [key.prove(files.wtns, seed=2)] * 3


# --- errors


def test_a_witness_of_another_circuit(circuit_files: Make, key: ProvingKey) -> None:
    with pytest.raises(MismatchError):
        key.prove(circuit_files("bls12_381").wtns)


class Lost(EmulatedDevice):
    """A GPU that falls off the bus in the middle of some recording."""

    launches_left = 1 << 30

    def execute(self, *arguments: Any) -> None:
        self.launches_left -= 1
        if self.launches_left < 0:
            raise DeviceError("CUDA_ERROR_DEVICE_UNAVAILABLE: the GPU is lost")
        super().execute(*arguments)


@pytest.fixture(scope="module", params=one_and_others(["in order", "side by side"]))
def fragile(request: pytest.FixtureRequest) -> Lost:
    """Recordings of a proof run side by side, or there is one with an event in it."""
    device = Lost()
    device.single_queue = request.param == "in order"
    return device


@pytest.mark.thorough
def test_a_device_that_is_lost(tmp_path: Path, fragile: Lost) -> None:
    circuit = recurrence("bn254", 2)
    zkey, wtns = tmp_path / "c.zkey", circuit.write_wtns(tmp_path / "c.wtns")
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), zkey, 1)
    key = ProvingKey.from_zkey(zkey, device=fragile)
    fragile.launches_left = 1 << 30
    key.prove(wtns)
    launches = (1 << 30) - fragile.launches_left
    # At the last the early sums are there, and their part of the proof is made.
    for after in (0, 20, launches - 1):
        fragile.launches_left = after
        with pytest.raises(DeviceError, match="the GPU is lost"):
            key.prove(wtns)
    with pytest.raises(DeviceError, match="the GPU is lost"):
        list(key.prove_many([wtns] * 2))
    fragile.launches_left = 1 << 30
    assert key.prove(wtns, seed=1) == ProvingKey.from_zkey(zkey).prove(wtns, seed=1)
    key.close()


class Slow(EmulatedDevice):
    """A GPU that works in order, and does not begin with the quotient before it is let."""

    single_queue = True

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        if kernel.name == "multiply_pieces":
            assert self.go_on.wait(120)
        super().execute(kernel, groups, *arguments)


@pytest.mark.thorough
def test_early_sums_do_not_wait_for_the_late_ones(circuit_files: Make) -> None:
    files, device, timeline = circuit_files("bn254"), Slow(), Timeline()
    device.go_on.set()
    key = ProvingKey.from_zkey(files.zkey, device=device)
    expected = sums(ProvingKey.from_zkey(files.zkey), files)
    device.go_on.clear()
    with timeline.stage("sums") as stage, ThreadPoolExecutor(1) as pool:
        pending = key.resident.start(
            Witness.open(files.wtns).values, {}, ProofContext(timeline, stage)
        )
        try:
            early = pool.submit(pending.early).result(60)
            assert set(early) == {"A", "B1", "B2"}
        finally:
            device.go_on.set()
        assert early | pending.last() == expected
        pending.close()
    key.close()


def sums(key: ProvingKey, files: Made) -> dict[str, Any]:
    """All sums of a proof."""
    timeline = Timeline()
    with timeline.stage("sums") as stage:
        pending = key.resident.start(
            Witness.open(files.wtns).values, {}, ProofContext(timeline, stage)
        )
        points: dict[str, Any] = pending.early() | pending.last()
        pending.close()
    key.close()
    return points


@pytest.mark.parametrize(
    "lost",
    one_and_others(["A", "B1", "B2", "C", "H"]),
)
def test_every_proof_is_checked(
    circuit_files: Make, key: ProvingKey, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A sum is wrong."""
    finish = bases.RecordedPoints.finish

    def wrong(self: bases.RecordedPoints) -> Any:
        points = finish(self)
        return {name: None if name == lost else point for name, point in points.items()}

    files = circuit_files("bn254")
    monkeypatch.setattr(bases.RecordedPoints, "finish", wrong)
    with pytest.raises(VerificationError):
        key.prove(files.wtns)


@pytest.mark.thorough
def test_stale_sums_are_detected(
    circuit_files: Make, key: ProvingKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle GPU leaves the sums of the previous proof on the host."""
    files, device = circuit_files("bn254"), key.device
    if device.kind != "emulated":
        pytest.skip("plants faults in an interpreter")
    key.prove(files.wtns, self_check=False)
    submit, nothing = device.submit, Recording(device.name, (), device.space)
    monkeypatch.setattr(
        device, "submit", lambda _, *arguments, **named: submit(nothing, *arguments, **named)
    )
    with pytest.raises(DeviceError, match="without computing the sums of an MSM"):
        key.prove(files.wtns, self_check=False)


class Faulty(EmulatedDevice):
    """A GPU that computes one launch wrongly: a bit of what it stored is another."""

    wrong_launch = -1
    launches = 0

    def execute(self, kernel: Any, groups: int, arguments: Any, *options: Any) -> None:
        arguments = tuple(arguments)
        super().execute(kernel, groups, arguments, *options)
        if self.launches == self.wrong_launch and kernel.stored:
            stored = self.bytes_of(arguments[max(kernel.stored)])
            stored[len(stored) // 2] ^= 1
        self.launches += 1


@pytest.mark.thorough
def test_wrong_device_results_are_detected(tmp_path: Path) -> None:
    """The proof is rejected unless the wrong result does not affect it."""
    circuit = recurrence("bn254", 2)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 1)
    wtns = circuit.write_wtns(tmp_path / "c.wtns")
    device = Faulty()
    key = ProvingKey.from_zkey(tmp_path / "c.zkey", device=device)
    expected = ProvingKey.from_zkey(tmp_path / "c.zkey").prove(wtns, seed=1)
    device.launches = 0
    assert key.prove(wtns, seed=1) == expected
    refused, count = 0, device.launches
    some = range(1, count, max(1, count // 3))
    # Which launch has a number differs from run to run: go on where none was of consequence.
    for wrong in (*some, *(number for number in range(1, count) if number not in some)):
        if wrong not in some and refused:
            break
        device.launches, device.wrong_launch = 0, wrong
        try:
            assert key.prove(wtns, seed=1) == expected
        except VerificationError:
            refused += 1
        except KernelError:
            # The interpreter saw it: an index out of bounds.
            pass
    assert refused > 0
    key.close()


# --- several at a time


@pytest.mark.thorough
def test_streams_share_only_the_bases(tmp_path: Path) -> None:
    circuit = recurrence("bn254", 2)
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 1)
    wtns, device = circuit.write_wtns(tmp_path / "c.wtns"), EmulatedDevice()
    zkey = Zkey.open(tmp_path / "c.zkey", owned=True)
    alone = ProvingKey(zkey, EmulatedDevice())
    key = ProvingKey(zkey, device, lanes=2)
    key.prepare()
    assert (alone.in_progress, key.in_progress) == (2, 4)
    # Less than two keys: the matrices and the bases are there once.
    assert alone.resident.nbytes < key.resident.nbytes < 2 * alone.resident.nbytes
    assert device.memory.in_use < 1.1 * key.resident.nbytes
    expected = ProvingKey(zkey).prove(wtns, seed=9)
    meter = BusyMeter()
    pending = [key.begin(wtns, seed=9, meter=meter) for _ in range(key.in_progress)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda proof: proof.finish(), pending)) == [expected] * len(pending)
    spans = sorted(proof.spans["compute"] for proof in pending)
    # Two were computed side by side, and time that both took counts once.
    assert spans[1][0] < spans[0][1]
    longest = (max(end for _, end in spans) - spans[0][0]) / 1e9
    assert 0 < meter.seconds < longest + 0.05
    # One that is given up gives its slot back.
    key.begin(wtns).close()
    assert key.prove(wtns, seed=9) == expected
    key.close()
    slots: Any = key.resident
    assert len(slots.slots._free) == key.in_progress
    with pytest.raises(InputError, match="lanes"):
        ProvingKey(zkey, device, lanes=0)
    for together in (0, 33):
        with pytest.raises(InputError, match="max_batch"):
            ProvingKey(zkey, device, max_batch=together)


@pytest.mark.device("cuda")
@pytest.mark.parametrize("name", ["cuda"])
def test_several_streams_on_gpus(circuit_files: Make, name: str) -> None:
    gpu_device = open_for_test(name)
    files = circuit_files("bn254")
    key = ProvingKey(Zkey.open(files.zkey, owned=True), gpu_device, lanes=3)
    key.prepare()
    expected = [ProvingKey.from_zkey(files.zkey).prove(files.wtns, seed=seed) for seed in range(12)]
    with ThreadPoolExecutor(key.in_progress) as pool:
        futures = [pool.submit(key.begin(files.wtns, seed=seed).finish) for seed in range(12)]
        assert [future.result() for future in futures] == expected
    key.close()
    gpu_device.close()


@pytest.mark.thorough
def test_single_stream_if_memory_is_short(
    circuit_files: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = bases.MsmMemory.fitting

    def short(*arguments: Any, lanes: int) -> Any:
        if lanes > 1:
            raise DeviceError("too little memory")
        return fitting(*arguments, lanes=lanes)

    monkeypatch.setattr(bases.MsmMemory, "fitting", short)
    key = ProvingKey(Zkey.open(circuit_files("bn254").zkey), EmulatedDevice(), lanes=2)
    assert key.in_progress == 2
    key.close()


# --- timelines


@pytest.mark.thorough
def test_stages_are_reported(circuit_files: Make, key: ProvingKey) -> None:
    timeline = Timeline()
    files = circuit_files("bn254")
    key.prove(files.wtns, timeline=timeline)
    rows = {row.name: row for row in timeline.table()}
    for name in ("witness", "sums", "upload", "A·w, B·w", "A·w ∘ B·w", "MSM A: accumulate",
                 "MSM B2: digits", "MSM H: reduce", "fixed terms", "verifying key",
                 "finish sums", "blind", "check A and B", "assemble",
                 "self-check"):  # fmt: skip
        assert name in rows, name
        assert not rows[name].failed
    assert rows["A·w, B·w"].modmuls == len(key.zkey.coefficients)
    assert rows["sums"].depth == 0
    assert rows["MSM A: accumulate"].depth == 1
    assert rows["MSM A: accumulate"].multiply_adds > 100 * rows["MSM A: accumulate"].modmuls
    events = json.loads(json.dumps(timeline.to_chrome_trace()))["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    of_stage = {event["name"]: tracks[event["tid"]] for event in events if event["ph"] == "X"}
    # What the GPU does, what the host does beside it, and what it does before and after.
    assert of_stage["MSM A: accumulate"] == of_stage["A·w, B·w"] == of_stage["MSM H: reduce"]
    assert of_stage["MSM A: accumulate"] == "proof"
    assert of_stage["witness"] == of_stage["assemble"] == "MainThread"
    sums = next(event for event in events if event["name"] == "sums")
    for event in events:
        if event["ph"] == "X" and tracks[event["tid"]] == "proof":
            assert event["ts"] >= sums["ts"]


# --- memory


def test_memory_plan_degrades_stepwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    device = EmulatedDevice(resident_lanes=1 << 18)
    g1, g2 = GROUPS["bn254.g1"], GROUPS["bn254.g2"]
    parts = [
        KeyBases.of(name, group, np.ones((1 << 18, *group.shape), np.uint32))
        for name, group in (("A", g1), ("B2", g2), ("H", g1))
    ]
    kept: list[tuple[int, int, int]] = []

    def shrink(budget: int) -> None:
        while True:
            memory = bases.MsmMemory.fitting(device, parts, budget)
            assert memory.nbytes(device) <= budget
            multiples = 1 << 10 if memory.multiples is None else memory.multiples
            kept.append((-len(memory.streamed), len(memory.workspaces), multiples))
            budget = memory.nbytes(device) * 15 // 16

    with pytest.raises(DeviceError, match=r"are available for them; .* --device cpu"):
        shrink(1 << 40)
    assert kept[0] == (0, 3, 1 << 10)
    assert kept == sorted(kept, reverse=True)
    assert {workspaces for streamed, workspaces, _ in kept if not streamed} == {3, 2, 1}
    assert kept[-1][0] < 0


@pytest.mark.thorough
@pytest.mark.parametrize("fragile", ["side by side"], indirect=True)
def test_proof_with_streamed_bases(
    circuit_files: Make, fragile: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = circuit_files("bn254")
    fitting = bases.MsmMemory._streamed.__func__  # type: ignore[attr-defined]

    def streamed(device: AnyDevice, parts: list[KeyBases], budget: int, *, lanes: int) -> Any:
        return fitting(bases.MsmMemory, device, parts[:3], parts[3:], budget)

    monkeypatch.setattr(bases.MsmMemory, "fitting", streamed)
    key = ProvingKey.from_zkey(files.zkey, device=fragile)
    expected = ProvingKey.from_zkey(files.zkey).prove(files.wtns, seed=1)
    assert list(key.prove_many([files.wtns] * 2, seed=1)) == [expected] * 2
    key.close()


def test_a_device_that_is_too_small(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    with pytest.raises(DeviceError, match="of memory; the budget is"):
        ProvingKey.from_zkey(files.zkey, device=EmulatedDevice(memory_budget=1000))
    with pytest.raises(DeviceError, match="the MSMs of a proof with this key need"):
        ProvingKey.from_zkey(files.zkey, device=EmulatedDevice(memory_budget=160_000))
