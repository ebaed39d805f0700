"""Bucket accumulation on GPUs: an instance sums the entries of one chunk.

The additions are the cheapest there are for one point at a time, and do not look at their operands.
A chunk in which an unsuitable pair came together is noticed at its end, noted, and summed again by
complete additions in a second launch, which has nothing to do for ordinary bases and scalars.
"""

from __future__ import annotations

from typing import Any

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import PRODUCTS_OF_BASE, Form, addition_cost, resident_workgroups
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir.value import U32, Pointer
from quod.msm.gpu.buckets.affine_trees import (
    PRODUCTS_OF_AFFINE,
    Shape,
    accumulate_affine,
    affine_cost,
    bytes_of_addition,
)
from quod.msm.gpu.layout import Chunks, ChunkSums, GpuMsmPlan

_ALIGNMENT = 256


@frozen
class Tuning:
    """What suits a processor: workgroups that a multiprocessor should hold at a time, whether
    a base is loaded while the one before it is added or only asked for, whether products in Fq2
    are copied to where they are used, and how many sums of pairs of affine points an instance may
    keep in memory, or 0 to add in XYZZ coordinates, as MSMs of fewer entries than `least_entries`
    do: an inversion would have too few additions."""

    resident: int
    ahead: bool
    inlined: bool
    slots: int = 0
    least_entries: int = 0


def tuning(group: Group, *, long: bool = True) -> Tuning:
    """What was chosen for a group (docs/design/optimisations.md has the measurements).

    `long` says whether kernels may be; see `Processor`.

    A base is loaded ahead where registers are left for it, and products of Fq2 are copied where the
    loop then fits the cache of instructions. Sums are affine where that saves most: in large Fq2.
    """
    words = group.coordinate_words
    if not long:
        return Tuning(resident_workgroups(group), ahead=False, inlined=False)
    return Tuning(
        resident_workgroups(group), ahead=words <= 4, inlined=words <= 8,
        slots=128 if words > 8 else 0, least_entries=1 << 23,
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
    """Sums the entries of chunk i, for i below count[0].

    retries[0] is raised by the number of chunks that must be summed otherwise, which are noted
    behind it.
    """
    k.resident_workgroups(resident)
    table, entries, bases = work.table, work.entries, work.bases
    law = sum_arithmetic(k, group, form, inlined=inlined)
    i = k.global_id()
    with k.if_(i < count[0]):
        start, length = table.starts[i], table.lengths[i]
        last = start + length - 1
        first = entries[start]
        total = law.begin(law.base(law.load_base(bases, first), first))
        entry = entries[k.minimum(start + 1, last)]
        carried: Any = (total, entry, law.load_base(bases, entry) if ahead else None)
        with k.range(1, length, carry=carried) as loop:
            total, entry, words = loop.carried
            following = entries[k.minimum(start + loop.index + 1, last)]
            if ahead:
                following_words = law.load_base(bases, following)
            else:
                words, following_words = law.load_base(bases, entry), None
                k.prefetch(bases, law.base_offset(following), law.base_words)
            total = law.add_base(total, law.base(words, entry))
            loop.next((total, following, following_words))
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
    """The chunks that `accumulate` noted, by complete additions."""
    k.resident_workgroups(resident_workgroups(group))
    law = sum_arithmetic(k, group, form)
    instances = k.num_workgroups() * k.workgroup_size
    table = work.table
    with k.range(k.global_id(), work.retries[0], instances) as outer:
        i = work.retries[outer.index + 1]
        start = table.starts[i]
        with k.range(start, start + table.lengths[i], carry=law.neutral()) as loop:
            entry = work.entries[loop.index]
            base = law.base(law.load_base(work.bases, entry), entry)
            loop.next(law.add_base_completely(loop.carried, base))
        law.store(work.sums, table.numbers[i], loop.results)


def scratch_bytes(device: AnyDevice, plan: GpuMsmPlan) -> int:
    """Scratch memory that `record` needs."""
    shape = _affine_shape(device, plan, tuning(plan.group, long=plan.processor.long))
    retries = _retry_bytes(plan)
    return retries if shape is None else retries + shape.bytes(device, plan.group)


def _retry_bytes(plan: GpuMsmPlan) -> int:
    return -(-4 * (plan.most_chunks + 1) // _ALIGNMENT) * _ALIGNMENT


def _affine_shape(device: AnyDevice, plan: GpuMsmPlan, chosen: Tuning) -> Shape | None:
    """How affine sums are shared out, if sums are to be affine."""
    few = plan.most_entries < chosen.least_entries
    if not chosen.slots or few or plan.form != "weierstrass":
        return None
    return Shape.of(device, plan, resident=chosen.resident, slots=chosen.slots)


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
    """sums[number] = the sum of the entries of every chunk; see `quod.msm.gpu.layout`.

    `chosen` replaces the tuning, for measurements; `scratch` must then suit it.
    """
    group, form = plan.group, plan.form
    chosen = chosen or tuning(group, long=plan.processor.long)
    shape = _affine_shape(device, plan, chosen)
    moved = plan.most_entries * (8 * plan.base_words + 4) + plan.most_chunks * 8 * plan.sum_words
    static: dict[str, Any] = {
        "group": group, "resident": chosen.resident, "ahead": chosen.ahead,
        "inlined": chosen.inlined,
    }  # fmt: skip
    work = ChunkSums(chunks.table, entries, bases, sums, scratch)
    more: list[Buffer] = []
    if shape is None:
        compiled = device.compile(accumulate, form=form, **static)
        groups = -(-plan.most_chunks // device.lanes)
        products = PRODUCTS_OF_BASE[form]
        multiply_adds = addition_cost(group, form, products)
    else:
        compiled = device.compile(accumulate_affine, slots=shape.slots, **static)
        groups = shape.workgroups
        more.append(scratch.slice(_retry_bytes(plan), scratch.nbytes))
        moved += plan.most_entries * bytes_of_addition(group)
        products, multiply_adds = PRODUCTS_OF_AFFINE, affine_cost(group)
    recording.fill(scratch.slice(0, 4), label="accumulate")
    recording.launch(
        compiled, groups, chunks.count, work, *more, label="accumulate", bytes=moved,
        modmuls=plan.most_entries * products * group.degree,
        multiply_adds=plan.most_entries * multiply_adds,
    )  # fmt: skip
    if form == "weierstrass":
        again = device.compile(accumulate_again, group=group, form=form)
        lanes = min(plan.most_chunks, device.resident_lanes)
        recording.launch(again, -(-lanes // device.lanes), work, label="accumulate")
