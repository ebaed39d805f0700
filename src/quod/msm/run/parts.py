"""An MSM in parts: the sums of its buckets are carried from one part to the next.

So the scalars, or the bases, of a part can be uploaded while the part before is worked on, and
bases need not lie together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quod.device.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.stream import RecordingStream
from quod.frozen import frozen, replace
from quod.msm.buckets import merge
from quod.msm.layout import GpuMsmPlan
from quod.msm.run.record import Scalars
from quod.msm.run.recorded import (
    RecordedMsm,
    Span,
    record_buckets,
    record_lines,
    record_marked,
)
from quod.msm.run.workspace import Arena, MsmBuffers, Workspace, take_carried


@frozen
class Part:
    """Some scalars of an MSM and the bases that their entries count.

    `start` is the number of the first. The plans of all parts have the same windows.
    """

    plan: GpuMsmPlan
    start: int
    scalars: Scalars
    bases: Buffer


def record_parts(
    recording: RecordingStream, device: AnyDevice, parts: Iterable[Part], workspace: Workspace
) -> RecordedMsm:
    """Records an MSM; `parts` record what brings their data as they are asked for.

    The workspace is of `parts_bytes`.
    """
    spans: list[Span] = []

    def note(part: Part, arrays: MsmBuffers) -> None:
        word = device.pinned(16)
        recording.download(arrays.too_large, word, label="digits")
        spans.append(Span(word, part.start, part.scalars.stride))

    whole, lines = _record(recording, device, parts, workspace, None, note)
    host = device.pinned(lines.nbytes)
    recording.download(lines, host, label="reduce")
    return RecordedMsm(device, whole, host, spans)


def record_parts_to_lines(
    recording: RecordingStream,
    device: AnyDevice,
    parts: Iterable[Part],
    workspace: Workspace,
    flag: Buffer,
) -> Buffer:
    """Records an MSM of which nothing goes to the host; gives the memory of its lines.

    `flag` must be zero before, and its first word says afterwards whether a scalar was too large.
    """
    return _record(recording, device, parts, workspace, flag, lambda part, arrays: None)[1]


def _record(
    recording: RecordingStream,
    device: AnyDevice,
    parts: Iterable[Part],
    workspace: Workspace,
    flag: Buffer | None,
    note: Callable[[Part, MsmBuffers], None],
) -> tuple[GpuMsmPlan, Buffer]:
    """The plan of the whole MSM, and its lines; `note` is called behind the sums of each part."""
    carver, count = Arena(device, workspace), 0
    for part in parts:
        own = part.plan
        carver.back_to(0)
        carried = take_carried(carver, own)
        arrays = MsmBuffers.of(device, own, carver)
        if flag is not None:
            arrays = replace(arrays, too_large=flag)
        record_buckets(recording, device, own, part.scalars, part.bases, arrays)
        merge.record_carry(
            recording, device, own, arrays.units, arrays.sums, carried, begins=not count
        )  # fmt: skip
        note(part, arrays)
        count += own.count
    whole = replace(own, count=count)
    if flag is None:
        record_marked(recording, arrays.lines)
    record_lines(recording, device, whole, None, carried, arrays.lines, arrays.scratch)
    return whole, arrays.lines
