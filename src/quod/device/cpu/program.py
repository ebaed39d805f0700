"""Recorded work as a list of prepared calls, for runs in the waiting thread.

The arguments of each step are prepared once. Between two runs, other work fills the CPU's caches;
the Python code that prepares a run would then take longer than a small kernel.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from quod.device.cpu.compiler import CpuKernel
from quod.device.memory.buffer import host_bytes
from quod.device.runtime.recording import Copy, Fill, Launch, Recording, Step

Calls = tuple[tuple[Any, ...], ...]
"""Arguments of `CpuDevice.execute` for a launch, an array and its new value for other steps."""

_OF_A_LAUNCH = 5


class Programs:
    """The calls of recordings, each computed on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: weakref.WeakKeyDictionary[Recording, Calls | None]
        self._known = weakref.WeakKeyDictionary()

    def of(self, recording: Recording) -> Calls | None:
        """Return the calls of a recording, or None if it has events, which wait in a thread."""
        try:
            return self._known[recording]
        except KeyError:
            pass
        calls: list[tuple[Any, ...]] = []
        for step in recording.steps:
            call = _call(step)
            if call is None:
                break
            calls.append(call)
        program = tuple(calls) if len(calls) == len(recording.steps) else None
        with self._lock:
            self._known[recording] = program
        return program


def _call(step: Step) -> tuple[Any, ...] | None:
    match step:
        case Launch():
            kernel = step.kernel
            size = (
                kernel.size_class(step.groups, step.arguments)
                if isinstance(kernel, CpuKernel)
                else None
            )
            return kernel, step.groups, step.packed, step.arguments, size
        case Copy():
            return host_bytes(step.target), host_bytes(step.source)
        case Fill():
            return host_bytes(step.target).view(np.uint32), step.word
    return None


def run_calls(execute: Callable[..., None], calls: Calls) -> None:
    """Run a recording in this thread; `execute` is the device's method."""
    for call in calls:
        if len(call) == _OF_A_LAUNCH:
            execute(*call)
        else:
            target, value = call
            target[:] = value
