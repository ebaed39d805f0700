"""The factors between the passes of a transform, and their tables on the device.

A descending pass over rows S = 2**s apart, R = 2**l of them, does the levels of s + l down to s + 1
bits. In column c its butterflies multiply by powers of the root v of order R*S that are the powers
in column 0 times factors which depend on the column only, and those can wait for the end of the
pass: row j is multiplied there by ``v**(c * rev(j))``, where rev reverses l bits. An ascending pass
is that backwards.

A transform may also multiply element i of its natural order by g**i, or by h**i, where the i-th
stands at position rev(i) of its bit-reversed order. The digit of the index that belongs to a pass
decides on a factor of its rows, and so nearly all of that joins the factors above:

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
    """A transform of 2**log_size points: all that its tables depend on.

    `root` has that order. `natural` and `backwards` are the bases of the powers by which the
    natural and the bit-reversed side are multiplied, `scale` is a factor of all elements.
    """

    modulus: Modulus
    log_size: int
    direction: Direction
    root: int
    natural: int = 1
    backwards: int = 1
    scale: int = 1

    def root_of_order(self, log_order: int) -> int:
        """The root of order 2**log_order, at most that of the transform."""
        return pow(self.root, 1 << (self.log_size - log_order), self.modulus.value)


@frozen
class PassFactors:
    """The factors of one pass.

    `outer` are one a row, or none. `starts` are inner factors in column 0, one a row, or none, and
    `ratios` what they are multiplied by from one column to the next, in a pass with S > 1.
    """

    outer: Sequence[int]
    starts: Sequence[int]
    ratios: Sequence[int]


def factors_of_pass(transform: Transform, log_rows: int, log_stride: int) -> PassFactors:
    """The factors of the pass over 2**log_rows rows 2**log_stride apart."""
    p, above = transform.modulus.value, transform.log_size - log_rows - log_stride
    uppermost, lowest = above == 0, log_stride == 0
    natural = transform.natural if uppermost else 1
    scale = transform.scale if uppermost else 1
    rows = 1 << log_rows
    order = [int(row) for row in bit_reversal(log_rows)]
    outer: list[int] = []
    if natural != 1:
        first = scale if lowest else 1
        outer = powers(pow(natural, 1 << log_stride, p), rows, p, first)
        scale = 1 if lowest else scale
    base = pow(transform.backwards, 1 << above, p)
    starts = powers(base, rows, p, scale)
    if lowest:
        trivial = base == 1 and scale == 1
        return PassFactors(outer, [] if trivial else [starts[row] for row in order], [])
    root = transform.root_of_order(log_rows + log_stride)
    ratios = powers(root, rows, p, natural)
    return PassFactors(outer, [starts[row] for row in order], [ratios[row] for row in order])


def powers(base: int, count: int, p: int, first: int = 1) -> list[int]:
    """`count` powers of `base`, from the one with exponent 0, times `first`."""
    found = []
    for _ in range(count):
        found.append(first)
        first = first * base % p
    return found


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
    """table[row][column] = starts[row] * ratios[row]**column, in Montgomery form.

    Column numbers have `bits` bits. `groups_each` workgroups fill a row.
    """
    f = prime_field(k, modulus)
    lanes = k.workgroup_size
    row, part = k.workgroup_id() // groups_each, k.workgroup_id() % groups_each
    first = part * (lanes * RUN) + k.local_id()
    ratio = f.carried(f.load(ratios, row))
    state = (f.carried(f.load(starts, row)), ratio)
    with k.range(0, bits, carry=state) as loop:
        value, power = loop.carried
        chosen = ((first >> loop.index) & 1) != 0
        product = f.carried(value * power)
        loop.next((f.select(chosen, product, value), f.carried(f.square(power))))
    step = f.square_times(ratio, lanes.bit_length() - 1)
    start = row.cast(types.u64) * columns.cast(types.u64)
    with k.range(0, RUN, carry=loop.results[0]) as run:
        column = first + run.index * lanes
        with k.if_(column < columns):
            f.store(table, start + column.cast(types.u64), run.carried)
        run.next(f.carried(run.carried * step))


def build_table(device: AnyDevice, modulus: Modulus, integers: Sequence[int]) -> Buffer:
    """A table of factors known to the host."""
    return device.upload(from_integers(modulus, integers))


def build_progressions(
    device: AnyDevice, modulus: Modulus, starts: Sequence[int], ratios: Sequence[int], columns: int
) -> Buffer:
    """A row of `columns` factors for each start and ratio."""
    table = device.allocate(len(starts) * columns * modulus.bytes, zero=False)
    compiled = device.compile(fill_progressions, modulus=modulus)
    groups_each = -(-columns // (device.lanes * RUN))
    device.launch(
        compiled, len(starts) * groups_each, table, build_table(device, modulus, starts),
        build_table(device, modulus, ratios), columns, (columns - 1).bit_length(), groups_each,
    )  # fmt: skip
    return table
