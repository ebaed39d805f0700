"""How attention is shared out: rows that a workgroup has, and lines that pass by them.

The forward pass has rows of queries, and keys with their values pass by; of the gradients one has
rows of queries as well, the other rows of keys. The size of a head is rounded up in a plan; how
many queries and keys there are is an argument of kernels.
"""

from __future__ import annotations

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type
from quod.kernel.machine import Capability
from quod.tensor.rows.plan import VECTOR_LANES, WIDEST, widest

_TOGETHER = 4
"""Elements that an instance reads together at most."""
_CHUNK = 32
"""Elements of a line that a GPU's workgroup has in shared memory at a time."""
_MOST_SUMS = 64
"""Sums over lines that an instance of a GPU has in registers."""
LARGEST_HEAD = 256


@frozen
class TilePlan:
    """A workgroup of `lanes` instances, `across` of them beside each other, has a tile of rows.

    An instance has `rows` of them, and of the lines that pass by together `columns`. A row has
    `size` elements, of which `chunk` are in shared memory at a time, read `vector` together. Sums
    over lines are taken of `panel` elements of a row at a time; they are `held` in registers, else
    in shared memory, which is what a processor's cache keeps.
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
        """Rows of a workgroup, and lines that are taken together."""
        return self.lanes // self.across * self.rows, self.across * self.columns

    def shared_bytes(self, operands: int) -> int:
        """Shared memory of a GPU's workgroup whose rows are those of so many tensors."""
        rows, columns = self.tile
        line = self.chunk + _TOGETHER
        return 4 * (operands * self.size * rows + columns * (line + rows) + self.across * rows)


@frozen
class CoreTilePlan:
    """A workgroup of `subgroups` has a tile of queries on tensor cores, `rows` of each.

    Heads have `size` elements, 64 or 128, or up to so many if that is not `exact`. Tiles of `keys`
    and their values are in shared memory, `stages` times, a power of two; queries are `kept` in
    registers, or read from there for each tile. Registers are for so many `resident` workgroups a
    multiprocessor.
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
        """Queries of a workgroup, and keys that are taken together."""
        return self.rows * self.subgroups, self.keys

    @property
    def shared_bytes(self) -> int:
        """What queries, keys and values of 16 bits take."""
        rows, keys = self.tile
        return 2 * self.size * (rows + 2 * self.stages * keys)

    @property
    def gradient_bytes(self) -> int:
        """The same where rows are of two tensors, as in gradients."""
        rows, _ = self.tile
        return self.shared_bytes + 2 * self.size * rows


@frozen
class WarpgroupPlan:
    """Each four subgroups of a workgroup have 64 queries, `warpgroups` times, out of shared memory.

    Heads have `size` elements, 64 or 128. Tiles of `keys` and their values are there twice.
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
        """Queries of a workgroup, and keys that are taken together."""
        return 64 * self.warpgroups, self.keys

    @property
    def shared_bytes(self) -> int:
        """What queries, keys and values of 16 bits take."""
        rows, keys = self.tile
        return 2 * self.size * (rows + 4 * keys)


@frozen
class RolePlan(WarpgroupPlan):
    """The same with a warpgroup more, which only copies; the others, two, may take `turns`.

    `registers` are those of an instance that copies and of one that multiplies.
    """

    registers: tuple[int, int] = (40, 232)
    turns: bool = True

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 128 * (self.warpgroups + 1)


@frozen
class WarpgroupGradientPlan:
    """Each four subgroups of a workgroup have 64 rows, `warpgroups` times, of two tensors.

    Heads have `size` elements, 64 or 128. Tiles of `lines` of two other tensors are there `stages`
    times; both are powers of two.
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
        """Rows of a workgroup, and lines that are taken together."""
        return 64 * self.warpgroups, self.lines

    @property
    def shared_bytes(self) -> int:
        """What rows and lines of 16 bits take, with the numbers of queries that pass by."""
        rows, lines = self.tile
        return 4 * self.size * (rows + self.stages * lines) + 16 * lines


WARPGROUP_GRADIENT_PLANS = {
    64: WarpgroupGradientPlan(64, 2, 64, 4), 128: WarpgroupGradientPlan(128, 2, 64, 4),
}  # fmt: skip
"""Plans of the gradients by warpgroups, by the size of heads."""

CAUSAL_QUERY_PLANS = {128: WarpgroupGradientPlan(128, 2, 128, 2)}
"""Those of the gradient of queries that see no later keys, where others are faster: half as many
steps, of which the last ones are masked."""

WARPGROUP_PLANS = {64: WarpgroupPlan(64, 2, 128), 128: WarpgroupPlan(128, 2, 96)}
"""Plans of warpgroups by the size of heads."""

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
"""Plans of tensor cores by the size of heads, the largest tile first."""

GRADIENT_PLANS = {
    64: CoreTilePlan(64, 16, 4, 64, 2, kept=False, resident=2),
    128: CoreTilePlan(128, 16, 4, 32, 2, kept=False, resident=2),
}
"""Plans of the gradients, whose rows and lines are those of two tensors each."""

_WIDE_VECTORS = (16, 3, 8)
"""Lanes, vectors of rows, and lines: 24 of 32 vector registers are sums."""
_VECTORS = (8, 3, 4)
"""12 of 16 registers."""

_TILES = ((128, 8, 4, 4), (128, 8, 2, 4), (128, 8, 1, 4), (128, 16, 1, 2))
"""Lanes, those beside each other, rows and lines of each, on GPUs with 48 KB of shared memory."""
_SMALL_TILES = ((64, 8, 2, 2), (64, 8, 1, 2), (64, 16, 1, 1))
"""The same within what WebGPU promises. Of rows by lines twice as large SwiftShader takes minutes,
and gigabytes, to compile."""


_KEPT = 16 << 20
"""Bytes of keys and values that the cache of a GPU with warpgroups keeps beside all else."""


def heads_together(keys: int, head: int, shared_by: int) -> int:
    """Heads of queries whose keys and values, of 16 bits, a cache keeps."""
    return max(1, _KEPT // (4 * keys * head)) * shared_by


AnyAttentionPlan = TilePlan | CoreTilePlan | WarpgroupPlan


def plan_attention(
    device: AnyDevice, element: Type, queries: int, head: int, heads: int, *, whole: bool = True
) -> AnyAttentionPlan:
    """The plan for so many heads of so many queries, with keys that are `whole` sequences."""
    size = _on_cores(device, element, head)
    if size is None:
        return plan_tiles(device, element, head)
    machine = device.machine(device.lanes)
    room = machine.shared_bytes_limit
    found = WARPGROUP_PLANS.get(head)
    if found is not None and whole and machine.has(Capability.WARPGROUPS):
        enough = 2 * -(-queries // found.tile[0]) * heads >= device.multiprocessors
        if enough and found.shared_bytes < room:
            return found
    *large, small = CORE_PLANS[size]
    for plan in large if size == head else ():
        enough = -(-queries // plan.tile[0]) * heads >= device.multiprocessors
        if enough and plan.shared_bytes <= room:
            return plan
    if small.shared_bytes > room:
        return plan_tiles(device, element, head)
    return replace(small, exact=size == head)


def plan_gradients(
    device: AnyDevice, element: Type, head: int, sums: int, *, rows: int = 0, whole: bool = False,
    causal: bool = False,
) -> TilePlan | CoreTilePlan | WarpgroupGradientPlan:  # fmt: skip
    """The plan for gradients of which `sums` are summed together: 1 of queries, 2 of keys.

    Those of `whole` sequences, with queries and keys and `rows` of all heads together, may be had
    by warpgroups.
    """
    size = _on_cores(device, element, head)
    if size is not None:
        found = WARPGROUP_GRADIENT_PLANS.get(head)
        if causal and sums == 1:
            found = CAUSAL_QUERY_PLANS.get(head, found)
        machine = device.machine(device.lanes)
        if found is not None and whole and machine.has(Capability.WARPGROUPS):
            enough = 2 * rows >= found.tile[0] * device.multiprocessors
            if enough and found.shared_bytes < machine.shared_bytes_limit:
                return found
        plan = GRADIENT_PLANS[size]
        if plan.gradient_bytes <= device.machine(device.lanes).shared_bytes_limit:
            return replace(plan, exact=size == head)
    return plan_tiles(device, element, head, operands=2, sums=sums)


def _on_cores(device: AnyDevice, element: Type, head: int) -> int | None:
    """The size of heads in plans of tensor cores; None where these do not suit."""
    cores = device.machine(device.lanes).has(Capability.TENSOR_CORES)
    if not cores or element not in HALVES or head * element.bytes % WIDEST:
        return None
    return next((size for size in sorted(CORE_PLANS) if size >= head), None)


def plan_tiles(
    device: AnyDevice, element: Type, head: int, *, operands: int = 1, sums: int = 1
) -> TilePlan:
    """The plan for heads of so many elements, rows of `operands` tensors and `sums` over lines."""
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
        own = min(vector, _CHUNK // across)
        plan = TilePlan(lanes, across, rows, columns, size, _CHUNK, _CHUNK, own, held=True)
        room = device.machine(lanes).shared_bytes_limit
        if sums * rows * size // across <= _MOST_SUMS and plan.shared_bytes(operands) <= room:
            return plan
    raise InputError(f"heads of {head} elements take more shared memory than {device.name} has")
