"""Poseidon2 (`quod.hash.poseidon2`) as a sub-circuit.

The linear layers add no layer to the circuit. A round with cubes or fifth powers is one layer; a
round with seventh powers is two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.errors import InputError
from quod.frozen import fields_of, frozen
from quod.hash.poseidon2 import PARAMETERS, Poseidon2Parameters, permuted
from quod.layered.gadgets.arguments import wires_of
from quod.layered.program import Program
from quod.layered.wire import Wire
from quod.names import NameTable
from quod.validation import plain_array

_BLOCK = ((2, 3, 1, 1), (1, 2, 3, 1), (1, 1, 2, 3), (3, 1, 1, 2))


@frozen
class Poseidon2(Poseidon2Parameters):
    """A permutation of `width` elements; `POSEIDON2` has the named ones."""

    def permute(self, program: Program, state: Sequence[Wire]) -> list[Wire]:
        """Permute a state of `width` wires."""
        self._check_field(program)
        values = wires_of("the state of Poseidon2", program, state, self.width)
        return self._permuted(program, values)

    def compress(self, program: Program, left: Sequence[Wire], right: Sequence[Wire]) -> list[Wire]:
        """Compress two digests of width / 2 wires to one: the first half of the permuted state."""
        half = self.width // 2
        values = wires_of("the left digest", program, left, half)
        values += wires_of("the right digest", program, right, half)
        return self.permute(program, values)[:half]

    def permute_numbers(self, state: Sequence[Any]) -> list[Any]:
        """Permute a state of integers, or of arrays of int64 (p below 2**31) or Python integers."""
        return permuted(self, self._numbers("the state", state, self.width))

    def compress_numbers(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """Compress two digests of numbers; see `compress` and `permute_numbers`."""
        half = self.width // 2
        numbers = self._numbers("the left digest", left, half)
        numbers += self._numbers("the right digest", right, half)
        return self.permute_numbers(numbers)[:half]

    def _numbers(self, what: str, values: object, count: int) -> list[Any]:
        if not isinstance(values, (list, tuple)) or len(values) != count:
            raise InputError(f"{what} must be a list of {count} numbers")
        for value in values:
            if type(value) is not int:
                if plain_array(what, value).dtype.kind not in "iuO":
                    raise InputError(f"{what} must be integers, not {value.dtype}")
        return [value % self.field.value for value in values]

    def _permuted(self, program: Program, state: list[Wire]) -> list[Wire]:
        """Apply all rounds; a round with a single constant is an internal one."""
        state = self._external(program, state)
        for constants in self.round_constants:
            if len(constants) == 1:
                first = program.sum([state[0], *constants]) ** self.exponent
                others = state[1:]
                total = program.sum([first, *others])
                state = [
                    program.sum([total, value], (1, weight))
                    for value, weight in zip([first, *others], self.diagonal, strict=True)
                ]
            else:
                state = [
                    program.sum([value, constant]) ** self.exponent
                    for value, constant in zip(state, constants, strict=True)
                ]
                state = self._external(program, state)
        return state

    def _external(self, program: Program, state: list[Wire]) -> list[Wire]:
        """Apply the external linear layer: `_BLOCK` to each four values, plus sums over blocks."""
        products = [
            program.sum(state[start : start + 4], row)
            for start in range(0, self.width, 4)
            for row in _BLOCK
        ]
        totals = [program.sum(products[index::4]) for index in range(4)]
        return [program.sum([value, totals[index % 4]]) for index, value in enumerate(products)]

    def _check_field(self, program: Program) -> None:
        if program.field != self.field:
            raise InputError(
                f"this Poseidon2 is over {self.field.name}, but the program is over "
                f"{program.field.name}"
            )


POSEIDON2 = NameTable("quod.layered.gadgets.POSEIDON2", "a permutation", {
    name: Poseidon2(*fields_of(parameters).values()) for name, parameters in PARAMETERS.items()
})  # fmt: skip
"""Plonky3's permutations, by the names of their fields: width 16, over Goldilocks width 8."""
