"""Merge chunk sums and reduce bucket sums with one kernel, in which one lane adds up each sum.

The sums are those of `merge` and `weighted_sums`. Lanes exchange nothing, so the kernel has no
shared memory. It suits devices on which compiling a kernel takes longer than running it.
"""

from __future__ import annotations

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import PRODUCTS_OF_ADDITION, Form, addition_cost
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import Chunks, GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import Cut, Line, LineShape

RUN_BITS = 4
"""log2 of the number of chunk sums that a lane merges."""

_NO_LINES = LineShape(0, 0, 0, 0, 0, 0)


@kernel
def sum_terms(
    k: Builder,
    shape: LineShape,
    gathered: U32,
    merged_buckets: U32,
    level: U32,
    first_chunk: Pointer[U32],
    points: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Compute out[i] = the sum of line i or, with `merged_buckets`, sums of runs of chunks.

    gathered: 0 or 1; see `weighted_sums.sum_lines`.
    merged_buckets: the number of buckets, or 0 for sums of lines. Chunk i of a bucket, counted
        from 0, receives in `points` the sum of chunks i, i + 2**level, ... of the bucket, up to
        2**RUN_BITS terms, if i is a multiple of 2**(level + RUN_BITS).
    """
    law = sum_arithmetic(k, group, form)
    i = k.global_id()
    with k.if_(merged_buckets != 0) as branch:
        branch.yield_(*_run(k, i, merged_buckets, level, first_chunk))
    with branch.otherwise():
        line = Line.of(k, i, shape)
        branch.yield_(
            line.exists, line.length, line.first, line.base, line.rest_bits, line.high_shift
        )
    exists, length, *mapping = branch.results
    terms = Line(i, exists, length, *mapping)

    def term(position: Value) -> tuple[Value, Value]:
        index = terms.point(position)
        with k.if_(gathered != 0) as gathering:
            chunk = first_chunk[index]
            gathering.yield_(first_chunk[index + 1] != chunk, chunk)
        with gathering.otherwise():
            gathering.yield_(k.constant(True, types.bool_), index)
        has_sum, index = gathering.results
        return has_sum, index

    total = law.sum_of_sums(length, term, points)
    with k.if_(exists):
        # `points` cannot be passed as `out` too: shared bindings would make another kernel.
        with k.if_(merged_buckets != 0) as target:
            law.store(points, i, total)
        with target.otherwise():
            law.store(out, i, total)


def _run(
    k: Builder, chunk: Value, buckets: Value, level: Value, first_chunk: Value
) -> tuple[Value, Value, Value, Value, Value, Value]:
    """Return the fields of the `Line` of a run of chunks; see `sum_terms`."""
    one, zero = k.constant(1, types.u32), k.constant(0, types.u32)
    # Binary search for the last bucket whose first chunk is at or before this one.
    rounds = 32 - k.emit("clz", (buckets,))
    with k.range(0, rounds, carry=zero) as search:
        probe = search.carried + (one << (rounds - 1 - search.index))
        # Probes beyond the last bucket find no smaller chunk number.
        begins = first_chunk[k.minimum(probe, buckets)] <= chunk
        search.next(k.select((probe < buckets) & begins, probe, search.carried))
    begin, end = first_chunk[search.results], first_chunk[search.results + 1]
    position = chunk - begin
    is_first = (position & ((one << (level + RUN_BITS)) - 1)) == 0
    count = (end - chunk + ((one << level) - 1)) >> level
    # A single term is its own sum.
    exists = (chunk < first_chunk[buckets]) & is_first & (count > 1)
    length = k.select(exists, k.minimum(count, 1 << RUN_BITS), 0)
    return exists, length, zero, chunk, zero, level


def record_merge(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, chunks: Chunks, sums: Buffer,
    scratch: Buffer,
) -> None:  # fmt: skip
    """Record `merge.record`; nothing is written to `scratch`."""
    level, terms = 0, plan.max_chunks_of_bucket
    while terms > 1:
        _launch(
            recording, device, plan, _NO_LINES, plan.max_chunks, chunks.first_chunk, sums, scratch,
            label="merge", gathered=False, merged_buckets=plan.all_buckets, level=level,
            additions=max(0, plan.max_chunks - plan.all_buckets) >> level,
        )  # fmt: skip
        level, terms = level + RUN_BITS, -(-terms >> RUN_BITS)


def record_cut(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, cut: Cut,
    first_chunk: Buffer | None, points: Buffer, out: Buffer, /,
) -> None:  # fmt: skip
    """Record the sums of a cut, as `weighted_sums.RecordCut`."""
    # If points are not gathered, the kernel does not read `first_chunk`.
    _launch(
        recording, device, plan, LineShape(*cut.shape_words), cut.lines, first_chunk or points,
        points, out, label="reduce", gathered=first_chunk is not None, merged_buckets=0, level=0,
        additions=cut.lines * cut.length,
    )  # fmt: skip


def _launch(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, shape: LineShape, sums: int,
    first_chunk: Buffer, points: Buffer, out: Buffer, *, label: str, gathered: bool,
    merged_buckets: int, level: int, additions: int,
) -> None:  # fmt: skip
    kernel = device.compile(sum_terms, group=plan.group, form=plan.form)
    products = PRODUCTS_OF_ADDITION[plan.form]
    recording.launch(
        kernel, -(-sums // kernel.lanes), shape, int(gathered), merged_buckets, level, first_chunk,
        points, out, label=label, bytes=8 * plan.sum_words * additions,
        modmuls=additions * products * plan.group.degree,
        multiply_adds=additions * addition_cost(plan.group, plan.form, products),
    )  # fmt: skip
