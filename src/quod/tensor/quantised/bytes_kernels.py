"""Products of blocks with 8-bit activations: integer products, then f32 sums in a fixed order.

Activations are quantised in blocks of 32 to signed bytes, a scale and a sum each (as ggml's Q8_1).
No operation depends on how a device rounds a quotient. If compilers do not fuse products with sums
on their own, all devices give the same bits.
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

_MIN_EXPONENT = 16
"""Blocks whose largest element has a smaller biased f32 exponent are stored as zeros."""
_INFINITY_EXPONENT = 255
_NAN = 0x7FC00000

LANES = 32
"""Instances that share a row; the order of sums depends on this number."""


def _inverse(k: Builder, largest: Value) -> Value:
    """Return 254 / largest, rounded down to 24 bits by integer division.

    largest: The bits of an f32 with a biased exponent from 16 to 254.

    Devices round quotients of f32 differently in WGSL, so this divides integers.
    """
    mantissa, exponent = largest & 0x7FFFFF | 0x800000, largest >> 23
    remainder, quotient = k.constant(254 << 24, u32), k.constant(0, u32)
    # largest is mantissa * 2^(exponent - 150); the quotient becomes 254 * 2^40 / mantissa.
    for _ in range(3):
        quotient = quotient << 8 | remainder // mantissa
        remainder = (remainder % mantissa) << 8
    number = (quotient >> 1).cast(f32) * k.constant(2.0**-23, f32)
    return number * k.bitcast((261 - exponent) << 23, f32)


def _quantise(
    k: Builder, n: Value, x: Value, words: Value, scales: Value, sums: Value, *, element: Type,
    vector: int,
) -> None:  # fmt: skip
    """Quantise n blocks of 32 elements, one block per instance.

    Stores 8 words of four signed bytes, a scale and the sum of the bytes. With a the largest
    absolute value, the scale is a / 127, and x becomes (floor(254 x / a) + 1) / 2 rounded down, the
    integer nearest to 127 x / a. Bytes, sum and scale are 0 if a is below 2^-111. The scale is NaN
    if an element is infinite or NaN.
    """
    block, accesses = k.global_id(), Accesses(k, element, vector)
    with k.if_(block < n):
        pointer_to_x, first = accesses.of(x), block * (BYTES // vector)
        values = [
            v
            for offset in range(BYTES // vector)
            for v in accesses.load(pointer_to_x, first + offset)
        ]
        largest = k.constant(0, u32)
        for value in values:
            largest = k.maximum(largest, k.bitcast(value, u32) & 0x7FFFFFFF)
        exponent = largest >> 23
        finite, is_large_enough = exponent < _INFINITY_EXPONENT, exponent >= _MIN_EXPONENT
        is_regular = finite & is_large_enough
        inverse = _inverse(k, k.select(is_regular, largest, k.constant(0x3F800000, u32)))
        byte_sum, encoded = k.constant(0, i32), []
        for value in values:
            doubled = k.floor(k.select(is_regular, value, k.constant(0.0, f32)) * inverse).cast(i32)
            integer = (doubled + 1) >> 1
            byte_sum = byte_sum + integer
            encoded.append(integer.cast(u32) & 255)
        packed = [
            encoded[offset]
            | encoded[offset + 1] << 8
            | encoded[offset + 2] << 16
            | encoded[offset + 3] << 24
            for offset in range(0, BYTES, 4)
        ]
        words_per_store = 1 if vector == 1 else 4
        for offset in range(0, len(packed), words_per_store):
            k.store(
                words, block * (BYTES // 4) + offset, *packed[offset : offset + words_per_store]
            )
        scale = k.bitcast(largest, f32) * k.constant(1 / 127, f32)
        scale = k.select(is_large_enough, scale, k.constant(0.0, f32))
        # As bits, because WGSL has no NaN constant.
        scales[block] = k.bitcast(k.select(finite, k.bitcast(scale, u32), _NAN), f32)
        sums[block] = byte_sum


def _multiply(
    k: Builder, m: Value, n: Value, blocks_per_row: Value, blocks: Value, words: Value,
    scales: Value, sums: Value, y: Value, *, form: str, at_once: int, batch: int,
) -> None:  # fmt: skip
    """Y = X times the transposed matrix, with X in bytes.

    A workgroup has `at_once` rows of the matrix and `batch` rows of X; an instance has every 32nd
    group of these rows. 32 elements contribute
    scale of x * (scale * sum of products - minimum * (less * sum of x)). The two sums and `less`
    are integers; the other operations are in f32.
    """
    decoder, lane = QUANTISED_TYPES[form].packed_decoder(), k.local_id()
    sum_buffer = room_for_sums(k, at_once * batch)
    row_groups = (n + (at_once - 1)) // at_once
    first_row = k.workgroup_id() % row_groups * at_once
    first_x = k.workgroup_id() // row_groups * batch
    # Rows beyond the last are clamped, and not stored.
    rows = [k.minimum(first_row + index, n - 1) * blocks_per_row for index in range(at_once)]
    groups = blocks_per_row * decoder.groups
    x_starts = [
        k.minimum(first_x + x_index, m - 1) * groups * decoder.runs for x_index in range(batch)
    ]
    zeros = tuple([k.constant(0.0, f32)] * (at_once * batch))
    with k.range(lane, groups, LANES, carry=zeros) as loop:
        totals = list(loop.carried)
        # Shifts, because assemblers expand divisions.
        block, group = loop.index >> log2(decoder.groups), loop.index & (decoder.groups - 1)
        runs = [decoder.decode(k, blocks, row + block, group) for row in rows]
        for index, start in enumerate(x_starts):
            for run in range(decoder.runs):
                run_index = start + loop.index * decoder.runs + run
                bytes_of_x = [
                    word
                    for word_offset in range(0, BYTES // 4, 4)
                    for word in k.load(words, run_index * (BYTES // 4) + word_offset, 4)
                ]
                scale, sum_of_x = scales[run_index], sums[run_index]
                for matrix_row, row_runs in enumerate(runs, index * at_once):
                    value = _value(k, row_runs[run], bytes_of_x, sum_of_x)
                    totals[matrix_row] = totals[matrix_row] + scale * value
        loop.next(tuple(totals))
    reduced = sums_of_workgroup(k, list(loop.results), sum_buffer)
    for index, total in enumerate(reduced):
        y_column, y_row = first_row + index % at_once, first_x + index // at_once
        with k.if_((lane == 0) & (y_column < n) & (y_row < m)):
            y[y_row * n + y_column] = total


def _value(k: Builder, run: PackedRun, bytes_of_x: list[Value], sum_of_x: Value) -> Value:
    """Return what 32 elements contribute, before the scale of x; see `_multiply`."""
    factor_count = max(1, len(run.factors))
    words_per_factor, integer_sum = len(bytes_of_x) // factor_count, k.constant(0, i32)
    for factor_index in range(factor_count):
        products = k.constant(0, i32)
        for word_index in range(
            factor_index * words_per_factor, (factor_index + 1) * words_per_factor
        ):
            products = k.dot4(run.integers[word_index], bytes_of_x[word_index], products)
        integer_sum = integer_sum + (
            products * run.factors[factor_index] if run.factors else products
        )
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
