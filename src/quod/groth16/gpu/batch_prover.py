"""Batches of witnesses in one launch schedule, for proofs too small to fill a GPU.

Matrix products, NTTs and MSMs are batched over the witnesses, with the same bases. There is one
recording per power of two of witnesses, created on first use or by `prepare`; recordings share
memory. A smaller batch is padded with zeros, which cost an MSM nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.errors import DeviceError
from quod.field.array import Words
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.gpu.gpu_sums import FinishedPoints, GpuSums, RunningSums
from quod.groth16.gpu.streams import Lane, SumRecordings
from quod.groth16.gpu.upload import JointUploadBuffer
from quod.groth16.resident import MOST as MOST
from quod.groth16.slots import Slots

# How many times the domains of a batch fill the resident lanes of the device.
_WAVES = 2

# The interval at which a thread that waits for the device checks whether a batch is full.
_LOOK_SECONDS = 0.001

BATCHES = 3
"""Batches in progress: one that the GPU computes, one that is uploaded, one that the host
finishes."""


def batch_size(
    device: AnyDevice, domain: int, largest_vector: int, together: int | None = None
) -> int:
    """Return the batch size that fills the device: a power of two, at most `together`.

    largest_vector: bytes of the largest vector of a witness; a kernel must be able to address that
        vector of the whole batch.
    """
    filling = _WAVES * device.resident_lanes // domain
    reached = device.largest_buffer // largest_vector
    return _power_of_two(max(1, min(filling, reached, together or MOST)))


def _power_of_two(most: int) -> int:
    return 1 << (most.bit_length() - 1)


class GpuBatches:
    """The sums of batches of up to `most` witnesses, in a separate lane; see `SumBatches`.

    single_slots: the slots of single witnesses.
    running_sums: the sums of batches and of single witnesses.
    Raises DeviceError if two witnesses need more than `budget` bytes.
    """

    def __init__(
        self, device: AnyDevice, lane: Lane, wanted: int, witness_bytes: int, budget: int,
        single_slots: Slots[Any], running_sums: RunningSums,
    ) -> None:  # fmt: skip
        most = _power_of_two(lane.msms.largest_batch(wanted))
        while most > 1 and _needed(lane, most, witness_bytes) > budget:
            most //= 2
        if most == 1:
            raise DeviceError("the device has no memory for the sums of two witnesses in a batch")
        self.most = most
        self.nbytes = _needed(lane, most, witness_bytes)
        batch_lane = lane.sibling(batch_sizes(most))
        self._runner = batch_lane.runner
        self._single_slots, self._running_sums = single_slots, running_sums
        self._slots = Slots(lambda: _BatchSlot(device, batch_lane, most, witness_bytes), BATCHES)
        # If others take memory meanwhile, fewer slots must do, instead of a failed proof.
        self._slots.fill()
        self._preparing = threading.Lock()

    def prepare(self) -> None:
        """See `SumBatches`."""
        with self._preparing:
            slots = [self._slots.acquire() for _ in range(BATCHES)]
            try:
                for slot in slots:
                    slot.prepare(batch_sizes(self.most))
            finally:
                for slot in slots:
                    self._slots.release(slot)

    def start(
        self, witnesses: Sequence[Words | Buffer], host_tasks: Tasks, context: ProofContext
    ) -> GpuSums:
        """See `SumBatches`."""
        sums = GpuSums.started(self._slots, witnesses, host_tasks, context)
        return self._running_sums.add(sums)

    def wait(self, waiting: Callable[[], int]) -> None:
        """See `SumBatches`."""
        while waiting() < self.most and not self._running_sums.wait(_LOOK_SECONDS):
            pass
        if waiting() > 1 or not self._single_slots.is_free:
            self._slots.wait()

    def close(self) -> None:
        """Stop the thread that waits for work."""
        self._runner.close()


def batch_sizes(most: int) -> tuple[int, ...]:
    """The sizes of recorded batches up to `most`: powers of two, ascending."""
    return tuple(1 << bits for bits in range(1, most.bit_length()))


def _needed(lane: Lane, most: int, witness_bytes: int) -> int:
    return lane.batch_bytes(batch_sizes(most)) + BATCHES * most * witness_bytes


class _BatchSlot:
    """The buffers and recordings of one batch in progress; see `SumSlot`."""

    def __init__(self, device: AnyDevice, lane: Lane, most: int, witness_bytes: int) -> None:
        self._device, self._lane, self._witness_bytes = device, lane, witness_bytes
        self._witnesses = JointUploadBuffer(device, most, witness_bytes)
        self._recordings: dict[int, SumRecordings] = {}
        self._current: SumRecordings

    @property
    def runner(self) -> Background:
        """See `SumSlot`."""
        return self._lane.runner

    @property
    def early(self) -> FinishedPoints:
        return self._current.early

    @property
    def late(self) -> FinishedPoints:
        return self._current.late

    def upload(self, witness: Sequence[Words | Buffer], *, pinned: bool = False) -> None:
        """See `SumSlot`; selects the recordings for that number of witnesses."""
        size = 1 << (len(witness) - 1).bit_length()
        self._current = self._recorded(size)
        self._witnesses.fill(witness, size)

    def prepare(self, sizes: Sequence[int]) -> None:
        """Create the recordings for batches of these sizes."""
        for size in sizes:
            self._recorded(size)

    def _recorded(self, size: int) -> SumRecordings:
        recordings = self._recordings.get(size)
        if recordings is None:
            memory = self._witnesses.buffer.slice(0, size * self._witness_bytes)
            recordings = SumRecordings(self._device, self._lane, memory, size)
            self._recordings[size] = recordings
        return recordings

    def run(self, first: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        self._current.run(first, context)
