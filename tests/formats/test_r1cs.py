from __future__ import annotations

import io
import json
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.formats import R1cs, SparseMatrix, describe, write_r1cs
from quod.formats.r1cs_text import r1cs_to_json
from quod.formats.sym import wire_names
from quod.r1cs.gadgets.template import Template
from tests.formats.tiny import (
    DATA,
    ROWS_A,
    ROWS_B,
    ROWS_C,
    TINY_CURVES,
    matrix,
    refused,
    replaced,
    rows_of,
    split,
)

BN254 = (DATA / "bn254" / "circuit.r1cs").read_bytes()
FR = CURVES["bn254"].fr
STREAM = dict(split(BN254)[2])[2]
EMPTY = matrix([], 8)


def opened(tmp_path: Path, data: bytes) -> R1cs:
    (tmp_path / "c.r1cs").write_bytes(data)
    return R1cs.open(tmp_path / "c.r1cs")


def rewritten(system: R1cs, path: Path) -> bytes:
    write_r1cs(
        path,
        curve=system.curve,
        wires=system.wires,
        public_outputs=system.public_outputs,
        public_inputs=system.public_inputs,
        private_inputs=system.private_inputs,
        a=system.a,
        b=system.b,
        c=system.c,
        wire_labels=system.wire_labels,
        labels=system.labels,
    )
    return path.read_bytes()


@pytest.mark.parametrize("curve", TINY_CURVES)
def test_tiny_set_matches_the_writer(tmp_path: Path, curve: str) -> None:
    words = CURVES[curve].fr.words
    write_r1cs(
        tmp_path / "c.r1cs",
        curve=curve,
        wires=5,
        public_outputs=1,
        public_inputs=1,
        private_inputs=1,
        a=matrix(ROWS_A, words),
        b=matrix(ROWS_B, words),
        c=matrix(ROWS_C, words),
    )
    assert (tmp_path / "c.r1cs").read_bytes() == (DATA / curve / "circuit.r1cs").read_bytes()
    system = R1cs.open(tmp_path / "c.r1cs")
    assert (system.curve, system.wires, system.public, system.private_inputs) == (curve, 5, 2, 1)
    assert (system.constraints, system.labels) == (2, 5)
    for parsed, rows in ((system.a, ROWS_A), (system.b, ROWS_B), (system.c, ROWS_C)):
        assert rows_of(parsed) == [list(row.items()) for row in rows]
    assert system.wire_labels.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.fixtures
def test_shared_fixtures_round_trip(tmp_path: Path, shared_fixtures: Path) -> None:
    files = sorted(shared_fixtures.glob("circom/*/circuit.r1cs"))
    assert len(files) >= 9
    for path in files:
        assert rewritten(R1cs.open(path), tmp_path / "c.r1cs") == path.read_bytes()


def plain_parse(stream: bytes, constraints: int, size: int) -> list[list[list[tuple[int, int]]]]:
    """Section 2 read one term at a time: [matrix][constraint] -> terms."""
    matrices: list[list[list[tuple[int, int]]]] = [[], [], []]
    position = 0
    for combination in range(3 * constraints):
        (count,) = struct.unpack_from("<I", stream, position)
        position += 4
        terms = []
        for _ in range(count):
            (wire,) = struct.unpack_from("<I", stream, position)
            value = int.from_bytes(stream[position + 4 : position + 4 + size], "little")
            terms.append((wire, value))
            position += 4 + size
        matrices[combination % 3].append(terms)
    assert position == len(stream)
    return matrices


terms = st.lists(st.tuples(st.integers(0, 6), st.integers(0, FR.value - 1)), max_size=4)


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(terms, terms, terms), max_size=6))
def test_any_system_round_trips(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[list[tuple[int, int]], ...]],
) -> None:
    # Empty combinations, no constraints at all, and a wire twice in one row are all among these.
    path = tmp_path_factory.mktemp("r1cs") / "c.r1cs"
    columns = [[row[m] for row in rows] for m in range(3)]

    def sparse(combinations: list[list[tuple[int, int]]]) -> SparseMatrix:
        flat = [term for row in combinations for term in row]
        return SparseMatrix(
            np.cumsum([0] + [len(row) for row in combinations]).astype(np.int64),
            np.array([wire for wire, _ in flat], dtype=np.uint32),
            np.frombuffer(
                b"".join(value.to_bytes(32, "little") for _, value in flat), dtype="<u4"
            ).reshape(-1, 8),
        )

    a, b, c = map(sparse, columns)
    write_r1cs(
        path,
        curve="bn254",
        wires=7,
        public_outputs=0,
        public_inputs=0,
        private_inputs=6,
        a=a,
        b=b,
        c=c,
    )
    assert plain_parse(dict(split(path.read_bytes())[2])[2], len(rows), 32) == columns
    system = R1cs.open(path)
    assert [rows_of(matrix) for matrix in system.matrices] == columns


def header(**changes: int) -> bytes:
    fields = {
        "prime": FR.value,
        "wires": 5,
        "outputs": 1,
        "inputs": 1,
        "private": 1,
        "labels": 5,
        "constraints": 2,
    } | changes
    prime, wires, outputs, inputs, private, labels, constraints = fields.values()
    return (
        struct.pack("<I", 32)
        + prime.to_bytes(32, "little")
        + struct.pack("<IIIIQI", wires, outputs, inputs, private, labels, constraints)
    )


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({1: header(prime=FR.value - 2)}, ["section 1 (header)", "compile the circuit with"]),
        (
            {1: header(prime=CURVES["bn254"].fr.value + 2)},
            ["is not supported", "grumpkin"],
        ),
        ({1: header(wires=2)}, ["2 wires cannot hold the constant 1, 1 outputs and 1 public"]),
        ({1: header(inputs=2**32 - 1)}, ["5 wires cannot hold"]),
        ({1: header(wires=6)}, ["section 3 (labels)", "40 bytes are not the labels of 6 wires"]),
        ({1: header(constraints=2**32 - 1)}, ["cannot hold 4294967295 constraints"]),
        ({1: header()[:-1]}, ["the count of constraints needs 4 bytes and 3 are left"]),
        ({1: header() + b"\0"}, ["section 1 (header)", "1 bytes more"]),
        ({1: None}, ["section 1 (header)", "is missing"]),
        ({2: None}, ["section 2 (constraints)", "is missing"]),
        ({3: bytes(8)}, ["section 3 (labels)", "8 bytes are not the labels of 5 wires"]),
        ({4: struct.pack("<I", 1) + b"gate\0"}, ["section 4 (custom gates)", "custom_templates"]),
        ({5: struct.pack("<I", 1)}, ["section 5 (custom gates)", "Groth16 does not support"]),
    ],
)
def test_damaged_system(tmp_path: Path, changes: dict[int, bytes | None], parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        opened(tmp_path, replaced(BN254, changes))
    refused(error, str(tmp_path / "c.r1cs"), *parts)


@pytest.mark.parametrize("labels", [None, b""])
def test_a_system_without_labels(tmp_path: Path, labels: bytes | None) -> None:
    system = opened(tmp_path, replaced(BN254, {3: labels}))
    assert not system.has_labels
    assert system.wire_labels.shape == (0,)
    labelled = opened(tmp_path, BN254)
    assert labelled.has_labels
    for bare, same in zip(system.matrices, labelled.matrices, strict=True):
        assert (bare.value == same.value).all()
    # Without labels a wire has the name of the first signal that the file has for it.
    symbols = tmp_path / "c.sym"
    symbols.write_text("7,1,0,main.out\n8,-1,0,main.gone\n9,2,0,main.a\n10,2,0,main.alias\n")
    assert wire_names(symbols, system) == {1: "main.out", 2: "main.a"}
    with pytest.raises(InputError, match="the file has no wire labels"):
        Template(system, lambda inputs: [])
    file = io.BytesIO()
    r1cs_to_json(system, file)
    assert json.loads(file.getvalue())["map"] == []


def test_private_inputs_without_a_wire(tmp_path: Path) -> None:
    # circom 2.2.3 made it of a circuit with the outputs c, the public inputs a and p, the private
    # inputs b, unused and u2[3], and c <== a * b. Its header counts all five private ones.
    path = DATA / "unconstrained.r1cs"
    system = R1cs.open(path)
    assert (system.wires, system.public, system.private_inputs, system.labels) == (5, 3, 5, 9)
    assert rows_of(system.a) == [[(2, FR.value - 1)]]
    assert rows_of(system.b) == [[(4, 1)]]
    assert rows_of(system.c) == [[(1, FR.value - 1)]]
    assert rewritten(system, tmp_path / "c.r1cs") == path.read_bytes()
    assert describe(path)["private_inputs"] == 5


def test_empty_custom_gate_lists_are_accepted(tmp_path: Path) -> None:
    system = opened(tmp_path, replaced(BN254, {4: bytes(4), 5: bytes(4)}))
    assert system.a.nonzeros == 3


@pytest.mark.parametrize(
    ("stream", "constraints", "parts"),
    [
        (STREAM[:-4], 2, ["linear combination 5 of 6 runs past the end"]),
        (STREAM[:-40], 2, ["ends after 5 of 6 linear combinations"]),
        (STREAM + bytes(4), 2, ["4 bytes after the last constraint"]),
        (STREAM, 1, ["bytes after the last constraint"]),
        (STREAM, 3, ["ends after 6 of 9 linear combinations"]),
        (STREAM[:-1], 2, ["not a multiple of 4"]),
        (b"\xff\xff\xff\xff" + STREAM[4:], 2, ["linear combination 0 of 6 runs past the end"]),
        (STREAM[:4] + b"\5" + STREAM[5:], 2, ["a term is for wire 5 of 5"]),
        (STREAM[:8] + FR.value.to_bytes(32, "little") + STREAM[40:], 2, ["not below the prime"]),
    ],
)
def test_damaged_constraints(
    tmp_path: Path, stream: bytes, constraints: int, parts: list[str]
) -> None:
    changes = {1: header(constraints=constraints), 2: stream}
    system = opened(tmp_path, replaced(BN254, changes))
    with pytest.raises(InputError) as error:
        _ = system.matrices
    refused(error, "section 2 (constraints)", "offset", *parts)


def test_offsets_of_bad_terms(tmp_path: Path) -> None:
    # C of the last constraint is one term, the last 36 bytes.
    start, wire = 24, len(STREAM) - 36
    system = opened(tmp_path, replaced(BN254, {2: STREAM[:wire] + b"\x09" + STREAM[wire + 1 :]}))
    with pytest.raises(InputError) as error:
        _ = system.c
    assert error.value.offset == start + wire
    bad = STREAM[: wire + 4] + b"\xff" * 32
    with pytest.raises(InputError) as error:
        _ = opened(tmp_path, replaced(BN254, {2: bad})).c
    assert error.value.offset == start + wire + 4


def test_sections_that_are_not_aligned(tmp_path: Path) -> None:
    kind, version, sections = split(BN254)
    parts = [(9, b"xyz"), *sections]
    data = b"".join(struct.pack("<IQ", n, len(s)) + s for n, s in parts)
    system = opened(tmp_path, kind + struct.pack("<II", version, len(parts)) + data)
    assert rows_of(system.a) == [list(row.items()) for row in ROWS_A]
    assert system.wire_labels.tolist() == [0, 1, 2, 3, 4]


def test_writer_rejects_inconsistent_arguments(tmp_path: Path) -> None:
    a, b, c = matrix(ROWS_A, 8), matrix(ROWS_B, 8), matrix(ROWS_C, 8)
    good: dict[str, object] = {
        "curve": "bn254",
        "wires": 5,
        "public_outputs": 1,
        "public_inputs": 1,
        "private_inputs": 1,
        "a": a,
        "b": b,
        "c": c,
    }
    above = SparseMatrix(c.row_ptr, c.column, np.full_like(c.value, 0xFFFFFFFF))
    falling = SparseMatrix(c.row_ptr[[0, 2, 1, 2]], c.column, c.value)
    for change, part in (
        ({"wires": 2}, "cannot hold"),
        ({"wires": 4}, "a.column must be uint32 below 4"),
        ({"public_inputs": -1}, "public_inputs must be a whole number from 0"),
        ({"private_inputs": 1 << 32}, r"private_inputs must be .* to 2\*\*32 - 1"),
        ({"labels": 1 << 64}, "labels must be a whole number"),
        ({"a": None}, "a must be of the type SparseMatrix"),
        ({"b": SparseMatrix(b.row_ptr[None], b.column, b.value)}, "b.row_ptr must be a vector"),
        ({"c": EMPTY}, "c has 0 rows and a has 2"),
        ({"c": above}, "not below the prime"),
        ({"a": falling, "b": falling, "c": falling}, "does not rise"),
        ({"wire_labels": np.arange(4, dtype=np.uint64)}, "wire_labels"),
    ):
        with pytest.raises(InputError, match=part):
            write_r1cs(tmp_path / "k", **(good | change))  # type: ignore[arg-type]
    assert not (tmp_path / "k").exists()


@pytest.mark.thorough
def test_a_quarter_of_a_million_constraints_parse_in_about_a_second(tmp_path: Path) -> None:
    rows, words = 245_000, 8
    random = np.random.default_rng(1)

    def sparse(most: int) -> SparseMatrix:
        lengths = random.integers(0, most + 1, rows)
        count = int(lengths.sum())
        value = random.integers(0, 1 << 32, (count, words), dtype=np.uint32)
        value[:, -1] >>= 3
        value[:, -1] %= 0x30644E72
        column = random.integers(0, 1000, count, dtype=np.uint32)
        return SparseMatrix(np.concatenate(([0], np.cumsum(lengths))), column, value)

    a, b, c = sparse(3), sparse(3), sparse(5)
    path = tmp_path / "c.r1cs"
    write_r1cs(
        path,
        curve="bn254",
        wires=1000,
        public_outputs=1,
        public_inputs=0,
        private_inputs=1,
        a=a,
        b=b,
        c=c,
    )
    start = time.process_time()
    matrices = R1cs.open(path).matrices
    # Measured 0.2 to 0.3 s; the margin is for a busy machine.
    assert time.process_time() - start < 10
    for parsed, expected in zip(matrices, (a, b, c)):
        assert np.array_equal(parsed.row_ptr, expected.row_ptr)
        assert np.array_equal(parsed.column, expected.column)
        assert np.array_equal(parsed.value, expected.value)
