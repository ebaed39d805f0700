"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from quod import tensor
from quod.errors import InputError
from quod.tensor.torch.library import Operator, check_tensor
from quod.tensor.torch.memory import as_it_lies, call, check_alike, check_shape


def gemm(
    a: Tensor, b: Tensor, *, bias: Tensor | None = None, residual: Tensor | None = None,
    scale: float = 1.0, transpose_a: bool = False, transpose_b: bool = False,
) -> Tensor:  # fmt: skip
    """Return scale * (A B) + bias + residual.

    See `quod.tensor.gemm`, and `softmax` on accepted tensors. A transposed view of
    contiguous memory is not copied. Gradients are products again, and are differentiable.
    """
    return _GEMM(a, b, bias, residual, scale, transpose_a, transpose_b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weight^T + bias, as `torch.nn.functional.linear` does; see `gemm`.

    `x` is (..., k), `weight` (n, k), `bias` (n,) and the result (..., n).
    """
    for name, each in (("x", x), ("weight", weight)):
        check_tensor(name, each)
        if not each.dim():
            raise InputError(f"{name} must have an axis at least")
    check_alike(x=x, weight=weight)
    check_shape("weight", weight, weight.shape[0], x.shape[-1])
    rows = x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)
    return gemm(rows, weight, bias=bias, transpose_b=True).view(*x.shape[:-1], weight.shape[0])


def shape_of_product(
    a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool
) -> tuple[int, ...]:  # fmt: skip
    """Return the shape of a product; InputError for operands whose shapes do not fit."""
    for name, each in (("a", a), ("b", b)):
        if each.dim() < 2:
            raise InputError(
                f"{name} must have at least two axes, not the shape {tuple(each.shape)}"
            )
    if b.dim() > 2:
        check_shape("b", b, *a.shape[:-2], *b.shape[-2:])
    m, depth = a.shape[-2:][:: -1 if transpose_a else 1]
    inner, n = b.shape[-2:][:: -1 if transpose_b else 1]
    if inner != depth:
        raise InputError(f"the summed axis of b has {inner} elements, but that of a has {depth}")
    return *a.shape[:-2], m, n


def _allocate(
    a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, scale: float,
    transpose_a: bool, transpose_b: bool,
) -> Tensor:  # fmt: skip
    check_alike(a=a, b=b, bias=bias, residual=residual)
    shape = shape_of_product(a, b, transpose_a, transpose_b)
    for name, addend, expected_shape in (("bias", bias, shape[-1:]), ("residual", residual, shape)):
        if addend is not None:
            check_shape(name, addend, *expected_shape)
    return a.new_empty(shape)


def _run(
    a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None, scale: float,
    transpose_a: bool, transpose_b: bool,
) -> Any:  # fmt: skip
    out = _allocate(a, b, bias, residual, scale, transpose_a, transpose_b)
    a, transpose_a = as_it_lies(a, transpose_a)
    b, transpose_b = as_it_lies(b, transpose_b)
    return call(
        tensor.gemm, out, a=a, b=b, bias=bias, residual=residual, scale=scale,
        transpose_a=transpose_a, transpose_b=transpose_b,
    )  # fmt: skip


def rows_of(x: Tensor) -> Tensor:
    """Flatten all axes of a tensor but the last."""
    # PyTorch cannot flatten a tensor that represents batched gradients.
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _gradients(
    needed: tuple[bool, ...], gradient: Tensor, a: Tensor, b: Tensor, scale: float,
    transpose_a: bool, transpose_b: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Compute the gradients that are needed; transposed operands are views without a copy."""
    a_gradient = b_gradient = bias_gradient = None
    left, right = a.mT if transpose_a else a, b.mT if transpose_b else b
    if needed[0] and transpose_a and a.dim() == b.dim():
        a_gradient = gemm(right, gradient, scale=scale, transpose_b=True)
    elif needed[0]:
        a_gradient = gemm(gradient, right, scale=scale, transpose_b=True)
        a_gradient = a_gradient.mT if transpose_a else a_gradient
    if needed[1]:
        gradient_rows = gradient
        if a.dim() > b.dim():
            left, gradient_rows = rows_of(left), rows_of(gradient)
        first, second = (gradient_rows, left) if transpose_b else (left, gradient_rows)
        b_gradient = gemm(first, second, scale=scale, transpose_a=True)
    if needed[2]:
        bias_gradient = rows_of(gradient).sum(0)
    return a_gradient, b_gradient, bias_gradient, gradient if needed[3] else None


_GEMM = Operator(
    "gemm",
    "(Tensor a, Tensor b, Tensor? bias, Tensor? residual, float scale, bool transpose_a, "
    "bool transpose_b) -> Tensor",
    _allocate, run=_run, formula=_gradients,
    keeps=lambda a, b, _bias, _residual, scale, transpose_a, transpose_b, _: (
        a, b, scale, transpose_a, transpose_b
    ),
)  # fmt: skip
