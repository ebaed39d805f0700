"""Low-rank adapters of linear layers (LoRA: Hu et al., 2021), computed with matrix products only.

The weights are frozen; the two thin matrices A and B are trained.
"""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_shaped,
    check_apart,
    check_results,
    tensor,
    tensor_of_shape,
    view,
)
from quod.tensor.matmul.call import gemm
from quod.tensor.scalars import real


@frozen(eq=False)
class _Layer:
    """The input and matrices of a layer, checked to have matching shapes."""

    x: Tensor
    weight: Tensor
    a: Tensor
    b: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.x, self.weight, self.a, self.b

    @property
    def rows(self) -> Any:
        """`x` as a matrix."""
        return view(self.x, (self.x.rows, self.x.columns))

    def hidden(self, device: AnyDevice) -> Buffer:
        """Return x A^T, of shape (rows, rank)."""
        hidden = _allocate(device, self.x, (self.x.rows, self.a.shape[0]))
        gemm(device, self.rows, self.a.memory, transpose_b=True, out=hidden)
        return hidden


def _layer(device: AnyDevice, x: AnyArray, weight: AnyArray, a: AnyArray, b: AnyArray) -> _Layer:
    """Validate the tensors of a layer; InputError if their types or shapes do not match."""
    x_tensor = tensor(device, "x", x)
    matrices = []
    for name, value, axis in (("weight", weight, "outputs"), ("a", a, "rank")):
        matrix = tensor(device, name, value)
        if matrix.element is not x_tensor.element or matrix.shape[1:] != x_tensor.shape[-1:]:
            raise InputError(
                f"{name} must be {x_tensor.element} of shape ({axis}, {x_tensor.columns}) to go "
                f"with x, not {matrix.text}"
            )
        matrices.append(matrix)
    weight_matrix, a_matrix = matrices
    b_matrix = tensor_of_shape(
        device, "b", b, x_tensor, (weight_matrix.shape[0], a_matrix.shape[0])
    )
    return _Layer(x_tensor, weight_matrix, a_matrix, b_matrix)


def _allocate(device: AnyDevice, prototype: Tensor, shape: tuple[int, int]) -> Buffer:
    """Allocate device memory of a shape, with the type of `prototype`."""
    buffer = device.allocate(math.prod(shape) * prototype.dtype.itemsize, zero=False)
    buffer.dtype, buffer.shape = prototype.dtype, shape
    return buffer


def lora(
    device: DeviceChoice, x: AnyArray, weight: AnyArray, a: AnyArray, b: AnyArray, *,
    scale: float = 1.0, out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return x W^T + scale * (x A^T) B^T, in `out` or in new memory.

    `x` is (..., inputs), `weight` W is (outputs, inputs), `a` is (rank, inputs), `b` is (outputs,
    rank), and the result is (..., outputs), all of one type as in `softmax`; `out` overlaps no
    input. The three products are calls of `gemm`: x A^T and x W^T are rounded to the type before
    the last product is added.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    layer, factor = _layer(device, x, weight, a, b), real("scale", scale)
    outputs = layer.weight.shape[0]
    shape = (*layer.x.shape[:-1], outputs)
    target = allocate_shaped(device, x, layer.x, shape) if out is None else out
    out_tensor = tensor_of_shape(device, "out", target, layer.x, shape)
    check_apart(out_tensor, *layer.tensors)
    y = view(out_tensor, (layer.x.rows, outputs))
    gemm(device, layer.rows, layer.weight.memory, transpose_b=True, out=y)
    gemm(
        device,
        layer.hidden(device),
        layer.b.memory,
        transpose_b=True,
        scale=factor,
        residual=y,
        out=y,
    )
    return target


def lora_backward(
    device: DeviceChoice, gradient: AnyArray, x: AnyArray, weight: AnyArray, a: AnyArray,
    b: AnyArray, *, scale: float = 1.0, out: tuple[AnyArray, AnyArray, AnyArray] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of `x`, `a` and `b`, from the gradient of lora(x, weight, a, b).

    The frozen weight has no gradient. With H = scale * gradient B, the gradients of x, a and b are
    gradient W + H A, H^T x and scale * gradient^T (x A^T); H, x A^T and gradient W are rounded to
    the type. Sums have a fixed order. Tensors and errors are as in `lora`; the tensors of `out`
    overlap no input.
    """
    device = resolve_device(device)
    check_results("x, a and b", 3, out)
    layer, factor = _layer(device, x, weight, a, b), real("scale", scale)
    rows, outputs = layer.x.rows, layer.weight.shape[0]
    gradient_tensor = tensor_of_shape(
        device, "gradient", gradient, layer.x, (*layer.x.shape[:-1], outputs)
    )
    inputs = ((x, layer.x), (a, layer.a), (b, layer.b))
    targets = (
        [allocate_shaped(device, *each, each[1].shape) for each in inputs]
        if out is None
        else [*out]
    )
    out_tensors: list[Tensor] = []
    for index, (target, (_, operand)) in enumerate(zip(targets, inputs, strict=True)):
        out_tensor = tensor_of_shape(device, f"out[{index}]", target, layer.x, operand.shape)
        check_apart(out_tensor, gradient_tensor, *layer.tensors, *out_tensors)
        out_tensors.append(out_tensor)
    dy, dx = view(gradient_tensor, (rows, outputs)), view(out_tensors[0], (rows, layer.x.columns))
    hidden_gradient = _allocate(device, layer.x, (rows, layer.a.shape[0]))
    gemm(device, dy, layer.b.memory, scale=factor, out=hidden_gradient)
    gemm(device, dy, layer.weight.memory, out=dx)
    gemm(device, hidden_gradient, layer.a.memory, residual=dx, out=dx)
    gemm(device, hidden_gradient, layer.rows, transpose_a=True, out=out_tensors[1].memory)
    gemm(
        device, dy, layer.hidden(device), transpose_a=True, scale=factor, out=out_tensors[2].memory
    )
    first, second, third = targets
    return first, second, third
