"""Plans of matrix products: the tile of a workgroup and how its instances compute it.

Matrix sizes are kernel arguments, so a few plans, and compiled kernels, serve all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type, f32, i8
from quod.kernel.machine import Capability
from quod.kernel.ops.tile import WARPGROUP
from quod.tensor.matmul.tiles import in_halves
from quod.tensor.rows.plan import WIDEST, widest

_MAX_VECTOR = 4
"""The maximum number of elements of an access."""


@frozen
class GemmPlan:
    """A tile of C without tensor cores.

    lanes: Instances of a workgroup.
    across: Columns of instances in a workgroup.
    rows, columns: The register tile of an instance.
    down, right: The workgroup processes `down` x `right` panels of register tiles one after the
        other: 1 x 1 on a GPU, more on a CPU, whose cache has the sums.
    depth: The length of K in shared memory at a time.
    stages: Tiles of each operand in shared memory.
    vector: Elements of an access to shared memory.
    a_vector, b_vector, c_vector: Elements of an access to A, B and C.
    unrolled: A step over K is unrolled; otherwise it is a loop.
    """

    lanes: int
    across: int
    rows: int
    columns: int
    down: int
    right: int
    depth: int
    stages: int
    vector: int
    a_vector: int = 1
    b_vector: int = 1
    c_vector: int = 1
    unrolled: bool = False

    @property
    def panel(self) -> tuple[int, int]:
        """The rows and columns that the workgroup processes at a time."""
        return self.lanes // self.across * self.rows, self.across * self.columns

    @property
    def tile(self) -> tuple[int, int]:
        """The rows and columns of the workgroup's tile of C."""
        rows, columns = self.panel
        return rows * self.down, columns * self.right

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product."""
        rows, columns = self.tile
        return -(-m // rows) * -(-n // columns)


@frozen
class CorePlan:
    """A tile of C on tensor cores.

    If every instance copies eight elements, they fill a multiple of eight lines of either tile.

    tile: Rows and columns of a workgroup.
    part: Rows and columns of a subgroup.
    depth: The length of K in shared memory at a time.
    stages: Tiles of each operand in shared memory.
    c_vector: Elements of a store to C.
    resident: Workgroups that a multiprocessor can run at a time; this limits their registers.
    promoted: The sums of each `depth` of K are added in f32 registers, since tensor cores
        accumulate with fewer bits.
    """

    tile: tuple[int, int]
    part: tuple[int, int]
    depth: int
    stages: int
    c_vector: int = 1
    resident: int = 1
    promoted: bool = False

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 32 * (self.tile[0] // self.part[0]) * (self.tile[1] // self.part[1])

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for tiles of 16-bit elements."""
        return 2 * self.stages * self.depth * sum(self.tile)

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product."""
        return -(-m // self.tile[0]) * -(-n // self.tile[1])


@frozen
class TilePlan:
    """A tile of C that warpgroups multiply from shared memory, 64 rows per warpgroup.

    tile: Rows and columns of a workgroup.
    stages: Steps of K, of length 64, in shared memory; a power of two.
    cluster: Workgroups of a cluster; their tiles are below each other and share columns of B.
    c_vector: Elements of a store to C.
    promoted: Sums of each step of K are added in f32 registers; see `CorePlan`.
    """

    tile: tuple[int, int]
    stages: int
    cluster: int = 1
    c_vector: int = 1
    promoted: bool = False

    def __post_init__(self) -> None:
        rows, columns = self.tile
        if rows % 64 or columns % 64 or not 64 <= columns <= 256 or 64 % (8 * self.cluster):
            raise ValueError(f"a cluster of {self.cluster} cannot have tiles of {rows} x {columns}")
        if self.stages & (self.stages - 1):
            raise ValueError(f"stages must be a power of two, not {self.stages}")

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 2 * self.tile[0]

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for tiles of 16-bit elements."""
        return 2 * self.stages * TILE_DEPTH * sum(self.tile)

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product: whole clusters."""
        clusters = -(-m // (self.tile[0] * self.cluster)) * -(-n // self.tile[1])
        return clusters * self.cluster


@frozen
class WarpSpecialisedTilePlan(TilePlan):
    """A tile with one more warpgroup, which only copies; workgroups process several tiles.

    registers: Registers of a copying instance, and of a multiplying instance.
    """

    registers: tuple[int, int] = (24, 240)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cluster != 1:
            raise ValueError("warp-specialised workgroups have no clusters")

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return WARPGROUP + 2 * self.tile[0]


def workgroups(device: AnyDevice, plan: AnyGemmPlan, m: int, n: int, batch: int = 1) -> int:
    """Return the workgroups of a launch: one per tile, or at most one per multiprocessor."""
    tiles = plan.groups(m, n) * batch
    if isinstance(plan, WarpSpecialisedTilePlan):
        return min(tiles, device.multiprocessors)
    return tiles


TILE_DEPTH = 64
"""The length of K in a step: a line of 128 bytes."""

TILE_PLANS = (
    (WarpSpecialisedTilePlan((128, 256), 4), 100),
    (WarpSpecialisedTilePlan((128, 192), 4), 97),
    (TilePlan((128, 128), 4, 2), 85),
    (TilePlan((128, 64), 8), 58),
    (TilePlan((64, 64), 8), 45),
)
"""Plans of warpgroups, with the relative speed of their main loops on one multiprocessor."""

PROMOTED_TILE_PLANS = (
    (WarpSpecialisedTilePlan((128, 192), 4, promoted=True), 100),
    (WarpSpecialisedTilePlan((128, 128), 4, promoted=True), 86),
    (TilePlan((64, 64), 8, promoted=True), 50),
)
"""Plans of warpgroups with promoted sums, which take twice the registers, and their speeds."""


@frozen
class FmaPlan:
    """A tile of C on a GPU's FMA units.

    tile: Rows and columns of a workgroup.
    part: Rows and columns of a subgroup.
    own: Rows and columns of an instance, in groups of four adjacent rows or columns.
    depth: The length of K in shared memory at a time.
    stages: Tiles of each operand in shared memory.
    slices: Groups of subgroups, each of which processes a slice of `depth`; sums are added at the
        end.
    resident: Workgroups that a multiprocessor can run at a time; this limits their registers.
    ahead: The operands of the next k are loaded during a multiplication, into more registers.
    a_vector, b_vector, c_vector: Elements of a copy of A and B, and of a store to C.
    """

    tile: tuple[int, int]
    part: tuple[int, int]
    own: tuple[int, int]
    depth: int
    stages: int
    slices: int = 1
    resident: int = 1
    ahead: bool = False
    a_vector: int = 1
    b_vector: int = 1
    c_vector: int = 1

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        parts = self.tile[0] // self.part[0] * (self.tile[1] // self.part[1])
        return 32 * parts * self.slices

    @property
    def summed(self) -> int:
        """Elements of shared memory for the sums of all slices."""
        return self.tile[0] * self.tile[1] * self.slices if self.slices > 1 else 0

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory: the maximum of the padded tiles and the sums of slices."""
        return 4 * max(self.stages * self.depth * (sum(self.tile) + 8), self.summed)

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product."""
        return -(-m // self.tile[0]) * -(-n // self.tile[1])


CORE_PLANS = (
    CorePlan((128, 256), (64, 64), 32, 4),
    CorePlan((128, 128), (64, 32), 32, 4),
    CorePlan((64, 64), (32, 32), 64, 3),
)
"""Plans of tensor cores, the largest tile first, as it reuses its copies most."""

_BUSY = 0.75
"""The fraction of the multiprocessors that the tiles of a plan for tensor cores must occupy."""

PROMOTED_CORE_PLANS = tuple(replace(plan, promoted=True) for plan in CORE_PLANS[1:])
"""Plans of tensor cores with promoted sums, which take twice the registers."""


GemmKernelPlan = GemmPlan | CorePlan | FmaPlan
AnyGemmPlan = GemmKernelPlan | TilePlan
_CorePlans = tuple[Sequence[tuple[TilePlan, int]], Sequence[CorePlan]]
_Estimated = TypeVar("_Estimated", FmaPlan, TilePlan)

_MAX_SIZE = (1 << 31) - 1
"""The limit of m, n and k, because the coordinates of tile copies are signed."""

FMA_PLANS = (
    (FmaPlan((128, 256), (64, 64), (16, 8), 16, 3, ahead=True), 100),
    (FmaPlan((128, 128), (64, 32), (8, 8), 16, 3, resident=2, ahead=True), 104),
    (FmaPlan((128, 64), (32, 64), (8, 8), 32, 3, slices=2, ahead=True), 92),
    (FmaPlan((64, 32), (64, 32), (8, 8), 32, 4, slices=8), 80),
)
"""Plans of FMA units, with the relative speed of their inner loops on one multiprocessor."""

NARROW_FMA_PLANS = (
    (FmaPlan((128, 128), (64, 32), (8, 8), 16, 3, ahead=True), 94),
    *FMA_PLANS[2:],
)
"""Plans for rows that are not aligned to four elements, whose addresses take more registers."""


_LARGE = GemmPlan(256, 16, 8, 8, 1, 1, 8, 2, 4, unrolled=True)
"""A tile of 128 x 128, which keeps the FMA units of a GPU busy."""
_SMALL = GemmPlan(64, 8, 4, 4, 1, 1, 16, 2, 4, unrolled=True)
"""A tile of 32 x 32, for small matrices."""
_SHORT = GemmPlan(256, 16, 8, 8, 1, 1, 8, 1, 4)
"""A tile of 128 x 128 in the shared memory that WebGPU guarantees, with a loop over K."""
_SHORT_SMALL = GemmPlan(64, 8, 4, 4, 1, 1, 8, 1, 4)
"""A tile of 32 x 32 under the same limits."""

_WIDE_VECTORS = GemmPlan(16, 16, 8, 48 // 16, 64, 8, 128, 1, 1)
"""A tile for CPUs with 32 vector registers, of which 24 have sums.

The operands take 490 KB of the L2 cache. The sums, 790 KB, are read once per 128 of K, in order.
"""
_VECTORS = GemmPlan(8, 8, 4, 24 // 8, 32, 8, 128, 1, 1)
"""A tile for CPUs with 16 vector registers, of which 12 have sums."""


def plan_gemm(
    device: AnyDevice, element: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int = 1, *, tf32: bool = False,
) -> AnyGemmPlan:  # fmt: skip
    """Return the plan of a product.

    sizes: m, n and k.
    pitches: Elements of a row of A, B and C in memory.
    batch: The number of products.
    tf32: Lines of both f32 operands are along k, and tensor cores may round them to tf32.
    """
    machine = device.machine(device.lanes)
    is_aligned = not any(pitch * element.bytes % WIDEST for pitch in pitches[:2])
    if is_aligned and (element in HALVES or tf32):
        halves = *sizes[:2], in_halves(element, sizes[2])
        cores = _plan_cores(device, halves, (element, pitches[2]), batch)
        if cores is not None:
            return cores
    if machine.has(Capability.ASYNC_COPIES) and element is f32:
        fma_plan = _plan_fma(device, sizes, pitches, batch)
        if fma_plan is not None:
            return fma_plan
    return plan_of_tiles(device, sizes, pitches, element, batch)


def plan_of_tiles(
    device: AnyDevice, sizes: tuple[int, int, int], pitches: tuple[int, int, int], element: Type,
    batch: int = 1,
) -> GemmPlan:  # fmt: skip
    """Return the plan of a product without tensor cores and without asynchronous copies.

    Parameters are as in `plan_gemm`.
    """
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        return _plan_cpu(device, sizes, batch)
    vectors = [widest(element, pitch, _MAX_VECTOR) for pitch in pitches]
    plan = _plan_registers(device, sizes, batch)
    return replace(plan, a_vector=vectors[0], b_vector=vectors[1], c_vector=vectors[2])


def plan_gemm_int8(
    device: AnyDevice, result: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int = 1, *, along_k: bool,
) -> GemmPlan | CorePlan | TilePlan:  # fmt: skip
    """Return the plan of a product of 8-bit integers; see `plan_gemm`.

    along_k: Lines of both operands are along k.
    """
    return _plan_8_bits(device, result, sizes, pitches, batch, (TILE_PLANS, CORE_PLANS), along_k)


def plan_gemm_float8(
    device: AnyDevice, result: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int = 1, *, along_k: bool, promoted: bool = True,
) -> GemmPlan | CorePlan | TilePlan:  # fmt: skip
    """Return the plan of a product of 8-bit floats; see `plan_gemm_int8`."""
    plans = (PROMOTED_TILE_PLANS, PROMOTED_CORE_PLANS) if promoted else (TILE_PLANS, CORE_PLANS)
    cores = device.machine(device.lanes).has(Capability.FLOAT8_CORES)
    return _plan_8_bits(device, result, sizes, pitches, batch, plans, along_k and cores)


def _plan_8_bits(
    device: AnyDevice, result: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int, plans: _CorePlans, uses_cores: bool,
) -> GemmPlan | CorePlan | TilePlan:  # fmt: skip
    """Return the plan of a product of 8-bit elements; `plans` are for devices with tensor cores."""
    machine = device.machine(device.lanes)
    m, n, depth = sizes
    if uses_cores and depth % WIDEST == 0:
        halves = m, n, in_halves(i8, depth)
        core_plan = _plan_cores(device, halves, (result, pitches[2]), batch, plans)
        if core_plan is not None:
            return core_plan
    if machine.has(Capability.VECTOR_LANES):
        return _plan_cpu(device, sizes, batch)
    a, b = (1 if pitch % _MAX_VECTOR else _MAX_VECTOR for pitch in pitches[:2])
    plan = _plan_registers(device, sizes, batch)
    return replace(plan, a_vector=a, b_vector=b, c_vector=widest(result, pitches[2], _MAX_VECTOR))


def _plan_cores(
    device: AnyDevice, sizes: tuple[int, int, int], result_rows: tuple[Type, int], batch: int,
    plans: _CorePlans = (TILE_PLANS, CORE_PLANS),
) -> CorePlan | TilePlan | None:  # fmt: skip
    """Return the plan of tensor cores for 16-bit elements, or None if the device has none.

    result_rows: The type of the result, and the elements of one of its rows in memory.
    """
    machine = device.machine(device.lanes)
    if not machine.has(Capability.TENSOR_CORES):
        return None
    if machine.has(Capability.WARPGROUPS) and max(sizes) <= _MAX_SIZE:
        # Barriers take some of the shared memory as well.
        limit = machine.shared_bytes_limit - 1
        tile_plan = _fastest(device, plans[0], sizes, batch, limit)
        if tile_plan is not None:
            return replace(tile_plan, c_vector=widest(*result_rows))
    return replace(largest(device, plans[1], sizes, batch), c_vector=widest(*result_rows, 2))


def _plan_registers(device: AnyDevice, sizes: tuple[int, int, int], batch: int) -> GemmPlan:
    """Return a plan for a GPU without tensor cores: small tiles if large ones would not fill it."""
    needs_short_kernels = device.machine(device.lanes).has(Capability.SHORT_KERNELS)
    plan, small_plan = (_SHORT, _SHORT_SMALL) if needs_short_kernels else (_LARGE, _SMALL)
    is_small = plan.groups(sizes[0], sizes[1]) * batch < device.multiprocessors
    return small_plan if is_small else plan


def _plan_cpu(device: AnyDevice, sizes: tuple[int, int, int], batch: int) -> GemmPlan:
    """Return a plan for a CPU, with tiles as large as the matrix and the threads allow."""
    has_wide_registers = device.machine(8).has(Capability.IFMA52)
    plan = _WIDE_VECTORS if has_wide_registers else _VECTORS
    # Every thread should have tiles, and the tiles should not have many rows beyond the matrix.
    m, n, _ = sizes
    while plan.down > 1 and (
        plan.groups(m, n) * batch < 2 * device.multiprocessors
        or 2 * -(-m // plan.tile[0]) * plan.tile[0] >= 3 * m
    ):
        plan = replace(plan, down=plan.down // 4 or 1)
    return plan


def largest(
    device: AnyDevice, plans: Sequence[CorePlan], sizes: tuple[int, int, int], batch: int
) -> CorePlan:
    """Return the first plan that keeps most multiprocessors busy and fits the matrix.

    Returns the last plan if there is no such plan.
    """
    shared_limit, (m, n, _) = device.machine(device.lanes).shared_bytes_limit, sizes
    for plan in plans:
        fills_device = plan.groups(m, n) * batch >= _BUSY * device.multiprocessors
        fits_matrix = plan.tile[0] < 2 * m and plan.tile[1] < 2 * n
        if fills_device and fits_matrix and plan.shared_bytes <= shared_limit:
            return plan
    return plans[-1]


def _plan_fma(
    device: AnyDevice, sizes: tuple[int, int, int], pitches: tuple[int, int, int], batch: int
) -> FmaPlan | None:
    """Return the plan of FMA units with the lowest estimated time, or None if none fits."""
    a, b, c = (widest(f32, pitch, _MAX_VECTOR) for pitch in pitches)
    plans = FMA_PLANS if min(a, b, c) == _MAX_VECTOR else NARROW_FMA_PLANS
    plan = _fastest(device, plans, sizes, batch, device.machine(device.lanes).shared_bytes_limit)
    return None if plan is None else replace(plan, a_vector=a, b_vector=b, c_vector=c)


def _fastest(
    device: AnyDevice, plans: Sequence[tuple[_Estimated, int]], sizes: tuple[int, int, int],
    batch: int, shared_limit: int,
) -> _Estimated | None:  # fmt: skip
    """Return the plan with the lowest estimated time; partial waves count as full.

    plans: Plans and their relative speeds.
    Returns None if no plan fits the shared memory.
    """
    best_time, best_plan = 0.0, None
    for plan, speed in plans:
        waves = -(-plan.groups(sizes[0], sizes[1]) * batch // device.multiprocessors)
        time = waves * plan.tile[0] * plan.tile[1] / speed
        if plan.shared_bytes <= shared_limit and (best_plan is None or time < best_time):
            best_time, best_plan = time, plan
    return best_plan
