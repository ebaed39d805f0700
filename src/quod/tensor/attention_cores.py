"""Attention on tensor cores: keys and values by asynchronous copies, weights in registers.

Of what a product of queries and keys gives, an instance has the words that the next product takes
as its first factor, so that weights never leave registers (FlashAttention-2, Dao, 2023).
"""

from __future__ import annotations

from collections.abc import Callable

from quod.frozen import frozen
from quod.kernel import Builder, Value, f16, f32, i32, u32, u64
from quod.kernel.types import Type
from quod.tensor.attention_plan import CoreTilePlan
from quod.tensor.powers import LEAST

Values = tuple[Value, ...]

_WORDS = 4
"""Words of a copy, and of a row of a matrix: eight elements of 16 bits."""
_ELEMENTS = 8
_MATRIX = 16
"""Rows and columns of what one load gives: four matrices of 8 by 8."""


@frozen(eq=False)
class Copied:
    """A matrix of a head: where it is, the elements of a line, and the lines that are copied."""

    pointer: Value
    size: Value
    count: Value


class _Tiles:
    """Tiles of lines of a matrix in shared memory, `stages` of them.

    Copies of eight elements are exchanged within a line (the number of the place xor that of the
    line), so that neither copies nor matrices meet in a bank.
    """

    def __init__(
        self, k: Builder, matrix: Copied, plan: CoreTilePlan, lines: int, stages: int
    ) -> None:
        self._k, self._matrix = k, matrix
        self._pitch = plan.size // 2
        self._room = k.shared(u32, lines * self._pitch * stages)
        self._words = lines * self._pitch
        places = plan.size // _ELEMENTS
        # An instance copies the same place of lines that are `_apart` from one another.
        self._apart = plan.lanes // places
        self._count = lines // self._apart
        self._line = k.local_id() >> places.bit_length() - 1
        place = k.local_id() & places - 1
        self._target = self._line * self._pitch + (place ^ self._line & 7) * _WORDS
        self._inside = None if plan.exact else place * _ELEMENTS < matrix.size
        self._width = matrix.size >> 1
        own = self._line * self._width + place * _WORDS
        self._source = k.pointer_add(matrix.pointer.cast(u32), own)

    def copy(self, first: Value, stage: Value | int) -> None:
        """Begins the copies of the lines from `first` on; beyond the last one there are zeros."""
        k = self._k
        source = k.pointer_add(self._source, first.cast(u64) * self._width.cast(u64))
        for number in range(self._count):
            line = number * self._apart
            to = self._target + line * self._pitch + stage * self._words
            there = first + self._line + line < self._matrix.count
            there = there if self._inside is None else there & self._inside
            k.copy_async(self._room, to, source, self._width * line, _WORDS, where=there)

    def left(self, own: Value) -> Value:
        """Where this instance's row of matrices begins, of 16 lines from `own` on as a first
        factor; also of lines that are summed over, as a second one that is turned."""
        lane = self._k.lane_id()
        line = own + (lane & 15)
        return line * self._pitch + (lane >> 4 ^ lane & 7) * _WORDS

    def right(self) -> Value:
        """The same of lines that are columns of a second factor."""
        lane = self._k.lane_id()
        line = (lane & 7) + (lane >> 4) * 8
        return line * self._pitch + (lane >> 3 & 1 ^ lane & 7) * _WORDS

    def matrices(
        self, start: Value, stage: Value | int, across: int, down: int, *, turned: bool = False
    ) -> Values:
        """The words of the `down`-th 16 lines and the `across`-th 16 elements of each."""
        place = start + stage * self._words ^ across * 2 * _WORDS
        return self._k.load_matrices(
            self._room, place + down * _MATRIX * self._pitch, transposed=turned
        )


@frozen(eq=False)
class Found:
    """What a subgroup found of its queries: by 16 of them, and by the two that an instance has of
    these; sums by eight elements of a head besides."""

    tops: list[list[Value]]
    totals: list[list[Value]]
    sums: list[list[Values]]


def attend(
    k: Builder, element: Type, plan: CoreTilePlan, of_q: Copied, of_k: Copied, of_v: Copied,
    first: Value, seen: Callable[[Value], Value], factor: Value,
) -> Found:  # fmt: skip
    """What the queries from `first` on find; `seen` tells how many keys one sees.

    `of_k` and `of_v` have as many lines as the last of these queries sees keys. The greatest
    products are times `factor` in what is found, or -3.4e38 where no key was seen.
    """
    k.resident_workgroups(plan.resident)
    rows, keys = plan.tile
    own = k.subgroup_id() * plan.rows
    queries = _Tiles(k, of_q, plan, rows, 1)
    key_tiles = _Tiles(k, of_k, plan, keys, plan.stages)
    value_tiles = _Tiles(k, of_v, plan, keys, plan.stages)
    of_queries, of_keys = queries.left(own), key_tiles.right()
    of_values = value_tiles.left(k.constant(0, u32))
    down, depth = plan.rows // _MATRIX, plan.size // _MATRIX
    least, zero = k.constant(LEAST, f32), k.constant(0.0, f32)
    pack = k.pack_f16 if element is f16 else k.pack_bf16

    def copy(step: Value) -> None:
        key_tiles.copy(step * keys, step & (plan.stages - 1))
        value_tiles.copy(step * keys, step & (plan.stages - 1))
        k.copy_async_commit()

    def matrices_of_queries(at: int) -> list[Values]:
        return [queries.matrices(of_queries, 0, at, number) for number in range(down)]

    queries.copy(first, 0)
    k.copy_async_commit()
    for step in range(plan.stages - 1):
        copy(k.constant(step, u32))
    kept: list[list[Values]] = []
    if plan.kept:
        k.copy_async_wait(plan.stages - 1)
        k.barrier()
        kept = [matrices_of_queries(at) for at in range(depth)]

    def products(stage: Value) -> list[list[Values]]:
        found: list[list[Values]] = [[(zero,) * 4] * (keys // 8) for _ in range(down)]
        for at in range(depth):
            left = kept[at] if plan.kept else matrices_of_queries(at)
            for number in range(keys // _MATRIX):
                right = key_tiles.matrices(of_keys, stage, at, number)
                for own_, row in zip(left, found, strict=True):
                    for half in range(2):
                        place = 2 * number + half
                        row[place] = k.mma(element, own_, right[2 * half :][:2], row[place])
        return found

    def weighed(
        logits: list[Values], counts: list[Value] | None, start: Value, tops: list[Value],
        totals: list[Value],
    ) -> tuple[list[Values], list[Value], list[Value], list[Value]]:  # fmt: skip
        """Weights of 16 queries; new tops and totals, and what sums are scaled by."""
        parts: list[list[Value]] = []
        new_tops, new_totals, scales = [], [], []
        beside = start + (k.lane_id() & 3) * 2
        for half in range(2):
            own_ = [value for block in logits for value in block[2 * half :][:2]]
            if counts is not None:
                left_ = counts[half].cast(i32) - beside.cast(i32)
                own_ = [
                    k.select(left_ > at // 2 * 8 + at % 2, value, least)
                    for at, value in enumerate(own_)
                ]
            top = tops[half]
            for value in own_:
                top = k.maximum(top, value)
            for distance in (1, 2):
                top = k.maximum(top, k.shuffle(top, k.lane_id() ^ distance))
            begin = top * factor
            if counts is not None:
                begin = k.select(top == LEAST, zero, begin)
            scale = k.exp2(k.fma(tops[half], factor, -begin))
            powers = [k.exp2(k.fma(value, factor, -begin)) for value in own_]
            if counts is not None:
                # What is not seen has no weight, however small the factor is.
                powers = [
                    k.select(value > LEAST, power, zero)
                    for value, power in zip(own_, powers, strict=True)
                ]
            total = totals[half] * scale
            for power in powers:
                total = total + power
            parts.append(powers)
            new_tops.append(top)
            new_totals.append(total)
            scales.append(scale)
        words = [
            tuple(
                pack(*parts[word % 2][at * 4 + word // 2 * 2 :][:2]) for word in range(4)
            )
            for at in range(keys // _MATRIX)
        ]
        return words, new_tops, new_totals, scales

    def step(number: Value, found: Found, *, masked: bool) -> Found:
        # The oldest tiles are there for all, and those that were multiplied are free.
        k.copy_async_wait(plan.stages - 2)
        k.barrier()
        copy(number + (plan.stages - 1))
        stage = number & (plan.stages - 1)
        logits = products(stage)
        tops, totals, sums, words = [], [], [], []
        for row in range(down):
            counts = None
            if masked:
                query = first + own + (row * _MATRIX + (k.lane_id() >> 2))
                counts = [seen(query), seen(query + 8)]
            made, top, total, scales = weighed(
                logits[row], counts, number * keys, found.tops[row], found.totals[row]
            )
            words.append(made)
            tops.append(top)
            totals.append(total)
            sums.append([tuple(x * scales[at // 2] for at, x in enumerate(block)) for block in found.sums[row]])
        for at in range(keys // _MATRIX):
            for across in range(depth):
                right = value_tiles.matrices(of_values, stage, across, at, turned=True)
                for row in range(down):
                    for half in range(2):
                        place = 2 * across + half
                        sums[row][place] = k.mma(
                            element, words[row][at], right[2 * half :][:2], sums[row][place]
                        )
        return Found(tops, totals, sums)

    def loop_over(begin: Value, end: Value, found: Found, *, masked: bool) -> Found:
        with k.range(begin, end, carry=(found.tops, found.totals, found.sums)) as loop:
            made = step(loop.index, Found(*loop.carried), masked=masked)
            loop.next((made.tops, made.totals, made.sums))
        return Found(*loop.results)

    found = Found(
        [[least] * 2 for _ in range(down)], [[zero] * 2 for _ in range(down)],
        [[(zero,) * 4] * (2 * depth) for _ in range(down)],
    )  # fmt: skip
    whole = seen(first) // keys
    steps = (of_k.count + (keys - 1)) // keys
    found = loop_over(k.constant(0, u32), whole, found, masked=False)
    found = loop_over(whole, steps, found, masked=True)
    totals = []
    for pair in found.totals:
        for distance in (1, 2):
            pair = [total + k.shuffle(total, k.lane_id() ^ distance) for total in pair]
        totals.append(pair)
    tops = [
        [k.select(top == LEAST, least, top * factor) for top in pair] for pair in found.tops
    ]
    return Found(tops, totals, found.sums)
