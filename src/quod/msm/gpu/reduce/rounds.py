"""Reduce bucket sums to lines on devices without fast shuffles.

The sums are those of `weighted_sums`, computed in rounds. A round is one launch for the rows and
columns of all its vectors; a table maps workgroups to lines, the sums of a row or column. Lanes
that share a line exchange points through shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import PRODUCTS_OF_ADDITION, Form, addition_cost, resident_workgroups
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen, replace
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import Cut, Line, LineShape, Vector, vectors_of

LANES = 64
"""Instances of a workgroup."""

# The minimum number of points per lane, if there are enough points for all lanes.
_LANE_LENGTH = 16

_JOB_WORDS = 10
"""Words of a `Job` in the table."""

_ALIGNMENT = 256


@frozen
class Job:
    """One `Cut` of a round.

    first_group: its first workgroup.
    source: the index of its first source point.
    target: the index of its first sum.
    is_short: the sums are lines of the result, not sources of the next round.
    """

    cut: Cut
    first_group: int
    source: int
    target: int
    is_short: bool

    @property
    def words(self) -> tuple[int, ...]:
        return (
            self.first_group, *self.cut.shape_words, self.source, self.target, int(self.is_short),
        )  # fmt: skip


@frozen
class Round:
    """One launch.

    lanes: the number of lanes that share a line.
    groups: the number of workgroups, of LANES instances.
    points: the number of sums that are sources of the next round.
    """

    jobs: tuple[Job, ...]
    lanes: int
    groups: int
    points: int

    @property
    def additions(self) -> int:
        return sum(job.cut.lines * job.cut.length for job in self.jobs)


def rounds_of(plan: GpuMsmPlan) -> Iterator[Round]:
    """Yield the rounds that reduce all windows, in order."""
    windows = plan.all_windows
    final_vectors = vectors_of(plan)
    sizes = accumulate((windows << vector.bits for vector in final_vectors), initial=0)
    target_starts = dict(zip(final_vectors, sizes))
    sources = {Vector(plan.window_bits - 1, 0): 0}
    while sources:
        reduction = _round(plan, sources, target_starts)
        yield reduction
        sources = {job.cut.target: job.target for job in reduction.jobs if not job.is_short}


def _round(
    plan: GpuMsmPlan, sources: dict[Vector, int], target_starts: dict[Vector, int]
) -> Round:  # fmt: skip
    """Return the round that cuts vectors into their halves.

    sources: the index of each vector's first point.
    target_starts: the index of each final vector's first point in the lines.
    """
    windows, resident = plan.all_windows, plan.limits.resident_lanes
    pairs = [(source, half) for source in sources for half in source.halves()]
    lengths = [1 << (source.bits + source.parts - half.bits) for source, half in pairs]
    points = sum(windows * length << half.bits for (_, half), length in zip(pairs, lengths))
    lanes, line_length = min(LANES, *lengths), 0
    if points > resident:
        # Enough points for all lanes: one lane per line, so that no lane idles in a tree.
        lanes, line_length = 1, max(_LANE_LENGTH, 2 * points // resident)
    jobs: list[Job] = []
    workgroups = next_points = 0
    for (source, half), length in zip(pairs, lengths):
        parts = max(0, length.bit_length() - line_length.bit_length()) if line_length else 0
        target = replace(half, parts=parts)
        lines = windows << (half.bits + parts)
        cut = Cut(source, target, lines, length >> parts, False, lanes)
        is_short = target.is_short
        jobs.append(
            Job(
                cut, workgroups, sources[source],
                target_starts[target] if is_short else next_points, is_short,
            )
        )  # fmt: skip
        workgroups += -(-lines * lanes // LANES)
        next_points += 0 if is_short else lines
    return Round(tuple(jobs), lanes, workgroups, next_points)


@kernel
def sum_round(
    k: Builder,
    jobs: U32,
    lane_bits: U32,
    gathered: U32,
    table: Pointer[U32],
    points: Pointer[U64],
    first_chunk: Pointer[U32],
    out: Pointer[U64],
    lines: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Sum the lines of a round with 2**lane_bits lanes per line; see `Job`, `weighted_sums.Line`.

    gathered: point i is points[first_chunk[i]], or infinity if first_chunk[i + 1] is equal to
        first_chunk[i]; otherwise point i is points[i].
    out: sums that the next round reads.
    lines: sums of short vectors.
    """
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    shared_sums = k.shared(types.u64, k.workgroup_size // 2 * law.sum_words)
    # The job of this workgroup is the last job that begins at or before it.
    with k.range(1, jobs, carry=k.constant(0, types.u32)) as search:
        begins = table[search.index * _JOB_WORDS] <= k.workgroup_id()
        search.next(k.select(begins, search.index, search.carried))
    first_group, *fields, source, target, is_short = (
        table[search.results * _JOB_WORDS + field] for field in range(_JOB_WORDS)
    )
    first_line = (k.workgroup_id() - first_group) * (k.workgroup_size >> lane_bits)
    shape = LineShape(*fields)
    line = Line.of(k, first_line + (k.local_id() >> lane_bits), shape)
    one = k.constant(1, types.u32)
    lanes = one << lane_bits
    lane = k.local_id() & (lanes - 1)
    max_length = one << k.uniform(shape.bits - shape.kept - shape.parts)

    def term(index: Value) -> tuple[Value, Any]:
        position = (index << lane_bits) + lane
        with k.if_(position < line.length) as branch:
            point_index = source + line.point(position)
            with k.if_(gathered != 0) as gathering:
                chunk = first_chunk[point_index]
                gathering.yield_((first_chunk[point_index + 1] != chunk, chunk))
            with gathering.otherwise():
                gathering.yield_((k.constant(True, types.bool_), point_index))
            exists, point_index = gathering.results
            branch.yield_((exists, law.load(points, point_index)))
        with branch.otherwise():
            branch.yield_((k.constant(False, types.bool_), law.neutral()))
        exists, addend = branch.results
        return exists, addend

    total = law.sum_of_terms((max_length + (lanes - 1)) >> lane_bits, lane_bits, shared_sums, term)
    with k.if_(line.exists & (lane == 0)):
        with k.if_(is_short != 0) as branch:
            law.store(lines, target + line.number, total)
        with branch.otherwise():
            law.store(out, target + line.number, total)


def _regions(plan: GpuMsmPlan) -> list[tuple[int, int]]:
    """Return the byte range of each round's sums in scratch memory."""
    regions, start = [], 0
    for reduction in rounds_of(plan):
        region_bytes = max(_ALIGNMENT, 8 * plan.sum_words * reduction.points)
        regions.append((start, start + region_bytes))
        start = -(-(start + region_bytes) // _ALIGNMENT) * _ALIGNMENT
    return regions


def scratch_bytes(plan: GpuMsmPlan) -> int:
    """Return the bytes of scratch memory that `record` needs."""
    return _regions(plan)[-1][1]


def record(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    first_chunk: Buffer | None,
    sums: Buffer,
    lines: Buffer,
    scratch: Buffer,
) -> None:
    """Record the reduction of bucket sums to lines; see `weighted_sums.record`."""
    points, chunk_starts = sums, first_chunk
    products = PRODUCTS_OF_ADDITION[plan.form]
    for reduction, (start, stop) in zip(rounds_of(plan), _regions(plan), strict=True):
        table = device.upload(np.array([job.words for job in reduction.jobs], np.uint32))
        compiled = device.compile(sum_round, lanes=LANES, group=plan.group, form=plan.form)
        out = scratch.slice(start, stop)
        # If points are not gathered, the kernel does not read `first_chunk`.
        recording.launch(
            compiled, reduction.groups, len(reduction.jobs), reduction.lanes.bit_length() - 1,
            int(chunk_starts is not None), table, points, chunk_starts or table, out, lines,
            label="reduce", bytes=8 * plan.sum_words * reduction.additions,
            modmuls=reduction.additions * products * plan.group.degree,
            multiply_adds=reduction.additions * addition_cost(plan.group, plan.form, products),
        )  # fmt: skip
        points, chunk_starts = out, None
