"""Record which kernels are launched, to identify the code that a benchmark measures."""

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
        """Record a kernel."""
        self._kernels.add(kernel)

    def digest(self) -> str:
        """Return a hash, in hex, of the set of texts emitted for the kernels; "" without kernels.

        The hash does not depend on the order or number of launches.
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
    """Report a kernel launch; devices call this function."""
    for collector in _collectors:
        collector.add(kernel)


def report_recording(recording: Recording) -> None:
    """Report the launches of a submitted recording; streams call this function."""
    if _collectors:
        from quod.device.runtime.recording import Launch

        for step in recording.steps:
            if isinstance(step, Launch):
                report_launch(step.kernel)
