"""Poseidon2 (Grassi, Khovratovich, Schofnegger, eprint 2023/323) as Plonky3 has it by default.

External layers mix blocks of four with circ(2, 3, 1, 1), internal ones are a matrix of ones and a
diagonal, and constants come from the Grain LFSR of the paper. The linear layers cost no layer of
their own: a round of cubes or fifth powers is one layer, one of seventh powers two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from quod.circuit.gadgets.arguments import wires_of
from quod.circuit.gadgets.permutation import Numbers, Ring, Wires
from quod.circuit.program import Program
from quod.circuit.wire import Wire
from quod.errors import InputError
from quod.field.moduli import NAMED, Modulus
from quod.frozen import frozen
from quod.names import NameTable
from quod.validation import instance, plain_array

FULL_ROUNDS = 8
_BLOCK = ((2, 3, 1, 1), (1, 2, 3, 1), (1, 1, 2, 3), (3, 1, 1, 2))


@frozen
class Poseidon2:
    """A permutation of `width` elements; `POSEIDON2` has those with a name."""

    field: Modulus
    width: int
    exponent: int
    partial_rounds: int
    diagonal: tuple[int, ...]

    def permute(self, program: Program, state: Sequence[Wire]) -> list[Wire]:
        """The permutation of wires."""
        self._check_field(program)
        values = wires_of("the state of Poseidon2", program, state, self.width)
        return self._permuted(Wires(program), values)

    def compress(self, program: Program, left: Sequence[Wire], right: Sequence[Wire]) -> list[Wire]:
        """Two digests of half the width to one: the first half of the permutation of both."""
        half = self.width // 2
        values = wires_of("the left digest", program, left, half)
        values += wires_of("the right digest", program, right, half)
        return self.permute(program, values)[:half]

    def permute_numbers(self, state: Sequence[Any]) -> list[Any]:
        """The same of integers; or of arrays of them, of int64 (p below 2**31) or of int."""
        numbers = self._numbers("the state", state, self.width)
        return self._permuted(Numbers(self.field.value), numbers)

    def compress_numbers(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """The same of digests that are numbers."""
        half = self.width // 2
        numbers = self._numbers("the left digest", left, half)
        numbers += self._numbers("the right digest", right, half)
        return self.permute_numbers(numbers)[:half]

    def _numbers(self, what: str, given: object, count: int) -> list[Any]:
        if not isinstance(given, (list, tuple)) or len(given) != count:
            raise InputError(f"{what} is a list of {count} numbers")
        for value in given:
            if type(value) is not int:
                if plain_array(what, value).dtype.kind not in "iuO":
                    raise InputError(f"{what} is made of integers, not {value.dtype}")
        return [value % self.field.value for value in given]

    def _permuted(self, ring: Ring, state: list[Any]) -> list[Any]:
        constants = iter(grain(self.field.value, self.width, FULL_ROUNDS, self.partial_rounds))
        state = self._external(ring, state)
        for number in range(FULL_ROUNDS + self.partial_rounds):
            at = number - FULL_ROUNDS // 2
            if 0 <= at < self.partial_rounds:
                first = ring.power(ring.sum([state[0], next(constants)]), self.exponent)
                rest = state[1:]
                total = ring.sum([first, *rest])
                state = [
                    ring.sum([total, value], (1, weight))
                    for value, weight in zip([first, *rest], self.diagonal, strict=True)
                ]
            else:
                state = [
                    ring.power(ring.sum([value, next(constants)]), self.exponent) for value in state
                ]
                state = self._external(ring, state)
        return state

    def _external(self, ring: Ring, state: list[Any]) -> list[Any]:
        mixed = [
            ring.sum(state[start : start + 4], row)
            for start in range(0, self.width, 4)
            for row in _BLOCK
        ]
        totals = [ring.sum(mixed[at::4]) for at in range(4)]
        return [ring.sum([value, totals[at % 4]]) for at, value in enumerate(mixed)]

    def _check_field(self, program: Program) -> None:
        instance("the program of a gadget", program, Program, "Program(field) makes one")
        if program.field != self.field:
            raise InputError(
                f"this Poseidon2 is over {self.field.name}, the program over {program.field.name}"
            )


@cache
def grain(p: int, width: int, full_rounds: int, partial_rounds: int) -> list[int]:
    """The constants of the rounds in their order; a partial round has one.

    The LFSR of Poseidon (Grassi et al., eprint 2019/458, appendix E) for an odd power.
    """
    parameters = (
        (1, 2), (0, 4), (p.bit_length(), 12), (width, 12), (full_rounds, 10), (partial_rounds, 10),
    )  # fmt: skip
    text = "".join(f"{value:0{bits}b}" for value, bits in parameters) + "1" * 30
    # The first bit is the lowest.
    register = int(text[::-1], 2)

    def step() -> int:
        nonlocal register
        taps = (62, 51, 38, 23, 13, 0)
        new = sum(register >> tap for tap in taps) & 1
        # The sum of the lowest bits is their exclusive or in its lowest bit.
        register = register >> 1 | new << 79
        return new

    def bit() -> int:
        while True:
            keep, found = step(), step()
            if keep:
                return found

    def element() -> int:
        while True:
            number = int("".join(str(bit()) for _ in range(p.bit_length())), 2)
            if number < p:
                return number

    for _ in range(160):
        step()
    return [element() for _ in range(full_rounds * width + partial_rounds)]


def _named(
    name: str,
    exponent: int,
    partial_rounds: int,
    diagonal: Callable[[Callable[[int], int]], list[int]],
) -> Poseidon2:
    """`diagonal` takes the function that gives 2**-k."""
    field = NAMED[name]
    p = field.value
    entries = tuple(entry % p for entry in diagonal(lambda power: pow(2, -power, p)))
    return Poseidon2(field, len(entries), exponent, partial_rounds, entries)


_M31 = [-2, *(1 << shift for shift in (*range(9), 10, 12, 13, 14, 15, 16))]

POSEIDON2 = NameTable("quod.circuit.gadgets.POSEIDON2", "a permutation", {
    "m31": _named("m31", 5, 14, lambda h: _M31),
    "baby_bear": _named("baby_bear", 7, 13, lambda h: [
        -2, 1, 2, h(1), 3, 4, -h(1), -3, -4, h(8), h(2), h(3), h(27), -h(8), -h(4), -h(27),
    ]),
    "koala_bear": _named("koala_bear", 3, 20, lambda h: [
        -2, 1, 2, h(1), 3, 4, -h(1), -3, -4, h(8), h(3), h(24), -h(8), -h(3), -h(4), -h(24),
    ]),
    "goldilocks": _named("goldilocks", 7, 22, lambda h: [-2, 1, 2, h(1), 3, -h(1), -3, -4]),
})  # fmt: skip
"""Plonky3's, by the names of the fields: of width 16, over Goldilocks of width 8."""
