"""MSMs of scalars in host memory on a GPU; each shape of MSM is recorded once and replayed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np

from quod.curve.group import Group
from quod.curve.sums.forms import PRODUCTS_OF_BASE, addition_cost
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError, InputError
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.run.device_plan import fits, plan_gpu_msm, with_batch
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.streamed import StreamedMsm, StreamPlan, plan_streamed
from quod.msm.gpu.run.workspace import Workspace, blocks_bytes
from quod.msm.options import MsmOptions
from quod.msm.scalars import SCALAR_BYTES

# The number of recordings, each with its memory, that bases keep.
_MAX_SESSIONS = 2

# Up to this many scalars can always be sorted at once, with some window width.
_MAX_SORTED_AT_ONCE = 1 << 26

# With this many scalars, an upload in one piece takes longer than the extra work of two blocks, the
# first of which passes its bucket sums on to the second.
_MIN_SCALARS_FOR_BLOCKS = 1 << 21

# 32-bit multiply-adds that a GPU does while a scalar is uploaded. For an H200: 32 bytes at 55 GB/s,
# and 8.5 T multiply-adds per second in accumulation, less a tenth for sorting.
_UPLOAD_COST = 4400

# Resident bases without multiples, and a streamed MSM, may take at most the memory budget divided
# by this.
_SHARE = 2


def first_block(plan: GpuMsmPlan) -> int:
    """Return the number of scalars to upload first.

    No computation hides the first upload, so the block is just long enough to hide the upload of
    the other scalars.
    """
    addition = addition_cost(plan.group, plan.form, PRODUCTS_OF_BASE[plan.form])
    work = plan.digit_windows * addition
    return -(-plan.count * _UPLOAD_COST // (_UPLOAD_COST + work))


class Session:
    """An MSM of one shape over some bases: a recording, and the host memory that it reads.

    scalars: page-locked memory, uint32 of shape (vectors, n, 8). Scalars already there are not
        copied.
    """

    def __init__(
        self, device: AnyDevice, vectors: int, count: int,
        record: Callable[[RecordingStream, Array], RecordedMsm],
    ) -> None:  # fmt: skip
        memory = device.pinned(SCALAR_BYTES * vectors * count)
        self.scalars: Array = memory.view(np.uint32).reshape(vectors, count, SCALAR_BYTES // 4)
        self._device = device
        recording = device.stream("msm").record()
        self._recorded = record(recording, self.scalars)
        self._recording: Recording = recording.finish().recording
        self._lock = threading.Lock()

    def run(self, scalars: Array, timeline: Timeline | None) -> Array:
        """Return the MSMs of `scalars`, uint64 of shape (vectors, group.point_words)."""
        with self._lock:
            if scalars.ctypes.data != self.scalars.ctypes.data:
                np.copyto(self.scalars, scalars)
            self._recorded.reset_results()
            stream = self._device.stream("msm").replay(self._recording)
            stream.run(timeline)
            return self._recorded.finish()


class GpuEngine:
    """Compute MSMs over one array of bases on a GPU; see `MsmEngine`.

    Scalars are in host memory or device memory.

    Unless the options decide, bases are resident if they fit half of the memory budget and an MSM
    over all of them can be sorted at once; otherwise they are streamed.
    """

    def __init__(
        self, device: AnyDevice, group: Group, points: Array, options: MsmOptions
    ) -> None:  # fmt: skip
        self.device = device
        self.group = group
        self.options = options
        self._count = len(points)
        self._sessions: OrderedDict[Hashable, Session] = OrderedDict()
        self._lock = threading.Lock()
        # For the bases and their multiples. Bases alone may exceed it.
        base_budget = max(points.nbytes, device.memory_budget // (2 * _SHARE))
        streamed = options.streamed
        if streamed is None:
            streamed = not self._fits_device(points.nbytes, base_budget)
        self.resident: ResidentMsm | None = None
        self.streamed: StreamedMsm | None = None
        if streamed:
            self._check(self._count, self._stream_plan(self._count, options).peak_bytes(device))
            self.streamed = StreamedMsm(device, group, points)
        else:
            self.resident = ResidentMsm(device, group, points, options, base_budget=base_budget)

    def _fits_device(self, nbytes: int, base_budget: int) -> bool:
        """Return whether bases of `nbytes` fit on the device and have a plan."""
        if nbytes > self.device.memory_budget // _SHARE:
            return False
        if self._count <= _MAX_SORTED_AT_ONCE:
            return True
        try:
            plan = plan_gpu_msm(
                self.group, self._count, self.options,
                limits=DeviceLimits.of(self.device), base_budget=base_budget,
            )  # fmt: skip
        except InputError:
            return False
        return fits(plan)

    @property
    def nbytes(self) -> int:
        return 0 if self.resident is None else self.resident.nbytes

    def msm_words(
        self, scalars: Array, options: MsmOptions | None, timeline: Timeline | None
    ) -> Array:
        vectors, count = scalars.shape[:2]
        results = np.zeros((vectors, self.group.point_words), np.uint64)
        batch = self.batch(count, vectors, options)
        for start in range(0, vectors, batch):
            chunk = scalars[start : start + batch]
            session = self.session(count, len(chunk), options)
            results[start : start + len(chunk)] = session.run(chunk, timeline)
        return results

    def buffer_msm_words(
        self, scalars: Buffer, vectors: int, count: int, timeline: Timeline | None
    ) -> Array:
        resident, device = self.resident, self.device
        if resident is None:
            host = np.empty((vectors, count, SCALAR_BYTES // 4), np.uint32)
            device.download(scalars, host)
            return self.msm_words(host, None, timeline)
        results = np.zeros((vectors, self.group.point_words), np.uint64)
        plan = resident.plan(count, vectors)
        needed_bytes = resident.workspace_bytes(plan)
        self._check(count, needed_bytes + scalars.nbytes)
        workspace, vector_bytes = Workspace(device, needed_bytes), SCALAR_BYTES * count
        for start in range(0, vectors, plan.batch):
            stop = min(start + plan.batch, vectors)
            recording = device.stream("msm").record()
            recorded = resident.record(
                recording, scalars.slice(start * vector_bytes, stop * vector_bytes),
                workspace=workspace, plan=with_batch(plan, count, stop - start),
            )  # fmt: skip
            recording.finish().run(timeline)
            results[start:stop] = recorded.finish()
        return results

    def scalar_memory(self, count: int, options: MsmOptions | None) -> Array:
        memory: Array = self.session(count, 1, options).scalars[0]
        return memory

    def peak_bytes(self, count: int, vectors: int, options: MsmOptions | None) -> int:
        if self.resident is None:
            return self._stream_plan(count, options).peak_bytes(self.device)
        plan = self.resident.plan(count, vectors, options)
        scalar_bytes = SCALAR_BYTES * plan.batch * count
        upload_blocks = self._upload_blocks(self.resident, plan)
        if upload_blocks:
            return scalar_bytes + blocks_bytes(self.device, upload_blocks)
        return scalar_bytes + self.resident.workspace_bytes(plan)

    def batch(self, count: int, vectors: int, options: MsmOptions | None) -> int:
        """Return the batch size for `vectors` vectors of `count` scalars."""
        if self.resident is None:
            return 1
        return self.resident.plan(count, vectors, options).batch

    def session(self, count: int, vectors: int, options: MsmOptions | None) -> Session:
        """Return the session of a shape, created at its first use.

        Raises DeviceError if it does not fit the device's memory budget.
        """
        key = (count, vectors, options)
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                while len(self._sessions) >= _MAX_SESSIONS:
                    self._sessions.popitem(last=False)
                session = self._sessions[key] = self._session_within_budget(count, vectors, options)
            self._sessions.move_to_end(key)
            return session

    def _session_within_budget(
        self, count: int, vectors: int, options: MsmOptions | None
    ) -> Session:
        try:
            return self._new_session(count, vectors, options)
        except DeviceError:
            if not self._sessions:
                raise
        # Sessions of other shapes may hold the memory that this session needs.
        self._sessions.clear()
        return self._new_session(count, vectors, options)

    def _new_session(self, count: int, vectors: int, options: MsmOptions | None) -> Session:
        """Record an MSM of this shape; raise DeviceError if it exceeds the memory budget."""
        device, resident = self.device, self.resident
        self._check(count, self.peak_bytes(count, vectors, options))
        scalar_bytes = SCALAR_BYTES * vectors * count

        def upload_all(recording: RecordingStream, scalars: Array) -> Buffer:
            memory = device.allocate(scalar_bytes, zero=False)
            recording.upload(scalars, memory, label="upload scalars")
            return memory

        if self.streamed is not None:
            streamed, stream_plan = self.streamed, self._stream_plan(count, options)

            def record(recording: RecordingStream, scalars: Array) -> RecordedMsm:
                return streamed.record(recording, upload_all(recording, scalars), stream_plan)

            return Session(device, 1, count, record)
        assert resident is not None
        plan = resident.plan(count, vectors, options)
        upload_blocks = self._upload_blocks(resident, plan)

        def record_resident(recording: RecordingStream, scalars: Array) -> RecordedMsm:
            if upload_blocks:
                memory = device.allocate(scalar_bytes, zero=False)
                workspace = Workspace(device, blocks_bytes(device, upload_blocks))
                return resident.record_in_blocks(
                    recording, scalars[0], upload_blocks, memory, workspace
                )
            memory = upload_all(recording, scalars)
            workspace = Workspace(device, resident.workspace_bytes(plan))
            return resident.record(recording, memory, workspace=workspace, plan=plan)

        return Session(device, vectors, count, record_resident)

    def _upload_blocks(self, resident: ResidentMsm, plan: GpuMsmPlan) -> list[GpuMsmPlan]:
        """Return the plans of two blocks for the upload of scalars; empty for a single upload."""
        has_several_base_blocks = len(resident.blocks) > 1
        if plan.batch > 1 or plan.count < _MIN_SCALARS_FOR_BLOCKS or has_several_base_blocks:
            return []
        first_count = first_block(plan)
        return [with_batch(plan, block, 1) for block in (first_count, plan.count - first_count)]

    def _stream_plan(self, count: int, options: MsmOptions | None) -> StreamPlan:
        budget = self.device.memory_budget // _SHARE
        return plan_streamed(self.device, self.group, count, options or self.options, budget)

    def _check(self, count: int, needed: int) -> None:
        """Raise DeviceError if an MSM and the bases exceed the memory budget."""
        description = f"an MSM of {count} scalars over {self.group.name}"
        self.device.check_budget(description, needed + self.nbytes)
