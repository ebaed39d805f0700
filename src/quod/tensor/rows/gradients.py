"""The gradients of softmax and of the norms, including those of the norms' vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.kernel import KernelDefinition
from quod.kernel.ir.types import Type, f32
from quod.tensor.arrays import Given, Tensor, check_apart, like, result, results, row_of, tensor
from quod.tensor.rows.backward_kernels import (
    LAYER_NORM_BACKWARD,
    RMS_NORM_BACKWARD,
    SOFTMAX_BACKWARD,
)  # fmt: skip
from quod.tensor.rows.column_kernels import LAYER_NORM_VECTORS, RMS_NORM_VECTORS, SLAB_SUMS
from quod.tensor.rows.column_sums import SLAB, plan_columns, slabs
from quod.tensor.rows.functions import launch_rows, not_negative


def softmax_backward(
    device: DeviceChoice, gradient: Given, y: Given, *, out: Given | None = None
) -> Any:
    """Return the gradient of x, where `y` is softmax(x) and `gradient` that of y.

    `out` may be either argument. See `softmax`.
    """
    device = resolve_device(device)
    model = tensor(device, "y", y)
    slopes = like(device, "gradient", gradient, model)
    target = result(device, y, model) if out is None else out
    out_tensor = like(device, "out", target, model)
    check_apart(out_tensor, slopes, model, same=True)
    memory = [each.memory for each in (slopes, model, out_tensor)]
    if model.rows and model.columns:
        launch_rows(device, SOFTMAX_BACKWARD[model.element], model, (), memory, 2)
    return target


def rms_norm_backward(
    device: DeviceChoice, gradient: Given, x: Given, weight: Given, *, epsilon: float = 1e-6,
    out: tuple[Given, Given] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the gradients of `x` and `weight`, where `gradient` is that of rms_norm(x, weight).

    The results have the types and shapes of `x` and `weight`; `out` takes the two, and overlaps no
    argument. Each row's scale is recomputed. The gradient of weights is summed over slabs of 64
    rows, then over slabs of those, in an order that depends on the number of rows alone. Arrays and
    errors are as in `softmax`.
    """
    results("x and weight", 2, out)
    first, second = _norm(
        resolve_device(device), gradient, x, weight, not_negative(epsilon), ("weight",), out
    )
    return first, second


def layer_norm_backward(
    device: DeviceChoice, gradient: Given, x: Given, weight: Given, *, epsilon: float = 1e-5,
    out: tuple[Given, Given, Given] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of `x`, `weight` and the bias of layer_norm(x, weight, bias).

    `gradient` is that of the result; everything else is as in `rms_norm_backward`.
    """
    results("x, weight and bias", 3, out)
    first, second, third = _norm(
        resolve_device(device), gradient, x, weight, not_negative(epsilon), ("weight", "bias"), out
    )
    return first, second, third


_KERNELS: Mapping[int, tuple[Mapping[Type, KernelDefinition], Mapping[Type, KernelDefinition]]] = {
    1: (RMS_NORM_BACKWARD, RMS_NORM_VECTORS),
    2: (LAYER_NORM_BACKWARD, LAYER_NORM_VECTORS),
}
"""The kernels by the number of the norm's vectors, which is that of the numbers of each row."""


def _norm(
    device: AnyDevice, gradient: Given, x: Given, weight: Given, epsilon: float,
    vectors: Sequence[str], out: Sequence[Given] | None,
) -> Sequence[Any]:  # fmt: skip
    model = tensor(device, "x", x)
    slopes = like(device, "gradient", gradient, model)
    factors = row_of(device, "weight", weight, model)
    targets = (
        [result(device, x, model), *[result(device, weight, factors) for _ in vectors]]
        if out is None
        else list(out)
    )
    dx = like(device, "out[0]", targets[0], model)
    sums = [
        row_of(device, f"out[{number}]", target, model)
        for number, target in enumerate(targets[1:], 1)
    ]
    for number, each in enumerate((dx, *sums)):
        check_apart(each, slopes, model, factors, *[dx, *sums][:number])
    if not model.columns:
        return targets
    rows_kernels, columns_kernels = _KERNELS[len(vectors)]
    count = slabs(model.rows)
    partial = [_numbers(device, count * model.columns) for _ in sums]
    if model.rows:
        of_rows = [_numbers(device, model.rows) for _ in vectors]
        memory = [slopes.memory, model.memory, factors.memory, dx.memory, *of_rows]
        launch_rows(device, rows_kernels[model.element], model, (epsilon,), memory, 2)
        memory = [slopes.memory, model.memory, *of_rows, *partial]
        _launch_columns(device, columns_kernels, model, model.element, model.rows, memory)
    for each, out_vector in zip(partial, sums, strict=True):
        _add_up(device, model, each, count, out_vector.memory)
    return targets


def _numbers(device: AnyDevice, count: int) -> Any:
    """Allocate memory for f32 numbers."""
    return device.allocate(max(1, count) * np.dtype(np.float32).itemsize, zero=False)


def _add_up(device: AnyDevice, model: Tensor, partial: Any, rows: int, out_memory: Any) -> None:
    """Add rows of f32, and store the sum as a row of elements."""
    while rows > SLAB:
        count = slabs(rows)
        sums = _numbers(device, count * model.columns)
        _launch_columns(device, SLAB_SUMS, model, f32, rows, [sums, partial])
        partial, rows = sums, count
    _launch_columns(device, SLAB_SUMS, model, model.element, rows, [out_memory, partial])


def _launch_columns(
    device: AnyDevice, kernels: Mapping[Type, KernelDefinition], model: Tensor, element: Type,
    rows: int, memory: Sequence[Any],
) -> None:  # fmt: skip
    plan = plan_columns(device, f32, model.columns)
    compiled = device.compile(kernels[element], lanes=plan.lanes, element=element, plan=plan)
    groups = plan.blocks(model.columns) * max(1, slabs(rows))
    device.launch(compiled, groups, rows, model.columns // plan.vector, *memory)
