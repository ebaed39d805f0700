"""Merkle paths: only the leaf that is there has a path to the root."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod.errors import InputError, MismatchError
from quod.layered import Layout, Program
from quod.layered.gadgets import POSEIDON2, merkle_path, merkle_root, merkle_tree
from tests.layered.evaluation import holds, outputs

HASH = POSEIDON2["m31"]
DEPTH = 3


def path_circuit(depth: int, committed: bool) -> Layout:
    program = Program(HASH.field)
    leaf, position = program.inputs("leaf", 8), program.inputs("position", depth)
    siblings = [program.inputs(f"sibling {level}", 8) for level in range(depth)]
    with program.scope("path"):
        root = merkle_root(program, HASH.compress, leaf, siblings, position, committed=committed)
    program.assert_equal(root, program.public_inputs("root", 8), "root")
    return program.finished()


def values_of(tree: list[list[list[Any]]], at: int) -> dict[str, Any]:
    siblings, bits = merkle_path(tree, at)
    named = {f"sibling {level}": sibling for level, sibling in enumerate(siblings)}
    return {"leaf": tree[0][at], "position": bits, "root": tree[-1][0], **named}


@pytest.fixture(scope="module")
def tree() -> list[list[list[Any]]]:
    generator = random.Random(2)
    leaves = [[generator.randrange(HASH.field.value) for _ in range(8)] for _ in range(1 << DEPTH)]
    return merkle_tree(HASH.compress_numbers, leaves)


@pytest.mark.parametrize("committed", [True, False])
def test_only_leaves_of_the_tree_are_accepted(committed: bool, tree: list[list[list[Any]]]) -> None:
    layout = path_circuit(DEPTH, committed)
    # As deep as one hash or as all of them.
    assert len(layout.circuit.layers) == (24 if committed else 24 * DEPTH)
    for at in range(1 << DEPTH):
        layout.inputs(values_of(tree, at))
    right = values_of(tree, 5)
    assert holds(layout, right)
    other = values_of(tree, 4)
    for name in ("leaf", "position", "sibling 0", "sibling 1"):
        assert other[name] != right[name] or name == "sibling 1"
        wrong = {**right, name: other[name]}
        if wrong != right:
            assert not holds(layout, wrong)
    with pytest.raises(MismatchError, match=r"assertion root\[0\]"):
        layout.inputs({**right, "root": [*right["root"][1:], 0]})
    with pytest.raises(MismatchError, match=r"path/position\[1\] does not hold: 4 is not 2"):
        layout.inputs({**right, "position": [1, 2, 1]})


def test_committed_nodes_are_checked(tree: list[list[list[Any]]]) -> None:
    """A node between that is not the hash of those below makes an output that is not 0."""
    layout, right = path_circuit(DEPTH, True), values_of(tree, 6)
    inputs, public = layout.inputs(right), layout.public(right)
    advice = 8 + DEPTH + 8 * DEPTH
    for place in range(advice, advice + 8 * (DEPTH - 1)):
        changed = list(inputs)
        changed[place] += 1
        assert any(outputs(layout.circuit, changed, public))


def test_empty_paths_and_wrong_arguments_are_rejected() -> None:
    program = Program(HASH.field)
    leaf = program.inputs("leaf", 8)
    assert merkle_root(program, HASH.compress, leaf, [], [])[3] is leaf[3]
    bit, sibling = program.input("bit"), program.inputs("sibling", 8)
    for siblings, bits, message in (
        ([sibling], [], "as many siblings"),
        ([sibling[:7]], [bit], "8 wires, not 7"),
        (None, [bit], "as many siblings"),
    ):
        with pytest.raises(InputError, match=message):
            merkle_root(program, HASH.compress, leaf, siblings, bits)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a power of two"):
        merkle_tree(HASH.compress_numbers, [[1] * 8] * 3)
    with pytest.raises(InputError, match="position"):
        merkle_path([[[1] * 8]], 1)
