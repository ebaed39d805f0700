"""Witnesses of batches of inputs, in host memory or in a device's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, in_host_memory
from quod.device.runtime.sentinel import check_written, not_written, unwritten
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.r1cs.executor.computation import Computation, LaunchQueue, RecordedComputation
from quod.r1cs.executor.plans import WitnessPlan
from quod.r1cs.inputs import InputNumbers
from quod.r1cs.kernels import count_unwritten
from quod.r1cs.repetition.schedule import Schedule

# The largest number of values of the witnesses that are computed together: kernels index them with
# 32 bits.
_MAX_VALUES = 1 << 31
# Instances, at most, that look for unwritten elements.
_MAX_CHECK_INSTANCES = 1 << 13
# The largest witness, and the number of threads, whose launches are recorded.
_MAX_RECORDED_WIRES, _MAX_RECORDED = 1 << 20, 4


class WitnessRunner(WitnessPlan):
    """The computation of witnesses by a schedule, on a device, by default the CPU."""

    def __init__(
        self, schedule: Schedule, input_wires: NDArray[np.int64], modulus: Modulus,
        device: AnyDevice | None = None,
    ) -> None:  # fmt: skip
        super().__init__(schedule, input_wires, modulus, device)
        self._recorded: list[RecordedComputation] = []

    def run(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """Compute all wires; return integers, (inputs, wires, words) u32, and a mask of inputs.

        The mask is true for inputs that divide by 0; their values are meaningless. Raises
        DeviceError if the device has not written every value: stale memory could pass for a
        witness.
        """
        if len(inputs) == 1 and self._has_recordings:
            return self._run_single(inputs)
        out = unwritten(len(inputs), self.wires, self.modulus.words)
        divides = np.zeros(len(inputs), np.bool_)
        for start, stop in self._chunks(len(inputs)):
            memory = Buffer.wrap(out[start:stop])
            divides[start:stop] = Computation(self, memory, inputs, start, stop).run()
        check_written(self.device, "witnesses", out)
        return out, divides

    @property
    def _has_recordings(self) -> bool:
        """True if launches for single inputs are recorded: programs without hints, on the CPU."""
        return (
            in_host_memory(self.device)
            and self.wires <= _MAX_RECORDED_WIRES
            and not any(stage.program.has_calls for stage in self.schedule.stages)
        )

    def _run_single(self, inputs: Sequence[InputNumbers]) -> tuple[Words, NDArray[np.bool_]]:
        """Compute the wires for one input with recorded launches; see `run`.

        Each thread has memory of its own meanwhile.
        """
        device = self.device
        recorded = self._recorded.pop() if self._recorded else None
        if recorded is None or recorded.device is not device:
            recorded = RecordedComputation(self, device)
        result = recorded.run(inputs)
        if len(self._recorded) < _MAX_RECORDED:
            self._recorded.append(recorded)
        return result

    def run_resident(
        self, inputs: Sequence[InputNumbers]
    ) -> tuple[list[Buffer], NDArray[np.bool_]]:
        """Compute witnesses in the device's memory, without copying values to the host.

        Returns the witnesses in one buffer, or in several if they exceed the device's largest
        buffer or a quarter of its memory, and the mask of inputs that divide by 0.
        """
        memories = list[Buffer]()
        divides = np.zeros(len(inputs), np.bool_)
        for start, stop in self._chunks(len(inputs)):
            memory = self.device.allocate((stop - start) * self.witness_bytes, zero=False)
            divides[start:stop] = Computation(self, memory, inputs, start, stop).run()
            memories.append(memory)
        for memory in memories:
            self._check_written(memory)
        return memories, divides

    @property
    def witness_bytes(self) -> int:
        """The size of a witness in bytes."""
        return self.wires * self.modulus.bytes

    def _chunks(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield start and stop of chunks of `count` witnesses that are computed together."""
        device, room = self.device, _MAX_VALUES // self.wires
        if not in_host_memory(device):
            memory = min(device.largest_buffer, device.memory_budget // 4)
            room = min(room, memory // self.witness_bytes)
        step = max(1, room)
        for start in range(0, count, step):
            yield start, min(start + step, count)

    def _check_written(self, out: Buffer) -> None:
        """Raise DeviceError if a value of witnesses in device memory was not written."""
        device, size = self.device, self.modulus.bytes
        compiled, count = (
            device.compile(count_unwritten, words=self.modulus.words),
            out.nbytes // size,
        )
        counts = unwritten(min(count, _MAX_CHECK_INSTANCES), 1)
        groups, in_device = -(-len(counts) // device.lanes), device.upload(counts)
        queue = LaunchQueue(device)
        queue.launch(compiled, groups, count, len(counts), out, in_device)
        queue.run()
        device.download(in_device, counts)
        if counts.any():
            raise not_written(device, "witnesses")
