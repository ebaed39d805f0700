"""Keys of circuits of repeated parts, made in a device's memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.field.array import from_integers, integers_to_words, words_to_integers
from quod.groth16 import ProvingKey
from quod.groth16.device_key.key import DeviceKey
from quod.groth16.device_key.parts import PartsCircuit
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
    wires_of_b = sorted(set(traced.matrices[1].column.tolist()))
    assert on_device.wires_of_b.tolist() == wires_of_b
    for name, wires, first in (
        ("A", range(traced.wires), 0),
        ("A", range(7, 20), 7),
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
    key = DeviceKey(PartsCircuit(traced, monomial=monomial), gpu_device, SEED)
    yield key, ProvingKey(make_key(traced, SEED, monomial=monomial)), traced
    key.close()


@pytest.mark.thorough
def test_the_key_is_that_of_the_setup(keys: Keys) -> None:
    key, expected, _ = keys
    assert key.digest == expected.digest
    zkey, wires_of_b = expected.zkey, key.circuit.wires_of_b
    for name, points in (
        ("A", zkey.a), ("B1", zkey.b_g1[wires_of_b]), ("B2", zkey.b_g2[wires_of_b]),
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
