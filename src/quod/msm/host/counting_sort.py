"""Digits of scalars, and their counting sort into buckets on a CPU, window by window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.curve.sums.entries import SIGN_BIT
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U8, U16, U32, U64, Pointer, Value
from quod.msm.scalars import SCALAR_BYTES, bits_of, is_above

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

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
    """Compute out[w * count + i] = digit w of scalar i, in 16-bit two's complement.

    scalars: canonical integers of four words.
    overflow: overflow[0] becomes 1 if a scalar is above `maximum`.
    infinite: with `masked`, a scalar whose byte is set counts as zero.
    """
    i = k.global_id()
    with k.if_(i < count):
        word_offset = i.cast(types.u64) * _SCALAR_WORDS_64
        words = list(k.load(scalars, word_offset, _SCALAR_WORDS_64))
        with k.if_(is_above(k, words, maximum)):
            overflow[0] = 1
        if masked:
            skip = infinite[i] != 0
            words = [k.select(skip, 0, word) for word in words]
        half, digit_base = 1 << (window_bits - 1), 1 << window_bits
        carry: Value = k.constant(0, types.u32)
        for window in range(windows):
            unsigned_digit = bits_of(k, words, window * window_bits, window_bits) + carry
            negative = unsigned_digit >= half
            carry = k.select(negative, k.constant(1, types.u32), 0)
            digit = k.select(negative, unsigned_digit - digit_base, unsigned_digit)
            row = k.constant(window, types.u64) * count.cast(types.u64)
            out[row + i.cast(types.u64)] = digit


class _Digit:
    """One stored digit: its bucket, counted from 1 (0 for a zero digit), and its sign bit."""

    def __init__(self, k: Builder, stored: Value) -> None:
        self.negative = stored >= 0x8000
        self.bucket = k.select(self.negative, 0x10000 - stored, stored)
        self.sign = k.select(self.negative, k.constant(SIGN_BIT, types.u32), 0)


def _part_range(k: Builder, count: Value, part: Value, parts: Value) -> tuple[Value, Value]:
    """Return the range of scalars that worker `part` of `parts` sorts in a window."""
    part_size = (count + parts - 1) // parts
    start = k.minimum(part * part_size, count)
    return start, k.minimum(start + part_size, count)


def _row(windows: Value, copies: Value, window: Value, copy: Value) -> Value:
    """Return the row of digits that one copy of the bases adds to a window of buckets."""
    vector, vector_window = window // windows, window % windows
    return ((vector * copies + copy) * windows + vector_window).cast(types.u64)


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
    """Count the digits of each bucket into counts[(window * parts + part) * buckets + bucket].

    With precomputed multiples a window of buckets receives `copies` windows of digits, every
    `windows`-th. Windows are ordered by vector of scalars. Compiled for one lane: an instance
    handles one part of one window.
    """
    task = k.global_id()
    window, part = task // parts, task % parts
    start, stop = _part_range(k, count, part, parts)
    task_counts = task * buckets
    with k.range(0, copies) as outer:
        row = _row(windows, copies, window, outer.index) * count.cast(types.u64)
        with k.range(start, stop) as loop:
            digit = _Digit(k, stored[row + loop.index.cast(types.u64)])
            with k.if_(digit.bucket != 0):
                index = task_counts + (digit.bucket - 1)
                counts[index] = counts[index] + 1


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
    """Turn counts into the positions at which each part writes, bucket by bucket within a window.

    Window w's entries begin at w * room. Compiled for one lane: an instance handles one window.
    """
    window = k.global_id()
    with k.range(0, buckets, carry=window * room) as loop:
        begin = loop.carried
        with k.range(0, parts, carry=begin) as inner:
            index = (window * parts + inner.index) * buckets + loop.index
            bucket_count = counts[index]
            counts[index] = inner.carried
            inner.next(inner.carried + bucket_count)
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
    """Write each digit's entry to its bucket. Compiled for one lane, like `count_digits`.

    stride: copy j of the bases begins at base j * stride.
    places: the positions from `place_buckets`; each becomes the position after the part's entries.
    """
    task = k.global_id()
    window, part = task // parts, task % parts
    start, stop = _part_range(k, count, part, parts)
    task_places = task * buckets
    with k.range(0, copies) as outer:
        row = _row(windows, copies, window, outer.index) * count.cast(types.u64)
        first = outer.index * stride
        with k.range(start, stop) as loop:
            digit = _Digit(k, stored[row + loop.index.cast(types.u64)])
            with k.if_(digit.bucket != 0):
                index = task_places + (digit.bucket - 1)
                target = places[index]
                places[index] = target + 1
                entries[target] = (first + loop.index) | digit.sign
