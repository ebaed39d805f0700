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
    Given,
    Tensor,
    check_apart,
    check_stored,
    in_order_of_memory,
    numbers,
    of_numbers,
    tensor,
)
from quod.tensor.elementwise.launch import check_count, launch_flat
from quod.tensor.rows.plan import plan_rows, plan_sum
from quod.tensor.scalars import positive
from quod.tensor.training.clipping_kernels import CLIP, NORM, SQUARE_SUMS
from quod.validation import in_order, shown_kind


def gradient_norm(
    device: DeviceChoice, gradients: Iterable[Given], *, out: Given | None = None
) -> Any:
    """Return the square root of the sum of the squares of all elements, in `out` or in new memory.

    `gradients` is a list of tensors as in `softmax`, of any shapes and types; an empty list has the
    norm 0. The result is f32 of shape (1,), in the memory of the first tensor's library or device.
    Squares are added in a fixed order, and neither overflow nor underflow unless the norm does. An
    element that is NaN makes the norm NaN, an infinite one infinite.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    tensors, originals = _tensors(device, gradients)
    return _norm_of(device, tensors, originals, out)


def clip_gradients(
    device: DeviceChoice, gradients: Iterable[Given], max_norm: float, *, out: Given | None = None
) -> Any:
    """Multiply all elements by min(1, max_norm / (norm + 1e-6)) in place; return the norm before.

    The norm is that of `gradient_norm`, with the same arguments and result; the host does not read
    it. `max_norm` is positive; gradients with a norm of at most `max_norm` - 1e-6 are unchanged. No
    two tensors may share memory.
    """
    device = resolve_device(device)
    most = positive("max_norm", max_norm)
    tensors, originals = _tensors(device, gradients)
    for each in tensors:
        check_stored(each)
    for previous, next_one in pairwise(in_order_of_memory(tensors)):
        check_apart(previous, next_one)
    norm = _norm_of(device, tensors, originals, out)
    held = of_numbers(device, "out", norm, (1,)).memory
    for each in tensors:
        launch_flat(device, CLIP[each.element], [most, held], [each])
    return norm


def _tensors(device: AnyDevice, gradients: object) -> tuple[list[Tensor], list[Given]]:
    listed = in_order("gradients", gradients)
    if hasattr(gradients, "dtype"):
        raise InputError(f"gradients must be a list of tensors, not {shown_kind(gradients)}")
    originals = list(listed)
    tensors = [tensor(device, f"gradients[{at}]", each) for at, each in enumerate(originals)]
    return tensors, originals


def _norm_of(
    device: AnyDevice, tensors: list[Tensor], originals: list[Given], out: Given | None
) -> Any:
    target: Any = out
    if out is None:
        shape = (1,)
        target = (
            numbers(device, originals[0], tensors[0], shape)
            if originals
            else np.empty(shape, np.float32)
        )
    out_tensor = of_numbers(device, "out", target, (1,))
    check_apart(out_tensor, *tensors)
    filled = [each for each in tensors if math.prod(each.shape)]
    plans = [plan_sum(device, each.element, math.prod(each.shape)) for each in filled]
    counts = [
        check_count(each.name, math.prod(each.shape), plan.vector)
        for each, (plan, *_) in zip(filled, plans, strict=True)
    ]
    places = sum(rows for *_, rows in plans)
    parts = [device.allocate(4 * max(1, places), zero=not places) for _ in range(3)]
    first = 0
    for each, count, (plan, width, rows) in zip(filled, counts, plans, strict=True):
        compiled = device.compile(
            SQUARE_SUMS[each.element], lanes=plan.lanes, element=each.element, plan=plan
        )
        device.launch(compiled, rows, rows, width, count, first, each.memory, *parts)
        first += rows
    last = plan_rows(device, f32, max(1, places))
    compiled = device.compile(NORM, lanes=last.lanes, plan=last)
    device.launch(compiled, 1, max(1, places) // last.vector, *parts, out_tensor.memory)
    return target
