"""Prove that many leaves are in one Merkle tree of Poseidon2 over M31, in one proof.

python examples/merkle_paths/prove.py --paths 10000 --depth 16 --device cpu
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from quod.bench.merkle_paths import path_circuit, random_paths
from quod.commitment import Ligero
from quod.field import EXTENSIONS
from quod.gkr import Prover, Verifier, VerifyingKey, security_bits, verify


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="one proof of many Merkle paths")
    parser.add_argument("--paths", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    paths = options.paths

    layout = path_circuit(options.depth)
    key = VerifyingKey.of(layout.circuit, EXTENSIONS["m31.4"], commitment=Ligero())
    bits = security_bits(layout.circuit, key.field, instances=paths, commitment=key.commitment)
    print(f"{len(layout.circuit.layers)} layers, {bits} bits, {paths} paths")

    values = random_paths(paths, options.depth)
    inputs = layout.inputs(values, instances=paths)
    public = layout.public(values, instances=paths)
    prover = Prover(options.device, key, layout.circuit, instances=paths)
    for name in ("prove, kernels compiled or read from the cache", "prove again"):
        start = time.perf_counter()
        proof = prover.prove(inputs, public, check=False)
        print(f"{name}: {time.perf_counter() - start:.2f} s")
    start = time.perf_counter()
    verify(key, layout.circuit, public, proof, instances=paths)
    print(f"verify in Python: {time.perf_counter() - start:.2f} s; {len(proof)} bytes")
    verifier = Verifier(options.device, key, layout.circuit, instances=paths)
    for name in ("verify, kernels compiled or read from the cache", "verify again"):
        start = time.perf_counter()
        verifier.verify(public, proof)
        print(f"{name}: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
