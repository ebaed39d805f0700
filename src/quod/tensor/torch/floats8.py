"""8-bit floats: quantisation, dequantisation and products.

`out_dtype` is the type of a result, named as in `torch._scaled_mm`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from quod import tensor
from quod.errors import InputError
from quod.tensor.float8_call import Float8
from quod.tensor.scalars import real
from quod.tensor.torch.library import Operator, no_gradients
from quod.tensor.torch.memory import (
    FLOATS8,
    TYPES,
    as_it_lies,
    call,
    check_alike,
    check_same_device,
    check_shape,
    empty_like,
)
from quod.tensor.torch.products import rows_of, shape_of_product
from quod.validation import choice

_NAMED = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def quantise_fp8(x: Tensor, *, dtype: Float8 = "e4m3", scales: str = "rows") -> Any:
    """Return `x` as 8-bit floats, and their float32 scales.

    See `quod.tensor.quantise_fp8`, and `softmax` on accepted tensors. The first result is of
    float8_e4m3fn, or with "e5m2" of float8_e5m2. There are no gradients: requesting one raises
    InputError.
    """
    return _QUANTISE(x, choice("dtype", dtype, tuple(_NAMED)), scales)


def dequantise_fp8(
    x: Tensor, scales: Tensor, *, out_dtype: torch.dtype = torch.float32
) -> Tensor:  # fmt: skip
    """Return x * scales, as float32, float16 or bfloat16 (`out_dtype`).

    See `quod.tensor.dequantise_fp8`; as in `quantise_fp8`, there are no gradients.
    """
    return _DEQUANTISE(x, scales, out_dtype)


def gemm_fp8(
    a: Tensor, b: Tensor, *, scale_a: Tensor | float | None = None,
    scale_b: Tensor | float | None = None, bias: Tensor | None = None, transpose_a: bool = False,
    transpose_b: bool = False, fast_accumulation: bool = False,
    out_dtype: torch.dtype = torch.float32,
) -> Tensor:  # fmt: skip
    """Return ((A B) * scale_a) * scale_b + bias, with each operand of float8_e4m3fn or float8_e5m2.

    See `quod.tensor.gemm_fp8`. Scales and `bias` are float32, the result is of `out_dtype`:
    float32, float16 or bfloat16. A transposed view of contiguous memory is not copied. `bias` has a
    gradient. Operands and scales have none, as they are rounded: requesting one raises InputError.
    """
    a_scales, b_scales = (
        _scale(name, scale, operand)
        for name, scale, operand in (("scale_a", scale_a, a), ("scale_b", scale_b, b))
    )
    return _GEMM(
        a, b, a_scales, b_scales, bias, transpose_a, transpose_b, fast_accumulation, out_dtype
    )


def _scale(name: str, value: Any, operand: Any) -> Any:
    """Return a scale as a tensor on the device of `operand`."""
    if value is None or isinstance(value, Tensor) or not isinstance(operand, Tensor):
        return value
    return torch.full((1,), real(name, value), dtype=torch.float32, device=operand.device)


def _check_floats8(**tensors: Tensor) -> None:
    """Raise InputError for a tensor that is not of an 8-bit float type."""
    for name, operand in tensors.items():
        if operand.dtype not in FLOATS8:
            raise InputError(
                f"{name} is of {operand.dtype}; 8-bit floats are of float8_e4m3fn or float8_e5m2"
            )


def _check_numbers(
    name: str, x: Tensor, shape: tuple[Any, ...], *, allow_scalar: bool = False
) -> None:
    """Raise InputError unless a tensor is float32 of a shape, or a single number if allowed."""
    if x.dtype != torch.float32:
        raise InputError(f"{name} is of {x.dtype}, and must be of float32")
    if not (allow_scalar and tuple(x.shape) == (1,)):
        check_shape(name, x, *shape)


def _check_result(dtype: torch.dtype) -> None:
    if dtype not in TYPES:
        raise InputError(f"out_dtype must be float32, float16 or bfloat16, not {dtype}")


def _allocate_quantised(x: Tensor, dtype: str, scales: str) -> tuple[Tensor, Tensor]:
    check_alike(x=x)
    stored_dtype = _NAMED[choice("dtype", dtype, tuple(_NAMED))]
    if not x.dim():
        raise InputError("x must have an axis at least")
    by_rows = choice("scales", scales, ("rows", "tensor")) == "rows" and x.dim() > 1
    scales_tensor = x.new_empty(x.shape[:-1] if by_rows else (1,), dtype=torch.float32)
    return x.new_empty(x.shape, dtype=stored_dtype), scales_tensor


def _allocate_dequantised(x: Tensor, scales: Tensor, out_dtype: torch.dtype) -> Tensor:
    check_same_device(x=x, scales=scales)
    _check_floats8(x=x)
    _check_result(out_dtype)
    if not x.dim():
        raise InputError("x must have an axis at least")
    _check_numbers("scales", scales, tuple(x.shape[:-1]) or (1,), allow_scalar=True)
    return empty_like(x, out_dtype)


def _allocate(
    a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None,
    transpose_a: bool, transpose_b: bool, fast_accumulation: bool, out_dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    check_same_device(a=a, b=b, scale_a=scale_a, scale_b=scale_b, bias=bias)
    _check_floats8(a=a, b=b)
    _check_result(out_dtype)
    shape = shape_of_product(a, b, transpose_a, transpose_b)
    if scale_a is not None:
        _check_numbers("scale_a", scale_a, shape[:-1], allow_scalar=True)
    if scale_b is not None:
        _check_numbers("scale_b", scale_b, (*b.shape[:-2], shape[-1]), allow_scalar=True)
    if bias is not None:
        _check_numbers("bias", bias, shape[-1:])
    return a.new_empty(shape, dtype=out_dtype)


def _run(
    a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor | None, bias: Tensor | None,
    transpose_a: bool, transpose_b: bool, fast_accumulation: bool, out_dtype: torch.dtype,
) -> Any:  # fmt: skip
    out = _allocate(
        a, b, scale_a, scale_b, bias, transpose_a, transpose_b, fast_accumulation, out_dtype
    )
    a, transpose_a = as_it_lies(a, transpose_a)
    b, transpose_b = as_it_lies(b, transpose_b)
    return call(
        tensor.gemm_fp8, out, a=a, b=b, scale_a=scale_a, scale_b=scale_b, bias=bias,
        transpose_a=transpose_a, transpose_b=transpose_b, fast_accumulation=fast_accumulation,
    )  # fmt: skip


def _run_dequantised(x: Tensor, scales: Tensor, out_dtype: torch.dtype) -> Any:
    out = _allocate_dequantised(x, scales, out_dtype)
    return call(tensor.dequantise_fp8, out, x=x, scales=scales)


def _gradients(needed: tuple[bool, ...], gradient: Tensor) -> tuple[Tensor | None, ...]:
    # Summed over rows in f32, the type in which the bias is added.
    bias_gradient = rows_of(gradient).sum(0, dtype=torch.float32) if needed[4] else None
    return None, None, None, None, bias_gradient


_QUANTISE = Operator(
    "quantise_fp8", "(Tensor x, str dtype, str scales) -> (Tensor, Tensor)", _allocate_quantised,
    tensor.quantise_fp8, formula=no_gradients,
)  # fmt: skip
_DEQUANTISE = Operator(
    "dequantise_fp8", "(Tensor x, Tensor scales, ScalarType out_dtype) -> Tensor",
    _allocate_dequantised, run=_run_dequantised, formula=no_gradients,
)  # fmt: skip
_GEMM = Operator(
    "gemm_fp8",
    "(Tensor a, Tensor b, Tensor? scale_a, Tensor? scale_b, Tensor? bias, bool transpose_a, "
    "bool transpose_b, bool fast_accumulation, ScalarType out_dtype) -> Tensor",
    _allocate, run=_run, formula=_gradients,
)  # fmt: skip
