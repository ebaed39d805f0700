"""Plans of matrix products: tiles of workgroups, register tiles, shared memory.

Matrix sizes are kernel arguments, so that few plans serve all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.kernel.ir.types import HALVES, Type, f32, i8
from quod.kernel.machine import Capability
from quod.tensor.matmul.tiles import in_halves
from quod.tensor.rows.plan import WIDEST, widest

_TOGETHER = 4
"""The most elements of an access."""


@frozen
class GemmPlan:
    """A tile of C without tensor cores.

    lanes: Instances of a workgroup.
    across: Columns of instances in a workgroup.
    rows, columns: The register tile of an instance.
    down, right: Register tiles that the workgroup processes sequentially in its tile: 1 by 1 on a
        GPU, more where a CPU's cache holds the sums.
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

    A copy of eight elements by every instance fills eight lines of either tile, or a multiple.

    tile: Rows and columns of a workgroup.
    part: Rows and columns of a subgroup.
    depth: The length of K in shared memory at a time.
    stages: Tiles of each operand in shared memory.
    c_vector: Elements of a store to C.
    resident: Workgroups of a multiprocessor that the registers are limited for.
    promoted: Sums of each `depth` of K are added in f32 registers, as tensor cores keep fewer bits.
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

    @property
    def least(self) -> float:
        """The tiles that this plan requires, as a fraction of the multiprocessors."""
        return 0.75

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product."""
        return -(-m // self.tile[0]) * -(-n // self.tile[1])


@frozen
class TilePlan:
    """A tile of C multiplied by warpgroups out of shared memory, 64 rows to a warpgroup.

    tile: Rows and columns of a workgroup.
    stages: Steps of 64 of K in shared memory; a power of two.
    cluster: Workgroups, below each other, that share columns of B.
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
            raise ValueError(f"there is no tile of {rows} by {columns} in {self.cluster} parts")
        if self.stages & (self.stages - 1):
            raise ValueError(f"{self.stages} stages are no power of two")

    @property
    def lanes(self) -> int:
        """Instances of a workgroup."""
        return 2 * self.tile[0]

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for tiles of 16-bit elements."""
        return 2 * self.stages * TILE_DEPTH * sum(self.tile)

    @property
    def least(self) -> float:
        """The tiles that this plan requires, as a fraction of the multiprocessors.

        It is less where smaller tiles would take as long, because some would run sequentially.
        """
        return 0.5 if self.tile == (128, 64) else 0.75

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product: whole clusters."""
        clusters = -(-m // (self.tile[0] * self.cluster)) * -(-n // self.tile[1])
        return clusters * self.cluster


TILE_DEPTH = 64
"""The length of K in a step: a line of 128 bytes."""

TILE_PLANS = (
    TilePlan((128, 256), 4, 2),
    TilePlan((128, 128), 4, 2),
    TilePlan((128, 64), 8),
    TilePlan((64, 64), 8),
)
"""Plans of warpgroups, the largest first."""

PROMOTED_TILE_PLANS = (
    replace(TILE_PLANS[1], promoted=True),
    replace(TILE_PLANS[-1], promoted=True),
)
"""Plans of warpgroups with promoted sums, which take twice the registers."""


@frozen
class FmaPlan:
    """A tile of C on a GPU's FMA units.

    tile: Rows and columns of a workgroup.
    part: Rows and columns of a subgroup.
    own: Rows and columns of an instance, in groups of four adjacent ones.
    depth: The length of K in shared memory at a time.
    stages: Tiles of each operand in shared memory.
    slices: Groups of subgroups that each process a slice of `depth`, and add their sums at the end.
    resident: Workgroups of a multiprocessor that the registers are limited for.
    ahead: Operands of the next products are loaded ahead, which doubles their registers.
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
        """Bytes of shared memory: the most that padded tiles, or the sums of slices, take."""
        return 4 * max(self.stages * self.depth * (sum(self.tile) + 8), self.summed)

    def groups(self, m: int, n: int) -> int:
        """Return the workgroups of a product."""
        return -(-m // self.tile[0]) * -(-n // self.tile[1])


CORE_PLANS = (
    CorePlan((128, 256), (64, 64), 32, 4),
    CorePlan((128, 128), (64, 32), 32, 4),
    CorePlan((64, 64), (32, 32), 64, 3),
)
"""Plans of tensor cores, the largest first, which reuses its copies most."""

PROMOTED_CORE_PLANS = tuple(replace(plan, promoted=True) for plan in CORE_PLANS[1:])
"""Plans of tensor cores with promoted sums, which take twice the registers."""


GemmKernelPlan = GemmPlan | CorePlan | FmaPlan
AnyGemmPlan = GemmKernelPlan | TilePlan
_CorePlans = tuple[Sequence[TilePlan], Sequence[CorePlan]]
_OfCores = TypeVar("_OfCores", CorePlan, TilePlan)

_MOST_PLACES = (1 << 31) - 1
"""The limit of sizes, because tile coordinates are signed."""

FMA_PLANS = (
    (FmaPlan((128, 256), (64, 64), (16, 8), 16, 3, ahead=True), 100),
    (FmaPlan((128, 128), (64, 32), (8, 8), 16, 3, resident=2, ahead=True), 104),
    (FmaPlan((128, 64), (32, 64), (8, 8), 32, 3, slices=2, ahead=True), 92),
    (FmaPlan((64, 32), (64, 32), (8, 8), 32, 4, slices=8), 80),
)
"""Plans of FMA units, and their relative speeds on one multiprocessor, from their inner loops."""

NARROW_FMA_PLANS = (
    (FmaPlan((128, 128), (64, 32), (8, 8), 16, 3, ahead=True), 94),
    *FMA_PLANS[2:],
)
"""Plans for rows that are not aligned to four elements, whose addresses take registers."""


_LARGE = GemmPlan(256, 16, 8, 8, 1, 1, 8, 2, 4, unrolled=True)
"""128 by 128, which keeps the units of a GPU busy."""
_SMALL = GemmPlan(64, 8, 4, 4, 1, 1, 16, 2, 4, unrolled=True)
"""32 by 32, for matrices of few tiles."""
_SHORT = GemmPlan(256, 16, 8, 8, 1, 1, 8, 1, 4)
"""128 by 128, as a loop, in the least shared memory that WebGPU guarantees."""
_SHORT_SMALL = GemmPlan(64, 8, 4, 4, 1, 1, 8, 1, 4)

_WIDE_VECTORS = GemmPlan(16, 16, 8, 48 // 16, 16, 4, 128, 1, 1)
"""For 32 vector registers, of which 24 are sums.

The tile and its sums are 256 KB, which a cache holds.
"""
_VECTORS = GemmPlan(8, 8, 4, 24 // 8, 32, 8, 128, 1, 1)
"""For 16 vector registers, of which 12 are sums."""


def plan_gemm(
    device: AnyDevice, element: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int = 1, *, tf32: bool = False,
) -> AnyGemmPlan:  # fmt: skip
    """Return the plan of a product.

    sizes: m, n and k.
    pitches: Elements of a row of A, B and C in memory.
    tf32: Lines of f32 operands are along k, and tensor cores may multiply them with fewer bits.
    """
    machine = device.machine(device.lanes)
    copied = not any(pitch * element.bytes % WIDEST for pitch in pitches[:2])
    if copied and (element in HALVES or tf32):
        halves = *sizes[:2], in_halves(element, sizes[2])
        cores = _of_cores(device, halves, (element, pitches[2]), batch)
        if cores is not None:
            return cores
    if machine.has(Capability.ASYNC_COPIES) and element is f32:
        fma_plan = _of_fma_units(device, sizes, pitches, batch)
        if fma_plan is not None:
            return fma_plan
    return plan_of_tiles(device, sizes, pitches, element, batch)


def plan_of_tiles(
    device: AnyDevice, sizes: tuple[int, int, int], pitches: tuple[int, int, int], element: Type,
    batch: int = 1,
) -> GemmPlan:  # fmt: skip
    """Return the plan without tensor cores and asynchronous copies; see `plan_gemm`."""
    machine = device.machine(device.lanes)
    if machine.has(Capability.VECTOR_LANES):
        return _of_processor(device, sizes, batch)
    vectors = [widest(element, pitch, _TOGETHER) for pitch in pitches]
    plan = _of_registers(device, sizes, batch)
    return replace(plan, a_vector=vectors[0], b_vector=vectors[1], c_vector=vectors[2])


def plan_gemm_int8(
    device: AnyDevice, result: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int = 1, *, along_k: bool,
) -> GemmPlan | CorePlan | TilePlan:  # fmt: skip
    """Return the plan of a product of 8-bit integers; see `plan_gemm`.

    along_k: Lines of both operands are along k.
    """
    return _of_8_bits(device, result, sizes, pitches, batch, (TILE_PLANS, CORE_PLANS), along_k)


def plan_gemm_float8(
    device: AnyDevice, result: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int = 1, *, along_k: bool, promoted: bool = True,
) -> GemmPlan | CorePlan | TilePlan:  # fmt: skip
    """Return the plan of a product of 8-bit floats; see `plan_gemm_int8`."""
    plans = (PROMOTED_TILE_PLANS, PROMOTED_CORE_PLANS) if promoted else (TILE_PLANS, CORE_PLANS)
    cores = device.machine(device.lanes).has(Capability.FLOAT8_CORES)
    return _of_8_bits(device, result, sizes, pitches, batch, plans, along_k and cores)


def _of_8_bits(
    device: AnyDevice, result: Type, sizes: tuple[int, int, int], pitches: tuple[int, int, int],
    batch: int, plans: _CorePlans, in_cores: bool,
) -> GemmPlan | CorePlan | TilePlan:  # fmt: skip
    machine = device.machine(device.lanes)
    m, n, depth = sizes
    if in_cores and depth % WIDEST == 0:
        halves = m, n, in_halves(i8, depth)
        core_plan = _of_cores(device, halves, (result, pitches[2]), batch, 2, plans)
        if core_plan is not None:
            return core_plan
    if machine.has(Capability.VECTOR_LANES):
        return _of_processor(device, sizes, batch)
    a, b = (1 if pitch % _TOGETHER else _TOGETHER for pitch in pitches[:2])
    plan = _of_registers(device, sizes, batch)
    return replace(plan, a_vector=a, b_vector=b, c_vector=widest(result, pitches[2], _TOGETHER))


def _of_cores(
    device: AnyDevice, sizes: tuple[int, int, int], stored: tuple[Type, int], batch: int,
    most: int = 8, plans: _CorePlans = (TILE_PLANS, CORE_PLANS),
) -> CorePlan | TilePlan | None:  # fmt: skip
    """Return the plan of tensor cores for 16-bit elements, or None if the device has none.

    stored: The type of the result, and the elements of its rows in memory.
    most: The most elements of a store.
    """
    machine = device.machine(device.lanes)
    if not machine.has(Capability.TENSOR_CORES):
        return None
    if machine.has(Capability.WARPGROUPS) and max(sizes) <= _MOST_PLACES:
        tiled = largest(device, plans[0], sizes, batch)
        if tiled.shared_bytes < machine.shared_bytes_limit:
            return replace(tiled, c_vector=widest(*stored, most))
    return replace(largest(device, plans[1], sizes, batch), c_vector=widest(*stored, 2))


def _of_registers(device: AnyDevice, sizes: tuple[int, int, int], batch: int) -> GemmPlan:
    short = device.machine(device.lanes).has(Capability.SHORT_KERNELS)
    plan, small = (_SHORT, _SHORT_SMALL) if short else (_LARGE, _SMALL)
    few = plan.groups(sizes[0], sizes[1]) * batch < device.multiprocessors
    return small if few else plan


def _of_processor(device: AnyDevice, sizes: tuple[int, int, int], batch: int) -> GemmPlan:
    wide = device.machine(8).has(Capability.IFMA52)
    plan = _WIDE_VECTORS if wide else _VECTORS
    # Every thread should have tiles, and tiles should not exceed the matrix by much.
    while plan.down > 1 and (
        plan.groups(sizes[0], sizes[1]) * batch < 2 * device.multiprocessors
        or plan.tile[0] >= 2 * sizes[0]
    ):
        plan = replace(plan, down=plan.down // 4 or 1)
    return plan


def largest(
    device: AnyDevice, plans: Sequence[_OfCores], sizes: tuple[int, int, int], batch: int
) -> _OfCores:
    """Return the largest tile that keeps most multiprocessors busy and fits the matrix."""
    most, (m, n, _) = device.machine(device.lanes).shared_bytes_limit, sizes
    for plan in plans:
        enough = plan.groups(m, n) * batch >= plan.least * device.multiprocessors
        inside = plan.tile[0] < 2 * m and plan.tile[1] < 2 * n
        if enough and inside and plan.shared_bytes <= most:
            return plan
    return plans[-1]


def _of_fma_units(
    device: AnyDevice, sizes: tuple[int, int, int], pitches: tuple[int, int, int], batch: int
) -> FmaPlan | None:
    """Return the fastest plan of FMA units, counting partial waves as full.

    Returns None if none fits shared memory.
    """
    a, b, c = (widest(f32, pitch, _TOGETHER) for pitch in pitches)
    most = device.machine(device.lanes).shared_bytes_limit
    least, best = 0.0, None
    for plan, speed in FMA_PLANS if min(a, b, c) == _TOGETHER else NARROW_FMA_PLANS:
        turns = -(-plan.groups(sizes[0], sizes[1]) * batch // device.multiprocessors)
        time = turns * plan.tile[0] * plan.tile[1] / speed
        if plan.shared_bytes <= most and (best is None or time < least):
            least, best = time, replace(plan, a_vector=a, b_vector=b, c_vector=c)
    return best
