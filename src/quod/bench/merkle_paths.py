"""Merkle paths of Poseidon2 over M31: the circuit of a path, and inputs for many paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.layered.gadgets import POSEIDON2, merkle_root
from quod.layered.layout import Layout
from quod.layered.program import Program

HASH = POSEIDON2["m31"]
DIGEST = HASH.width // 2
"""Elements of a digest."""

Numbers = NDArray[np.int64]


def path_circuit(depth: int) -> Layout:
    """Build the circuit of a path of `depth` levels; all inputs but the root are private."""
    program = Program(HASH.field)
    leaf, position = program.inputs("leaf", DIGEST), program.inputs("position", depth)
    flat = program.inputs("siblings", depth * DIGEST)
    siblings = [flat[start : start + DIGEST] for start in range(0, len(flat), DIGEST)]
    root = merkle_root(program, HASH.compress, leaf, siblings, position)
    program.assert_equal(root, program.public_inputs("root", DIGEST), "root")
    return program.finished()


def tree_of(leaves: Numbers) -> list[Numbers]:
    """Compute the levels of a tree, leaves first, as arrays of shape (nodes, DIGEST)."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        pairs = levels[-1].reshape(-1, 2, DIGEST)
        columns = [[pairs[:, side, index] for index in range(DIGEST)] for side in (0, 1)]
        levels.append(np.stack(HASH.compress_numbers(*columns), axis=1))
    return levels


def paths_in(levels: list[Numbers], positions: Numbers) -> dict[str, Any]:
    """Compute the circuit's inputs by name, with a row for each of the leaf positions."""
    depth = len(levels) - 1
    siblings = [levels[level][positions >> level ^ 1] for level in range(depth)]
    return {
        "leaf": levels[0][positions],
        "position": np.stack([positions >> level & 1 for level in range(depth)], axis=1),
        "siblings": np.concatenate(siblings, axis=1),
        "root": np.repeat(levels[-1], len(positions), axis=0),
    }


def random_paths(paths: int, depth: int) -> dict[str, Any]:
    """Compute the inputs for `paths` random leaves of a tree with 2**depth random leaves."""
    random = np.random.default_rng(1)
    leaves = random.integers(0, HASH.field.value, (1 << depth, DIGEST))
    return paths_in(tree_of(leaves), random.integers(0, len(leaves), paths))
