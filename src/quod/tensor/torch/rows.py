"""Softmax, and the norms along the last axis."""

from __future__ import annotations

from torch import Tensor

from quod import tensor
from quod.tensor.torch.library import Operator, check_tensor
from quod.tensor.torch.memory import check_alike, check_shape, empty_like, one_like
from quod.validation import whole_number


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along an axis, by default the last; see `quod.tensor.softmax`.

    `x` is f32, f16 or bf16, on the CPU or a GPU; the result is like it, and is differentiable once.
    Tensors that are not contiguous are copied, and one whose `dim` is not the last axis is
    transposed. Raises InputError, with the name of the argument, for arguments that do not fit;
    DeviceError for tensors on two devices, or on one without kernels.
    """
    if type(dim) is int and dim == -1:
        return _SOFTMAX(x)
    check_tensor("x", x)
    axis = whole_number("dim", dim, -max(1, x.dim()), max(0, x.dim() - 1))
    return _SOFTMAX(x.transpose(axis, -1)).transpose(axis, -1)


def rms_norm(x: Tensor, weight: Tensor, *, epsilon: float = 1e-6) -> Tensor:
    """Return x / sqrt(mean(x**2) + epsilon) * weight along the last axis.

    See `quod.tensor.rms_norm`, and `softmax` on accepted tensors.
    """
    return _RMS_NORM(x, weight, epsilon)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * weight + bias along the last axis.

    See `quod.tensor.layer_norm`, and `softmax` on accepted tensors.
    """
    return _LAYER_NORM(x, weight, bias, epsilon)


def _allocate_norm(x: Tensor, **vectors: Tensor) -> Tensor:
    check_alike(x=x, **vectors)
    for name, each in vectors.items():
        check_shape(name, each, *x.shape[-1:])
    return empty_like(x)


def _allocate_rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return _allocate_norm(x, weight=weight)


def _allocate_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    return _allocate_norm(x, weight=weight, bias=bias)


def _allocate_gradients(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    check_alike(x=x, gradient=gradient)
    check_shape("gradient", gradient, *x.shape)
    return _allocate_norm(x, weight=weight), empty_like(weight)


def _allocate_rms_norm_gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, epsilon: float
) -> tuple[Tensor, ...]:
    return _allocate_gradients(gradient, x, weight)


def _allocate_layer_norm_gradients(
    gradient: Tensor, x: Tensor, weight: Tensor, epsilon: float
) -> tuple[Tensor, ...]:
    return *_allocate_gradients(gradient, x, weight), empty_like(weight)


_SOFTMAX_BACKWARD = Operator(
    "softmax_backward", "(Tensor gradient, Tensor y) -> Tensor", one_like("gradient", "y"),
    tensor.softmax_backward,
)  # fmt: skip
_SOFTMAX = Operator(
    "softmax", "(Tensor x) -> Tensor", one_like("x"), tensor.softmax, keeps=lambda _, y: (y,),
    gradient=_SOFTMAX_BACKWARD,
)  # fmt: skip
_RMS_NORM_BACKWARD = Operator(
    "rms_norm_backward",
    "(Tensor gradient, Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)",
    _allocate_rms_norm_gradients, tensor.rms_norm_backward,
)  # fmt: skip
_RMS_NORM = Operator(
    "rms_norm", "(Tensor x, Tensor weight, float epsilon) -> Tensor", _allocate_rms_norm,
    tensor.rms_norm, keeps=lambda x, weight, epsilon, _: (x, weight, epsilon),
    gradient=_RMS_NORM_BACKWARD,
)  # fmt: skip
_LAYER_NORM_BACKWARD = Operator(
    "layer_norm_backward",
    "(Tensor gradient, Tensor x, Tensor weight, float epsilon)"
    " -> (Tensor, Tensor, Tensor)",
    _allocate_layer_norm_gradients, tensor.layer_norm_backward,
)  # fmt: skip
_LAYER_NORM = Operator(
    "layer_norm", "(Tensor x, Tensor weight, Tensor bias, float epsilon) -> Tensor",
    _allocate_layer_norm, tensor.layer_norm,
    keeps=lambda x, weight, _bias, epsilon, _: (x, weight, epsilon), gradient=_LAYER_NORM_BACKWARD,
)  # fmt: skip
