"""Several witnesses of one key in one launch schedule, where a proof is too small to fill a GPU.

The matrices are multiplied with all of them at a time, their vectors are transformed together, and
each MSM is one of so many vectors over the same bases. Recordings are of powers of two witnesses,
each made when it is first needed, in memory that they share; what a group lacks is zeros, which
have no digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.device.background import Background
from quod.device.buffer import Buffer
from quod.device.outcome import Outcome
from quod.device.protocol import AnyDevice
from quod.errors import DeviceError
from quod.field.array import Words
from quod.groth16.gpu.lanes import Lane, SumRecordings
from quod.groth16.gpu.sums import FinishedPoints, GpuSums
from quod.groth16.resident import MOST as MOST
from quod.proving.context import ProofContext, Tasks
from quod.proving.slots import Slots
from quod.proving.upload import JointUploadBuffer

# How often the domains of a batch fill what the device keeps resident at a time.
_WAVES = 2

BATCHES = 3
"""Batches in progress: one computed, one copied, and one finished by the host, as long as that."""


def batch_size(
    device: AnyDevice, domain: int, largest_vector: int, together: int | None = None
) -> int:
    """How many witnesses are worth proving together, up to `together` if it is given.

    Kernels have to reach the vectors of all, of which the largest has so many bytes a witness.
    """
    filling = _WAVES * device.resident_lanes // domain
    reached = device.largest_buffer // largest_vector
    return _power_of_two(max(1, min(filling, reached, together or MOST)))


def _power_of_two(most: int) -> int:
    return 1 << (most.bit_length() - 1)


class GpuBatches:
    """The sums of up to `most` witnesses together, in a lane of their own; see `SumBatches`.

    Witnesses alone have the slots `alone`. DeviceError where there are not `budget` bytes for two
    witnesses.
    """

    def __init__(
        self, device: AnyDevice, lane: Lane, wanted: int, witness_bytes: int, budget: int,
        alone: Slots[Any],
    ) -> None:  # fmt: skip
        most = _power_of_two(lane.msms.largest_batch(wanted))
        while most > 1 and _needed(lane, most, witness_bytes) > budget:
            most //= 2
        if most == 1:
            raise DeviceError("there is no memory for the sums of two witnesses together")
        self.most = most
        self.nbytes = _needed(lane, most, witness_bytes)
        own = lane.beside(batch_sizes(most))
        self._runner = own.runner
        self._alone = alone
        self._slots = Slots(lambda: _BatchSlot(device, own, most, witness_bytes), BATCHES)
        # Who else takes memory meanwhile must not end proofs that one slot fewer would make.
        self._slots.fill()

    def start(
        self, witnesses: Sequence[Words | Buffer], beside: Tasks, context: ProofContext
    ) -> GpuSums:
        """See `SumBatches`."""
        return GpuSums.started(self._slots, witnesses, beside, context)

    def wait(self, *, alone: bool) -> None:
        """See `SumBatches`."""
        if not (alone and self._alone.is_free):
            self._slots.wait()

    def close(self) -> None:
        """Ends the thread that waits for work."""
        self._runner.close()


def batch_sizes(most: int) -> tuple[int, ...]:
    """Batches of up to so many that are recorded: powers of two, the fewest first."""
    return tuple(1 << bits for bits in range(1, most.bit_length()))


def _needed(lane: Lane, most: int, witness_bytes: int) -> int:
    return lane.batch_bytes(batch_sizes(most)) + BATCHES * most * witness_bytes


class _BatchSlot:
    """See `SumSlot`: what a batch in progress has to itself."""

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
        """See `SumSlot`; the recordings are those for so many."""
        size = 1 << (len(witness) - 1).bit_length()
        found = self._recordings.get(size)
        if found is None:
            memory = self._witnesses.buffer.slice(0, size * self._witness_bytes)
            found = SumRecordings(self._device, self._lane, memory, size)
            self._recordings[size] = found
        self._current = found
        self._witnesses.fill(witness, size)

    def run(self, first: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        self._current.run(first, context)
