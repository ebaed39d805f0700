"""Plans of decode kernels: the rows of a workgroup, and the number of parts of the keys.

Memory traffic for keys and values limits the speed. So up to eight queries that share a key head
are rows of one workgroup, which loads each key only once.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.machine import Capability
from quod.tensor.rows.plan import VECTOR_LANES, widest

CORE_KEYS = 16
"""Keys that a subgroup multiplies at a time on tensor cores."""
STAGES = 2
"""The number of steps whose keys and values shared memory holds at a time."""
CORE_LINE = 64
"""Elements of a row that eight adjacent instances copy at a time for tensor cores."""
MAX_PARTS = 512
"""The maximum number of parts of the keys of a sequence."""
_MAX_ROWS = 8
"""The maximum number of rows of a workgroup; on tensor cores there may be twice as many."""
_CORE_VECTOR = 8
"""Elements of a 16-byte access, as tensor cores require."""
_MAX_SUMS = 64
"""The maximum number of sums over values that an instance keeps in registers."""
_LANES = 128
"""Instances of a GPU workgroup."""
_LANES_OF_SHORT_KERNELS = 64
"""Instances of a workgroup on devices that need short kernels."""
_RESIDENT = 2
"""Workgroups that a multiprocessor runs at a time."""
_WAVES = 4
"""The number of waves of workgroups beyond which keys are not split further."""
_SUFFICIENT_OCCUPANCY = 0.85
"""A sufficient fraction of the best occupancy, beyond which more parts cost more than they gain."""
_MIN_KEYS = 128
"""The minimum number of keys of a part; with fewer, partial results are much of the traffic."""


@frozen
class DecodePlan:
    """The instances, accesses and memory of a decode kernel.

    lanes: Instances of a workgroup.
    across: Adjacent instances that share a key.
    vector: Elements of an access.
    accesses: Accesses of an instance to a key.
    rows: Queries of a workgroup.
    batch: Keys that an instance processes at a time.
    full: A head has exactly `across * accesses * vector` elements.
    ahead: Keys and values are copied to shared memory one step ahead.
    cores: Tensor cores multiply, 16 keys per subgroup at a time.
    """

    lanes: int
    across: int
    vector: int
    accesses: int
    rows: int
    batch: int
    full: bool
    ahead: bool = False
    cores: bool = False

    @property
    def elements(self) -> int:
        """Elements of a row in one instance."""
        return self.accesses * self.vector

    @property
    def padded(self) -> int:
        """Elements of a row, padded to the instances that share a key."""
        return self.across * self.elements

    def shared_bytes(self, element: Type, subgroup: int = 32) -> int:
        """Return the bytes of shared memory of a GPU workgroup.

        These are keys and values if they are copied ahead, and the results of subgroups.
        """
        rows_ahead = 2 * STAGES * self.step(self.lanes) if self.ahead else 0
        results = -(-self.lanes // subgroup) * self.rows
        return rows_ahead * self.padded * element.bytes + 4 * results * (self.padded + 2)

    def step(self, lanes: int) -> int:
        """Return the number of keys that a workgroup of `lanes` instances processes at a time."""
        return lanes // 32 * CORE_KEYS if self.cores else lanes // self.across * self.batch


def plan_decode(device: AnyDevice, element: Type, size: int, rows: int) -> DecodePlan:
    """Return the plan for heads of `size` elements, where `rows` queries share a key head."""
    machine = device.machine(device.lanes)
    vector = widest(element, size)
    if vector == _CORE_VECTOR and element in HALVES:
        if machine.has(Capability.TENSOR_CORES) and machine.has(Capability.ASYNC_COPIES):
            plan = _on_cores(machine.shared_bytes_limit, element, size, rows)
            if plan is not None:
                return plan
    # Drivers that need short kernels compile unrolled steps slowly, so instances get fewer rows and
    # elements.
    needs_short_kernels = machine.has(Capability.SHORT_KERNELS)
    if machine.has(Capability.VECTOR_LANES):
        has_wide_registers = device.machine(VECTOR_LANES).has(Capability.IFMA52)
        lanes = across = batch = 2 * VECTOR_LANES if has_wide_registers else VECTOR_LANES
        vector = 1
    else:
        lanes = _LANES_OF_SHORT_KERNELS if needs_short_kernels else _LANES
        vector, across = widest(element, size, 4 if needs_short_kernels else 16), 1
        max_instances = min(machine.subgroup_size, lanes)
        while across < max_instances and across * vector < size:
            across *= 2
    accesses = -(-size // (across * vector))
    max_rows = min(
        rows, 2 if needs_short_kernels else _MAX_ROWS, max(1, _MAX_SUMS // (accesses * vector))
    )
    row_count = 1 << (max_rows.bit_length() - 1)
    if not machine.has(Capability.VECTOR_LANES):
        batch = 1 if needs_short_kernels else 4 if row_count * accesses * vector < _MAX_SUMS else 2
    full = accesses * across * vector == size
    plan = DecodePlan(lanes, across, vector, accesses, row_count, batch, full)
    if machine.has(Capability.VECTOR_LANES):
        return plan
    shared_limit, subgroup = machine.shared_bytes_limit, machine.subgroup_size
    while plan.shared_bytes(element, subgroup) > shared_limit:
        reduction = {"rows": plan.rows // 2} if plan.rows > 1 else {"lanes": plan.lanes // 2}
        plan = replace(plan, **reduction)
    # A copy has at least four bytes.
    if machine.has(Capability.ASYNC_COPIES) and vector * element.bytes >= 4:
        prefetching = replace(plan, ahead=True)
        return prefetching if prefetching.shared_bytes(element, subgroup) <= shared_limit else plan
    return plan


def _on_cores(shared_limit: int, element: Type, size: int, rows: int) -> DecodePlan | None:
    """Return the plan for tensor cores, or None if it does not fit shared memory."""
    accesses = -(-size // CORE_LINE)
    is_short = accesses <= 2
    for lanes in (_LANES, 64, 32) if is_short else (64, 32):
        plan = DecodePlan(
            lanes, CORE_LINE // _CORE_VECTOR, _CORE_VECTOR, accesses,
            2 * _MAX_ROWS if rows > _MAX_ROWS and is_short else _MAX_ROWS, 1,
            accesses * CORE_LINE == size,
            ahead=True, cores=True,
        )  # fmt: skip
        if plan.shared_bytes(element) <= shared_limit:
            return plan
    return None


def plan_parts(device: AnyDevice, plan: DecodePlan, groups: int, keys: int) -> int:
    """Return the number of parts of the keys, for `groups` tiles of rows.

    This is the smallest number of parts whose occupancy is close to the best possible.
    """
    on_cpu = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    slots = device.multiprocessors * (1 if on_cpu else _RESIDENT)
    max_parts = min(
        keys // max(_MIN_KEYS, plan.step(plan.lanes)), -(-_WAVES * slots // groups), MAX_PARTS
    )
    occupancies = [_occupancy(groups * parts, slots) for parts in range(1, max_parts + 1)]
    sufficient = _SUFFICIENT_OCCUPANCY * max(occupancies, default=0)
    return next(
        (index + 1 for index, occupancy in enumerate(occupancies) if occupancy >= sufficient), 1
    )


def _occupancy(groups: int, slots: int) -> float:
    """Return the fraction of workgroup slots in use, over all waves."""
    return groups / (-(-groups // slots) * slots)
