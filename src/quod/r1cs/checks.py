"""Checks of a witness: the constraints that fail, with their lines in the circuit's function."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from quod.errors import InputError
from quod.frozen import frozen
from quod.r1cs.names import path_name
from quod.r1cs.signal import source_line
from quod.r1cs.traced import Placement, TracedSystem

_DIGITS = 24
"""The length from which numbers are abbreviated in messages."""


@frozen
class Failure:
    """A constraint that fails: its index, namespace, line, and the values of A, B and C."""

    constraint: int
    namespace: str
    place: str
    a: int
    b: int
    c: int

    def __str__(self) -> str:
        inside = f" `{self.namespace}`" if self.namespace else ""
        a, b, c = map(_shown, (self.a, self.b, self.c))
        return f"constraint {self.constraint}{inside} ({self.place}): {a} * {b} != {c}"


class UnsatisfiedError(InputError):
    """A witness does not satisfy a circuit; `failures` lists the constraints that fail.

    constraints: the number of constraints of the circuit.
    where: the prefix of the message.
    """

    def __init__(self, failures: list[Failure], constraints: int, where: str = "") -> None:
        self.failures = failures
        others = len(failures) - 1
        summary = f", and {others} more of {constraints} constraints" if others else ""
        super().__init__(f"{where}{failures[0]}{summary}")


def failing_rows(system: TracedSystem, values: list[int]) -> list[int]:
    """Return the rows that fail; values are in the order of `quod.r1cs.witness_program.replay`."""
    failing = []
    for row in range(len(system.row_paths)):
        a, b, c = _sums(system, row, values)
        if (a * b - c) % system.prime:
            failing.append(row)
    return failing


def failures_of(
    system: TracedSystem, value_of: Callable[[int], int], rows: Iterable[int]
) -> list[Failure]:
    """Describe rows that fail; the system may have placements.

    value_of: returns the value of a wire of the system.
    """
    return [_failure(system, value_of, row) for row in rows]


def _failure(system: TracedSystem, value_of: Callable[[int], int], row: int) -> Failure:
    namespaces, placements = list[str](), list[Placement]()
    inner, inner_row = system, row
    while inner.placements:
        # The only placement that can have the row is the last one that begins at or before it.
        index = bisect_right(inner.placements, inner_row, key=lambda placement: placement.row)
        if not index:
            break
        placement = inner.placements[index - 1]
        end = placement.row + placement.block.system.rows
        if inner_row >= end:
            inner_row += placement.own_rows - end
            break
        placements.append(placement)
        namespaces.append(path_name(inner, placement.path))
        inner_row -= placement.row
        inner = placement.block.system
    namespaces.append(path_name(inner, inner.row_paths[inner_row]))

    def value(wire: int) -> int:
        for placement in reversed(placements):
            wire = placement.wire_of(wire)
        return value_of(wire)

    a, b, c = (
        sum([value(wire) * k for wire, k in zip(*inner.row(side, inner_row), strict=True)])
        % system.prime
        for side in range(3)
    )
    line = source_line(inner.row_codes[inner_row], inner.row_instructions[inner_row])
    return Failure(row, "/".join(filter(None, namespaces)), line, a, b, c)


def _sums(system: TracedSystem, row: int, values: list[int]) -> list[int]:
    return [_product(*system.row(side, row), values) for side in range(3)]


def _product(wires: Sequence[int], coefficients: Sequence[int], values: list[int]) -> int:
    """Return the sum of wires times coefficients; sums of one term take a shortcut."""
    if len(wires) == 1:
        return values[wires[0]] * coefficients[0]
    return sum(
        [values[wire] * coefficient for wire, coefficient in zip(wires, coefficients, strict=True)]
    )


def _shown(number: int) -> str:
    text = str(number)
    return text if len(text) <= _DIGITS else f"{text[:10]}...{text[-6:]}"
