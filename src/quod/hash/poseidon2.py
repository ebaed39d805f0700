"""Poseidon2 (Grassi, Khovratovich, Schofnegger, eprint 2023/323) with Plonky3's default parameters.

External layers mix blocks of four with circ(2, 3, 1, 1). Internal layers multiply by a matrix of
ones plus a diagonal. The constants come from the Grain LFSR of the paper. `permuted` is the
permutation of integers, `Poseidon2` that of elements inside kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.moduli import NAMED, Modulus
from quod.frozen import frozen
from quod.hash.grain import grain_numbers
from quod.kernel.builder.builder import Builder
from quod.names import NameTable

FULL_ROUNDS = 8


@frozen
class Poseidon2Parameters:
    """A permutation of `width` elements of `field`.

    exponent: an S-box is this power; partial rounds have an S-box in the first element only.
    diagonal: internal layers multiply by the matrix of ones plus this diagonal.
    """

    field: Modulus
    width: int
    exponent: int
    partial_rounds: int
    diagonal: tuple[int, ...]

    @cached_property
    def round_constants(self) -> list[list[int]]:
        """The constants of each round: one per element, but a single one in a partial round."""
        numbers = iter(grain(self.field.value, self.width, FULL_ROUNDS, self.partial_rounds))
        half = FULL_ROUNDS // 2
        sizes = [self.width] * half + [1] * self.partial_rounds + [self.width] * half
        return [[next(numbers) for _ in range(size)] for size in sizes]


def permuted(parameters: Poseidon2Parameters, state: Sequence[Any]) -> list[Any]:
    """Apply the permutation to integers below p, or to arrays of them.

    Arrays are int64 if p is below 2**31, otherwise of int. For int64 it is exact because no sum of
    products exceeds 2**63.
    """
    p, exponent, diagonal = parameters.field.value, parameters.exponent, parameters.diagonal
    values = _external(state)
    for constants in parameters.round_constants:
        if len(constants) == 1:
            first = _power((values[0] + constants[0]) % p, exponent, p)
            other_elements = [value % p for value in values[1:]]
            total = sum(other_elements, first)
            values = [
                (total + value * weight) % p
                for value, weight in zip([first, *other_elements], diagonal, strict=True)
            ]
        else:
            values = _external([
                _power((value + constant) % p, exponent, p)
                for value, constant in zip(values, constants, strict=True)
            ])  # fmt: skip
    return [value % p for value in values]


def _external(state: Sequence[Any]) -> list[Any]:
    """Apply the external layer without reduction; values grow by a factor of at most 56."""
    mixed: list[Any] = []
    for index in range(0, len(state), 4):
        a, b, c, d = state[index : index + 4]
        total = a + b + c + d
        mixed += [total + a + 2 * b, total + b + 2 * c, total + c + 2 * d, total + d + 2 * a]
    totals = [sum(mixed[index + 4 :: 4], mixed[index]) for index in range(4)]
    return [value + totals[index % 4] for index, value in enumerate(mixed)]


def _power(value: Any, exponent: int, p: int) -> Any:
    """Return the power of a value for an exponent of 3, 5 or 7."""
    square = value * value % p
    if exponent == 3:
        return square * value % p
    if exponent == 5:
        return square * square % p * value % p
    return square * square % p * square % p * value % p


class Poseidon2:
    """The permutation in one kernel; create it at the kernel's top, as its constants are tables.

    Each instance has its own state, and not all instances need to call it.
    """

    def __init__(self, k: Builder, parameters: Poseidon2Parameters) -> None:
        self._k, self._parameters = k, parameters
        self.field: Any = field_arithmetic(k, parameters.field, inlined=True)
        rounds = parameters.round_constants
        self._full = self.field.table([c for row in rounds if len(row) > 1 for c in row])
        self._partial = self.field.table([c for row in rounds if len(row) == 1 for c in row])

    def __call__(self, state: Sequence[Any]) -> list[Any]:
        """Return the state after the permutation, as loop-carried elements."""
        k, f = self._k, self.field
        half_rounds, width = FULL_ROUNDS // 2, self._parameters.width
        # One loop runs both halves of the full rounds; its first iteration also runs the partial
        # rounds.
        with k.range(0, 2, carry=tuple(self._external(state))) as halves:
            half_index = halves.index
            with k.range(0, half_rounds, carry=halves.carried) as full:
                first = (half_index * half_rounds + full.index) * width
                powers = [
                    self._power(value + f.load(self._full, first + index))
                    for index, value in enumerate(full.carried)
                ]
                full.next(tuple(self._external(powers)))
            count = self._parameters.partial_rounds * (1 - half_index)
            with k.range(0, count, carry=full.results) as partial:
                first, *other_elements = partial.carried
                powered = self._power(first + f.load(self._partial, partial.index))
                partial.next(tuple(self._internal([powered, *other_elements])))
            halves.next(partial.results)
        return list(halves.results)

    def _power(self, value: Any) -> Any:
        f, exponent = self.field, self._parameters.exponent
        value = f.bounded(value)
        square = f.bounded(f.square(value))
        if exponent == 3:
            return f.bounded(square * value)
        fourth = f.bounded(f.square(square))
        return f.bounded((fourth if exponent == 5 else f.bounded(fourth * square)) * value)

    def _external(self, state: Sequence[Any]) -> list[Any]:
        bounded = self.field.bounded
        mixed: list[Any] = []
        for index in range(0, len(state), 4):
            block = state[index : index + 4]
            a, b, c, d = block
            total = bounded(bounded(a + b) + bounded(c + d))
            mixed += [
                bounded(bounded(total + entry) + bounded(after + after))
                for entry, after in zip(block, (b, c, d, a), strict=True)
            ]
        totals = [self._sum(mixed[index::4]) for index in range(4)]
        return [bounded(value + totals[index % 4]) for index, value in enumerate(mixed)]

    def _internal(self, state: Sequence[Any]) -> list[Any]:
        bounded, total = self.field.bounded, self._sum(state)
        return [
            bounded(total + bounded(value * weight))
            for value, weight in zip(state, self._parameters.diagonal, strict=True)
        ]

    def _sum(self, values: Sequence[Any]) -> Any:
        bounded, parts = self.field.bounded, list(values)
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [bounded(a + b) for a, b in pairs]
        return parts[0]


@cache
def grain(p: int, width: int, full_rounds: int, partial_rounds: int) -> list[int]:
    """Return the constants of all rounds in order; a partial round has one constant."""
    numbers = (
        number for number in grain_numbers(p, width, full_rounds, partial_rounds) if number < p
    )
    return list(islice(numbers, full_rounds * width + partial_rounds))


def _named(
    name: str,
    exponent: int,
    partial_rounds: int,
    diagonal: Callable[[Callable[[int], int]], list[int]],
) -> Poseidon2Parameters:
    """Return the parameters for a named field.

    diagonal: returns the entries of the diagonal, given the function k -> 2**-k modulo p.
    """
    field = NAMED[name]
    p = field.value
    entries = tuple(entry % p for entry in diagonal(lambda power: pow(2, -power, p)))
    return Poseidon2Parameters(field, len(entries), exponent, partial_rounds, entries)


_M31 = [-2, *(1 << shift for shift in (*range(9), 10, 12, 13, 14, 15, 16))]

PARAMETERS = NameTable("quod.hash.poseidon2.PARAMETERS", "a permutation", {
    "m31": _named("m31", 5, 14, lambda h: _M31),
    "baby_bear": _named("baby_bear", 7, 13, lambda h: [
        -2, 1, 2, h(1), 3, 4, -h(1), -3, -4, h(8), h(2), h(3), h(27), -h(8), -h(4), -h(27),
    ]),
    "koala_bear": _named("koala_bear", 3, 20, lambda h: [
        -2, 1, 2, h(1), 3, 4, -h(1), -3, -4, h(8), h(3), h(24), -h(8), -h(3), -h(4), -h(24),
    ]),
    "goldilocks": _named("goldilocks", 7, 22, lambda h: [-2, 1, 2, h(1), 3, -h(1), -3, -4]),
})  # fmt: skip
"""Plonky3's permutations by the name of the field: of width 16, or 8 over Goldilocks."""
