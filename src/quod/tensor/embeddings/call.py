"""Embeddings: rows of a table selected by indices, and the table's gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import Type, f32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_shaped,
    check_apart,
    indices,
    tensor,
    tensor_of_shape,
)
from quod.tensor.embeddings.kernels import EMBEDDING, EMBEDDING_SUMS
from quod.tensor.rows.column_sums import SLAB, plan_columns
from quod.tensor.rows.plan import plan_groups, widest
from quod.validation import whole_number

_MOST = (1 << 31) - 1
"""The limit of indices and of rows of a table, which kernels count in 32-bit words."""


def embedding(
    device: DeviceChoice, table: AnyArray, indices: AnyArray, *, check: bool = True,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return the rows of a table that indices select, in `out` or in new memory.

    `table` is (rows, size), as in `softmax`, and `indices`, of int32 or uint32, have any shape with
    at least one axis. The result appends an axis of `size`, and is copied from the table bit for
    bit. With `check`, the host reads the indices, and an index out of range raises InputError,
    naming the first, before anything is stored. Without it, such an index selects the last row.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    source = tensor(device, "table", table)
    if len(source.shape) != 2:
        raise InputError(f"table must have the axes rows and size, not {source.text}")
    index_tensor = _indices(device, indices)
    if check:
        _checked(device, index_tensor, source.rows)
    shape = (*index_tensor.shape, source.columns)
    target = allocate_shaped(device, table, source, shape) if out is None else out
    out_tensor = tensor_of_shape(device, "out", target, source, shape)
    check_apart(out_tensor, source, index_tensor)
    if not math.prod(shape):
        return target
    if not source.rows:
        raise InputError(f"table is {source.text}; there is no row to pick")
    plan = plan_groups(device, widest(source.element, source.columns), source.columns)
    compiled = device.compile(
        EMBEDDING[source.element], lanes=plan.lanes, element=source.element, plan=plan
    )
    rows, width = math.prod(index_tensor.shape), source.columns // plan.vector
    last_row = device.upload(np.array([source.rows - 1], np.uint32))
    device.launch(
        compiled,
        plan.groups(rows),
        rows,
        width,
        source.memory,
        out_tensor.memory,
        index_tensor.memory,
        last_row,
    )
    return target


def embedding_backward(
    device: DeviceChoice,
    gradient: AnyArray,
    indices: AnyArray,
    rows: int,
    *,
    out: AnyArray | None = None,
) -> Any:
    """Return the gradient of a table, from the gradient of embedding(table, indices)."""
    device = resolve_device(device)
    gradient_tensor = tensor(device, "gradient", gradient)
    index_tensor = _indices(device, indices)
    rows = whole_number("rows", rows, 0, _MOST)
    if gradient_tensor.shape[:-1] != index_tensor.shape:
        raise InputError(
            f"indices must be of shape {gradient_tensor.shape[:-1]}, as the rows of gradient are, "
            f"not {index_tensor.shape}"
        )
    row_indices = _checked(device, index_tensor, rows).reshape(-1)
    shape = (rows, gradient_tensor.columns)
    target = allocate_shaped(device, gradient, gradient_tensor, shape) if out is None else out
    out_tensor = tensor_of_shape(device, "out", target, gradient_tensor, shape)
    check_apart(out_tensor, gradient_tensor, index_tensor)
    if math.prod(shape):
        _add_up(device, gradient_tensor, row_indices, rows, out_tensor)
    return target


def _add_up(
    device: AnyDevice, gradient_tensor: Tensor, row_indices: Array, rows: int, out_tensor: Tensor
) -> None:
    """Store, in each row of the table's gradient, the sum of the rows that selected it.

    Sums of more than SLAB rows are first taken per slab, in f32, and these are summed in turn.
    """
    order = np.argsort(row_indices, kind="stable")
    counts = np.bincount(row_indices, minlength=rows)
    starts = np.cumsum(counts) - counts
    long_rows = np.flatnonzero(counts > SLAB)
    short_rows = np.flatnonzero(counts <= SLAB)
    source, element = gradient_tensor.memory, gradient_tensor.element
    if short_rows.size:
        spans = starts[short_rows], starts[short_rows] + counts[short_rows]
        # Without selected rows nothing is read, but memory must not be empty.
        _launch(
            device,
            out_tensor,
            source,
            element,
            order if order.size else [0],
            spans,
            short_rows,
            out_tensor.memory,
        )
    starts, counts = starts[long_rows], counts[long_rows]
    while long_rows.size:
        if counts.max() <= SLAB:
            spans = starts, starts + counts
            _launch(device, out_tensor, source, element, order, spans, long_rows, out_tensor.memory)
            return
        slabs = -(-counts // SLAB)
        ends = np.cumsum(slabs)
        slab_index = np.arange(ends[-1])
        slab_in_row = slab_index - np.repeat(ends - slabs, slabs)
        begin = np.repeat(starts, slabs) + slab_in_row * SLAB
        spans = begin, np.minimum(begin + SLAB, np.repeat(starts + counts, slabs))
        sums = device.allocate(slab_index.size * out_tensor.columns * 4, zero=False)
        _launch(device, out_tensor, source, element, order, spans, slab_index, sums, f32)
        source, element, order, starts, counts = sums, f32, slab_index, ends - slabs, slabs


def _launch(
    device: AnyDevice, out_tensor: Tensor, source: Any, element: Type, order: Any,
    spans: tuple[Array, Array], targets: Array, memory: Any, stored: Type | None = None,
) -> None:  # fmt: skip
    """Sum rows order[begin:end] of `source` for each span; row targets[i] of `memory` is sum i."""
    stored = stored or out_tensor.element
    plan = plan_columns(device, f32, out_tensor.columns)
    compiled = device.compile(
        EMBEDDING_SUMS[element, stored], lanes=plan.lanes, element=element, stored=stored, plan=plan
    )
    lists = [device.upload(np.asarray(array, np.uint32)) for array in (order, *spans, targets)]
    groups, width = (
        plan.blocks(out_tensor.columns) * len(targets),
        out_tensor.columns // plan.vector,
    )
    device.launch(compiled, groups, len(targets), width, source, memory, *lists)


def _indices(device: AnyDevice, argument: AnyArray) -> Tensor:
    index_tensor = indices(device, "indices", argument)
    if math.prod(index_tensor.shape) > _MOST:
        raise InputError(f"indices has the shape {index_tensor.shape}; at most {_MOST} indices go")
    return index_tensor


def _checked(device: AnyDevice, index_tensor: Tensor, rows: int) -> Array:
    """Download the indices; InputError if one is out of range."""
    host_indices = index_tensor.memory
    if isinstance(host_indices, Buffer):
        host_indices = np.empty(index_tensor.shape, index_tensor.dtype)
        device.download(index_tensor.memory, host_indices)
    signed = np.array(host_indices, np.int64)
    wrong = np.argwhere((signed < 0) | (signed >= rows))
    if len(wrong):
        first_wrong = tuple(map(int, wrong[0]))
        raise InputError(
            f"indices[{', '.join(map(str, first_wrong))}] is {signed[first_wrong]}, and "
            f"the {rows} rows are counted from 0; {len(wrong)} such"
        )
    return signed
