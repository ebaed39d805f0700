"""The gradients of softmax, and of the norms with their weights and biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.kernel import KernelDefinition
from quod.kernel.ir.types import Type, f32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_like,
    check_apart,
    check_results,
    row_tensor,
    tensor,
    tensor_like,
)
from quod.tensor.rows.backward_kernels import (
    LAYER_NORM_BACKWARD,
    RMS_NORM_BACKWARD,
    SOFTMAX_BACKWARD,
)  # fmt: skip
from quod.tensor.rows.column_kernels import LAYER_NORM_VECTORS, RMS_NORM_VECTORS, SLAB_SUMS
from quod.tensor.rows.column_sums import SLAB, plan_columns, slabs
from quod.tensor.rows.functions import launch_rows, not_negative


def softmax_backward(
    device: DeviceChoice, gradient: AnyArray, y: AnyArray, *, out: AnyArray | None = None
) -> Any:
    """Return the gradient of x, where `y` is softmax(x) and `gradient` that of y.

    `out` may be either argument. See `softmax`.
    """
    device = resolve_device(device)
    y_tensor = tensor(device, "y", y)
    gradient_tensor = tensor_like(device, "gradient", gradient, y_tensor)
    target = allocate_like(device, y, y_tensor) if out is None else out
    out_tensor = tensor_like(device, "out", target, y_tensor)
    check_apart(out_tensor, gradient_tensor, y_tensor, same=True)
    memory = [operand.memory for operand in (gradient_tensor, y_tensor, out_tensor)]
    if y_tensor.rows and y_tensor.columns:
        launch_rows(device, SOFTMAX_BACKWARD[y_tensor.element], y_tensor, (), memory, 2)
    return target


def rms_norm_backward(
    device: DeviceChoice, gradient: AnyArray, x: AnyArray, weight: AnyArray, *,
    epsilon: float = 1e-6, out: tuple[AnyArray, AnyArray] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the gradients of `x` and `weight`, where `gradient` is that of rms_norm(x, weight).

    The results have the types and shapes of `x` and `weight`. `out` is the memory for both, and
    overlaps no argument. Each row's scale is recomputed. The gradient of weights is summed over
    slabs of 64 rows, then over slabs of these sums, in an order that depends only on the number of
    rows. Arrays and errors are as in `softmax`.
    """
    check_results("x and weight", 2, out)
    first, second = _norm_backward(
        resolve_device(device), gradient, x, weight, not_negative(epsilon), 1, out
    )
    return first, second


def layer_norm_backward(
    device: DeviceChoice, gradient: AnyArray, x: AnyArray, weight: AnyArray, *,
    epsilon: float = 1e-5, out: tuple[AnyArray, AnyArray, AnyArray] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of `x`, `weight` and the bias of layer_norm(x, weight, bias).

    `gradient` is that of the result; everything else is as in `rms_norm_backward`.
    """
    check_results("x, weight and bias", 3, out)
    first, second, third = _norm_backward(
        resolve_device(device), gradient, x, weight, not_negative(epsilon), 2, out
    )
    return first, second, third


_KERNELS: Mapping[int, tuple[Mapping[Type, KernelDefinition], Mapping[Type, KernelDefinition]]] = {
    1: (RMS_NORM_BACKWARD, RMS_NORM_VECTORS),
    2: (LAYER_NORM_BACKWARD, LAYER_NORM_VECTORS),
}
"""The kernels by the number of vectors of the norm: its weight, or its weight and bias.

The first kernel stores the scale of each row of x, with a bias also its mean; the second one reads
them.
"""


def _norm_backward(
    device: AnyDevice, gradient: AnyArray, x: AnyArray, weight: AnyArray, epsilon: float,
    vector_count: int, out: Sequence[AnyArray] | None,
) -> Sequence[Any]:  # fmt: skip
    """Return the gradients of a norm's input and of its vectors; see `_KERNELS`."""
    x_tensor = tensor(device, "x", x)
    gradient_tensor = tensor_like(device, "gradient", gradient, x_tensor)
    weight_tensor = row_tensor(device, "weight", weight, x_tensor)
    targets = (
        [
            allocate_like(device, x, x_tensor),
            *[allocate_like(device, weight, weight_tensor) for _ in range(vector_count)],
        ]
        if out is None
        else list(out)
    )
    dx = tensor_like(device, "out[0]", targets[0], x_tensor)
    out_vectors = [
        row_tensor(device, f"out[{index}]", target, x_tensor)
        for index, target in enumerate(targets[1:], 1)
    ]
    for index, out_part in enumerate((dx, *out_vectors)):
        check_apart(out_part, gradient_tensor, x_tensor, weight_tensor, *[dx, *out_vectors][:index])
    if not x_tensor.columns:
        return targets
    rows_kernels, columns_kernels = _KERNELS[vector_count]
    slab_count = slabs(x_tensor.rows)
    partial_sums = [_allocate_f32(device, slab_count * x_tensor.columns) for _ in out_vectors]
    if x_tensor.rows:
        row_statistics = [_allocate_f32(device, x_tensor.rows) for _ in range(vector_count)]
        memory = [
            gradient_tensor.memory,
            x_tensor.memory,
            weight_tensor.memory,
            dx.memory,
            *row_statistics,
        ]
        launch_rows(device, rows_kernels[x_tensor.element], x_tensor, (epsilon,), memory, 2)
        memory = [gradient_tensor.memory, x_tensor.memory, *row_statistics, *partial_sums]
        _launch_columns(device, columns_kernels, x_tensor, x_tensor.element, x_tensor.rows, memory)
    for slab_sums, out_vector in zip(partial_sums, out_vectors, strict=True):
        _sum_slabs(device, x_tensor, slab_sums, slab_count, out_vector.memory)
    return targets


def _allocate_f32(device: AnyDevice, count: int) -> Any:
    """Allocate memory for `count` numbers, at least one."""
    return device.allocate(max(1, count) * np.dtype(np.float32).itemsize, zero=False)


def _sum_slabs(device: AnyDevice, x: Tensor, partial_sums: Any, rows: int, out_memory: Any) -> None:
    """Sum `rows` rows of f32, and store the sum as a row of the element type of `x`."""
    while rows > SLAB:
        slab_count = slabs(rows)
        sums = _allocate_f32(device, slab_count * x.columns)
        _launch_columns(device, SLAB_SUMS, x, f32, rows, [sums, partial_sums])
        partial_sums, rows = sums, slab_count
    _launch_columns(device, SLAB_SUMS, x, x.element, rows, [out_memory, partial_sums])


def _launch_columns(
    device: AnyDevice, kernels: Mapping[Type, KernelDefinition], x: Tensor, element: Type,
    rows: int, memory: Sequence[Any],
) -> None:  # fmt: skip
    """Launch a kernel that sums `rows` rows, as long as those of `x`, over slabs."""
    plan = plan_columns(device, f32, x.columns)
    compiled = device.compile(kernels[element], lanes=plan.lanes, element=element, plan=plan)
    groups = plan.blocks(x.columns) * max(1, slabs(rows))
    device.launch(compiled, groups, rows, x.columns // plan.vector, *memory)
