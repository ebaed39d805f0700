"""An opened adapter: the memory, queue, staging buffers and pipelines that all work on it shares.

Copies, recordings and probes use only the session; the device wraps it for callers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from quod.codegen.wgsl.machine import WgslLimits
from quod.device import host
from quod.device.cache.cache import CompileCache
from quod.device.memory.buffer import Array, Buffer, Space
from quod.device.runtime import cancellation
from quod.device.webgpu.compiler import PipelineCompiler
from quod.device.webgpu.memory import ALIGNMENT, WebGpuMemory
from quod.device.webgpu.native import Native, WebGpuError
from quod.device.webgpu.queue import Receipt, WebGpuQueue
from quod.device.webgpu.shaders import COUNT, FILL, STATE_BYTES
from quod.device.webgpu.staging import StagingBuffer, StagingLease, StagingRing
from quod.errors import DeviceError


class Session:
    """The shared state of one opened adapter. Thread-safe.

    gpu: the package's device.
    limits: the limits that kernels are compiled for.
    tick_nanoseconds: length of a tick of the GPU's clock; 0 without a clock.
    synchronous: submit recorded steps one by one.
    watch: the bind group in which kernels report loops that the driver ended early, or None.
    nothing: a buffer that stands in for empty arrays.
    """

    def __init__(
        self, native: Native, gpu: Any, space: Space, limits: WgslLimits, cache: CompileCache, *,
        memory_budget: int, watchdog: float, synchronous: bool,
    ) -> None:  # fmt: skip
        self.native = native
        self.gpu = gpu
        self.space = space
        self.name = space.name
        self.limits = limits
        self.synchronous = synchronous
        self.watch: Any = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._fill_pipeline: Any = None
        has_clock = "timestamp-query" in gpu.features
        self.tick_nanoseconds = native.timestamp_nanoseconds(gpu) if has_clock else 0.0
        self.memory = WebGpuMemory(
            native, gpu, space, self.name, memory_budget, limits.buffer_bytes
        )  # fmt: skip
        self.uploads = StagingRing(native, gpu, upload=True)
        self.downloads = StagingRing(native, gpu, upload=False)
        self.compiler = PipelineCompiler(
            native, gpu, cache, host.usable_threads(),
            checked=os.environ.get("QUOD_WEBGPU_CHECKED", "0") not in ("", "0"),
        )  # fmt: skip
        self.queue = WebGpuQueue(native, gpu, self.name, watchdog, space.lose)
        with self.using(lambda: "opening the device"):
            usage = native.wgpu.BufferUsage
            self.nothing = gpu.create_buffer(
                size=ALIGNMENT * (limits.storage_buffers + 1), usage=usage.STORAGE | usage.UNIFORM
            )
            self._open_queue()

    def _open_queue(self) -> None:
        """Compile the kernel that ends every submission, bound to the buffer in which it counts."""
        layout, _ = self.compiler.layout(1)
        group = self.gpu.create_bind_group(
            layout=layout,
            entries=[
                {"binding": 0, "resource": {"buffer": self.nothing, "offset": 0, "size": 16}},
                {
                    "binding": 1,
                    "resource": {"buffer": self.queue.state, "offset": 0, "size": STATE_BYTES},
                },
            ],
        )
        self.queue.set_counter(self.compiler.compile("count", COUNT, 1), group)

    def watch_loops(self) -> None:
        """Let kernels report loops that the driver has ended."""
        self.watch = self.compiler.watch(self.queue.state, STATE_BYTES)

    @property
    def is_of_this_process(self) -> bool:
        """True unless the process has forked since the session opened."""
        return os.getpid() == self._process

    @contextmanager
    def using(self, doing: Callable[[], str] | None = None) -> Iterator[None]:
        """Add `doing()`, the current operation, to errors of the body.

        Raises DeviceError if the device is lost or closed.
        """
        self.space.check()
        if not self.is_of_this_process:
            raise DeviceError(
                f"{self.name} was opened before this process was forked, which WebGPU "
                "does not support; open the device in the process that uses it"
            )
        self.memory.destroy_unreferenced()
        try:
            with self.native.errors():
                yield
        except WebGpuError as error:
            during = "" if doing is None else f", in {doing()}"
            if error.is_lost:
                loss = self.native.take_loss_report()
                self.space.lose(
                    f"the device was lost{f' ({loss})' if loss else ''}{during}; close it and open "
                    "it again"
                )
            raise WebGpuError(
                f"{self.name}: {error}{during}",
                is_out_of_memory=error.is_out_of_memory,
                is_lost=error.is_lost,
            ) from error

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate zeroed device memory; raises DeviceError if there is too little."""
        with self.using(lambda: "allocating memory"):
            return self.memory.allocate(nbytes)

    @property
    def fill_pipeline(self) -> Any:
        """The kernel that sets memory to a word other than zero."""
        with self._lock:
            if self._fill_pipeline is None:
                self._fill_pipeline = self.compiler.compile("fill", FILL, 1)
            return self._fill_pipeline

    def lease(self, ring: StagingRing) -> StagingLease:
        """Return a lease through which staging buffers of `ring` are taken."""
        return StagingLease(ring, self.queue)

    def read_download(self, staging: StagingBuffer, start: int, target: Array) -> None:
        """Wait for a download into this buffer, and copy its bytes to host memory."""
        mapping = staging.mapping
        assert mapping is not None
        self.queue.wait(lambda: mapping.is_done)
        if mapping.refusal:
            raise DeviceError(f"{self.name}: a download cannot be read: {mapping.refusal}")
        self.downloads.read(staging, start, target)

    def wait_for(self, receipt: Receipt) -> None:
        """Wait until a submission is done; raise DeviceError if it failed or was cancelled."""
        stop = cancellation.current()
        stopped = None if stop is None else lambda: stop.requested
        if not self.queue.wait(lambda: receipt.is_done, stopped):
            assert stop is not None
            stop.check(receipt.doing())
        if receipt.error is not None:
            raise receipt.error
