"""Plans of row kernels: instances of a row, elements of an access, accesses of a step.

The layout follows docs/design/tensor.md. Shapes are kernel arguments, so that few plans serve all
shapes: a kernel is compiled for a type and a plan, never for a shape.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.ir.types import Type
from quod.kernel.machine import Capability

WIDEST = 16
"""Bytes of the widest access."""

_FEWEST = 8
_AT_ONCE = 32
"""The maximum number of elements that an instance holds, unless a long row requires more."""
_MOST = (512, 64)
"""The maximum number of instances of a row and of elements of an instance, in registers."""
_MAX_OF_SHORT_KERNELS = (256, 16)
_KEPT = (20, 36)
"""Elements of an instance in registers, the others being in shared memory.

The first is for two workgroups of a multiprocessor, the second for one.
"""
_STEP = 4
"""Long rows have a multiple of so many accesses, so that few plans serve all lengths."""
VECTOR_LANES = 8
"""The vector lanes of a CPU workgroup, unless the device has more."""
_STEPS = 4
"""Accesses of a lane in each step of a loop over a row."""
_STEPS_OF_A_PROCESSOR = 64
"""Steps of a CPU workgroup through a tensor: 2048 elements, which hide the workgroup's overhead."""
_ROWS_OF_A_PROCESSOR = 16
"""Rows of a CPU workgroup whose rows are a few accesses long."""
_MANY_ROWS = 256
"""The number of rows, each in a workgroup, that keeps a GPU busy."""
_LONGEST = 1 << 17
"""The longest such row; an instance then adds at most 64 terms sequentially."""
_MAX_PARTS = 4096
"""The maximum number of partial sums of a tensor, which one workgroup adds."""
_IN_FLIGHT = 32
"""Elements that an instance of a GPU loads from all tensors together."""


@frozen
class RowPlan:
    """The instances, accesses and memory of a row.

    lanes: Instances of a workgroup.
    threads: Instances of a row.
    vector: Elements of an access.
    batch: Accesses of an instance in each step.
    whole: One step covers the row, which is read once; otherwise each pass loops over the row.
    copied: The number of last accesses of a whole row that stay in shared memory, not registers.
    resident: Workgroups that are to fit a multiprocessor; 0 leaves that to the assembler.
    full: The row has exactly `threads * batch` accesses, so that no access needs a bounds check.
    """

    lanes: int
    threads: int
    vector: int
    batch: int
    whole: bool
    copied: int = 0
    resident: int = 0
    full: bool = False

    def groups(self, rows: int) -> int:
        """Return the workgroups of a launch."""
        return -(-rows * self.threads // self.lanes)


def plan_rows(
    device: AnyDevice, element: Type, columns: int, tensors: int = 1, beside: int = 0
) -> RowPlan:
    """Return the plan for rows of `columns` elements.

    tensors: Tensors whose rows are processed together.
    beside: Vectors, such as weights, that all rows share.
    """
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        # Adjacent lanes read adjacent elements; rows stay in the cache.
        lanes = max(device.lanes, VECTOR_LANES)
        return RowPlan(lanes, lanes, 1, _STEPS, whole=False)
    vector = widest(element, columns)
    width = columns // vector
    short = machine.has(Capability.SHORT_KERNELS)
    max_threads, max_elements = _MAX_OF_SHORT_KERNELS if short else _MOST
    max_elements //= tensors
    elements = min(_AT_ONCE // tensors, max_elements)
    if tensors == 1 and vector * element.bytes == WIDEST and machine.has(Capability.ASYNC_COPIES):
        plan = _long(device, vector, width, max_threads, beside)
        if plan is not None:
            return plan
    threads = _FEWEST
    while threads < max_threads and threads * elements < columns:
        threads *= 2
    lanes = max(device.lanes, threads)
    batch = 1
    while batch * vector < max_elements and batch * threads < width:
        batch *= 2
    fits = batch * threads >= width
    if not fits:
        batch = max(1, elements // vector)
    return RowPlan(lanes, threads, vector, batch, fits)


def _long(device: AnyDevice, vector: int, width: int, threads: int, beside: int) -> RowPlan | None:
    """Return the plan for a row split between registers and shared memory.

    Returns None if the row fits the registers, or fits neither.
    """
    if width * vector <= threads * _AT_ONCE:
        return None
    most = device.machine(threads).shared_bytes_limit - 4 * threads  # sums of subgroups
    rooms = most // (threads * WIDEST)
    batch = -(-width // (threads * _STEP)) * _STEP
    plan = RowPlan(threads, threads, vector, batch, whole=True, full=batch * threads == width)
    if batch * vector > 2 * _AT_ONCE:
        copied, full = batch - _KEPT[1] // vector, plan.full and beside > 0
        return replace(plan, copied=copied, resident=1, full=full) if copied <= rooms else None
    if not beside:
        return None
    # Shared vectors are as long as rows, and are read after the reduction: more instances have more
    # loads in flight.
    most = 2 * threads
    if width % most == 0 and width * vector <= most * _AT_ONCE:
        return RowPlan(most, most, vector, width // most, whole=True, full=True)
    copied = batch - _KEPT[0] // vector
    return replace(plan, copied=copied, resident=2) if 2 * copied <= rooms else None


def widest(element: Type, columns: int, most: int = WIDEST) -> int:
    """Return the most elements of an access, in WIDEST bytes, that divide the row length."""
    vector = min(WIDEST // element.bytes, most)
    while columns % vector:
        vector //= 2
    return vector


def plan_sum(device: AnyDevice, element: Type, elements: int) -> tuple[RowPlan, int, int]:
    """Return the plan of a sum over a tensor, whose rows have a workgroup each.

    Also returns the accesses of each row but the last, and the number of rows.
    """
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        lanes, vector, batch, fewest = (
            max(device.lanes, VECTOR_LANES),
            1,
            _STEPS,
            _STEPS_OF_A_PROCESSOR,
        )
    else:
        lanes, vector, fewest = device.lanes, widest(element, elements), 1
        batch = _AT_ONCE // vector
    size, accesses = lanes * batch, elements // vector
    width = max(fewest, -(-accesses // (size * _MAX_PARTS))) * size
    return RowPlan(lanes, lanes, vector, batch, whole=False), width, -(-accesses // width)


def plan_parts(
    device: AnyDevice, element: Type, rows: int, columns: int
) -> tuple[RowPlan, int, int]:
    """Return the plan of a reduction to one number per row; long or few rows are split into parts.

    Also returns the accesses of a part, and the number of parts of a row.
    """
    processor = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    row_plan = plan_rows(
        device, element, columns, 2
    )  # not kept anywhere: each element is read once
    if processor or not (row_plan.whole or (rows >= _MANY_ROWS and columns <= _LONGEST)):
        plan, width, parts = plan_sum(device, element, columns)
        if parts > 1:
            return plan, width, parts
    return row_plan, columns // row_plan.vector, 1


@frozen
class FlatPlan:
    """The slice of a tensor that one instance of an elementwise kernel processes.

    lanes: Instances of a workgroup; adjacent instances have adjacent accesses.
    vector: Elements of an access.
    batch: Accesses of an instance in each step.
    steps: Steps of a workgroup.
    """

    lanes: int
    vector: int
    batch: int
    steps: int

    def groups(self, elements: int) -> int:
        """Return the workgroups of a launch."""
        return -(-elements // (self.vector * self.lanes * self.batch * self.steps))


def plan_elements(device: AnyDevice, element: Type, elements: int, tensors: int) -> FlatPlan:
    """Return the plan for `elements` elements of several tensors; `element` is the widest type."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        return FlatPlan(max(device.lanes, VECTOR_LANES), 1, _STEPS, _STEPS_OF_A_PROCESSOR)
    vector = widest(element, elements)
    return FlatPlan(device.lanes, vector, max(1, _IN_FLIGHT // (vector * tensors)), 1)


@frozen
class GroupPlan:
    """The instances and accesses of rows that are not reduced.

    lanes: Instances of a workgroup.
    threads: Instances of a row.
    vector: Elements of an access.
    rows: Rows that an instance processes sequentially.
    """

    lanes: int
    threads: int
    vector: int
    rows: int

    def groups(self, rows: int) -> int:
        """Return the workgroups of a launch."""
        return -(-rows // (self.lanes // self.threads * self.rows))


def plan_groups(device: AnyDevice, vector: int, columns: int) -> GroupPlan:
    """Return the plan for rows of `columns` elements, `vector` to an access on a GPU."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        lanes = max(device.lanes, VECTOR_LANES)
        return GroupPlan(lanes, lanes, 1, _ROWS_OF_A_PROCESSOR)
    threads = 1
    while threads < device.lanes and threads * vector < columns:
        threads *= 2
    return GroupPlan(device.lanes, threads, vector, 1)
