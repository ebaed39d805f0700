"""How rows are shared out: instances a row, elements an access, accesses at a time.

The layout follows docs/design/tensor.md. Shapes are arguments of kernels, so that few plans serve
all of them: a kernel is compiled for a type and a plan, never for a shape.
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
"""Elements that an instance holds at most, where shorter rows leave the choice."""
_MOST = (512, 64)
"""Instances a row, and elements an instance, of rows that are kept in registers."""
_MOST_OF_SHORT_KERNELS = (256, 16)
_KEPT = (20, 36)
"""Elements in registers, beside others in shared memory, where two workgroups are to fit a
multiprocessor, and where one is."""
_STEP = 4
"""The accesses of such a row are a multiple of it, so that few plans serve all lengths."""
VECTOR_LANES = 8
"""Lanes of a vector where the device would take one."""
_STEPS = 4
"""Accesses of a lane in each step of a loop over a row."""
_STEPS_OF_A_PROCESSOR = 64
"""Steps of a workgroup through a tensor: 2048 elements, which hide what a workgroup costs."""
_ROWS_OF_A_PROCESSOR = 16
"""Rows of a workgroup, where a few accesses are a row."""
_MANY_ROWS = 256
"""Rows of a workgroup each that keep a GPU busy,"""
_LONGEST = 1 << 17
"""and the longest, of which an instance adds up at most 64 terms one after the other."""
_MOST_PARTS = 4096
"""Parts of a sum over a tensor, which one workgroup adds up."""
_IN_FLIGHT = 32
"""Elements that an instance of a GPU has of all tensors together."""


@frozen
class RowPlan:
    """`threads` instances have a row, of `lanes` in a workgroup; each accesses `vector` elements
    together, `batch` times in each step. With `whole` one step is a row, which stays in registers:
    it is read once. The last `copied` accesses stay in shared memory instead, so that `resident`
    workgroups fit a multiprocessor; 0 leaves that to the assembler. The row is all of that if it is
    `full`, and ends before if not. Else a pass over the row is a
    loop, and each pass reads it again."""

    lanes: int
    threads: int
    vector: int
    batch: int
    whole: bool
    copied: int = 0
    resident: int = 0
    full: bool = False

    def groups(self, rows: int) -> int:
        """Workgroups of a launch."""
        return -(-rows * self.threads // self.lanes)


def plan_rows(
    device: AnyDevice, element: Type, columns: int, tensors: int = 1, beside: int = 0
) -> RowPlan:
    """The plan for rows of so many elements on a device, of several tensors at a time, with so many
    vectors beside all of them."""
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        # Lanes beside each other read what is beside each other; rows stay in the cache.
        lanes = max(device.lanes, VECTOR_LANES)
        return RowPlan(lanes, lanes, 1, _STEPS, whole=False)
    vector = widest(element, columns)
    width = columns // vector
    short = machine.has(Capability.SHORT_KERNELS)
    most_threads, most_elements = _MOST_OF_SHORT_KERNELS if short else _MOST
    most_elements //= tensors
    elements = min(_AT_ONCE // tensors, most_elements)
    if tensors == 1 and vector * element.bytes == WIDEST and machine.has(Capability.ASYNC_COPIES):
        plan = _long(device, vector, width, most_threads, beside)
        if plan is not None:
            return plan
    threads = _FEWEST
    while threads < most_threads and threads * elements < columns:
        threads *= 2
    lanes = max(device.lanes, threads)
    batch = 1
    while batch * vector < most_elements and batch * threads < width:
        batch *= 2
    whole = batch * threads >= width
    if not whole:
        batch = max(1, elements // vector)
    return RowPlan(lanes, threads, vector, batch, whole)


def _long(device: AnyDevice, vector: int, width: int, threads: int, beside: int) -> RowPlan | None:
    """The plan for a row of so many accesses in registers and shared memory; None for one that
    registers have room for, and for one that neither has."""
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
    # What is beside the rows is as long as they are, and comes after the reduction: more instances
    # ask for more of it at once.
    most = 2 * threads
    if width % most == 0 and width * vector <= most * _AT_ONCE:
        return RowPlan(most, most, vector, width // most, whole=True, full=True)
    copied = batch - _KEPT[0] // vector
    return replace(plan, copied=copied, resident=2) if 2 * copied <= rooms else None


def widest(element: Type, columns: int, most: int = WIDEST) -> int:
    """Elements of an access: rows begin at a multiple of it if their length is one."""
    vector = min(WIDEST // element.bytes, most)
    while columns % vector:
        vector //= 2
    return vector


def plan_sum(device: AnyDevice, element: Type, elements: int) -> tuple[RowPlan, int, int]:
    """The plan for a sum over so many elements, in rows of a workgroup each: the accesses of all
    rows but the last, and how many rows."""
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
    width = max(fewest, -(-accesses // (size * _MOST_PARTS))) * size
    return RowPlan(lanes, lanes, vector, batch, whole=False), width, -(-accesses // width)


def plan_parts(
    device: AnyDevice, element: Type, rows: int, columns: int
) -> tuple[RowPlan, int, int]:
    """The plan for what is one number of each row; the accesses of a part of a row, and how many
    parts there are: rows that are long, or few, are cut."""
    processor = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    whole = plan_rows(device, element, columns, 2)  # not kept anywhere: each element is read once
    if processor or not (whole.whole or (rows >= _MANY_ROWS and columns <= _LONGEST)):
        plan, width, parts = plan_sum(device, element, columns)
        if parts > 1:
            return plan, width, parts
    return whole, columns // whole.vector, 1


@frozen
class FlatPlan:
    """What an instance has of a tensor whose elements are all alike: `batch` accesses of `vector`
    elements, in each of `steps` steps; neighbours of the `lanes` in a workgroup are side by side.
    """

    lanes: int
    vector: int
    batch: int
    steps: int

    def groups(self, elements: int) -> int:
        """Workgroups of a launch."""
        return -(-elements // (self.vector * self.lanes * self.batch * self.steps))


def plan_elements(device: AnyDevice, element: Type, elements: int, tensors: int) -> FlatPlan:
    """The plan for so many elements of several tensors, the widest of which are of a type."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        return FlatPlan(max(device.lanes, VECTOR_LANES), 1, _STEPS, _STEPS_OF_A_PROCESSOR)
    vector = widest(element, elements)
    return FlatPlan(device.lanes, vector, max(1, _IN_FLIGHT // (vector * tensors)), 1)


@frozen
class GroupPlan:
    """`threads` instances have a row, of `lanes` in a workgroup, and `rows` one after the other;
    each has `vector` elements together."""

    lanes: int
    threads: int
    vector: int
    rows: int

    def groups(self, rows: int) -> int:
        """Workgroups of a launch."""
        return -(-rows // (self.lanes // self.threads * self.rows))


def plan_groups(device: AnyDevice, vector: int, columns: int) -> GroupPlan:
    """The plan for rows of so many elements, `vector` together where the device has accesses."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        lanes = max(device.lanes, VECTOR_LANES)
        return GroupPlan(lanes, lanes, 1, _ROWS_OF_A_PROCESSOR)
    threads = 1
    while threads < device.lanes and threads * vector < columns:
        threads *= 2
    return GroupPlan(device.lanes, threads, vector, 1)
