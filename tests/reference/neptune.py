"""Neptune's Poseidon on plain integers, in uncompressed form: keys, S-boxes, one dense matrix."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.moduli import BLS12_381_FR
from quod.hash.neptune import FULL_ROUNDS, PARTIAL_ROUNDS, round_keys

P = BLS12_381_FR.value


def neptune_hash(inputs: Sequence[int], tag: int) -> int:
    """Return element 1 of the state after all rounds."""
    state = [tag, *inputs]
    width, half = len(state), FULL_ROUNDS // 2
    matrix = [[pow(i + width + j, -1, P) for j in range(width)] for i in range(width)]
    for number, keys in enumerate(round_keys(len(inputs))):
        state = [(a + b) % P for a, b in zip(state, keys, strict=True)]
        is_partial = half <= number < half + PARTIAL_ROUNDS[len(inputs)]
        powers = [pow(a, 5, P) for a in state]
        state = [powers[0], *state[1:]] if is_partial else powers
        state = [
            sum(a * row[j] for a, row in zip(state, matrix, strict=True)) % P for j in range(width)
        ]
    return state[1]
