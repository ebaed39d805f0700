"""Sums, means and extremes along an axis of a tensor, and where extremes are."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen
from quod.kernel.ir.types import f32
from quod.tensor.arrays import (
    Given,
    Tensor,
    check_apart,
    integers,
    of_shape,
    places_of_shape,
    shaped,
    tensor,
)
from quod.tensor.reductions.kernels import ReductionForm, reduction_kernel
from quod.tensor.rows.column_sums import ColumnPlan, plan_columns, slabs
from quod.tensor.rows.plan import RowPlan, plan_parts
from quod.validation import whole_number_or_none

_MOST = (1 << 31) - 1


def reduce_sum(
    device: DeviceChoice, x: Given, *, axis: int | None = None, keepdims: bool = False,
    out: Given | None = None,
) -> Any:  # fmt: skip
    """The sums along an axis, or of all elements; gives `out`, or what is made for it.

    `x` is as `softmax` takes it, of f32, f16 or bf16. The result is of the same type and without
    the axis, which with `keepdims` stays as one of one element; where none is left its shape is
    (1,). Elements are added in f32, in a fixed order and in parts, and a sum is rounded once: it is
    off by at most (4 log2(n) + 32) * 2**-23 of the sum of the elements' sizes, and by its rounding.
    A sum of nothing is 0. InputError, with the name of the argument, for what does not fit;
    DeviceError for memory that the device does not reach.
    """
    return _reduce(device, "sum", x, axis, keepdims, out)


def reduce_mean(
    device: DeviceChoice, x: Given, *, axis: int | None = None, keepdims: bool = False,
    out: Given | None = None,
) -> Any:  # fmt: skip
    """The means along an axis, or of all elements, as `reduce_sum` takes and gives them.

    A sum is divided before it is rounded. InputError where there is no element.
    """
    return _reduce(device, "mean", x, axis, keepdims, out)


def reduce_max(
    device: DeviceChoice, x: Given, *, axis: int | None = None, keepdims: bool = False,
    out: Given | None = None,
) -> Any:  # fmt: skip
    """The greatest elements along an axis, or of all, as `reduce_sum` takes and gives them.

    NaN where one is, as in NumPy; of zeros the positive one is the greater. InputError where there
    is no element.
    """
    return _extreme(device, x, axis, keepdims, out, least=False)


def reduce_min(
    device: DeviceChoice, x: Given, *, axis: int | None = None, keepdims: bool = False,
    out: Given | None = None,
) -> Any:  # fmt: skip
    """The least elements along an axis, or of all, as `reduce_max` takes and gives them."""
    return _extreme(device, x, axis, keepdims, out, least=True)


def argmax(
    device: DeviceChoice, x: Given, *, axis: int | None = None, keepdims: bool = False,
    out: Given | None = None,
) -> Any:  # fmt: skip
    """Where along an axis the greatest elements are, or in all of `x` counted in C order.

    The first of those that are the same, as zeros of both signs are; NaN is greater than all, as in
    NumPy. The result is of int32, and `out` of int32 or uint32; else as `reduce_max`.
    """
    return _reduce(device, "argmax", x, axis, keepdims, out)


def argmin(
    device: DeviceChoice, x: Given, *, axis: int | None = None, keepdims: bool = False,
    out: Given | None = None,
) -> Any:  # fmt: skip
    """Where the least elements are, or the first NaN; as `argmax` takes and gives them."""
    return _reduce(device, "argmin", x, axis, keepdims, out)


def _extreme(
    device: DeviceChoice, x: Given, axis: int | None, keepdims: bool, out: Given | None, *,
    least: bool,
) -> Any:  # fmt: skip
    return _reduce(device, "min" if least else "max", x, axis, keepdims, out)


@frozen
class _Sizes:
    """A tensor as matrices: what is before the axis, it itself, and what is behind it."""

    outer: int
    length: int
    inner: int


def _reduce(
    device: DeviceChoice, name: str, x: Given, axis: int | None, keepdims: bool, out: Given | None
) -> Any:
    device = resolve_device(device)
    source = tensor(device, "x", x)
    axes = len(source.shape)
    axis = whole_number_or_none("axis", axis, -axes, axes - 1)
    sizes, shape = _of_axis(source, axis, keepdims)
    if not sizes.length and name != "sum":
        raise InputError(f"x has the shape {source.shape}: of no element there is no {name}")
    if name.startswith("arg"):
        target = integers(device, x, source, shape) if out is None else out
        made = places_of_shape(device, "out", target, shape)
    else:
        target = shaped(device, x, source, shape) if out is None else out
        made = of_shape(device, "out", target, source, shape)
    check_apart(made, source)
    if math.prod(shape):
        _launch(device, name, source, sizes, made)
    return target


def _of_axis(source: Tensor, axis: int | None, keepdims: bool) -> tuple[_Sizes, tuple[int, ...]]:
    """The sizes, and the result's shape."""
    shape = source.shape
    if axis is None:
        sizes, left = _Sizes(1, math.prod(shape), 1), (1,) * (len(shape) if keepdims else 1)
    else:
        axis %= len(shape)
        before, behind = shape[:axis], shape[axis + 1 :]
        sizes = _Sizes(math.prod(before), shape[axis], math.prod(behind))
        left = (*before, *((1,) if keepdims else ()), *behind) or (1,)
    if max(sizes.length, sizes.inner) > _MOST:
        raise InputError(
            f"x has the shape {shape}; at most {_MOST} elements go along an axis, and behind it"
        )
    return sizes, left


def _launch(device: AnyDevice, name: str, source: Tensor, sizes: _Sizes, made: Tensor) -> None:
    """Step by step, of which each reads what the one before stored, until rows are one number."""
    along = sizes.inner == 1 and sizes.length > 0
    length, read, kind, first = sizes.length, [source.memory], source.element, True
    if not length:
        read = [device.allocate(source.element.bytes, zero=True)]  # of which nothing is read
    parts = 0
    while parts != 1:
        plan: RowPlan | ColumnPlan
        if along:
            plan, width, parts = plan_parts(device, kind, sizes.outer, length)
            rows, count = sizes.outer * parts, length // plan.vector
            groups = plan.groups(rows)
        else:
            plan, parts = plan_columns(device, f32, sizes.inner), max(1, slabs(length))
            rows, count, width = length, length, sizes.inner // plan.vector
            groups = plan.blocks(sizes.inner) * sizes.outer * parts
        form = ReductionForm(name, first, last=parts == 1)
        stored = [made.memory]
        if not form.last:
            room = 4 * sizes.outer * parts * sizes.inner
            stored = [device.allocate(room, zero=False) for _ in form.stored(source.element)]
        compiled = device.compile(
            reduction_kernel(source.element, form, along=along), lanes=plan.lanes,
            element=source.element, plan=plan, form=form,
        )  # fmt: skip
        device.launch(
            compiled, groups, rows, width, count, parts, float(sizes.length or 1), *read, *stored
        )
        length, read, kind, first = parts, stored, f32, False
