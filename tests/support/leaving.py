"""A processor that does not run all that it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quod.device.cpu.device import CpuDevice


class Leaving(CpuDevice):
    """Leaves out some workgroups, or all, of the kernels of some names."""

    leaves: Callable[[str], int] = staticmethod(lambda _: 0)

    def execute(self, kernel: Any, groups: int, *rest: Any) -> None:
        groups -= min(groups, self.leaves(kernel.name))
        if groups:
            super().execute(kernel, groups, *rest)
