"""Paths of Merkle trees, by definition."""

from __future__ import annotations

import pytest

from quod.errors import InputError
from quod.r1cs import reference


def test_paths_lead_to_the_root() -> None:
    """Full and partly filled trees, against all nodes of the padded tree."""
    hashed = reference.poseidon_hash
    leaves = [5, 6, 7, 8, 9]
    padded = [*leaves, 3, 3, 3]
    first = [hashed(padded[at : at + 2]) for at in range(0, 8, 2)]
    second = [hashed(first[:2]), hashed(first[2:])]
    root = hashed(second)
    for position in range(8):
        path_root, siblings = reference.merkle_path(leaves, position, 3, empty=3)
        assert path_root == root
        assert siblings == [
            padded[position ^ 1], first[position >> 1 ^ 1], second[position >> 2 ^ 1]
        ]  # fmt: skip
        assert reference.merkle_root(padded[position], siblings, position) == root
        assert reference.merkle_root(padded[position] + 1, siblings, position) != root
    assert reference.merkle_path([], 0, 0, empty=4) == (4, [])


def test_nodes_know_their_level() -> None:
    """Sapling's hash differs by level, the others do not."""
    assert reference.sapling_node(0, 1, 2) != reference.sapling_node(1, 1, 2)
    assert reference.mimc_sponge_node(3, 1, 2) == reference.mimc_sponge([1, 2])[0]
    root, path = reference.merkle_path([1, 2, 3], 2, 2, compress=reference.sapling_node)
    assert path[0] == 0
    assert reference.merkle_root(3, path, 2, reference.sapling_node) == root
    assert reference.merkle_root(3, path, 2, lambda level, left, right: left - right) != root


def test_hostile_trees() -> None:
    with pytest.raises(InputError, match="depth 1 cannot have 3 leaves"):
        reference.merkle_path([1, 2, 3], 0, 1)
    with pytest.raises(InputError, match="the position must be a whole number from 0 to 1"):
        reference.merkle_root(1, [2], 2)
    with pytest.raises(InputError, match="an input of Poseidon"):
        reference.merkle_root(1, ["2"], 0)  # type: ignore[list-item]
    with pytest.raises(InputError, match="the level must be"):
        reference.sapling_node(32, 1, 2)
