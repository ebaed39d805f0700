"""Poseidon over BN254's scalar field as in circomlib: fifth powers, 2 to 17 elements.

Grassi, Khovratovich, Rechberger, Roy, Schofnegger, eprint 2019/458. The constants are those of the
paper's script, drawn from the Grain LFSR.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import islice

from quod.errors import InputError
from quod.field.moduli import BN254_FR
from quod.frozen import frozen
from quod.hash.arguments import element, elements
from quod.hash.grain import grain_numbers
from quod.validation import whole_number

FULL_ROUNDS = 8
PARTIAL_ROUNDS = (56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68)
"""The numbers of partial rounds for states of width 2, 3, ..."""

MAX_INPUTS = len(PARTIAL_ROUNDS)
_P = BN254_FR.value


@frozen
class PoseidonParameters:
    """The parameters of one width: round constants by round, and the rows of the MDS matrix."""

    width: int
    partial_rounds: int
    round_constants: tuple[tuple[int, ...], ...]
    matrix: tuple[tuple[int, ...], ...]

    def is_full(self, number: int) -> bool:
        """Return whether a round has an S-box in every element instead of only the first."""
        return not FULL_ROUNDS // 2 <= number < FULL_ROUNDS // 2 + self.partial_rounds


@cache
def poseidon_parameters(width: int) -> PoseidonParameters:
    """Return the parameters of a state of `width` elements, from 2 to 17."""
    width = whole_number("the width of Poseidon", width, 2, MAX_INPUTS + 1)
    partial_rounds = PARTIAL_ROUNDS[width - 2]
    numbers = grain_numbers(_P, width, FULL_ROUNDS, partial_rounds)
    canonical_numbers = (number for number in numbers if number < _P)
    constants = tuple(
        tuple(islice(canonical_numbers, width)) for _ in range(FULL_ROUNDS + partial_rounds)
    )
    # A Cauchy matrix. Its numbers are reduced modulo p; numbers from p on are not skipped.
    points = [next(numbers) % _P for _ in range(2 * width)]
    matrix = tuple(tuple(pow(x + y, -1, _P) for y in points[width:]) for x in points[:width])
    return PoseidonParameters(width, partial_rounds, constants, matrix)


def poseidon_hash(inputs: Sequence[int], *, initial: int = 0) -> int:
    """Return the hash of 1 to 16 elements; it depends on their order and number.

    initial: the first element of the state before the permutation; 0 except in chains.
    """
    return poseidon_outputs(inputs, 1, initial=initial)[0]


def poseidon_outputs(inputs: Sequence[int], count: int, *, initial: int = 0) -> list[int]:
    """Return the first `count` elements of the permutation of [initial, *inputs]."""
    state = [
        element("the initial element", initial, BN254_FR),
        *elements("an input of Poseidon", inputs, BN254_FR),
    ]
    if not 2 <= len(state) <= MAX_INPUTS + 1:
        raise InputError(f"Poseidon takes 1 to {MAX_INPUTS} inputs, not {len(state) - 1}")
    count = whole_number("count", count, 1, len(state))
    return _permuted(state)[:count]


def _permuted(state: list[int]) -> list[int]:
    parameters = poseidon_parameters(len(state))
    for number, constants in enumerate(parameters.round_constants):
        state = [value + constant for value, constant in zip(state, constants, strict=True)]
        power_count = len(state) if parameters.is_full(number) else 1
        state[:power_count] = [pow(value, 5, _P) for value in state[:power_count]]
        state = [
            sum(value * weight for value, weight in zip(state, row, strict=True)) % _P
            for row in parameters.matrix
        ]
    return state
