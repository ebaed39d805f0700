"""A matrix of quantised weights where a device computes."""

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
from quod.tensor.arrays import Given
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

_MOST = (1 << 32) - 1
_VECTOR = 16
"""Lanes of a processor: as many as f32 of its widest vectors, or two or four of narrower ones."""
_MOST_OF_A_VECTOR, _MOST_VALUES = 64, 1 << 12
"""On a processor, where all lanes are one vector of the compiler's."""
_LANES = 64
"""Instances of a workgroup where no subgroup of 32 can add up what they found."""
_ROWS = 2
"""Rows of an instance on a GPU, which share what is loaded of the vector."""
_SHORT_WIDTH = 16
"""Places that an instance takes at a time where drivers take long over large kernels."""


@frozen
class ProductLayout:
    """How a product is shared out: `lanes` instances a workgroup, of which each has `at_once` rows
    and takes `width` places of blocks at a time, a power of two up to 32. `together` parts of each
    subgroup of 32, a power of two up to 16, have rows of their own: 1 where a device has no such
    subgroups, or `lanes` are no whole number of them. InputError for other numbers.

    On a processor at most 64 lanes, and 4096 of lanes * width * at_once."""

    lanes: int
    width: int
    at_once: int
    together: int = 1

    def __post_init__(self) -> None:
        lanes = whole_number("lanes", self.lanes, 1, 1024)
        at_once = whole_number("at_once", self.at_once, 1, 16)
        width = whole_number("width", self.width, 1, 32)
        together = whole_number("together", self.together, 1, 16)
        self.__dict__.update(lanes=lanes, width=width, at_once=at_once, together=together)
        for name, number in (("width", width), ("together", together)):
            if number.bit_count() != 1:
                raise InputError(f"{name} must be a power of two, not {number}")

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return self.at_once * self.together


_WIDE = ProductLayout(256, 8, 2, 2)
"""For formats of 32 places in a group. Instances beside each other load what lies side by side of
the vector: with 32 places each it is eight lines an access, and these are the limit."""


def layout_for(device: AnyDevice, type_name: str) -> ProductLayout:
    """The layout that suits a device."""
    if in_host_memory(device):
        return ProductLayout(_VECTOR, 1, 1)
    machine = device.machine(device.lanes)
    alone = machine.has(Capability.SUBGROUPS) and machine.subgroup_size >= 32
    lanes = machine.subgroup_size if alone else _LANES
    width = QUANTISED_TYPES[type_name].decoder.width
    if machine.has(Capability.SHORT_KERNELS):
        return ProductLayout(lanes, min(width, _SHORT_WIDTH), _ROWS)
    if lanes == SUBGROUP and width == 2 * _SHORT_WIDTH:
        return _WIDE
    return ProductLayout(lanes, width, _ROWS)


class QuantisedMatrix:
    """Weights of shape (`rows`, `columns`) in blocks, in the memory of a device.

    On a processor that memory is the array itself, a mapped file say, which must not change.
    """

    def __init__(
        self, device: DeviceChoice, type_name: str, blocks: Bytes, *,
        layout: ProductLayout | None = None,
    ) -> None:  # fmt: skip
        """`blocks` is uint8 of shape (rows, bytes of a row), as `GgufTensor.array` gives it.

        `type_name` is one of `BLOCK_TYPES`; `layout` is chosen for the device if it is not given.
        Raises `InputError` for another type, for rows that are no whole blocks,
        for a matrix without values and for 2^32 values or more; `DeviceError` for want of memory.
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
        if max(self.rows * self.columns, self.nbytes) > _MOST:
            raise InputError(
                f"a matrix of shape ({self.rows}, {self.columns}) has 2^32 values or more, which "
                "kernels cannot count; split it by rows"
            )
        self._decoder = decoder
        self.layout = self._checked(layout)
        """How products by vectors are shared out."""
        self._data = self.device.upload(_aligned(array).reshape(-1))

    def _checked(self, layout: ProductLayout | None) -> ProductLayout | CoreLayout:
        if layout is None:
            cores = core_layout(self.device, self.type_name, self.rows, self._blocks_per_row)
            return cores or layout_for(self.device, self.type_name)
        if layout.width > self._decoder.width:
            raise InputError(
                f"layout.width must be at most {self._decoder.width} for {self.type_name}, not "
                f"{layout.width}"
            )
        machine = self.device.machine(layout.lanes)
        whole = machine.has(Capability.SUBGROUPS) and machine.subgroup_size == SUBGROUP
        if layout.together > 1 and (layout.lanes % SUBGROUP or not whole):
            raise InputError(
                f"layout.together must be 1 where {layout.lanes} lanes are no subgroups of "
                f"{SUBGROUP}, not {layout.together}"
            )
        values = layout.lanes * layout.width * layout.at_once
        large = layout.lanes > _MOST_OF_A_VECTOR or values > _MOST_VALUES
        if large and in_host_memory(self.device):
            raise InputError(
                f"layout must have at most {_MOST_OF_A_VECTOR} lanes on a processor, and lanes * "
                f"width * at_once at most {_MOST_VALUES}: others take minutes to compile"
            )
        return layout

    def multiply(
        self, x: Given, y: Given | None = None, *, activations: str = EXACT,
        plan: Plan | None = None, workspace: Buffer | None = None,
    ) -> Any:  # fmt: skip
        """The matrix by a vector of `columns` f32: a new array of `rows` f32, or `y`, filled. Of
        rows of shape (..., columns), with two axes or more, each by it: (..., rows), of their type.

        Rows are f32, f16 or bf16 and contiguous, as tensors are for `quod.tensor.gemm`. Vectors and
        rows of f32 are multiplied by the weights as they are, but vectors by Q4_K on tensor cores:
        of an element 2^-29 of the largest of 512 is dropped there at most. Where f16 or bf16 take
        tensor cores, or weights are dequantised, these are rounded to that type, to infinity beyond
        it. Sums are f32, in one order for each layout, so that equal calls give equal bits; a
        result is rounded once to its type.

        `plan` says where the weights of rows are taken apart: "fused" is on their way to shared
        memory, "dequantised" is once for all rows, into `workspace_bytes` of memory: `workspace`,
        or what is allocated for the call. If it is not given the faster is taken: "dequantised"
        where a GPU has warpgroups and memory for it, but for few rows, which are multiplied there
        as vectors are, one after the other (docs/quantised.md); else "fused".

        With `activations="int8"` they are quantised first, in blocks of 32 to signed bytes and a
        scale, and products are sums of integers, scaled in f32 in one order for all devices
        (docs/quantised.md). Raises `InputError` for another type or shape, and for `y` in memory
        that is read.
        """
        plan, room = self._checked_plan(x, activations, plan), self._workspace(workspace)
        if self._as_bytes(activations) or is_batch(x):
            batch = self._batch(x, y)
            if not batch.empty:
                launches = self._by_vectors(batch, activations, plan)
                launches = launches or batch.launches(self.type_name, activations, plan, room)
                for each in launches:
                    self.device.launch(*each)
            return batch.y
        given: Any = self._vector("x", x, self.columns)
        if not isinstance(given, Buffer):
            given = np.ascontiguousarray(given)
        target = np.zeros(self.rows, np.float32) if y is None else y
        self.device.launch(*self.launched(given, target))
        return target

    def launches(
        self, x: Any, y: Any, *, activations: str = EXACT, plan: Plan | None = None,
        workspace: Buffer | None = None,
    ) -> tuple[tuple[Any, ...], ...]:  # fmt: skip
        """What multiplies by `x` into `y`, for `device.launch` and for recordings, one after the
        other: each a tuple of a kernel, how many workgroups and the arguments, as they are passed:
        `recording.launch(*launch)`. None where there are no rows.

        Without a `workspace` each product has memory of its own, which lasts as long as what is
        recorded; products that follow each other may share one. More than few rows that are not in
        the device's memory are multiplied by fused weights. `InputError` as of `multiply`;
        `DeviceError` for such rows where `plan` says otherwise.
        """
        plan, room = self._checked_plan(x, activations, plan), self._workspace(workspace)
        if self._as_bytes(activations) or is_batch(x):
            batch = self._batch(x, y)
            if batch.empty:
                return ()
            launches = self._by_vectors(batch, activations, plan)
            plan = batch.recorded_plan(plan)
            return launches or batch.launches(self.type_name, activations, plan, room)
        return (self.launched(x, y),)

    def workspace_bytes(self, x: Given, *, plan: Plan | None = None) -> int:
        """Bytes that the weights are stored in for an exact product by `x`, a vector or rows as of
        `multiply`: 0 where it stores none."""
        plan = self._checked_plan(x, EXACT, plan)
        if not is_batch(x):
            self._vector("x", x, self.columns)
            return 0
        given = rows(self.device, x, self.columns)
        if plan is None and are_few(
            self.device, given, self.rows, self.type_name, on_cores=self._on_cores
        ):
            return 0
        return stored_bytes(self.device, given, (self.rows, self.columns), plan)

    def launched(self, x: Any, y: Any) -> tuple[Any, ...]:
        """What multiplies by a vector into `y`, as it is: the only one of `launches`."""
        x, y = self._vector("x", x, self.columns), self._vector("y", y, self.rows)
        for name, each in (("x", x), ("y", y)):
            # A copy would have nothing of what a recording is given later.
            if not isinstance(each, Buffer) and not each.flags.c_contiguous:
                raise InputError(f"{name} has strides {each.strides}; take a contiguous copy of it")
        self._apart("y", y, x)
        return self._of_vector(f32, x, y)

    def _of_vector(self, element: Type, x: Any, y: Any) -> tuple[Any, ...]:
        own = self.layout
        if isinstance(own, CoreLayout):
            groups = workgroups(self.device, own, self.rows)
            kernel = self.device.compile(MULTIPLY_ON_CORES[element], lanes=own.lanes, layout=own)
        else:
            groups = -(-self.rows // own.rows)
            kernel = self.device.compile(
                MULTIPLY_BLOCKS[element], lanes=own.lanes, form=self.type_name, width=own.width,
                at_once=own.at_once, together=own.together,
            )  # fmt: skip
        return kernel, groups, self.rows, self._blocks_per_row, self._data, x, y

    def _by_vectors(
        self, batch: Batch, activations: str, plan: Plan | None
    ) -> tuple[tuple[Any, ...], ...]:
        """A launch for each of a few rows, where that is the fastest; else none."""
        if (
            activations != EXACT
            or plan
            or not batch.are_few(self.type_name, on_cores=self._on_cores)
        ):
            return ()
        return tuple(self._of_vector(batch.element, x, y) for x, y in batch.pairs())

    @property
    def _on_cores(self) -> bool:
        return isinstance(self.layout, CoreLayout)

    def _as_bytes(self, activations: str) -> bool:
        chosen = choice("activations", activations, (EXACT, INT8))
        if chosen == INT8 and QUANTISED_TYPES[self.type_name].packed is None:
            raise InputError(
                f"activations of {self.type_name} are exact: its values are no integers, which "
                "bytes could be multiplied by"
            )
        return chosen == INT8

    @staticmethod
    def _checked_plan(x: Given, activations: str, plan: Plan | None) -> Plan | None:
        if plan is None:
            return None
        choice("plan", plan, (FUSED, DEQUANTISED))
        if activations != EXACT or not is_batch(x):
            raise InputError("plan is for rows with exact activations; leave it out for others")
        return plan

    def _workspace(self, workspace: Buffer | None) -> Buffer | None:
        if workspace is None:
            return None
        found = instance("workspace", workspace, Buffer, "allocate one, or leave it out")
        if found.space is not self.device.space:
            raise DeviceError(
                f"workspace is memory of {found.space.name}, and kernels reach that of "
                f"{self.device.space.name}"
            )
        if not found.writeable:
            raise DeviceError("workspace is read-only, and weights are stored to it")
        return found

    def _batch(self, x: Given, y: Given | None) -> Batch:
        return Batch(self.device, x, y, (self.rows, self.columns), self._data)

    @overload
    def dequantise(self) -> Floats: ...
    @overload
    def dequantise(self, out: Buffer) -> Buffer: ...
    def dequantise(self, out: Buffer | None = None) -> Floats | Buffer:
        """The values, to the bit those of the function `dequantise`: a new f32 array of shape
        (rows, columns), or `out`, a buffer of as many f32, filled.

        Through WebGPU they are as finite scales make them: of others nothing is said there.
        """
        values = np.empty((self.rows, self.columns) if out is None else 0, np.float32)
        if out is not None:
            self._apart("out", self._vector("out", out, self.rows * self.columns))
        target = values.reshape(-1) if out is None else out
        self.device.launch(
            *dequantise_launch(self.device, self.type_name, self.nbytes, self._data, target)
        )
        return values if out is None else out

    def __repr__(self) -> str:
        return f"<{self.type_name} matrix of {self.rows} x {self.columns} on {self.device.name}>"

    def _apart(self, name: str, out: Any, *read: Any) -> None:
        """InputError where a result would be stored to what is read."""
        if any(overlap(out, each) for each in (self._data, *read)):
            raise InputError(f"{name} is in memory that is read for it; take other memory")

    @staticmethod
    def _vector(name: str, value: object, count: int) -> Any:
        if isinstance(value, Buffer):
            if value.nbytes != 4 * count or value.dtype not in (None, np.dtype(np.float32)):
                raise InputError(f"{name} must be a buffer of {count} f32, not {value!r}")
            return value
        if not isinstance(value, np.ndarray):
            raise InputError(f"{name} must be a NumPy array or a buffer, not {shown_kind(value)}")
        array = plain_array(name, value)
        if array.dtype != np.float32 or array.shape != (count,):
            rows = f"; rows of other types have two axes, as (1, {count})" if name == "x" else ""
            raise InputError(
                f"{name} must be float32 of shape ({count},), not {array.dtype} of {array.shape}"
                f"{rows}"
            )
        return array


def _aligned(array: Bytes) -> Bytes:
    """The array itself, or a copy that begins where 16 bytes can be loaded."""
    contiguous = np.ascontiguousarray(array)
    if contiguous.ctypes.data % 16 == 0:
        return contiguous
    room = np.empty(contiguous.size + 16, np.uint8)
    start = -room.ctypes.data % 16
    found = room[start : start + contiguous.size].reshape(contiguous.shape)
    found[:] = contiguous
    return found
