"""A device that stands for CPUs of a feature level, to collect the kernels that they use."""

from __future__ import annotations

from quod.device.cpu.device import CpuDevice
from quod.device.cpu.levels import Level
from quod.kernel.machine import Machine


class LevelDevice(CpuDevice):
    """Chooses kernels as a CPU of a level would; it need not be able to run them."""

    def __init__(self, level: Level) -> None:
        super().__init__(strategy="scalar", threads=1)
        self._level = level
        self.strategy = level.strategy

    def _machine(self, lanes: int) -> Machine:
        return self._level.machine(lanes)
