"""Digits of scalars and their sorting into buckets on a processor.

Entries are counting-sorted by the size of their digit, window by window.
"""

from __future__ import annotations

from quod.curve.sums.entries import SIGN_BIT
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U8, U16, U32, U64, Pointer, Value
from quod.msm.scalars import SCALAR_BYTES, bits_of, is_above

_SCALAR_WORDS_64 = SCALAR_BYTES // 8


@kernel
def digits(
    k: Builder,
    count: U32,
    scalars: Pointer[U64],
    infinite: Pointer[U8],
    out: Pointer[U16],
    overflow: Pointer[U32],
    *,
    window_bits: int,
    windows: int,
    maximum: int,
    masked: bool,
) -> None:
    """Digit w of scalar i to out[w * count + i], in two's complement of 16 bits.

    `scalars` are canonical integers of four words; one above `maximum`, which the windows hold,
    sets overflow[0]. With `masked`, a scalar whose byte in `infinite` is set counts as zero.
    """
    i = k.global_id()
    with k.if_(i < count):
        place = i.cast(types.u64) * _SCALAR_WORDS_64
        words = list(k.load(scalars, place, _SCALAR_WORDS_64))
        with k.if_(is_above(k, words, maximum)):
            overflow[0] = 1
        if masked:
            skip = infinite[i] != 0
            words = [k.select(skip, 0, word) for word in words]
        half, full = 1 << (window_bits - 1), 1 << window_bits
        carry: Value = k.constant(0, types.u32)
        for window in range(windows):
            raw = bits_of(k, words, window * window_bits, window_bits) + carry
            negative = raw >= half
            carry = k.select(negative, k.constant(1, types.u32), 0)
            digit = k.select(negative, raw - full, raw)
            row = k.constant(window, types.u64) * count.cast(types.u64)
            out[row + i.cast(types.u64)] = digit


class _Digit:
    """One digit as it is sorted: the number of its bucket, zero for none, and its sign."""

    def __init__(self, k: Builder, stored: Value) -> None:
        self.negative = stored >= 0x8000
        self.bucket = k.select(self.negative, 0x10000 - stored, stored)
        self.sign = k.select(self.negative, k.constant(SIGN_BIT, types.u32), 0)


def _share(k: Builder, count: Value, part: Value, parts: Value) -> tuple[Value, Value]:
    """The range of scalars of one of `parts` workers on the same window."""
    size = (count + parts - 1) // parts
    start = k.minimum(part * size, count)
    return start, k.minimum(start + size, count)


def _row(windows: Value, copies: Value, window: Value, copy: Value) -> Value:
    """The row of digits that one copy of the bases gives to a window of buckets."""
    vector, own = window // windows, window % windows
    return ((vector * copies + copy) * windows + own).cast(types.u64)


@kernel
def count_digits(
    k: Builder,
    count: U32,
    parts: U32,
    windows: U32,
    copies: U32,
    buckets: U32,
    stored: Pointer[U16],
    counts: Pointer[U32],
) -> None:
    """How often each bucket is met, by window and part: counts[(window * parts + part) * buckets].

    With precomputed multiples a window of buckets takes `copies` windows of digits, every
    `windows`-th. Windows are those of the first vector of scalars, then those of the second, and
    so on. Made for one lane: an instance is one part of one window.
    """
    task = k.global_id()
    window, part = task // parts, task % parts
    start, stop = _share(k, count, part, parts)
    mine = task * buckets
    with k.range(0, copies) as outer:
        row = _row(windows, copies, window, outer.index) * count.cast(types.u64)
        with k.range(start, stop) as loop:
            digit = _Digit(k, stored[row + loop.index.cast(types.u64)])
            with k.if_(digit.bucket != 0):
                place = mine + (digit.bucket - 1)
                counts[place] = counts[place] + 1


@kernel
def place_buckets(
    k: Builder,
    room: U32,
    parts: U32,
    buckets: U32,
    counts: Pointer[U32],
    starts: Pointer[U32],
    lengths: Pointer[U32],
) -> None:
    """Turns counts into the places where each part writes; bucket by bucket within a window.

    Window w's entries begin at w * room. Made for one lane: an instance is one window.
    """
    window = k.global_id()
    with k.range(0, buckets, carry=window * room) as loop:
        begin = loop.carried
        with k.range(0, parts, carry=begin) as inner:
            place = (window * parts + inner.index) * buckets + loop.index
            here = counts[place]
            counts[place] = inner.carried
            inner.next(inner.carried + here)
        segment = window * buckets + loop.index
        starts[segment] = begin
        lengths[segment] = inner.results - begin
        loop.next(inner.results)


@kernel
def scatter_digits(
    k: Builder,
    count: U32,
    parts: U32,
    windows: U32,
    copies: U32,
    buckets: U32,
    stride: U32,
    stored: Pointer[U16],
    places: Pointer[U32],
    entries: Pointer[U32],
) -> None:
    """Writes each digit's entry to its bucket's place. Made for one lane, as `count_digits`.

    Copy j of the bases begins at base j * stride.
    """
    task = k.global_id()
    window, part = task // parts, task % parts
    start, stop = _share(k, count, part, parts)
    mine = task * buckets
    with k.range(0, copies) as outer:
        row = _row(windows, copies, window, outer.index) * count.cast(types.u64)
        first = outer.index * stride
        with k.range(start, stop) as loop:
            digit = _Digit(k, stored[row + loop.index.cast(types.u64)])
            with k.if_(digit.bucket != 0):
                place = mine + (digit.bucket - 1)
                target = places[place]
                places[place] = target + 1
                entries[target] = (first + loop.index) | digit.sign
