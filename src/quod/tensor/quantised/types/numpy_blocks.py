"""Operations on blocks in NumPy that the references of several types share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Encoder = Callable[[Floats], Bytes]

_NO_INVERSE = np.float32(2.0**-128)
"""The largest f32 whose inverse exceeds f32's range."""


def halves(blocks: Bytes, at: int) -> Floats:
    """Return the f16 at a byte of each block, as f32 of shape (n, 1)."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def nibbles(packed: Bytes, run: int) -> NDArray[np.uint8]:
    """Return 4-bit integers: for every `run` bytes all low halves, then all high halves."""
    shifted = packed.reshape(len(packed), -1, 1, run) >> np.array([[0], [4]], np.uint8)
    return (shifted & 15).astype(np.uint8).reshape(len(packed), -1)


def packed_nibbles(integers: NDArray[np.uint8], run: int) -> Bytes:
    """Return the bytes whose `nibbles` are the lower four bits of integers."""
    count, length = integers.shape
    halves_of_bytes = integers.reshape(count, length // (2 * run), 2, run)
    packed: Bytes = halves_of_bytes[:, :, 0] & np.uint8(15) | halves_of_bytes[:, :, 1] << np.uint8(
        4
    )
    return packed.reshape(count, length // 2)


def scaled_by_f16(name: str, encode: Callable[[Floats], tuple[Floats, Bytes]]) -> Encoder:
    """Return an encoder that stores the f16 scale before the integers of each block.

    `encode` returns the scales, f32 of shape (n, 1), and the bytes of the integers. The encoder
    raises InputError for a scale beyond f16.
    """

    def encoded(values: Floats) -> Bytes:
        with np.errstate(over="ignore", divide="ignore"):
            scale, quants = encode(values)
            f16_scale = scale.astype("<f2")
        if not np.isfinite(f16_scale).all():
            raise InputError(f"values are too large for {name}: the scale of a block is beyond f16")
        return np.concatenate([f16_scale.view(np.uint8), quants], axis=1)

    return encoded


def inverse(scale: Floats) -> Floats:
    """Return 1 / scale, or 0 if f32 has no inverse: the scale is then 0 as f16."""
    return np.where(np.abs(scale) > _NO_INVERSE, 1 / scale, np.float32(0))
