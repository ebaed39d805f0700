"""Kernels of the attention: rotary positions, the cache, and causal attention itself.

The cache of a layer has the keys of each sequence and head by pair of channels, then by position,
and the values by pair of positions, then by channel. A word has two 16-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.frozen import frozen
from quod.inference.transformer.kernels.arithmetic import (
    Planes,
    clamped,
    over_workgroup,
    overlap_launches,
    packed,
    rounded,
    store_pair,
)
from quod.inference.transformer.kernels.factors import Factors, no_sums, whole
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

_PAIRS_OF_SUM = 64
"""Products of this many pairs are added in 32 bits; a pair is below 2**24."""
_LEAST = -(1 << 62)


def _row(state: Value, token: Value) -> tuple[Value, Value]:
    """Return the position and the sequence of a token."""
    return state[token * 2], state[token * 2 + 1]


def _is_next(state: Value, token: Value, position: Value, sequence: Value) -> Value:
    """Return whether a position of a sequence is the one after that of a token."""
    token_position, token_sequence = _row(state, token)
    return (token_sequence == sequence) & (token_position + 1 == position)


@kernel
def rotate_and_store(
    k: Builder, n: U32, tokens: U32, capacity: U32, x_width: U32, first_key: U32, first_value: U32,
    state: Pointer[U32], x: Pointer[I32], table: Pointer[I32], queries: Pointer[U32],
    keys: Pointer[U32], values: Pointer[U32],
    *, heads: int, kv_heads: int, head_pairs: int, rotary: bool,
) -> None:  # fmt: skip
    """Rotate queries and keys, and store keys and values in the cache: n pairs of channels.

    x: x_width integers per token: queries, keys from `first_key` on, values from `first_value` on.
    table: Cosines and sines by position and pair; not used without `rotary`.
    state: The position and the sequence of each token.
    queries: Pairs of channels by token and head; see `Factors`.
    """
    overlap_launches(k)
    i = k.global_id()
    with k.if_(i < n):
        pair, row = i % head_pairs, i // head_pairs
        head, token = row % (heads + 2 * kv_heads), row // (heads + 2 * kv_heads)
        position, sequence = _row(state, token)
        at, first_of_values = (position * head_pairs + pair) * 2, heads + kv_heads

        def channels(first: Value, head: Value) -> Value:
            """Return the index of the pair's first channel of a head."""
            return token * x_width + first + (head * head_pairs + pair) * 2

        def rotated(index: Value) -> list[Value]:
            a, b = x[index], x[index + 1]
            if not rotary:
                return [a, b]
            cosine, sine = table[at], table[at + 1]
            half, limit = 1 << (ROTATION_BITS - 1), k.constant(ACTIVATION, i32)
            # Below 2**31 with the half that is added for rounding.
            sums = (a * cosine - b * sine, b * cosine + a * sine)
            return [clamped(k, (value + half) >> ROTATION_BITS, limit) for value in sums]

        with k.if_(head < heads):
            pair_of_query = rotated(channels(k.constant(0, u32), head))
            factors = Factors(queries, tokens * (heads * head_pairs))
            factors.store(k, (token * heads + head) * head_pairs + pair, pair_of_query)
        with k.if_((head >= heads) & (head < first_of_values)):
            pair_of_key = rotated(channels(first_key, head - heads))
            row_of_cache = (sequence * kv_heads + (head - heads)) * head_pairs + pair
            keys[row_of_cache * capacity + position] = packed(*pair_of_key)
        with k.if_(head >= first_of_values):
            kv_head = head - first_of_values
            x_index = channels(first_value, kv_head)
            # A word has the values of two positions. The token of the second stores it if the
            # tokens of both are neighbours.
            previous, following = k.maximum(token, 1) - 1, k.minimum(token + 1, tokens - 1)
            follows = (token > 0) & _is_next(state, previous, position, sequence)
            is_followed = (following > token) & _is_next(state, token, *_row(state, following))
            is_second = (position & 1) != 0
            row_of_cache = (sequence * kv_heads + kv_head) * (capacity // 2) + position // 2
            for half in range(2):
                index = (row_of_cache * head_pairs + pair) * 2 + half
                value = x[x_index + half]
                before = x[x_index + half - (token - previous) * x_width]
                first = k.select(follows, before, values[index].cast(i32))
                with k.if_(is_second | ~is_followed):
                    values[index] = packed(
                        k.select(is_second, first, value),
                        k.select(is_second, value, k.constant(0, i32)),
                    )


@frozen(eq=False)
class _Query:
    """A query head of a token, with memory for each position.

    row: The token times the number of heads, plus the head.
    last: The last position that it sees.
    first: The first word of its factors.
    """

    row: Value
    last: Value
    factors: Factors
    first: Value
    scores: Value
    weights: Factors


@kernel
def attend(
    k: Builder, tokens: U32, capacity: U32, multiplier: I64, score_shift: U32, mix_shift: U32,
    state: Pointer[U32], queries: Pointer[U32], keys: Pointer[U32], values: Pointer[U32],
    table: Pointer[I32], scores: Pointer[I64], weights: Pointer[U32], y: Pointer[U32],
    *, heads: int, kv_heads: int, head_width: int, planes: Planes, tile: int,
) -> None:  # fmt: skip
    """Mix the values of the positions so far; docs/integer-transformer.md, "Attention".

    A workgroup has a query head of `tile` tokens of a sequence. Its size divides the width of a
    head, or is a multiple of it.
    table: The exponentials.
    queries: Pairs of channels by token and head; see `Factors`.
    scores, weights: Memory for a score, and a word, per token, head and position.
    y: Pairs of 16-bit outputs, as the inputs of `product`.
    """
    overlap_launches(k)
    lanes, pairs, local_id = k.workgroup_size, head_width // 2, k.local_id()
    room, output_room = k.shared(i64, lanes), k.shared(i32, head_width)
    head, first_token = k.workgroup_id() % heads, k.workgroup_id() // heads * tile
    factors = Factors(queries, tokens * (heads * pairs))

    def query_of(index: int) -> _Query:
        token = k.minimum(first_token + index, tokens - 1)
        row = token * heads + head
        memory = row.cast(u64) * capacity.cast(u64)
        row_weights = Factors(k.pointer_add(weights, memory), capacity // 2)
        return _Query(
            row, k.uniform(state[token * 2]), factors, row * pairs, k.pointer_add(scores, memory),
            row_weights,
        )  # fmt: skip

    tile_queries = [query_of(index) for index in range(tile)]
    longest = tile_queries[-1].last
    sequence = k.uniform(state[first_token * 2 + 1])
    cache_head = sequence * kv_heads + head * kv_heads // heads
    head_keys = k.pointer_add(keys, cache_head * pairs * capacity)
    head_values = k.pointer_add(values, cache_head * (capacity // 2) * head_width)
    least = k.constant(_LEAST, i64)
    # Positions after the last one are computed and dropped, so that no instance idles or branches.
    with k.range(0, longest // lanes + 1, carry=tuple([least] * tile)) as loop:
        position, maxima = loop.index * lanes + local_id, []
        sums = _scores(k, tile_queries, k.pointer_add(head_keys, position), capacity, pairs)
        for query, score, largest in zip(tile_queries, sums, loop.carried, strict=True):
            score = k.select(position <= query.last, score, least)
            query.scores[position] = score
            maxima.append(k.maximum(largest, score))
        loop.next(tuple(maxima))
    largest_scores = [over_workgroup(k, room, value, k.maximum) for value in loop.results]

    def weight(query: _Query, largest: Value, position: Value) -> Value:
        # The workgroup's own stores, ordered by the barriers of `over_workgroup`.
        score = k.select(position <= query.last, query.scores[position], largest)
        step = rounded(k, (largest - score) * multiplier, score_shift)
        entry = table[k.minimum(step, k.constant(EXP_ENTRIES - 1, i64)).cast(u32)]
        return k.select(position <= query.last, entry, k.constant(0, i32))

    zero = k.constant(0, i64)
    with k.range(0, longest // (2 * lanes) + 1, carry=tuple([zero] * tile)) as loop:
        pair_index, weight_sums = loop.index * lanes + local_id, []
        for query, largest, total in zip(tile_queries, largest_scores, loop.carried, strict=True):
            low, high = (weight(query, largest, pair_index * 2 + half) for half in range(2))
            query.weights.store(k, pair_index, (low, high))
            weight_sums.append(total + (low + high).cast(i64))
        loop.next(tuple(weight_sums))
    weight_sums = [over_workgroup(k, room, value, lambda a, b: a + b) for value in loop.results]
    mixes = _mixed(k, tile_queries, head_values, head_width, longest // 2 + 1)
    for query, weight_sum, channels in zip(tile_queries, weight_sums, mixes, strict=True):
        inverse = (k.constant(1 << INVERSE_SUM_BITS, u64) // weight_sum.cast(u64)).cast(i64)
        for channel, total in channels:
            total = _over_parts(k, room, total, head_width)
            mixed = rounded(k, total * inverse, mix_shift)
            output_room[channel] = clamped(k, mixed, k.constant(ACTIVATION, i64)).cast(i32)
        k.barrier()
        with k.range(local_id, pairs, lanes) as loop:
            outputs = [output_room[loop.index * 2 + half] for half in range(2)]
            at = query.row * pairs + loop.index
            store_pair(k, y, at, tokens * (heads * pairs), outputs, planes)
        k.barrier()


def _scores(
    k: Builder, queries: Sequence[_Query], keys: Value, capacity: Value, pairs: int
) -> list[Value]:  # fmt: skip
    """Return the products of queries with the key that starts at `keys`, i64."""
    totals = [k.constant(0, i64) for _ in queries]
    for start in range(0, pairs, _PAIRS_OF_SUM):
        sums = [no_sums(k) for _ in queries]
        for pair in range(start, min(pairs, start + _PAIRS_OF_SUM)):
            key = keys[capacity * pair]
            for index, query in enumerate(queries):
                words = query.factors.load(k, query.first + pair)
                sums[index] = query.factors.add_products(k, words, key, sums[index])
        totals = [total + whole(pair) for total, pair in zip(totals, sums, strict=True)]
    return totals


def _mixed(
    k: Builder, queries: Sequence[_Query], values: Value, head_width: int, pairs: Value
) -> list[list[tuple[Value, Value]]]:  # fmt: skip
    """Return for each query the instance's channels, each with its weighted sum of values, i64.

    With more instances than channels, each adds up a part of the pairs of positions.
    """
    lanes, parts = k.workgroup_size, max(1, k.workgroup_size // head_width)
    part, first = k.constant(0, u32), k.local_id()
    if parts > 1:
        part, first = k.local_id() // head_width, k.local_id() % head_width
    channels = [first + start for start in range(0, head_width, lanes)]
    count, step = len(queries) * len(channels), _PAIRS_OF_SUM * parts
    with k.range(0, pairs, step, carry=tuple([k.constant(0, i64)] * count)) as blocks:
        end = k.minimum(blocks.index + step, pairs)
        zeros = tuple([k.constant(0, i32)] * (2 * count))
        with k.range(blocks.index + part, end, parts, carry=zeros) as loop:
            words = [values[loop.index * head_width + channel] for channel in channels]
            carried, sums = iter(loop.carried), list[Value]()
            for query in queries:
                weights = query.weights.load(k, loop.index)
                if parts == 1:
                    weights = [k.uniform(weight) for weight in weights]
                for word in words:
                    pair = next(carried), next(carried)
                    sums += query.weights.add_products(k, weights, word, pair)
            loop.next(tuple(sums))
        results = list(loop.results)
        blocks.next(
            tuple(
                [
                    total + whole(results[2 * index : 2 * index + 2])
                    for index, total in enumerate(blocks.carried)
                ]
            )
        )
    totals = iter(blocks.results)
    return [[(channel, next(totals)) for channel in channels] for _ in queries]


def _over_parts(k: Builder, room: Value, total: Value, head_width: int) -> Value:
    """Return the sum of the totals of all instances of the same channel."""
    parts = k.workgroup_size // head_width
    if parts <= 1:
        return total
    k.barrier()
    room[k.local_id()] = total
    k.barrier()
    channel = k.local_id() % head_width
    total = room[channel]
    for part in range(1, parts):
        total = total + room[channel + part * head_width]
    return total
