"""`ConstraintSystem.repeat`: the same circuit as plain calls, traced once for each form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.errors import InputError
from quod.r1cs import Circuit, ConstraintSystem, Signal, UnsatisfiedError, trace
from quod.r1cs.gadgets.bellman import sha256
from quod.r1cs.names import name_here, path_name, wire_name
from quod.r1cs.repetition import flattening, parts

Call = Callable[..., Any]


def plain(system: ConstraintSystem, function: Call, *arguments: Any) -> Any:
    """Call a function as `repeat` does, but trace it each time."""
    return function(system, *arguments)


def step(system: ConstraintSystem, x: Signal, weight: int, pair: tuple[Signal, Signal]) -> Any:
    """Add one wire of each kind, with a public one, an input, a hint, bits and an inverse."""
    z = system.private(name_here(system, "z"))
    product = system.multiply(x + weight * pair[1], z)
    with system.namespace("inner"):
        bit = system.bits(product)[0]
        (hinted,) = system.hint(lambda value: value + 1, [product])
        system.enforce(hinted, system.one, product + 1)
        system.free(hinted)
    inverse = system.inverse_or_zero(pair[0])
    system.output(name_here(system, "out"), product + inverse)
    return [product, (bit, pair[0] - x)]


def nested(system: ConstraintSystem, call: Call, x: Signal, y: Signal) -> Signal:
    """Call `step` twice, the second time with the result of the first."""
    with system.namespace("first"):
        product, (bit, difference) = call(system, step, x, 3, (y, x))
    chosen = system.select(bit, product, difference)
    with system.namespace("second"):
        result: Signal = call(system, step, chosen, 3, (y, y))[0]
    return result


def circuit(call: Call, count: int = 4) -> Circuit:
    def function(system: ConstraintSystem) -> None:
        a, b = system.private("p", 2)
        public_factor = system.public("factor")
        for index in range(count):
            with system.namespace(f"call[{index}]"):
                result = call(system, nested, call, a, b)
            a, b = b, system.multiply(result, public_factor if index % 2 else a)
        system.assert_nonzero(a)

    return trace(function)


def repeat(system: ConstraintSystem, function: Call, *arguments: Any) -> Any:
    return system.repeat(function, *arguments)


def inputs_of(repeated: Circuit) -> dict[str, int | list[int]]:
    return {
        name: 5 + index if declared.single else [7, 11]
        for index, (name, declared) in enumerate(repeated.inputs.items())
    }


def test_repeated_calls_give_the_circuit_of_plain_calls() -> None:
    repeated, expected = circuit(repeat), circuit(plain)
    assert repeated.counts == expected.counts
    assert repeated.circuit_hash() == expected.circuit_hash()
    assert list(repeated.inputs) == list(expected.inputs)
    assert len(repeated.traced.blocks) < 8
    assert len(repeated.traced.row_paths) < expected.constraints / 100
    flat, system = repeated.system, expected.system
    assert (flat.columns, flat.values, flat.ends) == (system.columns, system.values, system.ends)
    assert flat.public_names == system.public_names
    assert flat.free_wires == system.free_wires
    assert str(repeated.profile()) == str(expected.profile())
    for wire in range(-len(flat.public_names), flat.wires + 1):
        assert wire_name(flat, wire) == wire_name(system, wire)
    for row in range(flat.rows):
        assert path_name(flat, flat.row_paths[row]) == path_name(system, system.row_paths[row])


def test_repeated_calls_give_the_witnesses_of_plain_calls() -> None:
    repeated, expected = circuit(repeat), circuit(plain)
    inputs = inputs_of(expected)
    by_steps = expected.witness(inputs).values
    assert np.array_equal(repeated.witness(inputs).values, by_steps)
    repeated.prepare()
    assert np.array_equal(repeated.witness(inputs).values, by_steps)
    values = repeated.values(inputs)
    values[-1] += 1
    assert [failure.constraint for failure in repeated.check(values)] == [
        failure.constraint for failure in expected.check(values)
    ]


def test_an_error_names_the_namespace_of_the_call() -> None:
    def must_be_zero(system: ConstraintSystem, value: Signal) -> None:
        with system.namespace("zero"):
            system.assert_equal(value, 0)

    def function(system: ConstraintSystem) -> None:
        for index, value in enumerate(system.private("x", 3)):
            with system.namespace(f"x[{index}]"):
                system.repeat(must_be_zero, value)

    with pytest.raises(UnsatisfiedError, match=r"constraint 1 `x\[1\]/zero` \(test_repetition"):
        trace(function).witness({"x": [0, 4, 0]})


@given(st.integers(1, 5), st.integers(0, 3))
def test_parts_expand_to_the_matrices(count: int, seed: int) -> None:
    repeated, expected = circuit(repeat, count), circuit(plain, count)
    for matrix, expected_matrix in zip(repeated.matrices, expected.matrices, strict=True):
        assert np.array_equal(matrix.row_ptr, expected_matrix.row_ptr)
        assert np.array_equal(matrix.column, expected_matrix.column)
        assert np.array_equal(matrix.value, expected_matrix.value)
    for side, matrix in enumerate(expected.matrices):
        mask = np.zeros(expected.wires, np.bool_)
        mask[matrix.column] = True
        assert np.array_equal(repeated.parts.used_wires(side), mask)
        assert repeated.parts.nonzeros[side] == matrix.nonzeros


def test_each_form_of_arguments_is_a_block() -> None:
    forms: list[int] = []

    def record(system: ConstraintSystem, x: Signal | int, y: Signal | int) -> Signal:
        forms.append(1)
        return system.multiply(x, y)

    def function(system: ConstraintSystem) -> None:
        a, b, c = system.private("x", 3)
        bit = system.private("bit")
        system.boolean(bit)
        calls: list[tuple[Signal | int, Signal | int, int]] = [
            (a, b, 1), (b, c, 1), (c, a, 1),  # two wires
            (a, a, 2), (b, b, 2),  # one wire twice
            (a + b, c, 3), (b + c, a, 3), (a + a, c, 4), (2 * b, a, 4),  # coefficients
            (a, 3, 5), (a, 4, 6), (b, 3, 6),  # constants
            (bit, b, 7), (bit, c, 7), (a, bit, 8),  # upper bounds
            (a + 1, b, 9), (c + 1, a, 9),  # the constant wire
        ]  # fmt: skip
        for x, y, expected in calls:
            system.repeat(record, x, y)
            assert len(forms) == expected, (x, y)

    trace(function)


def test_bounds_pass_through_a_call() -> None:
    def are_bits(system: ConstraintSystem, x: Signal, y: Signal) -> Signal:
        assert system.upper_bound(y) == 1
        system.boolean(x)
        return system.multiply(x, y)

    def function(system: ConstraintSystem) -> None:
        x, y = system.private("x", 2)
        system.boolean(y)
        product = system.repeat(are_bits, x, y)
        assert system.upper_bound(x) == system.upper_bound(product) == 1
        total = x + y
        system.declare_upper_bound(total, 1)
        system.repeat(lambda inner, value: check_bound(inner, value), total)

    def check_bound(system: ConstraintSystem, value: Signal) -> None:
        assert system.upper_bound(value) == 1

    trace(function)


def test_bad_calls_are_refused() -> None:
    system = ConstraintSystem("bn254")
    x = system.private("x")
    with pytest.raises(InputError, match="the function of repeat is a function"):
        system.repeat(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="an argument of repeat must be a signal"):
        system.repeat(lambda inner, value: None, {"x": x})
    with pytest.raises(InputError, match="two circuits"):
        system.repeat(lambda inner: inner.multiply(x, x))
    with pytest.raises(InputError, match="two circuits"):
        system.repeat(lambda inner, value: None, ConstraintSystem("bn254").private("x"))
    with pytest.raises(InputError, match="has no value yet"):
        system.repeat(lambda inner, value: None, system.wire())
    with pytest.raises(InputError, match="the function of repeat returned a generator"):
        system.repeat(lambda inner: (yield))
    with pytest.raises(InputError, match="no constraint determines the value of the wire"):
        system.repeat(lambda inner: inner.wire())
    with pytest.raises(InputError, match="two inputs or outputs have the name 'x'"):
        system.repeat(lambda inner: inner.private("x"))
    # Nothing of a refused call remains.
    assert (system.rows, system.wires, system.placements) == (0, 2, [])
    finished = trace(lambda inner: inner.private("x")).traced
    with pytest.raises(InputError, match="the circuit is already traced"):
        finished.repeat(lambda inner: inner.private("y"))


def test_outputs_before_several_public_inputs_are_outputs() -> None:
    def function(system: ConstraintSystem) -> None:
        x = system.private("x")
        system.output("y", x * x)
        system.enforce(system.public("a"), system.public("b"), x)

    assert trace(function).public_outputs == 1


def test_namespaces_of_one_name_keep_inputs_apart() -> None:
    def inner(system: ConstraintSystem) -> Signal:
        return system.private(name_here(system, "z"))

    def outer(system: ConstraintSystem, call: Call) -> None:
        z = call(system, inner)
        with system.namespace("a"):
            system.assert_equal(call(system, inner), z)

    def function(call: Call) -> Callable[[ConstraintSystem], None]:
        def circuit(system: ConstraintSystem) -> None:
            with system.namespace("a"):
                call(system, outer, call)

        return circuit

    repeated, expected = trace(function(repeat)), trace(function(plain))
    assert list(repeated.inputs) == list(expected.inputs) == ["a/z", "a/a/z"]
    for wire in (1, 2):
        assert wire_name(repeated.system, wire) == wire_name(expected.system, wire)


def test_a_circuit_too_large_to_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    repeated = circuit(repeat)
    monkeypatch.setattr(flattening, "MAX_ROWS", 100)
    monkeypatch.setattr(parts, "MAX_ENTRIES", 100)
    with pytest.raises(InputError, match=r"constraints; at most \d+ can be listed one by one"):
        repeated.profile()
    with pytest.raises(InputError, match=r"entries; at most \d+ can be listed row by row"):
        repeated.circuit_hash()
    assert repeated.parts.constraints == repeated.constraints


def test_blocks_of_sha256_are_traced_once_for_each_form() -> None:
    def function(system: ConstraintSystem) -> None:
        for index in range(3):
            bits = system.private_bits(f"message[{index}]", 1536)
            sha256(system, bits)

    repeated = trace(function, "bls12_381")
    # The first, the next two, and the padding.
    assert len(repeated.traced.blocks) == 3
    assert len(repeated.traced.placements) == 12
