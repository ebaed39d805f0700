"""Products with the matrices of a circuit of repeated parts, in both directions.

An instance computes one row, or one column, of one copy of a part (`quod.r1cs.repetition.parts`).
Neighbouring instances compute the same row of neighbouring copies. They take the same branches and
read the same entries, which stay in cache. So most of the memory traffic is that of the vectors.
"""

from __future__ import annotations

from typing import Any

from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, Struct, kernel
from quod.kernel.ir.value import Value


class PartTables(Struct):
    """A matrix of a part, by rows or by columns, and the tables of the part's copies.

    Line l (a row or a column) has entries starts[l] to starts[l + 1] - 1; entry e is
    coefficients[numbers[e]] at index others[e] of the other direction.
    bases: (fixed + 1, copies); the wire of column c is bases[c, copy] below `fixed`, and
        bases[fixed, copy] + c - fixed from there on.
    rows: the index of each row within a copy; first_rows: the first row of each copy.
    coefficients: times R**2, where R is the Montgomery radix.
    """

    starts: Pointer[U32]
    others: Pointer[U32]
    numbers: Pointer[U32]
    bases: Pointer[U32]
    rows: Pointer[U32]
    first_rows: Pointer[U32]
    coefficients: Pointer[U64]


@kernel
def multiply_part_rows(
    k: Builder,
    count: U32,
    copies: U32,
    fixed: U32,
    offset: U32,
    tables: PartTables,
    vector: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Set out[offset + row] to the sum of coefficient * vector[wire] over each row of each copy.

    count: the number of rows of all copies. The vector is canonical, the sums are in Montgomery
    form.
    """
    f, lane = prime_field(k, modulus), k.global_id()
    with k.if_(lane < count):
        row, copy = lane // copies, lane % copies
        start, stop = k.load(tables.starts, row, 2)
        with k.range(start, stop, carry=f.loop_zero()) as loop:
            wire = _wire(k, tables, fixed, copies, copy, tables.others[loop.index])
            factor = f.load(vector, wire, linear=True)
            coefficient = f.load(tables.coefficients, tables.numbers[loop.index])
            loop.next(f.bounded(loop.carried + coefficient * factor))
        f.store(out, offset + tables.first_rows[copy] + tables.rows[row], loop.results)


@kernel
def add_part_columns(
    k: Builder,
    count: U32,
    copies: U32,
    fixed: U32,
    lines: Pointer[U32],
    tables: PartTables,
    row_values: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Add to out[wire] the sum of coefficient * row_values[row] over the wire's column.

    count: the number of columns of all copies; lines: the columns, all at least `fixed`.
    `row_values` is canonical, `out` in Montgomery form.
    """
    f, lane = prime_field(k, modulus), k.global_id()
    with k.if_(lane < count):
        line, copy = lane // copies, lane % copies
        total = _column_sum(k, f, tables, line, copy, row_values)
        wire = _wire(k, tables, fixed, copies, copy, lines[line])
        f.store(out, wire, f.bounded(f.load(out, wire, linear=True) + total))


@kernel
def sum_fixed_columns(
    k: Builder,
    count: U32,
    copies: U32,
    tables: PartTables,
    row_values: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Set out[lane] to the sum of coefficient * row_values[row] over a fixed column of a copy."""
    f, lane = prime_field(k, modulus), k.global_id()
    with k.if_(lane < count):
        total = _column_sum(k, f, tables, lane // copies, lane % copies, row_values)
        f.store(out, lane, total)


@kernel
def add_by_wire(
    k: Builder,
    count: U32,
    wires: Pointer[U32],
    starts: Pointer[U32],
    indices: Pointer[U32],
    sums: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Add to out[wires[i]] the sums[indices[j]] for starts[i] <= j < starts[i + 1]."""
    f, lane = prime_field(k, modulus), k.global_id()
    with k.if_(lane < count):
        start, stop = k.load(starts, lane, 2)
        with k.range(start, stop, carry=f.loop_zero()) as loop:
            loop.next(f.bounded(loop.carried + f.load(sums, indices[loop.index], linear=True)))
        wire = wires[lane]
        f.store(out, wire, f.bounded(f.load(out, wire, linear=True) + loop.results))


@kernel
def combine_columns(
    k: Builder,
    count: U32,
    first: U32,
    weights: Pointer[U64],
    wires: Pointer[U32],
    a: Pointer[U64],
    b: Pointer[U64],
    c: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
    indexed: bool,
) -> None:
    """Set out[i] to weights[0] * a + weights[1] * b + weights[2] * c of a wire, canonical.

    The wire is first + i, or wires[first + i] if `indexed`. The inputs are in Montgomery form.
    """
    f, i = prime_field(k, modulus), k.global_id()
    with k.if_(i < count):
        wire = wires[first + i] if indexed else first + i
        products = [
            f.load(weights, index) * f.load(array, wire, linear=True)
            for index, array in enumerate((a, b, c))
        ]
        total = f.bounded(products[0] + products[1] + products[2])
        # Times 1/R, the result is canonical instead of in Montgomery form.
        inverse_radix = f.constant(pow(modulus.montgomery_radix, -1, modulus.value))
        f.store(out, i, total * inverse_radix)


def _wire(
    k: Builder, tables: PartTables, fixed: Value, copies: Value, copy: Value, column: Value
) -> Value:
    """Return the wire of a column in a copy."""
    line = k.minimum(column, fixed)
    wire: Value = tables.bases[line * copies + copy] + (column - line)
    return wire


def _column_sum(
    k: Builder, f: PrimeField, tables: PartTables, line: Value, copy: Value, row_values: Any
) -> Any:
    """Return the sum over a column's entries in a copy, in Montgomery form."""
    start, stop = k.load(tables.starts, line, 2)
    first_row = tables.first_rows[copy]
    with k.range(start, stop, carry=f.loop_zero()) as loop:
        row = first_row + tables.rows[tables.others[loop.index]]
        coefficient = f.load(tables.coefficients, tables.numbers[loop.index])
        factor = f.load(row_values, row, linear=True)
        loop.next(f.bounded(loop.carried + coefficient * factor))
    return loop.results
