"""GPU commands, collected until they are submitted together.

Consecutive launches share a compute pass. With timestamps, each launch has its own pass, and the
GPU writes the time at the start and end of the pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.device.memory.buffer import Array
from quod.device.webgpu.memory import ALIGNMENT
from quod.device.webgpu.staging import StagingBuffer, StagingLease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quod.device.webgpu.kernel import StorageRange
    from quod.device.webgpu.session import Session

MAX_TIMES = 1024
"""The maximum number of timestamps per submission."""
_TIME_BYTES = 8


@dataclass
class Times:
    """The timestamps of a submission, which are being copied to the host.

    steps: for each pair of timestamps, the index of its step in the recording.
    staging: the buffer that receives the timestamps.
    """

    steps: list[int]
    staging: StagingBuffer

    def read(self, session: Session) -> Array:
        """Return start and end per entry of `steps`, in nanoseconds of the GPU's clock."""
        ticks = np.zeros(2 * len(self.steps), np.uint64)
        session.read_download(self.staging, 0, ticks.view(np.uint8))
        return (ticks.astype(np.float64) * session.tick_nanoseconds).reshape(-1, 2)


class Encoding:
    """The commands of one submission; with `timed`, each has timestamps of its start and end.

    A command's `step` is the index of the recording's step that it belongs to.
    """

    def __init__(self, session: Session, *, timed: bool = False) -> None:
        self._session = session
        self._gpu = session.gpu
        self._encoder: Any = None
        self._pass: Any = None
        self._timed = timed
        self._queries: Any = None
        self._steps: list[int] = []
        self.count = 0

    @property
    def is_full(self) -> bool:
        """True if no further timestamps fit."""
        return self._timed and 2 * len(self._steps) + 2 > MAX_TIMES

    @property
    def encoder(self) -> Any:
        """The command encoder of wgpu; an open pass is ended first."""
        self._end_pass()
        if self._encoder is None:
            self._encoder = self._gpu.create_command_encoder()
        return self._encoder

    def _end_pass(self) -> None:
        if self._pass is not None:
            self._pass.end()
            self._pass = None

    def _next_time(self, step: int) -> int:
        """Reserve two timestamps for a step; return the index of the first."""
        if self._queries is None:
            self._queries = self._gpu.create_query_set(type="timestamp", count=MAX_TIMES)
        self._steps.append(step)
        return 2 * len(self._steps) - 2

    def _write_time(self, number: int) -> None:
        """Let the GPU write a timestamp between two commands."""
        empty_pass = self.encoder.begin_compute_pass(
            timestamp_writes={"query_set": self._queries, "beginning_of_pass_write_index": number}
        )
        empty_pass.end()

    def dispatch(
        self, pipeline: Any, bind_group: Any, offset: int, grid: tuple[int, int], step: int = 0
    ) -> None:
        """Encode a dispatch; the kernel's parameters are at byte `offset` of the uniform buffer."""
        if self._timed:
            encoder, number = self.encoder, self._next_time(step)
            self._pass = encoder.begin_compute_pass(
                timestamp_writes={
                    "query_set": self._queries,
                    "beginning_of_pass_write_index": number,
                    "end_of_pass_write_index": number + 1,
                }
            )
        elif self._pass is None:
            self._pass = self.encoder.begin_compute_pass()
        compute_pass = self._pass
        compute_pass.set_pipeline(pipeline)
        compute_pass.set_bind_group(0, bind_group, [offset])
        # Kernels report loops that the driver ended early in this bind group's buffer.
        if self._session.watch is not None:
            compute_pass.set_bind_group(1, self._session.watch)
        compute_pass.dispatch_workgroups(*grid)
        self.count += 1

    def copy(
        self, source: Any, source_start: int, target: Any, target_start: int, nbytes: int,
        step: int = 0,
    ) -> None:  # fmt: skip
        """Encode a copy between driver buffers; offsets and size are bytes, multiples of four."""
        encoder = self.encoder
        number = self._next_time(step) if self._timed else 0
        if self._timed:
            self._write_time(number)
        encoder.copy_buffer_to_buffer(source, source_start, target, target_start, nbytes)
        if self._timed:
            self._write_time(number + 1)
        self.count += 1

    def clear(self, target: Any, start: int, nbytes: int, step: int = 0) -> None:
        """Encode a fill with zeros; offset and size are bytes, multiples of four."""
        encoder = self.encoder
        number = self._next_time(step) if self._timed else 0
        if self._timed:
            self._write_time(number)
        encoder.clear_buffer(target, start, nbytes)
        if self._timed:
            self._write_time(number + 1)
        self.count += 1

    def finish_times(self, downloads: StagingLease) -> Times | None:
        """Encode the download of the timestamps, for `Times.read` once the work is done."""
        if not self._steps:
            return None
        usage = self._session.native.wgpu.BufferUsage
        nbytes = _TIME_BYTES * 2 * len(self._steps)
        resolved = self._gpu.create_buffer(size=nbytes, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        staging = downloads.acquire_short(nbytes)
        encoder = self.encoder
        encoder.resolve_query_set(self._queries, 0, 2 * len(self._steps), resolved, 0)
        encoder.copy_buffer_to_buffer(resolved, 0, staging.handle, 0, nbytes)
        return Times(self._steps, staging)


class Parameters:
    """Uniform blocks of many launches, stored consecutively, without duplicates."""

    def __init__(self) -> None:
        self._blocks = bytearray()
        self._known: dict[bytes, int] = {}

    def add(self, block: bytes) -> int:
        """Add a block, unless it is known, and return its offset."""
        offset = self._known.get(block)
        if offset is None:
            offset = self._known[block] = len(self._blocks)
            self._blocks += block
            self._blocks += bytes(-len(self._blocks) % ALIGNMENT)
        return offset

    def buffer(self, session: Session) -> Any:
        """Create a uniform buffer of the driver with all blocks."""
        usage = session.native.wgpu.BufferUsage
        size = max(ALIGNMENT, len(self._blocks))
        handle = session.gpu.create_buffer(size=size, usage=usage.UNIFORM | usage.COPY_DST)
        if self._blocks:
            session.gpu.queue.write_buffer(handle, 0, self._blocks)
        return handle


def bind_group(session: Session, uniform: Any, nbytes: int, ranges: Sequence[StorageRange]) -> Any:
    """Create the bind group of a launch: `nbytes` of parameters, and its memory ranges."""
    layout, _ = session.compiler.layout(len(ranges))
    entries = [{"binding": 0, "resource": {"buffer": uniform, "offset": 0, "size": nbytes}}]
    for number, row in enumerate(ranges):
        if row.allocation is None:
            # Empty memory is never accessed, but its binding needs a range of a buffer that no
            # other binding uses.
            resource = {
                "buffer": session.nothing,
                "offset": number * ALIGNMENT,
                "size": ALIGNMENT,
            }
        else:
            resource = {"buffer": row.allocation.handle, "offset": row.start, "size": row.size}
        entries.append({"binding": number + 1, "resource": resource})
    return session.gpu.create_bind_group(layout=layout, entries=entries)
