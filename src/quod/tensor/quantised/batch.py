"""Batches of activation rows for a quantised matrix: checks, plans and launches."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from quod.device.memory.buffer import Buffer, overlap
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError, InputError
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.machine import Capability
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_shaped,
    check_apart,
    tensor,
    tensor_of_shape,
)
from quod.tensor.matmul.call import product_launch
from quod.tensor.matmul.form import GemmForm
from quod.tensor.quantised.batch_kernel import MULTIPLY_ROWS, plan_batch
from quod.tensor.quantised.bytes_cores import LANES as CORE_LANES
from quod.tensor.quantised.bytes_cores import MULTIPLY_BYTES_ON_CORES
from quod.tensor.quantised.bytes_kernels import LANES, MULTIPLY_BYTES, QUANTISE_ROWS
from quod.tensor.quantised.dequantising import dequantise_launch
from quod.tensor.quantised.packed import BYTES
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from quod.tensor.rows.plan import WIDEST

EXACT, INT8 = "exact", "int8"
"""The precisions of activations in a product."""

Plan = Literal["fused", "dequantised"]
FUSED: Plan = "fused"
DEQUANTISED: Plan = "dequantised"
"""The ways to dequantise weights: on the way to shared memory, or once to memory for all rows."""

_DEQUANTISED_TIMES = 31, 96
"""Microseconds of a product of few rows with dequantised weights: f16 or bf16, and f32.

Measured on the same GPU and matrix as `VectorTimes`.
"""
_MAX_TIME_FRACTION = 0.9
"""Rows are multiplied as vectors if that takes at most this fraction of `_DEQUANTISED_TIMES`."""
_ROWS_PER_WORKGROUP, _MAX_BATCH_ROWS = 2, 4
"""Rows of the matrix, and at most so many of activations, per workgroup of `MULTIPLY_BYTES`."""
_MIN_CORE_ROWS = 16
"""Tensor cores multiply bytes from so many rows: 15 take 31 us without them, 16 take 19 with."""
_TILE, _SMALL_TILE = (32, 32), (16, 32)
"""Rows of activations and of the matrix per workgroup on tensor cores."""
_MAX_U32 = (1 << 32) - 1


def is_batch(x: object) -> bool:
    """Return true if `x` has more than one axis, or is an array of another library."""
    if isinstance(x, (np.ndarray, Buffer)):
        return isinstance(x.shape, (tuple, list)) and len(x.shape) > 1
    return hasattr(type(x), "shape")


def rows(device: AnyDevice, x: AnyArray, depth: int) -> Tensor:
    """Return `x` as a tensor; InputError unless its rows have `depth` elements."""
    x_rows = tensor(device, "x", x)
    if x_rows.columns != depth:
        raise InputError(f"x must have rows of {depth} elements, not {x_rows.text}")
    return x_rows


def max_vectors(form: str, element: Type, *, on_cores: bool) -> int:
    """Return the number of rows up to which vectors are faster than dequantised weights."""
    block_type = QUANTISED_TYPES[form]
    times = block_type.vector_times
    if on_cores and block_type.core_vector_times is not None:
        times = block_type.core_vector_times
    narrow = element in HALVES
    dequantised_time, time_per_row = (
        _DEQUANTISED_TIMES[not narrow],
        times.narrow if narrow else times.wide,
    )
    return 1 + int((_MAX_TIME_FRACTION * dequantised_time - times.first) / time_per_row)


def are_few(device: AnyDevice, x: Tensor, n: int, form: str, *, on_cores: bool) -> bool:
    """Return true if rows are multiplied one by one as vectors.

    That requires warpgroups. Several rows must also be few, and the n results of a row must take a
    multiple of 16 bytes, so that all rows of the result are aligned.
    """
    if not device.machine(device.lanes).has(Capability.WARPGROUPS):
        return False
    few = x.rows <= max_vectors(form, x.element, on_cores=on_cores)
    return x.rows == 1 or (few and n * x.element.bytes % WIDEST == 0)


def stored_bytes(
    device: AnyDevice, x: Tensor, shape: tuple[int, int], plan: Plan | None
) -> int:  # fmt: skip
    """Return the bytes that an exact product needs for dequantised weights; 0 if it is fused.

    GPUs with warpgroups multiply weights in memory up to four times as fast as weights that they
    dequantise on the way to shared memory. That holds for any number of rows, on tensor cores and
    with FMA units.
    """
    warpgroups = device.machine(device.lanes).has(Capability.WARPGROUPS)
    faster = DEQUANTISED if warpgroups else FUSED
    return math.prod(shape) * x.element.bytes if x.rows and (plan or faster) == DEQUANTISED else 0


def _rows_of(batch: Tensor) -> list[Any]:
    """Return the memory of each row of a batch."""
    memory, count = batch.memory, batch.rows
    if not isinstance(memory, Buffer):
        return list(memory.reshape(count, -1))
    row_bytes = memory.nbytes // count
    return [memory.slice(index * row_bytes, (index + 1) * row_bytes) for index in range(count)]


class Batch:
    """Activation rows X and their result Y, checked against a matrix of shape (rows, columns)."""

    def __init__(
        self,
        device: AnyDevice,
        x: AnyArray,
        y: AnyArray | None,
        shape: tuple[int, int],
        weights: Any,
    ) -> None:
        self._device, (self._n, self._depth) = device, shape
        self._x = rows(device, x, self._depth)
        result_shape = (*self._x.shape[:-1], self._n)
        self.y = allocate_shaped(device, x, self._x, result_shape) if y is None else y
        """The result: the caller's `y`, or new memory."""
        self._out_tensor: Tensor = tensor_of_shape(device, "y", self.y, self._x, result_shape)
        check_apart(self._out_tensor, self._x)
        if overlap(self._out_tensor.memory, weights):
            raise InputError("y is in memory that is read for it; take other memory")
        self.empty = not math.prod(result_shape)
        """True if there is nothing to compute."""
        self._weights = weights

    @property
    def element(self) -> Type:
        """The element type of X and Y."""
        return self._x.element

    def are_few(self, form: str, *, on_cores: bool) -> bool:
        """Return true if each row is multiplied as a vector; see the function `are_few`."""
        return are_few(self._device, self._x, self._n, form, on_cores=on_cores)

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return each row of X with its row of Y."""
        x_rows, y_rows = (_rows_of(operand) for operand in (self._x, self._out_tensor))
        return list(zip(x_rows, y_rows, strict=True))

    def recorded_plan(self, plan: Plan | None) -> Plan | None:
        """Return the plan for recordings, which dequantise only if `x` is in memory of the device.

        Raises DeviceError if `plan` is "dequantised" and `x` is elsewhere.
        """
        device_space, x = self._device.space, self._x.memory
        if self._device.host_memory or (isinstance(x, Buffer) and x.space is device_space):
            return plan
        if plan == DEQUANTISED:
            raise DeviceError(
                f"x is an array, and kernels read memory of {device_space.name}; upload it"
            )
        return FUSED

    def launches(
        self, form: str, activations: str, plan: Plan | None, workspace: Buffer | None
    ) -> tuple[tuple[Any, ...], ...]:
        """Return the launches of the product, to run in order with `device.launch`."""
        if activations != EXACT:
            return self._byte_launches(form)
        nbytes = stored_bytes(self._device, self._x, (self._n, self._depth), plan)
        weight_memory = self._weight_memory(plan, workspace, nbytes) if nbytes else None
        return (
            (self._fused_launch(form),)
            if weight_memory is None
            else self._dequantised_launches(form, weight_memory)
        )

    def _weight_memory(
        self, plan: Plan | None, workspace: Buffer | None, nbytes: int
    ) -> Buffer | None:
        """Return memory for the weights, or None if the device lacks it and `plan` is None."""
        if workspace is None:
            try:
                return self._device.allocate(nbytes, zero=False)
            except DeviceError:
                if plan is not None:
                    raise
                return None
        if workspace.nbytes < nbytes or workspace.address % WIDEST:
            raise InputError(
                f"workspace must have {nbytes} bytes at least, and begin at a multiple of {WIDEST}"
            )
        weight_memory = workspace.slice(0, nbytes)
        operands = {"x": self._x.memory, "y": self._out_tensor.memory, "the matrix": self._weights}
        for name, memory in operands.items():
            if overlap(weight_memory, memory):
                raise InputError(f"workspace is in the memory of {name}; take other memory")
        return weight_memory

    def _dequantised_launches(
        self, form: str, weight_memory: Buffer
    ) -> tuple[tuple[Any, ...], ...]:
        """Return the launches that dequantise weights to memory, then multiply as `gemm` does."""
        device, element, sizes = self._device, self._x.element, (self._x.rows, self._n, self._depth)
        block_type = QUANTISED_TYPES[form]
        nbytes = self._n * self._depth // block_type.elements * block_type.bytes
        operands, transposed = [self._x.memory, weight_memory], GemmForm(transpose_b=True)
        return (
            dequantise_launch(device, form, nbytes, self._weights, weight_memory, element),
            product_launch(device, element, operands, self._out_tensor.memory, sizes, transposed),
        )

    def _fused_launch(self, form: str) -> tuple[Any, ...]:
        """Return the launch that dequantises weights on the way to shared memory."""
        m, element = self._x.rows, self._x.element
        plan = plan_batch(self._device, element, form, (m, self._n, self._depth))
        kernel = self._device.compile(
            MULTIPLY_ROWS[element], lanes=plan.lanes, element=element, form=form, plan=plan
        )
        memory = self._x.memory, self._weights, self._out_tensor.memory
        return kernel, plan.groups(m, self._n), m, self._n, self._depth, *memory

    def _byte_launches(self, form: str) -> tuple[tuple[Any, ...], ...]:
        """Return the launches that quantise activations to bytes, then multiply."""
        device, m, element = self._device, self._x.rows, self._x.element
        block_count = m * self._depth // BYTES
        if block_count * BYTES > _MAX_U32:
            raise InputError(
                f"x has {block_count * BYTES} elements; as bytes at most {_MAX_U32} go"
            )
        quantised_buffers = [
            device.allocate(block_count * nbytes, zero=False) for nbytes in (BYTES, 4, 4)
        ]
        has_vector_lanes = device.machine(device.lanes).has(Capability.VECTOR_LANES)
        quantise = device.compile(
            QUANTISE_ROWS[element], lanes=LANES, element=element,
            vector=1 if has_vector_lanes else WIDEST // element.bytes,
        )  # fmt: skip
        multiply, groups = self._multiply_bytes(form)
        blocks_per_row = self._depth // QUANTISED_TYPES[form].elements
        return (
            (quantise, -(-block_count // LANES), block_count, self._x.memory, *quantised_buffers),
            (
                multiply, groups, m, self._n, blocks_per_row, self._weights, *quantised_buffers,
                self._out_tensor.memory,
            ),
        )  # fmt: skip

    def _multiply_bytes(self, form: str) -> tuple[Any, int]:
        """Return the kernel for activations in bytes, and its number of workgroups."""
        device, m, element = self._device, self._x.rows, self._x.element
        machine = device.machine(device.lanes)
        if machine.has(Capability.TENSOR_CORES) and m >= _MIN_CORE_ROWS:
            tile = _TILE if m > _SMALL_TILE[0] else _SMALL_TILE
            kernel = device.compile(
                MULTIPLY_BYTES_ON_CORES[element], lanes=CORE_LANES, form=form, tile=tile
            )
            return kernel, -(-m // tile[0]) * -(-self._n // tile[1])
        # CPU compilers are slow for vectors that gather bytes.
        has_vector_lanes = machine.has(Capability.VECTOR_LANES)
        at_once, batch = (
            (1, 1)
            if has_vector_lanes
            else (_ROWS_PER_WORKGROUP, min(_MAX_BATCH_ROWS, 1 << (m - 1).bit_length()))
        )
        kernel = device.compile(
            MULTIPLY_BYTES[element], lanes=LANES, form=form, at_once=at_once, batch=batch
        )
        return kernel, -(-self._n // at_once) * -(-m // batch)
