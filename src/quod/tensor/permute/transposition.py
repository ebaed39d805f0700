"""The transposition of a tensor's axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import Type, u32
from quod.kernel.machine import Capability
from quod.tensor.arrays import WORDS, AnyArray, Tensor, allocate_shaped, check_apart, words
from quod.tensor.permute.permutation import Permutation
from quod.tensor.permute.transpose_kernels import ROWS, TILES, TransposePlan
from quod.tensor.rows.plan import VECTOR_LANES, WIDEST, plan_groups
from quod.validation import in_order, whole_number

_MAX_AXES = 8
_MAX_COUNT = (1 << 31) - 1
"""The limit of rows, of accesses of a row and of workgroups: kernels use 32-bit words."""
_LANES = 256
"""Instances per workgroup, which transposes one tile, on a GPU."""
_SIDE, _BYTE_SIDE = 32, 16
"""Blocks along a side of a tile, for wider elements and for bytes.

A block of bytes is 4 words; 32 by 32 such blocks would fill the 16 KiB of shared memory that WebGPU
guarantees.
"""
_CHUNK = 1024
"""Rows are cut into chunks of at most so many accesses; then a few long rows fill a device."""
_MIN_SIDE = 8
"""If a side of the matrix has fewer elements, most of a tile would be empty, so rows are copied."""


def transpose(
    device: DeviceChoice,
    x: AnyArray,
    axes: Sequence[int] | None = None,
    *,
    out: AnyArray | None = None,
) -> Any:
    """Copy `x` with its axes in another order, to `out` or to new memory.

    Axis j of the result is axis `axes[j]` of `x`, as in NumPy; by default the order is reversed.
    `x` is contiguous in C order, has up to 8 axes and elements of 1, 2, 4 or 8 bytes, copied bit
    for bit; `x` may be any array that `softmax` takes. `out` is of the same type, and does not
    overlap `x`.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    source = words(device, "x", x)
    if len(source.shape) > _MAX_AXES:
        raise InputError(f"x has {len(source.shape)} axes, and at most {_MAX_AXES} are turned")
    permutation = Permutation(source.shape, _order(axes, len(source.shape)))
    shape = permutation.result
    target = allocate_shaped(device, x, source, shape) if out is None else out
    out_tensor = words(device, "out", target)
    if out_tensor.dtype != source.dtype or out_tensor.shape != shape:
        raise InputError(
            f"out must be {source.dtype} of shape {shape} to go with x, not "
            f"{out_tensor.dtype} of shape {out_tensor.shape}"
        )
    check_apart(out_tensor, source)
    if math.prod(shape):
        _launch(device, permutation.merged, source, out_tensor)
    return target


def _order(axes: object, count: int) -> tuple[int, ...]:
    """Return the axes as numbers from 0 on; InputError unless each axis occurs once."""
    if axes is None:
        return tuple(reversed(range(count)))
    axis_list = list(in_order("axes", axes))
    order = tuple(
        whole_number(f"axes[{index}]", axis, -count, count - 1) % count
        for index, axis in enumerate(axis_list)
    )
    if sorted(order) != list(range(count)):
        raise InputError(f"axes must have each of {count} axes once, not {order}")
    return order


def _launch(
    device: AnyDevice, permutation: Permutation, source: Tensor, out_tensor: Tensor
) -> None:
    """Launch the kernel that suits the permutation: whole rows, single elements, or tiles."""
    on_host = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    rows, columns = permutation.result[-1], permutation.shape[-1]
    if permutation.order[-1] == len(permutation.order) - 1:
        _launch_rows(device, permutation, source, out_tensor, columns)
    elif min(rows, columns) < _MIN_SIDE and not on_host:
        # Each element is a row of its own; adjacent instances store adjacent elements of the
        # result.
        order = permutation.order
        element_permutation = Permutation((*permutation.shape, 1), (*order, len(order)))
        _launch_rows(device, element_permutation, source, out_tensor, 1)
    else:
        _launch_tiles(device, permutation, source, out_tensor, on_host=on_host)


def _launch_rows(
    device: AnyDevice, permutation: Permutation, source: Tensor, out_tensor: Tensor, columns: int
) -> None:
    """Launch a copy of whole rows of `columns` elements: only the order of the rows changes."""
    element_bytes = source.element.bytes
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        unit, access_bytes = source.element, element_bytes
    else:
        access_bytes = math.gcd(columns * element_bytes, WIDEST)
        unit = WORDS[min(access_bytes, u32.bytes)]
    other_axes = permutation.order[-2::-1]
    strides = [permutation.strides[axis] * element_bytes // unit.bytes for axis in other_axes]
    layout = [
        number
        for axis, stride in zip(other_axes, strides, strict=True)
        for number in (permutation.shape[axis], *_halves(stride))
    ]
    width, rows = columns * element_bytes // access_bytes, math.prod(permutation.shape) // columns
    chunks = -(-width // _CHUNK)
    _check(source, rows * chunks, width)
    vector = access_bytes // unit.bytes
    plan = plan_groups(device, vector, min(width, _CHUNK) * vector)
    compiled = device.compile(
        ROWS[element_bytes],
        lanes=plan.lanes,
        unit=unit,
        axes=len(other_axes),
        cut=chunks > 1,
        plan=plan,
    )
    device.launch(
        compiled, plan.groups(rows * chunks), rows * chunks, width, _CHUNK,
        *_memory(source, out_tensor), _upload_u32(device, layout),
    )  # fmt: skip


def _launch_tiles(
    device: AnyDevice,
    permutation: Permutation,
    source: Tensor,
    out_tensor: Tensor,
    *,
    on_host: bool,
) -> None:
    """Launch the transposition by tiles, for permutations that move the last axis."""
    shape, element_bytes = permutation.shape, source.element.bytes
    result_last, source_last = permutation.order[-1], len(shape) - 1
    vector = 1 if on_host else max(1, u32.bytes // element_bytes)
    if shape[result_last] % vector or shape[source_last] % vector:
        vector = 1
    unit: Type = source.element if vector == 1 else u32
    lanes = max(device.lanes, VECTOR_LANES) if on_host else _LANES
    plan = TransposePlan(lanes, vector, _BYTE_SIDE if vector == 4 else _SIDE)
    other_axes = [
        axis for axis in reversed(permutation.order) if axis not in (result_last, source_last)
    ]
    source_strides = [stride // vector for stride in permutation.strides]
    result_strides = [stride // vector for stride in permutation.result_strides]
    layout = [*_halves(source_strides[result_last]), *_halves(result_strides[source_last])]
    for axis in other_axes:
        layout += [shape[axis], *_halves(source_strides[axis]), *_halves(result_strides[axis])]
    rows, columns = shape[result_last] // vector, shape[source_last] // vector
    groups = (
        -(-rows // plan.side)
        * -(-columns // plan.side)
        * math.prod(shape[axis] for axis in other_axes)
    )
    _check(source, groups)
    compiled = device.compile(
        TILES[element_bytes], lanes=plan.lanes, unit=unit, axes=len(other_axes), plan=plan
    )
    device.launch(
        compiled, groups, rows, columns, *_memory(source, out_tensor), _upload_u32(device, layout)
    )


def _check(source: Tensor, *counts: int) -> None:
    if max(counts) > _MAX_COUNT:
        raise InputError(f"x has the shape {source.shape}, which has too many elements at once")


def _halves(number: int) -> tuple[int, int]:
    """Split a 64-bit number into its lower and upper 32-bit words."""
    return number & 0xFFFFFFFF, number >> 32


def _upload_u32(device: AnyDevice, numbers: list[int]) -> Buffer:
    """Upload numbers as u32; an empty list is uploaded as one 0, as memory must not be empty."""
    return device.upload(np.array(numbers or [0], np.uint32))


def _memory(*tensors: Tensor) -> list[Any]:
    """Return the memory of tensors, with arrays viewed as unsigned integers."""
    return [each.memory if isinstance(each.memory, Buffer) else _bits(each) for each in tensors]


def _bits(operand: Tensor) -> Array:
    array: Array = operand.memory
    return array.reshape(-1).view(f"u{operand.element.bytes}")
