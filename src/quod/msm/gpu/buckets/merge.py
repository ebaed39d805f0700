"""Add chunk sums to bucket sums.

A few neighbouring lanes add the chunk sums of an ordinary bucket. Skewed scalars produce buckets
with too many chunks for that. Such a bucket is split into runs of chunks. A workgroup adds each
run, and another one the sums of the runs.
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import (
    PRODUCTS_OF_ADDITION,
    Form,
    SumArithmetic,
    addition_cost,
    resident_workgroups,
)
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import Chunks, GpuMsmPlan

# The number of chunks of a bucket that one lane should add.
_CHUNKS_PER_LANE = 4

# A bucket is split into runs if its lanes would need more rounds than this.
_MAX_ROUNDS = 16

# The number of chunks of a run, which one workgroup adds.
_RUN = 512

# Indices of the counters of runs: runs of chunks, and runs of run sums.
_CHUNK_RUNS, _RUN_SUMS = 0, 1
_COUNTER_BYTES = 256


@kernel
def merge_buckets(
    k: Builder,
    buckets: U32,
    first_chunk: Pointer[U32],
    sums: Pointer[U64],
    counters: Pointer[U32],
    runs: Pointer[U32],
    run_sums: Pointer[U32],
    *,
    group: Group,
    form: Form,
    lanes_per_bucket: int,
) -> None:
    """Compute sums[first_chunk[b]] = the sum of bucket b's chunks, for buckets of few chunks.

    A larger bucket is split into runs. Each run is appended to `runs` as a pair (first chunk,
    number of chunks). A bucket of several runs is also appended to `run_sums` as a pair (first
    chunk, number of runs).
    """
    k.resident_workgroups(resident_workgroups(group))
    law, lanes = sum_arithmetic(k, group, form), lanes_per_bucket
    shared_sums = law.room_for_lanes(lanes)
    bucket = k.global_id() // lanes
    lane = k.local_id() % lanes
    exists = bucket < buckets
    with k.if_(exists) as branch:
        begin, end = first_chunk[bucket], first_chunk[bucket + 1]
        branch.yield_(begin, end - begin)
    with branch.otherwise():
        no_chunks = k.constant(0, types.u32)
        branch.yield_(no_chunks, no_chunks)
    begin, chunks = branch.results
    is_small = chunks <= lanes * _MAX_ROUNDS
    count = k.select(is_small, chunks, 0)
    total = _sum_of_lane(k, law, sums, begin, count, lane, lanes)
    total = law.sum_of_lanes(total, lanes, shared_sums)
    with k.if_((lane == 0) & (count > 1)):
        law.store(sums, begin, total)
    with k.if_((lane == 0) & ~is_small):
        run_count = (chunks + (_RUN - 1)) // _RUN
        first_run = k.atomic_add(counters, _CHUNK_RUNS, run_count)
        with k.range(0, run_count) as loop:
            offset = loop.index * _RUN
            length = k.minimum(chunks - offset, _RUN)
            k.store(runs, (first_run + loop.index) * 2, begin + offset, length)
        with k.if_(run_count > 1):
            k.store(run_sums, k.atomic_add(counters, _RUN_SUMS, 1) * 2, begin, run_count)


def _sum_of_lane(
    k: Builder, law: SumArithmetic[Any], sums: Value, first: Value, count: Value, lane: Value,
    lanes: int, stride: Value | int = 1,
) -> Any:  # fmt: skip
    """Add the sums lane, lane + lanes, ... below `count`; `stride` is in points."""
    with k.range(lane, count, lanes, carry=law.neutral()) as loop:
        loop.next(law.add(loop.carried, law.load(sums, first + loop.index * stride)))
    return loop.results


@kernel
def merge_runs(
    k: Builder,
    counters: Pointer[U32],
    which: U32,
    stride: U32,
    runs: Pointer[U32],
    sums: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Compute sums[first] = sums[first] + sums[first + stride] + ..., `count` terms, for each run.

    runs: counters[which] pairs (first, count), over which the workgroups stride.
    """
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    shared_sums = law.room_for_lanes(k.workgroup_size)
    with k.range(
        k.workgroup_id(), k.uniform(counters[which]), k.num_workgroups()
    ) as loop:  # fmt: skip
        first, count = k.load(runs, loop.index * 2, 2)
        if shared_sums is None:
            _sum_run(k, law, sums, first, count, stride)
        else:
            _sum_run_through_memory(k, law, sums, first, count, stride, shared_sums)


def _sum_run_through_memory(
    k: Builder, law: SumArithmetic[Any], sums: Value, first: Value, count: Value, stride: Value,
    shared_sums: Value,
) -> None:  # fmt: skip
    """Add one run by a workgroup that exchanges points through shared memory."""
    lane, size = k.local_id(), k.workgroup_size
    bits = size.bit_length() - 1

    def term(index: Value) -> tuple[Value, Any]:
        sum_index = (index << bits) + lane
        with k.if_(sum_index < count) as branch:
            branch.yield_(law.load(sums, first + sum_index * stride))
        with branch.otherwise():
            branch.yield_(law.neutral())
        return sum_index < count, branch.results

    terms = (k.uniform(count) + (size - 1)) >> bits
    total = law.sum_of_terms(terms, k.constant(bits, types.u32), shared_sums, term)
    with k.if_(lane == 0):
        law.store(sums, first, total)
    k.barrier()


def _sum_run(
    k: Builder, law: SumArithmetic[Any], sums: Value, first: Value, count: Value, stride: Value
) -> None:  # fmt: skip
    """Add one run by subgroups, then the subgroups' sums by the first subgroup."""
    size = k.workgroup_size
    width, lane = min(k.subgroup_size, size), k.local_id()
    total = _sum_of_lane(k, law, sums, first, count, lane, size, stride)
    total = law.sum_of_lanes(total, width, None)
    # Each subgroup's first lane stores the subgroup's sum over the first chunk sum that it read.
    is_leader = (lane % width == 0) & (lane < count)
    with k.if_(is_leader):
        law.store(sums, first + lane * stride, total)
    k.barrier()
    subgroups = size // width
    if subgroups > 1:
        start = lane * width
        has_sum = (lane < subgroups) & (start < count)
        total = _sum_of_lane(
            k, law, sums, first + start * stride, k.select(has_sum, k.constant(1, types.u32), 0),
            k.constant(0, types.u32), 1,
        )  # fmt: skip
        total = law.sum_of_lanes(total, subgroups, None)
        with k.if_(lane == 0):
            law.store(sums, first, total)
        k.barrier()


@kernel
def carry_sums(
    k: Builder,
    buckets: U32,
    first_chunk: Pointer[U32],
    sums: Pointer[U64],
    carried: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Compute carried[b] += sums[first_chunk[b]] for every bucket b with chunks."""
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    bucket = k.global_id()
    with k.if_(bucket < buckets):
        first = first_chunk[bucket]
        with k.if_(first_chunk[bucket + 1] != first):
            total = law.add(law.load(carried, bucket), law.load(sums, first))
            law.store(carried, bucket, total)


@kernel
def begin_sums(
    k: Builder,
    total: U32,
    first_chunk: Pointer[U32],
    sums: Pointer[U64],
    carried: Pointer[U64],
    *,
    sum_words: int,
) -> None:
    """Set carried[b] = sums[first_chunk[b]] for every bucket b with chunks, others to infinity.

    total: buckets * sum_words // 2, since an instance copies two words.
    """
    i = k.global_id()
    with k.if_(i < total):
        pairs = sum_words // 2
        bucket, pair = i // pairs, i % pairs
        first = first_chunk[bucket]
        with k.if_(first_chunk[bucket + 1] != first) as branch:
            word_index = first.cast(types.u64) * sum_words + pair.cast(types.u64) * 2
            branch.yield_(k.load(sums, word_index, 2))
        with branch.otherwise():
            branch.yield_((k.constant(0, types.u64),) * 2)
        k.store(carried, i.cast(types.u64) * 2, *branch.results)


def lanes_of(plan: GpuMsmPlan) -> int:
    """Return the lanes that add the chunks of one bucket, a power of two up to 32."""
    chunks_per_bucket = plan.max_entries // (plan.longest * plan.all_buckets)
    min_lanes = -(-chunks_per_bucket // _CHUNKS_PER_LANE)
    return min(32, 1 << max(0, min_lanes - 1).bit_length())


def _max_runs(plan: GpuMsmPlan) -> tuple[int, int]:
    """Return upper bounds on the numbers of runs of chunks and of buckets of more than one run."""
    split_buckets = plan.max_chunks // (lanes_of(plan) * _MAX_ROUNDS + 1)
    return split_buckets + plan.max_chunks // _RUN, plan.max_chunks // (_RUN + 1)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 256) * 256


def scratch_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """Return the bytes of scratch memory that `record` needs."""
    return _COUNTER_BYTES + sum(_aligned(8 * pairs) for pairs in _max_runs(plan))


def record(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    chunks: Chunks,
    sums: Buffer,
    scratch: Buffer,
) -> None:
    """Record sums[first_chunk[b]] = the sum of bucket b, for every bucket with chunks."""
    if plan.max_chunks_of_bucket <= 1:
        return
    static: dict[str, Any] = {"group": plan.group, "form": plan.form}
    lanes = lanes_of(plan)
    max_runs, max_run_sums = _max_runs(plan)
    counters = scratch.slice(0, _COUNTER_BYTES)
    runs_end = _COUNTER_BYTES + _aligned(8 * max_runs)
    runs = scratch.slice(_COUNTER_BYTES, runs_end)
    run_sums = scratch.slice(runs_end, runs_end + _aligned(8 * max_run_sums))
    recording.fill(counters, label="merge")
    compiled = device.compile(merge_buckets, lanes_per_bucket=lanes, **static)
    additions = max(0, plan.max_chunks - plan.all_buckets)
    products = PRODUCTS_OF_ADDITION[plan.form]
    recording.launch(
        compiled, -(-plan.all_buckets * lanes // device.lanes), plan.all_buckets,
        chunks.first_chunk, sums, counters, runs, run_sums, label="merge",
        bytes=plan.max_chunks * 8 * plan.sum_words,
        modmuls=additions * products * plan.group.degree,
        multiply_adds=additions * addition_cost(plan.group, plan.form, products),
    )  # fmt: skip
    # Enough workgroups to fill a quarter of the device, but at most as many as there can be runs.
    compiled = device.compile(merge_runs, **static)
    max_workgroups = max(1, device.resident_lanes // (4 * device.lanes))
    for which, stride, pairs, max_pairs in (
        (_CHUNK_RUNS, 1, runs, max_runs),
        (_RUN_SUMS, _RUN, run_sums, max_run_sums),
    ):
        if max_pairs:
            recording.launch(
                compiled, min(max_pairs, max_workgroups), counters, which, stride, pairs, sums,
                label="merge",
            )  # fmt: skip


def record_carry(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    chunks: Chunks,
    sums: Buffer,
    carried: Buffer,
    *,
    begins: bool,
) -> None:
    """Record carried[b] += sums[first_chunk[b]] for every bucket with chunks.

    begins: overwrite `carried` instead of adding to it.
    """
    if begins:
        begin = device.compile(begin_sums, sum_words=plan.sum_words)
        total = plan.all_buckets * (plan.sum_words // 2)
        recording.launch(
            begin, -(-total // device.lanes), total, chunks.first_chunk, sums, carried,
            label="merge", bytes=2 * 8 * plan.sum_words * plan.all_buckets,
        )  # fmt: skip
        return
    compiled = device.compile(carry_sums, group=plan.group, form=plan.form)
    products = PRODUCTS_OF_ADDITION[plan.form]
    recording.launch(
        compiled, -(-plan.all_buckets // device.lanes), plan.all_buckets, chunks.first_chunk, sums,
        carried, label="merge", bytes=3 * 8 * plan.sum_words * plan.all_buckets,
        modmuls=plan.all_buckets * products * plan.group.degree,
        multiply_adds=plan.all_buckets * addition_cost(plan.group, plan.form, products),
    )  # fmt: skip
