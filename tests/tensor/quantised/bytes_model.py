"""The model in NumPy of products of blocks with activations of 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.tensor.quantised import dequantise
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from tests.tensor.numbers import Array

LANES = 32


def quantised(x: Array) -> tuple[Array, Array]:
    """Activations as whole numbers, and a scale for 32 of them; from f32 of shape (m, k)."""
    blocks = x.reshape(len(x), -1, 32)
    largest = np.abs(blocks).max(axis=2)
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(largest)
    usual = np.isfinite(largest) & (largest >= 2.0**-111)
    mantissa = np.where(usual, mantissa, 0.5)
    integer_mantissa = (mantissa * 2**24).astype(np.int64)
    number = ((254 << 40) // integer_mantissa >> 1).astype(np.float64)
    # 254 / a = 2 * number / 2^40 * 2^24 / 2^exponent.
    doubled_inverse = np.ldexp(number, -15 - np.where(usual, exponent, 1)).astype(np.float32)
    with np.errstate(all="ignore"):
        doubled = np.where(usual[..., None], blocks * doubled_inverse[..., None], 0)
        scale = np.where(usual, largest * np.float32(1 / 127), np.float32(0))
    integers = (np.floor(doubled).astype(np.int64) + 1) >> 1
    return integers, np.where(np.isfinite(largest), scale, np.float32(np.nan))


def parts(name: str, data: Array) -> tuple[Array, Array, Array, Array]:
    """Split each 32 elements into integers with their factors, minima, and two scales."""
    kind, n = QUANTISED_TYPES[name], len(data)
    fields = kind.scales
    start, stop = fields.offset, fields.offset + 2 * fields.count
    flat = data.reshape(-1, kind.bytes)
    scales = flat[:, start:stop].copy().view(np.float16).astype(np.float32)
    unit_blocks = flat.copy()
    many = kind.elements // 32
    least = np.zeros((len(flat), many), np.int64)
    # With scales of 1 values are the whole numbers themselves, less what is taken off.
    unit_blocks[:, start : start + 2] = np.array([1], np.float16).view(np.uint8)
    if fields.centre is not None:
        unit_blocks[:, start + 2 : stop] = 0
        taken = flat.copy()
        taken[:, start:stop] = np.array([0, 1], np.float16).view(np.uint8)
        least = -dequantise(name, taken)[:, ::32].astype(np.int64)
    numbers = dequantise(name, unit_blocks).astype(np.int64).reshape(n, -1, 32)
    second = scales[:, -1] if least.any() else np.zeros(len(flat), np.float32)
    return (
        numbers, least.reshape(n, -1), np.repeat(scales[:, 0], many).reshape(n, -1),
        np.repeat(second, many).reshape(n, -1),
    )  # fmt: skip


def product(name: str, data: Array, x: Array) -> Array:
    """f32 of shape (m, n), in the order of 32 instances; one operation after the other."""
    numbers, least, scale, minimum = parts(name, data)
    integers, scale_of_x = quantised(x)
    kind = QUANTISED_TYPES[name]
    runs = kind.packed_decoder().runs
    result = np.zeros((len(x), len(data)), np.float32)
    for row in range(len(data)):
        block_sums = (integers * numbers[row]).sum(axis=2).astype(np.float32)
        value = scale[row] * block_sums
        if kind.scales.centre is not None:
            value = value - minimum[row] * (least[row] * integers.sum(axis=2)).astype(np.float32)
        terms = scale_of_x * value
        totals: list[Any] = [np.zeros(len(x), np.float32) for _ in range(LANES)]
        for at in range(terms.shape[1]):
            totals[at // runs % LANES] += terms[:, at]
        while len(totals) > 1:
            half = len(totals) // 2
            totals = [totals[at] + totals[at + half] for at in range(half)]
        result[:, row] = totals[0]
    return result


def fused_bound(name: str, data: Array, x: Array) -> Array:
    """Bound the difference to `product` where products are fused with sums: shape (m, n)."""
    numbers, least, scale, minimum = parts(name, data)
    integers, scale_of_x = quantised(x)
    terms = np.abs(scale * np.einsum("mbe,nbe->mnb", integers, numbers))
    terms += np.abs(minimum * least * integers.sum(axis=2)[:, None])
    sizes = np.einsum("mb,mnb->mn", scale_of_x.astype(np.float64), terms)
    bound: Array = sizes * 2.0**-23 * (terms.shape[2] / LANES + 8)
    return bound
