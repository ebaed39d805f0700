"""The end of an MSM on its device: from the lines that `reduce` leaves to affine points.

The host is faster at this (`finish`), for what is left are chains of additions. Where there is no
host to do it, as for what is exported, a workgroup makes each result, of vectors of two points
each: the sums of the buckets of a window whose number has a bit set, and of the others. Lanes take
neighbouring bits, and join what they have in a tree, so that only the doublings are one chain.
"""

from __future__ import annotations

from typing import Any

from quod.curve.groups import Group
from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.errors import DeviceError
from quod.kernel import types
from quod.kernel.builder import Builder
from quod.kernel.definition import kernel
from quod.kernel.value import U64, Pointer, Value
from quod.msm.gpu.forms import sum_arithmetic
from quod.msm.gpu.layout import Form, GpuMsmPlan
from quod.msm.gpu.reduce import line_bytes

LANES = 64
"""Instances a workgroup."""


@kernel
def finish_lines(
    k: Builder,
    lines: Pointer[U64],
    out: Pointer[U64],
    *,
    group: Group,
    form: Form,
    windows: int,
    all_windows: int,
    window_bits: int,
) -> None:
    """out[i] = result i, affine, a workgroup each.

    `lines` are those of a plan with `on_device`: for each bit of a bucket's number, the highest
    first, and each window the sum of the buckets that lack it and of those that have it.
    """
    law = sum_arithmetic(k, group, form)
    lane, bits = k.local_id(), window_bits - 1
    terms = windows * bits
    each = -(-terms // k.workgroup_size)
    room = k.shared(types.u64, k.workgroup_size // 2 * law.sum_words)

    def place(term: Value) -> Value:
        """The power of two of a term: windows are a bit wider than the numbers of buckets."""
        return term + term // bits

    begin = k.minimum(lane * each, terms)
    end = k.minimum(begin + each, terms)
    with k.range(begin, end, carry=law.neutral()) as loop:
        term = end - 1 - (loop.index - begin)
        above = k.minimum(term + 1, end - 1)
        bit = term % bits
        window = k.workgroup_id() * windows + term // bits
        first = ((bits - 1 - bit) * all_windows + window) * 2
        total = _doubled(k, law, loop.carried, place(above) - place(term))
        total = law.add(total, law.load(lines, first + 1))
        # Buckets count from 1, so all of them have the weight of one besides.
        with k.if_(bit == 0) as lowest:
            both = law.add(law.load(lines, first), law.load(lines, first + 1))
            lowest.give(law.add(total, both))
        with lowest.otherwise():
            lowest.give(total)
        loop.next(lowest.results)
    rounds = (k.workgroup_size - 1).bit_length()
    with k.range(0, rounds, carry=loop.results) as tree:
        distance = k.constant(1, types.u32) << tree.index
        own = lane & (distance * 2 - 1)
        slot = lane >> (tree.index + 1)
        with k.if_(own == distance):
            law.store(room, slot, tree.carried)
        k.barrier()
        other = k.minimum((lane + distance) * each, terms)
        with k.if_((own == 0) & (other < terms)) as takes:
            shifted = _doubled(k, law, law.load(room, slot), place(other) - place(begin))
            takes.give(law.add(tree.carried, shifted))
        with takes.otherwise():
            takes.give(tree.carried)
        k.barrier()
        tree.next(takes.results)
    with k.if_(lane == 0):
        k.store(out, k.workgroup_id() * group.point_words, *law.to_affine_words(tree.results))


def _doubled(k: Builder, law: Any, p: Any, times: Value) -> Any:
    with k.range(0, times, carry=p) as loop:
        loop.next(law.double(loop.carried))
    return loop.results


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
    compiled = device.compile(
        finish_lines, lanes=LANES, group=plan.group, form=plan.form, windows=plan.windows,
        all_windows=plan.all_windows, window_bits=plan.window_bits,
    )  # fmt: skip
    recording.launch(compiled, plan.batch, lines, out, label="finish")
