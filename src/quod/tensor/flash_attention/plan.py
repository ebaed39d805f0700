"""Tile sizes of attention kernels, and the choice between them.

A workgroup owns a tile of *rows* and streams tiles of *lines* past it. In the forward pass rows are
queries, and lines are keys and values. One backward kernel has rows of queries as well; the other
has rows of keys and values, and lines of queries. A plan fixes the size of a head, rounded up; the
numbers of queries and keys are kernel arguments.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.machine import Capability
from quod.tensor.rows.plan import VECTOR_LANES, WIDEST, widest

_MAX_VECTOR = 4
"""The maximum number of elements of an access."""
_CHUNK = 32
"""Elements of a line that a GPU workgroup has in shared memory at a time."""
_MAX_SUMS = 64
"""The maximum number of sums over lines that a GPU instance keeps in registers."""
LARGEST_HEAD = 256
"""The maximum number of elements of a head."""


@frozen
class TilePlan:
    """A tile without tensor cores.

    lanes: Instances of a workgroup.
    across: Adjacent instances that share rows.
    rows: Rows of an instance.
    columns: Lines of an instance in a step.
    size: Elements of a row, rounded up.
    chunk: Elements of a line in shared memory at a time.
    panel: Elements of a row that are summed over lines at a time.
    vector: Elements of an access.
    held: Sums are in registers; otherwise they are in shared memory, which is in a CPU's cache.
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
        line = self.chunk + _MAX_VECTOR
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
    resident: Workgroups that a multiprocessor can run at a time; this limits their registers.
    exact: Heads have exactly `size` elements; otherwise they may have fewer.
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
        """Bytes of shared memory of a backward kernel, which has rows of two tensors."""
        rows, _ = self.tile
        return self.shared_bytes + 2 * self.size * rows


@frozen
class WarpgroupPlan:
    """A tile of warpgroup products (wgmma), with 64 queries per multiplying warpgroup.

    size: Elements of a head: 64 or 128.
    warpgroups: Warpgroups that multiply; one more warpgroup copies.
    keys: Keys of a step; shared memory has two tiles of keys and of values.
    registers: Registers of a copying instance, and of a multiplying instance.
    """

    size: int
    warpgroups: int
    keys: int
    registers: tuple[int, int]

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 128 * (self.warpgroups + 1)

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
class WarpgroupGradientPlan:
    """A tile of a backward kernel on warpgroups, with 64 rows of two tensors per warpgroup.

    size: Elements of a head: 64 or 128.
    warpgroups: Warpgroups of a workgroup.
    lines: Lines of the two streamed tensors in a step; a power of two.
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
        """Bytes of shared memory for 16-bit rows and lines, and for two f32 per streamed query."""
        rows, lines = self.tile
        return 4 * self.size * (rows + self.stages * lines) + 16 * lines


WARPGROUP_GRADIENT_PLANS = {
    64: WarpgroupGradientPlan(64, 2, 64, 4), 128: WarpgroupGradientPlan(128, 2, 64, 4),
}  # fmt: skip
"""Plans of the backward kernels on warpgroups, by head size."""

CAUSAL_QUERY_PLANS = {128: WarpgroupGradientPlan(128, 2, 128, 2)}
"""Plans of the gradient of queries with a causal mask, by head size.

They have larger steps than WARPGROUP_GRADIENT_PLANS, and so half as many; only the last steps are
masked.
"""

WARPGROUP_PLANS = {
    64: WarpgroupPlan(64, 3, 128, (32, 160)), 128: WarpgroupPlan(128, 3, 80, (32, 160)),
}  # fmt: skip
"""Plans of the forward pass on warpgroups, by head size."""

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
"""Plans of the forward pass on tensor cores, by head size, the largest tile first."""

GRADIENT_PLANS = {
    64: CoreTilePlan(64, 16, 4, 64, 2, kept=False, resident=2),
    128: CoreTilePlan(128, 16, 4, 32, 2, kept=False, resident=2),
}
"""Plans of the backward kernels on tensor cores, by head size."""

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


_CACHE_BYTES = 16 << 20
"""Bytes of keys and values that fit the L2 cache of a GPU with warpgroups, next to other data."""


def heads_together(keys: int, head: int, shared_by: int) -> int:
    """Return the number of query heads whose 16-bit keys and values fit the cache together."""
    return max(1, _CACHE_BYTES // (4 * keys * head)) * shared_by


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

    queries: The number of queries of a head.
    head: The number of elements of a head.
    heads: The number of query heads of all sequences.
    uniform: There are no lengths per sequence, and there are keys; kernels on warpgroups require
        both.
    """
    size = _on_cores(device, element, head)
    if size is None:
        return plan_tiles(device, element, head)
    machine = device.machine(device.lanes)
    shared_limit = machine.shared_bytes_limit
    warpgroup_plan = WARPGROUP_PLANS.get(head)
    if warpgroup_plan is not None and uniform and machine.has(Capability.WARPGROUPS):
        # At least half of the multiprocessors get a tile.
        fills_device = 2 * -(-queries // warpgroup_plan.tile[0]) * heads >= device.multiprocessors
        if fills_device and warpgroup_plan.shared_bytes < shared_limit:
            return warpgroup_plan
    *large_plans, small_plan = CORE_PLANS[size]
    for plan in large_plans if size == head else ():
        fills_device = -(-queries // plan.tile[0]) * heads >= device.multiprocessors
        if fills_device and plan.shared_bytes <= shared_limit:
            return plan
    if small_plan.shared_bytes > shared_limit:
        return plan_tiles(device, element, head)
    return replace(small_plan, exact=size == head)


def plan_gradients(
    device: AnyDevice, element: Type, head: int, sums: int, *, rows: int = 0, uniform: bool = False,
    causal: bool = False,
) -> TilePlan | CoreTilePlan | WarpgroupGradientPlan:  # fmt: skip
    """Return the plan of a backward kernel.

    head: The number of elements of a head.
    sums: The number of gradients that it computes: 1 for queries, 2 for keys and values.
    rows: The number of queries, or of keys, of all heads.
    uniform: There are no lengths per sequence, and there are queries and keys; kernels on
        warpgroups require both.
    causal: A query sees no later keys.
    """
    size = _on_cores(device, element, head)
    if size is not None:
        warpgroup_plan = WARPGROUP_GRADIENT_PLANS.get(head)
        if causal and sums == 1:
            warpgroup_plan = CAUSAL_QUERY_PLANS.get(head, warpgroup_plan)
        machine = device.machine(device.lanes)
        if warpgroup_plan is not None and uniform and machine.has(Capability.WARPGROUPS):
            fills_device = 2 * rows >= warpgroup_plan.tile[0] * device.multiprocessors
            if fills_device and warpgroup_plan.shared_bytes < machine.shared_bytes_limit:
                return warpgroup_plan
        plan = GRADIENT_PLANS[size]
        if plan.gradient_bytes <= device.machine(device.lanes).shared_bytes_limit:
            return replace(plan, exact=size == head)
    return plan_tiles(device, element, head, operands=2, sums=sums)


def _on_cores(device: AnyDevice, element: Type, head: int) -> int | None:
    """Return the smallest head size of a tensor-core plan for `head`, or None if there is none."""
    cores = device.machine(device.lanes).has(Capability.TENSOR_CORES)
    if not cores or element not in HALVES or head * element.bytes % WIDEST:
        return None
    return next((size for size in sorted(CORE_PLANS) if size >= head), None)


def plan_tiles(
    device: AnyDevice, element: Type, head: int, *, operands: int = 1, sums: int = 1
) -> TilePlan:
    """Return the plan without tensor cores.

    operands: The number of tensors whose rows a workgroup has in shared memory.
    sums: The number of results, each a sum over lines per element of a row.
    Raises InputError if no tile fits the shared memory.
    """
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        has_wide_registers = device.machine(VECTOR_LANES).has(Capability.IFMA52)
        lanes, rows, columns = _WIDE_VECTORS if has_wide_registers else _VECTORS
        size = -(-head // lanes) * lanes
        return TilePlan(lanes, 1, rows, columns, size, size, columns, 1, held=False)
    vector = widest(element, head, _MAX_VECTOR)
    needs_short_kernels = machine.has(Capability.SHORT_KERNELS)
    size = -(-head // _CHUNK) * _CHUNK
    for lanes, across, rows, columns in (
        _SMALL_TILES if needs_short_kernels else (*_TILES, *_SMALL_TILES)
    ):
        access_width = min(vector, _CHUNK // across)
        plan = TilePlan(lanes, across, rows, columns, size, _CHUNK, _CHUNK, access_width, held=True)
        shared_limit = device.machine(lanes).shared_bytes_limit
        if (
            sums * rows * size // across <= _MAX_SUMS
            and plan.shared_bytes(operands) <= shared_limit
        ):
            return plan
    raise InputError(f"heads of {head} elements need more shared memory than {device.name} has")
