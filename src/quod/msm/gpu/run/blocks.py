"""MSMs in blocks: bucket sums are carried from one block to the next.

The scalars or bases of a block can be uploaded while the previous block is computed, and the bases
may be in several buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import RecordingStream
from quod.frozen import frozen, replace
from quod.msm.gpu.buckets import merge
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.record_buckets import (
    RecordedMsm,
    Span,
    record_buckets,
    record_sentinel,
    record_window_sums,
)
from quod.msm.gpu.run.record_sort import Scalars
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace, carried_sums


@frozen
class BaseBlock:
    """Consecutive scalars of an MSM, and the bases of their entries.

    plan: the plan of the block, with the same windows for all blocks.
    start: the position of the first scalar.
    """

    plan: GpuMsmPlan
    start: int
    scalars: Scalars
    bases: Buffer


def record_blocks(
    recording: RecordingStream, device: AnyDevice, blocks: Iterable[BaseBlock], workspace: Workspace
) -> RecordedMsm:
    """Record an MSM in blocks.

    blocks: an iterator that may record the upload of each block when it yields it.
    workspace: of `blocks_bytes`.
    """
    spans: list[Span] = []

    def download(block: BaseBlock, arrays: MsmBuffers) -> None:
        word = device.pinned(16)
        recording.download(arrays.too_large, word, label="digits")
        spans.append(Span(word, block.start, block.scalars.stride))

    msm_plan, lines = _record(recording, device, blocks, workspace, download)
    host = device.pinned(lines.nbytes)
    recording.download(lines, host, label="reduce")
    return RecordedMsm(device, msm_plan, host, spans)


def record_blocks_to_lines(
    recording: RecordingStream,
    device: AnyDevice,
    blocks: Iterable[BaseBlock],
    workspace: Workspace,
    lines: Buffer,
    flag: Buffer,
) -> None:
    """Record an MSM without a download.

    lines: receives the lines.
    flag: zeroed by the caller; the recording sets its first word to another value if a scalar is
        too large.
    """
    _record(recording, device, blocks, workspace, lambda block, arrays: None, lines, flag)


def _record(
    recording: RecordingStream,
    device: AnyDevice,
    blocks: Iterable[BaseBlock],
    workspace: Workspace,
    after: Callable[[BaseBlock, MsmBuffers], None],
    lines: Buffer | None = None,
    flag: Buffer | None = None,
) -> tuple[GpuMsmPlan, Buffer]:
    """Record the blocks; return the plan of the whole MSM, and its lines.

    after: called when the sums of a block have been recorded.
    lines, flag: see `record_blocks_to_lines`; default: in the workspace.
    """
    arena, count = Arena(device, workspace), 0
    for block in blocks:
        block_plan = block.plan
        arena.rewind(0)
        carried = carried_sums(arena, block_plan)
        arrays = MsmBuffers.of(device, block_plan, arena)
        if flag is not None:
            arrays = replace(arrays, too_large=flag)
        record_buckets(recording, device, block_plan, block.scalars, block.bases, arrays)
        merge.record_carry(
            recording, device, block_plan, arrays.chunks, arrays.sums, carried, begins=not count
        )  # fmt: skip
        after(block, arrays)
        count += block_plan.count
    msm_plan = replace(block_plan, count=count)
    if lines is None:
        lines = arrays.window_sums
        record_sentinel(recording, lines)
    record_window_sums(recording, device, msm_plan, None, carried, lines, arrays.scratch)
    return msm_plan, lines
