"""The final step of an MSM on its device: from the lines of `weighted_sums` to affine points.

The host is faster at these chains of additions (see `finish`). In exported programs, which cannot
use the host, a workgroup computes each result. Its lines are vectors of two points: for each bit of
the bucket number, the sums of the window's buckets with the bit clear and with it set. Each lane
takes neighbouring bits, and a tree adds the lanes' sums, so only the doublings form one chain.
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
"""Instances of a workgroup."""


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
    """Compute out[i] = result i, affine, with one workgroup per result.

    lines: of a plan with `on_device`: for each bit of the bucket number, highest first, and each
        window, the sum of the buckets with the bit clear and of those with it set.
    """
    law = sum_arithmetic(k, group, form)
    lane, one = k.local_id(), k.constant(1, types.u32)
    bits = window_bits - 1
    terms = windows * bits
    terms_per_lane = (terms + (k.workgroup_size - 1)) // k.workgroup_size
    rounds = (k.workgroup_size - 1).bit_length()
    shared_sums = k.shared(types.u64, k.workgroup_size // 2 * law.sum_words)

    def log2_factor(term: Value) -> Value:
        """Return log2 of a term's factor: windows are one bit wider than bucket numbers."""
        return term + term // bits

    begin = k.minimum(lane * terms_per_lane, terms)
    end = k.minimum(begin + terms_per_lane, terms)
    # The lane's terms and then the rounds of the tree share one loop, so that the addition is
    # compiled once.
    with k.range(0, terms_per_lane + rounds, carry=law.neutral()) as loop:
        is_term = loop.index < terms_per_lane
        level = k.select(is_term, 0, loop.index - terms_per_lane)
        distance, slot = one << level, lane >> (level + 1)
        index_in_group = lane & (distance * 2 - 1)
        with k.if_(~is_term & (index_in_group == distance)):
            law.keep(shared_sums, slot, loop.carried)
        k.barrier()
        other_begin = k.minimum((lane + distance) * terms_per_lane, terms)
        has_term = is_term & (begin + loop.index < end)
        with k.if_(
            has_term | (~is_term & (index_in_group == 0) & (other_begin < terms))
        ) as summing:
            term = k.select(has_term, end - 1 - loop.index, 0)
            next_term = k.minimum(term + 1, end - 1)
            bit = term % bits
            with k.if_(is_term) as operands:
                # Bucket 0 has weight 1: the lowest bit adds the sum of all buckets once more.
                additions = k.select(bit == 0, one * 3, 1)
                operands.yield_(
                    (loop.carried, log2_factor(next_term) - log2_factor(term), additions)
                )
            with operands.otherwise():
                operands.yield_(
                    (
                        law.kept(shared_sums, slot),
                        log2_factor(other_begin) - log2_factor(begin),
                        one,
                    )
                )
            partial_sum, doublings, additions = operands.results
            with k.range(0, doublings, carry=partial_sum) as doubling:
                doubling.next(law.double(doubling.carried))
            window = k.workgroup_id() * windows + term // bits
            first = ((bits - 1 - bit) * all_windows + window) * 2
            with k.range(0, additions, carry=doubling.results) as adding:
                with k.if_(is_term) as source:
                    source.yield_(law.load(lines, first + k.select(adding.index == 1, 0, one)))
                with source.otherwise():
                    source.yield_(loop.carried)
                adding.next(law.add(adding.carried, source.results))
            summing.yield_(adding.results)
        with summing.otherwise():
            summing.yield_(loop.carried)
        k.barrier()
        loop.next(summing.results)
    with k.if_(lane == 0):
        k.store(out, k.workgroup_id() * group.point_words, *law.to_affine_words(loop.results))


def record_finish(
    recording: RecordingStream, device: AnyDevice, plan: GpuMsmPlan, lines: Buffer, out: Buffer
) -> None:
    """Record the results of a plan with `on_device`, as `finish.Finisher` returns them.

    lines: `weighted_sums.line_bytes` bytes.
    out: 8 * batch * group.point_words bytes on the device.
    Raises DeviceError for another plan or buffers of another size.
    """
    out_bytes = 8 * plan.batch * plan.group.point_words
    if not plan.on_device or lines.nbytes != line_bytes(plan) or out.nbytes != out_bytes:
        raise DeviceError(
            f"{plan.batch} results take {out_bytes} bytes, not {out.nbytes}, of a plan for results "
            "on the device"
        )
    compiled = device.compile(finish_lines, lanes=LANES, group=plan.group, form=plan.form)
    recording.launch(
        compiled, plan.batch, plan.windows, plan.all_windows, plan.window_bits, lines, out,
        label="finish",
    )  # fmt: skip
