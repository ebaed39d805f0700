"""Lookups of table rows by their first columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.errors import InputError
from quod.layered.gadgets.arguments import wires_of
from quod.layered.program import Program
from quod.layered.table import Table
from quod.layered.wire import Wire


def lookup(
    program: Program, table: Table, wires: Sequence[Wire | int], name: str = "lookup"
) -> list[Wire]:
    """Look up the row that begins with the wires, and return its other columns as advice.

    Asserts that the wires and the advice are a row; the result is empty if the wires are a whole
    row. If several rows begin with the same values, an honest prover takes the first, but a prover
    may take another.
    """
    wires = wires_of("the values to look up", program, wires, least=1)
    table.check(program)
    width = len(wires)
    if width > table.width:
        raise InputError(f"{width} values are given for a row of a table of {table.width} columns")
    completion: list[Wire] = []
    if width < table.width:

        def complete(*values: Any) -> list[Any]:
            cells = iter(values[width:])
            index = table.index(program.field, lambda _: next(cells), width)
            return index.completed(values[:width])

        completion = program.advice(complete, [*wires, *table.wires], table.width - width)
    program.assert_in_table([*wires, *completion], table, name)
    return completion
