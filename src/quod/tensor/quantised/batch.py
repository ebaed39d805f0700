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
from quod.tensor.arrays import Given, Tensor, check_apart, of_shape, shaped, tensor
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

_DEQUANTISED = 31, 96
"""Microseconds of a product of few rows with dequantised weights, for 16 and 32 bits.

Measured as `VectorTimes` are.
"""
_SHARE = 0.9
"""The maximum time of products by vectors, as a fraction of `_DEQUANTISED`."""
_AT_ONCE, _BATCH = 2, 4
"""Rows of the matrix, and the maximum of activations, of a workgroup that multiplies bytes."""
_ROWS_OF_CORES = 16
"""Rows from which tensor cores multiply bytes: 15 take 31 us without them, 16 take 19 with."""
_TILE, _TILE_OF_FEW = (32, 32), (16, 32)
"""Rows of activations and of the matrix of a workgroup on tensor cores."""
_MOST = (1 << 32) - 1


def is_batch(x: object) -> bool:
    """Return true if `x` has more than one axis, or is an array of another library."""
    if isinstance(x, (np.ndarray, Buffer)):
        return isinstance(x.shape, (tuple, list)) and len(x.shape) > 1
    return hasattr(type(x), "shape")


def rows(device: AnyDevice, x: Given, depth: int) -> Tensor:
    """Return a tensor with rows of `depth` elements; InputError if it differs."""
    x_rows = tensor(device, "x", x)
    if x_rows.columns != depth:
        raise InputError(f"x must have rows of {depth} elements, not {x_rows.text}")
    return x_rows


def max_vectors(form: str, element: Type, *, on_cores: bool) -> int:
    """Return the maximum number of rows that are faster as vectors than dequantised."""
    row = QUANTISED_TYPES[form]
    times = row.vector_times
    if on_cores and row.core_vector_times is not None:
        times = row.core_vector_times
    narrow = element in HALVES
    dequantised, further = _DEQUANTISED[not narrow], times.narrow if narrow else times.wide
    return 1 + int((_SHARE * dequantised - times.first) / further)


def are_few(device: AnyDevice, x: Tensor, n: int, form: str, *, on_cores: bool) -> bool:
    """Return true if rows are multiplied one by one as vectors.

    That requires warpgroups, few rows, and rows of n results that begin at multiples of 16 bytes.
    """
    if not device.machine(device.lanes).has(Capability.WARPGROUPS):
        return False
    few = x.rows <= max_vectors(form, x.element, on_cores=on_cores)
    return x.rows == 1 or (few and n * x.element.bytes % WIDEST == 0)


def stored_bytes(
    device: AnyDevice, x: Tensor, shape: tuple[int, int], plan: Plan | None
) -> int:  # fmt: skip
    """Return the bytes of dequantised weights in memory for an exact product; 0 if it is fused.

    GPUs with warpgroups multiply weights in memory up to four times as fast as weights that they
    dequantise on the way, for any number of rows, on tensor cores and with FMA units.
    """
    warpgroups = device.machine(device.lanes).has(Capability.WARPGROUPS)
    faster = DEQUANTISED if warpgroups else FUSED
    return math.prod(shape) * x.element.bytes if x.rows and (plan or faster) == DEQUANTISED else 0


def _rows_of(batch: Tensor) -> list[Any]:
    memory, count = batch.memory, batch.rows
    if not isinstance(memory, Buffer):
        return list(memory.reshape(count, -1))
    size = memory.nbytes // count
    return [memory.slice(at * size, (at + 1) * size) for at in range(count)]


class Batch:
    """Activation rows X, checked against a matrix of shape (`rows`, `columns`), and memory of Y."""

    def __init__(
        self, device: AnyDevice, x: Given, y: Given | None, shape: tuple[int, int], weights: Any
    ) -> None:
        self._device, (self._n, self._depth) = device, shape
        self._x = rows(device, x, self._depth)
        wanted = (*self._x.shape[:-1], self._n)
        self.y = shaped(device, x, self._x, wanted) if y is None else y
        """The caller's result."""
        self._out_tensor: Tensor = of_shape(device, "y", self.y, self._x, wanted)
        check_apart(self._out_tensor, self._x)
        if overlap(self._out_tensor.memory, weights):
            raise InputError("y is in memory that is read for it; take other memory")
        self.empty = not math.prod(wanted)
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
        of_x, of_y = (_rows_of(each) for each in (self._x, self._out_tensor))
        return list(zip(of_x, of_y, strict=True))

    def recorded_plan(self, plan: Plan | None) -> Plan | None:
        """Return the plan for recordings, which dequantise only for rows whose address is known.

        Raises DeviceError if `plan` requires dequantised weights for other rows.
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
            return self._of_bytes(form)
        nbytes = stored_bytes(self._device, self._x, (self._n, self._depth), plan)
        room = self._room(plan, workspace, nbytes) if nbytes else None
        return (self._fused(form),) if room is None else self._dequantised(form, room)

    def _room(self, plan: Plan | None, workspace: Buffer | None, nbytes: int) -> Buffer | None:
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
        room = workspace.slice(0, nbytes)
        others = {"x": self._x.memory, "y": self._out_tensor.memory, "the matrix": self._weights}
        for name, memory in others.items():
            if overlap(room, memory):
                raise InputError(f"workspace is in the memory of {name}; take other memory")
        return room

    def _dequantised(self, form: str, room: Buffer) -> tuple[tuple[Any, ...], ...]:
        device, element, sizes = self._device, self._x.element, (self._x.rows, self._n, self._depth)
        row = QUANTISED_TYPES[form]
        nbytes = self._n * self._depth // row.elements * row.bytes
        operands, turned = [self._x.memory, room], GemmForm(transpose_b=True)
        return (
            dequantise_launch(device, form, nbytes, self._weights, room, element),
            product_launch(device, element, operands, self._out_tensor.memory, sizes, turned),
        )

    def _fused(self, form: str) -> tuple[Any, ...]:
        m, element = self._x.rows, self._x.element
        plan = plan_batch(self._device, element, form, (m, self._n, self._depth))
        kernel = self._device.compile(
            MULTIPLY_ROWS[element], lanes=plan.lanes, element=element, form=form, plan=plan
        )
        memory = self._x.memory, self._weights, self._out_tensor.memory
        return kernel, plan.groups(m, self._n), m, self._n, self._depth, *memory

    def _of_bytes(self, form: str) -> tuple[tuple[Any, ...], ...]:
        device, m, element = self._device, self._x.rows, self._x.element
        blocks = m * self._depth // BYTES
        if blocks * BYTES > _MOST:
            raise InputError(f"x has {blocks * BYTES} elements; as bytes at most {_MOST} go")
        kept = [device.allocate(blocks * nbytes, zero=False) for nbytes in (BYTES, 4, 4)]
        lanes = device.machine(device.lanes).has(Capability.VECTOR_LANES)
        quantise = device.compile(
            QUANTISE_ROWS[element], lanes=LANES, element=element,
            vector=1 if lanes else WIDEST // element.bytes,
        )  # fmt: skip
        multiply, groups = self._multiply_bytes(form)
        blocks_per_row = self._depth // QUANTISED_TYPES[form].elements
        return (
            (quantise, -(-blocks // LANES), blocks, self._x.memory, *kept),
            (
                multiply, groups, m, self._n, blocks_per_row, self._weights, *kept,
                self._out_tensor.memory,
            ),
        )  # fmt: skip

    def _multiply_bytes(self, form: str) -> tuple[Any, int]:
        """Return the kernel for rows of bytes, and its workgroups."""
        device, m, element = self._device, self._x.rows, self._x.element
        machine = device.machine(device.lanes)
        if machine.has(Capability.TENSOR_CORES) and m >= _ROWS_OF_CORES:
            tile = _TILE if m > _TILE_OF_FEW[0] else _TILE_OF_FEW
            kernel = device.compile(
                MULTIPLY_BYTES_ON_CORES[element], lanes=CORE_LANES, form=form, tile=tile
            )
            return kernel, -(-m // tile[0]) * -(-self._n // tile[1])
        # CPU compilers are slow for vectors that gather bytes.
        lanes = machine.has(Capability.VECTOR_LANES)
        at_once, batch = (1, 1) if lanes else (_AT_ONCE, min(_BATCH, 1 << (m - 1).bit_length()))
        kernel = device.compile(
            MULTIPLY_BYTES[element], lanes=LANES, form=form, at_once=at_once, batch=batch
        )
        return kernel, -(-self._n // at_once) * -(-m // batch)
