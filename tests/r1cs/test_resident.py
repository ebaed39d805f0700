"""Witnesses in device memory: equal to the host's, with every step executed."""

from __future__ import annotations

import copy
import pickle
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod import r1cs
from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice, KernelForm
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError, InputError, MismatchError
from quod.field.array import words_to_integers
from quod.formats import Witness
from quod.groth16 import ProvingKey, generate_key
from quod.groth16.gpu import bases
from quod.kernel.builder.composites import split
from quod.r1cs.executor import plans
from quod.r1cs.resident_witness import ResidentWitness
from tests.r1cs.test_circuit import MIXED_INPUTS, mixed
from tests.r1cs.test_program import random_circuit
from tests.support.thorough import one_and_others


def small(system: r1cs.ConstraintSystem) -> None:
    x = system.private("x")
    system.output("y", x * x * x + 5)


def made(
    circuit: r1cs.Circuit, inputs: list[dict[str, Any]], device: AnyDevice, *, check: bool = True
) -> list[ResidentWitness]:
    witnesses = []
    for witness in circuit.witnesses(inputs, check=check, device=device):
        assert isinstance(witness, ResidentWitness)
        witnesses.append(witness)
    return witnesses


@pytest.mark.parametrize("seed", one_and_others(range(3)))
def test_the_values_match_step_by_step_evaluation(gpu_device: AnyDevice, seed: int) -> None:
    """More inputs than a workgroup has instances, hints, and quotients by 0 in a curve's field
    each."""
    circuit, chance = random_circuit(seed), random.Random(seed)
    prime = circuit.field.value
    inputs = [
        {
            "x": [chance.choice((0, 1, prime - 1, chance.randrange(prime))) for _ in range(3)],
            "b": chance.getrandbits(40), "y": chance.randrange(prime),
        }
        for _ in range(35)
    ]  # fmt: skip
    witnesses = made(circuit, inputs, gpu_device, check=False)
    for witness, values in zip(witnesses, inputs, strict=True):
        assert (len(witness), witness.curve) == (circuit.wires, circuit.curve)
        assert words_to_integers(circuit.field, witness.values) == circuit.values(values)
        assert np.array_equal(witness.first(2), witness.values[:2])


@pytest.mark.thorough
def test_rows_are_checked_on_the_device(gpu_device: AnyDevice) -> None:
    circuit = r1cs.trace(mixed)
    inputs: list[dict[str, Any]] = [
        {"x": at, "y": at % 5, "amounts": [at % 256, at * 7, at]} for at in range(3)
    ]
    for resident, host in zip(
        made(circuit, inputs, gpu_device), circuit.witnesses(inputs), strict=True
    ):
        assert np.array_equal(resident.values, host.values)
    wrong = {"x": 1, "y": 2, "amounts": [256, 0, 0]}
    with pytest.raises(r1cs.UnsatisfiedError, match=r"^inputs\[1\]: .*`bits`"):
        circuit.witnesses([inputs[0], wrong], device=gpu_device)
    with pytest.raises(InputError, match=r"^inputs\[1\]: the input 'y' is missing"):
        circuit.witnesses([inputs[0], {"x": 1}], device=gpu_device)
    assert circuit.witnesses([], device=gpu_device) == []


def test_registers_fit_in_the_memory_for_them(
    gpu_device: AnyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of witnesses takes as many replays as the memory for registers requires."""
    most = 1 << 13
    monkeypatch.setattr(plans, "_MAX_BYTES", most)
    circuit = r1cs.trace(lambda system: system.output("y", 3 * system.private("x") + 1))
    launch, sizes = RecordingStream.launch, list[int]()

    def launched(self: RecordingStream, kernel: Any, groups: int, *arguments: Any) -> None:
        if kernel.name == "replay_program":
            _, slots = split(kernel, groups, arguments)
            sizes.append([slot.nbytes for slot in slots if isinstance(slot, Buffer)][-2])
        launch(self, kernel, groups, *arguments)

    monkeypatch.setattr(RecordingStream, "launch", launched)
    witnesses = made(circuit, [{"x": at} for at in range(70)], gpu_device)
    assert [witness.first(2)[1, 0] for witness in witnesses] == [3 * at + 1 for at in range(70)]
    assert len(sizes) > 1
    assert max(sizes) <= most


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_hint_errors_name_the_input(device: str) -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        (half,) = system.hint(lambda value: 8 // value, [system.private("x")])
        system.output("y", half * half)

    circuit = r1cs.trace(function)
    with pytest.raises(
        InputError, match=r"^inputs\[2\]: the hint .* raised ZeroDivisionError"
    ) as raised:
        circuit.witnesses([{"x": 1}, {"x": 2}, {"x": 0}], device=device)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(InputError, match=r"^the hint"):
        circuit.witnesses([{"x": 0}], device=device)

    def refuse(value: int) -> int:
        raise MismatchError("no such leaf")

    circuit = r1cs.trace(lambda system: system.hint(refuse, [system.private("x")]))
    with pytest.raises(MismatchError, match=r"^no such leaf"):
        circuit.witnesses([{"x": 1}, {"x": 2}], device=device)


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_hints_after_division_by_zero_get_step_values(device: str) -> None:
    """The program has another number there, which a hint may refuse."""
    asked = []

    def root(value: int) -> int:
        asked.append(value)
        return {0: 0, 4: 2}[value]

    def function(system: r1cs.ConstraintSystem) -> None:
        quotient = system.divide(system.private("x"), system.private("y"))
        (square_root,) = system.hint(root, [quotient])
        system.enforce(square_root, square_root, quotient)

    circuit = r1cs.trace(function)
    circuit.prepare()
    inputs: list[dict[str, int]] = [{"x": 8, "y": 2}, {"x": 7, "y": 0}, {"x": 0, "y": 5}]
    witnesses = circuit.witnesses(inputs, check=False, device=device)
    for witness, values in zip(witnesses, inputs, strict=True):
        assert words_to_integers(circuit.field, witness.values) == circuit.values(values)
    assert set(asked) == {0, 4}


@pytest.mark.parametrize("form", ["ir", "wgsl"])
def test_many_witnesses_use_several_buffers(form: KernelForm) -> None:
    """A buffer has room for 32 witnesses; an error names the index of the one that fails."""

    def function(system: r1cs.ConstraintSystem) -> None:
        x, y = system.private("x"), system.private("y")
        system.enforce(x, x, y)

    circuit = r1cs.trace(function)
    size = circuit.field.bytes * circuit.wires
    device = EmulatedDevice(executor=form, largest_buffer=32 * size)
    inputs = [{"x": x, "y": x * x} for x in range(70)]
    witnesses = made(circuit, inputs, device)
    assert [words_to_integers(circuit.field, witness.values) for witness in witnesses] == [
        circuit.values(values) for values in inputs
    ]
    assert len({witness.memory.owner for witness in witnesses}) == 3
    for place in (0, 31, 32, 69):
        wrong = [*inputs]
        wrong[place] = {"x": 1, "y": 2}
        with pytest.raises(r1cs.UnsatisfiedError, match=rf"^inputs\[{place}\]"):
            circuit.witnesses(wrong, device=device)


@pytest.mark.parametrize(
    ("form", "room", "buffers"), [("ptx", 31, 1), ("wgsl", 5, 2), ("ir", 1, 6)]
)
def test_buffer_with_room_for_few_witnesses(form: KernelForm, room: int, buffers: int) -> None:
    """For fewer than a workgroup's instances: those of long circuits where kernels reach little."""
    circuit = r1cs.trace(small)
    (stage,) = circuit.program.schedule.stages
    row = circuit.field.bytes * max(circuit.wires, stage.program.registers)
    device = EmulatedDevice(executor=form, largest_buffer=room * row)
    inputs = [{"x": x} for x in range(6)]
    witnesses = made(circuit, inputs, device)
    assert [words_to_integers(circuit.field, witness.values) for witness in witnesses] == [
        circuit.values(values) for values in inputs
    ]
    assert len({witness.memory.owner for witness in witnesses}) == buffers
    with pytest.raises(DeviceError, match=r"can address at most"):
        made(circuit, inputs, EmulatedDevice(executor=form, largest_buffer=row - 4))


def test_device_witness_record_attributes() -> None:
    circuit = r1cs.trace(small)
    with open_device("emulated") as device:
        witness, lost = made(circuit, [{"x": 2}, {"x": 3}], device)
        memory = "the memory of the device emulated"
        assert repr(witness) == f"<ResidentWitness over bn254: 5 values in {memory}>"
        # Nobody asked for them.
        assert "values" not in vars(witness)
        assert copy.copy(witness) is witness
        assert copy.deepcopy(witness) is witness
        again = pickle.loads(pickle.dumps(witness))
        assert type(again) is Witness
        assert (again.curve, len(again), again.size) == (witness.curve, len(witness), witness.size)
        assert np.array_equal(again.values, witness.values)
        assert circuit.check(witness) == []
        with pytest.raises(ValueError, match="read-only"):
            witness.values[1] = 0
        for count in (-1, 6, "1"):
            with pytest.raises(InputError, match="the count of values must be a whole number"):
                witness.first(count)  # type: ignore[arg-type]
    assert len(lost) == len(witness.values)
    assert repr(lost) == repr(witness)
    with pytest.raises(DeviceError, match="is gone"):
        _ = lost.values
    with pytest.raises(DeviceError, match="is gone"):
        circuit.witnesses([{"x": 2}], device=device)
    with open_device("emulated") as other:
        made(circuit, [{"x": 2}], other)
        # What was closed is not held on to.
        assert list(circuit.program._resident) == [other]


def test_failed_download_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_device("emulated") as device:
        (witness,) = made(r1cs.trace(small), [{"x": 2}], device)
        monkeypatch.setattr(device, "download", lambda *arguments: None)
        with pytest.raises(DeviceError, match="without computing a copy of a witness"):
            _ = witness.values


def test_cpu_device_returns_host_memory() -> None:
    circuit = r1cs.trace(mixed)
    inputs = [{"x": 5, "y": 1, "amounts": [1, 2, 3]}]
    (witness,) = circuit.witnesses(inputs, device="cpu")
    assert type(witness) is Witness
    with pytest.raises(DeviceError, match="there is no device 'nothing'"):
        circuit.witnesses(inputs, device="nothing")


@pytest.mark.parametrize(
    "left_out",
    one_and_others(
        ["store_outputs", "count_unwritten", "failing_rows", "replay_program", "store_values"],
        ["failing_rows"],
    ),
)
def test_skipped_launches_produce_no_witness(
    left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = r1cs.trace(small)
    inputs = [{"x": at} for at in range(3)]
    with EmulatedDevice() as device:
        # What is right stays in memory for the next.
        circuit.witnesses(inputs, device=device)
        execute = device.execute

        def executed(kernel: Any, *arguments: Any) -> None:
            if kernel.name != left_out:
                execute(kernel, *arguments)

        monkeypatch.setattr(device, "execute", executed)
        with pytest.raises(DeviceError, match="reported success without computing"):
            circuit.witnesses(inputs, device=device)


@pytest.mark.thorough
def test_key_on_the_device_reads_the_device_witness(
    gpu_device: AnyDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes equal those of a host witness, and the host does not read the values."""
    monkeypatch.setattr(bases, "_MULTIPLES", (1,))
    circuit = r1cs.trace(small)
    circuit.write_r1cs(tmp_path / "c.r1cs")
    generate_key(tmp_path / "c.r1cs", tmp_path / "c.zkey", 3)
    # A proof takes an interpreter seconds.
    inputs = [{"x": 3}, {"x": 4}][: 1 if gpu_device.kind == "emulated" else 2]
    host = circuit.witnesses(inputs)
    with closing(ProvingKey.from_zkey(tmp_path / "c.zkey", allow_insecure=True)) as key:
        expected = [key.prove(witness, seed=1) for witness in host]
        # Another device copies it.
        assert key.prove(made(circuit, inputs, gpu_device)[0], seed=1) == expected[0]
    resident = made(circuit, inputs, gpu_device)
    with closing(
        ProvingKey.from_zkey(tmp_path / "c.zkey", device=gpu_device, allow_insecure=True)
    ) as key:
        assert [key.prove(witness, seed=1) for witness in resident] == expected
        fresh = made(circuit, inputs, gpu_device)
        for (proof, public), (_, wanted) in zip(key.prove_many(fresh), expected, strict=True):
            assert public == wanted
            assert key.verifying_key.verify(public, proof)
        # Nobody asked for all of the values.
        assert not any("values" in vars(witness) for witness in fresh)
        with pytest.raises(MismatchError, match="is over bls12_381 and the key"):
            key.prove(made(r1cs.trace(small, "bls12_381"), inputs[:1], gpu_device)[0])
        with pytest.raises(MismatchError, match="values and the key"):
            key.prove(made(r1cs.trace(mixed), [MIXED_INPUTS], gpu_device)[0])


def test_a_file_gives_a_witness_of_the_host(tmp_path: Path) -> None:
    circuit = r1cs.trace(small)
    circuit.write_wtns(tmp_path / "own.wtns", {"x": 2})
    witness = ResidentWitness.open(tmp_path / "own.wtns")
    assert type(witness) is Witness
    assert len(witness) == circuit.wires
