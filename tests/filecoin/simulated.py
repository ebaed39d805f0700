"""Groth16 keys with known secrets, under which proofs of any public inputs are simulated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from quod.curve.encoding.points import encode_zcash_g1, encode_zcash_g2
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.filecoin.nodes import P
from quod.filecoin.statements import Statement
from quod.groth16.tags import TEST_GAMMA

G1, G2 = g1_group(BLS12_381), g2_group(BLS12_381)


class SimulatedKey:
    """A verifying key whose secrets are known.

    test: whether its gamma is that of test keys; otherwise it looks like a ceremony's.
    """

    def __init__(self, public: int, *, test: bool = False, seed: int = 1) -> None:
        chance = random.Random(seed)
        self._alpha, self._beta, self._gamma, self._delta = (
            chance.getrandbits(64) for _ in range(4)
        )
        if test:
            self._gamma = TEST_GAMMA
        # Small, as their multiples are computed one by one.
        self._ic = [chance.randrange(2, 1 << 8) for _ in range(public + 1)]

    def write(self, path: Path) -> Path:
        """Write the key in bellman's format."""
        alpha, beta, gamma, delta = self._alpha, self._beta, self._gamma, self._delta
        parts = [_g1(alpha), _g1(beta), _g2(beta), _g2(gamma), _g1(delta), _g2(delta)]
        parts += [len(self._ic).to_bytes(4, "big"), *map(_g1, self._ic)]
        path.write_bytes(b"".join(parts))
        return path

    def prove(self, inputs: Sequence[int]) -> bytes:
        """Return a valid proof, without a witness."""
        a, b = 3, 5
        total = self._ic[0] + sum(x * y for x, y in zip(inputs, self._ic[1:], strict=True))
        product = a * b - self._alpha * self._beta - total * self._gamma
        c = product * pow(self._delta, -1, P) % P
        return b"".join((_g1(a, True), _g2(b, True), _g1(c, True)))

    def prove_statement(self, statement: Statement) -> bytes:
        """Return a valid proof of all partitions of a statement."""
        partitions = range(statement.partitions)
        return b"".join(self.prove(statement.public_inputs(each)) for each in partitions)


def _g1(scalar: int, compressed: bool = False) -> bytes:
    return encode_zcash_g1(G1.multiply(scalar, G1.generator), compressed=compressed)


def _g2(scalar: int, compressed: bool = False) -> bytes:
    return encode_zcash_g2(G2.multiply(scalar, G2.generator), compressed=compressed)
