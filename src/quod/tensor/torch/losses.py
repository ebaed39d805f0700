"""The cross-entropy of rows of logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from quod import tensor
from quod.tensor.rows.cross_entropy import Reduction
from quod.tensor.torch.library import Operator
from quod.tensor.torch.memory import (
    call,
    check_alike,
    check_indices,
    check_same_device,
    check_shape,
    empty_like,
    int32_indices,
)
from quod.validation import choice, whole_number


def cross_entropy(
    logits: Tensor, targets: Tensor, *, ignore_index: int = -100, reduction: Reduction = "mean"
) -> Tensor:
    """Return log(sum(exp(x))) - x[target] for each row x of the logits.

    See `quod.tensor.cross_entropy`, and `softmax` on accepted tensors. `logits` are (..., classes)
    and `targets`, of int64, int32 or uint32, (...). The result is f32: the mean or sum as a 0-d
    tensor, or with "none" the losses in the shape of `targets`. The gradient, including that of the
    result, is rounded once to the type of the logits.
    """
    return _CROSS_ENTROPY(logits, targets, ignore_index, reduction)


def _allocate(logits: Tensor, targets: Tensor, ignore_index: int, reduction: str) -> Tensor:
    _check(logits, targets, ignore_index, reduction)
    shape = targets.shape if reduction == "none" else ()
    return logits.new_empty(shape, dtype=torch.float32)


def _run(logits: Tensor, targets: Tensor, ignore_index: int, reduction: str) -> Tensor:
    y = _allocate(logits, targets, ignore_index, reduction)
    call(
        tensor.cross_entropy, y if y.dim() else y.view(1), logits=logits,
        targets=int32_indices(targets), ignore_index=ignore_index, reduction=reduction,
    )  # fmt: skip
    return y


def _allocate_gradient(
    gradient: Tensor, logits: Tensor, targets: Tensor, ignore_index: int, reduction: str
) -> Tensor:
    _check(logits, targets, ignore_index, reduction)
    check_same_device(logits=logits, gradient=gradient)
    return empty_like(logits)


def _run_gradient(
    gradient: Tensor, logits: Tensor, targets: Tensor, ignore_index: int, reduction: str
) -> Tensor:
    """Compute the gradient of the logits; a gradient of one number becomes the kernel's scale."""
    logit_gradient = _allocate_gradient(gradient, logits, targets, ignore_index, reduction)
    by_row = reduction == "none"
    scale = 1.0 if by_row else float(gradient)
    # Rows are multiplied by the gradient of the result before rounding.
    f32_gradient = logit_gradient.float() if by_row else logit_gradient
    losses = gradient.new_empty(targets.shape if by_row else (1,), dtype=torch.float32)
    finite = math.isfinite(scale)
    call(
        tensor.cross_entropy, losses, logits=logits.float() if by_row else logits,
        targets=int32_indices(targets), ignore_index=ignore_index, reduction=reduction,
        gradient=f32_gradient,
        gradient_scale=scale if finite else 1.0, check=False,
    )  # fmt: skip
    if by_row:
        return logit_gradient.copy_(f32_gradient * gradient.unsqueeze(-1))
    return logit_gradient if finite else logit_gradient.mul_(scale)


def _check(logits: Tensor, targets: Tensor, ignore_index: int, reduction: str) -> int:
    """Check the arguments, and return `ignore_index` in range."""
    choice("reduction", reduction, ("mean", "sum", "none"))
    check_alike(logits=logits)
    check_same_device(logits=logits, targets=targets)
    check_indices("targets", targets)
    check_shape("targets", targets, *logits.shape[:-1])
    # The least and the greatest int32 represent clamped targets beyond 32 bits.
    return whole_number("ignore_index", ignore_index, -(1 << 31) + 1, (1 << 31) - 2)


_SCHEMA = "Tensor logits, Tensor targets, int ignore_index, str reduction) -> Tensor"
"""The arguments after the gradient, and the result, which both ops share."""
_CROSS_ENTROPY_BACKWARD = Operator(
    "cross_entropy_backward", f"(Tensor gradient, {_SCHEMA}", _allocate_gradient, run=_run_gradient
)
_CROSS_ENTROPY = Operator(
    "cross_entropy", f"({_SCHEMA}", _allocate, run=_run, keeps=lambda *arguments: arguments[:4],
    gradient=_CROSS_ENTROPY_BACKWARD,
)  # fmt: skip
