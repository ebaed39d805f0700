"""Plans of row kernels: instances per row, elements per access, accesses per step.

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

_MIN_THREADS = 8
"""The minimum number of instances per row."""
_ELEMENTS_PER_INSTANCE = 32
"""The maximum number of elements per instance, unless a long row requires more."""
_MAX_THREADS_AND_ELEMENTS = (512, 64)
"""The maximum number of instances per row, and of elements per instance in registers."""
_MAX_IN_SHORT_KERNELS = (256, 16)
"""Those maxima on devices whose kernels must be short (`Capability.SHORT_KERNELS`)."""
_REGISTER_ELEMENTS = (20, 36)
"""Elements of an instance in registers if the row's other elements are in shared memory.

The first is for two workgroups per multiprocessor, the second for one.
"""
_ACCESS_MULTIPLE = 4
"""Instances have a multiple of so many accesses of a long row; few plans serve all lengths."""
VECTOR_LANES = 8
"""The vector lanes of a CPU workgroup, unless the device has more."""
_CPU_BATCH = 4
"""Accesses per CPU lane in each step of a loop over a row."""
_CPU_STEPS = 64
"""Steps of a CPU workgroup through a tensor; 2048 elements hide the workgroup's overhead."""
_CPU_ROWS = 16
"""Rows per CPU workgroup in kernels that do not reduce rows."""
_MANY_ROWS = 256
"""The number of rows, each in a workgroup, that keeps a GPU busy."""
_MAX_UNSPLIT_COLUMNS = 1 << 17
"""The longest row, in elements, that one workgroup reduces when there are `_MANY_ROWS` rows."""
_MAX_PARTS = 4096
"""The maximum number of partial sums of a tensor, which one workgroup adds."""
_LOADED_ELEMENTS = 32
"""Elements that a GPU instance loads per step, over all tensors."""


@frozen
class RowPlan:
    """The instances, accesses and memory of a row.

    lanes: Instances of a workgroup.
    threads: Instances of a row.
    vector: Elements of an access.
    batch: Accesses of an instance in each step.
    single_step: True if one step covers the row, which is then read once; else passes loop over it.
    copied: How many of an instance's accesses, the last ones, stay in shared memory, not registers.
    resident: Workgroups that are to fit a multiprocessor; 0 leaves that to the assembler.
    full: The row has exactly `threads * batch` accesses, so that no access needs a bounds check.
    """

    lanes: int
    threads: int
    vector: int
    batch: int
    single_step: bool
    copied: int = 0
    resident: int = 0
    full: bool = False

    def groups(self, rows: int) -> int:
        """Return the workgroups of a launch."""
        return -(-rows * self.threads // self.lanes)


def plan_rows(
    device: AnyDevice, element: Type, columns: int, tensors: int = 1, shared_vector_count: int = 0
) -> RowPlan:
    """Return the plan for rows of `columns` elements.

    tensors: Number of tensors whose rows are processed together.
    shared_vector_count: Number of vectors, such as weights, that all rows share.
    """
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        # Adjacent lanes read adjacent elements; rows stay in the cache.
        lanes = max(device.lanes, VECTOR_LANES)
        return RowPlan(lanes, lanes, 1, _CPU_BATCH, single_step=False)
    vector = widest(element, columns)
    width = columns // vector
    has_short_kernels = machine.has(Capability.SHORT_KERNELS)
    max_threads, max_elements = (
        _MAX_IN_SHORT_KERNELS if has_short_kernels else _MAX_THREADS_AND_ELEMENTS
    )
    max_elements //= tensors
    elements = min(_ELEMENTS_PER_INSTANCE // tensors, max_elements)
    if tensors == 1 and vector * element.bytes == WIDEST and machine.has(Capability.ASYNC_COPIES):
        plan = _long_row_plan(device, vector, width, max_threads, shared_vector_count)
        if plan is not None:
            return plan
    threads = _MIN_THREADS
    while threads < max_threads and threads * elements < columns:
        threads *= 2
    lanes = max(device.lanes, threads)
    batch = 1
    while batch * vector < max_elements and batch * threads < width:
        batch *= 2
    fits_registers = batch * threads >= width
    if not fits_registers:
        batch = max(1, elements // vector)
    return RowPlan(lanes, threads, vector, batch, fits_registers)


def _long_row_plan(
    device: AnyDevice, vector: int, width: int, threads: int, shared_vector_count: int
) -> RowPlan | None:
    """Return the plan for a row split between registers and shared memory.

    Returns None if the row fits in registers alone, or does not fit in both together.
    """
    if width * vector <= threads * _ELEMENTS_PER_INSTANCE:
        return None
    shared_bytes = device.machine(threads).shared_bytes_limit - 4 * threads  # sums of subgroups
    copies_that_fit = shared_bytes // (threads * WIDEST)
    batch = -(-width // (threads * _ACCESS_MULTIPLE)) * _ACCESS_MULTIPLE
    plan = RowPlan(threads, threads, vector, batch, single_step=True, full=batch * threads == width)
    if batch * vector > 2 * _ELEMENTS_PER_INSTANCE:
        copied, full = (
            batch - _REGISTER_ELEMENTS[1] // vector,
            plan.full and shared_vector_count > 0,
        )
        return (
            replace(plan, copied=copied, resident=1, full=full)
            if copied <= copies_that_fit
            else None
        )
    if not shared_vector_count:
        return None
    # Shared vectors are as long as rows, and are read after the reduction: more instances have more
    # loads in flight.
    more_threads = 2 * threads
    if width % more_threads == 0 and width * vector <= more_threads * _ELEMENTS_PER_INSTANCE:
        return RowPlan(
            more_threads, more_threads, vector, width // more_threads, single_step=True, full=True
        )
    copied = batch - _REGISTER_ELEMENTS[0] // vector
    return replace(plan, copied=copied, resident=2) if 2 * copied <= copies_that_fit else None


def widest(element: Type, columns: int, most: int = WIDEST) -> int:
    """Return the elements of the widest access that divides a row.

    An access has at most WIDEST bytes and at most `most` elements.
    """
    vector = min(WIDEST // element.bytes, most)
    while columns % vector:
        vector //= 2
    return vector


def plan_sum(device: AnyDevice, element: Type, elements: int) -> tuple[RowPlan, int, int]:
    """Return the plan of a sum over a tensor that is cut into rows, one per workgroup.

    Also returns the accesses of each row but the last, and the number of rows.
    """
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        lanes, vector, batch, min_steps = (
            max(device.lanes, VECTOR_LANES),
            1,
            _CPU_BATCH,
            _CPU_STEPS,
        )
    else:
        lanes, vector, min_steps = device.lanes, widest(element, elements), 1
        batch = _ELEMENTS_PER_INSTANCE // vector
    step_accesses, accesses = lanes * batch, elements // vector
    width = max(min_steps, -(-accesses // (step_accesses * _MAX_PARTS))) * step_accesses
    return RowPlan(lanes, lanes, vector, batch, single_step=False), width, -(-accesses // width)


def plan_parts(
    device: AnyDevice, element: Type, rows: int, columns: int
) -> tuple[RowPlan, int, int]:
    """Return the plan of a reduction to one number per row; long or few rows are split into parts.

    Also returns the accesses of a part, and the number of parts of a row.
    """
    on_host = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    row_plan = plan_rows(
        device, element, columns, 2
    )  # As for two tensors: a reduction reads each element once and keeps none.
    if on_host or not (
        row_plan.single_step or (rows >= _MANY_ROWS and columns <= _MAX_UNSPLIT_COLUMNS)
    ):
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
        return FlatPlan(max(device.lanes, VECTOR_LANES), 1, _CPU_BATCH, _CPU_STEPS)
    vector = widest(element, elements)
    return FlatPlan(device.lanes, vector, max(1, _LOADED_ELEMENTS // (vector * tensors)), 1)


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
    """Return the plan for rows of `columns` elements; on a GPU an access has `vector` elements."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        lanes = max(device.lanes, VECTOR_LANES)
        return GroupPlan(lanes, lanes, 1, _CPU_ROWS)
    threads = 1
    while threads < device.lanes and threads * vector < columns:
        threads *= 2
    return GroupPlan(device.lanes, threads, vector, 1)
