"""Poseidon over M31 as in Expander: width 16, fifth powers, 8 full and 14 partial rounds.

A round adds constants, multiplies by a circulant matrix and takes fifth powers: of all elements in
a full round, of the first element in a partial round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.errors import InputError
from quod.field.moduli import NAMED
from quod.hash.keccak import keccak_256
from quod.validation import shown_kind

FIELD = NAMED["m31"]
WIDTH = 16
RATE = 8
FULL_ROUNDS, PARTIAL_ROUNDS = 8, 14
ROW = (1, 1, 51, 1, 11, 17, 2, 1, 101, 63, 15, 2, 67, 22, 13, 3)
"""The first row of the matrix; row i is the row rotated to the left by i."""

_SEED = b"poseidon_seed_Mersenne 31_16"
_P = FIELD.value


def poseidon_m31_hash_numbers(message: Sequence[int]) -> list[int]:
    """Return the 16 elements of the digest of at least one integer; integers are reduced modulo p.

    The last block is padded with zeros and the length is not hashed, so messages that differ in
    trailing zeros have the same digest. Use messages of a fixed length.
    """
    if not isinstance(message, (list, tuple)) or not message:
        raise InputError(f"the message is a list of int, not {shown_kind(message)}")
    for value in message:
        if type(value) is not int:
            raise InputError(f"the message is made of int, not {shown_kind(value)}")
    state = [0] * WIDTH
    for start in range(0, len(message), RATE):
        for index, value in enumerate(message[start : start + RATE], WIDTH - RATE):
            state[index] = (state[index] + value) % _P
        state = permuted(state)
    return state


def permuted(state: Sequence[int]) -> list[int]:
    """Apply the permutation to 16 elements."""
    values = list(state)
    for number, constants in enumerate(round_constants()):
        added = [value + constant for value, constant in zip(values, constants, strict=True)]
        values = [
            sum(value * ROW[(column + row) % WIDTH] for column, value in enumerate(added)) % _P
            for row in range(WIDTH)
        ]
        power_count = powers_in(number)
        values[:power_count] = [pow(value, 5, _P) for value in values[:power_count]]
    return values


def powers_in(number: int) -> int:
    """Return the number of elements of which a round takes powers."""
    is_partial = FULL_ROUNDS // 2 <= number < FULL_ROUNDS // 2 + PARTIAL_ROUNDS
    return 1 if is_partial else WIDTH


@cache
def round_constants() -> list[list[int]]:
    """Return the constants of each round: four bytes of a Keccak-256 hash chain each, modulo p."""
    numbers, seed = [], keccak_256(_SEED)
    for _ in range((FULL_ROUNDS + PARTIAL_ROUNDS) * WIDTH):
        seed = keccak_256(seed)
        numbers.append(int.from_bytes(seed[:4], "little") % _P)
    return [numbers[start : start + WIDTH] for start in range(0, len(numbers), WIDTH)]
