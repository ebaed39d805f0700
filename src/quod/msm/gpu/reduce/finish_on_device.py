"""The end of an MSM on its device: from the lines that `weighted_sums` leaves to affine points.

The host is faster at this (`finish`), for what is left are chains of additions. Where there is no
host to do it, as for what is exported, a workgroup makes each result, of vectors of two points
each: the sums of the buckets of a window whose number has a bit set, and of the others. Lanes take
neighbouring bits, and join what they have in a tree, so that only the doublings are one chain.
"""

from __future__ import annotations

from quod.curve.group import Group
from quod.curve.sums.arithmetic import sum_arithmetic
from quod.curve.sums.forms import Form
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError
from quod.kernel.builder.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import U32, U64, Pointer, Value
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import line_bytes

LANES = 64
"""Instances a workgroup."""


@kernel
def finish_lines(
    k: Builder,
    windows: U32,
    all_windows: U32,
    window_bits: U32,
    lines: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
) -> None:
    """out[i] = result i, affine, a workgroup each.

    `lines` are those of a plan with `on_device`: for each bit of a bucket's number, the highest
    first, and each window the sum of the buckets that lack it and of those that have it.
    """
    law = sum_arithmetic(k, group, form)
    lane, one = k.local_id(), k.constant(1, types.u32)
    bits = window_bits - 1
    terms = windows * bits
    each = (terms + (k.workgroup_size - 1)) // k.workgroup_size
    rounds = (k.workgroup_size - 1).bit_length()
    room = k.shared(types.u64, k.workgroup_size // 2 * law.sum_words)

    def place(term: Value) -> Value:
        """The power of two of a term: windows are a bit wider than the numbers of buckets."""
        return term + term // bits

    begin = k.minimum(lane * each, terms)
    end = k.minimum(begin + each, terms)
    # The lane's own terms first, then rounds of the tree: one loop, so that there is one addition.
    with k.range(0, each + rounds, carry=law.neutral()) as loop:
        is_term = loop.index < each
        level = k.select(is_term, 0, loop.index - each)
        distance, slot = one << level, lane >> (level + 1)
        inside = lane & (distance * 2 - 1)
        with k.if_(~is_term & (inside == distance)):
            law.keep(room, slot, loop.carried)
        k.barrier()
        other = k.minimum((lane + distance) * each, terms)
        has_term = is_term & (begin + loop.index < end)
        with k.if_(has_term | (~is_term & (inside == 0) & (other < terms))) as takes:
            term = k.select(has_term, end - 1 - loop.index, 0)
            above = k.minimum(term + 1, end - 1)
            bit = term % bits
            with k.if_(is_term) as own:
                # Buckets count from 1, so all of them have the weight of one besides.
                additions = k.select(bit == 0, one * 3, 1)
                own.give((loop.carried, place(above) - place(term), additions))
            with own.otherwise():
                own.give((law.kept(room, slot), place(other) - place(begin), one))
            shifted, doublings, additions = own.results
            with k.range(0, doublings, carry=shifted) as doubling:
                doubling.next(law.double(doubling.carried))
            window = k.workgroup_id() * windows + term // bits
            first = ((bits - 1 - bit) * all_windows + window) * 2
            with k.range(0, additions, carry=doubling.results) as adding:
                with k.if_(is_term) as source:
                    source.give(law.load(lines, first + k.select(adding.index == 1, 0, one)))
                with source.otherwise():
                    source.give(loop.carried)
                adding.next(law.add(adding.carried, source.results))
            takes.give(adding.results)
        with takes.otherwise():
            takes.give(loop.carried)
        k.barrier()
        loop.next(takes.results)
    with k.if_(lane == 0):
        k.store(out, k.workgroup_id() * group.point_words, *law.to_affine_words(loop.results))


def record_finish(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, lines: Buffer, out: Buffer
) -> None:
    """`out` = what `finish.Finisher` gives, 8 * batch * group.point_words bytes on the device.

    The plan is for results that the device makes; `lines` are what was left for them.
    """
    needed = 8 * plan.batch * plan.group.point_words
    if not plan.on_device or lines.nbytes != line_bytes(plan) or out.nbytes != needed:
        raise DeviceError(
            f"{plan.batch} results take {needed} bytes, not {out.nbytes}, of a plan for results on "
            "the device"
        )
    compiled = device.compile(finish_lines, lanes=LANES, group=plan.group, form=plan.form)
    recording.launch(
        compiled, plan.batch, plan.windows, plan.all_windows, plan.window_bits, lines, out,
        label="finish",
    )  # fmt: skip
