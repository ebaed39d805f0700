"""Recorded work on the CPU: a separate thread runs the steps in order.

That thread only passes launches to the device's workers and copies memory, so the host's own work
continues concurrently.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quod.device.memory.buffer import host_bytes
from quod.device.runtime.recording import Copy, Fill, Launch, Recording
from quod.device.runtime.thread_stream import ThreadSubmission
from quod.device.runtime.timeline import Stage, Timeline


class CpuSubmission(ThreadSubmission):
    """One run of a recording."""

    def __init__(
        self, execute: Callable[..., None], recording: Recording, name: str,
        timeline: Timeline | None, parent: Stage | None, *, here: bool = False,
    ) -> None:  # fmt: skip
        """Start a run.

        execute: the device's method, which runs a launch with packed arguments.
        """
        self._execute = execute
        super().__init__(recording, name, timeline, parent, here=here)

    def _launch(self, step: Launch) -> None:
        self._execute(step.kernel, step.groups, step.packed, step.arguments)

    def _copy(self, step: Copy) -> None:
        host_bytes(step.target)[:] = host_bytes(step.source)

    def _fill(self, step: Fill) -> None:
        host_bytes(step.target).view(np.uint32)[:] = step.word
