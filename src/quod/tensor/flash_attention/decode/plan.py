"""How attention of few queries is shared out: rows that read a key together, and parts of the keys.

What limits it are the bytes of keys and values. All queries that share a head of keys are rows of
one workgroup, up to eight, and a key goes from memory to the registers of a few instances once.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.machine import Capability
from quod.tensor.rows.plan import VECTOR_LANES, widest

CORE_KEYS = 16
"""Keys that a subgroup multiplies together on tensor cores."""
STAGES = 2
"""Steps whose keys and values are in shared memory."""
CORE_LINE = 64
"""Elements of a line that a subgroup of tensor cores reads together."""
MOST_PARTS = 512
"""Parts of the keys of a sequence."""
_ROWS = 8
_CORE_VECTOR = 8
_MOST_SUMS = 64
"""Sums over values that an instance has in registers."""
_LANES = 128
_LANES_OF_SHORT_KERNELS = 64
_RESIDENT = 2
"""Workgroups that a multiprocessor has at a time."""
_WAVES = 4
_ENOUGH = 0.85
"""Of the best share of multiprocessors that are busy: more parts cost more than they give."""
_LEAST_KEYS = 128
"""Keys of a part, below which its sums are much of what is moved."""


@frozen
class DecodePlan:
    """`across` instances beside each other have a key together, of `lanes` in a workgroup.

    Each reads `vector` elements together, `accesses` times a key, for all of `rows` queries, and
    `batch` keys at a time. A head is all of that if it is `full`, and ends before if not. On tensor
    `cores` a subgroup has 16 keys at a time, and this is how results are stored. Keys and values
    come `ahead` of their step to shared memory.
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
        """Elements of a row that an instance has."""
        return self.accesses * self.vector

    @property
    def padded(self) -> int:
        """Elements of a row that all instances of a key have."""
        return self.across * self.elements

    def shared_bytes(self, element: Type, subgroup: int = 32) -> int:
        """Shared memory of a GPU's workgroup: keys and values, and results of subgroups."""
        lines = 2 * STAGES * self.step(self.lanes) if self.ahead else 0
        results = -(-self.lanes // subgroup) * self.rows
        return lines * self.padded * element.bytes + 4 * results * (self.padded + 2)

    def step(self, lanes: int) -> int:
        """Keys that a workgroup of so many instances takes together."""
        return lanes // 32 * CORE_KEYS if self.cores else lanes // self.across * self.batch


def plan_decode(device: AnyDevice, element: Type, size: int, rows: int) -> DecodePlan:
    """The plan for heads of so many elements, of which so many queries share the keys."""
    machine = device.machine(device.lanes)
    vector = widest(element, size)
    if vector == _CORE_VECTOR and element in HALVES:
        if machine.has(Capability.TENSOR_CORES) and machine.has(Capability.ASYNC_COPIES):
            plan = _on_cores(machine.shared_bytes_limit, element, size, rows)
            if plan is not None:
                return plan
    short = machine.has(Capability.SHORT_KERNELS)
    if machine.has(Capability.VECTOR_LANES):
        wide = device.machine(VECTOR_LANES).has(Capability.IFMA52)
        lanes = across = batch = 2 * VECTOR_LANES if wide else VECTOR_LANES
        vector = 1
    else:
        lanes = _LANES_OF_SHORT_KERNELS if short else _LANES
        vector, across = widest(element, size, 4 if short else 16), 1
        most = min(machine.subgroup_size, lanes)
        while across < most and across * vector < size:
            across *= 2
    accesses = -(-size // (across * vector))
    most_rows = min(rows, 2 if short else _ROWS, max(1, _MOST_SUMS // (accesses * vector)))
    own = 1 << (most_rows.bit_length() - 1)
    if not machine.has(Capability.VECTOR_LANES):
        batch = 1 if short else 4 if own * accesses * vector < _MOST_SUMS else 2
    full = accesses * across * vector == size
    plan = DecodePlan(lanes, across, vector, accesses, own, batch, full)
    if machine.has(Capability.VECTOR_LANES):
        return plan
    room, subgroup = machine.shared_bytes_limit, machine.subgroup_size
    while plan.shared_bytes(element, subgroup) > room:
        less = {"rows": plan.rows // 2} if plan.rows > 1 else {"lanes": plan.lanes // 2}
        plan = replace(plan, **less)
    # A copy has four bytes at least.
    if machine.has(Capability.ASYNC_COPIES) and vector * element.bytes >= 4:
        ahead = replace(plan, ahead=True)
        return ahead if ahead.shared_bytes(element, subgroup) <= room else plan
    return plan


def _on_cores(room: int, element: Type, size: int, rows: int) -> DecodePlan | None:
    """The plan for tensor cores; None where shared memory has no room for it."""
    accesses = -(-size // CORE_LINE)
    short = accesses <= 2
    for lanes in (_LANES, 64, 32) if short else (64, 32):
        plan = DecodePlan(
            lanes, CORE_LINE // _CORE_VECTOR, _CORE_VECTOR, accesses,
            2 * _ROWS if rows > _ROWS and short else _ROWS, 1, accesses * CORE_LINE == size,
            ahead=True, cores=True,
        )  # fmt: skip
        if plan.shared_bytes(element) <= room:
            return plan
    return None


def plan_parts(device: AnyDevice, plan: DecodePlan, groups: int, keys: int) -> int:
    """Parts of the keys of each of so many groups of rows: as few as keep nearly as many
    multiprocessors busy as any number does."""
    on_processor = device.machine(device.lanes).has(Capability.VECTOR_LANES)
    slots = device.multiprocessors * (1 if on_processor else _RESIDENT)
    most = min(
        keys // max(_LEAST_KEYS, plan.step(plan.lanes)), -(-_WAVES * slots // groups), MOST_PARTS
    )
    busy = [_busy(groups * parts, slots) for parts in range(1, most + 1)]
    enough = _ENOUGH * max(busy, default=0)
    return next((at + 1 for at, share in enumerate(busy) if share >= enough), 1)


def _busy(groups: int, slots: int) -> float:
    """The share of the time in which slots have a workgroup."""
    return groups / (-(-groups // slots) * slots)
