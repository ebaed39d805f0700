"""Products with quantised matrices: exact 64-bit sums, rounded, added or kept.

An instance has one row of the matrix and some tokens. Rows are stored in blocks of 16, so that
neighbouring instances load neighbouring words; the inputs of a token are the same for all of them.
"""

from __future__ import annotations

from enum import StrEnum

from quod.inference.transformer.kernels.arithmetic import Planes, clamped, rounded
from quod.kernel import I32, I64, U32, Builder, Pointer, Value, i32, i64, kernel, u32

ROW_BLOCK = 16
"""Rows of a matrix that are stored together."""
_HALF_OF_BYTE_PAIRS = 0x00FF00FF
_HALF_OF_NIBBLE_PAIRS = 0x000F000F


class Result(StrEnum):
    """The result that a product stores.

    ROUND: the rounded and saturated sum, i32.
    ADD: the residual stream with the rounded sum added, saturated, i32.
    SUM: the sum itself, i64.
    """

    ROUND = "round"
    ADD = "add"
    SUM = "sum"


def _pairs(
    k: Builder, words: Value, index: Value, stride: int, bits: int, group: int
) -> list[Value]:
    """Return the quants of a group of columns as pairs of 16 bits, in the order of the columns."""
    pairs = []
    for word_index in range(group * bits // 32):
        word = words[index + word_index * stride]
        if bits == 16:
            pairs.append(word)
            continue
        mask = _HALF_OF_NIBBLE_PAIRS if bits == 4 else _HALF_OF_BYTE_PAIRS
        for shift in range(0, 16, bits):
            pairs.append((word >> shift if shift else word) & mask)
    return pairs


@kernel
def product(
    k: Builder, rows: U32, tokens: U32, groups: U32, shift: U32, limit: I64,
    words: Pointer[U32], scales: Pointer[I32], minima: Pointer[I32], bias: Pointer[I64],
    x: Pointer[U32], x_sums: Pointer[I32], y: Pointer[I32],
    *, bits: int, group: int, planes: Planes, tile: int, parts: int,
    result: Result, has_bias: bool,
) -> None:  # fmt: skip
    """Multiply a matrix by the inputs of tokens; docs/integer-transformer.md, "Products".

    rows, groups: the rows of the matrix, and its groups of columns that share a scale.
    shift, limit: of the rounding; not used for sums.
    words, scales, minima: the matrix in blocks of 16 rows. Scales and minima are at
        (block * groups + group) * 16 + row; words likewise, with several of each group.
    x: pairs of 16-bit inputs, by plane, token and column. An input is the sum of its planes, each
        times 2**bits of the one before.
    x_sums: the sums of the inputs of each group, by plane, token and group.
    y: the results, by token and row; i64 for sums.
    tile: the tokens of a workgroup. parts: the instances that share a row.
    """
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
        pairs = _pairs(
            k, words, at * (words_of_group * ROW_BLOCK) + row_in_block, ROW_BLOCK, bits, group
        )
        scale = scales[at * ROW_BLOCK + row_in_block].cast(i64)
        minimum = minima[at * ROW_BLOCK + row_in_block].cast(i64) if bits < 16 else None
        for plane in range(planes.count):
            for index, token in enumerate(token_indices):
                column = (token + plane * tokens) * groups + loop.index
                inputs = k.load(x, column * pairs_of_group, pairs_of_group)
                dot = k.constant(0, i32)
                for pair, pair_of_inputs in zip(pairs, inputs, strict=True):
                    dot = k.dot2(pair, pair_of_inputs, dot)
                total = totals[plane * tile + index] + scale * dot.cast(i64)
                if minimum is not None:
                    total = total - minimum * x_sums[column].cast(i64)
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
            at_result = token * rows + row
            if result is Result.SUM:
                y.cast(i64)[at_result] = total
            else:
                value = rounded(k, total, shift)
                if result is Result.ADD:
                    value = value + y[at_result].cast(i64)
                y[at_result] = clamped(k, value, limit).cast(i32)


@kernel
def group_sums(k: Builder, n: U32, x: Pointer[U32], sums: Pointer[I32], *, group: int) -> None:
    """Set sums[i] to the sum of the 16-bit inputs of group i, for i below n."""
    i = k.global_id()
    with k.if_(i < n):
        total, ones = k.constant(0, i32), k.constant(0x00010001, u32)
        for pair in k.load(x, i * (group // 2), group // 2):
            total = k.dot2(pair, ones, total)
        sums[i] = total
