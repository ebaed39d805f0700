"""The polynomial eq in two short tables, of the lower and the upper variables.

eq(w, x) is the product over all variables of w*x + (1 - w)*(1 - x). The factor of the variable that
a round binds is linear, and is kept apart from the round's polynomial (Gruen, "Some improvements
for the PIOP for ZeroCheck", eprint 2024/108). The product over the remaining variables comes from
the two tables. Each has, for every l, the eq table of its last l coordinates: entry 2**l + x is eq
of these at x. So one table serves all rounds, and no array has the hypercube's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value
from quod.sumcheck.structs import SumcheckSizes


def eq_table_entries(log_size: Any, log_low: Any) -> Any:
    """Return the number of entries of both tables of a point with log_size coordinates.

    log_low: the number of variables of the lower table.
    The arguments and the result are int, or values of a kernel.
    """
    # The number 1, of the type of the arguments.
    unit = log_low * 0 + 1
    return (unit << (log_low + 1)) + (unit << (log_size - log_low))


@kernel
def invert_points(
    k: Builder, n: U32, points: Pointer[U32], equality: Pointer[U32], *, field: FieldSpec
) -> None:
    """Set equality[2*i] = points[i] and equality[2*i + 1] = 1/points[i], for i < n.

    The inverse of 0 is 0.
    """
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < n):
        coordinate = f.load(points, i)
        f.store(equality, 2 * i, coordinate)
        f.store(equality, 2 * i + 1, f.inverse(coordinate))


@kernel(instances="n")
def equality_pyramids(
    k: Builder,
    n: U32,
    log_size: U32,
    log_low: U32,
    first: U32,
    points: Pointer[U32],
    equality: Pointer[U32],
    *,
    field: FieldSpec,
) -> None:
    """Fill both tables of several points, `n` entries in total, from `equality[first]` on.

    points: log_size elements per point.
    The lower table is of the last log_low coordinates. The upper one is of the coordinates before
    them, without the first coordinate, whose factor no round takes from a table.
    """
    f, i = field_arithmetic(k, field), k.global_id()
    with k.if_(i < n):
        one = k.constant(1, u32)
        low, high = one << (log_low + 1), one << (log_size - log_low)
        point, offset = i // (low + high), i % (low + high)
        is_low = offset < low
        entry = k.select(is_low, offset, offset - low)
        end = k.select(is_low, log_size, log_size - log_low)
        start = f.bounded(f.one())
        # The bits of an entry below its highest one are the hypercube point: the lowest bit is that
        # of the last coordinate.
        with k.while_((entry, end, start)) as loop:
            remaining, coordinate, product = loop.carried
            loop.check(remaining > 1)
            coordinate_value = f.load(points, point * log_size + coordinate - 1)
            factor = f.select(
                (remaining & 1) != 0, f.bounded(coordinate_value), f.bounded(1 - coordinate_value)
            )
            loop.next((remaining >> 1, coordinate - 1, f.bounded(product * factor)))
        f.store(equality, first + i, loop.results[2])


class Equality:
    """The two eq tables of one sumcheck, inside a kernel."""

    def __init__(self, f: Any, memory: Value, sizes: SumcheckSizes, number: Value) -> None:
        """Locate the tables of sumcheck `number` of a batch."""
        self._f, self._memory = f, memory
        log_size, log_low = sizes.log_size, sizes.log_low
        one = f.k.constant(1, log_low.type)
        low, high = one << (log_low + 1), one << (log_size - log_low)
        self._log_low = log_low
        self._low = 2 * sizes.batch * log_size + number * (low + high)
        self._high = self._low + low

    def low(self, variables: Value, index: Value) -> Any:
        """Load the lower table's factor of eq of the last `variables` variables at `index`."""
        k = self._f.k
        entry = k.constant(1, variables.type) << k.minimum(variables, self._log_low)
        return self._f.load(self._memory, self._low + entry + (index & (entry - 1)))

    def high(self, variables: Value, index: Value) -> Any:
        """Load the upper table's factor of eq of the last `variables` variables at `index`.

        It is 1 if all these variables belong to the lower table.
        """
        k = self._f.k
        levels = k.select(variables > self._log_low, variables - self._log_low, 0)
        entry = k.constant(1, variables.type) << levels
        upper = index >> k.minimum(variables, self._log_low)
        return self._f.load(self._memory, self._high + entry + upper)


def scaled_eq_table(f: Any, start: Any, point: Sequence[Any]) -> list[Any]:
    """Return `start` times the eq table of a point, in a kernel; first coordinate highest."""
    table = [start]
    for coordinate in point:
        pairs = [(parent, f.bounded(parent * coordinate)) for parent in table]
        table = [entry for parent, high in pairs for entry in (f.bounded(parent - high), high)]
    return table
