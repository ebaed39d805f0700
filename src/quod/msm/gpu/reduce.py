"""From bucket sums to the result.

Bucket b of a window has the weight b + 1. With b = row * 2**l + column, the sum of b * B_b is
2**l * sum(row * R_row) + sum(column * C_column), where R and C are the sums of rows and columns:
two additions a bucket, all of them independent but for the trees in which lanes add up a line.
Rows and columns are vectors with weights again, and are cut further until a few dozen points are
left for the host.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from quod.curve.groups import Group
from quod.device.buffer import Buffer
from quod.device.cpu import CpuDevice
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.value import U32, U64, Pointer, Value
from quod.msm.gpu.forms import sum_arithmetic
from quod.msm.gpu.layout import Form, GpuMsmPlan
from quod.msm.gpu.quads import LANES, QUAD, QuadSum, quad_arithmetic
from quod.msm.gpu.sums import PRODUCTS_OF_ADDITION

Array = np.ndarray[Any, Any]

# Lines of more points than 2**_SHORT are cut into rows and columns.
_SHORT = 5


@dataclass(frozen=True)
class Vector:
    """2**bits points a window, point i of them with the weight i * 2**place."""

    bits: int
    place: int

    @property
    def halves(self) -> tuple[Vector, Vector]:
        """Its row sums and its column sums."""
        low = self.bits // 2
        return Vector(self.bits - low, self.place + low), Vector(low, self.place)


@dataclass(frozen=True)
class _Line:
    """The `length` points start, start + stride, ... of a line; none if there is no such line."""

    number: Value
    exists: Value
    start: Value
    stride: Value
    length: Value

    @classmethod
    def of(
        cls, k: Builder, number: Value, lines: Value, bits: Value, kept: Value, low: Value
    ) -> _Line:
        exists = number < lines
        one = k.constant(1, types.u32)
        vector, own = number >> kept, number & ((one << kept) - 1)
        is_low = low != 0
        start = (vector << bits) + own * k.select(is_low, one, one << (bits - kept))
        length = k.select(exists, one << (bits - kept), 0)
        return cls(number, exists, start, k.select(is_low, one << kept, 1), length)


@kernel
def sum_lines(
    k: Builder,
    lines: U32,
    bits: U32,
    kept: U32,
    low: U32,
    points: Pointer[U64],
    first_unit: Pointer[U32],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
    gathered: bool,
    lanes_a_line: int,
) -> None:
    """The sums of rows or columns of vectors of 2**bits points.

    out[v * 2**kept + j] is the sum of the points of vector v in whose number j stands in the low
    (`low` = 1) or the high `kept` bits. With `gathered` point i is points[first_unit[i]], or
    infinity where first_unit[i + 1] is the same.
    """
    law = sum_arithmetic(k, group, form)
    line = _Line.of(k, k.global_id() // lanes_a_line, lines, bits, kept, low)
    lane = k.local_id() % lanes_a_line
    with k.range(lane, line.length, lanes_a_line, carry=law.neutral()) as loop:
        number = line.start + loop.index * line.stride
        if gathered:
            first = first_unit[number]
            with k.if_(first_unit[number + 1] != first) as branch:
                branch.give(law.add(loop.carried, law.load(points, first)))
            with branch.otherwise():
                branch.give(loop.carried)
            total = branch.results
        else:
            total = law.add(loop.carried, law.load(points, number))
        loop.next(total)
    total = law.sum_of_lanes(loop.results, lanes_a_line)
    with k.if_(line.exists & (lane == 0)):
        law.store(out, line.number, total)


@kernel
def sum_short_lines(
    k: Builder,
    lines: U32,
    bits: U32,
    kept: U32,
    low: U32,
    points: Pointer[U64],
    first_unit: Pointer[U32],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
    gathered: bool,
    quads_a_line: int,
) -> None:
    """What `sum_lines` does, with four lanes to an addition: for points too few for all lanes."""
    law = quad_arithmetic(k, group, form)
    quad = k.global_id() // QUAD
    own_line = _Line.of(k, quad // quads_a_line, lines, bits, kept, low)
    number = quad % quads_a_line
    rounds = ((k.constant(1, types.u32) << (bits - kept)) + (quads_a_line - 1)) // quads_a_line

    def point(place: Value) -> QuadSum:
        exists = place < own_line.length
        index = own_line.start + place * own_line.stride
        if gathered:
            readable = k.select(exists, index, 0)
            first = first_unit[readable]
            exists, index = exists & (first_unit[readable + 1] != first), first
        return law.load_where(exists, points, index)

    start = point(number)
    with k.range(1, rounds, carry=(start.coordinate, start.infinity)) as loop:
        total = law.add(QuadSum(*loop.carried), point(loop.index * quads_a_line + number))
        loop.next((total.coordinate, total.infinity))
    total = law.total(QuadSum(*loop.results), quads_a_line)
    with k.if_(own_line.exists & (number == 0)):
        law.store(out, own_line.number, total)


@kernel
def weigh_lines(
    k: Builder,
    count: U32,
    vectors: U32,
    starts: Pointer[U32],
    lengths: Pointer[U32],
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """out[w * vectors + v] = the weighted sum of vector v of window w.

    Weights are 0, 1, 2, ... but for the last vector, where they are 1, 2, 3, ...
    """
    law = sum_arithmetic(k, group, form)
    i = k.global_id()
    with k.if_(i < count):
        window, vector = i // vectors, i % vectors
        length = lengths[vector]
        first = starts[vector] + window * length
        last = k.select(vector == vectors - 1, k.constant(0, types.u32), 1)
        with k.range(last, length, carry=(law.neutral(), law.neutral())) as loop:
            running, total = loop.carried
            number = first + (length - 1 - (loop.index - last))
            running = law.add(running, law.load(points, number))
            loop.next((running, law.add(total, running)))
        law.store(out, i, loop.results[1])


@kernel
def combine_windows(
    k: Builder,
    windows: U32,
    vectors: U32,
    gaps: Pointer[U32],
    sums: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """The affine sums of `windows` windows each, by Horner's rule over windows and their vectors.

    gaps[v] is how often the sum is doubled before that of vector v is added.
    """
    law = sum_arithmetic(k, group, form)
    instance = k.global_id()
    terms = windows * vectors
    with k.range(0, terms, carry=law.neutral()) as loop:
        vector = loop.index % vectors
        window = (instance + 1) * windows - 1 - loop.index // vectors
        with k.range(0, gaps[vector], carry=loop.carried) as doubling:
            doubling.next(law.double(doubling.carried))
        loop.next(law.add(doubling.results, law.load(sums, window * vectors + vector)))
    k.store(out, instance * group.point_words, *law.to_affine_words(loop.results))


def vectors_of(plan: GpuMsmPlan) -> tuple[Vector, ...]:
    """The vectors that `record` leaves of each window, the greatest weights first."""

    def cut(vector: Vector) -> tuple[Vector, ...]:
        if vector.bits <= _SHORT:
            return (vector,)
        rows, columns = vector.halves
        return cut(rows) + cut(columns)

    return cut(Vector(plan.window_bits - 1, 0))


def line_bytes(plan: GpuMsmPlan) -> int:
    """What `record` leaves for the host."""
    points = sum(1 << vector.bits for vector in vectors_of(plan))
    return 8 * plan.sum_words * plan.all_windows * points


def scratch_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """Scratch memory that `record` needs."""
    return 8 * plan.sum_words * plan.all_windows * _inner_points(Vector(plan.window_bits - 1, 0))


def _inner_points(vector: Vector) -> int:
    """The points of rows and columns that are cut further, those of their own included."""
    if vector.bits <= _SHORT:
        return 0
    halves = [half for half in vector.halves if half.bits > _SHORT]
    return sum((1 << half.bits) + _inner_points(half) for half in halves)


class _Recorder:
    """Records the launches, and gives each its memory."""

    def __init__(
        self, recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan,
        first_unit: Buffer, lines: Buffer, scratch: Buffer,
    ) -> None:  # fmt: skip
        self._recording = recording
        self._device = device
        self._plan = plan
        self._first_unit = first_unit
        self._rooms = {True: lines, False: scratch}
        self._used = {True: 0, False: 0}

    def _room(self, vector: Vector) -> Buffer:
        final = vector.bits <= _SHORT
        start = self._used[final]
        self._used[final] += 8 * self._plan.sum_words * (self._plan.all_windows << vector.bits)
        return self._rooms[final].slice(start, self._used[final])

    def reduce(self, vector: Vector, points: Buffer, *, gathered: bool) -> None:
        """Cuts a vector until what is left is short."""
        for half in vector.halves:
            out = self._room(half)
            low = half.place == vector.place
            self.sum_lines(vector, half, points, out, low=low, gathered=gathered)
            if half.bits > _SHORT:
                self.reduce(half, out, gathered=False)

    def sum_lines(
        self, vector: Vector, kept: Vector, points: Buffer, out: Buffer, *, low: bool,
        gathered: bool,
    ) -> None:  # fmt: skip
        device, plan = self._device, self._plan
        lines = plan.all_windows << kept.bits
        length = 1 << (vector.bits - kept.bits)
        static: dict[str, Any] = {"group": plan.group, "form": plan.form, "gathered": gathered}
        # About half of what fills the device in such a kernel.
        few = device.resident_lanes // 4
        if lines * length <= few:
            quads = min(LANES // QUAD, length)
            kernel = device.compile(sum_short_lines, lanes=LANES, quads_a_line=quads, **static)
            groups = -(-lines * quads * QUAD // LANES)
        else:
            wanted = max(1, few // lines)
            lanes = min(32, length, 1 << (wanted - 1).bit_length())
            kernel = device.compile(sum_lines, lanes_a_line=lanes, **static)
            groups = -(-lines * lanes // device.lanes)
        self._recording.launch(
            kernel, groups, lines, vector.bits, kept.bits, int(low), points, self._first_unit, out,
            label="reduce", bytes=8 * plan.sum_words * lines * length,
            modmuls=PRODUCTS_OF_ADDITION[plan.form] * plan.group.degree * lines * length,
        )  # fmt: skip

    def gather(self, vector: Vector, points: Buffer) -> None:
        """The buckets themselves, where they are few."""
        self.sum_lines(vector, vector, points, self._room(vector), low=False, gathered=True)


def record(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    first_unit: Buffer,
    sums: Buffer,
    lines: Buffer,
    scratch: Buffer,
) -> None:
    """The vectors of `vectors_of` one after the other, each for all windows, in `lines`."""
    whole = Vector(plan.window_bits - 1, 0)
    recorder = _Recorder(recording, device, plan, first_unit, lines, scratch)
    if whole.bits <= _SHORT:
        recorder.gather(whole, sums)
    else:
        recorder.reduce(whole, sums, gathered=True)


@cache
def _host() -> CpuDevice:
    return CpuDevice(threads=1)


def finish(plan: GpuMsmPlan, lines: Array) -> Array:
    """The sums of all windows from `lines` (uint64), on the host.

    Words of one affine point a vector of scalars, uint64 of shape (batch, group.point_words), in
    Montgomery form; zeros are infinity.
    """
    host, group, vectors = _host(), plan.group, vectors_of(plan)
    lengths = np.array([1 << vector.bits for vector in vectors], np.uint32)
    starts = np.zeros(len(vectors), np.uint32)
    starts[1:] = plan.all_windows * np.cumsum(lengths)[:-1]
    places = [plan.window_bits, *(vector.place for vector in vectors)]
    gaps = np.array([above - own for above, own in itertools.pairwise(places)], np.uint32)
    count = plan.all_windows * len(vectors)
    sums = np.empty(count * plan.sum_words, np.uint64)
    weigh = host.compile(weigh_lines, group=group, form=plan.form)
    host.launch(
        weigh, -(-count // host.lanes), count, len(vectors), starts, lengths, lines, sums
    )  # fmt: skip
    out = np.zeros((plan.batch, group.point_words), np.uint64)
    combine = host.compile(combine_windows, lanes=1, group=group, form=plan.form)
    host.launch(combine, plan.batch, plan.windows, len(vectors), gaps, sums, out)
    return out
