"""A CPU device that skips workgroups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.device.cpu.device import CpuDevice


class SkippingDevice(CpuDevice):
    """A CPU device that skips `leaves(name)` workgroups of each launch of a kernel."""

    leaves: Callable[[str], int] = staticmethod(lambda _: 0)

    def execute(self, kernel: Any, groups: int, *arguments: Any) -> None:
        groups -= min(groups, self.leaves(kernel.name))
        if groups:
            super().execute(kernel, groups, *arguments)
