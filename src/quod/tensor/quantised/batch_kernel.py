"""The kernel that multiplies rows by a matrix of blocks, and its plan.

It is the kernel of `gemm` with another second operand: blocks that are dequantised while tiles are
copied to shared memory. Activations in f32 are multiplied by exact weights. For f16 and bf16,
tensor cores multiply weights that are rounded to the type of the activations.
"""

from __future__ import annotations

from functools import partial

from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import Builder, Value, f32, pointer, u32
from quod.kernel.ir.types import HALVES, Type, u8
from quod.kernel.machine import Capability
from quod.tensor.definitions import definition
from quod.tensor.matmul.form import GemmForm
from quod.tensor.matmul.kernel import TYPES, Result, Tiles, corner, multiply_tile
from quod.tensor.matmul.plan import CorePlan, GemmPlan, largest, plan_of_tiles
from quod.tensor.matmul.tiles import Edges
from quod.tensor.quantised.tiles import BlockRing, CachedBlocks, SharedBlocks, order_of
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from quod.tensor.rows.plan import widest

BatchPlan = GemmPlan | CorePlan

CORE_PLANS = (CorePlan((128, 128), (64, 32), 32, 4), CorePlan((64, 64), (32, 32), 32, 4))
"""Plans for tensor cores; a step over K fits within a group of every format."""


def _multiply_rows(
    k: Builder, m: Value, n: Value, depth: Value, x: Value, blocks: Value, y: Value, *,
    element: Type, form: str, plan: BatchPlan,
) -> None:  # fmt: skip
    """Y = X times the transposed matrix: X is m rows of `depth` elements, Y m rows of n."""
    decoder = QUANTISED_TYPES[form].decoder.with_table(k)
    rows, columns = plan.tile
    tile_columns, tile_rows = (n + (columns - 1)) // columns, (m + (rows - 1)) // rows
    row, column = corner(k, plan, k.workgroup_id(), tile_rows, tile_columns)
    result = Result(k, element, plan, GemmForm(), (m, n), k.constant(1.0, f32), x, x, y)
    # CPU tiles have whole groups in order.
    order = None if k.machine.has(Capability.VECTOR_LANES) else order_of(decoder, plan.depth)
    x_edges = Edges(x, row, m, depth, False, order)
    block_edges = Edges(blocks, column, n, depth, False, order)
    tiles = Tiles(
        partial(SharedBlocks, decoder), partial(CachedBlocks, decoder), partial(BlockRing, decoder)
    )
    multiply_tile(k, element, plan, x_edges, block_edges, result.store, tiles)


def plan_batch(
    device: AnyDevice, element: Type, form: str, sizes: tuple[int, int, int]
) -> BatchPlan:
    """Return the plan for sizes (m, n, K): rows of X, rows of the matrix, and K."""
    machine = device.machine(device.lanes)
    # Blocks are not read in vectors, hence 1 as the pitch of B.
    pitches = sizes[2], 1, sizes[1]
    if machine.has(Capability.TENSOR_CORES) and element in HALVES:
        core_plan = largest(device, CORE_PLANS, sizes, 1)
        return replace(core_plan, c_vector=widest(element, sizes[1], 2))
    plan = plan_of_tiles(device, sizes, pitches, element)
    # Elements of X that are contiguous within a step are read together.
    contiguous = order_of(QUANTISED_TYPES[form].decoder, plan.depth).width
    return replace(plan, a_vector=min(plan.a_vector, contiguous))


MULTIPLY_ROWS = {
    element: definition(
        f"multiply_rows_{element}", _multiply_rows, m=u32, n=u32, depth=u32, x=pointer(element),
        blocks=pointer(u8), y=pointer(element),
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by the type of X and of the result."""
