"""Files of layered circuits have one encoding each, and damaged files are rejected."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random as Chance

import numpy as np
import pytest

from quod.errors import InputError, OutputError
from quod.field import NAMED
from quod.field.moduli import Modulus
from quod.layered import CircuitBuilder, LayeredCircuit, Public, Random, read_circuit, write_circuit
from quod.layered.circuit import Gates, Layer
from quod.layered.file import parse_circuit
from tests.formats import expander
from tests.formats.tiny import container, refused, replaced, split

TOY = Modulus("toy", 17)


def made(field: Modulus, log_inputs: int = 3, count: int = 40) -> LayeredCircuit:
    """A circuit with gates of every kind and coefficients of every sort."""
    chance = Chance(1)
    builder = CircuitBuilder(field, log_inputs, public=300)
    below = log_inputs
    for log_size in (9, 1):
        layer = builder.layer(log_size)
        for _ in range(count):
            coefficient = chance.choice(
                [chance.randrange(field.value), Public(chance.randrange(300)), Random(299)]
            )
            z, x, y = (chance.randrange(1 << log) for log in (log_size, below, below))
            layer.constant(z, coefficient)
            layer.multiply(z, x, y, coefficient)
            layer.power(z, x, chance.randrange(1, 6), coefficient)
        below = log_size
    return builder.finished(zeros=1)


def written(circuit: LayeredCircuit, folder: Path) -> bytes:
    write_circuit(folder / "circuit.qcir", circuit)
    return (folder / "circuit.qcir").read_bytes()


FIELDS = [NAMED[name] for name in ("m31", "koala_bear", "goldilocks", "bn254.fr")]


@pytest.mark.parametrize("field", [*FIELDS, TOY], ids=lambda field: field.name)
def test_circuit_round_trips(field: Modulus, tmp_path: Path) -> None:
    circuit = made(field)
    data = written(circuit, tmp_path)
    again = read_circuit(tmp_path / "circuit.qcir")
    assert again.digest == circuit.digest
    assert again.coefficients == circuit.coefficients
    assert again.field.value == field.value
    assert (again.field == field) == (field is not TOY)
    assert written(again, tmp_path) == data


def test_columns_use_the_narrowest_type(tmp_path: Path) -> None:
    builder = CircuitBuilder(NAMED["m31"], 17)
    builder.layer(9).add(511, (1 << 17) - 1)
    _, _, sections = split(written(builder.finished(), tmp_path))
    layer = dict(sections)[3]
    # The logarithm, seven counts, and one gate: two bytes, four, one.
    assert len(layer) == 4 + 7 * 8 + 2 + 4 + 1
    assert struct.unpack_from("<I8xQHIB", layer[:4] + layer[4:]) == (9, 1, 511, (1 << 17) - 1, 0)


def test_files_of_expander_are_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "small.circ"
    path.write_bytes(expander.SMALL_CIRCUIT)
    assert len(read_circuit(path).layers) == 7


def sound(tmp_path: Path) -> tuple[bytes, dict[int, bytes]]:
    data = written(made(NAMED["m31"]), tmp_path)
    return data, dict(split(data)[2])


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def put(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]


@pytest.mark.parametrize(
    ("section", "at", "piece", "said"),
    [
        (1, 0, u32(16), "composite"),
        (1, 0, u32(7), "cannot be 7 bytes long"),
        (1, 4, u64(2**31 - 3), "composite"),
        (1, 4, u64(4), "too small"),
        (1, 12, u32(0), "log_inputs must be 1 to 26, not 0"),
        (1, 12, u32(27), "log_inputs must be 1 to 26"),
        (1, 16, u64(1 << 40), "public must be 0 to"),
        (1, 16, u64(3), "public input [0-9]+ is beyond the last one, 2"),
        (1, 24, u64(0), "zeros must be 1 to"),
        (1, 24, u64(3), "3 zeros of 2 outputs"),
        (1, 32, u64(1 << 60), "coefficients must be 0 to"),
        (1, 32, u64(5), "are not 5 coefficients"),
        (1, 40, u32(0), "layers must be 1 to 4096"),
        (1, 40, u32(3), "a layer's values needs 4 bytes and 0 are left"),
        (1, 40, u32(1), "bytes more than the header"),
        (2, 0, b"\3", "the kind 3"),
        (3, 0, u32(0), r"2\*\*0 values"),
        (3, 0, u32(2**32 - 1), r"2\*\*4294967295 values"),
        (3, 0, u32(8), "a gate has place [0-9]+, beyond the last one"),
        (3, 4, u64(2**64 - 1), "gates take 3 bytes each"),
        (3, 12, b"\xff\xff", "a gate has place 65535, beyond the last one, 511"),
        (4, 0, b"digest", "not that of the circuit"),
    ],
)
def test_damaged_circuits_are_refused(
    tmp_path: Path, section: int, at: int, piece: bytes, said: str
) -> None:
    data, sections = sound(tmp_path)
    parse_circuit(data, "circuit.qcir")
    with pytest.raises(InputError, match=said) as error:
        parse_circuit(replaced(data, {section: put(sections[section], at, piece)}), "circuit.qcir")
    refused(error, "circuit.qcir", "section ", "offset ")


def test_a_prime_has_one_length(tmp_path: Path) -> None:
    data, sections = sound(tmp_path)
    header = u32(16) + sections[1][4:12] + bytes(8) + sections[1][12:]
    with pytest.raises(InputError, match="the prime takes 8 bytes"):
        parse_circuit(replaced(data, {1: header}), "circuit.qcir")


def test_coefficient_kinds_have_limits(tmp_path: Path) -> None:
    data, sections = sound(tmp_path)
    table = sections[2]
    count = len(table) // 5
    for sort, number in ((0, 2**31 - 1), (1, 300), (2, 1 << 20)):
        changed_table = put(table, table[:count].index(sort) * 4 + count, u32(number))
        with pytest.raises(InputError, match=f"{number} is beyond the last one") as error:
            parse_circuit(replaced(data, {2: changed_table}), "circuit.qcir")
        refused(error, "section 2 (coefficients)", "offset ")


@pytest.mark.parametrize("section", [1, 2, 3, 4])
def test_sections_that_are_missing_short_or_long(tmp_path: Path, section: int) -> None:
    data, sections = sound(tmp_path)
    for changed in (None, sections[section][:-1], sections[section] + b"\0"):
        with pytest.raises(InputError) as error:
            parse_circuit(replaced(data, {section: changed}), "circuit.qcir")
        refused(error, "circuit.qcir")


def test_changed_bytes_and_truncations_are_rejected(tmp_path: Path) -> None:
    data = written(made(NAMED["m31"], count=2), tmp_path)
    for length in range(len(data)):
        with pytest.raises(InputError):
            parse_circuit(data[:length], "circuit.qcir")
    for at in range(len(data)):
        with pytest.raises(InputError):
            parse_circuit(put(data, at, bytes([data[at] ^ 1])), "circuit.qcir")


def test_other_files_and_write_failures_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a qcir file"):
        parse_circuit(b"CIRCUIT5" + bytes(100), "circuit.qcir")
    with pytest.raises(InputError, match="version 2"):
        parse_circuit(container(b"qcir", 2, []), "circuit.qcir")
    with pytest.raises(OutputError):
        write_circuit(tmp_path / "nowhere" / "circuit.qcir", made(TOY))
    assert not list(tmp_path.iterdir())


def test_validated_indices_are_immutable() -> None:
    """A read-only view of a writable array would allow changes after the digest."""
    circuit = made(TOY)
    adders = circuit.layers[0].gates["add"]
    memory = adders.inputs[0].copy()
    view = memory[:]
    view.setflags(write=False)
    gates = {**circuit.layers[0].gates, "add": Gates(adders.output, (view,), adders.coefficient)}
    layers = [Layer(circuit.layers[0].log_size, gates), *circuit.layers[1:]]
    again = LayeredCircuit(TOY, 3, circuit.coefficients, layers, public=300, zeros=1)
    memory[:] = 1 << 20
    assert (again.layers[0].gates["add"].inputs[0] == adders.inputs[0]).all()
    kept = again.layers[0].gates["add"].output
    assert np.shares_memory(kept, adders.output), "what nobody can change is not copied"
    assert again.digest == circuit.digest
