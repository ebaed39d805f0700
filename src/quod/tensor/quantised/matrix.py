"""A matrix of quantised weights in the memory of a device."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer, overlap
from quod.device.protocol import AnyDevice, in_host_memory
from quod.errors import DeviceError, InputError
from quod.frozen import frozen
from quod.kernel.ir.types import Type, f32
from quod.kernel.machine import Capability
from quod.tensor.arrays import AnyArray
from quod.tensor.quantised.batch import (
    DEQUANTISED,
    EXACT,
    FUSED,
    INT8,
    Batch,
    Plan,
    are_few,
    is_batch,
    rows,
    stored_bytes,
)
from quod.tensor.quantised.core_layout import CoreLayout, core_layout, workgroups
from quod.tensor.quantised.core_product import MULTIPLY_ON_CORES
from quod.tensor.quantised.dequantising import dequantise_launch
from quod.tensor.quantised.product import MULTIPLY_BLOCKS, SUBGROUP
from quod.tensor.quantised.types.numpy_blocks import Bytes, Floats
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from quod.validation import choice, instance, plain_array, shown_kind, whole_number

_MAX_U32 = (1 << 32) - 1
_VECTOR = 16
"""Lanes on a CPU: as many as f32 in the widest vectors (512 bits)."""
_MAX_LANES, _MAX_VALUES = 64, 1 << 12
"""The maximum of lanes, and of lanes * width * rows_per_instance, on a CPU.

All lanes of a workgroup form one vector there.
"""
_LANES = 64
"""Instances of a workgroup on devices without subgroups of 32."""
_ROWS = 2
"""Rows per instance on a GPU; the rows share the loaded elements of the vector."""
_SHORT_WIDTH = 16
"""Positions that an instance decodes at a time where drivers compile large kernels slowly."""


@frozen
class ProductLayout:
    """The rows and positions of a workgroup in a product by a vector.

    On a CPU there are at most 64 lanes, and lanes * width * rows_per_instance is at most 4096.
    Raises InputError for numbers out of range.

    lanes: Instances of a workgroup.
    width: Positions of a group that an instance decodes at a time; a power of two up to 32.
    rows_per_instance: Rows of an instance.
    row_groups: Number of parts of each subgroup of 32 that have different rows. A power of two up
        to 16; 1 if the device has no subgroups of 32 or `lanes` is not a multiple of 32.
    """

    lanes: int
    width: int
    rows_per_instance: int
    row_groups: int = 1

    def __post_init__(self) -> None:
        lanes = whole_number("lanes", self.lanes, 1, 1024)
        rows_per_instance = whole_number("rows_per_instance", self.rows_per_instance, 1, 16)
        width = whole_number("width", self.width, 1, 32)
        row_groups = whole_number("row_groups", self.row_groups, 1, 16)
        self.__dict__.update(
            lanes=lanes, width=width, rows_per_instance=rows_per_instance, row_groups=row_groups
        )
        for name, number in (("width", width), ("row_groups", row_groups)):
            if number.bit_count() != 1:
                raise InputError(f"{name} must be a power of two, not {number}")

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return self.rows_per_instance * self.row_groups


_WIDE = ProductLayout(256, 8, 2, 2)
"""For formats of 32 positions in a group, whose speed is limited by loads of the vector.

With 8 positions per instance, adjacent instances load adjacent parts of the vector. With 32
positions, an access of a subgroup would touch eight cache lines.
"""


def layout_for(device: AnyDevice, type_name: str) -> ProductLayout:
    """Return the default layout for a device."""
    if in_host_memory(device):
        return ProductLayout(_VECTOR, 1, 1)
    machine = device.machine(device.lanes)
    has_subgroups = machine.has(Capability.SUBGROUPS) and machine.subgroup_size >= 32
    lanes = machine.subgroup_size if has_subgroups else _LANES
    width = QUANTISED_TYPES[type_name].decoder.width
    if machine.has(Capability.SHORT_KERNELS):
        return ProductLayout(lanes, min(width, _SHORT_WIDTH), _ROWS)
    if lanes == SUBGROUP and width == 2 * _SHORT_WIDTH:
        return _WIDE
    return ProductLayout(lanes, width, _ROWS)


class QuantisedMatrix:
    """Weights of shape (`rows`, `columns`) in blocks, in the memory of a device.

    On a CPU that memory is the array itself, such as a mapped file, which must not change.
    """

    def __init__(
        self, device: DeviceChoice, type_name: str, blocks: Bytes, *,
        layout: ProductLayout | None = None,
    ) -> None:  # fmt: skip
        """Upload `blocks`, uint8 of shape (rows, bytes of a row), as `GgufTensor.array` returns it.

        `type_name` is one of `BLOCK_TYPES`; the default `layout` depends on the device. Raises
        `InputError` for another type, for rows that are not whole blocks, and for a matrix without
        values or with 2^32 values or more; `DeviceError` if memory is short.
        """
        self.device = resolve_device(device)
        self.type_name = choice("the type", type_name, tuple(QUANTISED_TYPES))
        decoder = QUANTISED_TYPES[self.type_name].decoder
        array = plain_array("blocks", blocks)
        if array.dtype != np.uint8 or array.ndim != 2:
            raise InputError(
                f"blocks must be uint8 of two dimensions, not {array.dtype} of {array.ndim}"
            )
        if not array.size or array.shape[1] % decoder.bytes:
            raise InputError(
                f"blocks of {self.type_name} must have rows of whole blocks of {decoder.bytes} "
                f"bytes, not the shape {array.shape}"
            )
        self.rows = array.shape[0]
        self._blocks_per_row = array.shape[1] // decoder.bytes
        self.columns = self._blocks_per_row * decoder.elements
        self.nbytes = array.size
        if max(self.rows * self.columns, self.nbytes) > _MAX_U32:
            raise InputError(
                f"a matrix of shape ({self.rows}, {self.columns}) has 2^32 values or more, which "
                "kernels cannot count; split it by rows"
            )
        self._decoder = decoder
        self.layout = self._checked_layout(layout)
        """The layout of products by vectors."""
        self._data = self.device.upload(_aligned(array).reshape(-1))

    def _checked_layout(self, layout: ProductLayout | None) -> ProductLayout | CoreLayout:
        """Return the layout, or the default for None; InputError if the device lacks support."""
        if layout is None:
            cores = core_layout(self.device, self.type_name, self.rows, self._blocks_per_row)
            return cores or layout_for(self.device, self.type_name)
        if layout.width > self._decoder.width:
            raise InputError(
                f"layout.width must be at most {self._decoder.width} for {self.type_name}, not "
                f"{layout.width}"
            )
        machine = self.device.machine(layout.lanes)
        has_subgroups = machine.has(Capability.SUBGROUPS) and machine.subgroup_size == SUBGROUP
        if layout.row_groups > 1 and (layout.lanes % SUBGROUP or not has_subgroups):
            raise InputError(
                f"layout.row_groups must be 1 where {layout.lanes} lanes are no subgroups of "
                f"{SUBGROUP}, not {layout.row_groups}"
            )
        values = layout.lanes * layout.width * layout.rows_per_instance
        large = layout.lanes > _MAX_LANES or values > _MAX_VALUES
        if large and in_host_memory(self.device):
            raise InputError(
                f"layout must have at most {_MAX_LANES} lanes on a processor, and lanes * "
                f"width * rows_per_instance at most {_MAX_VALUES}: others take minutes to compile"
            )
        return layout

    def multiply(
        self, x: AnyArray, y: AnyArray | None = None, *, activations: str = EXACT,
        plan: Plan | None = None, workspace: Buffer | None = None,
    ) -> Any:  # fmt: skip
        """Multiply the matrix by a vector, or by each row of a batch, into `y` or new memory.

        A vector has `columns` f32, and the result `rows` f32. Rows have the shape (..., columns),
        with two axes or more, and the result (..., rows), of their type: f32, f16 or bf16,
        contiguous as in `quod.tensor.gemm`. f32 is multiplied by the exact weights, except by Q4_K
        vectors on tensor cores, which drop at most 2^-29 of the largest of 512 elements. If f16 or
        bf16 use tensor cores, or weights are dequantised, weights are rounded to that type, to
        infinity beyond its range. Sums are f32, in one order for each layout, so that equal calls
        give equal bits; a result is rounded once to its type.

        `plan` says where the weights of a batch are dequantised: "fused" on their way to shared
        memory, "dequantised" once for all rows, into `workspace_bytes` of memory, which are
        `workspace` or allocated for the call. The default is the faster one: "dequantised" if a GPU
        has warpgroups and memory for it, except for few rows, which are multiplied there one by one
        as vectors (docs/quantised.md); otherwise "fused".

        With `activations="int8"`, activations are first quantised in blocks of 32 to signed bytes
        and a scale; products are integer sums, scaled in f32 in one order for all devices
        (docs/quantised.md). Raises `InputError` for another type or shape, and if `y` overlaps an
        argument.
        """
        plan, workspace_buffer = (
            self._checked_plan(x, activations, plan),
            self._workspace(workspace),
        )
        if self._uses_bytes(activations) or is_batch(x):
            batch = self._batch(x, y)
            if not batch.empty:
                launches = self._vector_launches(batch, activations, plan)
                launches = launches or batch.launches(
                    self.type_name, activations, plan, workspace_buffer
                )
                for launch in launches:
                    self.device.launch(*launch)
            return batch.y
        vector: Any = self._vector("x", x, self.columns)
        if not isinstance(vector, Buffer):
            vector = np.ascontiguousarray(vector)
        target = np.zeros(self.rows, np.float32) if y is None else y
        self.device.launch(*self.launched(vector, target))
        return target

    def launches(
        self, x: Any, y: Any, *, activations: str = EXACT, plan: Plan | None = None,
        workspace: Buffer | None = None,
    ) -> tuple[tuple[Any, ...], ...]:  # fmt: skip
        """Return the launches that multiply by `x` into `y`, in order.

        Each is a kernel, its workgroups and its arguments, for `device.launch(*launch)` or
        `recording.launch(*launch)`. A batch without rows has none. Without a `workspace` each
        product has its own memory, which lasts as long as the recording; consecutive products may
        share one. Batches that are not multiplied as vectors and not in device memory use fused
        weights. Raises `InputError` as `multiply` does; `DeviceError` for such batches if `plan` is
        "dequantised".
        """
        plan, workspace_buffer = (
            self._checked_plan(x, activations, plan),
            self._workspace(workspace),
        )
        if self._uses_bytes(activations) or is_batch(x):
            batch = self._batch(x, y)
            if batch.empty:
                return ()
            launches = self._vector_launches(batch, activations, plan)
            plan = batch.recorded_plan(plan)
            return launches or batch.launches(self.type_name, activations, plan, workspace_buffer)
        return (self.launched(x, y),)

    def workspace_bytes(self, x: AnyArray, *, plan: Plan | None = None) -> int:
        """Return the bytes of dequantised weights in an exact product by `x`; 0 if fused."""
        plan = self._checked_plan(x, EXACT, plan)
        if not is_batch(x):
            self._vector("x", x, self.columns)
            return 0
        x_rows = rows(self.device, x, self.columns)
        if plan is None and are_few(
            self.device, x_rows, self.rows, self.type_name, on_cores=self._on_cores
        ):
            return 0
        return stored_bytes(self.device, x_rows, (self.rows, self.columns), plan)

    def launched(self, x: Any, y: Any) -> tuple[Any, ...]:
        """Return the one launch that multiplies by a vector into `y`."""
        x, y = self._vector("x", x, self.columns), self._vector("y", y, self.rows)
        for name, array in (("x", x), ("y", y)):
            # A copy would miss later writes to the array of a recording.
            if not isinstance(array, Buffer) and not array.flags.c_contiguous:
                raise InputError(
                    f"{name} has strides {array.strides}; take a contiguous copy of it"
                )
        self._check_apart("y", y, x)
        return self._vector_launch(f32, x, y)

    def _vector_launch(self, element: Type, x: Any, y: Any) -> tuple[Any, ...]:
        """Return the launch that multiplies a vector of an element type into `y`."""
        layout = self.layout
        if isinstance(layout, CoreLayout):
            groups = workgroups(self.device, layout, self.rows)
            kernel = self.device.compile(
                MULTIPLY_ON_CORES[element], lanes=layout.lanes, layout=layout
            )
        else:
            groups = -(-self.rows // layout.rows)
            kernel = self.device.compile(
                MULTIPLY_BLOCKS[element], lanes=layout.lanes, form=self.type_name,
                width=layout.width, at_once=layout.rows_per_instance, together=layout.row_groups,
            )  # fmt: skip
        return kernel, groups, self.rows, self._blocks_per_row, self._data, x, y

    def _vector_launches(
        self, batch: Batch, activations: str, plan: Plan | None
    ) -> tuple[tuple[Any, ...], ...]:
        """Return one launch per row if there are few rows and that is fastest, else no launches."""
        if (
            activations != EXACT
            or plan
            or not batch.are_few(self.type_name, on_cores=self._on_cores)
        ):
            return ()
        return tuple(self._vector_launch(batch.element, x, y) for x, y in batch.pairs())

    @property
    def _on_cores(self) -> bool:
        return isinstance(self.layout, CoreLayout)

    def _uses_bytes(self, activations: str) -> bool:
        """Return true if activations are quantised; InputError if the type does not allow it."""
        chosen = choice("activations", activations, (EXACT, INT8))
        if chosen == INT8 and QUANTISED_TYPES[self.type_name].packed is None:
            raise InputError(
                f"activations of {self.type_name} are exact: its values are no integers, which "
                "bytes could be multiplied by"
            )
        return chosen == INT8

    @staticmethod
    def _checked_plan(x: AnyArray, activations: str, plan: Plan | None) -> Plan | None:
        """Return the plan; InputError for one that is unknown or does not apply."""
        if plan is None:
            return None
        choice("plan", plan, (FUSED, DEQUANTISED))
        if activations != EXACT or not is_batch(x):
            raise InputError("plan is for rows with exact activations; leave it out for others")
        return plan

    def _workspace(self, workspace: Buffer | None) -> Buffer | None:
        """Return the workspace; an error unless it is writable memory of the device."""
        if workspace is None:
            return None
        checked = instance("workspace", workspace, Buffer, "allocate one, or leave it out")
        if checked.space is not self.device.space:
            raise DeviceError(
                f"workspace is memory of {checked.space.name}, and kernels reach that of "
                f"{self.device.space.name}"
            )
        if not checked.writeable:
            raise DeviceError("workspace is read-only, and weights are stored to it")
        return checked

    def _batch(self, x: AnyArray, y: AnyArray | None) -> Batch:
        return Batch(self.device, x, y, (self.rows, self.columns), self._data)

    @overload
    def dequantise(self) -> Floats: ...
    @overload
    def dequantise(self, out: Buffer) -> Buffer: ...
    def dequantise(self, out: Buffer | None = None) -> Floats | Buffer:
        """Return the values as f32 of shape (rows, columns), or fill the buffer `out`.

        They equal those of the function `dequantise` bit for bit. Through WebGPU this holds only
        for finite scales.
        """
        values = np.empty((self.rows, self.columns) if out is None else 0, np.float32)
        if out is not None:
            self._check_apart("out", self._vector("out", out, self.rows * self.columns))
        target = values.reshape(-1) if out is None else out
        self.device.launch(
            *dequantise_launch(self.device, self.type_name, self.nbytes, self._data, target)
        )
        return values if out is None else out

    def __repr__(self) -> str:
        return f"<{self.type_name} matrix of {self.rows} x {self.columns} on {self.device.name}>"

    def _check_apart(self, name: str, out: Any, *read: Any) -> None:
        """Raise InputError if a result overlaps the weights or other memory that is read."""
        if any(overlap(out, memory) for memory in (self._data, *read)):
            raise InputError(f"{name} is in memory that is read for it; take other memory")

    @staticmethod
    def _vector(name: str, value: object, count: int) -> Any:
        """Return a vector of `count` f32 in an array or buffer; InputError for anything else."""
        if isinstance(value, Buffer):
            if value.nbytes != 4 * count or value.dtype not in (None, np.dtype(np.float32)):
                raise InputError(f"{name} must be a buffer of {count} f32, not {value!r}")
            return value
        if not isinstance(value, np.ndarray):
            raise InputError(f"{name} must be a NumPy array or a buffer, not {shown_kind(value)}")
        array = plain_array(name, value)
        if array.dtype != np.float32 or array.shape != (count,):
            hint = f"; rows of other types have two axes, as (1, {count})" if name == "x" else ""
            raise InputError(
                f"{name} must be float32 of shape ({count},), not {array.dtype} of {array.shape}"
                f"{hint}"
            )
        return array


def _aligned(array: Bytes) -> Bytes:
    """Return the array, or a copy that is aligned to 16 bytes."""
    contiguous = np.ascontiguousarray(array)
    if contiguous.ctypes.data % 16 == 0:
        return contiguous
    padded = np.empty(contiguous.size + 16, np.uint8)
    start = -padded.ctypes.data % 16
    aligned = padded[start : start + contiguous.size].reshape(contiguous.shape)
    aligned[:] = contiguous
    return aligned
