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
from quod.tensor.arrays import WORDS, Given, Tensor, check_apart, shaped, words
from quod.tensor.permute.permutation import Permutation
from quod.tensor.permute.transpose_kernels import ROWS, TILES, TransposePlan
from quod.tensor.rows.plan import VECTOR_LANES, WIDEST, plan_groups
from quod.validation import in_order, shown, whole_number

_MAX_AXES = 8
_MOST = (1 << 31) - 1
_LANES = 256
"""Instances of a tile on a GPU."""
_SIDE, _SIDE_OF_BYTES = 32, 16
"""Words of a tile's lines; four words of a block fill the shared memory of WebGPU."""
_PIECE = 1024
"""The most accesses of a row that a workgroup copies, so that few long rows keep a device busy."""
_FEW = 8
"""Lines, or words of a line, below which most of a tile would be empty."""


def transpose(
    device: DeviceChoice, x: Given, axes: Sequence[int] | None = None, *, out: Given | None = None
) -> Any:
    """Copy `x` with its axes in another order, to `out` or to new memory.

    Axis j of the result is axis `axes[j]` of `x`, as in NumPy; by default the order is reversed.
    `x` is contiguous in C order, has up to 8 axes and elements of 1, 2, 4 or 8 bytes, whose bits
    are moved; otherwise it is as in `softmax`. `out` is of the same type, and does not overlap `x`.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    source = words(device, "x", x)
    if len(source.shape) > _MAX_AXES:
        raise InputError(f"x has {len(source.shape)} axes, and at most {_MAX_AXES} are turned")
    permutation = Permutation(source.shape, _order(axes, len(source.shape)))
    shape = permutation.result
    target = shaped(device, x, source, shape) if out is None else out
    dest = words(device, "out", target)
    if dest.dtype != source.dtype or dest.shape != shape:
        raise InputError(
            f"out must be {source.dtype} of shape {shape} to go with x, not {dest.dtype} of shape "
            f"{dest.shape}"
        )
    check_apart(dest, source)
    if math.prod(shape):
        _launch(device, permutation.merged, source, dest)
    return target


def _order(axes: object, count: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(reversed(range(count)))
    listed = list(in_order("axes", axes))
    order = tuple(
        whole_number(f"axes[{at}]", each, -count, count - 1) % count
        for at, each in enumerate(listed)
    )
    if sorted(order) != list(range(count)):
        raise InputError(f"axes must have each of {count} axes once, not {shown(str(order))}")
    return order


def _launch(
    device: AnyDevice, permutation: Permutation, source: Tensor, out_tensor: Tensor
) -> None:
    processor = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    rows, columns = permutation.result[-1], permutation.shape[-1]
    if permutation.order[-1] == len(permutation.order) - 1:
        _launch_rows(device, permutation, source, out_tensor, columns)
    elif min(rows, columns) < _FEW and not processor:
        # Each element is a separate row; consecutive elements are stored together.
        order = permutation.order
        single = Permutation((*permutation.shape, 1), (*order, len(order)))
        _launch_rows(device, single, source, out_tensor, 1)
    else:
        _launch_tiles(device, permutation, source, out_tensor, processor=processor)


def _launch_rows(
    device: AnyDevice, permutation: Permutation, source: Tensor, out_tensor: Tensor, columns: int
) -> None:
    """Launch the copy of rows of `columns` elements, whose order within a row stays."""
    size = source.element.bytes
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        unit, access = source.element, size
    else:
        access = math.gcd(columns * size, WIDEST)
        unit = WORDS[min(access, u32.bytes)]
    others = permutation.order[-2::-1]
    strides = [permutation.strides[axis] * size // unit.bytes for axis in others]
    layout = [
        number
        for axis, stride in zip(others, strides, strict=True)
        for number in (permutation.shape[axis], *_halves(stride))
    ]
    width, rows = columns * size // access, math.prod(permutation.shape) // columns
    pieces = -(-width // _PIECE)
    _check(source, rows * pieces, width)
    vector = access // unit.bytes
    plan = plan_groups(device, vector, min(width, _PIECE) * vector)
    compiled = device.compile(
        ROWS[size], lanes=plan.lanes, unit=unit, axes=len(others), cut=pieces > 1, plan=plan
    )
    device.launch(
        compiled, plan.groups(rows * pieces), rows * pieces, width, _PIECE,
        *_memory(source, out_tensor), _words(device, layout),
    )  # fmt: skip


def _launch_tiles(
    device: AnyDevice,
    permutation: Permutation,
    source: Tensor,
    out_tensor: Tensor,
    *,
    processor: bool,
) -> None:
    """Launch the transposition by tiles, for permutations that move the last axis."""
    shape, size = permutation.shape, source.element.bytes
    down, along = permutation.order[-1], len(shape) - 1
    vector = 1 if processor else max(1, u32.bytes // size)
    if shape[down] % vector or shape[along] % vector:
        vector = 1
    unit: Type = source.element if vector == 1 else u32
    lanes = max(device.lanes, VECTOR_LANES) if processor else _LANES
    plan = TransposePlan(lanes, vector, _SIDE_OF_BYTES if vector == 4 else _SIDE)
    others = [axis for axis in reversed(permutation.order) if axis not in (down, along)]
    first = [each // vector for each in permutation.strides]
    second = [each // vector for each in permutation.result_strides]
    layout = [*_halves(first[down]), *_halves(second[along])]
    for axis in others:
        layout += [shape[axis], *_halves(first[axis]), *_halves(second[axis])]
    rows, columns = shape[down] // vector, shape[along] // vector
    groups = (
        -(-rows // plan.side) * -(-columns // plan.side) * math.prod(shape[axis] for axis in others)
    )
    _check(source, groups)
    compiled = device.compile(TILES[size], lanes=plan.lanes, unit=unit, axes=len(others), plan=plan)
    device.launch(
        compiled, groups, rows, columns, *_memory(source, out_tensor), _words(device, layout)
    )


def _check(source: Tensor, *counts: int) -> None:
    if max(counts) > _MOST:
        raise InputError(f"x has the shape {source.shape}, which has too many elements at once")


def _halves(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32


def _words(device: AnyDevice, numbers: list[int]) -> Buffer:
    """Upload numbers as u32; an empty list becomes one 0."""
    return device.upload(np.array(numbers or [0], np.uint32))


def _memory(*tensors: Tensor) -> list[Any]:
    """Return the memory of tensors, with arrays viewed as unsigned integers."""
    return [each.memory if isinstance(each.memory, Buffer) else _bits(each) for each in tensors]


def _bits(operand: Tensor) -> Array:
    array: Array = operand.memory
    return array.reshape(-1).view(f"u{operand.element.bytes}")
