"""The scales of Q4_K and Q5_K: two f16, and 8 scales and 8 minima of 6 bits in 12 bytes.

Each 6-bit scale and minimum is for 32 integers: value = d * scale * integer - m * minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.kernel import Builder, Value, i32, u32
from quod.tensor.quantised.decoders import Index, as_floats
from quod.tensor.quantised.packed import PackedRun
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats, halves


def six_bit_scales(blocks: Bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the 6-bit scales and minima of blocks, each of shape (n, 8)."""
    packed = blocks[:, 4:16]
    scales = np.concatenate(
        [packed[:, :4] & 63, packed[:, 8:] & 15 | packed[:, :4] >> 6 << 4], axis=1
    )
    minima = np.concatenate(
        [packed[:, 4:8] & 63, packed[:, 8:] >> 4 | packed[:, 4:8] >> 6 << 4], axis=1
    )
    return scales, minima


def packed_scales(scales: NDArray[np.uint8], minima: NDArray[np.uint8]) -> Bytes:
    """Return the 12 bytes of 6-bit scales and minima of shape (n, 8), as `six_bit_scales` reads."""
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = minima[:, :4] | minima[:, 4:] >> 4 << 6
    third = scales[:, 4:] & 15 | minima[:, 4:] << 4
    return np.concatenate([first, second, third], axis=1)


def scaled(blocks: Bytes, quants: NDArray[np.integer[Any]]) -> Floats:
    """Return the values of blocks whose integers are `quants`, of shape (n, 256)."""
    scales, minima = six_bit_scales(blocks)
    d, m = halves(blocks, 0) * scales, halves(blocks, 2) * minima
    values: Floats = d[..., None] * quants.reshape(-1, 8, 32).astype(np.float32) - m[..., None]
    return values.reshape(len(blocks), 256)


def _choose(
    k: Builder, group: Index, below: Callable[[], Value], above: Callable[[], Value]
) -> Value:
    """Select `below()` if `group`, the index of a group, is 0 or 1, else `above()`."""
    if isinstance(group, int):
        return below() if group < 2 else above()
    return k.select(group < 2, below(), above())


def _scale_words(
    k: Builder, data: Value, start: Value, group: Index
) -> tuple[Value, Value, Value, Value]:
    """Return a block's scale and minimum, and the 6-bit integers that scale them in a group.

    Each of the last two values holds two integers, for the group's two runs: bits 0 to 5 and bits 8
    to 13 of a word.
    """
    head, *packed = k.load(data.cast(u32), start >> 4 << 2, 4)
    shift = (group & 1) * 16
    a, b, c = (word >> shift for word in packed)
    scales = _choose(k, group, lambda: a & 0x3F3F, lambda: c & 0x0F0F | (a >> 2) & 0x3030)
    minima = _choose(k, group, lambda: b & 0x3F3F, lambda: (c >> 4) & 0x0F0F | (b >> 2) & 0x3030)
    return *k.unpack_f16(head), scales, minima


def group_scales(
    k: Builder, data: Value, start: Value, group: Index
) -> list[tuple[Value, Value]]:  # fmt: skip
    """Return scale and minimum of each of a group's two runs, as f32."""
    d, m, scales, minima = _scale_words(k, data, start, group)
    return [
        (d * as_floats([(scales >> shift) & 63])[0], m * as_floats([(minima >> shift) & 63])[0])
        for shift in (0, 8)
    ]


def packed_runs(
    k: Builder, data: Value, start: Value, group: Value, integers: list[list[Value]]
) -> list[PackedRun]:
    """Return the two runs of a group whose integers are words of four bytes."""
    d, m, scales, minima = _scale_words(k, data, start, group)
    return [
        PackedRun(
            words, d, [((scales >> shift) & 63).cast(i32)], m, ((minima >> shift) & 63).cast(i32)
        )
        for shift, words in zip((0, 8), integers, strict=True)
    ]
