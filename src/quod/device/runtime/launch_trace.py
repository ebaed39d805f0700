"""Record the kernels that are launched meanwhile, to know the code that a figure measures."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from quod.device.runtime.kernel_table import CompiledKernel
    from quod.device.runtime.recording import Recording


class LaunchedKernels:
    """The kernels that this process launches, on any device and by any thread, while entered."""

    def __init__(self) -> None:
        self._kernels: set[CompiledKernel] = set()

    def add(self, kernel: CompiledKernel) -> None:
        """Notes a kernel."""
        self._kernels.add(kernel)

    def digest(self) -> str:
        """A hash of the texts that were emitted for the kernels, in hex; "" if there are none.

        It depends on which texts there are and on nothing else: not on their order or number.
        """
        digests = sorted({kernel.digest for kernel in self._kernels})
        return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else ""

    def __enter__(self) -> Self:
        global _collectors
        with _lock:
            _collectors = (*_collectors, self)
        return self

    def __exit__(self, *_: object) -> None:
        global _collectors
        with _lock:
            _collectors = tuple(collector for collector in _collectors if collector is not self)


_collectors: tuple[LaunchedKernels, ...] = ()
_lock = threading.Lock()


def report_launch(kernel: CompiledKernel) -> None:
    """A kernel is launched; devices call it."""
    for collector in _collectors:
        collector.add(kernel)


def report_recording(recording: Recording) -> None:
    """Recorded work is submitted; streams call it."""
    if _collectors:
        from quod.device.runtime.recording import Launch

        for step in recording.steps:
            if isinstance(step, Launch):
                report_launch(step.kernel)
