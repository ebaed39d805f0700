"""Recorded work on the CPU: a thread of its own runs the steps in their order.

The thread only hands launches to the device's workers and copies memory, so the host's own work
goes on beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quod.device.buffer import Buffer
from quod.device.cpu_compiler import CpuKernel
from quod.device.recording import Copy, Fill, Launch, Memory, Recording
from quod.device.thread_stream import ThreadSubmission
from quod.device.timeline import Stage, Timeline

if TYPE_CHECKING:
    from quod.device.cpu import CpuDevice


class CpuSubmission(ThreadSubmission):
    """One run of a recording."""

    def __init__(
        self, device: CpuDevice, recording: Recording, name: str,
        timeline: Timeline | None, parent: Stage | None,
    ) -> None:  # fmt: skip
        self._device = device
        super().__init__(recording, name, timeline, parent)

    def _launch(self, step: Launch) -> None:
        assert isinstance(step.kernel, CpuKernel)
        self._device.execute(step.kernel, step.groups, step.packed, step.arguments)

    def _copy(self, step: Copy) -> None:
        _bytes_of(step.target)[:] = _bytes_of(step.source)

    def _fill(self, step: Fill) -> None:
        _bytes_of(step.target).view(np.uint32)[:] = step.word


def _bytes_of(memory: Memory) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    buffer = memory if isinstance(memory, Buffer) else Buffer.wrap(memory)
    return buffer.view(np.uint8)
