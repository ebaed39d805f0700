"""The kernel that multiplies a matrix of blocks by a vector without storing dequantised weights.

One skeleton serves all formats: a workgroup has some rows, its instances share the positions of
these rows, and their sums are added at the end. On a CPU, adjacent instances, the lanes of a
vector, decode adjacent positions, so that bytes and activations are vector loads and scales are
loaded once. On a GPU an instance decodes as many positions as it loads at a time, so that they
share the cost of scales. There, instances of a subgroup may have different rows and the same
positions, so that their loads of the vector hit the same few cache lines. Activations and sums are
f32.
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

    An instance has `at_once` rows, and `width` positions at a time; `together` parts of a subgroup
    of 32 have different rows, and a workgroup has `at_once * together` rows.
    """
    decoder, lane = QUANTISED_TYPES[form].decoder.with_table(k), k.local_id()
    shared = Sharing(k, at_once, together)
    first = shared.first
    # Rows beyond the last are clamped, and not stored.
    wanted = [k.minimum(first + number, rows - 1) * blocks_per_row for number in range(at_once)]
    # All instances then share a row, and each has the same places of every block.
    aligned = width == together == 1 and decoder.positions % k.workgroup_size == 0
    chains = min(_CHAINS, len(list(_places(decoder, k.workgroup_size)))) if aligned else 1
    zeros = tuple([k.constant(0.0, f32)] * (at_once * chains))
    if aligned:
        with k.range(0, blocks_per_row, carry=zeros) as loop:
            sums = list(loop.carried)
            for chain, (group, start) in enumerate(_places(decoder, k.workgroup_size)):
                for number, row in enumerate(wanted):
                    at = chain % _CHAINS * at_once + number
                    position = lane + start
                    sixteen = start // 16 if k.workgroup_size <= 16 else position >> 4
                    place = DecodePosition(row + loop.index, group, position, sixteen, 1)
                    (sums[at],) = _all_added(k, decoder, blocks, x, [place], loop.index, [sums[at]])
            loop.next(tuple(sums))
    else:
        parts = decoder.positions // width
        units = blocks_per_row * (decoder.groups * parts)
        # rows > 0, which the assembler does not know, so it cannot fold the constant.
        magic = k.select(rows == 0, k.constant(0, u32), k.constant(MAGIC, u32))
        with k.range(shared.begin, units, shared.step, carry=zeros) as loop:
            # Shifts, because assemblers expand divisions.
            position, group_index = (loop.index & (parts - 1)) * width, loop.index >> log2(parts)
            part, block = group_index & (decoder.groups - 1), group_index >> log2(decoder.groups)
            places = [
                DecodePosition(row + block, part, position, position >> 4, width, magic)
                for row in wanted
            ]
            loop.next(_all_added(k, decoder, blocks, x, places, block, loop.carried))
    totals = [sum_of(loop.results[number::at_once]) for number in range(at_once)]
    shared.put(totals, rows, y)


_CHAINS = 4
"""Independent sums of a row, if all places of a block are unrolled."""


def _places(decoder: BlockDecoder, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield each group of a block with the first places of `lanes` adjacent instances in it."""
    for group in range(decoder.groups):
        for start in range(0, decoder.positions, lanes):
            yield group, start


def _all_added(
    k: Builder, decoder: BlockDecoder, blocks: Value, x: Value, places: Sequence[DecodePosition],
    column: Value, totals: Sequence[Value],
) -> tuple[Value, ...]:  # fmt: skip
    """Return sums of rows plus the instance's products for block `column` of each row."""
    sums, width = list(totals), places[0].width
    decoded = [decoder.decode(k, blocks, place) for place in places]
    for of_rows in zip(*decoded, strict=True):
        at = column * decoder.elements + of_rows[0].start
        if width == 1:
            sums = [k.fma(run.fused(k)[0], x[at], sum_) for run, sum_ in zip(of_rows, sums)]
            continue
        activations = _loaded(k, x, at, width)
        # The sum of activations is shared by all rows.
        activation_sum = sum_of(activations) if of_rows[0].minimum is not None else None
        for row, run in enumerate(of_rows):
            sums[row] = k.fma(run.scale, _products(k, run, activations), sums[row])
            if run.minimum is not None and activation_sum is not None:
                sums[row] = sums[row] - run.minimum * activation_sum
    return tuple(sums)


def _loaded(k: Builder, x: Value, at: Value, width: int) -> list[Value]:
    """Load `width` elements of the vector, up to 16 bytes at a time."""
    element = element_of(x)
    count = min(width, WIDEST // element.bytes)
    if element is f32:
        source = k.pointer_add(x, at)
        return [v for part in range(0, width, count) for v in k.load(source, part, count)]
    accesses, first = Accesses(k, element, count), at >> log2(count)
    source = accesses.of(x)
    return [v for part in range(width // count) for v in accesses.load(source, first + part)]


def element_of(pointer: Value) -> Type:
    """Return the element type of a pointer."""
    assert isinstance(pointer.type, PointerType)
    return pointer.type.element


def _products(k: Builder, run: Run, activations: list[Value]) -> Value:
    """Return the sum of integers times activations, grouped by the shift of the integers."""
    by_shift: dict[int, Value] = {}
    for at, (number, value) in enumerate(zip(run.integers, activations, strict=True)):
        shift, subtotal = run.shift(at), by_shift.get(run.shift(at))
        by_shift[shift] = number * value if subtotal is None else k.fma(number, value, subtotal)
    total: Value | None = None
    for shift, part in by_shift.items():
        step = k.constant(2.0**-shift, f32)
        total = (part * step if shift else part) if total is None else k.fma(part, step, total)
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


class Sharing:
    """The rows and places of an instance, and the reduction of its sums."""

    def __init__(self, k: Builder, at_once: int, together: int) -> None:
        self._k, self._at_once, self._together = k, at_once, together
        self._rows, lane = at_once * together, k.local_id()
        self.begin = lane
        """The index of the instance's first places, in units of `width` places."""
        self.step = k.workgroup_size // together
        self.first = k.workgroup_id() * self._rows
        """The first row of the instance."""
        if together == 1:
            self._room = room_for_sums(k, at_once)
            return
        self._side = SUBGROUP // together
        self._of_subgroup = (lane >> log2(self._side) & (together - 1)) * at_once
        self._group, self._beside = lane >> log2(SUBGROUP), lane & (self._side - 1)
        self.begin = self._group * self._side + self._beside
        self.first = self.first + self._of_subgroup
        self._room = k.shared(f32, self._rows * (k.workgroup_size // SUBGROUP))

    def put(self, sums: list[Value], rows: Value, y: Value) -> None:
        """Add the sums of instances in a fixed order, and store those of existing rows."""
        k, lane, room = self._k, self._k.local_id(), self._room
        if self._together == 1 or room is None:
            for number, total in enumerate(sums_of_workgroup(k, sums, room)):
                with k.if_((lane == 0) & (self.first + number < rows)):
                    y[self.first + number] = total
            return
        for number, value in enumerate(sums):
            for bit in range(log2(self._side)):
                value = value + k.shuffle(value, k.lane_id() ^ (self._side >> bit + 1))
            with k.if_(self._beside == 0):
                room[self._group * self._rows + self._of_subgroup + number] = value
        k.barrier()
        row = k.workgroup_id() * self._rows + lane
        with k.if_((lane < self._rows) & (row < rows)):
            groups = range(k.workgroup_size // SUBGROUP)
            y[row] = sum_of([room[lane + group * self._rows] for group in groups])


def room_for_sums(k: Builder, count: int) -> Value | None:
    """Allocate shared memory for `count` sums of a workgroup; None if one subgroup holds it."""
    alone = k.machine.has(Capability.SUBGROUPS) and k.subgroup_size >= k.workgroup_size
    if k.workgroup_size == 1 or alone:
        return None
    return k.shared(f32, count * k.workgroup_size)


def sums_of_workgroup(k: Builder, sums: list[Value], room: Value | None) -> list[Value]:
    """Return sums over the workgroup, valid in its first instance."""
    if room is None:
        return sums if k.workgroup_size == 1 else [k.subgroup_sum(value) for value in sums]
    size, lane = k.workgroup_size, k.local_id()
    for number, value in enumerate(sums):
        room[lane + number * size] = value
    k.barrier()
    while size > 1:
        half = (size + 1) // 2
        with k.if_(lane + half < size):
            for number in range(len(sums)):
                at = lane + number * k.workgroup_size
                room[at] = room[at] + room[at + half]
        k.barrier()
        size = half
    return [room[number * k.workgroup_size] for number in range(len(sums))]


MULTIPLY_BLOCKS = {
    element: definition(
        f"multiply_blocks{'' if element is f32 else f'_{element}'}", _multiply, rows=u32,
        blocks_per_row=u32, blocks=pointer(u8), x=pointer(element), y=pointer(element),
    )
    for element in TYPES
}  # fmt: skip
"""The kernels by the type of the vector and of the result."""
