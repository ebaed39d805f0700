"""Programs of wires: their circuits match integer arithmetic for any program."""

from __future__ import annotations

from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quod.errors import InputError, MismatchError
from quod.field import NAMED, Modulus, to_integers
from quod.layered import Layout, Program, Wire
from tests.layered.evaluation import gates, holds, outputs

M31 = NAMED["m31"]
FIELDS = [M31, NAMED["goldilocks"], NAMED["bn254.fr"], Modulus("toy", 17)]

MADE: dict[str, Any] = {
    "+": lambda a, b, number: a + b,
    "-": lambda a, b, number: a - b,
    "*": lambda a, b, number: a * b,
    "**": lambda a, b, number: a ** abs(number),
    "scale": lambda a, b, number: number * a,
    "offset": lambda a, b, number: number - a,
    "held": lambda a, b, number: a.as_value() if isinstance(a, Wire) else a,
    "committed": lambda a, b, number: a,
    "sums": lambda a, b, number: (a + b + number) * (a - 2 * b),
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(list(MADE)), st.integers(0, 30), st.integers(0, 30), st.integers(-3, 9)
    ),
    min_size=1, max_size=25,
)  # fmt: skip


def built(
    field: Modulus, numbers: list[int], steps: list[tuple[str, int, int, int]], challenge: bool
) -> tuple[Layout, dict[str, Any]]:
    """A random program whose last values are compared with those that integers give."""
    p, program = field.value, Program(field)
    wires: list[Wire] = [
        *program.inputs("x", 3), program.public_input("one"),
        program.public_input("shared", shared=True), program.constant(7),
    ]  # fmt: skip
    values = [*(number % p for number in numbers), 7]
    if challenge:
        # It is 5 where these tests compute it.
        wires.append(program.random())
        values.append(5)
    for name, first, second, number in steps:
        at = first % len(wires), second % len(wires)
        if name == "committed" and not challenge:
            wires += program.committed([wires[at[0]]])
            values.append(values[at[0]])
            continue
        (wire, value) = (
            MADE[name](*(operands[operand] for operand in at), number)
            for operands in (wires, values)
        )
        wires.append(wire)
        values.append(value % p)
    results = program.public_inputs("results", 4)
    program.assert_equal(wires[-4:], results, "results")
    inputs = {"x": values[:3], "one": values[3], "shared": values[4], "results": values[-4:]}
    return program.finished(), inputs


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
@settings(max_examples=30)
@given(st.data())
def test_random_programs_agree_with_integers(field: Modulus, data: st.DataObject) -> None:
    numbers = st.one_of(st.sampled_from([0, 1, field.value - 1]), st.integers(0, field.value))
    drawn = data.draw(st.lists(numbers, min_size=5, max_size=5))
    layout, values = built(field, drawn, data.draw(STEPS), data.draw(st.booleans()))
    public = layout.public(values)
    inputs = layout.inputs(values, check=False)
    assert not any(outputs(layout.circuit, inputs, public))
    # Another result is another value of the same output, and nothing else.
    wrong = data.draw(st.integers(0, 3))
    public[2 + wrong] += 1
    asserted = outputs(layout.circuit, inputs, public)
    assert any(asserted)
    assert sum(map(bool, asserted)) <= 1


def test_failed_assertions_are_named() -> None:
    program = Program(M31)
    a, b = program.inputs("factors", 2)

    def product(x: Wire, y: Wire) -> Wire:
        program.assert_zero(x - 3, "three")
        return x * y

    with program.scope("outer"):
        (result,) = program.map_rows("product", product, [a], [b])
    program.assert_equal(result, program.public_input("result"), "result")
    layout = program.finished()
    assert layout.assertions == ["outer/product[0]/three", "result"]
    assert layout.names == ["factors"]
    assert layout.public_names == ["result"]
    right = {"factors": [3, 5], "result": 15}
    assert holds(layout, right)
    for values, message in (
        ({**right, "factors": [4, 5]}, r"outer/product\[0\]/three does not hold: 1 is not 0"),
        ({**right, "result": 16}, "assertion result does not hold: 15 is not 16"),
    ):
        assert not holds(layout, values)
        with pytest.raises(MismatchError, match=message):
            layout.inputs(values)
    table = {"factors": np.array([[3, 5], [3, 6], [3, 7]]), "result": [15, 18, 22]}
    with pytest.raises(MismatchError, match="result does not hold in instance 2: 21 is not 22"):
        layout.inputs(table, instances=3)


@pytest.mark.parametrize("field", FIELDS[:3], ids=lambda field: field.name)
def test_batched_instances_equal_single_instances(field: Modulus) -> None:
    program = Program(field)
    x, y = program.input("x"), program.inputs("y", 2)
    bits = program.advice(lambda v: [v >> 1, v & 1], [x], 2)
    program.assert_equal(2 * bits[0] + bits[1], x, "halves")
    program.assert_equal(y[0] * y[1] + 4, program.public_input("z"), "z")
    first, second = program.committed([y[0] * y[1], y[0] * y[1]])
    program.assert_equal(first, second, "same")
    layout = program.finished()
    rows: list[dict[str, Any]] = [
        {"x": at + 3, "y": [at, -at], "z": 4 - at * at} for at in range(5)
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    table = layout.inputs(columns, instances=5)
    assert table.shape == (5, 1 << layout.circuit.log_inputs, field.words)
    assert table.dtype == np.uint32
    for row, elements in zip(rows, table, strict=True):
        assert to_integers(field, elements) == layout.inputs(row)
    assert layout.public(columns, instances=5) == [layout.public(row) for row in rows]


def test_values_are_relayed_minimally() -> None:
    program = Program(M31)
    a, b, _ = program.inputs("x", 3)
    deep = a
    for _ in range(4):
        deep = (deep * deep).as_value()
    _ = deep * b  # dead
    with program.scope("late"):
        program.assert_zero(deep * b + b, "first")
        program.assert_zero(deep * b - b, "second")
    # It is used nowhere else, and b is there anyway: computed in the last layer.
    program.assert_zero(b * b - b, "bit")
    circuit = program.finished().circuit
    assert len(circuit.layers) == 5
    # b is carried up four layers, once for all; two more additions are of b in the last one.
    assert gates(circuit) == {"power2": 4 + 1, "add": 4 + 2 + 1, "multiply": 2}
    assert [layer.log_size for layer in circuit.layers] == [1, 1, 1, 1, 2]
    assert circuit.zeros == 3


def test_sums_and_products_of_two_add_no_layer() -> None:
    program = Program(M31)
    a, b, c, d = program.inputs("x", 4)
    program.assert_zero(3 * a * b - c**5 + (1 - a) * c + 2 * d - 9, "one layer")
    assert len(program.finished().circuit.layers) == 1
    program.assert_zero((a * b + c) ** 2 - d, "two layers")
    assert len(program.finished().circuit.layers) == 2
    program.assert_zero(a**7 - d, "seventh power")
    assert len(program.finished().circuit.layers) == 2


def test_equal_values_are_merged() -> None:
    program = Program(M31)
    a, b, c = program.inputs("x", 3)
    program.assert_zero((a * b) * c - 1, "one")
    program.assert_zero((b * a) * c - 2, "two")
    assert gates(program.finished().circuit)["multiply"] == 3


def test_public_inputs_are_constants_where_they_are_needed() -> None:
    program = Program(M31)
    a = program.input("a")
    deep = (a**2).as_value() ** 2
    for _ in range(3):
        deep = deep.as_value() ** 2
    root = program.public_input("root")
    program.assert_equal(deep, root, "root")
    # One constant in the last layer, and no relay of it.
    assert gates(program.finished().circuit) == {"power2": 5, "constant": 1}


@pytest.mark.parametrize("shared", [False, True])
def test_public_input_as_a_factor(shared: bool) -> None:
    """A shared one is the coefficient of a gate; others are values, and instances may differ."""
    program = Program(M31)
    a = program.input("a")
    factor = program.public_input("factor", shared=shared)
    program.assert_zero(factor * a - 12, "product")
    layout = program.finished()
    assert holds(layout, {"a": 3, "factor": 4})
    assert not holds(layout, {"a": 4, "factor": 4})
    assert ("multiply" in gates(layout.circuit)) == (not shared)
    assert len(layout.circuit.layers) == (1 if shared else 2)


def test_advice_is_not_constrained() -> None:
    """A prover may choose any value that no assertion constrains."""
    program = Program(M31)
    x = program.input("x")
    (root,) = program.advice(lambda value: [5], [x], 1)
    program.assert_equal(root * root, x, "square")
    layout = program.finished()
    assert layout.inputs({"x": 25}) == [25, 5]
    assert not any(outputs(layout.circuit, [25, M31.value - 5]))
    assert any(outputs(layout.circuit, [25, 4]))
    with pytest.raises(MismatchError, match="square"):
        layout.inputs({"x": 26})


def test_wrong_programs_are_refused() -> None:
    program, other = Program(M31), Program(M31)
    a = program.input("a")
    with pytest.raises(InputError, match="asserts nothing"):
        program.finished()
    with pytest.raises(InputError, match="never holds: the difference is 1"):
        program.assert_zero(1 + 0 * a, "one")
    program.assert_zero(a - a, "nothing")
    with pytest.raises(InputError, match="asserts nothing"):
        program.finished()
    with pytest.raises(InputError, match="two programs"):
        a + other.input("b")
    for wrong in ("1", 1.5, None, True, [a]):
        with pytest.raises(InputError, match="a Wire or an int"):
            a * wrong  # type: ignore[operator]
        with pytest.raises(InputError, match="a Wire or an int"):
            wrong - a  # type: ignore[operator]
    for wrong in (-1, 2.0, a, 1 << 17):
        with pytest.raises(InputError, match="exponent"):
            a**wrong  # type: ignore[operator]
    with pytest.raises(InputError, match="truth value"):
        bool(a)
    with pytest.raises(InputError, match="two inputs have the name"):
        program.public_input("a")
    with pytest.raises(InputError, match="lists of 1 and 2"):
        program.assert_equal([a], [a, a], "lists")
    with pytest.raises(InputError, match="equal length"):
        program.map_rows("rows", lambda x, y: x, [a], [a, a])
    with pytest.raises(InputError, match="weights"):
        program.sum([a], [1, 2])
    challenge = program.random()
    with pytest.raises(InputError, match="advice depends on a challenge"):
        program.committed([(challenge * a).as_value() + 1])
    assert (np.int64(3) * a).terms == (3 * a).terms


def test_wrong_inputs_are_refused() -> None:
    program = Program(M31)
    a, b = program.input("number"), program.inputs("list", 2)
    program.assert_zero(a - b[0] - b[1], "sum")
    layout = program.finished()
    right: dict[str, object] = {"number": 3, "list": [1, 2]}
    assert layout.inputs(right) == [3, 1, 2, 0]
    for values, message in (
        ({"number": 3}, "'list' is missing"),
        ({**right, "lists": [1]}, "did you mean 'list'"),
        ({**right, "number": [3]}, "'number' must be one int"),
        ({**right, "number": 3.0}, "'number' must be one int"),
        ({**right, "number": True}, "'number' must be one int"),
        ({**right, "list": 3}, r"'list' must be of the shape \(2,\)"),
        ({**right, "list": [1]}, r"'list' must be of the shape \(2,\)"),
        ({**right, "list": [1, "2"]}, r"'list' must be of the shape \(2,\)"),
        ({**right, "list": np.zeros(2)}, "of integers, not float64"),
        ({**right, "list": np.zeros((2, 1), int)}, r"of integers, not int64 \(2, 1\)"),
        ({1: 2}, "has a name"),
        ([3], "mapping"),
    ):
        with pytest.raises(InputError, match=message):
            layout.inputs(values)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"of the shape \(2, 2\)"):
        layout.inputs({"number": [3, 3], "list": [[1, 2]]}, instances=2)
    for wrong in (0, -1, "2", None, 1.0):
        if wrong is not None:
            with pytest.raises(InputError, match="instances"):
                layout.inputs(right, instances=wrong)  # type: ignore[call-overload]
    assert layout.inputs({"number": np.int64(3), "list": np.array([1, 2], np.uint8)})[:3] == [
        3,
        1,
        2,
    ]


@pytest.mark.parametrize("advice", [3, [1], [1, 2, 3], [1, 2.0], [1, None], None])
def test_wrong_advice_is_refused(advice: object) -> None:
    program = Program(M31)
    with program.scope("part"):
        pair = program.advice(lambda x: advice, [program.input("x")], 2)  # type: ignore[arg-type, return-value]
    program.assert_zero(pair[0] - pair[1], "equal")
    with pytest.raises(InputError, match="the advice in part must be"):
        program.finished().inputs({"x": 1})


def test_long_sums_of_many_instances_do_not_wrap_around() -> None:
    """The largest values and coefficients of either sign equal those of one instance."""
    p, program = M31.value, Program(M31)
    values = program.inputs("values", 12)
    weights = [*[p // 2] * 8, p // 2 + 1, -1, 3, p - 2]
    total = program.sum([*values, values[0] ** 5, values[1] * values[2]], [*weights, p // 2, -5])
    (held,) = program.committed([total])
    program.assert_equal(held, total, "sum")
    layout = program.finished()
    rows = [[p - 1] * 12, [0] * 12, list(range(p - 12, p)), [p // 2 + 1] * 12]
    table = layout.inputs({"values": rows}, instances=4)
    for number, row in enumerate(rows):
        expected = sum(map(mul, row, weights)) + p // 2 * row[0] ** 5 - 5 * row[1] * row[2]
        assert to_integers(M31, table[number])[12] == expected % p
        assert layout.inputs({"values": row})[12] == expected % p
