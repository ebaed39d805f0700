"""Bucket accumulation on GPUs: an instance sums the entries of one chunk.

The additions are incomplete, to be fast: they do not check for equal, opposite or infinite
operands. A chunk with such operands is detected at its end and listed in `retries`; a second launch
sums the listed chunks by complete additions. For ordinary bases and scalars the list is
empty.
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import (
    PRODUCTS_OF_BASE,
    Form,
    SumArithmetic,
    addition_cost,
    resident_workgroups,
)
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.buckets.affine_trees import (
    PRODUCTS_OF_AFFINE,
    Shape,
    accumulate_affine,
    affine_cost,
    bytes_of_addition,
)
from quod.msm.gpu.layout import Chunks, ChunkSums, ChunkTable, GpuMsmPlan

_ALIGNMENT = 256

# The scratch memory of affine sums takes at most the memory budget divided by this.
_SCRATCH_SHARE = 16


@frozen
class Tuning:
    """Tuning of bucket accumulation.

    resident: workgroups that a multiprocessor should hold at a time.
    ahead: in XYZZ coordinates, load a base while the previous base is added, instead of only
        prefetching it.
    inlined: inline products in Fq2.
    slots: the number of sums of affine points that an instance keeps in scratch memory; 0 selects
        XYZZ coordinates.
    min_entries: MSMs of fewer entries use XYZZ coordinates, because too few additions would
        share an inversion.
    """

    resident: int
    ahead: bool
    inlined: bool
    slots: int = 0
    min_entries: int = 0


def tuning(group: Group, *, long: bool = True) -> Tuning:
    """Return the tuning for a group (measurements: docs/design/optimisations.md).

    long: kernels may be long; see `DeviceLimits`.

    Bases are loaded ahead if enough registers are free, and products in Fq2 are inlined if the
    loop then fits the instruction cache. Affine sums pay from fewer entries the longer a product
    takes.
    """
    words = group.coordinate_words
    if not long:
        return Tuning(resident_workgroups(group), ahead=False, inlined=False)
    return Tuning(
        resident_workgroups(group), ahead=words <= 4, inlined=words <= 8,
        slots=512 if group.degree == 1 else 192, min_entries=1 << (25 if words <= 4 else 23),
    )  # fmt: skip


@kernel
def accumulate(
    k: Builder,
    count: Pointer[U32],
    work: ChunkSums,
    *,
    group: Group,
    form: Form,
    resident: int,
    ahead: bool,
    inlined: bool,
) -> None:
    """Sum the entries of chunk i into sums[numbers[i]], for i below count[0].

    Chunks that need complete additions are appended to `retries`; see `ChunkSums`.
    """
    k.resident_workgroups(resident)
    table, entries, bases = work.table, work.entries, work.bases
    law = sum_arithmetic(k, group, form, inlined=inlined)
    i = k.global_id()
    with k.if_(i < count[0]):
        start, length = table.starts[i], table.lengths[i]
        last = start + length - 1
        first_entry = entries[start]
        total = law.begin(law.base(law.load_base(bases, first_entry), first_entry))
        entry = entries[k.minimum(start + 1, last)]
        initial: Any = (total, entry, law.load_base(bases, entry) if ahead else None)
        with k.range(1, length, carry=initial) as loop:
            total, entry, base_words = loop.carried
            next_entry = entries[k.minimum(start + loop.index + 1, last)]
            if ahead:
                next_words = law.load_base(bases, next_entry)
            else:
                base_words, next_words = law.load_base(bases, entry), None
                k.prefetch(bases, law.base_offset(next_entry), law.base_words)
            total = law.add_base(total, law.base(base_words, entry))
            loop.next((total, next_entry, next_words))
        total = loop.results[0]
        law.store_coordinates(work.sums, table.numbers[i], total)
        failed = law.failed(total)
        if failed is not None:
            with k.if_(failed):
                work.retries[k.atomic_add(work.retries, 0, 1) + 1] = i


@kernel
def accumulate_again(
    k: Builder,
    work: ChunkSums,
    *,
    group: Group,
    form: Form,
) -> None:
    """Sum the chunks listed in `retries` by complete additions."""
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    instances = k.num_workgroups() * k.workgroup_size
    with k.range(k.global_id(), work.retries[0], instances) as outer:
        i = work.retries[outer.index + 1]
        _sum_completely(k, law, work.table, work.entries, work.bases, work.sums, i)


@kernel
def accumulate_completely(
    k: Builder,
    count: Pointer[U32],
    table: ChunkTable,
    entries: Pointer[U32],
    bases: Pointer[U64],
    sums: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """Sum the entries of chunk i by complete additions, for i below count[0]; see `ChunkSums`."""
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    i = k.global_id()
    with k.if_(i < count[0]):
        _sum_completely(k, law, table, entries, bases, sums, i)


def _sum_completely(
    k: Builder, law: SumArithmetic[Any], table: ChunkTable, entries: Value, bases: Value,
    sums: Value, i: Value,
) -> None:  # fmt: skip
    start = table.starts[i]
    stop = start + table.lengths[i]
    total = law.sum_of_bases(start, stop, lambda index: entries[index], bases)
    law.store(sums, table.numbers[i], total)


def scratch_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """Return the bytes of scratch memory that `record` needs."""
    shape = _affine_shape(device, plan, tuning(plan.group, long=plan.limits.long))
    retries = _retry_bytes(plan)
    return retries if shape is None else retries + shape.bytes(device, plan.group)


def _retry_bytes(plan: GpuMsmPlan) -> int:
    return -(-4 * (plan.max_chunks + 1) // _ALIGNMENT) * _ALIGNMENT


def _affine_shape(device: AnyDevice, plan: GpuMsmPlan, chosen: Tuning) -> Shape | None:
    """Return the launch shape of affine sums, or None for sums in XYZZ or extended coordinates."""
    has_few_entries = plan.max_entries < chosen.min_entries
    if not chosen.slots or has_few_entries or plan.form != "weierstrass" or not plan.affine:
        return None
    shape = Shape.of(device, plan, resident=chosen.resident, slots=chosen.slots)
    fits = shape.bytes(device, plan.group) <= device.memory_budget // _SCRATCH_SHARE
    return shape if fits else None


def record(
    recording: RecordingStream,
    device: AnyDevice,
    plan: GpuMsmPlan,
    bases: Buffer,
    entries: Buffer,
    chunks: Chunks,
    sums: Buffer,
    scratch: Buffer,
    chosen: Tuning | None = None,
) -> None:
    """Record sums[numbers[i]] = the sum of the entries of chunk i; see `quod.msm.gpu.layout`.

    chosen: replaces the group's tuning, for measurements; `scratch` must then fit it.
    """
    group, form = plan.group, plan.form
    moved_bytes = (
        plan.max_entries * (8 * plan.base_words + 4) + plan.max_chunks * 8 * plan.sum_words
    )
    if plan.limits.compact:
        compiled = device.compile(accumulate_completely, group=group, form=form)
        products = PRODUCTS_OF_BASE[form]
        recording.launch(
            compiled, -(-plan.max_chunks // compiled.lanes), chunks.count,
            chunks.table, entries, bases, sums, label="accumulate", bytes=moved_bytes,
            modmuls=plan.max_entries * products * group.degree,
            multiply_adds=plan.max_entries * addition_cost(group, form, products),
        )  # fmt: skip
        return
    chosen = chosen or tuning(group, long=plan.limits.long)
    shape = _affine_shape(device, plan, chosen)
    static: dict[str, Any] = {
        "group": group, "resident": chosen.resident, "inlined": chosen.inlined,
    }  # fmt: skip
    work = ChunkSums(chunks.table, entries, bases, sums, scratch)
    affine_arguments: tuple[Buffer | int, ...] = ()
    if shape is None:
        compiled = device.compile(accumulate, form=form, ahead=chosen.ahead, **static)
        workgroups = -(-plan.max_chunks // device.lanes)
        products = PRODUCTS_OF_BASE[form]
        multiply_adds = addition_cost(group, form, products)
    else:
        compiled = device.compile(accumulate_affine, **static)
        workgroups = shape.workgroups
        affine_arguments = (scratch.slice(_retry_bytes(plan), scratch.nbytes), shape.slots)
        moved_bytes += plan.max_entries * bytes_of_addition(group)
        products, multiply_adds = PRODUCTS_OF_AFFINE, affine_cost(group)
    # The number of `retries`.
    recording.fill(scratch.slice(0, 4), label="accumulate")
    recording.launch(
        compiled, workgroups, chunks.count, work, *affine_arguments, label="accumulate",
        bytes=moved_bytes, modmuls=plan.max_entries * products * group.degree,
        multiply_adds=plan.max_entries * multiply_adds,
    )  # fmt: skip
    if form == "weierstrass":
        retry_kernel = device.compile(accumulate_again, group=group, form=form)
        lanes = min(plan.max_chunks, device.resident_lanes)
        recording.launch(retry_kernel, -(-lanes // device.lanes), work, label="accumulate")
