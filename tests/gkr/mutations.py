"""Proofs changed in one or more positions, which a verifier must reject."""

from __future__ import annotations

import random
from collections.abc import Iterator

from quod.field import FieldSpec


def mutated(field: FieldSpec, proof: bytes, seed: int) -> Iterator[bytes]:
    """Without end, proofs of the same length."""
    generator, size = random.Random(seed), field.modulus.bytes
    p = field.modulus.value
    while True:
        changed = bytearray(proof)
        for _ in range(generator.choice([1, 1, 1, 2, 5])):
            start = generator.randrange(len(proof) // size) * size
            span = slice(start, start + size)
            number = int.from_bytes(changed[span], "little")
            other = generator.choice([0, 1, p - 1, p, number + 1, number - 1, number + p,
                                      number ^ 1 << generator.randrange(8 * size),
                                      generator.randrange(p)])  # fmt: skip
            changed[span] = (other % (1 << 8 * size)).to_bytes(size, "little")
        if generator.randrange(8) == 0:
            # Parts of it change places.
            first, second = (generator.randrange(len(proof) // size) * size for _ in range(2))
            changed[first : first + size], changed[second : second + size] = (
                changed[second : second + size], changed[first : first + size],
            )  # fmt: skip
        if changed != proof:
            yield bytes(changed)
