"""Kernels of the attention: rotary positions, the cache, and causal attention itself.

Factors are divided into two bytes, so that sums of their products with 16-bit integers stay below
2**31 for some hundred terms. The cache of a layer has the keys of each sequence and head by
pair of channels, then by position, and the values by pair of positions, then by channel. A word has
two 16-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.inference.transformer.kernels.arithmetic import (
    Planes,
    clamped,
    over_workgroup,
    packed,
    rounded,
    store_pair,
)
from quod.inference.transformer.program import INVERSE_SUM_BITS
from quod.inference.transformer.rounding import ACTIVATION
from quod.inference.transformer.tables import EXP_ENTRIES, ROTATION_BITS
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

FACTOR_PLANES = Planes(2, 8)
"""The parts of queries, and of the weights of positions."""
_PAIRS_OF_SUM = 64
"""Products of this many pairs are added in 32 bits; a pair is below 2**24."""
_LEAST = -(1 << 62)


def _joined(sums: Sequence[Value]) -> Value:
    """Return the sum of products, as i64, from those of each plane of a factor."""
    low, high = sums
    return low.cast(i64) + (high.cast(i64) << FACTOR_PLANES.bits)


def _row(state: Value, token: Value) -> tuple[Value, Value]:
    """Return the position and the sequence of a token."""
    return state[token * 2], state[token * 2 + 1]


def _is_next(state: Value, token: Value, position: Value, sequence: Value) -> Value:
    """Return whether a position of a sequence is the one after that of a token."""
    token_position, token_sequence = _row(state, token)
    return (token_sequence == sequence) & (token_position + 1 == position)


@kernel
def rotate(
    k: Builder, n: U32, heads: U32, capacity: U32, state: Pointer[U32], x: Pointer[I32],
    table: Pointer[I32], y: Pointer[U32], *, head_pairs: int, rotary: bool, keys: bool,
) -> None:  # fmt: skip
    """Rotate and pack n pairs of channels of queries, in planes, or of keys, into the cache.

    x: an integer per token, head and channel.
    table: cosines and sines by position and pair; not used without `rotary`.
    state: the position and the sequence of each token.
    """
    i = k.global_id()
    with k.if_(i < n):
        pair, row = i % head_pairs, i // head_pairs
        head, token = row % heads, row // heads
        position, sequence = _row(state, token)
        a, b = x[i * 2], x[i * 2 + 1]
        if rotary:
            at = (position * head_pairs + pair) * 2
            cosine, sine = table[at], table[at + 1]
            # Below 2**31 with the half that is added for rounding.
            a, b = (
                clamped(
                    k, (value + (1 << (ROTATION_BITS - 1))) >> ROTATION_BITS,
                    k.constant(ACTIVATION, i32),
                )
                for value in (a * cosine - b * sine, b * cosine + a * sine)
            )  # fmt: skip
        if keys:
            row_of_cache = (sequence * heads + head) * head_pairs + pair
            y[row_of_cache * capacity + position] = packed(a, b)
        else:
            store_pair(k, y, i, n, (a, b), FACTOR_PLANES)


@kernel
def store_values(
    k: Builder, n: U32, tokens: U32, heads: U32, capacity: U32, state: Pointer[U32],
    x: Pointer[I32], y: Pointer[U32], *, head_width: int,
) -> None:  # fmt: skip
    """Store the values of tokens in the cache: n words, each of two positions of a channel.

    The token of the second position stores the word if the tokens of both are neighbours.
    """
    i = k.global_id()
    with k.if_(i < n):
        width = heads * head_width
        channel, token = i % width, i // width
        position, sequence = state[token * 2], state[token * 2 + 1]
        head = sequence * heads + channel // head_width
        index = (head * (capacity // 2) + position // 2) * head_width + channel % head_width
        previous, following = k.maximum(token, 1) - 1, k.minimum(token + 1, tokens - 1)
        follows = (token > 0) & _is_next(state, previous, position, sequence)
        is_followed = (following > token) & _is_next(state, token, *_row(state, following))
        is_second, value = (position & 1) != 0, x[i]
        first = k.select(follows, x[previous * width + channel], y[index].cast(i32))
        with k.if_(is_second | ~is_followed):
            y[index] = packed(
                k.select(is_second, first, value), k.select(is_second, value, k.constant(0, i32))
            )


@kernel
def attend(
    k: Builder, tokens: U32, capacity: U32, multiplier: I64, score_shift: U32, mix_shift: U32,
    state: Pointer[U32], queries: Pointer[U32], keys: Pointer[U32], values: Pointer[U32],
    table: Pointer[I32], scores: Pointer[I64], weights: Pointer[U32], y: Pointer[U32],
    *, heads: int, kv_heads: int, head_width: int, planes: Planes,
) -> None:  # fmt: skip
    """Mix the values of the positions so far; docs/integer-transformer.md, "Attention".

    A workgroup has a query head of a token. Its size divides the width of a head.
    table: the exponentials.
    queries: pairs of channels, by plane, token and head.
    scores, weights: memory for a score, and a word, per token, head and position.
    y: pairs of 16-bit outputs, as the inputs of `product`.
    """
    lanes, pairs = k.workgroup_size, head_width // 2
    room, output_room = k.shared(i64, lanes), k.shared(i32, head_width)
    head, token = k.workgroup_id() % heads, k.workgroup_id() // heads
    shared_head = head * kv_heads // heads
    last, sequence = (k.uniform(value) for value in _row(state, token))
    cache_head = sequence * kv_heads + shared_head
    query = k.pointer_add(queries, k.workgroup_id() * pairs)
    plane_words = tokens * (heads * pairs)
    head_keys = k.pointer_add(keys, cache_head * pairs * capacity)
    head_values = k.pointer_add(values, cache_head * (capacity // 2) * head_width)
    row = k.workgroup_id().cast(u64) * capacity.cast(u64)
    row_scores = k.pointer_add(scores, row)
    row_weights = k.pointer_add(weights, row)
    least = k.constant(_LEAST, i64)
    # Positions after the last one are computed and dropped, so that no instance idles or branches.
    with k.range(0, last // lanes + 1, carry=least) as loop:
        position = loop.index * lanes + k.local_id()
        score = k.constant(0, i64)
        for start in range(0, pairs, _PAIRS_OF_SUM):
            sums = [k.constant(0, i32)] * FACTOR_PLANES.count
            for pair in range(start, min(pairs, start + _PAIRS_OF_SUM)):
                word = head_keys[position + capacity * pair]
                sums = [
                    k.dot2(query[plane_words * plane + pair], word, total)
                    for plane, total in enumerate(sums)
                ]
            score = score + _joined(sums)
        score = k.select(position <= last, score, least)
        row_scores[position] = score
        loop.next(k.maximum(loop.carried, score))
    largest = over_workgroup(k, room, loop.results, k.maximum)

    def weight(position: Value) -> Value:
        # The workgroup's own stores, ordered by the barriers of `over_workgroup`.
        score = k.select(position <= last, row_scores[position], largest)
        step = rounded(k, (largest - score) * multiplier, score_shift)
        entry = table[k.minimum(step, k.constant(EXP_ENTRIES - 1, i64)).cast(u32)]
        return k.select(position <= last, entry, k.constant(0, i32))

    with k.range(0, last // (2 * lanes) + 1, carry=k.constant(0, i64)) as loop:
        pair_index = loop.index * lanes + k.local_id()
        low, high = weight(pair_index * 2), weight(pair_index * 2 + 1)
        store_pair(k, row_weights, pair_index, capacity // 2, (low, high), FACTOR_PLANES)
        loop.next(loop.carried + (low + high).cast(i64))
    weight_sum = over_workgroup(k, room, loop.results, lambda a, b: a + b)
    inverse = (k.constant(1 << INVERSE_SUM_BITS, u64) // weight_sum.cast(u64)).cast(i64)
    channels = range(0, head_width, lanes)
    last_pair = last // 2
    zeros = tuple([k.constant(0, i64) for _ in channels])
    with k.range(0, last_pair + 1, _PAIRS_OF_SUM, carry=zeros) as blocks:
        end = k.minimum(blocks.index + _PAIRS_OF_SUM, last_pair + 1)
        block_zeros = tuple([k.constant(0, i32)] * (FACTOR_PLANES.count * len(channels)))
        with k.range(blocks.index, end, carry=block_zeros) as loop:
            factors = [
                k.uniform(row_weights[loop.index + capacity // 2 * plane])
                for plane in range(FACTOR_PLANES.count)
            ]
            words = [
                head_values[loop.index * head_width + channel + k.local_id()]
                for channel in channels
            ]
            sums = iter(loop.carried)
            loop.next(
                tuple([k.dot2(factor, word, next(sums)) for word in words for factor in factors])
            )
        results = list(loop.results)
        blocks.next(
            tuple(
                [
                    total + _joined(results[index * 2 : index * 2 + 2])
                    for index, total in enumerate(blocks.carried)
                ]
            )
        )
    for total, channel in zip(blocks.results, channels, strict=True):
        mixed = rounded(k, total * inverse, mix_shift)
        output_room[k.local_id() + channel] = clamped(k, mixed, k.constant(ACTIVATION, i64)).cast(
            i32
        )
    k.barrier()
    with k.range(k.local_id(), pairs, lanes) as loop:
        pair_of_outputs = [output_room[loop.index * 2 + half] for half in range(2)]
        store_pair(
            k, y, k.workgroup_id() * pairs + loop.index, tokens * (heads * pairs), pair_of_outputs,
            planes,
        )  # fmt: skip
