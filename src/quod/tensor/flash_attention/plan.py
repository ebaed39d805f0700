"""Plans of attention: rows of a workgroup, and tiles of lines that it streams.

In the forward pass rows are queries, and lines are keys and values; one backward kernel has rows of
queries as well, the other rows of keys. A plan rounds up the size of a head; the numbers of queries
and keys are kernel arguments.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.machine import Capability
from quod.tensor.rows.plan import VECTOR_LANES, WIDEST, widest

_TOGETHER = 4
"""The most elements of an access."""
_CHUNK = 32
"""Elements of a line that a GPU workgroup has in shared memory at a time."""
_MOST_SUMS = 64
"""The most sums over lines that an instance of a GPU keeps in registers."""
LARGEST_HEAD = 256


@frozen
class TilePlan:
    """A tile without tensor cores.

    lanes: Instances of a workgroup.
    across: Adjacent instances that share rows.
    rows: Rows of an instance.
    columns: Lines of an instance in a step.
    size: Elements of a row, rounded up.
    chunk: Elements of a row in shared memory at a time.
    panel: Elements of a row that are summed over lines at a time.
    vector: Elements of an access.
    held: Sums are in registers; otherwise in shared memory, which a CPU's cache holds.
    """

    lanes: int
    across: int
    rows: int
    columns: int
    size: int
    chunk: int
    panel: int
    vector: int
    held: bool

    @property
    def tile(self) -> tuple[int, int]:
        """The rows of a workgroup, and the lines of a step."""
        return self.lanes // self.across * self.rows, self.across * self.columns

    def shared_bytes(self, operands: int) -> int:
        """Return the shared memory of a GPU workgroup with rows of `operands` tensors."""
        rows, columns = self.tile
        line = self.chunk + _TOGETHER
        return 4 * (operands * self.size * rows + columns * (line + rows) + self.across * rows)


@frozen
class CoreTilePlan:
    """A tile on tensor cores.

    size: Elements of a head: 64 or 128.
    rows: Queries of a subgroup.
    subgroups: Subgroups of a workgroup.
    keys: Keys of a step.
    stages: Tiles of keys and values in shared memory; a power of two.
    kept: Queries stay in registers; otherwise each step loads them from shared memory.
    resident: Workgroups of a multiprocessor that the registers are limited for.
    exact: Heads have exactly `size` elements; otherwise at most so many.
    """

    size: int
    rows: int
    subgroups: int
    keys: int
    stages: int
    kept: bool
    resident: int = 1
    exact: bool = True

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 32 * self.subgroups

    @property
    def tile(self) -> tuple[int, int]:
        """The queries of a workgroup, and the keys of a step."""
        return self.rows * self.subgroups, self.keys

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for 16-bit queries, keys and values."""
        rows, keys = self.tile
        return 2 * self.size * (rows + 2 * self.stages * keys)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of shared memory in gradients, whose rows are those of two tensors."""
        rows, _ = self.tile
        return self.shared_bytes + 2 * self.size * rows


@frozen
class WarpgroupPlan:
    """A tile of warpgroup products, with 64 queries to a warpgroup.

    size: Elements of a head: 64 or 128.
    warpgroups: Warpgroups of a workgroup.
    keys: Keys of a step; shared memory has two tiles of keys and of values.
    """

    size: int
    warpgroups: int
    keys: int

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 128 * self.warpgroups

    @property
    def tile(self) -> tuple[int, int]:
        """The queries of a workgroup, and the keys of a step."""
        return 64 * self.warpgroups, self.keys

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for 16-bit queries, keys and values."""
        rows, keys = self.tile
        return 2 * self.size * (rows + 4 * keys)


@frozen
class RolePlan(WarpgroupPlan):
    """A warp-specialised tile: one more warpgroup, which only copies.

    registers: Registers of an instance that copies, and of one that multiplies.
    turns: The two multiplying warpgroups follow a ping-pong schedule.
    """

    registers: tuple[int, int] = (40, 232)
    turns: bool = True

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 128 * (self.warpgroups + 1)


@frozen
class WarpgroupGradientPlan:
    """A tile of the gradients by warpgroups, with 64 rows of two tensors to a warpgroup.

    size: Elements of a head: 64 or 128.
    warpgroups: Warpgroups of a workgroup.
    lines: Lines of two other tensors in a step; a power of two.
    stages: Tiles of lines in shared memory; a power of two.
    """

    size: int
    warpgroups: int
    lines: int
    stages: int

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 128 * self.warpgroups

    @property
    def tile(self) -> tuple[int, int]:
        """The rows of a workgroup, and the lines of a step."""
        return 64 * self.warpgroups, self.lines

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for 16-bit rows and lines, and the numbers of streamed queries."""
        rows, lines = self.tile
        return 4 * self.size * (rows + self.stages * lines) + 16 * lines


WARPGROUP_GRADIENT_PLANS = {
    64: WarpgroupGradientPlan(64, 2, 64, 4), 128: WarpgroupGradientPlan(128, 2, 64, 4),
}  # fmt: skip
"""Plans of the gradients by warpgroups, by head size."""

CAUSAL_QUERY_PLANS = {128: WarpgroupGradientPlan(128, 2, 128, 2)}
"""Plans of the gradient of causal queries, where they are faster than WARPGROUP_GRADIENT_PLANS.

They have half as many steps, of which the last ones are masked.
"""

WARPGROUP_PLANS = {64: WarpgroupPlan(64, 2, 128), 128: WarpgroupPlan(128, 2, 96)}
"""Plans of warpgroups by head size."""

CORE_PLANS = {
    64: (
        CoreTilePlan(64, 32, 4, 64, 2, kept=True, resident=2),
        CoreTilePlan(64, 16, 4, 64, 2, kept=True, resident=3),
    ),
    128: (
        CoreTilePlan(128, 32, 4, 32, 4, kept=False, resident=2),
        CoreTilePlan(128, 16, 4, 64, 2, kept=True, resident=2),
    ),
}
"""Plans of tensor cores by head size, the largest tile first."""

GRADIENT_PLANS = {
    64: CoreTilePlan(64, 16, 4, 64, 2, kept=False, resident=2),
    128: CoreTilePlan(128, 16, 4, 32, 2, kept=False, resident=2),
}
"""Plans of the gradients on tensor cores, by head size, with rows and lines of two tensors each."""

_WIDE_VECTORS = (16, 3, 8)
"""Lanes, vectors of rows, and lines with 32 vector registers, of which 24 hold sums."""
_VECTORS = (8, 3, 4)
"""Lanes, vectors of rows, and lines with 16 vector registers, of which 12 hold sums."""

_TILES = ((128, 8, 4, 4), (128, 8, 2, 4), (128, 8, 1, 4), (128, 16, 1, 2))
"""`lanes`, `across`, `rows` and `columns` for GPUs with 48 KB of shared memory."""
_SMALL_TILES = ((64, 8, 2, 2), (64, 8, 1, 2), (64, 16, 1, 1))
"""`lanes`, `across`, `rows` and `columns` within the limits that WebGPU guarantees.

SwiftShader takes minutes, and gigabytes, to compile tiles twice as large.
"""


_KEPT = 16 << 20
"""Bytes of keys and values that fit the cache of a GPU with warpgroups, next to other data."""


def heads_together(keys: int, head: int, shared_by: int) -> int:
    """Return the heads of queries whose 16-bit keys and values fit the cache together."""
    return max(1, _KEPT // (4 * keys * head)) * shared_by


AnyAttentionPlan = TilePlan | CoreTilePlan | WarpgroupPlan


def plan_attention(
    device: AnyDevice,
    element: Type,
    queries: int,
    head: int,
    heads: int,
    *,
    uniform: bool = True,
) -> AnyAttentionPlan:
    """Return the plan of the forward pass.

    queries: Queries of a head.
    head: Elements of a head.
    heads: Heads of all sequences.
    uniform: Sequences have no lengths of their own, and have keys; without it, plans of warpgroups
        are excluded.
    """
    size = _on_cores(device, element, head)
    if size is None:
        return plan_tiles(device, element, head)
    machine = device.machine(device.lanes)
    room = machine.shared_bytes_limit
    warpgroup_plan = WARPGROUP_PLANS.get(head)
    if warpgroup_plan is not None and uniform and machine.has(Capability.WARPGROUPS):
        enough = 2 * -(-queries // warpgroup_plan.tile[0]) * heads >= device.multiprocessors
        if enough and warpgroup_plan.shared_bytes < room:
            return warpgroup_plan
    *large, small = CORE_PLANS[size]
    for plan in large if size == head else ():
        enough = -(-queries // plan.tile[0]) * heads >= device.multiprocessors
        if enough and plan.shared_bytes <= room:
            return plan
    if small.shared_bytes > room:
        return plan_tiles(device, element, head)
    return replace(small, exact=size == head)


def plan_gradients(
    device: AnyDevice, element: Type, head: int, sums: int, *, rows: int = 0, uniform: bool = False,
    causal: bool = False,
) -> TilePlan | CoreTilePlan | WarpgroupGradientPlan:  # fmt: skip
    """Return the plan of the gradients of queries (`sums` 1), or of keys and values (`sums` 2).

    head: Elements of a head.
    rows: Rows of queries, or of keys, of all heads together.
    uniform: Sequences have no lengths of their own, and have queries and keys; without it, plans of
        warpgroups are excluded.
    causal: Queries see no later keys.
    """
    size = _on_cores(device, element, head)
    if size is not None:
        warpgroup_plan = WARPGROUP_GRADIENT_PLANS.get(head)
        if causal and sums == 1:
            warpgroup_plan = CAUSAL_QUERY_PLANS.get(head, warpgroup_plan)
        machine = device.machine(device.lanes)
        if warpgroup_plan is not None and uniform and machine.has(Capability.WARPGROUPS):
            enough = 2 * rows >= warpgroup_plan.tile[0] * device.multiprocessors
            if enough and warpgroup_plan.shared_bytes < machine.shared_bytes_limit:
                return warpgroup_plan
        plan = GRADIENT_PLANS[size]
        if plan.gradient_bytes <= device.machine(device.lanes).shared_bytes_limit:
            return replace(plan, exact=size == head)
    return plan_tiles(device, element, head, operands=2, sums=sums)


def _on_cores(device: AnyDevice, element: Type, head: int) -> int | None:
    """Return the head size of tensor-core plans, or None if tensor cores do not apply."""
    cores = device.machine(device.lanes).has(Capability.TENSOR_CORES)
    if not cores or element not in HALVES or head * element.bytes % WIDEST:
        return None
    return next((size for size in sorted(CORE_PLANS) if size >= head), None)


def plan_tiles(
    device: AnyDevice, element: Type, head: int, *, operands: int = 1, sums: int = 1
) -> TilePlan:
    """Return the plan without tensor cores, for rows of `operands` tensors and `sums` over lines.

    Raises InputError if no tile fits the shared memory.
    """
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        wide = device.machine(VECTOR_LANES).has(Capability.IFMA52)
        lanes, rows, columns = _WIDE_VECTORS if wide else _VECTORS
        size = -(-head // lanes) * lanes
        return TilePlan(lanes, 1, rows, columns, size, size, columns, 1, held=False)
    vector = widest(element, head, _TOGETHER)
    short = machine.has(Capability.SHORT_KERNELS)
    size = -(-head // _CHUNK) * _CHUNK
    for lanes, across, rows, columns in _SMALL_TILES if short else (*_TILES, *_SMALL_TILES):
        access_width = min(vector, _CHUNK // across)
        plan = TilePlan(lanes, across, rows, columns, size, _CHUNK, _CHUNK, access_width, held=True)
        room = device.machine(lanes).shared_bytes_limit
        if sums * rows * size // across <= _MOST_SUMS and plan.shared_bytes(operands) <= room:
            return plan
    raise InputError(f"heads of {head} elements take more shared memory than {device.name} has")
