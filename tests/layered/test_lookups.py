"""Lookups of programs: table rows pass, and others pass only at the bounded rate."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.errors import InputError, MismatchError, VerificationError
from quod.field import EXTENSIONS, NAMED, Modulus, to_integers
from quod.gkr import Prover, VerifyingKey, error_terms, verify
from quod.layered import Layout, Program, Table, Wire
from quod.layered.gadgets import lookup
from tests.gkr.test_toy_fields import agrees, of_all
from tests.layered.evaluation import gates, holds, outputs
from tests.reference import gkr as reference
from tests.support.thorough import one_and_others

M31 = NAMED["m31"]
FIELDS = [M31, NAMED["goldilocks"], NAMED["bn254.fr"]]
XOR = Table([[a, b, a ^ b] for a in range(4) for b in range(4)])


def in_table(
    field: Modulus, rows: list[tuple[int, ...]], lookups: int, wires: list[bool]
) -> Layout:
    """A program of so many lookups in a table, of which some rows are inputs."""
    program = Program(field)
    table_rows: list[Any] = []
    for number, (row, of_wires) in enumerate(zip(rows, wires, strict=True)):
        table_rows.append(program.inputs(f"row {number}", len(row)) if of_wires else list(row))
    table = Table(table_rows)
    for number in range(lookups):
        program.assert_in_table(program.inputs(f"{number}", len(rows[0])), table, f"at[{number}]")
    return program.finished()


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
@settings(max_examples=15)
@given(st.data())
def test_only_table_rows_satisfy_lookups(field: Modulus, data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 3))
    # With the challenges of `holds`, 5 to 7, no denominator is 0.
    cell = st.one_of(st.integers(0, 3), st.sampled_from([field.value - (1 << 19), 1 << 20]))
    rows = data.draw(st.lists(st.tuples(*[cell] * width), min_size=1, max_size=9))
    wires = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    looked = data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=9))
    layout = in_table(field, rows, len(looked), wires)
    values: dict[str, Any] = {
        f"row {at}": list(row) for at, row in enumerate(rows) if wires[at]
    } | {f"{at}": list(row) for at, row in enumerate(looked)}
    assert holds(layout, values)
    # Each fraction adds one to the degree; equal rows of numbers are one.
    constant = {row for row, of_wires in zip(rows, wires, strict=True) if not of_wires}
    assert layout.circuit.degree_in_randoms == len(looked) + len(constant) + sum(wires) - 1
    wrong = data.draw(st.tuples(*[cell] * width))
    at = data.draw(st.integers(0, len(looked) - 1))
    changed = values | {f"{at}": list(wrong)}
    assert holds(layout, changed) == (wrong in rows)
    # In many instances the values are the same, and so is what is told.
    columns = {name: [values[name], values[name], changed[name]] for name in values}
    elements = layout.inputs(columns, instances=3, check=False)
    assert to_integers(field, elements[0]) == layout.inputs(values)
    assert to_integers(field, elements[2]) == layout.inputs(changed, check=False)
    if wrong not in rows:
        shown = wrong[0] if width == 1 else wrong
        with pytest.raises(MismatchError) as told:
            layout.inputs(columns, instances=3)
        assert f"at[{at}] does not hold in instance 2: {shown} is not in" in str(told.value)


def squares(field: Modulus) -> Layout:
    """Numbers with their exclusive or and squares, and inputs that are in a list of inputs."""
    program = Program(field)
    x, y = program.inputs("x", 5), program.inputs("list", 3)
    table = Table([[number, number * number] for number in range(10)])
    for number, wire in enumerate(x):
        with program.scope(f"square[{number}]"):
            (square,) = lookup(program, table, [wire])
            program.assert_equal(square, wire * wire, "right")
            program.assert_in_table([square], Table(y), "given")
    (xor,) = lookup(program, XOR, [y[0] - 3, x[0]], "xor")
    program.assert_equal(xor, program.public_input("xor"), "of both")
    return program.finished()


@pytest.mark.parametrize("name", one_and_others(["m31.4", "goldilocks.2", "bn254.fr"]))
def test_lookups_are_proven(name: str) -> None:
    field = EXTENSIONS.get(name) or NAMED[name]
    layout = squares(field.modulus)
    key = VerifyingKey.of(layout.circuit, field)
    columns: dict[str, Any] = {
        "x": [[2, 1, 2, 0, 1], [1, 1, 1, 1, 1], [3, 0, 0, 0, 2]],
        "list": [[4, 0, 1], [5, 1, 1], [4, 9, 0]],
        "xor": [1 ^ 2, 2 ^ 1, 1 ^ 3],
    }  # fmt: skip
    inputs, public = layout.inputs(columns, instances=3), layout.public(columns, instances=3)
    prover = Prover("cpu", key, layout.circuit, instances=3)
    verify(key, layout.circuit, public, prover.prove(inputs, public), instances=3)
    several = Prover("cpu", key, layout.circuit, batch=2)
    rows = [{name: column[at] for name, column in columns.items()} for at in range(3)]
    proofs = several.prove_many([layout.inputs(row) for row in rows], public)
    for values, proof in zip(public, proofs, strict=True):
        verify(key, layout.circuit, values, proof)
    if name == "m31.4":
        assert proofs[0] == reference.prove(
            key, layout.circuit, [layout.inputs(rows[0])], public[:1]
        )
    wrong = rows[0] | {"list": [4, 0, 2]}
    with pytest.raises(MismatchError, match=r"lookup square\[1\]/given does not hold: 1 is not in"):
        layout.inputs(wrong)
    with pytest.raises(InputError):
        several.prove_many([layout.inputs(wrong, check=False)], public[:1])


def test_false_lookup_claims_are_rejected() -> None:
    """Other counts, and rows with the values of another row."""
    program = Program(M31)
    key = program.inputs("x", 3)
    results = [lookup(program, XOR, [x, 1], f"xor[{at}]")[0] for at, x in enumerate(key)]
    program.assert_equal(program.sum(results), program.public_input("sum"), "sum")
    layout = program.finished()
    inputs = layout.inputs({"x": [0, 3, 3], "sum": 5})
    # Three inputs, three results, and a count for each of 16 rows.
    assert inputs[:6] == [0, 3, 3, 1, 2, 2]
    counts = inputs[6:22]
    assert {row: count for row, count in enumerate(counts) if count} == {1: 1, 13: 2}
    assert not any(outputs(layout.circuit, inputs, [5]))
    for row in range(16):
        for change in (1, M31.value - 1):
            other = list(inputs)
            other[6 + row] += change
            assert any(outputs(layout.circuit, other, [5]))
    # The counts of another row, and results in exchange: their sum is right, no row is.
    for places in ((7, 8), (19, 20), (3, 4)):
        other = list(inputs)
        first_row, second_row = places
        other[first_row], other[second_row] = other[second_row], other[first_row]
        assert any(outputs(layout.circuit, other, [5]))


@pytest.mark.thorough
def test_wrong_toy_field_values_pass_at_the_rate_of_the_degree() -> None:
    """With counts that make the difference of both sums 0 for as many challenges as can be."""
    p, trials = 17, 250
    field = Modulus("toy.17", p)
    layout = in_table(field, [(0,), (1,)], 2, [False, False])
    circuit = layout.circuit
    terms = error_terms(circuit, field)
    assert round(terms["random coefficients"] * p) == 3

    def zeros(f: int, g: int, m: int, n: int) -> list[int]:
        return [
            c
            for c in range(p)
            if ((2 * c + f + g) * c * (c + 1) - (m * (c + 1) + n * c) * (c + f) * (c + g)) % p == 0
        ]

    worst = []
    for f, g in itertools.combinations(range(2, p), 2):
        for m, n in itertools.product(range(p), repeat=2):
            roots = zeros(f, g, m, n)
            assert len(roots) <= 3
            if len(roots) == 3:
                worst.append([f, g, m, n])
    for inputs in worst[::100]:
        passing = [c for c in range(p) if not any(outputs(circuit, inputs, seed=c))]
        assert passing == zeros(*inputs)
    key, passed = VerifyingKey.of(circuit, field, allow_bits=0), 0
    for inputs in worst[:: len(worst) // trials][:trials]:
        try:
            verify(key, circuit, [], reference.prove(key, circuit, [inputs]), allow_bits=0)
            passed += 1
        except VerificationError:
            pass
    most = of_all([3 / p, float(terms["the outputs' point"])])
    assert agrees(passed / trials, 0.9 * 3 / p, most, trials)


def test_equal_tables_share_gates() -> None:
    circuits = []
    for tables in ([XOR] * 2, [XOR, Table(list(XOR.rows))], [XOR, Table(XOR.rows[1:])]):
        program = Program(M31)
        x = program.inputs("x", 4)
        for table, pair in zip(tables, (x[:2], x[2:]), strict=True):
            lookup(program, table, pair)
        circuits.append(program.finished().circuit)
    assert circuits[0].digest == circuits[1].digest
    shared_table, _, two_tables = (gates(circuit) for circuit in circuits)
    assert two_tables["multiply"] > shared_table["multiply"] + 16


def test_gates_of_a_lookup() -> None:
    """In a table of 256 numbers; what one more takes, relays of odd ones aside."""
    counts = []
    for count in (512, 1024):
        program = Program(M31)
        for number, wire in enumerate(program.inputs("x", count)):
            program.assert_in_table([wire], Table(range(256)), f"{number}")
        counts.append(gates(program.finished().circuit))
    increments = {kind: (counts[1][kind] - counts[0][kind]) / 512 for kind in counts[0]}
    assert increments == {"constant": 1, "add": pytest.approx(2, abs=0.01), "multiply": 2}


def test_program_can_be_finished_twice() -> None:
    """More lookups are added in between; each circuit has those added so far."""
    program = Program(M31)
    x = program.inputs("x", 2)
    program.assert_in_table(x[:1], Table([5]), "one")
    first = program.finished()
    digest = first.circuit.digest
    assert program.finished().circuit.digest == digest
    program.assert_in_table(x[1:], Table([5, 7]), "two")
    second = program.finished()
    assert holds(first, {"x": [5, 6]})
    assert holds(second, {"x": [5, 7]})
    assert not holds(second, {"x": [5, 6]})
    assert second.assertions == ["one", "two"]


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (1, 5), (2, 3), (3, 2), (7, 1), (7, 5)])
def test_non_power_of_two_sizes_at_many_depths(rows: int, count: int) -> None:
    """Values of different layers, and numbers among them."""
    program = Program(M31)
    wire: Wire = program.input("x")
    values: list[Wire | int] = [1, wire]
    while len(values) < count:
        wire = (wire * wire + 1).as_value()
        values.append(wire)
    expected = [1, 3, 10, 101, 10202, 104080805, (104080805**2 + 1) % M31.value][:count]
    table = Table([expected[at] if at < count else 50 + at for at in range(rows)])
    for number, value in enumerate(values[:count]):
        program.assert_in_table([value], table, f"{number}")
    layout = program.finished()
    missing = [str(value) for value in expected if (value,) not in table.rows]
    assert holds(layout, {"x": 3}) == (not missing)


def test_invalid_tables_are_rejected() -> None:
    for rows, message in (
        ([], "rows of a table"),
        ({1, 2}, "list of rows"),
        ("12", "list of rows"),
        (3, "list of rows"),
        ([[]], "row 0 of the table is empty"),
        ([[1, 2], [1]], "rows of a table have one length"),
        ([1, [2, 3]], "rows of a table have one length"),
        ([1.5], "row 0 of a table"),
        ([[1, None]], "row 0 of a table"),
        ([True], "row 0 of a table"),
        ([[1] * 65], "columns of a table"),
        (range((1 << 20) + 1), "rows of a table"),
    ):
        with pytest.raises(InputError, match=message):
            Table(rows)  # type: ignore[arg-type]
    program, other = Program(Modulus("toy", 17)), Program(Modulus("toy", 17))
    x, y = program.input("x"), other.input("x")
    with pytest.raises(InputError, match="another program"):
        Table([x, y])
    with pytest.raises(InputError, match="another program"):
        program.assert_in_table([x], Table([y]), "name")
    for wrong in (17, -17, 1 << 300):
        with pytest.raises(InputError, match="not below toy's p"):
            program.assert_in_table([x], Table([1, wrong]), "name")
    with pytest.raises(InputError, match="2 values are given for a row of a table of 1 columns"):
        program.assert_in_table([x, x], Table([1]), "name")
    with pytest.raises(InputError, match="2 values are given for a row of a table of 1 columns"):
        lookup(program, Table([1]), [x, x])
    challenge = program.random()
    with pytest.raises(InputError, match="a lookup depends on a challenge"):
        program.assert_in_table([challenge + x], Table([1]), "name")
    with pytest.raises(InputError, match="a table depends on a challenge"):
        program.assert_in_table([x], Table([challenge]), "name")


def test_lookup_counts_reaching_the_field_size_are_rejected() -> None:
    """Seventeen equal values would cancel over the field of 17 elements."""
    program = Program(Modulus("toy", 17))
    x = program.input("x")
    for number in range(16):
        program.assert_in_table([x], Table([1, -1]), f"{number}")
    assert holds(program.finished(), {"x": 16})
    program.assert_in_table([x], Table([1, -1]), "last")
    with pytest.raises(InputError, match="17 lookups in a table need a field with more elements"):
        program.finished()


def deep(field: Modulus, count: int) -> Layout:
    """Assertions in the first layers, below the sums of a lookup."""
    program = Program(field)
    x = program.inputs("x", count)
    for number, wire in enumerate(x):
        program.assert_equal(wire * wire, wire, f"bit[{number}]")
        program.assert_equal((wire * wire).as_value() * wire, wire, f"cube[{number}]")
    for number in range(count // 2):
        program.assert_in_table([program.input(f"y[{number}]")], Table(range(9)), f"y[{number}]")
    return program.finished()


def test_assertions_below_the_sums_are_summed() -> None:
    count = 40
    layout = deep(M31, count)
    circuit = layout.circuit
    assert len(circuit.layers) == 6
    # Of 40 assertions in layer 1 and 40 in layer 2, with challenges for 7 columns and 6 rows.
    assert circuit.zeros == 3
    assert circuit.randoms == 1 + 7 + 6
    # Carried they would take more than 40 relays in each of the layers.
    assert gates(circuit)["add"] < 9 * count
    values: dict[str, Any] = {f"y[{at}]": at % 9 for at in range(count // 2)}
    for value, fine in ((0, True), (1, True), (M31.value - 1, False), (7, False)):
        for at in range(0, count, 3):
            x = [0] * count
            x[at] = value
            assert holds(layout, {**values, "x": x}) == fine
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    inputs = layout.inputs({**values, "x": [0, 1] * (count // 2)})
    verify(key, circuit, [], Prover("cpu", key, circuit).prove(inputs, []))


@pytest.mark.parametrize(("asserted", "zeros", "randoms"), [(4, 5, 1), (30, 2, 1 + 6 + 5)])
def test_assertions_are_summed_only_if_cheaper(asserted: int, zeros: int, randoms: int) -> None:
    """Summing would move nine layers of other values into the extension."""
    program = Program(M31)
    x = program.inputs("x", 30)
    program.assert_equal([wire * wire for wire in x[:asserted]], x[:asserted], "bits")
    for _ in range(9):
        x = [(wire * wire).as_value() for wire in x]
    late = (program.sum(x) * program.random()).as_value()
    for _ in range(5):
        late = (late * late).as_value()
    program.assert_zero(late, "late")
    circuit = program.finished().circuit
    assert (circuit.zeros, circuit.randoms) == (zeros, randoms)


@pytest.mark.thorough
def test_assertion_sums_vanish_at_the_expected_rate() -> None:
    """Assertions of one row, with a column's or a row's challenge: two wrong ones cancel out."""
    p, trials, generator = 17, 1500, random.Random(5)
    layout = deep(Modulus("toy.17", p), 12)
    assert layout.circuit.zeros == 3
    passed = {2: 0, 16: 0}
    for value in passed:
        x = [0] * 5 + [value] + [1] * 6
        inputs = layout.inputs({"x": x, **{f"y[{at}]": at for at in range(6)}}, check=False)
        for _ in range(trials):
            challenges = [generator.randrange(p) for _ in range(layout.circuit.randoms)]
            sums = outputs(layout.circuit, inputs, challenges=challenges)
            passed[value] += not any(sums)
    # Minus 1 is its own cube, so that one sum is wrong; of 2 both are, with the same challenges.
    for accepted in passed.values():
        assert agrees(accepted / trials, 0.9 * of_all([1 / p] * 2), of_all([1 / p] * 2), trials)


def test_advice_arrays_may_have_any_dtype() -> None:
    for field, kind in itertools.product(FIELDS, (np.uint8, np.int64, np.uint64, object)):
        program = Program(field)
        x = program.input("x")
        (advice,) = program.advice(lambda v, kind=kind: [np.array([3, 200], kind)], [x], 1)
        program.assert_equal(advice, x, "same")
        layout = program.finished()
        assert to_integers(field, layout.inputs({"x": [3, 200]}, instances=2)[1])[1] == 200
