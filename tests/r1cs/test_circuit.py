"""Circuits in Python: tracing, replay, checks, lints and errors."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from quod import r1cs
from quod.curve.named import CURVES
from quod.errors import InputError, MismatchError
from quod.field.array import words_to_integers
from quod.formats import R1cs, Witness
from quod.groth16 import ProvingKey, generate_key
from quod.r1cs.witness_program.replay import in_order, replayed
from quod.testing import assert_fails, assert_satisfied
from tests.support.node import run_program
from tests.support.thorough import one_and_others

CURVE_NAMES = sorted(CURVES)


def mixed(system: r1cs.ConstraintSystem) -> None:
    """Something of everything."""
    x, y = system.private("x"), system.public("y")
    amounts = system.private("amounts", 3)
    with system.namespace("bits"):
        small = system.bits(amounts[0], 8)
        all_bits = system.bits(x)
    with system.namespace("choice"):
        chosen = system.select(small[0], x, y)
        same = system.is_equal(x, y)
    with system.namespace("hint"):
        root, quotient_by_7 = system.hint(lambda n: (n % 7, n // 7), [amounts[1]], 2)
        system.assert_equal(7 * quotient_by_7 + root, amounts[1])
        system.bits(root, 3)
        system.bits(quotient_by_7, 64)
    quotient = (x + 1) / (y * y + 1)
    system.output("total", chosen + same + quotient - amounts[2] ** 3 + all_bits[4] * root)


def expected(inputs: dict[str, int | list[int]], prime: int) -> int:
    x, y, amounts = inputs["x"], inputs["y"], inputs["amounts"]
    assert isinstance(x, int)
    assert isinstance(y, int)
    assert isinstance(amounts, list)
    first, second, third = amounts
    total = (x if first & 1 else y) + (x == y) - third**3 + (x >> 4 & 1) * (second % 7)
    return (total + (x + 1) * pow(y * y + 1, -1, prime)) % prime


@pytest.mark.parametrize("curve", CURVE_NAMES)
def test_witnesses_match_integer_arithmetic(curve: str) -> None:
    circuit = r1cs.trace(mixed, curve)
    prime, chance = circuit.field.value, random.Random(5)
    for _ in range(3):
        inputs: dict[str, int | list[int]] = {
            "x": chance.randrange(prime), "y": chance.randrange(prime),
            "amounts": [chance.randrange(256), chance.getrandbits(66), chance.randrange(prime)],
        }  # fmt: skip
        witness = assert_satisfied(circuit, inputs)
        assert witness.curve == curve
        assert len(witness) == circuit.wires
        values = words_to_integers(circuit.field, witness.values)
        assert values[:3] == [1, inputs["y"], expected(inputs, prime)]
    same = {"x": 5, "y": 5, "amounts": [1, 0, 0]}
    assert circuit.values(same)[2] == expected(same, prime)


def test_constraint_checks_match_the_matrices() -> None:
    """The matrices of the file, multiplied out by plain integers, against the replay."""
    circuit = r1cs.trace(mixed, "bls12_381")
    values = circuit.values({"x": 9, "y": 4, "amounts": [3, 50, 7]})
    system = circuit.r1cs
    assert (system.public_outputs, system.public_inputs, system.private_inputs) == (0, 2, 4)
    sides = []
    for matrix in system.matrices:
        coefficients = words_to_integers(circuit.field, matrix.value)
        bounds = matrix.row_ptr.tolist()
        sides.append(
            [
                sum(values[matrix.column[at]] * coefficients[at] for at in range(start, end))
                for start, end in pairwise(bounds)
            ]
        )
        rows = np.repeat(np.arange(matrix.rows), np.diff(matrix.row_ptr))
        order = rows * system.wires + matrix.column
        assert (np.diff(order) > 0).all()
    assert len(sides[0]) == circuit.constraints
    for a, b, c in zip(*sides, strict=True):
        assert (a * b - c) % circuit.field.value == 0


def test_operators_follow_field_arithmetic() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        x, y = system.private("x"), system.private("y")
        before = len(system.row_paths)
        linear = 3 * x - y * 2 + 5 - (1 - x) - x - 3 * x
        assert system.zero.constant == 0
        assert (x - x).constant == 0
        assert (x - x + 4).constant == 4
        assert (x * system.constant(7)).wires == x.wires
        assert (x / 2).wires == x.wires
        long = system.zero
        for _ in range(500):
            long += x - y + 1
        assert len(long.wires) < 100
        assert len(system.row_paths) == before
        for at, signal in enumerate((linear, long, x**5, 7 / y, (x + y) * (x - y), x**0)):
            system.output(f"out{at}", signal)

    circuit = r1cs.trace(function)
    p = circuit.field.value
    x, y = 11, p - 3
    assert circuit.values({"x": x, "y": -3})[1:7] == [
        value % p
        for value in (-2 * y + 4, 500 * (x - y + 1), x**5, 7 * pow(y, -1, p), x * x - y * y, 1)
    ]


def test_a_failure_names_namespace_line_and_values() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        x, y = system.private("x"), system.private("y")
        system.assert_equal(x, 4)
        for level in range(2):
            with system.namespace(f"merkle[{level}]"), system.namespace("hash"):
                system.enforce(x, y + level, 3)
                system.boolean(y - 6)

    circuit = r1cs.trace(function)
    first = function.__code__.co_firstlineno
    with pytest.raises(r1cs.UnsatisfiedError) as refused:
        circuit.witness({"x": 5, "y": 7})
    assert str(refused.value) == (
        f"constraint 0 (test_circuit.py:{first + 2}): 5 * 1 != 4, and 2 more of 5 constraints"
    )
    assert [str(failure) for failure in refused.value.failures[1:]] == [
        f"constraint 1 `merkle[0]/hash` (test_circuit.py:{first + 5}): 5 * 7 != 3",
        f"constraint 3 `merkle[1]/hash` (test_circuit.py:{first + 5}): 5 * 8 != 3",
    ]
    assert refused.value.exit_code == 3
    assert_fails(circuit, {"x": 5, "y": 7}, "merkle[1]")
    assert_fails(circuit, {"x": 5, "y": 7}, "merkle[1]/hash")
    with pytest.raises(AssertionError, match=r"no constraint of merkle\[2\] fails, but others"):
        assert_fails(circuit, {"x": 5, "y": 7}, "merkle[2]")
    with pytest.raises(AssertionError, match="constraint 0 "):
        assert_satisfied(circuit, {"x": 5, "y": 7})

    def easy(system: r1cs.ConstraintSystem) -> None:
        system.boolean(system.private("x"))

    with pytest.raises(AssertionError, match="satisfy all"):
        assert_fails(r1cs.trace(easy), {"x": 1})


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda x: bool(x), "a truth value"),
        (lambda x: x == 3, "`==`"),
        (lambda x: x != 3, "`!=`"),
        (lambda x: x < 3, "an order"),
        (lambda x: x >= 3, "an order"),
        (lambda x: int(x), "an integer value"),
        (lambda x: [0, 1][x], "an integer value"),
        (lambda x: list(x), "items"),
    ],
)
def test_a_value_cannot_be_read_while_tracing(
    act: Callable[[r1cs.Signal], object], what: str
) -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        act(system.private("x"))

    with pytest.raises(r1cs.TraceError) as refused:
        r1cs.trace(function)
    line = act.__code__.co_firstlineno
    assert str(refused.value).startswith(
        f"test_circuit.py:{line}: a signal has no value while its circuit is traced, so it does "
        f"not have {what}; "
    )


def test_a_wire_without_a_value_is_refused() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        x, lost = system.private("x"), system.wire("lost")
        system.enforce(lost, lost, x)

    line = function.__code__.co_firstlineno + 1
    with pytest.raises(
        InputError, match=rf"{line}: no constraint determines the value of the wire lost"
    ):
        r1cs.trace(function)


def test_a_new_wire_is_solved_from_its_constraint() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        x, y = system.private("x"), system.private("y")
        wires = a, b, c = [system.wire() for _ in range(3)]
        system.enforce(x, y, 3 * a + x)
        system.enforce(2 * b + y, x + 1, a)
        system.enforce(y, x - 5 * c, b)
        for at, wire in enumerate(wires):
            system.output(f"w{at}", wire)

    circuit = r1cs.trace(function)
    p = circuit.field.value
    a = (20 - 5) * pow(3, -1, p)
    b = (a * pow(6, -1, p) - 4) * pow(2, -1, p)
    c = (5 - b * pow(4, -1, p)) * pow(5, -1, p)
    witness = assert_satisfied(circuit, {"x": 5, "y": 4})
    assert words_to_integers(circuit.field, witness.values)[1:4] == [a % p, b % p, c % p]


@pytest.mark.parametrize("curve", one_and_others(CURVE_NAMES))
def test_bits_are_the_unique_decomposition(curve: str) -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        system.output("packed", system.pack(r1cs.strict_bits(system, system.private("x"))[1:]))

    circuit = r1cs.trace(function, curve)
    p = circuit.field.value
    for x in (0, 1, p - 1, p - 2, p >> 1, 1 << (p.bit_length() - 1)):
        witness = assert_satisfied(circuit, {"x": x})
        assert words_to_integers(circuit.field, witness.values)[1] == x >> 1
    # The bits of x + p, where they fit, sum up to x too, and must not be accepted.
    system = circuit.system
    small = (1 << p.bit_length()) - p - 1
    alias = small + p
    steps = {step.wire: step for step in system.steps if hasattr(step, "position")}
    overrides = {wire: alias >> step.position & 1 for wire, step in steps.items()}
    values = replayed(system, [(1, small)], overrides)
    assert circuit.check(in_order(system, values))
    total = sum(values[wire] << step.position for wire, step in steps.items())
    assert total == alias


def test_lints_report_likely_mistakes() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        x = system.private("x")
        system.private("unused")
        seen = system.private("seen")
        (guess,) = system.hint(lambda value: value + 1, [seen])
        system.public("nobody")
        for _ in range(2):
            system.multiply(x, x + guess)
        system.enforce(x, x + 1, 5)
        system.enforce(x + 1, x, 5)
        system.enforce(2, 2, 4)

    lints = {(lint.kind, lint.message.partition(" (")[0]) for lint in r1cs.trace(function).lints()}
    assert lints == {
        ("unconstrained wire", "unused"), ("wire in hints only", "seen"),
        ("unused public input", "nobody"), ("duplicate constraint", "constraint 3"),
        ("constant constraint", "constraint 4"),
    }  # fmt: skip
    assert r1cs.trace(mixed).lints() == []


def test_tampering_finds_missing_constraints() -> None:
    assert not [
        tampering for tampering in r1cs.trace(mixed).tamper(25, MIXED_INPUTS) if tampering.error
    ]

    def loose(system: r1cs.ConstraintSystem) -> None:
        x = system.private("x")
        with system.namespace("root"):
            (root,) = system.hint(lambda value: round(value**0.5), [x])
        system.assert_equal(root * root, x)
        system.output("root", root)

    (forgery,) = [
        tampering for tampering in r1cs.trace(loose).tamper(100, {"x": 25}) if tampering.error
    ]
    assert (forgery.before, forgery.public, forgery.free) == (5, ("root",), False)
    assert str(forgery).startswith("root/wire 3 may be ")
    assert "and with it root" in str(forgery)
    free = r1cs.trace(lambda system: system.output("o", system.is_zero(system.private("x"))))
    accepted = free.tamper(100, {"x": 0})
    assert accepted
    assert all(tampering.free and not tampering.error for tampering in accepted)
    assert not free.tamper(100, {"x": 3})


MIXED_INPUTS: dict[str, int | list[int]] = {"x": 9, "y": 4, "amounts": [3, 50, 7]}


def test_profiles_count_by_namespace_and_line(tmp_path: Path) -> None:
    circuit = r1cs.trace(mixed)
    profile = circuit.profile()
    assert profile.total == circuit.constraints == profile.within[""]
    assert profile.own["choice"] == 3
    assert profile.within["hint"] == 1 + 4 + 65
    assert sum(profile.lines.values()) == profile.total
    assert f"{profile.total:>11}" in str(profile)
    assert "choice" in str(profile)
    profile.write_speedscope(tmp_path / "p.json")
    written = json.loads((tmp_path / "p.json").read_text())
    (exported,) = written["profiles"]
    assert sum(exported["weights"]) == profile.total
    names = [frame["name"] for frame in written["shared"]["frames"]]
    assert any(names[frame] == "choice" for sample in exported["samples"] for frame in sample)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": 1}, "'y' is missing"),
        (MIXED_INPUTS | {"z": 1}, "no input 'z'; its inputs are 'x', 'y', 'amounts'"),
        (MIXED_INPUTS | {"x": 1 << 300}, "'x' must be below the prime"),
        (MIXED_INPUTS | {"x": 1.0}, "'x' must be a whole number"),
        (MIXED_INPUTS | {"x": [1]}, "'x' must be a whole number"),
        (MIXED_INPUTS | {"amounts": [1, 2]}, "'amounts' must be 3 numbers, not 2"),
        (MIXED_INPUTS | {"amounts": 5}, "'amounts' must be a list"),
        ([1], "a dict"),
    ],
)
def test_wrong_inputs_are_refused(inputs: dict[str, int | list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        r1cs.trace(mixed).witness(inputs)


def test_wrong_circuits_are_refused() -> None:
    def refused(act: Callable[[r1cs.ConstraintSystem, r1cs.Signal], object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            r1cs.trace(lambda system: act(system, system.private("x")))

    other = r1cs.ConstraintSystem("bn254").private("x")
    refused(lambda system, x: x + other, "two circuits")
    refused(lambda system, x: system.enforce(x, other, x), "two circuits")
    refused(lambda system, x: x * 1.5, "a Signal or an int")  # type: ignore[operator]
    refused(lambda system, x: system.private("x"), "two inputs or outputs have the name 'x'")
    refused(lambda system, x: system.assert_equal(3, 4), "the constants 3 and 4 are never equal")
    refused(lambda system, x: x / 0, r"test_circuit.py:\d+: division by the constant 0")
    refused(lambda system, x: system.bits(x, 254), "count of bits")
    refused(lambda system, x: system.private_bits("b", 0), "number of bits")
    bits = r1cs.trace(lambda system: system.private_bits("b", 4))
    with pytest.raises(InputError, match="a number of 4 bits"):
        bits.witness({"b": 16})
    for function, message in (
        (lambda value: (value, value), "returned 2 values for 1 wires"),
        (lambda value: "no", "must be a whole number, not 'no'"),
        (lambda value: True, "must be a whole number, not True"),
    ):
        wrong = r1cs.trace(lambda system, hint=function: system.hint(hint, [system.private("x")]))  # type: ignore[misc]
        with pytest.raises(InputError, match=message):
            wrong.witness({"x": 1})
    circuit = r1cs.trace(mixed)
    with pytest.raises(MismatchError, match="3 values"):
        circuit.check([1, 2, 3])
    with pytest.raises(MismatchError, match="over bls12_381"):
        circuit.check(r1cs.trace(mixed, "bls12_381").witness(MIXED_INPUTS))


def test_a_proof_of_a_circuit_in_python(tmp_path: Path) -> None:
    circuit = r1cs.trace(mixed)
    circuit.write_r1cs(tmp_path / "c.r1cs")
    generate_key(tmp_path / "c.r1cs", tmp_path / "c.zkey", 3)
    key = ProvingKey.from_zkey(tmp_path / "c.zkey", allow_insecure=True)
    proof, public = key.prove(circuit.witness(MIXED_INPUTS))
    assert public[0] == 4
    assert key.verifying_key.verify(public, proof)
    assert not key.verifying_key.verify([5, *public[1:]], proof)
    key.close()


@pytest.mark.node
def test_snarkjs_reads_the_files(tmp_path: Path) -> None:
    circuit = r1cs.trace(mixed)
    paths = [tmp_path / name for name in ("c.r1cs", "c.wtns", "c.sym")]
    circuit.write_r1cs(paths[0])
    circuit.write_wtns(paths[1], MIXED_INPUTS)
    circuit.write_sym(paths[2])
    assert R1cs.open(paths[0]).constraints == circuit.constraints
    assert np.array_equal(Witness.open(paths[1]).values, circuit.witness(MIXED_INPUTS).values)
    checked = run_program("snarkjs", "wtns", "check", paths[0], paths[1])
    assert checked.returncode == 0
    assert "WITNESS IS CORRECT" in checked.stdout
    shown = run_program("snarkjs", "r1cs", "print", paths[0], paths[2])
    assert shown.returncode == 0
    assert "main.choice.w_" in shown.stdout
