"""Signatures, Merkle paths, and templates of other compilers as gadgets."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quod import r1cs
from quod.curve import EDWARDS, edwards_group
from quod.errors import InputError, MismatchError
from quod.field import words_to_integers
from quod.formats import R1cs
from quod.r1cs import gadgets, reference
from quod.testing import assert_fails, assert_satisfied
from quod.witness import WitnessCalculator
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound
from tests.support.node import package, run_program
from tests.support.thorough import one_and_others

CURVE = EDWARDS["baby_jubjub"]
P, ORDER = CURVE.fq.value, CURVE.fr.value
PRIVATE = bytes(range(32))


def test_eddsa() -> None:
    """A valid signature passes; each changed part fails in its namespace."""

    def gadget(system: r1cs.ConstraintSystem) -> None:
        key, message = system.public("key", 2), system.public("message")
        gadgets.assert_eddsa(system, key, message, system.private("r8", 2), system.private("s"))

    circuit = r1cs.trace(gadget)
    assert circuit.constraints == 3707
    key, group = reference.eddsa_public_key(PRIVATE), edwards_group(CURVE)
    for message in (0, 1234, P - 1):
        signature = reference.eddsa_sign(PRIVATE, message)
        inputs = {"key": key, "message": message, "r8": signature.r8, "s": signature.s}
        assert_satisfied(circuit, inputs)
    other = reference.eddsa_sign(PRIVATE, 5)
    for change, place in (
        ({"message": 7}, "equation"), ({"s": other.s}, "equation"), ({"r8": other.r8}, "equation"),
        ({"key": group.double(key)}, "equation"), ({"key": (0, P - 1)}, "points"),
        ({"r8": (1, 1)}, "points"), ({"s": signature.s + ORDER}, "S"),
    ):  # fmt: skip
        assert_fails(circuit, inputs | change, place)
    sound(circuit, 2, **inputs)


@pytest.mark.parametrize("name", one_and_others(["poseidon", "mimc_sponge"]))
def test_merkle_paths(name: str) -> None:
    compress = getattr(gadgets, f"{name}_node")
    reference_node = getattr(reference, f"{name}_node")

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        path, position = system.private("path", 3), system.private("position", 3)
        root = gadgets.merkle_root(system, system.private("leaf"), path, position, compress)
        return [root]

    circuit = made(gadget)
    assert inner(circuit) == 3 * (2 + (240 if name == "poseidon" else 1320))
    leaves = [5, 6, 7, 8, 9]
    for place in range(8):
        root, path = reference.merkle_path(leaves, place, 3, compress=reference_node)
        leaf = [*leaves, 0, 0, 0][place]
        position = [place >> at & 1 for at in range(3)]
        assert outputs(circuit, leaf=leaf, path=path, position=position) == [root]
    assert_fails(circuit, {"leaf": leaf, "path": path, "position": [2, 1, 1]}, "level[0]")
    sound(circuit, 3, leaf=leaf, path=path, position=position)


def template(tmp_path: Path) -> tuple[r1cs.Circuit, R1cs]:
    """A file with an output, two inputs and a wire between."""

    def simple(system: r1cs.ConstraintSystem) -> None:
        a, b = system.private("x", 2)
        system.output("product", a * b * b)

    circuit = r1cs.trace(simple)
    circuit.write_r1cs(tmp_path / "t.r1cs")
    return circuit, R1cs.open(tmp_path / "t.r1cs")


def test_a_template(tmp_path: Path) -> None:
    """Called twice, with the constraints of the file each time; wrong values fail within."""
    inside, file = template(tmp_path)
    wrong = []

    def calculate(inputs: list[int]) -> list[int]:
        values = inside.values({"x": inputs})
        if wrong:
            values[1] += 1
        return values

    called = gadgets.Template(file, calculate)
    assert (called.inputs, called.outputs) == (2, 1)

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        x, y = system.private("x"), system.private("y")
        (first,) = called(system, [x, y], "first")
        return [*called(system, [first + 1, 2 * y], "second")]

    circuit = made(gadget)
    assert inner(circuit) == 2 * file.constraints
    assert outputs(circuit, x=3, y=5) == [(3 * 25 + 1) * 100]
    sound(circuit, 99, x=3, y=5)
    wrong.append(True)
    assert_fails(circuit, {"x": 3, "y": 5}, "first")


def test_hostile_templates(tmp_path: Path) -> None:
    _, file = template(tmp_path)
    called = gadgets.Template(file, lambda inputs: [1, 2])
    system = r1cs.ConstraintSystem("bn254")
    with pytest.raises(InputError, match="inputs of the template must be 2 signals, not 1"):
        called(system, [1])
    with pytest.raises(MismatchError, match="over bn254, but the circuit is over bls12_381"):
        called(r1cs.ConstraintSystem("bls12_381"), [1, 2])
    circuit = made(lambda system: called(system, system.private("x", 2)))
    with pytest.raises(MismatchError, match="returned 2 values, but the template has 6 wires"):
        circuit.values({"x": [1, 2]})
    for answer, message in (
        ([1, 3.5, 1, 2, 5, 6], "must be a whole number, not 3.5"),
        ([1, 2, 1, 2, "3", 6], "must be a whole number, not '3'"),
        ("123456", "the result of a template's calculator must be a list"),
        (None, "must be a list, not None"),
    ):
        wrong = gadgets.Template(file, lambda inputs, answer=answer: answer)  # type: ignore[misc]
        circuit = made(lambda system, template=wrong: template(system, system.private("x", 2)))  # type: ignore[misc]
        with pytest.raises(InputError, match=message):
            circuit.values({"x": [1, 2]})


def test_template_with_only_constraints(tmp_path: Path) -> None:
    """The template has neither outputs nor wires of its own."""

    def inside(system: r1cs.ConstraintSystem) -> None:
        x, y = system.private("x"), system.private("y")
        system.enforce(x, y, 35)

    r1cs.trace(inside).write_r1cs(tmp_path / "demand.r1cs")
    called = gadgets.Template(R1cs.open(tmp_path / "demand.r1cs"), lambda inputs: [1, *inputs])
    circuit = made(lambda system: called(system, [system.private("x"), 7]))
    assert outputs(circuit, x=5) == []
    assert_fails(circuit, {"x": 6}, "template")


def _late_output(system: r1cs.ConstraintSystem) -> None:
    system.output("y", 3 * system.public("x"))


def _output_before_and_after_an_input(system: r1cs.ConstraintSystem) -> None:
    system.output("one", system.one)
    _late_output(system)


def _late_input(system: r1cs.ConstraintSystem) -> None:
    x = system.private("x")
    system.output("z", x * x * system.private("y"))


@pytest.mark.parametrize(
    "inside",
    [_late_output, _output_before_and_after_an_input, _late_input],
    ids=lambda f: f.__name__,
)
def test_template_with_other_wires_first(inside: Callable[[r1cs.ConstraintSystem], None]) -> None:
    with pytest.raises(InputError, match="add outputs before public inputs"):
        gadgets.Template(r1cs.trace(inside).r1cs, list)


CIRCOM = """
pragma circom 2.0.0;
include "circuits/{file}.circom";
component main = {call};
"""


def compiled(tmp_path: Path, file: str, call: str) -> tuple[R1cs, WitnessCalculator]:
    """circomlib's template, of circom2, which sees no file above its folder."""
    shutil.copytree(package("circomlib") / "circuits", tmp_path / "circuits")
    (tmp_path / "c.circom").write_text(CIRCOM.format(file=file, call=call))
    done = run_program("circom2", "c.circom", "--r1cs", "--wasm", "--O2", directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    return R1cs.open(tmp_path / "c.r1cs"), WitnessCalculator.open(tmp_path / "c_js" / "c.wasm")


@pytest.mark.thorough
@pytest.mark.node
def test_circomlib_s_template(tmp_path: Path) -> None:
    """circomlib's Poseidon and the gadget: one result, one count of constraints."""
    file, calculator = compiled(tmp_path, "poseidon", "Poseidon(2)")

    def calculate(inputs: list[int]) -> list[int]:
        return words_to_integers(file.fr, calculator.witness({"inputs": inputs}).values)

    called = gadgets.Template(file, calculate)

    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        x = system.private("x", 2)
        return [*called(system, x, "circom"), gadgets.poseidon_hash(system, x)]

    circuit = made(gadget)
    assert inner(circuit) == 2 * 240
    for inputs in ([1, 2], [0, P - 1]):
        assert outputs(circuit, x=inputs) == [reference.poseidon_hash(inputs)] * 2
    sound(circuit, 2, x=[1, 2])
