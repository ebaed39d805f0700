"""Products of 8-bit integers: arguments and launch."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import i32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_float32,
    allocate_int32,
    bytes_of,
    check_apart,
    result_tensor,
)
from quod.tensor.matmul.call import shape_of_product
from quod.tensor.matmul.int8_kernel import GEMM_INT8, GEMM_INT8_TILES
from quod.tensor.matmul.plan import plan_gemm_int8
from quod.tensor.matmul.scaled import ScaledForm
from quod.tensor.matmul.scaled_call import epilogue_operand, launch_scaled


def gemm_int8(
    device: DeviceChoice, a: AnyArray, b: AnyArray, *, row_scales: AnyArray | None = None,
    column_scales: AnyArray | None = None, bias: AnyArray | None = None, transpose_a: bool = False,
    transpose_b: bool = False, out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return A B of int8, exactly or scaled, in `out` or in new memory.

    Shapes are those of `gemm`: `a` is (..., m, k), or (..., k, m) with `transpose_a`; `b` is (k, n)
    or (n, k) for all products, or has the leading axes of `a`. Without scales and bias the result
    is int32. Sums are modulo 2**32 in either case; none is that large for k below 131,072.

    `row_scales`, of the shape of `a` without k, and `column_scales`, of that of `b` without k, are
    float32, as is `bias`, (n,). With any of them the result is (sum * row's scale) * column's scale
    + bias, each step rounded to float32, and finally to the type of `out`: float32 (default),
    float16 or bfloat16. That is a product of matrices quantised by rows and by columns (Dettmers et
    al., LLM.int8(), 2022, section 2.1).

    Tensor cores take operands whose lines are along k, `transpose_b` without `transpose_a`, with k
    a multiple of 16. Other operands are transposed first if the product is large, or multiplied
    without tensor cores, with the same result bit for bit.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    a_tensor, b_tensor = bytes_of(device, "a", a), bytes_of(device, "b", b)
    form = ScaledForm(
        transpose_a, transpose_b, row_scales is not None,
        column_scales is not None, bias is not None,
    )  # fmt: skip
    shape, depth = shape_of_product(a_tensor, b_tensor, form)
    epilogue_operands = {
        "row_scales": epilogue_operand(device, "row_scales", row_scales, shape[:-1]),
        "column_scales": epilogue_operand(
            device, "column_scales", column_scales, (*b_tensor.shape[:-2], shape[-1])
        ),
        "bias": epilogue_operand(device, "bias", bias, shape[-1:]),
    }
    is_scaled = any(term is not None for term in epilogue_operands.values())
    if out is None:
        out = (allocate_float32 if is_scaled else allocate_int32)(device, a, a_tensor, shape)
    out_tensor = _result(device, out, shape, scaled=is_scaled)
    check_apart(out_tensor, a_tensor, b_tensor, *epilogue_operands.values())
    if not math.prod(shape):
        return out
    launch_scaled(
        device, (a_tensor, b_tensor), tuple(epilogue_operands.values()), out_tensor, depth, form,
        plan_gemm_int8,
        (GEMM_INT8, GEMM_INT8_TILES),
    )  # fmt: skip
    return out


def _result(device: AnyDevice, out: AnyArray, shape: tuple[int, ...], *, scaled: bool) -> Tensor:
    """Return `out` as a tensor; InputError unless its type and shape fit the product."""
    out_tensor = result_tensor(device, "out", out)
    if out_tensor.shape != shape:
        raise InputError(f"out must be of shape {shape}, not {out_tensor.text}")
    if scaled == (out_tensor.element is i32):
        expected = "float32, float16 or bfloat16 with scales or bias" if scaled else "int32"
        raise InputError(f"out must be {expected}, not {out_tensor.text}")
    return out_tensor
