"""Tables of twiddles on a CPU.

In a transform on the coset g<w>, level t of a pass whose rows are S apart multiplies row j of the
lower half of a block of 2**(t+1) rows, in column c, by ``g**(n/2H) * v**(j*S + c)``, where
H = S * 2**t and v is the root of order 2H. The table includes the coset's factor, which therefore
costs nothing.

A *row table* is for a pass without columns (S = 1): entry ``2**t + j`` is the twiddle of level t,
row j. A *column table* lists the twiddles of each block of columns, one per lane, in the order of
their use, step by step and row by row. It has only the first twiddle f of a step's highest level:
the others are powers of f, by squaring, times eighth roots of unity.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quod.device.memory.buffer import Buffer
from quod.device.protocol import HostDevice
from quod.field.array import Words, from_integers
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.frozen import frozen
from quod.kernel import U64, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.ntt.rows import array_bytes, entry_bytes, entry_offset, lanes_of, store_limbs
from quod.ntt.steps import records_before, steps_of
from quod.ntt.tables import store_of

if TYPE_CHECKING:
    from quod.field.element import Element
    from quod.field.prime import PrimeField
    from quod.kernel.builder.builder import Builder

RUN = 32
"""Entries that an instance computes by successive products; it computes the first by squaring."""


@frozen
class Domain:
    """The coset shift * <root> with 2**log_size points of a prime field."""

    modulus: Modulus
    log_size: int
    root: int
    shift: int

    def level(self, log_half: int) -> tuple[int, int]:
        """Return g**(n/2H) and the root of order 2H, for H = 2**log_half."""
        exponent = 1 << (self.log_size - log_half - 1)
        p = self.modulus.value
        return pow(self.shift, exponent, p), pow(self.root, exponent, p)


@kernel
def to_limbs(
    k: Builder, elements: Pointer[U64], table: Pointer[U64], count: U64, *, modulus: Modulus
) -> None:
    """Convert elements in Montgomery form to a table of limbs."""
    f = prime_field(k, modulus)
    entry = k.minimum(k.global_id().cast(types.u64), count - 1)
    limbs = _table_limbs(f, f.load(elements, entry) * _to_native(f))
    store_limbs(k, table, entry_offset(k, f, entry), limbs)


@kernel
def fill_column_table(
    k: Builder,
    table: Pointer[U64],
    powers: Pointer[U64],
    columns: U64,
    rows: U64,
    bits: U64,
    start: U64,
    records: U64,
    *,
    modulus: Modulus,
) -> None:
    """Fill the records of one step in a column table with c * b**(row * columns + column).

    powers: c, b**columns, then b**(2**i) for i below `bits`, in Montgomery form.
    records: records per block of columns; a record has one entry per lane.
    start: the index of this step's first record in a block.

    A workgroup fills up to RUN rows of one block.
    """
    f = prime_field(k, modulus)
    lanes = k.workgroup_size
    group, lane = k.workgroup_id().cast(types.u64), k.local_id().cast(types.u64)
    runs = (rows + (RUN - 1)) // RUN
    block, first_row = group // runs, (group % runs) * RUN
    exponent = first_row * columns + block * lanes + lane
    scaled = f.load(powers, 0) * _to_native(f)
    value = multiplied_by_power(k, f, scaled, powers, exponent, bits)
    step = f.load(powers, 1)
    with k.range(first_row, k.minimum(first_row + RUN, rows), carry=value) as run:
        record = block * records + start + run.index
        offset = record * (lanes * f.limb_count) + lane
        store_limbs(k, table, offset, _table_limbs(f, run.carried))
        run.next(f.bounded(run.carried * step))


def multiplied_by_power(
    k: Builder, f: PrimeField, value: Element, powers: Value, exponent: Value, bits: Value
) -> Element:
    """Return value * b**exponent for an exponent of `bits` bits; powers[2 + i] is b**(2**i)."""
    with k.range(k.constant(0, types.u64), bits, carry=f.bounded(value)) as loop:
        bit_is_set = ((exponent >> loop.index) & 1) != 0
        product = f.bounded(loop.carried * f.load(powers, loop.index + 2))
        loop.next(f.select(bit_is_set, product, loop.carried))
    product_of_powers: Element = loop.results
    return product_of_powers


def factors_by_squaring(modulus: Modulus, first: int, base: int, step: int, bits: int) -> Words:
    """Return first, base**step, then base**(2**i) for i below `bits`, as a `factor_array`."""
    p = modulus.value
    integers = [first, pow(base, step, p)]
    for _ in range(bits):
        integers.append(base)
        base = base * base % p
    return factor_array(modulus, integers)


def _to_native(f: PrimeField) -> Element:
    """Return the factor that converts from the Montgomery radix in memory to that of products."""
    return f.constant(1 << (f.native_exponent - f.memory_exponent))


def _table_limbs(f: PrimeField, value: Element) -> Element:
    """Return canonical limbs, in the radix of products, of an element times `_to_native`."""
    return f.from_words(f.to_words(value), linear=True)


def factor_array(modulus: Modulus, integers: Sequence[int]) -> Words:
    """Convert factors to Montgomery form, padded to whole 64-bit words."""
    return from_integers(modulus, [*integers, *[0] * (len(integers) % 2)])


def build_row_table(device: HostDevice, domain: Domain, log_rows: int) -> Buffer:
    """Build the row table of a pass over 2**log_rows neighbouring rows."""
    p = domain.modulus.value
    integers = [1]
    for level in range(log_rows):
        value, root = domain.level(level)
        for _ in range(1 << level):
            integers.append(value)
            value = value * root % p
    table = device.allocate(row_table_bytes(device, domain.modulus, log_rows))
    lanes = lanes_of(device, domain.modulus)
    compiled = device.compile(to_limbs, lanes=lanes, modulus=domain.modulus)
    count = len(integers)
    words = from_integers(domain.modulus, integers)
    device.launch(compiled, -(-count // lanes), words, table, count)
    return table


def row_table_bytes(device: HostDevice, modulus: Modulus, log_rows: int) -> int:
    """Return the bytes of a row table."""
    return array_bytes(device, modulus, 1 << log_rows)


def build_column_table(
    device: HostDevice, domain: Domain, log_rows: int, log_columns: int
) -> Buffer:
    """Build the column table of a pass over 2**log_rows rows, 2**log_columns apart."""
    modulus = domain.modulus
    columns = 1 << log_columns
    table = device.allocate(column_table_bytes(device, modulus, log_rows, log_columns))
    lanes = lanes_of(device, modulus)
    compiled = device.compile(fill_column_table, lanes=lanes, modulus=modulus)
    for start, levels in steps_of(log_rows):
        first, root = domain.level(log_columns + start + levels - 1)
        bits, rows = log_columns + start, 1 << start
        workgroups = -(-rows // RUN) * (columns // lanes)
        device.launch(
            compiled, workgroups, table, factors_by_squaring(modulus, first, root, columns, bits),
            columns, rows, bits, records_before(start), records_before(log_rows),
        )  # fmt: skip
    return table


def column_table_bytes(
    device: HostDevice, modulus: Modulus, log_rows: int, log_columns: int
) -> int:
    """Return the bytes of a column table."""
    return (records_before(log_rows) << log_columns) * entry_bytes(device, modulus)


@frozen
class Tables:
    """The tables of a transform: the twiddles of each pass, lowest first, and `factors`.

    scale: the factor of the last pass.
    factors: scale, 1, then power i of the root of order 2h at index h + i, for h = 2 and 4.
    """

    domain: Domain
    scale: int
    twiddles: list[Buffer]
    factors: Words


def tables_of(device: HostDevice, domain: Domain, log_rows: list[int], scale: int) -> Tables:
    """Return the tables of a domain and a split into passes, building those not cached."""
    store, twiddles, log_stride = store_of(device), [], 0
    for rows in log_rows:
        build = functools.partial(_build_table, device, domain, rows, log_stride)
        twiddles.append(store.find((domain, rows, log_stride), build))
        log_stride += rows
    return Tables(domain, scale, twiddles, _factors(domain, scale))


def tables_bytes(device: HostDevice, modulus: Modulus, log_rows: list[int]) -> int:
    """Return the bytes of a transform's tables."""
    total, log_stride = row_table_bytes(device, modulus, log_rows[0]), log_rows[0]
    for rows in log_rows[1:]:
        total += column_table_bytes(device, modulus, rows, log_stride)
        log_stride += rows
    return total


def _build_table(device: HostDevice, domain: Domain, log_rows: int, log_stride: int) -> Buffer:
    if log_stride:
        return build_column_table(device, domain, log_rows, log_stride)
    return build_row_table(device, domain, log_rows)


@functools.lru_cache(64)
def _factors(domain: Domain, scale: int) -> Words:
    """Return the scale, 1, then the powers of the roots of order 4 and 8 below half their order.

    Power i of the root of order 2h is at index h + i.
    """
    p = domain.modulus.value
    integers = [scale, 1] + [1] * 6
    for log_half in (1, 2):
        if domain.log_size > log_half:
            _, root = domain.level(log_half)
            for power in range(1 << log_half):
                integers[(1 << log_half) + power] = pow(root, power, p)
    return from_integers(domain.modulus, integers)
