"""How rows are shared out: instances a row, elements an access, accesses at a time.

The layout follows docs/design/tensor.md. Shapes are arguments of kernels, so that few plans serve
all of them: a kernel is compiled for a type and a plan, never for a shape.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen
from quod.kernel.machine import Capability
from quod.kernel.types import Type

WIDEST = 16
"""Bytes of the widest access."""

_FEWEST = 8
_AT_ONCE = 32
"""Elements that an instance holds at most, where shorter rows leave the choice."""
_MOST = (512, 64)
"""Instances a row, and elements an instance, of rows that are kept in registers."""
_MOST_OF_SHORT_KERNELS = (256, 16)
_LANES = 8
"""Lanes of a vector where the device would take one."""
_STEPS = 4
"""Accesses of a lane in each step of a loop over a row."""
_STEPS_OF_A_PROCESSOR = 64
"""Steps of a workgroup through a tensor: 2048 elements, which hide what a workgroup costs."""
_IN_FLIGHT = 32
"""Elements that an instance of a GPU has of all tensors together."""


@frozen
class RowPlan:
    """`threads` instances have a row, of `lanes` in a workgroup; each accesses `vector` elements
    together, `batch` times in each step. With `whole` one step is a row, which stays in registers:
    it is read once. Else a pass over the row is a loop, and each pass reads it again."""

    lanes: int
    threads: int
    vector: int
    batch: int
    whole: bool

    def groups(self, rows: int) -> int:
        """Workgroups of a launch."""
        return -(-rows * self.threads // self.lanes)


def plan_rows(device: AnyDevice, element: Type, columns: int) -> RowPlan:
    """The plan for rows of so many elements on a device."""
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        # Lanes beside each other read what is beside each other; rows stay in the cache.
        lanes = max(device.lanes, _LANES)
        return RowPlan(lanes, lanes, 1, _STEPS, whole=False)
    vector = _widest(element, columns)
    width = columns // vector
    short = machine.has(Capability.SHORT_KERNELS)
    most_threads, most_elements = _MOST_OF_SHORT_KERNELS if short else _MOST
    elements = min(_AT_ONCE, most_elements)
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


def _widest(element: Type, columns: int) -> int:
    """Elements of an access: rows begin at a multiple of it if their length is one."""
    vector = WIDEST // element.bytes
    while columns % vector:
        vector //= 2
    return vector


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


def plan_elements(device: AnyDevice, widest: Type, elements: int, tensors: int) -> FlatPlan:
    """The plan for so many elements of several tensors, the widest of which are of a type."""
    if device.machine(device.lanes).has(Capability.VECTOR_LANES):
        return FlatPlan(max(device.lanes, _LANES), 1, _STEPS, _STEPS_OF_A_PROCESSOR)
    vector = _widest(widest, elements)
    return FlatPlan(device.lanes, vector, max(1, _IN_FLIGHT // (vector * tensors)), 1)
