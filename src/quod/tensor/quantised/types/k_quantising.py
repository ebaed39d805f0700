"""The quantisation of Q4_K, Q5_K and Q6_K: searches for the scales of runs.

The results are those of ggml's reference quantisers (`quantize_row_q4_K_ref` and its neighbours in
ggml-quants.c) as compiled for x86-64: all arithmetic is in f32, in ggml's order and without fused
products. Arrays have one row per index of a run and one column per run, so that each sum of a run
is a loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.frozen import frozen
from quod.tensor.quantised.types.k_scales import packed_scales
from quod.tensor.quantised.types.numpy_blocks import Bytes, Encoder, Floats

Integers = NDArray[np.int32]

_BLOCK = 256
"""Values of a block."""
_RUN = 32
"""Values of a run of Q4_K and Q5_K."""
_SHORT_RUN = 16
"""Values of a run of Q6_K."""
_CENTRE = 32
"""The integer of Q6_K that stands for 0."""
_LARGEST_SCALE = 63
"""The largest 6-bit scale."""
_LEAST = np.float32(1e-15)
"""A run of Q6_K whose values are smaller has the scale 0."""
_BLOCKS_TOGETHER = 1024
"""Blocks that are quantised together, so that their arrays stay in a CPU's cache."""
_ROUNDER = np.float32(1.5 * 2**23)
"""Added to a number, it leaves the nearest integer in the significand."""

_f32 = np.float32


@frozen
class RunSearch:
    """The search for the scale and minimum of a run: Q4_K or Q5_K.

    largest: The largest integer.
    first: The first candidate's range of integers, minus `largest`; the next ones are 0.1 apart.
    steps: The number of candidates, minus 1.
    """

    largest: int
    first: float
    steps: int


class Runs(NamedTuple):
    """Runs with scales in f32.

    integers: One row per index of a run, one column per run.
    scales, minima: One per run; a value is scale * integer - minimum.
    """

    integers: Integers
    scales: Floats
    minima: Floats


def minimum_encoder(
    name: str, search: RunSearch, pack: Callable[[NDArray[np.uint8]], Bytes]
) -> Encoder:
    """Return the encoder of a type whose runs of 32 have scales and minima of 6 bits.

    pack: Returns the bytes after the scales for integers of shape (n, 256).
    """

    def encoded(values: Floats) -> Bytes:
        runs = _searched(_columns(values, _RUN), search)
        scales, minima = (column.reshape(-1, 8) for column in (runs.scales, runs.minima))
        d, scale_bits = _six_bits(scales)
        m, minimum_bits = _six_bits(minima)
        _check_f16(name, d, m)
        scale, minimum = _products(d, scale_bits), _products(m, minimum_bits)
        integers = _nearest((_columns(values, _RUN) + minimum) / scale)
        integers = np.where(scale == 0, runs.integers, integers.clip(0, search.largest))
        quants = _blocks(integers).astype(np.uint8)
        return np.concatenate(
            [_f16_bytes(d), _f16_bytes(m), packed_scales(scale_bits, minimum_bits), pack(quants)],
            axis=1,
        )

    return _by_chunks(encoded)


def signed_encoder(name: str, pack: Callable[[NDArray[np.uint8]], Bytes]) -> Encoder:
    """Return the encoder of a type whose runs of 16 have signed scales: Q6_K.

    pack: Returns the bytes before the scales for integers of shape (n, 256).
    """

    def encoded(values: Floats) -> Bytes:
        integers, run_scales = _searched_signed(_columns(values, _SHORT_RUN))
        scales = run_scales.reshape(-1, _BLOCK // _SHORT_RUN)
        largest = np.take_along_axis(scales, np.abs(scales).argmax(axis=1)[:, None], axis=1)
        is_zero = np.abs(largest) < _LEAST
        inverse: Floats = np.divide(_f32(-128), np.where(is_zero, _f32(1), largest))
        d = np.where(is_zero, _f32(0), 1 / inverse).astype("<f2")
        _check_f16(name, d)
        bits = np.minimum(_nearest(inverse * scales), 127).astype(np.int8)
        scale = _products(d, bits)
        nearest = _nearest(_columns(values, _SHORT_RUN) / scale).clip(-_CENTRE, _CENTRE - 1)
        integers = np.where(scale == 0, integers, nearest + _CENTRE)
        low = pack(_blocks(integers).astype(np.uint8))
        blocks = np.concatenate([low, bits.view(np.uint8), _f16_bytes(d)], axis=1)
        return np.where(is_zero, np.uint8(0), blocks)

    return _by_chunks(encoded)


def _searched(values: Floats, search: RunSearch) -> Runs:
    """Search for scales and minima that minimise the weighted squared error of each run."""
    mean_square = _sum(value * value for value in values) / _f32(_RUN)
    weights = np.sqrt(mean_square) + np.abs(values)
    least, greatest = np.minimum(values.min(axis=0), _f32(0)), values.max(axis=0)
    is_flat = greatest == least
    weight_sum = _sum(weights)
    value_sum = _sum(weight * value for weight, value in zip(weights, values, strict=True))
    inverse = _f32(search.largest) / (greatest - least)
    scales: Floats = 1 / inverse
    minima: Floats = least
    integers = _nearest(inverse * (values - minima)).clip(0, search.largest)
    best_error = _error(values, weights, integers, scales, minima)
    for step in range(search.steps + 1):
        top = _f32(search.first) + _f32(0.1) * _f32(step) + _f32(search.largest)
        # The best minimum so far is the base of the next candidate.
        inverse = top / (greatest - minima)
        candidates = _nearest(inverse * (values - minima)).clip(0, search.largest)
        floats = candidates.astype(np.float32)
        scaled = weights * floats
        first, second = _sum(scaled), _sum(scaled * floats)
        mixed = _sum(scaled * values)
        determinant = weight_sum * second - first * first
        scale: Floats = np.divide(weight_sum * mixed - value_sum * first, determinant)
        minimum: Floats = np.divide(second * value_sum - first * mixed, determinant)
        is_above = minimum > 0
        scale = np.where(is_above, mixed / second, scale)
        minimum = np.where(is_above, _f32(0), minimum)
        error = _error(values, weights, candidates, scale, minimum)
        is_better = (determinant > 0) & (error < best_error)
        integers = np.where(is_better, candidates, integers)
        best_error = np.where(is_better, error, best_error)
        scales, minima = np.where(is_better, scale, scales), np.where(is_better, minimum, minima)
    return Runs(
        np.where(is_flat, 0, integers),
        np.where(is_flat, _f32(0), scales),
        -np.where(is_flat, least, minima),
    )


def _error(
    values: Floats, weights: Floats, integers: Integers, scales: Floats, minima: Floats
) -> Floats:
    """Return the weighted squared error of each run."""
    differences = scales * integers.astype(np.float32) + minima - values
    return _sum(weights * (differences * differences))


def _searched_signed(values: Floats) -> tuple[Integers, Floats]:
    """Search for scales that minimise the error of each run, weighted by the squared values.

    Returns the integers, whose zero is `_CENTRE`, and the scales.
    """
    magnitudes = np.abs(values)
    peak_index = magnitudes.argmax(axis=0)[None]
    peaks = np.take_along_axis(values, peak_index, axis=0)[0]
    weights = values * values
    weighted = weights * values

    def candidate(top: np.float32) -> tuple[Integers, Floats, Floats]:
        integers = _nearest(-top / peaks * values).clip(-_CENTRE, _CENTRE - 1)
        floats = integers.astype(np.float32)
        return integers, _sum(weighted * floats), _sum(weights * floats * floats)

    integers, mixed, second = candidate(_f32(_CENTRE))
    scales = np.where(second == 0, _f32(0), mixed / second)
    best = scales * mixed
    for step in (*range(-9, 0), *range(1, 10)):
        candidates, mixed, second = candidate(_f32(_CENTRE) + _f32(0.1) * _f32(step))
        is_better = (second > 0) & (mixed * mixed > best * second)
        integers = np.where(is_better, candidates, integers)
        scales = np.where(is_better, mixed / second, scales)
        best = np.where(is_better, scales * mixed, best)
    is_small = np.abs(peaks) < _LEAST
    return np.where(is_small, 0, integers + _CENTRE), np.where(is_small, _f32(0), scales)


def _six_bits(numbers: Floats) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
    """Return the f16 scales of eight numbers per block, of shape (n, 1), and 6-bit integers."""
    largest = np.maximum(numbers.max(axis=1, keepdims=True), _f32(0))
    limit = _f32(_LARGEST_SCALE)
    inverse = np.where(largest > 0, limit / largest, _f32(0))
    # ggml keeps the integer in a byte before it limits it.
    bits = _nearest(inverse * numbers).astype(np.uint8)
    return (largest / limit).astype("<f2"), np.minimum(bits, np.uint8(_LARGEST_SCALE))


def _products(halves: NDArray[np.float16], integers: NDArray[np.integer[Any]]) -> Floats:
    """Return the scales of all runs in f32, from the f16 scales of blocks and their integers."""
    products: Floats = halves.astype(np.float32) * integers.astype(np.float32)
    return products.reshape(-1)


def _nearest(values: Floats) -> Integers:
    """Round to the nearest integer, ties to even; beyond 2**22 the result is ggml's too."""
    bits = (values + _ROUNDER).view(np.int32)
    return (bits & 0x7FFFFF) - 0x400000


def _sum(rows: Iterable[Floats]) -> Floats:
    """Add up rows in order."""
    return reduce(np.add, rows)


def _columns(values: Floats, run: int) -> Floats:
    """Return values of shape (n, 256) as one column per run."""
    return np.ascontiguousarray(values.reshape(-1, run).T)


def _blocks(columns: Integers) -> Integers:
    """Undo `_columns`."""
    return columns.T.reshape(-1, _BLOCK)


def _f16_bytes(halves: NDArray[np.float16]) -> Bytes:
    return halves.astype("<f2").view(np.uint8)


def _check_f16(name: str, *scales: NDArray[np.float16]) -> None:
    """Raise InputError if a scale of a block is infinite or NaN."""
    if not all(np.isfinite(scale).all() for scale in scales):
        raise InputError(f"values are too large for {name}: the scale of a block is beyond f16")


def _by_chunks(encode: Encoder) -> Encoder:
    """Return an encoder that quantises some blocks at a time."""

    def encoded(values: Floats) -> Bytes:
        starts = range(0, max(1, len(values)), _BLOCKS_TOGETHER)
        # Runs of equal values divide by zero; their results are replaced.
        with np.errstate(all="ignore"):
            return np.concatenate([
                encode(values[start : start + _BLOCKS_TOGETHER]) for start in starts
            ])  # fmt: skip

    return encoded
