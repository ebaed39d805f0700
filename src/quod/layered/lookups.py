"""Lookups of a program as gates: sums of fractions (Haboeck, eprint 2022/1530).

Each looked up row f has the fraction 1 / D(f), each row t of the table the fraction m(t) / D(t).
Here m(t) is the number of lookups of t, and D(e) = c + e_0 + c_1 e_1 + c_2 e_2 + ... with
challenges c. All f are rows of the table if both sums are equal for all challenges. The difference
is summed pair by pair without a division: n0/d0 + n1/d1 = (n0 d1 + n1 d0) / (d0 d1). The last
numerator must be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from quod.errors import InputError
from quod.layered.layering import Levels
from quod.layered.nodes import AdviceFunction, Lookup
from quod.layered.table import Table
from quod.layered.wire import Owner, Wire, weighted_sum, wire_of

Fraction = tuple[Wire | int, Wire]
"""A numerator, and a denominator that is a single value of the program."""


class LookupProgram(Owner, Protocol):
    """The methods of a program that lookups use."""

    def advice(
        self, function: AdviceFunction, wires: Sequence[Wire | int], count: int
    ) -> list[Wire]:
        """Return inputs that a function computes."""
        ...

    def random(self) -> Wire:
        """Return a challenge."""
        ...


def sums_of(program: LookupProgram, lookups: Sequence[Lookup], levels: Levels) -> list[Wire]:
    """Return a wire per table with lookups, which is 0 if all looked up rows are in the table.

    levels: the lowest layers of the program's values.
    InputError for as many lookups in a table as the field has elements, as counts would wrap.
    """
    groups: dict[tuple[Any, ...], list[Lookup]] = {}
    # Tables with equal rows are one table; the rows of each object are compared only once.
    by_table: dict[int, list[Lookup]] = {}
    for lookup in lookups:
        if (key := id(lookup.table)) not in by_table:
            by_table[key] = groups.setdefault(lookup.table.rows, [])
        by_table[key].append(lookup)
    challenge = program.random()
    max_width = max(lookup.table.width for lookup in lookups)
    factors = [program.random() for _ in range(max_width - 1)]
    return [
        _added(_fractions(program, group, challenge, factors), levels) for group in groups.values()
    ]


def _fractions(
    program: LookupProgram, lookups: Sequence[Lookup], challenge: Wire, factors: Sequence[Wire]
) -> list[Fraction]:
    """Return the fractions of lookups, and those of their table with the opposite sign."""
    table = lookups[0].table
    if len(lookups) >= program.field.value:
        raise InputError(
            f"{len(lookups)} lookups in a table need a field with more elements than "
            f"{program.field.name} has"
        )

    def denominator(row: Sequence[Wire | int]) -> Wire:
        products = [factor * cell for factor, cell in zip(factors, row[1:])]
        return weighted_sum(program, [challenge, row[0], *products]).as_value()

    rows = [[Wire(program, terms) for terms in lookup.row] for lookup in lookups]
    table_rows = [[wire_of(program, _of(program, cell)) for cell in row] for row in table.rows]
    counts = _multiplicities(program, rows, table)
    fractions: list[Fraction] = [(1, denominator(row)) for row in rows]
    fractions += [(-m, denominator(row)) for m, row in zip(counts, table_rows, strict=True)]
    return fractions


def _of(program: LookupProgram, cell: Wire | int) -> Wire | int:
    """Return a cell as a wire of this program, a copy of the program that the cell belongs to."""
    return Wire(program, cell.terms) if isinstance(cell, Wire) else cell


def _multiplicities(program: LookupProgram, rows: list[list[Wire]], table: Table) -> list[Wire]:
    """Return advice: the number of lookups of each row of the table."""
    field, width = program.field, table.width
    wires = [wire for row in rows for wire in row]
    lookup_cells = len(wires)

    def count_rows(*values: Any) -> list[Any]:
        cells = iter(values[lookup_cells:])
        index = table.index(field, lambda _: next(cells))
        return index.counted(
            [values[start : start + width] for start in range(0, lookup_cells, width)]
        )

    wires += [Wire(program, cell.terms) for cell in table.wires]
    return program.advice(count_rows, wires, len(table))


def _added(fractions: list[Fraction], levels: Levels) -> Wire:
    """Sum fractions pairwise, lowest layers first, and return the numerator."""
    waiting: dict[int, list[Fraction]] = {}
    for fraction in fractions:
        ((number,),) = fraction[1].terms
        waiting.setdefault(levels.of(number), []).append(fraction)
    level, remaining = min(waiting), len(fractions)
    while True:
        level_fractions = waiting.pop(level, [])
        level += 1
        if len(level_fractions) == remaining == 2:
            return _pair(*level_fractions)[0]
        sums = [
            _as_values(_pair(*pair)) for pair in zip(level_fractions[::2], level_fractions[1::2])
        ]
        remaining -= len(sums)
        waiting[level] = [*level_fractions[len(sums) * 2 :], *sums, *waiting.get(level, [])]


def _pair(first: Fraction, second: Fraction) -> tuple[Wire, Wire]:
    numerator = first[1] * second[0] + second[1] * first[0]
    return numerator, first[1] * second[1]


def _as_values(fraction: tuple[Wire, Wire]) -> Fraction:
    return fraction[0].as_value(), fraction[1].as_value()
