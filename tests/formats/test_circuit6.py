"""Expander's circuits and witnesses: contents, and rejection of damaged files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from quod.errors import InputError
from quod.formats import (
    Circuit6,
    Circuit6Witness,
    write_circuit6,
    write_circuit6_witness,
)
from quod.formats.circuit6.file import MAX_TOTAL
from tests.formats import expander
from tests.formats.expander import BN254, GOLDILOCKS, M31, RANDOM, Segment, circuit_bytes, u64
from tests.formats.tiny import refused

PRIMES = [M31, GOLDILOCKS, expander.BABY_BEAR, BN254, 2]


def everything(prime: int) -> bytes:
    return circuit_bytes(prime, expander.EVERYTHING, [1, 2], public=2, outputs=2)


def read(data: bytes) -> Circuit6:
    return Circuit6.parse(memoryview(data), "file.circ")


def test_published_files_are_unchanged() -> None:
    # Of scripts/small_circuit_m31.circ and small_witness_m31.circ in Expander's repository.
    assert hashlib.sha256(expander.SMALL_CIRCUIT).hexdigest().startswith("6b8e66a9")
    assert hashlib.sha256(expander.SMALL_WITNESS).hexdigest().startswith("09e4f345")
    circuit = read(expander.SMALL_CIRCUIT)
    assert (circuit.field.name, circuit.public, circuit.outputs, circuit.zeros) == ("m31", 0, 1, 1)
    assert circuit.gates() == {"mul": 1, "add": 7, "const": 0, "uni": 0}
    assert circuit.randoms() == 1
    assert circuit.layers == (0, 1, 2, 3, 4, 5)
    witness = Circuit6Witness.parse(memoryview(expander.SMALL_WITNESS), "w")
    assert witness.private.shape == (16, 4, 1)
    assert witness.public.shape == (16, 0, 1)
    assert witness.private[7, :, 0].tolist() == [10, 5, 2, 20]


@pytest.mark.parametrize("prime", PRIMES)
def test_every_gate_kind_round_trips(prime: int, tmp_path: Path) -> None:
    data = everything(prime)
    circuit = read(data)
    assert circuit.field.value == prime
    assert circuit.gates() == {"mul": 4, "add": 10, "const": 12, "uni": 9}
    assert circuit.randoms() == 9
    gates = circuit.segments[0].gates
    assert gates["add"].tag.tolist() == [1, 2, 1]
    assert gates["uni"].exponent.tolist() == [5, 1, 5]
    assert gates["const"].tag.tolist() == [1, 3, 3, 2]
    assert gates["const"].value[1:3, 0].tolist() == [1, 0]
    minus = gates["add"].value[0].astype("<u4").tobytes()
    assert int.from_bytes(minus, "little") == prime - 1
    write_circuit6(tmp_path / "again.circ", circuit)
    assert (tmp_path / "again.circ").read_bytes() == data
    opened = Circuit6.open(tmp_path / "again.circ")
    assert (opened.size, opened.path) == (len(data), str(tmp_path / "again.circ"))


def test_long_runs_of_equal_and_of_alternating_coefficients() -> None:
    many = [(at % 4, at % 2, RANDOM if at % 97 == 0 else at) for at in range(1, 5000)]
    turns = [(0, RANDOM if at % 2 else at) for at in range(300)]
    data = circuit_bytes(GOLDILOCKS, [Segment(4, 2, add=many, const=turns)], [0])
    gates = read(data).segments[0].gates
    assert gates["add"].inputs[0].tolist() == [x for x, _, _ in many]
    assert gates["add"].output.tolist() == [output for _, output, _ in many]
    values = [(2, 0) if value == RANDOM else (1, value) for _, _, value in many]
    assert list(zip(gates["add"].tag.tolist(), gates["add"].value[:, 0].tolist())) == values
    assert gates["const"].tag.tolist() == [1, 2] * 150


def changed(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]


HEADER, FIRST = "section header", 8 + 32 + 4 * 8
ADD = FIRST + 16 + 8 + 8 + 8  # of the first gate of a segment without children and products


def one(**gates: object) -> bytes:
    return circuit_bytes(M31, [Segment(2, 2, **gates)], [0], public=1)  # type: ignore[arg-type]


ONE = one(add=[(1, 1, 7)])
CHILD = circuit_bytes(M31, [Segment(2, 2, add=[(1, 1, 7)]), Segment(2, 2, [(0, [(0, 0)])])], [1])
BAD = {
    "magic": (changed(ONE, 7, b"5"), HEADER, "offset 0", "not a circuit of Expander"),
    "short": (b"CIRC", HEADER, "offset 0", "not a circuit of Expander"),
    "prime": (changed(ONE, 8, b"\5"), HEADER, "offset 8", "the prime 0x7fffff05 is not one of m31"),
    "public": (changed(ONE, 40, u64(1 << 40)), HEADER, "offset 40", "too many"),
    "outputs": (changed(ONE, 48, u64(3)), HEADER, "offset 48", "3 outputs are more than"),
    "zeros": (changed(ONE, 56, u64(1 << 63)), HEADER, "offset 56", "zero outputs are more"),
    "segments": (changed(ONE, 64, u64(1 << 61)), HEADER, "offset 64", "segments take at least 56"),
    "length": (changed(ONE, FIRST, u64(3)), "segment 0", f"offset {FIRST}", "not a power of two"),
    "no length": (changed(ONE, FIRST + 8, u64(0)), "segment 0", "not a power of two"),
    "large": (changed(ONE, FIRST, u64(1 << 63)), "segment 0", "not a power of two up to 67108864"),
    "children": (changed(ONE, FIRST + 16, u64(2**64 - 1)), "segment 0, children", "children take"),
    "products": (changed(ONE, FIRST + 24, u64(99)), "segment 0, mul gates", "99 mul gates take"),
    "additions": (changed(ONE, FIRST + 32, u64(5)), "segment 0, add gates", "5 add gates take"),
    "input": (changed(ONE, ADD, u64(2)), "segment 0, add gates", f"offset {ADD}", "is 2, and"),
    "huge input": (changed(ONE, ADD, u64(2**64 - 1)), f"offset {ADD}", f"is {2**64 - 1}"),
    "output": (changed(ONE, ADD + 8, u64(2)), f"offset {ADD + 8}", "output of the add gate is 2"),
    "sort": (changed(ONE, ADD + 16, b"\4"), f"offset {ADD + 16}", "the kind 4"),
    "public factor": (changed(ONE, ADD + 16, b"\3"), f"offset {ADD + 16}", "only for constants"),
    "element": (changed(ONE, ADD + 17, b"\xff\xff\xff\x7f"), f"offset {ADD + 17}", "not below"),
    "second element": (one(add=[(0, 0, 1), (1, 1, 2)])[: ADD + 38] + b"\xff" * 999,
                       f"offset {ADD + 38}", "not below the prime of m31"),
    "input number": (one(const=[(0, ("public", 1))]), "const gates", "input 1 of 1"),
    "unary kind": (one(uni=[(12345, 0, 0, 1)]).replace(u64(12345), u64(12347)), "segment 0, uni",
                   "has the kind 12347"),
    "unary inputs": (one(uni=[(12345, 0, 0, 1)]).replace(u64(12345, 1), u64(12345, 2)),
                     "segment 0, uni gates", "has 2 inputs"),
    "trailing": (ONE + b"\0", "section layers", f"offset {len(ONE)}", "1 bytes more"),
    "no layer": (circuit_bytes(M31, [Segment(2, 2)], []), "section layers", "has no layers"),
    "layer": (circuit_bytes(M31, [Segment(2, 2)], [1]), "layers", "layer 0 is segment 1 of 1"),
    "lengths": (circuit_bytes(M31, [Segment(2, 4)], [0, 0]), "layers", "layer 1 has 2 inputs"),
    "absent child": (circuit_bytes(M31, [Segment(2, 2, [(7, [])])], [0]),
                     "segment 0, children", f"offset {FIRST + 24}", "segment 7 of 1"),
    "in itself": (circuit_bytes(M31, [Segment(2, 2, [(0, [(0, 0)])])], [0]),
                  "segment 0, children", "segment 0 contains itself"),
    "cycle": (circuit_bytes(M31, [Segment(2, 2, [(1, [(0, 0)])]), Segment(2, 2, [(2, [])]),
                                  Segment(2, 2, [(0, [(0, 0)])])], [0]), "contains itself"),
    "copy's input": (changed(CHILD, len(CHILD) - 64, u64(1)), "segment 1, children",
                     f"offset {len(CHILD) - 64}", "an input at 2, and there are 2"),
    "copy's output": (changed(CHILD, len(CHILD) - 56, u64(2**64 - 1)), "segment 1, children",
                      f"offset {len(CHILD) - 56}", "an output at 18446744073709551616"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_damaged_circuits_are_refused(what: str) -> None:
    data, *parts = BAD[what]
    read(ONE)
    read(CHILD)
    with pytest.raises(InputError) as error:
        read(data)
    refused(error, "file.circ", "section ", "offset ", *parts)


@pytest.mark.parametrize("prime", [M31, BN254])
def test_every_truncation_is_refused(prime: int) -> None:
    data = everything(prime)
    for length in range(len(data)):
        with pytest.raises(InputError) as error:
            read(data[:length])
        assert error.value.offset is not None


def test_nested_copies_are_counted_without_expansion() -> None:
    doubling = [Segment(2, 2, [(at + 1, [(0, 0)] * 2)]) for at in range(200)]
    circuit = read(circuit_bytes(M31, [*doubling, Segment(2, 2, add=[(0, 0, 1)])], [0]))
    assert circuit.gates()["add"] == MAX_TOTAL
    deep = [Segment(2, 2, [(at + 1, [(0, 0)])]) for at in range(5000)]
    circuit = read(circuit_bytes(M31, [*deep, Segment(2, 2, add=[(0, 0, 1)])], [0, 0]))
    assert circuit.gates()["add"] == 2


@pytest.mark.parametrize("prime", PRIMES)
def test_witnesses_round_trip(prime: int, tmp_path: Path) -> None:
    private = [[0, prime - 1, 1 % prime, 0], [1, 1, 0, prime - 1]]
    data = expander.witness_bytes(prime, private, [[prime - 1], [0]])
    witness = Circuit6Witness.parse(memoryview(data), "w")
    assert len(witness) == 2
    values = [
        [int.from_bytes(row.astype("<u4").tobytes(), "little") for row in rows]
        for rows in witness.private
    ]
    assert values == private
    if witness.field.modulus is not None:
        path = tmp_path / "again"
        write_circuit6_witness(path, witness.field.modulus, witness.private, witness.public)
        assert path.read_bytes() == data


WITNESS = expander.witness_bytes(M31, [[1, 2], [3, 4]], [[5], [6]])


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", ["header", "offset 0", "the count of witnesses needs 8 bytes and 0 are left"]),
        (WITNESS[:55], ["header", "offset 24", "the prime needs 32 bytes"]),
        (changed(WITNESS, 24, b"\0"), ["header", "offset 24", "the prime 0x7fffff00"]),
        (changed(WITNESS, 0, u64(0)), ["header", "offset 0", "has no witnesses"]),
        (changed(WITNESS, 8, u64(0)), ["header", "offset 8", "has no private inputs"]),
        (changed(WITNESS, 0, u64(2**64 - 1)), ["section values", "offset 56", "there are 24"]),
        (WITNESS[:-1], ["section values", "take 24 bytes, and there are 23"]),
        (WITNESS + b"\0", ["section values", "take 24 bytes, and there are 25"]),
        (changed(WITNESS, 72, b"\xff\xff\xff\x7f"), ["offset 72", "value 1 of witness 1"]),
    ],
)
def test_damaged_witnesses_are_refused(data: bytes, parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        Circuit6Witness.parse(memoryview(data), "w")
    refused(error, "w, section", *parts)


def test_unrepresentable_witnesses_are_not_written(tmp_path: Path) -> None:
    modulus = Circuit6Witness.parse(memoryview(WITNESS), "w").field.modulus
    assert modulus is not None
    good, none = np.ones((1, 2, 1), np.uint32), np.ones((1, 0, 1), np.uint32)
    for private, public in [
        (good.astype(np.int64), none), (good[0], none), (np.ones((1, 2, 2), np.uint32), none),
        (good * np.uint32(M31), none),
    ]:  # fmt: skip
        with pytest.raises(InputError):
            write_circuit6_witness(tmp_path / "w", modulus, private, public)
    for private, public, message in [
        (good, np.ones((2, 0, 1), np.uint32), "same number of instances, at least one"),
        (good[:0], none[:0], "same number of instances, at least one"),
        (none, good, "private must have at least one input per instance"),
    ]:
        with pytest.raises(InputError, match=message):
            write_circuit6_witness(tmp_path / "w", modulus, private, public)
    assert not list(tmp_path.iterdir())
    write_circuit6_witness(tmp_path / "w", modulus, good, none)
