"""The matrix product on tensor cores: asynchronous tile copies, and matrix loads of subgroups.

Tiles of several steps of K are in a ring in shared memory: while one is multiplied, the others are
being copied. Source of the structure: CUTLASS, "Efficient GEMM in CUDA", and its multistage main
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.kernel import Builder, Value, u32, u64
from quod.kernel.ir.types import Type, loaded_type
from quod.tensor.matmul.plan import CorePlan
from quod.tensor.matmul.tiles import Edges

Values = tuple[Value, ...]

_WORDS = 4
"""Words of a copy, and of a matrix row: eight 16-bit elements."""
_ELEMENTS = 8
_MATRIX = 16
"""Rows and columns of one matrix load: four 8 x 8 matrices."""


class Ring:
    """Tiles of an operand: `width` of the long axis and `depth` of K, in `stages` stages.

    Lines are rows of K if the operand is `along` its long axis, else rows of that axis. Copies of
    eight elements are swizzled within a line, so that neither copies nor matrix loads, which read
    eight lines at one index, have bank conflicts.
    """

    def __init__(
        self, k: Builder, element: Type, operand: Edges, plan: CorePlan, width: int, base: Value, *,
        is_first: bool,
    ) -> None:  # fmt: skip
        """Allocate the tiles of A (`is_first`) or B; `base` is the first index on the long axis."""
        self._k, self._operand, self._along = k, operand, operand.along
        self._element, self._width = element, width
        lines, length = (plan.depth, width) if self._along else (width, plan.depth)
        self._pitch = length // 2
        self._places = length // _ELEMENTS
        self._size = lines * self._pitch
        self._room = k.shared(u32, self._size * plan.stages)
        self._stages, self._depth = plan.stages, plan.depth
        self._share_out(plan.lanes)
        self._starts = self._matrices(base, plan, is_first)

    def _share_out(self, lanes: int) -> None:
        """Compute the addresses that this instance copies in each step."""
        k = self._k
        # An instance copies the same index of lines that are `_apart` lines from each other.
        self._apart = lanes // self._places
        self._count = self._size // (self._pitch * self._apart)
        line, self._place = k.local_id() // self._places, k.local_id() % self._places
        self._lines = [line + number * self._apart for number in range(self._count)]
        self._targets = [
            line * self._pitch
            + self._exchanged(line + number * self._apart % 8, self._place) * _WORDS
            for number in range(self._count)
        ]
        self._inside = self._operand.behind(self._place, _ELEMENTS)
        self._sources = [self._source(line) for line in self._lines]

    def _exchanged(self, line: Value, place: Value) -> Value:
        """Return the swizzled index of a copy in a line: eight adjacent lines use eight banks."""
        if self._places >= 8:
            return place ^ line % 8
        return place ^ line // (8 // self._places) % self._places

    def _source(self, line: Value) -> Value:
        """Return the source of a line's first copy, clamped to the matrix."""
        k, operand = self._k, self._operand
        pitch = operand.extent if self._along else operand.depth
        if self._along:
            beside = k.minimum(operand.first + self._place * _ELEMENTS, operand.extent - _ELEMENTS)
        else:
            line = k.minimum(operand.first + line, operand.extent - 1)
            beside = self._inside * _ELEMENTS
        words = line.cast(u64) * (pitch // 2).cast(u64) + (beside // 2).cast(u64)
        return k.pointer_add(operand.pointer.cast(u32), words)

    def copy(self, step: Value) -> None:
        """Start the copies of a step of K, with zeros beyond its end."""
        k, start = self._k, self._operand.begin(step, self._depth)
        stage = step % self._stages * self._size
        pitch = (self._operand.extent // 2).cast(u64)
        for number, (line, target, source) in enumerate(
            zip(self._lines, self._targets, self._sources, strict=True)
        ):
            at = start + (line if self._along else self._inside * _ELEMENTS)
            from_ = start.cast(u64) * pitch if self._along else start // 2
            to = stage + target + number * self._apart * self._pitch
            inside = at < self._operand.depth
            k.copy_async(self._room, to, source, from_, _WORDS, where=inside)

    def _matrices(self, first_index: Value, plan: CorePlan, is_first: bool) -> list[Value]:
        """Return the offset of this instance's matrix row, for each matrix along a line.

        The four matrices of a load advance along the rows of A first, then along K; for B along K
        first.
        """
        lane = self._k.lane_id()
        first, second = lane // 8 % 2, lane // 16
        of_axis, of_depth = (first, second) if is_first else (second, first)
        if self._along:
            line, place = lane % 8 + of_depth * 8, first_index // _ELEMENTS + of_axis
            count = (plan.part[0] if is_first else plan.part[1]) // _MATRIX
        else:
            line, place, count = (
                first_index + lane % 8 + of_axis * 8,
                of_depth,
                plan.depth // _MATRIX,
            )
        return [
            line * self._pitch + self._exchanged(lane % 8, place + 2 * number) * _WORDS
            for number in range(count)
        ]

    def matrices(self, stage: Value, at: int, number: int) -> Values:
        """Load the words of the subgroup's `number`-th 16 lines and the `at`-th 16 of K."""
        across, down = (number, at) if self._along else (at, number)
        place = stage * self._size + self._starts[across] + down * _MATRIX * self._pitch
        return self._k.load_matrices(self._room, place, transposed=self._along)


def multiply_in_cores(
    k: Builder, elements: tuple[Type, Type], plan: CorePlan, of_a: Edges, of_b: Edges,
    store: Callable[[Value, Value, Sequence[Value]], None], ring_of_b: Callable[..., Ring] = Ring,
) -> None:  # fmt: skip
    """Multiply the workgroup's tile of C; each subgroup has a part in its registers.

    Elements of A and B count as 16 bits here: two of 8 bits are one, and f32 is two, with lines
    along K. Of f32 10 fraction bits are used (tf32).
    """
    element, other = elements
    k.resident_workgroups(plan.resident)
    rows, columns = plan.part
    across = plan.tile[1] // columns
    own_row, own_column = k.subgroup_id() // across * rows, k.subgroup_id() % across * columns
    a = Ring(k, element, of_a, plan, plan.tile[0], own_row, is_first=True)
    b = ring_of_b(k, other, of_b, plan, plan.tile[1], own_column, is_first=False)
    down, right, halves = rows // _MATRIX, columns // _MATRIX, columns // 8

    def load(stage: Value, at: int) -> list[Values]:
        """Load the matrices of A, then those of B, for 16 of K."""
        return [
            *(a.matrices(stage, at, number) for number in range(down)),
            *(b.matrices(stage, at, number) for number in range(right)),
        ]

    def multiply(fragments: Sequence[Values], sums: Sequence[Values]) -> list[Values]:
        return [
            k.mma(
                element, fragments[row], fragments[down + column // 2][column % 2 * 2 :][:2],
                sums[row * halves + column], other=other,
            )
            for row in range(down)
            for column in range(halves)
        ]  # fmt: skip

    def copy(step: Value) -> None:
        a.copy(step)
        b.copy(step)
        k.copy_async_commit()

    def arrive() -> None:
        """Wait until the oldest tiles are copied, and the multiplied ones are free, for all."""
        k.copy_async_wait(plan.stages - 2)
        k.barrier()

    for step in range(plan.stages - 1):
        copy(k.constant(step, u32))
    arrive()
    zero = k.constant(0, loaded_type(element))
    nothing: list[Values] = [(zero,) * 4] * (down * halves)
    sums, products = nothing, nothing
    steps = (of_a.depth + (plan.depth - 1)) // plan.depth
    with k.range(0, steps, carry=(load(k.constant(0, u32), 0), sums)) as loop:
        fragments, sums = loop.carried
        stage, following = loop.index % plan.stages, (loop.index + 1) % plan.stages
        for at in range(plan.depth // _MATRIX):
            last = at == plan.depth // _MATRIX - 1
            if last:
                arrive()
            # The next factors are loaded before these are multiplied.
            ahead = load(following, 0) if last else load(stage, at + 1)
            if at == 0:
                copy(loop.index + (plan.stages - 1))
            if plan.promoted:
                # Tensor cores accumulate with fewer bits than f32.
                products = multiply(fragments, products if at else nothing)
            else:
                sums = multiply(fragments, sums)
            fragments = ahead
        if plan.promoted:
            sums = [_plus(*each) for each in zip(sums, products, strict=True)]
        loop.next((fragments, sums))
    _, sums = loop.results
    lane = k.lane_id()
    row, column = of_a.first + own_row + lane // 4, of_b.first + own_column + lane % 4 * 2
    for number, values in enumerate(sums):
        below, beside = number // halves * _MATRIX, number % halves * 8
        store(row + below, column + beside, values[:2])
        store(row + (below + 8), column + beside, values[2:])


def _plus(a: Values, b: Values) -> Values:
    return tuple([x + y for x, y in zip(a, b, strict=True)])
