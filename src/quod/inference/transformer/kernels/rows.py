"""Kernels that take tokens apart from each other: embedding, norms and the feed-forward network."""

from __future__ import annotations

from quod.inference.transformer.kernels.arithmetic import (
    Planes,
    clamped,
    is_bytewise,
    over_workgroup,
    overlap_launches,
    rounded,
    store_pair,
)
from quod.inference.transformer.kernels.product import ROW_BLOCK
from quod.inference.transformer.program import NORM_BITS
from quod.inference.transformer.rounding import ACTIVATION, WIDE
from quod.kernel import (
    I32,
    I64,
    U32,
    Builder,
    Pointer,
    Value,
    i32,
    i64,
    kernel,
    u32,
    u64,
)

_ROOT_BITS = 22
_INVERSE_SHIFT = 31


@kernel
def embed(
    k: Builder, n: U32, width: U32, groups: U32, shift: U32, limit: I32, state: Pointer[U32],
    tokens: Pointer[U32], words: Pointer[U32], scales: Pointer[I32], minima: Pointer[I32],
    x: Pointer[I32], *, bits: int, group: int, positions: bool,
) -> None:  # fmt: skip
    """Set the residual stream to rows of a matrix; docs/integer-transformer.md, "Embedding".

    n: the elements of x, which has `width` for each token.
    words, scales, minima: the matrix, as for `product`.
    state: the position and the sequence of each token.
    positions: whether to add the rows of the tokens' positions, instead of storing those of tokens.
    """
    overlap_launches(k)
    i = k.global_id()
    with k.if_(i < n):
        token, column = i // width, i % width
        row = state[token * 2] if positions else tokens[token]
        block, row_in_block = row // ROW_BLOCK, row % ROW_BLOCK
        at = block * groups + column // group
        quant = _quant(
            k, words, at * (group * bits // 32) * ROW_BLOCK + row_in_block, column % group, bits
        )
        at_scale = at * ROW_BLOCK + row_in_block
        value = scales[at_scale].cast(i64) * quant.cast(i64) - minima[at_scale].cast(i64)
        value = rounded(k, value, shift)
        if positions:
            value = value + x[i].cast(i64)
        x[i] = clamped(k, value, limit.cast(i64)).cast(i32)


def _quant(k: Builder, words: Value, first: Value, column: Value, bits: int) -> Value:
    """Return the quant of a column of a group, as i32."""
    of_word = 32 // bits
    word = words[first + column // of_word * ROW_BLOCK]
    # See `product` for the order of the columns.
    shift = (column & 1) * 16 + (column % of_word >> 1) * bits
    if is_bytewise(k.machine) and bits < 16:
        shift = (column & 3) * 8 + (column % of_word >> 2) * bits
    if bits == 16:
        return k.bitcast(word << (16 - shift), i32) >> 16
    return ((word >> shift) & ((1 << bits) - 1)).cast(i32)


@kernel
def normalise(
    k: Builder, width: U32, tokens: U32, shift: U32, epsilon: I64, x: Pointer[I32],
    gains: Pointer[I32], bias: Pointer[I64], y: Pointer[U32], *, centred: bool, planes: Planes,
) -> None:  # fmt: skip
    """Normalise rows; docs/integer-transformer.md, "Norms". A workgroup has a token.

    y: pairs of 16-bit outputs, as the inputs of `product`.
    """
    overlap_launches(k)
    lanes, token = k.workgroup_size, k.workgroup_id()
    room = k.shared(i64, lanes)
    first = token * width
    mean = k.constant(0, i64)
    # Instances beyond the width add zeros, so that all of them take the same branches.
    steps = (width + (lanes - 1)) // lanes

    def channel(step: Value) -> Value:
        index = step * lanes + k.local_id()
        value = x[first + k.minimum(index, width - 1)].cast(i64) - mean
        return k.select(index < width, value, k.constant(0, i64))

    if centred:
        with k.range(0, steps, carry=k.constant(0, i64)) as loop:
            loop.next(loop.carried + channel(loop.index))
        total = over_workgroup(k, room, loop.results, lambda a, b: a + b)
        mean = (total * 2 + width.cast(i64)) // (width.cast(i64) * 2)
    with k.range(0, steps, carry=k.constant(0, i64)) as loop:
        value = channel(loop.index)
        loop.next(loop.carried + value * value)
    squares = over_workgroup(k, room, loop.results, lambda a, b: a + b) + epsilon
    root, exponent = _inverse_root(k, squares.cast(u64))
    to_shift = (exponent + (_INVERSE_SHIFT - NORM_BITS)).cast(u32)
    with k.range(k.local_id(), width // 2, lanes) as loop:
        outputs: list[Value] = []
        for channel_index in (loop.index * 2, loop.index * 2 + 1):
            value = (x[first + channel_index].cast(i64) - mean) * root
            unit = rounded(k, value, to_shift)
            scaled = unit * gains[channel_index].cast(i64) + bias[channel_index]
            outputs.append(
                clamped(k, rounded(k, scaled, shift), k.constant(ACTIVATION, i64)).cast(i32)
            )
        store_pair(k, y, token * (width // 2) + loop.index, tokens * (width // 2), outputs, planes)


def _inverse_root(k: Builder, square_sum: Value) -> tuple[Value, Value]:
    """Return root and shift as `inverse_root` of quod.inference.transformer.rounding, as i64."""
    bits = (64 - k.emit("clz", (square_sum,)).cast(u32)).cast(i32)
    shift = -((_ROOT_BITS - bits) >> 1)
    is_large = shift >= 0
    amount = k.select(is_large, shift, -shift).cast(u32).cast(u64) * 2
    m = k.select(is_large, square_sum >> amount, square_sum << amount)
    quotient = k.constant(1 << 62, u64) // m
    root = k.constant(0, u64)
    for bit in range(_ROOT_BITS - 1, -1, -1):
        candidate = root | (1 << bit)
        root = k.select(candidate * candidate <= quotient, candidate, root)
    return root.cast(i64), shift.cast(i64)


@kernel
def activate(
    k: Builder, n: U32, pairs: U32, x_width: U32, first_up: U32, shift: U32, x: Pointer[I32],
    table: Pointer[I32], y: Pointer[U32], *, gated: bool, planes: Planes,
) -> None:  # fmt: skip
    """Set n pairs of inputs of the last product; docs/integer-transformer.md, "Feed-forward".

    pairs: The pairs of a token.
    x: x_width integers per token: those of the gate, and from `first_up` on those of `up`. Without
        a gate the table is applied to `up`.
    """
    overlap_launches(k)
    i = k.global_id()
    with k.if_(i < n):
        first = i // pairs * x_width + i % pairs * 2
        outputs: list[Value] = []
        for half in range(2):
            up = x[first + first_up + half]
            value = table[((x[first + half] if gated else up) + 32768).cast(u32)]
            if gated:
                wide = value.cast(i64) * up.cast(i64)
                value = clamped(k, rounded(k, wide, shift), k.constant(WIDE, i64)).cast(i32)
            outputs.append(value)
        store_pair(k, y, i, n, outputs, planes)
