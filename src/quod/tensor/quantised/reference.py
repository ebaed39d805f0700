"""The reference dequantisation and quantisation in NumPy, which kernels are compared with.

Formats and order of operations are those of ggml (ggml-quants.c): in f32, without fused products. A
value is (scale * q) - minimum. The scale is a product of an f16 and 6 or 8 bits, so that the
scale and scale * q are exact. Only the difference is rounded, and a fused operation gives the same
value. NF4's values are products, without a difference. Each type has a file in `types`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import InputError
from quod.formats.gguf.types import GGUF_TYPES
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from quod.validation import choice, plain_array


def dequantise(type_name: str, blocks: NDArray[Any]) -> Floats:
    """Return the f32 values of an array in the form of `GgufTensor.array`.

    Blocks are uint8 of shape (..., bytes of a row), and the result has shape (..., values of a
    row); for F32, F16, BF16 and I8 it has the array's shape. Infinite and NaN scales follow IEEE
    754. Raises `InputError` for another type, or an array that does not fit it.
    """
    name = choice("the type", type_name, (*_PLAIN, *QUANTISED_TYPES))
    array = plain_array("blocks", blocks)
    expected_type = np.dtype(np.uint8) if name in QUANTISED_TYPES else GGUF_TYPES[name].dtype
    if expected_type is None or array.dtype != expected_type:
        raise InputError(f"blocks of {name} must be {expected_type}, not {array.dtype}")
    if name in _PLAIN:
        return _PLAIN[name](array)
    block_type = QUANTISED_TYPES[name]
    if not array.ndim or array.shape[-1] % block_type.bytes:
        raise InputError(f"rows of {name} must be whole blocks of {block_type.bytes} bytes")
    shape = (*array.shape[:-1], array.shape[-1] // block_type.bytes * block_type.elements)
    if not array.size:
        return np.zeros(shape, np.float32)
    with np.errstate(all="ignore"):
        values = block_type.dequantise(array.reshape(-1, block_type.bytes))
    return values.reshape(shape)


def quantise(type_name: str, values: Floats) -> Bytes:
    """Quantise f32 of shape (..., k) to blocks, uint8 of shape (..., bytes of a row).

    The result is that of ggml, and for NF4 that of bitsandbytes. `type_name` is a type with a
    `quantise` function. Raises `InputError` for another type, for rows that are not whole blocks,
    for values that are not finite, and for blocks whose scale is beyond f16.
    """
    rows = QUANTISED_TYPES.values()
    encoders = {row.name: row.quantise for row in rows if row.quantise is not None}
    name = choice("the type", type_name, tuple(encoders))
    array, block_type = plain_array("values", values), QUANTISED_TYPES[name]
    if array.dtype != np.float32:
        raise InputError(f"values must be float32, not {array.dtype}")
    if not array.ndim or array.shape[-1] % block_type.elements:
        raise InputError(f"rows of values for {name} must be whole blocks of {block_type.elements}")
    if not np.isfinite(array).all():
        raise InputError("values must be finite, and one is not")
    packed = encoders[name](array.reshape(-1, block_type.elements))
    row_bytes = array.shape[-1] // block_type.elements * block_type.bytes
    return packed.reshape(*array.shape[:-1], row_bytes)


def _bf16(bits: NDArray[Any]) -> Floats:
    return (bits.astype(np.uint32) << 16).view(np.float32)


_PLAIN: dict[str, Callable[[NDArray[Any]], Floats]] = {
    "F32": lambda array: array,
    "F16": lambda array: array.astype(np.float32),
    "BF16": _bf16,
    "I8": lambda array: array.astype(np.float32),
}
"""By name: the conversion to f32 of types that are not in blocks."""

BLOCK_TYPES = tuple(QUANTISED_TYPES)
"""The block types: names in GGUF files, and NF4."""
