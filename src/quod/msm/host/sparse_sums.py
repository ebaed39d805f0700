"""Sparse MSMs: many sums of few points each, with coefficients that are mostly 1 or -1.

A set-up from powers of tau has one sum per wire and array of its key. Other coefficients are split
into signed digits: each window sums precomputed multiples d * P, |d| <= 8, and Horner's rule
combines the windows of a sum (Straus, "Addition chains of vectors", 1964, problem 5125). A
coefficient c is represented by the smaller of c and r - c and a sign, so that plus or minus a power
of two has one digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.curve.group import Group
from quod.curve.sums.entries import INDEX_MASK, SIGN_BIT
from quod.curve.weierstrass import operations
from quod.curve.weierstrass.point import PointArithmetic
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.frozen import frozen, replace
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.msm.host.point_sums import PointSums
from quod.msm.host.segments import NO_POINT

Indices = NDArray[Any]

_WINDOW_BITS = 4
_LARGEST_DIGIT = 1 << (_WINDOW_BITS - 1)

# The maximum number of entries that one instance sums, and the length of the chunks of longer sums.
_LONGEST, _CHUNK_LENGTH = 64, 32

HARD_WEIGHT = 16
"""The memory of a term whose coefficient is neither 1 nor -1, as a multiple of other terms'."""


@frozen(eq=False)
class Coefficients:
    """Elements of a scalar field, as signs and magnitudes of at most (r - 1) / 2.

    negative: signs, bool of shape (n,).
    hard: ascending indices of the coefficients whose magnitude is not 1.
    magnitudes: the magnitudes of `hard`, canonical, uint32 of shape (len(hard), words).
    """

    negative: NDArray[np.bool_]
    hard: Indices
    magnitudes: Words

    def __len__(self) -> int:
        return len(self.negative)

    @classmethod
    def of(cls, modulus: Modulus, values: Words) -> Coefficients:
        """Convert canonical values of shape (n, words)."""
        words = np.ascontiguousarray(values).view("<u8")
        is_one = _equals(words, 1)
        minus_one = _equals(words, modulus.value - 1)
        hard = np.flatnonzero(~(is_one | minus_one))
        negative = minus_one
        magnitudes, negated = _smaller(modulus, words[hard])
        negative[hard] = negated
        return cls(negative, hard, magnitudes)

    def gathered(self, order: Indices) -> Coefficients:
        """Return the coefficients at the indices `order`, in that order."""
        is_hard = np.zeros(len(self), np.bool_)
        is_hard[self.hard] = True
        magnitude_index = np.zeros(len(self), np.int64)
        magnitude_index[self.hard] = np.arange(len(self.hard))
        hard = np.flatnonzero(is_hard[order])
        return Coefficients(
            self.negative[order], hard, self.magnitudes[magnitude_index[order[hard]]]
        )  # fmt: skip

    def part(self, first: int, last: int) -> Coefficients:
        """Return coefficients first to last - 1."""
        begin, end = np.searchsorted(self.hard, [first, last])
        return Coefficients(
            self.negative[first:last], self.hard[begin:end] - first, self.magnitudes[begin:end]
        )

    @staticmethod
    def joined(parts: list[Coefficients]) -> Coefficients:
        """Concatenate coefficients."""
        starts = np.cumsum([0, *map(len, parts)])
        return Coefficients(
            np.concatenate([part.negative for part in parts]),
            np.concatenate([part.hard + start for part, start in zip(parts, starts)]),
            np.concatenate([part.magnitudes for part in parts]),
        )


def _equals(words: NDArray[Any], value: int) -> NDArray[np.bool_]:
    equal = np.ones(len(words), np.bool_)
    for index in range(words.shape[1]):
        equal &= words[:, index] == np.uint64(value >> 64 * index & (1 << 64) - 1)
    return equal


def _smaller(modulus: Modulus, words: NDArray[Any]) -> tuple[Words, NDArray[np.bool_]]:
    """Return the smaller of v and r - v for each value v, and a mask of the values replaced."""
    negated_words = np.empty_like(words)
    borrow = np.zeros(len(words), np.uint64)
    for index in range(words.shape[1]):
        modulus_word = np.uint64(modulus.value >> 64 * index & (1 << 64) - 1)
        subtrahend = words[:, index] + borrow
        overflowed = subtrahend < borrow
        negated_words[:, index] = modulus_word - subtrahend
        borrow = ((subtrahend > modulus_word) | overflowed).astype(np.uint64)
    negative = np.zeros(len(words), np.bool_)
    equal = np.ones(len(words), np.bool_)
    for index in reversed(range(words.shape[1])):
        negative |= equal & (negated_words[:, index] < words[:, index])
        equal &= negated_words[:, index] == words[:, index]
    magnitudes = np.where(negative[:, None], negated_words, words)
    return np.ascontiguousarray(magnitudes).view(np.uint32), negative


@kernel
def combine_windows(
    k: Builder,
    count: U32,
    starts: Pointer[U32],
    lengths: Pointer[U32],
    windows: Pointer[U32],
    sums: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    window_bits: int,
) -> None:
    """Compute out[i] = the sum of 2**(window_bits * windows[j]) * sums[j], an extended point.

    j runs over lengths[i] affine points from starts[i] on, whose windows ascend.
    """
    curve, i = PointArithmetic(k, group), k.global_id()
    with k.if_(i < count):
        start, length = starts[i], lengths[i]
        with k.range(0, length, carry=curve.bounded(curve.infinity())) as loop:
            index = start + (length - 1 - loop.index)
            total = curve.bounded(curve.add_affine(loop.carried, curve.load_affine(sums, index)))
            previous_window = windows[k.maximum(index, 1) - 1]
            lower = k.select(index == start, 0, previous_window)
            with k.range(0, (windows[index] - lower) * window_bits, carry=total) as inner:
                inner.next(curve.bounded(curve.double(inner.carried)))
            loop.next(inner.results)
        curve.store_extended(out, i, loop.results)


@kernel
def sum_segments(
    k: Builder,
    count: U32,
    starts: Pointer[U32],
    lengths: Pointer[U32],
    entries: Pointer[U32],
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
) -> None:
    """Compute out[i] = the sum of the points of lengths[i] entries from starts[i] on, extended."""
    curve, i = PointArithmetic(k, group), k.global_id()
    f = curve.field
    with k.if_(i < count):
        start = starts[i]
        with k.range(0, lengths[i], carry=curve.bounded(curve.infinity())) as loop:
            entry = entries[start + loop.index]
            point = curve.load_affine(points, entry & INDEX_MASK)
            y = f.select((entry & SIGN_BIT) != 0, f.bounded(-point.y), f.bounded(point.y))
            loop.next(curve.bounded(curve.add_affine(loop.carried, replace(point, y=y))))
        curve.store_extended(out, i, loop.results)


def sparse_sums(
    device: AnyDevice,
    group: Group,
    points: Words,
    owners: Indices,
    coefficients: Coefficients,
    count: int,
) -> Words:
    """Return sums[j] = the sum of coefficients[i] * points[i] over all i with owners[i] = j.

    points: affine, of shape (n, *group.shape).
    owners: n integers below `count`.
    Returns affine points of shape (count, *group.shape).
    """
    points = np.require(points, requirements=("C", "A"))
    point_indices = np.arange(len(points), dtype=np.uint32)
    signs = np.where(coefficients.negative, np.uint32(SIGN_BIT), np.uint32(0))
    hard = coefficients.hard
    if not len(hard):
        order = _owner_order(owners)
        return _by_owner(
            device, group, points, (point_indices | signs)[order], owners[order], count
        )
    is_unit = np.ones(len(points), np.bool_)
    is_unit[hard] = False
    digits = _digits(coefficients.magnitudes)
    windows = len(digits)
    window, term = np.nonzero(digits)
    digit = digits[window, term]
    magnitude = np.abs(digit).astype(np.uint32)
    source = np.concatenate([points, _multiples(device, group, points[hard])])
    multiple_index = len(points) + (magnitude - 2) * np.uint32(len(hard)) + term.astype(np.uint32)
    multiple_entries = np.where(magnitude == 1, point_indices[hard[term]], multiple_index)
    multiple_entries ^= signs[hard[term]] ^ np.where(digit < 0, np.uint32(SIGN_BIT), np.uint32(0))
    entries = np.concatenate([(point_indices | signs)[is_unit], multiple_entries])
    keys = np.concatenate(
        [owners[is_unit].astype(np.int64), owners[hard[term]].astype(np.int64)]
    ) * windows + np.concatenate([np.zeros(int(is_unit.sum()), np.int64), window])
    order = np.argsort(keys, kind="stable")
    keys, entries = keys[order], entries[order]
    run_starts = _run_starts(keys)
    lengths = np.diff(np.append(run_starts, len(keys)))
    sums = segment_sums(device, group, source, entries, run_starts, lengths)
    sum_owners, window = np.divmod(keys[run_starts], windows)
    return _combine(device, group, sums, sum_owners, window, count)


def _owner_order(owners: Indices) -> Indices | slice:
    """Return the stable order that sorts owners; a full slice if they are already sorted."""
    if (owners[1:] >= owners[:-1]).all():
        return slice(None)
    return np.argsort(owners, kind="stable")


def _run_starts(keys: Indices) -> Indices:
    """Return the start of each run of equal keys."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])


def _by_owner(
    device: AnyDevice, group: Group, points: Words, entries: Indices, owners: Indices, count: int
) -> Words:
    """Return the sum of the entries of each owner; `owners` has each entry's, in order."""
    run_starts = _run_starts(owners)
    lengths = np.diff(np.append(run_starts, len(owners)))
    sums = segment_sums(device, group, points, entries, run_starts, lengths)
    if len(run_starts) == count:
        return sums
    out = np.zeros((count, *group.shape), np.uint32)
    out[owners[run_starts]] = sums
    return out


def _combine(
    device: AnyDevice, group: Group, sums: Words, owners: Indices, window: Indices, count: int
) -> Words:
    """Combine each owner's window sums, sorted by rising window, to one sum."""
    out = np.zeros((count, *group.shape), np.uint32)
    run_starts = _run_starts(owners)
    lengths = np.diff(np.append(run_starts, len(owners)))
    is_final = (lengths == 1) & (window[run_starts] == 0)
    out[owners[run_starts[is_final]]] = sums[run_starts[is_final]]
    starts, lengths = run_starts[~is_final], lengths[~is_final]
    # Sort by the length of the loop, so that neighbouring lanes finish together.
    order = np.argsort(window[starts + lengths - 1], kind="stable")
    starts, lengths = starts[order], lengths[order]
    extended = unwritten(len(starts), 4 * group.field.words)
    if len(starts):
        compiled = device.compile(combine_windows, group=group, window_bits=_WINDOW_BITS)
        device.launch(
            compiled, -(-len(starts) // device.lanes), len(starts), _u32(starts), _u32(lengths),
            _u32(window), sums, extended,
        )  # fmt: skip
        check_written(device, "sums of windows", extended)
        out[owners[starts]] = operations.normalise(device, group, extended)
    return out


def _u32(array: Indices) -> NDArray[np.uint32]:
    return np.ascontiguousarray(array, np.uint32)


def _digits(magnitudes: Words) -> NDArray[np.int8]:
    """Return signed digits of magnitudes, lowest window first, int8 of shape (windows, n)."""
    words = np.ascontiguousarray(magnitudes).view("<u8")
    count = words.shape[1] * 64 // _WINDOW_BITS
    digits = np.empty((count, len(words)), np.int8)
    carry = np.zeros(len(words), np.int8)
    mask = np.uint64((1 << _WINDOW_BITS) - 1)
    for window in range(count):
        word_index, shift = divmod(window * _WINDOW_BITS, 64)
        unsigned_digits = (words[:, word_index] >> np.uint64(shift) & mask).astype(np.int8) + carry
        carry = (unsigned_digits > _LARGEST_DIGIT).astype(np.int8)
        digits[window] = unsigned_digits - (carry << _WINDOW_BITS)
    return digits


def _multiples(device: AnyDevice, group: Group, points: Words) -> Words:
    """Return 2 * P of all points, then 3 * P, up to 8 * P."""
    by_factor = [operations.double(device, group, points)]
    for _ in range(3, _LARGEST_DIGIT + 1):
        by_factor.append(operations.add(device, group, by_factor[-1], points))
    return np.concatenate(by_factor)


def segment_sums(
    device: AnyDevice,
    group: Group,
    points: Words,
    entries: Indices,
    starts: Indices,
    lengths: Indices,
) -> Words:
    """Return the sum of each segment of entries, affine points of shape (n, *group.shape).

    entries: indices of points, with `SIGN_BIT` set for a negated point.
    """
    out = np.zeros((len(starts), *group.shape), np.uint32)
    single = lengths == 1
    indices = np.flatnonzero(single)
    single_entries = entries[starts[indices]]
    out[indices] = points[single_entries & np.uint32(INDEX_MASK)]
    negated_indices = indices[(single_entries & np.uint32(SIGN_BIT)) != 0]
    if len(negated_indices):
        out[negated_indices] = operations.negate(device, group, out[negated_indices])
    indices = np.flatnonzero(lengths > 1)
    if len(indices):
        add_up = _add_up_on_host if in_host_memory(device) else _add_up_on_device
        out[indices] = add_up(device, group, points, entries, starts[indices], lengths[indices])
    return out


def _add_up_on_host(
    device: Any, group: Group, points: Words, entries: Indices, starts: Indices, lengths: Indices
) -> Words:
    """Compute `segment_sums` of segments of two or more entries."""
    sums = PointSums(device, group, len(starts), longest=_LONGEST, chunk_length=_CHUNK_LENGTH)
    flat = points.reshape(-1).view(np.uint64)
    sums.add_up(flat, _u32(entries), _u32(starts), _u32(lengths))
    totals = np.zeros((len(starts), group.point_words), np.uint64)
    has_sum = sums.point_indices != NO_POINT
    totals[has_sum] = sums.points.reshape(-1, group.point_words)[sums.point_indices[has_sum]]
    return totals.view(np.uint32).reshape(-1, *group.shape)


def _add_up_on_device(
    device: AnyDevice,
    group: Group,
    points: Words,
    entries: Indices,
    starts: Indices,
    lengths: Indices,
) -> Words:
    """Compute `segment_sums` of segments of two or more entries, chunk by chunk."""
    chunk_counts = -(-lengths // _CHUNK_LENGTH)
    first_chunks = np.cumsum(chunk_counts) - chunk_counts
    owners = np.repeat(np.arange(len(starts)), chunk_counts)
    offsets = (np.arange(len(owners)) - first_chunks[owners]) * _CHUNK_LENGTH
    chunk_starts = starts[owners] + offsets
    chunk_lengths = np.minimum(lengths[owners] - offsets, _CHUNK_LENGTH)
    extended = unwritten(len(owners), 4 * group.field.words)
    compiled = device.compile(sum_segments, group=group)
    device.launch(
        compiled, -(-len(owners) // device.lanes), len(owners), _u32(chunk_starts),
        _u32(chunk_lengths), _u32(entries), points, extended,
    )  # fmt: skip
    check_written(device, "sums of points", extended)
    sums = operations.normalise(device, group, extended)
    if len(owners) == len(starts):
        return sums
    point_indices = np.arange(len(sums), dtype=np.uint32)
    return segment_sums(device, group, sums, point_indices, first_chunks, chunk_counts)
