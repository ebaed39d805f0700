"""Products of blocks with 8-bit activations: integer products, then f32 sums in a fixed order.

Activations are quantised in blocks of 32 to signed bytes, a scale and a sum each (as ggml's Q8_1).
No operation depends on how a device rounds a quotient or fuses a product with a sum, so that all
devices give the same bits, provided that compilers do not fuse on their own.
"""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import Builder, KernelDefinition, Value, f32, i32, pointer, u32
from quod.kernel.ir.types import Type, u8
from quod.tensor.accesses import Accesses
from quod.tensor.definitions import definition
from quod.tensor.matmul.kernel import TYPES
from quod.tensor.matmul.tiles import log2
from quod.tensor.quantised.packed import BYTES, PackedRun
from quod.tensor.quantised.product import room_for_sums, sums_of_workgroup
from quod.tensor.quantised.types.table import QUANTISED_TYPES

_LEAST = 16
"""The f32 exponent of a block's largest element below which the whole block is 0."""
_INFINITE = 255
_NAN = 0x7FC00000

LANES = 32
"""Instances that share a row; the order of sums depends on it."""


def _inverse(k: Builder, largest: Value) -> Value:
    """Return 254 / largest, rounded down to 24 bits by integer division.

    `largest` has an exponent from 16 to 254. WGSL does not round quotients alike everywhere.
    """
    mantissa, exponent = largest & 0x7FFFFF | 0x800000, largest >> 23
    remainder, quotient = k.constant(254 << 24, u32), k.constant(0, u32)
    for _ in range(3):
        quotient = quotient << 8 | remainder // mantissa
        remainder = (remainder % mantissa) << 8
    number = (quotient >> 1).cast(f32) * k.constant(2.0**-23, f32)
    return number * k.bitcast((261 - exponent) << 23, f32)


def _quantise(
    k: Builder, n: Value, x: Value, words: Value, scales: Value, sums: Value, *, element: Type,
    vector: int,
) -> None:  # fmt: skip
    """Quantise n blocks of 32 elements, one to an instance.

    Stores 8 words of four signed bytes, a scale and the sum of the bytes. With a the largest
    absolute value, the scale is a / 127, and a byte is (floor(254 x / a) + 1) / 2 rounded down: the
    nearest integer. All are 0 if a is below 2^-111, and the scale is NaN if an element is infinite
    or NaN.
    """
    block, accesses = k.global_id(), Accesses(k, element, vector)
    with k.if_(block < n):
        source, first = accesses.of(x), block * (BYTES // vector)
        values = [v for at in range(BYTES // vector) for v in accesses.load(source, first + at)]
        largest = k.constant(0, u32)
        for value in values:
            largest = k.maximum(largest, k.bitcast(value, u32) & 0x7FFFFFFF)
        exponent = largest >> 23
        finite, held = exponent < _INFINITE, exponent >= _LEAST
        usual = finite & held
        inverse = _inverse(k, k.select(usual, largest, k.constant(0x3F800000, u32)))
        total, encoded = k.constant(0, i32), []
        for value in values:
            doubled = k.floor(k.select(usual, value, k.constant(0.0, f32)) * inverse).cast(i32)
            number = (doubled + 1) >> 1
            total = total + number
            encoded.append(number.cast(u32) & 255)
        packed = [
            encoded[at] | encoded[at + 1] << 8 | encoded[at + 2] << 16 | encoded[at + 3] << 24
            for at in range(0, BYTES, 4)
        ]
        together = 1 if vector == 1 else 4
        for at in range(0, len(packed), together):
            k.store(words, block * (BYTES // 4) + at, *packed[at : at + together])
        scale = k.bitcast(largest, f32) * k.constant(1 / 127, f32)
        scale = k.select(held, scale, k.constant(0.0, f32))
        # As bits, because WGSL has no NaN constant.
        scales[block] = k.bitcast(k.select(finite, k.bitcast(scale, u32), _NAN), f32)
        sums[block] = total


def _multiply(
    k: Builder, m: Value, n: Value, blocks_per_row: Value, blocks: Value, words: Value,
    scales: Value, sums: Value, y: Value, *, form: str, at_once: int, batch: int,
) -> None:  # fmt: skip
    """Y = X times the transposed matrix, with X in bytes.

    A workgroup has `at_once` rows of the matrix and `batch` of X, and an instance every 32nd group
    of these. For 32 elements, with integers, factors and their sums as whole numbers, the term is
    scale of x * (scale * sum of products - minimum * (less * sum of x)), all in f32.
    """
    decoder, lane = QUANTISED_TYPES[form].packed_decoder(), k.local_id()
    room = room_for_sums(k, at_once * batch)
    across = (n + (at_once - 1)) // at_once
    first_row = k.workgroup_id() % across * at_once
    first_x = k.workgroup_id() // across * batch
    # Rows beyond the last are clamped, and not stored.
    rows = [k.minimum(first_row + number, n - 1) * blocks_per_row for number in range(at_once)]
    groups = blocks_per_row * decoder.groups
    x_starts = [
        k.minimum(first_x + number, m - 1) * groups * decoder.runs for number in range(batch)
    ]
    zeros = tuple([k.constant(0.0, f32)] * (at_once * batch))
    with k.range(lane, groups, LANES, carry=zeros) as loop:
        totals = list(loop.carried)
        # Shifts, because assemblers expand divisions.
        block, group = loop.index >> log2(decoder.groups), loop.index & (decoder.groups - 1)
        runs = [decoder.decode(k, blocks, row + block, group) for row in rows]
        for number, start in enumerate(x_starts):
            for run in range(decoder.runs):
                at = start + loop.index * decoder.runs + run
                bytes_of_x = [
                    word
                    for part in range(0, BYTES // 4, 4)
                    for word in k.load(words, at * (BYTES // 4) + part, 4)
                ]
                scale, sum_of_x = scales[at], sums[at]
                for row, of_row in enumerate(runs, number * at_once):
                    value = _value(k, of_row[run], bytes_of_x, sum_of_x)
                    totals[row] = totals[row] + scale * value
        loop.next(tuple(totals))
    reduced = sums_of_workgroup(k, list(loop.results), room)
    for number, total in enumerate(reduced):
        at_row, at_x = first_row + number % at_once, first_x + number // at_once
        with k.if_((lane == 0) & (at_row < n) & (at_x < m)):
            y[at_x * n + at_row] = total


def _value(k: Builder, run: PackedRun, bytes_of_x: list[Value], sum_of_x: Value) -> Value:
    parts = max(1, len(run.factors))
    each, integer_sum = len(bytes_of_x) // parts, k.constant(0, i32)
    for part in range(parts):
        products = k.constant(0, i32)
        for at in range(part * each, (part + 1) * each):
            products = k.dot4(run.integers[at], bytes_of_x[at], products)
        integer_sum = integer_sum + (products * run.factors[part] if run.factors else products)
    value = run.scale * integer_sum.cast(f32)
    if run.minimum is None or run.less is None:
        return value
    return value - run.minimum * (run.less * sum_of_x).cast(f32)


QUANTISE_ROWS = {
    element: definition(
        f"quantise_rows_{element}", _quantise, n=u32, x=pointer(element), words=pointer(u32),
        scales=pointer(f32), sums=pointer(i32),
    )
    for element in TYPES
}  # fmt: skip
"""The kernels that quantise activations, by their type."""


def products_of_bytes(name: str, body: Callable[..., None]) -> dict[Type, KernelDefinition]:
    """Define kernels that multiply activations in bytes, by result type."""
    return {
        element: definition(
            f"{name}_{element}", body, m=u32, n=u32, blocks_per_row=u32, blocks=pointer(u8),
            words=pointer(u32), scales=pointer(f32), sums=pointer(i32), y=pointer(element),
        )
        for element in TYPES
    }  # fmt: skip


MULTIPLY_BYTES = products_of_bytes("multiply_bytes", _multiply)
"""The kernels that multiply activations in bytes, by result type."""
