"""The launches of a witness program: replays of stages, in batches that may run at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from quod.device.discovery import resolve_device
from quod.device.protocol import AnyDevice, in_host_memory
from quod.field.moduli import Modulus
from quod.frozen import frozen
from quod.r1cs.lanes import Lanes
from quod.r1cs.repetition.schedule import Schedule, ShortcutRun, StageRun
from quod.r1cs.tables import ScheduleTables

# Bytes of registers, at most, that launches work on at a time.
_MAX_BYTES = 1 << 30
# Workgroup size on a GPU; all instances of a workgroup take the same branches.
_GPU_WORKGROUP_SIZE = 32


@frozen(eq=False)
class Replay:
    """The replay of a stage for lanes `first` to `last` - 1, in workgroups of `width` instances."""

    run: StageRun
    first: int
    last: int
    width: int

    @property
    def groups(self) -> int:
        return -(-(self.last - self.first) // self.width)

    @property
    def registers(self) -> int:
        return self.run.stage.program.registers


@frozen(eq=False)
class Batch:
    """Shortcuts, and replays with registers of at most `_MAX_BYTES`, that may run at once."""

    shortcuts: list[ShortcutRun]
    replays: list[Replay]


class WitnessPlan:
    """The launches that compute witnesses by a schedule, on a device, by default the CPU."""

    def __init__(
        self, schedule: Schedule, input_wires: NDArray[np.int64], modulus: Modulus,
        device: AnyDevice | None = None,
    ) -> None:  # fmt: skip
        self.schedule, self.input_wires, self.modulus = schedule, input_wires, modulus
        self._device_choice = device
        self.tables = ScheduleTables(schedule, modulus)

    @property
    def device(self) -> AnyDevice:
        """The device; the CPU is resolved at each access, as a failed one is opened again."""
        return self._device_choice or resolve_device("cpu")

    @property
    def wires(self) -> int:
        """The number of wires of a witness."""
        return self.schedule.parts.wires

    def batches(self, witnesses: int) -> list[Batch]:
        """Return the batches in the order in which they are to run.

        A replay that calls hints has its own batch.
        """
        # On a CPU each launch uses all threads, so there is one at a time.
        max_bytes = 0 if in_host_memory(self.device) else self._max_bytes
        batches: list[Batch] = []
        for wave in self.schedule.waves:
            used = max_bytes + 1
            if wave.shortcuts:
                batches.append(Batch(wave.shortcuts, []))
                used = 0
            for run in wave.stages:
                calls = run.stage.program.has_calls
                for replay in self._replays(run, witnesses):
                    size = self.register_bytes(replay)
                    if used + size > max_bytes or calls:
                        batches.append(Batch([], []))
                        used = 0
                    batches[-1].replays.append(replay)
                    used = max_bytes + 1 if calls else used + size
        return batches

    def state_bytes(self, replay: Replay) -> int:
        """Return the bytes of the states of a stretch of a replay."""
        return _rounded(8 * replay.groups * replay.width, self.device.address_alignment)

    def register_bytes(self, replay: Replay) -> int:
        """Return the bytes of a replay's registers."""
        size = replay.groups * replay.width * replay.registers * self.modulus.bytes
        return _rounded(size, self.device.address_alignment)

    @property
    def _max_bytes(self) -> int:
        return min(_MAX_BYTES, self.device.largest_buffer)

    def _replays(self, run: StageRun, witnesses: int) -> Iterator[Replay]:
        """Yield replays of a stage, each with registers that fit in memory."""
        device, lanes = self.device, witnesses * len(run.copies)
        size = run.stage.program.registers * self.modulus.bytes
        if in_host_memory(device):
            # A single input runs without SIMD, as all other lanes would idle.
            width = 1 if lanes == 1 else device.lanes
            max_groups = device.multiprocessors
        else:
            width = _GPU_WORKGROUP_SIZE
            while width > 1 and width * size > device.largest_buffer:
                width //= 2
            max_groups = max(1, self._max_bytes // (width * size))
        for first in range(0, lanes, max_groups * width):
            yield Replay(run, first, min(first + max_groups * width, lanes), width)

    def lanes_of(self, run: StageRun | ShortcutRun, first: int, last: int) -> Lanes:
        """Return lanes `first` to `last` - 1 of a run."""
        fixed = self.schedule.part_of(run).table.shape[1]
        return Lanes(first, last, len(run.copies), fixed, self.wires)


def _rounded(size: int, alignment: int) -> int:
    """Round up to a multiple."""
    return -(-size // alignment) * alignment
