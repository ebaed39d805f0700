"""Products with quantised matrices: exact 64-bit sums, rounded, added or kept.

An instance has one row of the matrix and some tokens. Rows are stored in blocks of 16, so that
neighbouring instances load neighbouring words; the inputs of a token are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from quod.inference.transformer.kernels.arithmetic import (
    Planes,
    clamped,
    is_bytewise,
    overlap_launches,
    rounded,
)
from quod.kernel import I32, I64, U32, Builder, Pointer, Value, i32, i64, kernel, u32

ROW_BLOCK = 16
"""Rows of a matrix that are stored together."""
_HALF_OF_BYTE_PAIRS = 0x00FF00FF
_HALF_OF_NIBBLE_PAIRS = 0x000F000F
_LOW_NIBBLES = 0x0F0F0F0F


class Result(StrEnum):
    """The result that a product stores.

    ROUND: the rounded and saturated sum, i32.
    ADD: the residual stream with the rounded sum added, saturated, i32.
    SUM: the sum itself, i64.
    """

    ROUND = "round"
    ADD = "add"
    SUM = "sum"


_DotProduct = Callable[[Value, Value], Value]
"""Adds the products of two quants and a pair of 16-bit inputs to a sum, i32."""


def _dot_products(
    k: Builder, words: Value, index: Value, bits: int, group: int
) -> list[_DotProduct]:  # fmt: skip
    """Return the products with each pair of quants of a group, in the order of the columns."""
    products = list[_DotProduct]()
    for word_index in range(group * bits // 32):
        word = words[index + word_index * ROW_BLOCK]
        if bits == 16:
            products.append(_of_halves(k, word))
        elif is_bytewise(k.machine):
            if bits == 8:
                products += [_of_low_bytes(k, word), _of_low_bytes(k, word >> 16)]
                continue
            for quants in (word & _LOW_NIBBLES, word >> 4 & _LOW_NIBBLES):
                products += [_of_low_bytes(k, quants), _of_high_bytes(k, quants)]
        else:
            mask = _HALF_OF_NIBBLE_PAIRS if bits == 4 else _HALF_OF_BYTE_PAIRS
            for shift in range(0, 16, bits):
                products.append(_of_halves(k, (word >> shift if shift else word) & mask))
    return products


def _of_halves(k: Builder, quants: Value) -> _DotProduct:
    return lambda inputs, total: k.dot2(quants, inputs, total)


def _of_low_bytes(k: Builder, quants: Value) -> _DotProduct:
    return lambda inputs, total: k.dot2_low_bytes(inputs, quants, total)


def _of_high_bytes(k: Builder, quants: Value) -> _DotProduct:
    return lambda inputs, total: k.dot2_high_bytes(inputs, quants, total)


@kernel
def product(
    k: Builder, rows: U32, stride: U32, first_result: U32, tokens: U32, groups: U32, limit: I64,
    shifts: Pointer[U32], words: Pointer[U32], scales: Pointer[I32], minima: Pointer[I32],
    bias: Pointer[I64], x: Pointer[U32], x_sums: Pointer[I32], y: Pointer[I32],
    *, bits: int, group: int, planes: Planes, tile: int, parts: int,
    result: Result, has_bias: bool, has_sums: bool,
) -> None:  # fmt: skip
    """Multiply a matrix by the inputs of tokens; docs/integer-transformer.md, "Products".

    rows, groups: The rows of the matrix, and its groups of columns that share a scale.
    stride, first_result: The results of a token in y, and the first of them that is of this matrix.
    limit, shifts: Of the rounding; a shift for each block of rows. Not used for sums.
    words, scales, minima: The matrix in blocks of 16 rows. Scales and minima are at
        (block * groups + group) * 16 + row; words likewise, with several of each group. In a word,
        neighbouring columns are 16 bits apart; if products are with bytes, four are
        neighbouring bytes, or the low or high halves of such.
    x: Pairs of 16-bit inputs, by plane, token and column. An input is the sum of its planes, each
        times 2**bits of the one before.
    x_sums: The sums of the inputs of each group, by plane, token and group, with `has_sums`.
    y: The results, by token; i64 for sums.
    tile: The tokens of a workgroup. parts: The instances that share a row.
    """
    overlap_launches(k)
    lanes = k.workgroup_size // parts
    tiles = (tokens + (tile - 1)) // tile
    lane, part = k.local_id(), k.constant(0, u32)
    if parts > 1:
        lane, part = k.local_id() % lanes, k.local_id() // lanes
    first_row = k.workgroup_id() // tiles * lanes
    row = first_row + lane
    first_token = k.workgroup_id() % tiles * tile
    room = k.shared(i64, k.workgroup_size) if parts > 1 else None
    # `lanes` divides 16, so a workgroup is within a block.
    block, row_in_block = first_row // ROW_BLOCK, first_row % ROW_BLOCK + lane
    words_of_group, pairs_of_group = group * bits // 32, group // 2
    token_indices = [k.minimum(first_token + index, tokens - 1) for index in range(tile)]
    zeros = tuple([k.constant(0, i64)] * (tile * planes.count))
    with k.range(part, groups, parts, carry=zeros) as loop:
        totals = list(loop.carried)
        at = block * groups + loop.index
        first_word = at * (words_of_group * ROW_BLOCK) + row_in_block
        dot_products = _dot_products(k, words, first_word, bits, group)
        scale = scales[at * ROW_BLOCK + row_in_block].cast(i64)
        minimum = minima[at * ROW_BLOCK + row_in_block].cast(i64) if bits < 16 else None
        for plane in range(planes.count):
            for index, token in enumerate(token_indices):
                column = (token + plane * tokens) * groups + loop.index
                inputs = k.load(x, column * pairs_of_group, pairs_of_group)
                dot = k.constant(0, i32)
                for add_product, pair in zip(dot_products, inputs, strict=True):
                    dot = add_product(pair, dot)
                total = totals[plane * tile + index] + scale * dot.cast(i64)
                if minimum is not None:
                    x_sum = x_sums[column] if has_sums else _sum(k, inputs)
                    total = total - minimum * x_sum.cast(i64)
                totals[plane * tile + index] = total
        loop.next(tuple(totals))
    totals = list(loop.results)
    for index in range(tile):
        total = totals[index]
        for plane in range(1, planes.count):
            total = total + (totals[plane * tile + index] << (plane * planes.bits))
        if room is not None:
            room[k.local_id()] = total
            k.barrier()
            for other in range(1, parts):
                total = total + room[(k.local_id() + other * lanes) % (parts * lanes)]
            k.barrier()
        token = first_token + index
        with k.if_((row < rows) & (token < tokens) & (part == 0)):
            if has_bias:
                total = total + bias[row]
            at_result = token * stride + first_result + row
            if result is Result.SUM:
                y.cast(i64)[at_result] = total
            else:
                value = rounded(k, total, shifts[block])
                if result is Result.ADD:
                    value = value + y[at_result].cast(i64)
                y[at_result] = clamped(k, value, limit).cast(i32)


def _sum(k: Builder, pairs: Sequence[Value]) -> Value:
    """Return the sum of pairs of 16-bit integers, i32."""
    total = k.constant(0, i32)
    for pair in pairs:
        if is_bytewise(k.machine):
            total = k.dot2_low_bytes(pair, k.constant(0x0101, u32), total)
        else:
            total = k.dot2(pair, k.constant(0x00010001, u32), total)
    return total


@kernel
def group_sums(k: Builder, n: U32, x: Pointer[U32], sums: Pointer[I32], *, group: int) -> None:
    """Set sums[i] to the sum of the 16-bit inputs of group i, for i below n."""
    overlap_launches(k)
    i = k.global_id()
    with k.if_(i < n):
        sums[i] = _sum(k, k.load(x, i * (group // 2), group // 2))
