"""Keys of circuits of repeated parts, made in a device's memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from quod.device import open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError, MismatchError
from quod.field.array import from_integers, integers_to_words, words_to_integers
from quod.formats.bellman import EncodedParameters, point_bytes, write_bellman_parameters
from quod.formats.output import write_atomically
from quod.groth16 import ProvingKey
from quod.groth16.device_key.bases import KeyPoints
from quod.groth16.device_key.bellman import open_bellman, parameters_content
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.device_key.memory import WITNESSES_AHEAD, KeyMemory
from quod.groth16.device_key.parts import PartsCircuit
from quod.groth16.device_key.streamed import StreamedKey
from quod.groth16.device_key.sums import ResidentSums
from quod.groth16.encodings.bellman_key import points_of
from quod.groth16.setup import make_key
from quod.r1cs import Circuit, ConstraintSystem, Signal, trace

Keys = tuple[DeviceKey, ProvingKey, Circuit]

SEED = 5


def step(system: ConstraintSystem, x: Signal, y: Signal) -> Signal:
    """Add a few rows, among them bits of a sum and a public wire."""
    z = system.private("z")
    bits = system.bits(system.multiply(x + 3 * y + 1, z) * 0 + z, 6)
    system.output("out", bits[0] + x)
    return system.select(bits[1], x * y, y + 1)


def function(system: ConstraintSystem) -> None:
    x, y = system.private("p", 2)
    for index in range(5):
        with system.namespace(f"step[{index}]"):
            x, y = y, system.repeat(step, x, y)
    system.assert_nonzero(x)


def circuit() -> Circuit:
    return trace(function, "bls12_381")


def inputs(traced: Circuit) -> dict[str, int | list[int]]:
    return {
        name: [3, 4] if name == "p" else 7 * index % 60 for index, name in enumerate(traced.inputs)
    }


def test_products_are_those_of_the_matrices(device: AnyDevice) -> None:
    traced = circuit()
    on_device = PartsCircuit(traced)
    fr, values = on_device.fr, traced.witness(inputs(traced)).values
    matrix = on_device.matrix(device)
    # The estimate leaves out the distinct coefficients and the rows of public wires.
    assert on_device.matrix_bytes < matrix.nbytes < on_device.matrix_bytes + 1500
    out = device.allocate(matrix.elements * fr.bytes)
    recording = device.stream("products").record()
    matrix.record(recording, device.upload(values), out)
    recording.finish().run()
    words = np.zeros((matrix.elements, fr.words), np.uint32)
    device.download(out, words)
    integers = words_to_integers(fr, values)
    expected = [0] * matrix.elements
    for side, rows in enumerate(traced.matrices[:2]):
        for row in range(rows.rows):
            entries = slice(int(rows.row_ptr[row]), int(rows.row_ptr[row + 1]))
            coefficients = words_to_integers(fr, rows.value[entries])
            expected[(side << on_device.log2_domain) + row] = sum(
                coefficient * integers[wire]
                for coefficient, wire in zip(coefficients, rows.column[entries], strict=True)
            )
    for wire in range(traced.public + 1):
        expected[traced.constraints + wire] = integers[wire]
    assert np.array_equal(words, from_integers(fr, expected))


def test_sums_over_columns_are_those_of_the_matrices(device: AnyDevice) -> None:
    traced = circuit()
    on_device = PartsCircuit(traced)
    fr = on_device.fr
    p, domain = fr.value, 1 << on_device.log2_domain
    row_values = [pow(7, row + 1, p) for row in range(domain)]
    columns = on_device.columns(device, device.upload(integers_to_words(fr, row_values)))
    sums = [[0] * traced.wires for _ in range(3)]
    for side, matrix in enumerate(traced.matrices):
        entries = zip(matrix.column.tolist(), words_to_integers(fr, matrix.value), strict=True)
        rows = np.repeat(np.arange(matrix.rows), np.diff(matrix.row_ptr)).tolist()
        for row, (wire, coefficient) in zip(rows, entries, strict=True):
            sums[side][wire] += coefficient * row_values[row]
    for wire in range(traced.public + 1):
        sums[0][wire] += row_values[traced.constraints + wire]
    weights = 2, 3, 5
    words = device.upload(from_integers(fr, weights))
    wires_of_a = sorted({*range(traced.public + 1), *traced.matrices[0].column.tolist()})
    wires_of_b = sorted(set(traced.matrices[1].column.tolist()))
    assert on_device.wires_of_a.tolist() == wires_of_a
    assert on_device.wires_of_b.tolist() == wires_of_b
    for name, wires, first in (
        ("A", wires_of_a, 0),
        ("A", wires_of_a[7:20], 7),
        ("B1", wires_of_b[2:9], 2),
        ("C", range(traced.public + 4, traced.wires), 3),
        ("ic", range(traced.public + 1), 0),
    ):
        expected = [
            sum(weight * side[wire] for weight, side in zip(weights, sums, strict=True)) % p
            for wire in wires
        ]
        out = device.allocate(len(expected) * fr.bytes)
        columns.scalars(name, words, first, out)
        scalars = np.zeros((len(expected), fr.words), np.uint32)
        device.download(out, scalars)
        assert words_to_integers(fr, scalars) == expected


@pytest.fixture(scope="module", params=[False, True], ids=["snarkjs", "bellman"])
def keys(request: pytest.FixtureRequest, gpu_device: AnyDevice) -> Iterator[Keys]:
    if gpu_device.kind == "webgpu":
        pytest.skip("keys of this size need a GPU whose kernels reach all memory")
    traced, monomial = circuit(), request.param
    key = DeviceKey.make(PartsCircuit(traced, monomial=monomial), gpu_device, SEED)
    yield key, ProvingKey(make_key(traced, SEED, monomial=monomial)), traced
    key.close()


@pytest.mark.thorough
def test_the_key_is_that_of_the_setup(keys: Keys) -> None:
    key, expected, _ = keys
    assert key.digest == expected.digest
    zkey, wires_of_a = expected.zkey, key.circuit.wires_of_a
    wires_of_b = key.circuit.wires_of_b
    for name, points in (
        ("A", zkey.a[wires_of_a]), ("B1", zkey.b_g1[wires_of_b]), ("B2", zkey.b_g2[wires_of_b]),
        ("C", zkey.c), ("H", zkey.quotient_points),
    ):  # fmt: skip
        downloaded = np.zeros(points.shape, np.uint32)
        key.device.download(key.resident.bases[name], downloaded)  # type: ignore[attr-defined]
        assert np.array_equal(downloaded, points), name


@pytest.mark.thorough
def test_proofs_are_those_of_the_key_in_memory(
    keys: Keys,
) -> None:
    key, expected, traced = keys
    witness = traced.witness(inputs(traced))
    assert key.prove(witness, seed=9) == expected.prove(witness, seed=9)


def test_as_much_of_a_key_stays_as_fits() -> None:
    on_device = PartsCircuit(circuit())
    resident = KeyMemory(EmulatedDevice(), on_device)
    smallest = KeyMemory(EmulatedDevice(), on_device, 0, 8)
    assert smallest.nbytes < resident.nbytes

    def fitting(budget: int) -> KeyMemory:
        device = EmulatedDevice(memory_budget=budget)
        return KeyMemory.fitting(device, on_device, 8)

    assert (fitting(resident.nbytes).staying, fitting(resident.nbytes).ahead) == (None, 1)
    ahead = KeyMemory(EmulatedDevice(), on_device, ahead=WITNESSES_AHEAD)
    assert fitting(ahead.nbytes).ahead == WITNESSES_AHEAD
    assert fitting(ahead.nbytes - 1).ahead == 1
    for spare in (0, 1000):
        memory = fitting(smallest.nbytes + spare)
        assert memory.staying == spare
        assert memory.nbytes == memory.device.memory_budget
    with pytest.raises(DeviceError, match=r"takes .*, chunks that stay 0 bytes, .*more memory"):
        fitting(smallest.nbytes - 1)


@pytest.mark.thorough
def test_a_streamed_key_proves_witnesses_in_its_memory(keys: Keys, gpu_device: AnyDevice) -> None:
    _, expected, traced = keys
    on_device = PartsCircuit(traced, monomial=expected.zkey.monomial)
    key = DeviceKey.make(on_device, gpu_device, SEED, share=0.95, chunk=8)
    assert isinstance(key.resident, StreamedKey)
    assert any(chunk.host is not None for chunk in key.resident.chunks)
    for number in range(2):
        values = inputs(traced) | {"p": [3, 4 + number]}
        (witness,) = traced.witnesses([values], device=gpu_device)
        assert key.prove(witness, seed=9) == expected.prove(traced.witness(values), seed=9)
    key.close()


@pytest.mark.thorough
def test_proofs_release_the_memory_of_their_witnesses(keys: Keys, gpu_device: AnyDevice) -> None:
    """Witnesses of large circuits fill a GPU's memory before garbage is collected."""
    key, _, traced = keys
    gc.collect()
    gc.disable()
    try:
        references = []
        for _ in range(2):
            (witness,) = traced.witnesses([inputs(traced)], device=gpu_device)
            references.append(weakref.ref(witness))
            key.prove(witness)
            del witness
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()


def test_parameters_of_bellman_are_read_and_written(gpu_device: AnyDevice, tmp_path: Path) -> None:
    if gpu_device.kind == "webgpu":
        pytest.skip("keys of this size need a GPU whose kernels reach all memory")
    traced, path, copy = circuit(), tmp_path / "key.params", tmp_path / "copy.params"
    expected = make_key(traced, SEED, monomial=True)
    write_bellman_parameters(path, points_of(expected))
    on_device = PartsCircuit(traced, monomial=True)
    key = open_bellman(path, on_device, gpu_device)
    resident = key.resident
    assert isinstance(resident, ResidentSums)
    for name, points in (("A", expected.a[on_device.wires_of_a]), ("H", expected.quotient_points)):
        downloaded = np.zeros(points.shape, np.uint32)
        gpu_device.download(resident.bases[name], downloaded)
        assert np.array_equal(downloaded, points), name
    points = KeyPoints(dict(resident.bases), key.single, key.self_check_key.ic)
    write_atomically(copy, parameters_content(gpu_device, on_device, points))
    assert copy.read_bytes() == path.read_bytes()
    key.close()


@pytest.mark.parametrize(
    ("name", "point", "byte", "message"),
    [
        ("h", 3, 0, "point 3 has flags, or a coordinate that is not below q"),
        ("a", 1, 95, "point 1 is not on the curve"),
        ("b_g2", 2, 100, "point 2 is not on the curve"),
    ],
)
@pytest.mark.thorough
def test_bad_points_of_parameters_are_refused(
    gpu_device: AnyDevice, tmp_path: Path, name: str, point: int, byte: int, message: str
) -> None:
    if gpu_device.kind == "webgpu":
        pytest.skip("keys of this size need a GPU whose kernels reach all memory")
    traced, path = circuit(), tmp_path / "key.params"
    write_bellman_parameters(path, points_of(make_key(traced, SEED, monomial=True)))
    place = EncodedParameters.open(path).places[name]
    offset = place.offset + point * point_bytes(place.group) + byte
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        open_bellman(path, PartsCircuit(traced, monomial=True), gpu_device)
    assert caught.value.offset == place.offset + point * point_bytes(place.group)
    assert caught.value.section == place.section


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "point"), [("h", 3), ("b_g2", 2)])
def test_infinite_points_of_parameters_are_refused_with_their_offset(
    gpu_device: AnyDevice, tmp_path: Path, name: str, point: int
) -> None:
    if gpu_device.kind == "webgpu":
        pytest.skip("keys of this size need a GPU whose kernels reach all memory")
    traced, path = circuit(), tmp_path / "key.params"
    write_bellman_parameters(path, points_of(make_key(traced, SEED, monomial=True)))
    place = EncodedParameters.open(path).places[name]
    size = point_bytes(place.group)
    start, data = place.offset + point * size, bytearray(path.read_bytes())
    data[start : start + size] = bytes(size)
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"point {point} is infinity") as caught:
        open_bellman(path, PartsCircuit(traced, monomial=True), gpu_device)
    assert (caught.value.section, caught.value.offset) == (place.section, start)


def test_parameters_of_another_circuit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.params"
    other = trace(lambda system: system.output("y", system.private("x") * 2), "bls12_381")
    write_bellman_parameters(path, points_of(make_key(other, SEED, monomial=True)))
    device = open_device("emulated")
    with pytest.raises(MismatchError, match=r"there are \d+ points and a circuit of .* needs"):
        open_bellman(path, PartsCircuit(circuit(), monomial=True), device)
    with pytest.raises(InputError, match="powers of tau as points h"):
        open_bellman(path, PartsCircuit(circuit()), device)
