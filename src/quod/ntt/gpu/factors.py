"""The factors between the passes of a transform, and their tables on the device.

A descending pass (decimation in frequency) over R = 2**l rows that are S = 2**s elements apart
computes the levels of s + l down to s + 1 bits. In column c the twiddles are those of column 0
times factors that depend only on the column. These factors are deferred to the end of the pass,
which multiplies row j by ``v**(c * rev(j))``, where v is the root of order R*S and rev reverses l
bits. An ascending pass (decimation in time) multiplies by them at its start.

A transform may also multiply element i of its natural order by g**i, or element i of its
bit-reversed order, which is at position rev(i), by h**i. Such a power is a product of one factor
per digit of i. The digit that is the row of a pass determines a factor of that row, so nearly all
of these products merge with the factors above:

    inner, S > 1:  scale * (v**c * h**(n/RS))**rev(j) * g**c      (g, scale: the uppermost pass)
    inner, S = 1:  h**(n/R * rev(j))
    outer:         g**(j*S)                                      (the uppermost pass)
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import from_integers
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.ntt.ordering import bit_reversal
from quod.ntt.steps import Direction
from quod.ntt.twiddles import RUN


@frozen
class Transform:
    """A transform of 2**log_size points; its tables depend on these fields only.

    root: of order 2**log_size.
    natural: g; the side (input or output) in natural order is multiplied by powers of g.
    backwards: h; the side in bit-reversed order is multiplied by powers of h.
    scale: a factor of all elements.
    """

    modulus: Modulus
    log_size: int
    direction: Direction
    root: int
    natural: int = 1
    backwards: int = 1
    scale: int = 1

    def root_of_order(self, log_order: int) -> int:
        """Return the root of order 2**log_order, which is at most that of the transform."""
        return pow(self.root, 1 << (self.log_size - log_order), self.modulus.value)


@frozen
class PassFactors:
    """The factors of one pass; an empty sequence stands for factors of 1.

    outer: outer factors, one per row.
    starts: inner factors in column 0, one per row.
    ratios: quotients of the inner factors of adjacent columns, one per row, if S > 1.
    """

    outer: Sequence[int]
    starts: Sequence[int]
    ratios: Sequence[int]


def factors_of_pass(transform: Transform, log_rows: int, log_stride: int) -> PassFactors:
    """Return the factors of the pass over 2**log_rows rows, 2**log_stride apart."""
    p, above = transform.modulus.value, transform.log_size - log_rows - log_stride
    uppermost, lowest = above == 0, log_stride == 0
    natural = transform.natural if uppermost else 1
    scale = transform.scale if uppermost else 1
    rows = 1 << log_rows
    reversed_rows = [int(row) for row in bit_reversal(log_rows)]
    outer: list[int] = []
    if natural != 1:
        first_factor = scale if lowest else 1
        outer = powers(pow(natural, 1 << log_stride, p), rows, p, first_factor)
        scale = 1 if lowest else scale
    base = pow(transform.backwards, 1 << above, p)
    starts = powers(base, rows, p, scale)
    if lowest:
        trivial = base == 1 and scale == 1
        return PassFactors(outer, [] if trivial else [starts[row] for row in reversed_rows], [])
    root = transform.root_of_order(log_rows + log_stride)
    ratios = powers(root, rows, p, natural)
    return PassFactors(
        outer, [starts[row] for row in reversed_rows], [ratios[row] for row in reversed_rows]
    )


def powers(base: int, count: int, p: int, factor: int = 1) -> list[int]:
    """Return factor * base**i modulo p for i below `count`."""
    result = []
    for _ in range(count):
        result.append(factor)
        factor = factor * base % p
    return result


@kernel
def fill_progressions(
    k: Builder,
    table: Pointer[U64],
    starts: Pointer[U64],
    ratios: Pointer[U64],
    columns: U32,
    bits: U32,
    groups_each: U32,
    *,
    modulus: Modulus,
) -> None:
    """Fill table[row][column] = starts[row] * ratios[row]**column, in Montgomery form.

    bits: the number of bits of a column index.
    groups_each: workgroups that fill one row; each fills `RUN` * workgroup size columns.
    """
    f = prime_field(k, modulus)
    lanes = k.workgroup_size
    row, chunk = k.workgroup_id() // groups_each, k.workgroup_id() % groups_each
    first_column = chunk * (lanes * RUN) + k.local_id()
    ratio = f.bounded(f.load(ratios, row))
    state = (f.bounded(f.load(starts, row)), ratio)
    with k.range(0, bits, carry=state) as loop:
        value, power = loop.carried
        bit_is_set = ((first_column >> loop.index) & 1) != 0
        product = f.bounded(value * power)
        loop.next((f.select(bit_is_set, product, value), f.bounded(f.square(power))))
    step = f.square_times(ratio, lanes.bit_length() - 1)
    row_start = row.cast(types.u64) * columns.cast(types.u64)
    with k.range(0, RUN, carry=loop.results[0]) as run:
        column = first_column + run.index * lanes
        with k.if_(column < columns):
            f.store(table, row_start + column.cast(types.u64), run.carried)
        run.next(f.bounded(run.carried * step))


def build_table(device: AnyDevice, modulus: Modulus, integers: Sequence[int]) -> Buffer:
    """Upload integers, converted to Montgomery form, as a table."""
    return device.upload(from_integers(modulus, integers))


def build_progressions(
    device: AnyDevice, modulus: Modulus, starts: Sequence[int], ratios: Sequence[int], columns: int
) -> Buffer:
    """Compute starts[i] * ratios[i]**column on the device, row by row, for `columns` columns."""
    table = device.allocate(len(starts) * columns * modulus.bytes, zero=False)
    compiled = device.compile(fill_progressions, modulus=modulus)
    groups_each = -(-columns // (device.lanes * RUN))
    device.launch(
        compiled, len(starts) * groups_each, table, build_table(device, modulus, starts),
        build_table(device, modulus, ratios), columns, (columns - 1).bit_length(), groups_each,
    )  # fmt: skip
    return table
