"""What permutations over a field are computed with: wires of a program, or numbers on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from quod.layered.program import Program


class Ring(Protocol):
    """Sums and powers of values of one kind."""

    def sum(self, values: Iterable[Any], weights: Sequence[int] | None = None) -> Any:
        """The sum of values, each times its weight."""
        ...

    def power(self, value: Any, exponent: int) -> Any:
        """A value to a power."""
        ...


class Wires:
    """The values of a program."""

    def __init__(self, program: Program) -> None:
        self.sum = program.sum

    def power(self, value: Any, exponent: int) -> Any:
        return value**exponent


class Numbers:
    """Integers below p, or arrays of them that hold products."""

    def __init__(self, p: int) -> None:
        self._p = p

    def sum(self, values: Iterable[Any], weights: Sequence[int] | None = None) -> Any:
        total: Any = 0
        for place, value in enumerate(values):
            total = total + (value if weights is None else value * (weights[place] % self._p))
            total = total % self._p
        return total

    def power(self, value: Any, exponent: int) -> Any:
        result = value
        for _ in range(exponent - 1):
            result = result * value % self._p
        return result
