"""The kernel that multiplies a quantised matrix by a vector without storing dequantised weights.

One kernel function serves all formats. A workgroup has some rows. The positions of a row are
divided among the workgroup's instances, and the instances' sums are added at the end. On a CPU,
adjacent lanes of a vector decode adjacent positions, so bytes and activations are vector loads, and
scales are loaded once. On a GPU an instance decodes all positions of one load, which share the cost
of a scale. Parts of a GPU subgroup may also have different rows and the same positions, so that
they load the same cache lines of the vector. Activations and sums are f32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quod.kernel import Builder, Value, f32, pointer, u32
from quod.kernel.ir.types import PointerType, Type, u8
from quod.kernel.machine import Capability
from quod.tensor.accesses import Accesses
from quod.tensor.definitions import definition
from quod.tensor.matmul.kernel import TYPES
from quod.tensor.matmul.tiles import log2
from quod.tensor.quantised.decoders import MAGIC, BlockDecoder, DecodePosition, Run
from quod.tensor.quantised.types.table import QUANTISED_TYPES
from quod.tensor.rows.plan import WIDEST


def _multiply(
    k: Builder, rows: Value, blocks_per_row: Value, blocks: Value, x: Value, y: Value, *,
    form: str, width: int, at_once: int, together: int = 1,
) -> None:  # fmt: skip
    """y = the matrix times x: y[r] = sum of values[r, c] * x[c].

    An instance has `at_once` rows, and decodes `width` positions at a time. A subgroup of 32 is
    divided into `together` parts with different rows, so a workgroup has `at_once * together` rows.
    """
    decoder, lane = QUANTISED_TYPES[form].decoder.with_table(k), k.local_id()
    work = WorkDivision(k, at_once, together)
    first_row = work.first
    # Rows beyond the last are clamped, and not stored.
    row_blocks = [
        k.minimum(first_row + row_index, rows - 1) * blocks_per_row for row_index in range(at_once)
    ]
    # If aligned, all instances share a row, and an instance has the same positions in every block.
    aligned = width == together == 1 and decoder.positions % k.workgroup_size == 0
    chains = (
        min(_CHAINS, len(list(_unrolled_positions(decoder, k.workgroup_size)))) if aligned else 1
    )
    zeros = tuple([k.constant(0.0, f32)] * (at_once * chains))
    if aligned:
        with k.range(0, blocks_per_row, carry=zeros) as loop:
            sums = list(loop.carried)
            for chain, (group, start) in enumerate(_unrolled_positions(decoder, k.workgroup_size)):
                for index, first_block in enumerate(row_blocks):
                    sum_index = chain % _CHAINS * at_once + index
                    position = lane + start
                    sixteenth = start // 16 if k.workgroup_size <= 16 else position >> 4
                    block_position = DecodePosition(
                        first_block + loop.index, group, position, sixteenth, 1
                    )
                    (sums[sum_index],) = _add_products(
                        k, decoder, blocks, x, [block_position], loop.index, [sums[sum_index]]
                    )
            loop.next(tuple(sums))
    else:
        positions_per_group = decoder.positions // width
        units = blocks_per_row * (decoder.groups * positions_per_group)
        # Always `MAGIC`, as rows > 0. The assembler cannot know that, so it does not fold it.
        magic = k.select(rows == 0, k.constant(0, u32), k.constant(MAGIC, u32))
        with k.range(work.begin, units, work.step, carry=zeros) as loop:
            # Shifts, because assemblers expand divisions.
            position, group_index = (
                (loop.index & (positions_per_group - 1)) * width,
                loop.index >> log2(positions_per_group),
            )
            group_in_block, block = (
                group_index & (decoder.groups - 1), group_index >> log2(decoder.groups)
            )  # fmt: skip
            block_positions = [
                DecodePosition(
                    first_block + block, group_in_block, position, position >> 4, width, magic
                )
                for first_block in row_blocks
            ]
            loop.next(_add_products(k, decoder, blocks, x, block_positions, block, loop.carried))
    totals = [sum_of(loop.results[index::at_once]) for index in range(at_once)]
    work.put(totals, rows, y)


_CHAINS = 4
"""The number of independent sums of a row, if the loop over positions is unrolled."""


def _unrolled_positions(decoder: BlockDecoder, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield (group, start) for each run of `lanes` adjacent positions in the groups of a block."""
    for group in range(decoder.groups):
        for start in range(0, decoder.positions, lanes):
            yield group, start


def _add_products(
    k: Builder, decoder: BlockDecoder, blocks: Value, x: Value,
    block_positions: Sequence[DecodePosition],
    block_index: Value, totals: Sequence[Value],
) -> tuple[Value, ...]:  # fmt: skip
    """Return sums of rows plus the instance's products for block `block_index` of each row."""
    sums, width = list(totals), block_positions[0].width
    decoded = [decoder.decode(k, blocks, block_position) for block_position in block_positions]
    for runs_of_rows in zip(*decoded, strict=True):
        first_element = block_index * decoder.elements + runs_of_rows[0].start
        if width == 1:
            sums = [
                k.fma(run.fused(k)[0], x[first_element], sum_)
                for run, sum_ in zip(runs_of_rows, sums)
            ]
            continue
        activations = _load_activations(k, x, first_element, width)
        # The sum of activations is shared by all rows.
        activation_sum = sum_of(activations) if runs_of_rows[0].minimum is not None else None
        for row, run in enumerate(runs_of_rows):
            sums[row] = k.fma(run.scale, _inner_product(k, run, activations), sums[row])
            if run.minimum is not None and activation_sum is not None:
                sums[row] = sums[row] - run.minimum * activation_sum
    return tuple(sums)


def _load_activations(k: Builder, x: Value, start: Value, width: int) -> list[Value]:
    """Load `width` elements of the vector, up to 16 bytes at a time."""
    element = element_of(x)
    count = min(width, WIDEST // element.bytes)
    if element is f32:
        source = k.pointer_add(x, start)
        return [v for offset in range(0, width, count) for v in k.load(source, offset, count)]
    accesses, first_access = Accesses(k, element, count), start >> log2(count)
    source = accesses.of(x)
    return [
        v for access in range(width // count) for v in accesses.load(source, first_access + access)
    ]


def element_of(pointer: Value) -> Type:
    """Return the element type of a pointer."""
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def _inner_product(k: Builder, run: Run, activations: list[Value]) -> Value:
    """Return the sum of integers times activations, grouped by the shift of the integers."""
    by_shift: dict[int, Value] = {}
    for index, (number, value) in enumerate(zip(run.integers, activations, strict=True)):
        shift, subtotal = run.shift(index), by_shift.get(run.shift(index))
        by_shift[shift] = number * value if subtotal is None else k.fma(number, value, subtotal)
    total: Value | None = None
    for shift, partial_sum in by_shift.items():
        factor = k.constant(2.0**-shift, f32)
        total = (
            (partial_sum * factor if shift else partial_sum)
            if total is None
            else k.fma(partial_sum, factor, total)
        )
    assert total is not None
    return total


def sum_of(values: list[Value] | tuple[Value, ...]) -> Value:
    """Add values pair by pair."""
    terms = list(values)
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2])]
        terms = pairs + terms[len(terms) & ~1 :]
    return terms[0]


SUBGROUP = 32
"""Instances of a subgroup whose parts have different rows."""


class WorkDivision:
    """The rows and positions of an instance, and the reduction of its sums."""

    def __init__(self, k: Builder, rows_per_instance: int, row_groups: int) -> None:
        self._k, self._row_groups = k, row_groups
        self._rows, lane = rows_per_instance * row_groups, k.local_id()
        self.begin = lane
        """The index of the instance's first positions, in units of `width` positions."""
        self.step = k.workgroup_size // row_groups
        self.first = k.workgroup_id() * self._rows
        """The first row of the instance."""
        if row_groups == 1:
            self._buffer = room_for_sums(k, rows_per_instance)
            return
        self._lanes_per_part = SUBGROUP // row_groups
        self._first_own_row = (
            lane >> log2(self._lanes_per_part) & (row_groups - 1)
        ) * rows_per_instance
        self._subgroup, self._lane_in_part = (
            lane >> log2(SUBGROUP),
            lane & (self._lanes_per_part - 1),
        )
        self.begin = self._subgroup * self._lanes_per_part + self._lane_in_part
        self.first = self.first + self._first_own_row
        self._buffer = k.shared(f32, self._rows * (k.workgroup_size // SUBGROUP))

    def put(self, sums: list[Value], rows: Value, y: Value) -> None:
        """Add the sums of instances in a fixed order, and store those of existing rows."""
        k, lane, buffer = self._k, self._k.local_id(), self._buffer
        if self._row_groups == 1 or buffer is None:
            for row_index, total in enumerate(sums_of_workgroup(k, sums, buffer)):
                with k.if_((lane == 0) & (self.first + row_index < rows)):
                    y[self.first + row_index] = total
            return
        for row_index, value in enumerate(sums):
            for bit in range(log2(self._lanes_per_part)):
                value = value + k.shuffle(value, k.lane_id() ^ (self._lanes_per_part >> bit + 1))
            with k.if_(self._lane_in_part == 0):
                buffer[self._subgroup * self._rows + self._first_own_row + row_index] = value
        k.barrier()
        row = k.workgroup_id() * self._rows + lane
        with k.if_((lane < self._rows) & (row < rows)):
            subgroups = range(k.workgroup_size // SUBGROUP)
            y[row] = sum_of([buffer[lane + subgroup * self._rows] for subgroup in subgroups])


def room_for_sums(k: Builder, sums_per_instance: int) -> Value | None:
    """Allocate shared memory for the sums of a workgroup; None if that is one subgroup."""
    fits_subgroup = k.machine.has(Capability.SUBGROUPS) and k.subgroup_size >= k.workgroup_size
    if k.workgroup_size == 1 or fits_subgroup:
        return None
    return k.shared(f32, sums_per_instance * k.workgroup_size)


def sums_of_workgroup(k: Builder, sums: list[Value], buffer: Value | None) -> list[Value]:
    """Return sums over the workgroup, valid in its first instance."""
    if buffer is None:
        return sums if k.workgroup_size == 1 else [k.subgroup_sum(value) for value in sums]
    size, lane = k.workgroup_size, k.local_id()
    for index, value in enumerate(sums):
        buffer[lane + index * size] = value
    k.barrier()
    while size > 1:
        half = (size + 1) // 2
        with k.if_(lane + half < size):
            for index in range(len(sums)):
                offset = lane + index * k.workgroup_size
                buffer[offset] = buffer[offset] + buffer[offset + half]
        k.barrier()
        size = half
    return [buffer[index * k.workgroup_size] for index in range(len(sums))]


MULTIPLY_BLOCKS = {
    element: definition(
        f"multiply_blocks{'' if element is f32 else f'_{element}'}", _multiply, rows=u32,
        blocks_per_row=u32, blocks=pointer(u8), x=pointer(element), y=pointer(element),
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by the type of the vector and of the result."""
