"""Products of 8-bit floats: arguments and launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import Type
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_float32,
    check_apart,
    float32_tensor,
    floats8,
    tensor,
)
from quod.tensor.float8_call import NAMED, Float8
from quod.tensor.matmul.call import shape_of_product
from quod.tensor.matmul.float8_kernel import GEMM_FLOAT8, GEMM_FLOAT8_TILES
from quod.tensor.matmul.plan import plan_gemm_float8
from quod.tensor.matmul.scaled import ScaledForm
from quod.tensor.matmul.scaled_call import epilogue_operand, launch_scaled
from quod.tensor.scalars import real
from quod.validation import choice


def gemm_fp8(
    device: DeviceChoice, a: AnyArray, b: AnyArray, *, scale_a: AnyArray | float | None = None,
    scale_b: AnyArray | float | None = None, bias: AnyArray | None = None,
    transpose_a: bool = False, transpose_b: bool = False,
    dtype: Float8 | tuple[Float8, Float8] | None = None, fast_accumulation: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return ((A B) * scale_a) * scale_b + bias of 8-bit floats, in `out` or in new memory.

    Shapes are those of `gemm`: `a` is (..., m, k), or (..., k, m) with `transpose_a`; `b` is (k, n)
    or (n, k) for all products, or has the leading axes of `a`. Each is of e4m3 or e5m2 (OCP 8-bit
    Floating Point Specification, 2023): an array or tensor of `float8_e4m3fn` or `float8_e5m2` of
    ml_dtypes or PyTorch, or of uint8 bits whose type is `dtype`, one name or those of `a` and `b`.

    `scale_a` is a number or an array of one, or has the shape of `a` without k: one scale per row.
    `scale_b` is the same for `b`: one scale per column. They are float32, as is `bias`, (n,). A sum
    is multiplied by its row's scale, then by its column's, each step rounded to float32, and the
    result to the type of `out`: float32 (default), float16 or bfloat16.

    Sums are f32. Tensor cores, available for these types from sm_89 on, accumulate with some 14
    bits, so their sums of at most 128 products each are added in f32. An element then differs from
    the exact one by at most 2**-6 of the sum of absolute values; without tensor cores, by at most
    (k + 3) * 2**-22 of it. The roundings after scales, bias and result add to this. With
    `fast_accumulation`, tensor cores may accumulate all of k themselves: the error is then up to
    2**-8 of that sum for each 32 of k. Tensor cores take operands whose lines are along k,
    `transpose_b` without `transpose_a`, with k a multiple of 16. Other operands are transposed
    first if the product is large, or multiplied without tensor cores.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    named_types = _named(dtype)
    a_tensor, b_tensor = (
        floats8(device, "a", a, named_types[0]),
        floats8(device, "b", b, named_types[1]),
    )
    flags = ScaledForm(transpose_a, transpose_b)
    promoted = not fast_accumulation
    shape, depth = shape_of_product(a_tensor, b_tensor, flags)
    row_scales = _scale(device, "scale_a", scale_a, shape[:-1])
    column_scales = _scale(device, "scale_b", scale_b, (*b_tensor.shape[:-2], shape[-1]))
    epilogue_operands = (
        row_scales,
        column_scales,
        epilogue_operand(device, "bias", bias, shape[-1:]),
    )
    form = ScaledForm(
        flags.transpose_a, flags.transpose_b, row_scales is not None, column_scales is not None,
        bias is not None, _is_one(row_scales, shape[:-1]),
        _is_one(column_scales, (*b_tensor.shape[:-2], shape[-1])),
    )  # fmt: skip
    if out is None:
        out = allocate_float32(device, a, a_tensor, shape)
    out_tensor = tensor(device, "out", out)
    if out_tensor.shape != shape:
        raise InputError(f"out must be of shape {shape}, not {out_tensor.text}")
    check_apart(out_tensor, a_tensor, b_tensor, *epilogue_operands)
    if not math.prod(shape):
        return out
    pair = a_tensor.element, b_tensor.element
    launch_scaled(
        device, (a_tensor, b_tensor), epilogue_operands, out_tensor, depth, form,
        partial(plan_gemm_float8, promoted=promoted), (GEMM_FLOAT8[pair], GEMM_FLOAT8_TILES[pair]),
        operands=pair,
    )  # fmt: skip
    return out


def _named(dtype: object) -> tuple[Type | None, Type | None]:
    """Return the types of both operands, from a name or a pair of names."""
    if dtype is None:
        return None, None
    pair = dtype if isinstance(dtype, tuple) and len(dtype) == 2 else (dtype, dtype)
    type_a, type_b = (NAMED[choice("dtype", name, tuple(NAMED))] for name in pair)
    return type_a, type_b


def _scale(
    device: AnyDevice, name: str, value: AnyArray | float | None, shape: tuple[int, ...]
) -> Tensor | None:
    """Return scales of a shape, or a single one, as f32; None if there is none."""
    if value is None:
        return None
    if isinstance(value, (int, float, np.number)):
        value = device.upload(np.array([real(name, value)], np.float32))
    scales = tensor(device, name, value)
    return float32_tensor(device, name, value, (1,) if scales.shape == (1,) else shape)


def _is_one(scales: Tensor | None, shape: Sequence[int]) -> bool:
    """Return true if one scale serves all rows or columns."""
    return scales is not None and scales.shape != tuple(shape)
