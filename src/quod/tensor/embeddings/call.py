"""Embeddings: rows of a table that indices pick, and the table's gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel.ir.types import Type, f32
from quod.tensor.arrays import Given, Tensor, check_apart, indices, of_shape, shaped, tensor
from quod.tensor.embeddings.kernels import EMBEDDING, EMBEDDING_SUMS
from quod.tensor.rows.column_sums import SLAB, plan_columns
from quod.tensor.rows.plan import plan_groups, widest
from quod.validation import whole_number

_MOST = (1 << 31) - 1


def embedding(
    device: DeviceChoice, table: Given, indices: Given, *, check: bool = True,
    out: Given | None = None,
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
    picked = _indices(device, indices)
    if check:
        _checked(device, picked, source.rows)
    shape = (*picked.shape, source.columns)
    target = shaped(device, table, source, shape) if out is None else out
    out_tensor = of_shape(device, "out", target, source, shape)
    check_apart(out_tensor, source, picked)
    if not math.prod(shape):
        return target
    if not source.rows:
        raise InputError(f"table is {source.text}; there is no row to pick")
    plan = plan_groups(device, widest(source.element, source.columns), source.columns)
    compiled = device.compile(
        EMBEDDING[source.element], lanes=plan.lanes, element=source.element, plan=plan
    )
    rows, width = math.prod(picked.shape), source.columns // plan.vector
    last = device.upload(np.array([source.rows - 1], np.uint32))
    device.launch(
        compiled,
        plan.groups(rows),
        rows,
        width,
        source.memory,
        out_tensor.memory,
        picked.memory,
        last,
    )
    return target


def embedding_backward(
    device: DeviceChoice, gradient: Given, indices: Given, rows: int, *, out: Given | None = None
) -> Any:
    """Return the gradient of a table, from the gradient of embedding(table, indices)."""
    device = resolve_device(device)
    slopes = tensor(device, "gradient", gradient)
    picked = _indices(device, indices)
    rows = whole_number("rows", rows, 0, _MOST)
    if slopes.shape[:-1] != picked.shape:
        raise InputError(
            f"indices must be of shape {slopes.shape[:-1]}, as the rows of gradient are, not "
            f"{picked.shape}"
        )
    places = _checked(device, picked, rows).reshape(-1)
    shape = (rows, slopes.columns)
    target = shaped(device, gradient, slopes, shape) if out is None else out
    out_tensor = of_shape(device, "out", target, slopes, shape)
    check_apart(out_tensor, slopes, picked)
    if math.prod(shape):
        _add_up(device, slopes, places, rows, out_tensor)
    return target


def _add_up(
    device: AnyDevice, slopes: Tensor, places: Array, rows: int, out_tensor: Tensor
) -> None:
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=rows)
    firsts = np.cumsum(counts) - counts
    many = np.flatnonzero(counts > SLAB)
    few = np.flatnonzero(counts <= SLAB)
    source, kind = slopes.memory, slopes.element
    if few.size:
        spans = firsts[few], firsts[few] + counts[few]
        # Without selected rows nothing is read, but memory must not be empty.
        _launch(
            device,
            out_tensor,
            source,
            kind,
            order if order.size else [0],
            spans,
            few,
            out_tensor.memory,
        )
    firsts, counts = firsts[many], counts[many]
    while many.size:
        if counts.max() <= SLAB:
            spans = firsts, firsts + counts
            _launch(device, out_tensor, source, kind, order, spans, many, out_tensor.memory)
            return
        slabs = -(-counts // SLAB)
        ends = np.cumsum(slabs)
        number = np.arange(ends[-1])
        within = number - np.repeat(ends - slabs, slabs)
        begin = np.repeat(firsts, slabs) + within * SLAB
        spans = begin, np.minimum(begin + SLAB, np.repeat(firsts + counts, slabs))
        sums = device.allocate(number.size * out_tensor.columns * 4, zero=False)
        _launch(device, out_tensor, source, kind, order, spans, number, sums, f32)
        source, kind, order, firsts, counts = sums, f32, number, ends - slabs, slabs


def _launch(
    device: AnyDevice, out_tensor: Tensor, source: Any, kind: Type, order: Any,
    spans: tuple[Array, Array], targets: Array, memory: Any, stored: Type | None = None,
) -> None:  # fmt: skip
    stored = stored or out_tensor.element
    plan = plan_columns(device, f32, out_tensor.columns)
    compiled = device.compile(
        EMBEDDING_SUMS[kind, stored], lanes=plan.lanes, element=kind, stored=stored, plan=plan
    )
    lists = [device.upload(np.asarray(each, np.uint32)) for each in (order, *spans, targets)]
    groups, width = (
        plan.blocks(out_tensor.columns) * len(targets),
        out_tensor.columns // plan.vector,
    )
    device.launch(compiled, groups, len(targets), width, source, memory, *lists)


def _indices(device: AnyDevice, argument: Given) -> Tensor:
    index_tensor = indices(device, "indices", argument)
    if math.prod(index_tensor.shape) > _MOST:
        raise InputError(f"indices has the shape {index_tensor.shape}; at most {_MOST} indices go")
    return index_tensor


def _checked(device: AnyDevice, picked: Tensor, rows: int) -> Array:
    """Download the indices; InputError if one is out of range."""
    host_indices = picked.memory
    if isinstance(host_indices, Buffer):
        host_indices = np.empty(picked.shape, picked.dtype)
        device.download(picked.memory, host_indices)
    signed = np.array(host_indices, np.int64)
    wrong = np.argwhere((signed < 0) | (signed >= rows))
    if len(wrong):
        place = tuple(map(int, wrong[0]))
        raise InputError(
            f"indices[{', '.join(map(str, place))}] is {signed[place]}, and the {rows} rows are "
            f"counted from 0; {len(wrong)} such"
        )
    return signed
