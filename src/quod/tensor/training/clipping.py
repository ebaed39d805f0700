"""The norm of a list of gradients, and clipping to a maximum norm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import f32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_float32,
    check_apart,
    check_writable,
    float32_tensor,
    in_order_of_memory,
    tensor,
)
from quod.tensor.elementwise.launch import access_count, launch_flat
from quod.tensor.rows.plan import plan_rows, plan_sum
from quod.tensor.scalars import positive
from quod.tensor.training.clipping_kernels import CLIP, NORM, SQUARE_SUMS
from quod.validation import in_order, shown_kind


def gradient_norm(
    device: DeviceChoice, gradients: Iterable[AnyArray], *, out: AnyArray | None = None
) -> Any:
    """Return the square root of the sum of the squares of all elements, in `out` or in new memory.

    `gradients` is a list of arrays (NumPy, PyTorch, or of the device, as in `quod.tensor.softmax`),
    of any shapes and types; an empty list has the norm 0. The result is an f32 array of shape (1,),
    of the same library and device as the first gradient, or of NumPy for an empty list.

    Squares are added in a fixed order, and neither overflow nor underflow unless the norm does. The
    norm is NaN if an element is NaN, and infinite if an element is infinite.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    gradient_tensors, originals = _tensors(device, gradients)
    return _norm_of(device, gradient_tensors, originals, out)


def clip_gradients(
    device: DeviceChoice,
    gradients: Iterable[AnyArray],
    max_norm: float,
    *,
    out: AnyArray | None = None,
) -> Any:
    """Multiply all elements by min(1, max_norm / (norm + 1e-6)) in place; return that norm.

    The norm is that of `gradient_norm`, with the same arguments and result; the host does not read
    it. `max_norm` is positive; gradients with a norm of at most `max_norm` - 1e-6 are unchanged. No
    two tensors may share memory.
    """
    device = resolve_device(device)
    valid_max_norm = positive("max_norm", max_norm)
    gradient_tensors, originals = _tensors(device, gradients)
    for gradient_tensor in gradient_tensors:
        check_writable(gradient_tensor)
    for previous, next_tensor in pairwise(in_order_of_memory(gradient_tensors)):
        check_apart(previous, next_tensor)
    norm = _norm_of(device, gradient_tensors, originals, out)
    norm_memory = float32_tensor(device, "out", norm, (1,)).memory
    for gradient_tensor in gradient_tensors:
        launch_flat(
            device, CLIP[gradient_tensor.element], [valid_max_norm, norm_memory], [gradient_tensor]
        )
    return norm


def _tensors(device: AnyDevice, gradients: object) -> tuple[list[Tensor], list[AnyArray]]:
    """Validate a list of gradients; return tensors, and the arguments as given."""
    ordered = in_order("gradients", gradients)
    if hasattr(gradients, "dtype"):
        raise InputError(f"gradients must be a list of tensors, not {shown_kind(gradients)}")
    originals = list(ordered)
    tensors = [
        tensor(device, f"gradients[{index}]", gradient) for index, gradient in enumerate(originals)
    ]
    return tensors, originals


def _norm_of(
    device: AnyDevice, tensors: list[Tensor], originals: list[AnyArray], out: AnyArray | None
) -> Any:
    """Launch the norm of tensors; `originals[0]` determines the library of the result."""
    target: Any = out
    if out is None:
        shape = (1,)
        target = (
            allocate_float32(device, originals[0], tensors[0], shape)
            if originals
            else np.empty(shape, np.float32)
        )
    out_tensor = float32_tensor(device, "out", target, (1,))
    check_apart(out_tensor, *tensors)
    non_empty = [gradient_tensor for gradient_tensor in tensors if math.prod(gradient_tensor.shape)]
    plans = [
        plan_sum(device, gradient_tensor.element, math.prod(gradient_tensor.shape))
        for gradient_tensor in non_empty
    ]
    access_counts = [
        access_count(gradient_tensor.name, math.prod(gradient_tensor.shape), plan.vector)
        for gradient_tensor, (plan, *_) in zip(non_empty, plans, strict=True)
    ]
    # A tensor is cut into slices, one per workgroup; each slice has a partial sum at each of three
    # scales (Blue's algorithm, see `clipping_kernels`), so squares neither overflow nor underflow.
    partial_count = sum(slices for *_, slices in plans)
    partial_sums = [
        device.allocate(4 * max(1, partial_count), zero=not partial_count) for _ in range(3)
    ]
    first_partial = 0
    for gradient_tensor, count, (plan, slice_width, slices) in zip(
        non_empty, access_counts, plans, strict=True
    ):
        compiled = device.compile(
            SQUARE_SUMS[gradient_tensor.element],
            lanes=plan.lanes,
            element=gradient_tensor.element,
            plan=plan,
        )
        device.launch(
            compiled, slices, slices, slice_width, count, first_partial, gradient_tensor.memory,
            *partial_sums,
        )  # fmt: skip
        first_partial += slices
    norm_plan = plan_rows(device, f32, max(1, partial_count))
    compiled = device.compile(NORM, lanes=norm_plan.lanes, plan=norm_plan)
    device.launch(
        compiled, 1, max(1, partial_count) // norm_plan.vector, *partial_sums, out_tensor.memory
    )
    return target
