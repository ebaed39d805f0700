"""Reduce bucket sums to a few points with weights.

Bucket b of a window has weight b + 1. With b = row * 2**l + column, the sum of b * B_b is
2**l * sum(row * R_row) + sum(column * C_column), where R and C are the sums of rows and columns.
A row or column is called a line. The sums take two additions per bucket, which are independent
except for the trees in which lanes sum a line. Row sums and column sums are weighted vectors again,
and are split further until a few dozen points remain for the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import (
    PRODUCTS_OF_ADDITION,
    Form,
    SumArithmetic,
    addition_cost,
    resident_workgroups,
)
from quod.curve.sums.four_lanes import LANES, LANES_PER_SUM, FourLaneSum, four_lane_arithmetic
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen, replace
from quod.kernel.builder.builder import Builder
from quod.kernel.builder.structs import Struct
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import GpuMsmPlan

# log2 of the number of points above which a vector is split into rows and columns.
SHORT_BITS = 5

# The number of points of a line for eight groups of four lanes. A line of four times as many is
# split into parts of this size if lanes are idle, and the next launch adds the parts.
_FOUR_LANES_LENGTH = 32

# The minimum number of points per lane. If there are enough points, every line is split into parts
# of one lane, because lanes that share a line idle in a tree.
_LANE_LENGTH = 16


@frozen
class Vector:
    """A vector of 2**(parts + bits) points per window.

    bits: log2 of the number of points of a part.
    place: point part * 2**bits + i has the weight i * 2**place.
    parts: log2 of the number of parts, whose points are to be added.
    """

    bits: int
    place: int
    parts: int = 0

    @property
    def is_short(self) -> bool:
        """True if the vector is final: one part of at most 2**SHORT_BITS points."""
        return self.bits <= SHORT_BITS and self.parts == 0

    def halves(self) -> tuple[Vector, ...]:
        """Return the vectors of its row sums and column sums.

        If a part is short, return the vector of sums over the parts instead.
        """
        if self.bits <= SHORT_BITS:
            return (Vector(self.bits, self.place),)
        low = self.bits // 2
        return Vector(self.bits - low, self.place + low), Vector(low, self.place)


class LineShape(Struct):
    """The lines of one launch: rows or columns of vectors of 2**bits points.

    Line (v * 2**parts + part) * 2**kept + j sums the points of a part of vector v whose number has
    the value j in the low (`low` = 1) or the high `kept` of its low `width` bits.
    """

    lines: U32
    bits: U32
    width: U32
    kept: U32
    parts: U32
    low: U32


@frozen
class Cut:
    """One launch: sums over the points of `source` that agree in the bits of `target`.

    lines: the number of sums of all windows.
    length: the number of points of a sum.
    by_four_lanes: four lanes share an addition.
    lanes: the number of lanes that share a line.
    """

    source: Vector
    target: Vector
    lines: int
    length: int
    by_four_lanes: bool
    lanes: int

    @property
    def is_low(self) -> bool:
        """True if the target keeps the low bits of the source's point numbers."""
        return self.target.place == self.source.place

    @property
    def shape_words(self) -> tuple[int, ...]:
        """The fields of its `LineShape`."""
        source, target = self.source, self.target
        return (
            self.lines, source.bits + source.parts, source.bits, target.bits, target.parts,
            int(self.is_low),
        )  # fmt: skip


def cuts_of(plan: GpuMsmPlan, resident_lanes: int) -> Iterator[Cut]:
    """Yield the launches that reduce all windows, in an order that respects dependencies."""
    max_points = max(LANES, resident_lanes // 4)

    def cut(source: Vector) -> Iterator[Cut]:
        for half in source.halves():
            lines = plan.all_windows << half.bits
            length = 1 << (source.bits + source.parts - half.bits)
            by_four_lanes = not plan.limits.compact and lines * length <= max_points
            if by_four_lanes:
                max_part_bits = (max_points // (lines * LANES)).bit_length() - 1
                parts = max(0, min(max_part_bits, (length // _FOUR_LANES_LENGTH).bit_length() - 1))
                parts = 0 if length < 4 * _FOUR_LANES_LENGTH else parts
            else:
                lane_length = max(_LANE_LENGTH, lines * length // max_points)
                parts = max(0, length.bit_length() - lane_length.bit_length())
            lines, length = lines << parts, length >> parts
            lanes = LANES_PER_SUM * min(LANES // LANES_PER_SUM, length) if by_four_lanes else 1
            target = replace(half, parts=parts)
            yield Cut(source, target, lines, length, by_four_lanes, lanes)
            if not target.is_short:
                yield from cut(target)

    yield from cut(Vector(plan.window_bits - 1, 0))


@frozen
class Line:
    """The points of one line.

    number: the index of the line among those of the launch.
    length: its number of points; 0 if there is no such line.
    first, base, rest_bits, high_shift: the mapping from a point of the line to its index among all
        points; see `point`.
    """

    number: Value
    exists: Value
    length: Value
    first: Value
    base: Value
    rest_bits: Value
    high_shift: Value

    @classmethod
    def of(cls, k: Builder, number: Value, shape: LineShape) -> Line:
        """Return line `number` of a launch."""
        bits, kept, parts = shape.bits, shape.kept, shape.parts
        exists = number < shape.lines
        one = k.constant(1, types.u32)
        length_bits = bits - kept - parts
        kept_value = number & ((one << kept) - 1)
        part = (number >> kept) & ((one << parts) - 1)
        vector = number >> (kept + parts)
        is_low = shape.low != 0
        # The summed bits are below the kept bits or above them; the bits of parts are always above.
        rest_bits = k.select(is_low, 0, shape.width - kept)
        return cls(
            number, exists, k.select(exists, one << length_bits, 0), part << length_bits,
            (vector << bits) + (kept_value << rest_bits), rest_bits, kept + rest_bits,
        )  # fmt: skip

    def point(self, position: Value) -> Value:
        """Return the index, among all points, of the line's point number `position`."""
        summed_bits = self.first + position
        high = summed_bits >> self.rest_bits
        return self.base + (summed_bits - (high << self.rest_bits)) + (high << self.high_shift)

    def sum(
        self, k: Builder, law: SumArithmetic[Any], points: Value, first_chunk: Value, *,
        gathered: bool,
    ) -> Any:  # fmt: skip
        """Add all points of the line; see `sum_lines` for `gathered`."""
        with k.range(0, self.length, carry=law.neutral()) as loop:
            index = self.point(loop.index)
            if gathered:
                first = first_chunk[index]
                with k.if_(first_chunk[index + 1] != first) as branch:
                    branch.yield_(law.add(loop.carried, law.load(points, first)))
                with branch.otherwise():
                    branch.yield_(loop.carried)
                total = branch.results
            else:
                total = law.add(loop.carried, law.load(points, index))
            loop.next(total)
        return loop.results


@kernel
def sum_lines(
    k: Builder,
    shape: LineShape,
    points: Pointer[U64],
    first_chunk: Pointer[U32],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
    gathered: bool,
) -> None:
    """Compute out[i] = the sum of line i.

    gathered: point i is points[first_chunk[i]], or infinity if first_chunk[i + 1] is equal to
        first_chunk[i]; otherwise point i is points[i].
    """
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    line = Line.of(k, k.global_id(), shape)
    total = line.sum(k, law, points, first_chunk, gathered=gathered)
    with k.if_(line.exists):
        law.store(out, line.number, total)


@kernel
def sum_short_lines(
    k: Builder,
    shape: LineShape,
    gathered: U32,
    points: Pointer[U64],
    first_chunk: Pointer[U32],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
    groups_per_line: int,
) -> None:
    """Compute `sum_lines` with four lanes per addition, for too few points to fill all lanes.

    gathered: 0 or 1. A static argument would save little time, and cost a second long kernel.
    """
    law = four_lane_arithmetic(k, group, form)
    group_of_four = k.global_id() // LANES_PER_SUM
    line = Line.of(k, group_of_four // groups_per_line, shape)
    group_in_line = group_of_four % groups_per_line
    length = k.constant(1, types.u32) << (shape.bits - shape.kept - shape.parts)
    rounds = (length + (groups_per_line - 1)) // groups_per_line

    def point(position: Value) -> FourLaneSum:
        exists = position < line.length
        index = k.select(exists, line.point(position), 0)
        with k.if_(gathered != 0) as branch:
            first = first_chunk[index]
            branch.yield_(exists & (first_chunk[index + 1] != first), first)
        with branch.otherwise():
            branch.yield_(exists, index)
        exists, index = branch.results
        return law.load_where(exists, points, index)

    start = point(group_in_line)
    with k.range(1, rounds, carry=(start.coordinate, start.infinity)) as loop:
        total = law.add(
            FourLaneSum(*loop.carried), point(loop.index * groups_per_line + group_in_line)
        )
        loop.next((total.coordinate, total.infinity))
    total = law.total(FourLaneSum(*loop.results), groups_per_line)
    with k.if_(line.exists & (group_in_line == 0)):
        law.store(out, line.number, total)


def vectors_of(plan: GpuMsmPlan) -> tuple[Vector, ...]:
    """Return the final vectors of a window, highest weights first."""

    def cut(vector: Vector) -> tuple[Vector, ...]:
        if vector.is_short:
            return (vector,)
        return tuple(part for half in vector.halves() for part in cut(half))

    return cut(Vector(plan.window_bits - 1, 0))


def line_bytes(plan: GpuMsmPlan) -> int:
    """Return the bytes of the lines that `record` writes."""
    points = sum(1 << vector.bits for vector in vectors_of(plan))
    return 8 * plan.sum_words * plan.all_windows * points


def scratch_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """Return the bytes of scratch memory that `record` needs."""
    cuts = cuts_of(plan, device.resident_lanes)
    return 8 * plan.sum_words * sum(cut.lines for cut in cuts if not cut.target.is_short)


def record(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    first_chunk: Buffer | None,
    sums: Buffer,
    lines: Buffer,
    scratch: Buffer,
    record_cut: RecordCut | None = None,
) -> None:
    """Record the reduction of bucket sums to the vectors of `vectors_of`.

    first_chunk: the sum of bucket b is sums[first_chunk[b]]; if None, it is sums[b], which is zeros
        if the bucket is empty.
    lines: receives the vectors one after the other, each for all windows.
    record_cut: records each cut; default: by the kernels of this module.
    """
    record_cut = record_cut or _record_cut
    outputs: dict[Vector, Buffer] = {}
    used_bytes = {True: 0, False: 0}
    for cut in cuts_of(plan, device.resident_lanes):
        is_short = cut.target.is_short
        start, stop = used_bytes[is_short], used_bytes[is_short] + 8 * plan.sum_words * cut.lines
        used_bytes[is_short] = stop
        gathered = cut.source not in outputs and first_chunk is not None
        points = outputs.get(cut.source, sums)
        out = outputs[cut.target] = (lines if is_short else scratch).slice(start, stop)
        record_cut(recording, device, plan, cut, first_chunk if gathered else None, points, out)


class RecordCut(Protocol):
    """Records the sums of one cut."""

    def __call__(
        self, recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, cut: Cut,
        first_chunk: Buffer | None, points: Buffer, out: Buffer, /,
    ) -> None:  # fmt: skip
        """Write the sums to `out`; with `first_chunk`, points are gathered as in `sum_lines`."""


def _record_cut(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, cut: Cut,
    first_chunk: Buffer | None, points: Buffer, out: Buffer, /,
) -> None:  # fmt: skip
    static: dict[str, Any] = {"group": plan.group, "form": plan.form}
    shape: tuple[LineShape | int, ...] = (LineShape(*cut.shape_words),)
    gathered = first_chunk is not None
    if cut.by_four_lanes:
        kernel = device.compile(
            sum_short_lines, lanes=LANES, groups_per_line=cut.lanes // LANES_PER_SUM, **static
        )
        shape = (*shape, int(gathered))
    else:
        kernel = device.compile(sum_lines, gathered=gathered, **static)
    additions, products = cut.lines * cut.length, PRODUCTS_OF_ADDITION[plan.form]
    recording.launch(
        kernel, -(-cut.lines * cut.lanes // kernel.lanes), *shape, points, first_chunk or points,
        out, label="reduce", bytes=8 * plan.sum_words * additions,
        modmuls=additions * products * plan.group.degree,
        multiply_adds=additions * addition_cost(plan.group, plan.form, products),
    )  # fmt: skip
