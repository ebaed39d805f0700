"""The f32 matrix product on a GPU's FMA units: asynchronous tile copies, sums in registers.

Tiles of several steps of K are in a ring in shared memory: while one is multiplied, the others are
being copied. Source of the structure: CUTLASS, "Efficient GEMM in CUDA". The order of a subgroup's
instances is that of Scott Gray's SGEMM (maxas, 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from quod.kernel import Builder, Value, f32, u32
from quod.tensor.matmul.fma_tiles import VECTOR, FmaRing, pitch_of
from quod.tensor.matmul.plan import FmaPlan
from quod.tensor.matmul.tiles import Edges, log2

Store = Callable[[Value, Value, Sequence[Value]], None]


class _Position:
    """The position of an instance in the tile of its workgroup."""

    def __init__(self, k: Builder, plan: FmaPlan) -> None:
        (rows, columns), (own_rows, own_columns) = plan.part, plan.own
        down, right = rows // own_rows, columns // own_columns
        self.apart = down * VECTOR, right * VECTOR
        """The distance between an instance's groups of four rows, and of four columns."""
        # 16-byte accesses take half the bank cycles if instances 1 or 2 apart share an address.
        lane, group = k.lane_id(), k.subgroup_id()
        of_eight, of_four = lane >> 1 & 7, lane & 1 | lane >> 4 << 1
        of_rows, of_columns = (of_eight, of_four) if down == 8 else (of_four, of_eight)
        across = plan.tile[1] // columns
        parts = plan.tile[0] // rows * across
        part = group & (parts - 1)
        self.row = (part >> log2(across)) * rows + of_rows * VECTOR
        self.column = (part & (across - 1)) * columns + of_columns * VECTOR
        self.slice = group >> log2(parts)


def _in_turn(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Yield the products of an instance for one k, back and forth along the shorter side.

    A register that two consecutive products share is then read once.
    """
    for held in range(max(rows, columns)):
        run = range(min(rows, columns))
        for at in run if held % 2 == 0 else reversed(run):
            yield (held, at) if rows >= columns else (at, held)


def multiply_by_fma(k: Builder, plan: FmaPlan, of_a: Edges, of_b: Edges, store: Store) -> None:
    """Multiply the workgroup's tile of C; each instance has a part in its registers."""
    k.resident_workgroups(plan.resident)
    size_of_a = pitch_of(plan.tile[0], along=of_a.along) * plan.depth
    size = size_of_a + pitch_of(plan.tile[1], along=of_b.along) * plan.depth
    room = k.shared(f32, max(size * plan.stages, plan.summed))
    a = FmaRing(k, of_a, plan, plan.tile[0], plan.a_vector, room, 0)
    b = FmaRing(k, of_b, plan, plan.tile[1], plan.b_vector, room, size_of_a)
    place, count = _Position(k, plan), plan.depth // plan.slices
    from_a = k.pointer_add(room, place.slice * (count * a.pitch) + place.row)
    from_b = k.pointer_add(room, place.slice * (count * b.pitch) + place.column)

    def load(stage: Value, at: int) -> list[Value]:
        """Load the instance's rows of A, then its columns of B, for one k."""
        return [
            *a.fragment(from_a, stage * size, at, plan.own[0], place.apart[0]),
            *b.fragment(from_b, stage * size, at, plan.own[1], place.apart[1]),
        ]

    def multiply(fragments: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        new_sums = list(sums)
        for row, column in _in_turn(*plan.own):
            number = row * plan.own[1] + column
            new_sums[number] = k.fma(
                fragments[row], fragments[plan.own[0] + column], new_sums[number]
            )
        return new_sums

    def copy(step: Value, stage: Value) -> None:
        a.copy(step * plan.depth, stage * size)
        b.copy(step * plan.depth, stage * size)
        k.copy_async_commit()

    def arrive() -> None:
        """Wait until the oldest tiles are copied, and the multiplied ones are free, for all."""
        k.copy_async_wait(plan.stages - 2)
        k.barrier()

    zero, last_stage = k.constant(0, u32), plan.stages - 1
    for step in range(plan.stages - 1):
        copy(k.constant(step, u32), k.constant(step, u32))
    arrive()
    sums = [k.constant(0.0, f32)] * (plan.own[0] * plan.own[1])
    first = load(zero, 0) if plan.ahead else []
    steps = (of_a.depth + (plan.depth - 1)) // plan.depth
    carried = first, sums, zero, k.constant(last_stage, u32)
    with k.range(0, steps, carry=carried) as loop:
        fragments, sums, stage, free = loop.carried
        following = k.select(stage == last_stage, 0, stage + 1)
        for at in range(count):
            last = at == count - 1
            if not plan.ahead:
                fragments = load(stage, at)
            if last:
                arrive()
            ahead = []
            if plan.ahead:
                ahead = load(following, 0) if last else load(stage, at + 1)
            if at == 0:
                # All copies are issued together: a copy waits for shared memory accesses before it.
                copy(loop.index + (plan.stages - 1), free)
            sums = multiply(fragments, sums)
            fragments = ahead
        loop.next((fragments, sums, following, stage))
    _put(k, plan, place, room, loop.results[1], of_a.first, of_b.first, store)


def _put(
    k: Builder, plan: FmaPlan, place: _Position, room: Value, sums: Sequence[Value], row: Value,
    column: Value, store: Store,
) -> None:  # fmt: skip
    """Store the sums; slices first add theirs, a share of the vectors each, in a fixed order."""
    per_row = plan.own[1] // VECTOR
    vectors = [tuple(sums[at : at + VECTOR]) for at in range(0, len(sums), VECTOR)]

    def put(at_row: int | Value, at_column: int | Value, values: Sequence[Value]) -> None:
        below = at_row // VECTOR * place.apart[0] + at_row % VECTOR
        store(
            row + (place.row + below), column + (place.column + at_column * place.apart[1]), values
        )

    if plan.slices == 1:
        for number, values in enumerate(vectors):
            put(number // per_row, number % per_row, values)
        return
    lanes = plan.lanes // plan.slices
    lane, share = k.local_id() & (lanes - 1), len(vectors) // plan.slices
    # Copies of zeros may still be pending in the memory of the sums.
    k.copy_async_wait(0)
    k.barrier()
    for number, values in enumerate(vectors):
        at = (place.slice * len(vectors) + number) * lanes + lane
        k.store(room, at * VECTOR, *values)
    k.barrier()
    for number in range(share):
        vector = place.slice * share + number
        total: tuple[Value, ...] = ()
        for part in range(plan.slices):
            at = (vector + part * len(vectors)) * lanes + lane
            values = k.load(room, at * VECTOR, VECTOR)
            total = tuple(x + y for x, y in zip(total, values, strict=True)) if total else values
        put(vector >> log2(per_row), vector & (per_row - 1), total)
