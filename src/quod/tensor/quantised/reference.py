"""What blocks of quantised weights mean, in NumPy: the definition that kernels are compared with.

Formats and order of operations are those of ggml (ggml-quants.c): in f32, no product fused with a
sum. A value is (scale * q) - minimum. The scale is a product of an f16 and 6 or 8 bits, so that it
and scale * q are exact, and the difference is what is rounded: fusing changes nothing. NF4, which
has a product alone, is in `nf4`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.types import GGUF_TYPES
from quod.tensor.quantised.kinds import BLOCKS
from quod.tensor.quantised.nf4 import of_nf4, to_nf4
from quod.validation import choice, plain_array

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Encoder = Callable[[Floats], Bytes]

_NO_INVERSE = np.float32(2.0**-128)
"""The largest f32 whose inverse is beyond f32."""


def dequantise(type_name: str, blocks: NDArray[Any]) -> Floats:
    """The values of an array as `GgufTensor.array` gives it, f32.

    Of blocks uint8 of shape (..., bytes of a row) it has shape (..., values of a row); of F32, F16,
    BF16 and I8 the array's own shape. Scales that are infinite or NaN give what IEEE 754 says.
    Raises `InputError` for another type, or an array that is none of it.
    """
    name = choice("the type", type_name, (*_PLAIN, *_DECODED))
    array = plain_array("blocks", blocks)
    wanted = np.dtype(np.uint8) if name in _DECODED else GGUF_TYPES[name].dtype
    if wanted is None or array.dtype != wanted:
        raise InputError(f"blocks of {name} must be {wanted}, not {array.dtype}")
    if name in _PLAIN:
        return _PLAIN[name](array)
    kind = BLOCKS[name]
    if not array.ndim or array.shape[-1] % kind.bytes:
        raise InputError(f"rows of {name} must be whole blocks of {kind.bytes} bytes")
    shape = (*array.shape[:-1], array.shape[-1] // kind.bytes * kind.elements)
    if not array.size:
        return np.zeros(shape, np.float32)
    with np.errstate(all="ignore"):
        values = _DECODED[name](array.reshape(-1, kind.bytes))
    return values.reshape(shape)


def quantise(type_name: str, values: Floats) -> Bytes:
    """f32 of shape (..., k) as blocks, uint8 of shape (..., bytes of a row), as ggml makes them.

    `type_name` is Q4_0 or Q8_0; NF4 is as bitsandbytes makes it, in blocks of `nf4`. Raises
    `InputError` for rows that are no whole blocks, for values that are not finite, and for blocks
    whose scale is beyond f16.
    """
    name = choice("the type", type_name, tuple(_ENCODED))
    array, kind = plain_array("values", values), BLOCKS[name]
    if array.dtype != np.float32:
        raise InputError(f"values must be float32, not {array.dtype}")
    if not array.ndim or array.shape[-1] % kind.elements:
        raise InputError(f"rows of values for {name} must be whole blocks of {kind.elements}")
    if not np.isfinite(array).all():
        raise InputError("values must be finite, and one is not")
    packed = _ENCODED[name](array.reshape(-1, kind.elements))
    row = array.shape[-1] // kind.elements * kind.bytes
    return packed.reshape(*array.shape[:-1], row)


def _bf16(bits: NDArray[Any]) -> Floats:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _halves(blocks: Bytes, at: int) -> Floats:
    """The f16 at a byte of each block, as f32 of shape (n, 1)."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def _nibbles(packed: Bytes, run: int) -> NDArray[np.uint8]:
    """Of each `run` bytes first the low halves, then the high ones."""
    parts = packed.reshape(len(packed), -1, 1, run) >> np.array([[0], [4]], np.uint8)
    return (parts & 15).astype(np.uint8).reshape(len(packed), -1)


def _q4_0(blocks: Bytes) -> Floats:
    return _halves(blocks, 0) * (_nibbles(blocks[:, 2:], 16).astype(np.float32) - 8)


def _q8_0(blocks: Bytes) -> Floats:
    return _halves(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _scaled(blocks: Bytes, quants: NDArray[np.integer[Any]]) -> Floats:
    """Values of Q4_K and Q5_K: 8 scales and minima of 6 bits, one of each for 32 quants."""
    s = blocks[:, 4:16]
    scales = np.concatenate([s[:, :4] & 63, s[:, 8:] & 15 | s[:, :4] >> 6 << 4], axis=1)
    minima = np.concatenate([s[:, 4:8] & 63, s[:, 8:] >> 4 | s[:, 4:8] >> 6 << 4], axis=1)
    d, m = _halves(blocks, 0) * scales, _halves(blocks, 2) * minima
    values: Floats = d[..., None] * quants.reshape(-1, 8, 32).astype(np.float32) - m[..., None]
    return values.reshape(len(blocks), 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _scaled(blocks, _nibbles(blocks[:, 16:], 32))


def _q5_k(blocks: Bytes) -> Floats:
    high = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _scaled(blocks, _nibbles(blocks[:, 48:], 32) | high.reshape(-1, 256) << 4)


def _q6_k(blocks: Bytes) -> Floats:
    low = blocks[:, :128].reshape(-1, 2, 1, 64) >> np.array([[0], [4]], np.uint8) & 15
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3) << 4
    quants = low.reshape(-1, 256) | high.reshape(-1, 256)
    scales = _halves(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    centred = quants.reshape(-1, 16, 16).astype(np.float32) - 32
    return (scales[..., None] * centred).reshape(len(blocks), 256)


def _scaled_by_f16(name: str, encode: Callable[[Floats], tuple[Floats, Bytes]]) -> Encoder:
    """What puts the scale before the integers of each block."""

    def encoded(values: Floats) -> Bytes:
        with np.errstate(over="ignore", divide="ignore"):
            scale, quants = encode(values)
            stored = scale.astype("<f2")
        if not np.isfinite(stored).all():
            raise InputError(f"values are too large for {name}: the scale of a block is beyond f16")
        return np.concatenate([stored.view(np.uint8), quants], axis=1)

    return encoded


def _inverse(scale: Floats) -> Floats:
    """1 / scale, or 0 where f32 has none: there the scale is 0 as f16."""
    return np.where(np.abs(scale) > _NO_INVERSE, 1 / scale, np.float32(0))


def _to_q4_0(values: Floats) -> tuple[Floats, Bytes]:
    largest = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)
    scale = largest / np.float32(-8)
    # Not fused: compilers of ggml may fuse it, which moves a value in thousands by one step.
    quants = np.minimum(values * _inverse(scale) + np.float32(8.5), 15).astype(np.uint8)
    # What the gguf package makes of infinities.
    quants[((scale != 0) & (_inverse(scale) == 0))[:, 0]] = 0
    return scale, (quants[:, :16] | quants[:, 16:] << 4).astype(np.uint8)


def _to_q8_0(values: Floats) -> tuple[Floats, Bytes]:
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    scaled = values * _inverse(scale)
    # Halves away from zero, as C's roundf.
    floor = np.floor(np.abs(scaled))
    rounded = floor + np.floor(2 * (np.abs(scaled) - floor))
    return scale, (np.sign(scaled) * rounded).astype(np.int8).view(np.uint8)


_PLAIN: dict[str, Callable[[NDArray[Any]], Floats]] = {
    "F32": lambda array: array,
    "F16": lambda array: array.astype(np.float32),
    "BF16": _bf16,
    "I8": lambda array: array.astype(np.float32),
}
_DECODED: dict[str, Callable[[Bytes], Floats]] = {
    "Q4_0": _q4_0, "Q8_0": _q8_0, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k, "NF4": of_nf4,
}  # fmt: skip
_ENCODED: dict[str, Encoder] = {
    "Q4_0": _scaled_by_f16("Q4_0", _to_q4_0), "Q8_0": _scaled_by_f16("Q8_0", _to_q8_0),
    "NF4": to_nf4,
}  # fmt: skip

BLOCK_TYPES = tuple(_DECODED)
"""The types of blocks: their names in GGUF files, and NF4."""
