"""Proves that many leaves are in one Merkle tree of Poseidon2 over M31, in one proof.

python examples/merkle_paths/prove.py --paths 10000 --depth 16 --device cpu
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.circuit import Layout, Program
from quod.circuit.gadgets import POSEIDON2, merkle_root
from quod.commitment import Ligero
from quod.field import EXTENSIONS
from quod.gkr import Prover, Verifier, VerifyingKey, security_bits, verify

HASH = POSEIDON2["m31"]
DIGEST = HASH.width // 2

Numbers = NDArray[np.int64]


def path_circuit(depth: int) -> Layout:
    """One path: a leaf, its position and its siblings, all private, and the root, public."""
    program = Program(HASH.field)
    leaf, position = program.inputs("leaf", DIGEST), program.inputs("position", depth)
    flat = program.inputs("siblings", depth * DIGEST)
    siblings = [flat[start : start + DIGEST] for start in range(0, len(flat), DIGEST)]
    root = merkle_root(program, HASH.compress, leaf, siblings, position)
    program.assert_equal(root, program.public_inputs("root", DIGEST), "root")
    return program.finished()


def tree_of(leaves: Numbers) -> list[Numbers]:
    """The levels of a tree, arrays of digests, the leaves first."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        pairs = levels[-1].reshape(-1, 2, DIGEST)
        columns = [[pairs[:, side, at] for at in range(DIGEST)] for side in (0, 1)]
        levels.append(np.stack(HASH.compress_numbers(*columns), axis=1))
    return levels


def paths_in(levels: list[Numbers], positions: Numbers) -> dict[str, Any]:
    """The inputs of the circuit by their names, of all paths."""
    depth = len(levels) - 1
    siblings = [levels[level][positions >> level ^ 1] for level in range(depth)]
    return {
        "leaf": levels[0][positions],
        "position": np.stack([positions >> level & 1 for level in range(depth)], axis=1),
        "siblings": np.concatenate(siblings, axis=1),
        "root": np.repeat(levels[-1], len(positions), axis=0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="one proof of many Merkle paths")
    parser.add_argument("--paths", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    chosen = parser.parse_args(arguments)
    paths = chosen.paths

    random = np.random.default_rng(1)
    leaves = random.integers(0, HASH.field.value, (1 << chosen.depth, DIGEST))
    positions = random.integers(0, len(leaves), paths)

    layout = path_circuit(chosen.depth)
    key = VerifyingKey.of(layout.circuit, EXTENSIONS["m31.4"], commitment=Ligero())
    bits = security_bits(layout.circuit, key.field, instances=paths, commitment=key.commitment)
    print(f"{len(layout.circuit.layers)} layers, {bits} bits, {paths} paths")

    values = paths_in(tree_of(leaves), positions)
    inputs = layout.inputs(values, instances=paths)
    public = layout.public(values, instances=paths)
    prover = Prover(chosen.device, key, layout.circuit, instances=paths)
    for name in ("prove, kernels compiled or read from the cache", "prove again"):
        start = time.perf_counter()
        proof = prover.prove(inputs, public, check=False)
        print(f"{name}: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    verify(key, layout.circuit, public, proof, instances=paths)
    print(f"verify in Python: {time.perf_counter() - start:.2f} s; {len(proof)} bytes")
    verifier = Verifier(chosen.device, key, layout.circuit, instances=paths)
    for name in ("verify, kernels compiled or read from the cache", "verify again"):
        start = time.perf_counter()
        verifier.verify(public, proof)
        print(f"{name}: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
