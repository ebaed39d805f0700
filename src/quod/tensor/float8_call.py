"""Quantisation to 8-bit floats with scales, and its inverse."""

from __future__ import annotations

import math
from typing import Any, Literal

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import Type, e4m3, e5m2
from quod.kernel.ops import float8
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_float8,
    allocate_float32,
    check_apart,
    check_results,
    float32_tensor,
    floats8,
    tensor,
)
from quod.tensor.elementwise.launch import launch_flat
from quod.tensor.float8_kernels import (
    DEQUANTISE_ROWS,
    LARGEST_OF_ROWS,
    QUANTISE_ELEMENTS,
    QUANTISE_ROWS,
)
from quod.tensor.rows.functions import launch_rows
from quod.validation import choice

Float8 = Literal["e4m3", "e5m2"]
NAMED: dict[str, Type] = {"e4m3": e4m3, "e5m2": e5m2}
"""The 8-bit types by name."""


def quantise_fp8(
    device: DeviceChoice, x: AnyArray, *, dtype: Float8 = "e4m3",
    scales: Literal["rows", "tensor"] = "rows", out: tuple[AnyArray, AnyArray] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return `x` as 8-bit floats, and their float32 scales, in `out` or in new memory.

    `x` is of f32, f16 or bf16, as in `softmax`. A scale belongs to each row (along the last axis),
    or with "tensor" to all elements. It is their largest absolute value, or 2**-100 if that is
    larger, divided by the greatest number of the type, 448 or 57344. Elements are multiplied by its
    reciprocal, and rounded to nearest even. The first result has the shape of `x`, as uint8 bits
    or, for a PyTorch tensor, as float8_e4m3fn or float8_e5m2; scales are (..., rows), or (1,). Both
    are arguments of `gemm_fp8`. A row with a NaN is NaN, as is its scale; one with an infinity has
    an infinite scale.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    stored = NAMED[choice("dtype", dtype, tuple(NAMED))]
    by_rows = choice("scales", scales, ("rows", "tensor")) == "rows"
    source = tensor(device, "x", x)
    shape = source.shape[:-1] or (1,)
    shape = shape if by_rows else (1,)
    # Checks that `out` is None or a pair.
    check_results("elements and scales", 2, out)
    first, second = out or (
        allocate_float8(device, x, source, stored), allocate_float32(device, x, source, shape)
    )  # fmt: skip
    out_elements = floats8(device, "out[0]", first, stored)
    if out_elements.shape != source.shape:
        raise InputError(f"out[0] must be of shape {source.shape}, not {out_elements.text}")
    scales_tensor = float32_tensor(device, "out[1]", second, shape)
    check_apart(out_elements, source, scales_tensor)
    check_apart(scales_tensor, source, out_elements)
    memory = [source.memory, out_elements.memory, scales_tensor.memory]
    if not math.prod(source.shape):
        if math.prod(shape):
            raise InputError(f"x has no elements that a scale could be of: it is {source.text}")
    elif by_rows:
        kernel = QUANTISE_ROWS[source.element, stored]
        launch_rows(device, kernel, source, (), memory, stored=stored)
    else:
        _scale_of_all(device, source, scales_tensor, float8.greatest(stored))
        kernel = QUANTISE_ELEMENTS[source.element, stored]
        launch_flat(device, kernel, [scales_tensor.memory], [source, out_elements])
    return first, second


def _scale_of_all(device: AnyDevice, x: Tensor, scale: Tensor, greatest: float) -> None:
    """Store the largest absolute value of all elements, divided by `greatest`."""
    magnitudes = x
    if x.rows > 1:
        magnitudes = tensor(device, "x", allocate_float32(device, x.memory, x, (x.rows,)))
        kernel = LARGEST_OF_ROWS[x.element]
        launch_rows(device, kernel, x, (), [x.memory, magnitudes.memory], divisor=1.0)
    kernel = LARGEST_OF_ROWS[magnitudes.element]
    launch_rows(device, kernel, magnitudes, (), [magnitudes.memory, scale.memory], divisor=greatest)


def dequantise_fp8(
    device: DeviceChoice, x: AnyArray, scales: AnyArray, *, dtype: Float8 | None = None,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return x * scales for 8-bit floats, in `out` or in new float32 memory.

    `x` is as in `gemm_fp8`, of any shape; `scales` are float32, one for each row or one for all,
    as from `quantise_fp8`. A product is rounded to float32, then to the type of `out`: float32,
    float16 or bfloat16.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    named = None if dtype is None else NAMED[choice("dtype", dtype, tuple(NAMED))]
    source = floats8(device, "x", x, named)
    shape = source.shape[:-1] or (1,)
    single_scale = tensor(device, "scales", scales).shape == (1,)
    scales_tensor = float32_tensor(device, "scales", scales, (1,) if single_scale else shape)
    if out is None:
        out = allocate_float32(device, x, source, source.shape)
    out_tensor = tensor(device, "out", out)
    if out_tensor.shape != source.shape:
        raise InputError(f"out must be of shape {source.shape}, not {out_tensor.text}")
    check_apart(out_tensor, source, scales_tensor)
    if math.prod(source.shape):
        kernel = DEQUANTISE_ROWS[out_tensor.element, source.element]
        memory = [source.memory, scales_tensor.memory, out_tensor.memory]
        launch_rows(
            device, kernel, out_tensor, (), memory, fp8=source.element, single_scale=single_scale
        )
    return out
