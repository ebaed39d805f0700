"""Sums, means, extremes and their indices along an axis of a tensor."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen
from quod.kernel.ir.types import f32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_int32,
    allocate_shaped,
    check_apart,
    indices_of_shape,
    tensor,
    tensor_of_shape,
)
from quod.tensor.reductions.kernels import ReductionForm, reduction_kernel
from quod.tensor.rows.column_sums import ColumnPlan, plan_columns, slabs
from quod.tensor.rows.plan import RowPlan, plan_parts
from quod.validation import whole_number_or_none

_MAX_LENGTH = (1 << 31) - 1
"""The limit of an axis and of the elements after it, which kernels count in 32-bit words."""


def reduce_sum(
    device: DeviceChoice, x: AnyArray, *, axis: int | None = None, keepdims: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the sums along an axis, or of all elements, in `out` or in new memory.

    `x` is of f32, f16 or bf16, as in `softmax`. The result has the same type. The axis is removed,
    or kept with length 1 with `keepdims`; a result without axes has the shape (1,). Partial sums
    are added in f32, in a fixed order, and rounded once: the error is at most (4 log2(n) + 32) *
    2**-23 of the sum of absolute values, plus that rounding. An empty sum is 0.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    return _reduce(device, "sum", x, axis, keepdims, out)


def reduce_mean(
    device: DeviceChoice, x: AnyArray, *, axis: int | None = None, keepdims: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the means along an axis, or of all elements; see `reduce_sum`.

    The sum is divided before it is rounded. Raises InputError if there is no element.
    """
    return _reduce(device, "mean", x, axis, keepdims, out)


def reduce_max(
    device: DeviceChoice, x: AnyArray, *, axis: int | None = None, keepdims: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the greatest elements along an axis, or of all; see `reduce_sum`.

    The result is NaN if an element is, as in NumPy; +0 is greater than -0. Raises InputError if
    there is no element.
    """
    return _extreme(device, x, axis, keepdims, out, least=False)


def reduce_min(
    device: DeviceChoice, x: AnyArray, *, axis: int | None = None, keepdims: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the least elements along an axis, or of all; see `reduce_max`."""
    return _extreme(device, x, axis, keepdims, out, least=True)


def argmax(
    device: DeviceChoice, x: AnyArray, *, axis: int | None = None, keepdims: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the indices of the greatest elements along an axis, or in all of `x` in C order.

    Of equal elements, +0 and -0 included, the first counts; NaN is greater than all, as in NumPy.
    The result is of int32, and `out` of int32 or uint32. Otherwise as in `reduce_max`.
    """
    return _reduce(device, "argmax", x, axis, keepdims, out)


def argmin(
    device: DeviceChoice, x: AnyArray, *, axis: int | None = None, keepdims: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the indices of the least elements, or of the first NaN; see `argmax`."""
    return _reduce(device, "argmin", x, axis, keepdims, out)


def _extreme(
    device: DeviceChoice, x: AnyArray, axis: int | None, keepdims: bool, out: AnyArray | None, *,
    least: bool,
) -> Any:  # fmt: skip
    """Reduce to the greatest elements, or with `least` to the least."""
    return _reduce(device, "min" if least else "max", x, axis, keepdims, out)


@frozen
class _Sizes:
    """A tensor as `outer` matrices of `length` rows and `inner` columns; `length` is the axis."""

    outer: int
    length: int
    inner: int


def _reduce(
    device: DeviceChoice,
    name: str,
    x: AnyArray,
    axis: int | None,
    keepdims: bool,
    out: AnyArray | None,
) -> Any:
    """Validate the arguments of the reduction `name`, and launch it."""
    device = resolve_device(device)
    source = tensor(device, "x", x)
    axes = len(source.shape)
    axis = whole_number_or_none("axis", axis, -axes, axes - 1)
    sizes, shape = _sizes_and_shape(source, axis, keepdims)
    if not sizes.length and name != "sum":
        raise InputError(f"x has the shape {source.shape}: without elements there is no {name}")
    if name.startswith("arg"):
        target = allocate_int32(device, x, source, shape) if out is None else out
        out_tensor = indices_of_shape(device, "out", target, shape)
    else:
        target = allocate_shaped(device, x, source, shape) if out is None else out
        out_tensor = tensor_of_shape(device, "out", target, source, shape)
    check_apart(out_tensor, source)
    if math.prod(shape):
        _launch(device, name, source, sizes, out_tensor)
    return target


def _sizes_and_shape(
    source: Tensor, axis: int | None, keepdims: bool
) -> tuple[_Sizes, tuple[int, ...]]:
    """Return the sizes around an axis, and the shape of the result."""
    shape = source.shape
    if axis is None:
        sizes, result_shape = _Sizes(1, math.prod(shape), 1), (1,) * (len(shape) if keepdims else 1)
    else:
        axis %= len(shape)
        outer_shape, inner_shape = shape[:axis], shape[axis + 1 :]
        sizes = _Sizes(math.prod(outer_shape), shape[axis], math.prod(inner_shape))
        result_shape = (*outer_shape, *((1,) if keepdims else ()), *inner_shape) or (1,)
    if max(sizes.length, sizes.inner) > _MAX_LENGTH:
        raise InputError(
            f"x has the shape {shape}; an axis may have at most {_MAX_LENGTH} elements, "
            "and so may the axes after it together"
        )
    return sizes, result_shape


def _launch(
    device: AnyDevice, name: str, source: Tensor, sizes: _Sizes, out_tensor: Tensor
) -> None:
    """Launch steps, each over the partial results of the one before, until one part is left."""
    along = sizes.inner == 1 and sizes.length > 0
    length, inputs, input_type, first = sizes.length, [source.memory], source.element, True
    if not length:
        # Kernels do not read this memory, but memory must not be empty.
        inputs = [device.allocate(source.element.bytes, zero=True)]
    parts = 0
    while parts != 1:
        plan: RowPlan | ColumnPlan
        if along:
            plan, width, parts = plan_parts(device, input_type, sizes.outer, length)
            rows, count = sizes.outer * parts, length // plan.vector
            groups = plan.groups(rows)
        else:
            plan, parts = plan_columns(device, f32, sizes.inner), max(1, slabs(length))
            rows, count, width = length, length, sizes.inner // plan.vector
            groups = plan.blocks(sizes.inner) * sizes.outer * parts
        form = ReductionForm(name, first, last=parts == 1)
        outputs = [out_tensor.memory]
        if not form.last:
            nbytes = 4 * sizes.outer * parts * sizes.inner
            outputs = [device.allocate(nbytes, zero=False) for _ in form.stored(source.element)]
        compiled = device.compile(
            reduction_kernel(source.element, form, along=along), lanes=plan.lanes,
            element=source.element, plan=plan, form=form,
        )  # fmt: skip
        device.launch(
            compiled, groups, rows, width, count, parts, float(sizes.length or 1), *inputs, *outputs
        )
        length, inputs, input_type, first = parts, outputs, f32, False
