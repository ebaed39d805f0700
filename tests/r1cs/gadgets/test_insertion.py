"""Insertion, selection and inclusion of elements, with the counts of Filecoin's tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from quod import hash as hashes
from quod import r1cs
from quod.errors import InputError
from quod.r1cs import gadgets
from quod.r1cs.names import wire_name
from quod.testing import assert_deterministic, assert_fails
from tests.r1cs.gadgets.gadget import inner, made, outputs, sound

CURVE = "bls12_381"


@pytest.mark.parametrize(("bits", "count"), [(1, 2), (2, 8), (3, 22)])
def test_insertion(bits: int, count: int) -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        index = system.private_bits("index", bits)
        return gadgets.insert(
            system, system.private("x"), system.private("others", (1 << bits) - 1), index
        )

    circuit = made(gadget, CURVE)
    assert inner(circuit) == bits + count
    others = [100 + number for number in range((1 << bits) - 1)]
    for index in range(1 << bits):
        expected = [*others[:index], 7, *others[index:]]
        assert outputs(circuit, index=index, x=7, others=others) == expected
    sound(circuit, 5, index=1, x=7, others=others)
    assert_deterministic(circuit)


def test_selection() -> None:
    def gadget(system: r1cs.ConstraintSystem) -> list[r1cs.Signal]:
        bits = system.private_bits("index", 3)
        elements = system.private("x", 8)
        return [
            gadgets.select(system, elements, bits),
            gadgets.pick(system, bits[0], elements[5], elements[6]),
        ]

    circuit = made(gadget, CURVE)
    assert inner(circuit) == 3 + 7 + 1
    elements = [5 + 3 * number for number in range(8)]
    for index in range(8):
        expected = [elements[index], elements[5 if index & 1 else 6]]
        assert outputs(circuit, index=index, x=elements) == expected
    sound(circuit, 5, index=6, x=elements)
    assert_deterministic(circuit)


def test_operands_of_wrong_length() -> None:
    system = r1cs.ConstraintSystem(CURVE)
    with pytest.raises(InputError, match="not 2 bits and 2 elements"):
        gadgets.insert(system, 1, [2, 3], [0, 1])
    with pytest.raises(InputError, match="2 bits select from 4 elements"):
        gadgets.select(system, [1, 2, 3], [0, 1])
    with pytest.raises(InputError, match="need a position of 3 bits, not of 2"):
        gadgets.root_of_path(system, 1, [0, 1], [[1] * 7], node)
    with pytest.raises(InputError, match="not known to be a bit"):
        gadgets.pick(system, system.private("x"), 1, 2)


def node(system: r1cs.ConstraintSystem, children: Sequence[r1cs.Signal]) -> r1cs.Signal:
    return gadgets.neptune_hash(system, children)


def root(leaf: int, index: int, siblings: Sequence[Sequence[int]]) -> int:
    for level in siblings:
        index, place = divmod(index, len(level) + 1)
        leaf = hashes.neptune_hash([*level[:place], leaf, *level[place:]])
    return leaf


SIBLINGS = [[*range(10, 17)], [*range(20, 23)], [30]]


def test_inclusion_by_a_private_path() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        with system.namespace("proof"):
            result, index = gadgets.root_of_private_path(
                system, system.private("leaf"), (8, 4, 2), node
            )
        system.output("root", result)
        system.output("index", system.pack(index))

    circuit = r1cs.trace(function, CURVE)
    assert circuit.constraints == 530 + 387 + 314 + 2
    for index in (0, 0b1_10_011, 63):
        inputs: dict[str, int | list[int]] = {"leaf": 5}
        for level, (siblings, start) in enumerate(zip(SIBLINGS, (0, 3, 5), strict=True)):
            inputs[f"proof/path[{level}]/index"] = index >> start & len(siblings)
            inputs[f"proof/path[{level}]/hashes"] = siblings
        assert outputs(circuit, **inputs) == [root(5, index, SIBLINGS), index]
    assert_deterministic(circuit)


def test_names_of_a_private_path(tmp_path: Path) -> None:
    """An input within a namespace has the namespace's name once, in messages and files."""

    def function(system: r1cs.ConstraintSystem) -> None:
        with system.namespace("proof"):
            gadgets.root_of_private_path(system, system.private("leaf"), (2,), node)

    circuit = r1cs.trace(function, CURVE)
    assert wire_name(circuit.system, 2) == "proof/path[0]/index"
    circuit.write_sym(tmp_path / "path.sym")
    names = [line.split(",")[3] for line in (tmp_path / "path.sym").read_text().splitlines()]
    assert names[:3] == [
        "main.proof.leaf",
        "main.proof.path[0].index[0]",
        "main.proof.path[0].hashes[0]",
    ]


def test_inclusion_by_bits_and_siblings() -> None:
    def function(system: r1cs.ConstraintSystem) -> None:
        index = system.private_bits("index", 6)
        siblings = [
            system.private(f"siblings{level}", len(each)) for level, each in enumerate(SIBLINGS)
        ]
        with system.namespace("inclusion"):
            result = gadgets.root_of_path(system, system.private("leaf"), index, siblings, node)
            system.assert_equal(result, system.private("root"))

    circuit = r1cs.trace(function, CURVE)
    siblings = {f"siblings{level}": each for level, each in enumerate(SIBLINGS)}
    inputs = {"index": 45, "leaf": 5, "root": root(5, 45, SIBLINGS), **siblings}
    assert outputs(circuit, **inputs) == []
    assert_fails(circuit, {**inputs, "index": 44}, "inclusion")
