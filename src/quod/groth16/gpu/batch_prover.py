"""Batches of witnesses that share their launches, for proofs too small to fill a GPU.

Matrix products, NTTs and MSMs are batched over the witnesses, with the same bases. There is one
recording per batch size, a power of two, created on first use or by `prepare`; recordings share
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
from quod.groth16.resident import MAX_BATCH as MAX_BATCH
from quod.groth16.slots import Slots

# The number of times that the domains of a batch fill the resident lanes of the device.
_WAVES = 2

# The interval at which a thread that waits for the device checks whether a batch is full.
_POLL_SECONDS = 0.001

BATCHES = 3
"""The number of batches in progress: the GPU computes one, one is uploaded, and the host finishes
one."""


def batch_size(
    device: AnyDevice, domain: int, largest_vector: int, max_batch: int | None = None
) -> int:
    """Return the batch size that fills the device: a power of two, at most `max_batch`.

    largest_vector: bytes of the largest vector of a witness; a kernel must be able to address that
        vector of the whole batch.
    """
    filling_size = _WAVES * device.resident_lanes // domain
    addressable_size = device.largest_buffer // largest_vector
    return _power_of_two(max(1, min(filling_size, addressable_size, max_batch or MAX_BATCH)))


def _power_of_two(bound: int) -> int:
    """Return the largest power of two of at most `bound`."""
    return 1 << (bound.bit_length() - 1)


class GpuBatches:
    """The sums of batches of up to `most` witnesses, in a separate lane; see `SumBatches`.

    lane: the lane whose matrices and bases the batches use.
    wanted: the largest batch, unless memory is short.
    witness_bytes: bytes of one witness.
    budget: bytes of device memory for batches.
    single_slots: the slots of single witnesses.
    running_sums: the sums of batches and of single witnesses.
    Raises DeviceError if two witnesses need more than `budget` bytes.
    """

    def __init__(
        self, device: AnyDevice, lane: Lane, wanted: int, witness_bytes: int, budget: int,
        single_slots: Slots[Any], running_sums: RunningSums,
    ) -> None:  # fmt: skip
        most = _power_of_two(lane.msms.largest_batch(wanted))
        while most > 1 and _batch_memory(lane, most, witness_bytes) > budget:
            most //= 2
        if most == 1:
            raise DeviceError("the device has no memory for the sums of two witnesses in a batch")
        self.most = most
        self.nbytes = _batch_memory(lane, most, witness_bytes)
        batch_lane = lane.sibling(batch_sizes(most))
        self._runner = batch_lane.runner
        self._single_slots, self._running_sums = single_slots, running_sums
        self._slots = Slots(lambda: _BatchSlot(device, batch_lane, most, witness_bytes), BATCHES)
        # Create all slots now, so that a lack of memory is an error here and not in a proof.
        self._slots.fill()
        self._prepare_lock = threading.Lock()

    def prepare(self) -> None:
        """See `SumBatches`."""
        with self._prepare_lock:
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
        while waiting() < self.most and not self._running_sums.wait(_POLL_SECONDS):
            pass
        if waiting() > 1 or not self._single_slots.is_free:
            self._slots.wait()

    def close(self) -> None:
        """Stop the thread that computes batches."""
        self._runner.close()


def batch_sizes(most: int) -> tuple[int, ...]:
    """Return the sizes of recorded batches up to `most`: powers of two from 2 on, ascending."""
    return tuple(1 << bits for bits in range(1, most.bit_length()))


def _batch_memory(lane: Lane, most: int, witness_bytes: int) -> int:
    """Return the bytes of device memory for batches of up to `most` witnesses."""
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

    @property
    def joint(self) -> FinishedPoints:
        return self._current.joint

    def upload(self, witness: Sequence[Words | Buffer], *, pinned: bool = False) -> None:
        """See `SumSlot`; selects the recordings of the padded batch size."""
        size = 1 << (len(witness) - 1).bit_length()
        self._current = self._recordings_of_size(size)
        self._witnesses.fill(witness, size)

    def prepare(self, sizes: Sequence[int]) -> None:
        """Create the recordings for batches of these sizes."""
        for size in sizes:
            self._recordings_of_size(size)

    def _recordings_of_size(self, size: int) -> SumRecordings:
        """Return the recordings for a batch size; create them on first use."""
        recordings = self._recordings.get(size)
        if recordings is None:
            memory = self._witnesses.buffer.slice(0, size * self._witness_bytes)
            recordings = SumRecordings(self._device, self._lane, memory, size)
            self._recordings[size] = recordings
        return recordings

    def run(self, early_done: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        self._current.run(early_done, context)
