"""A proving key in the memory of a GPU, and the recordings of a proof's sums.

    witness ── A·w, B·w ── A·w ∘ B·w ── 3 inverse and 3 coset transforms ── A·B − C ── MSM over h
            └─ MSMs over a, b (G1), b (G2), c

The sums over the witness are one recording; the quotient and the sum over H are another, which runs
concurrently and does not wait for the host. The host finishes the sums that complete first. On a
device with a single queue there is one recording, which begins with the sums that the host needs
first. A slot has the memory of one proof in progress: the witness and the results. With several
slots, the GPU computes one proof while the next witness is uploaded and the host finishes the
previous proof.

A lane (a stream of proofs) has the memory that the computation of a proof writes: products, and
workspaces of MSMs. Proofs of one lane are computed one after the other; proofs of different lanes
run concurrently, with the same bases. Small proofs are batched (`quod.groth16.gpu.batch_prover`).
"""

from __future__ import annotations

import itertools
import threading

from quod.curve.group import Group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.field.strategies.calibration import calibrate
from quod.formats import Zkey
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.gpu.bases import KeyMsms, MsmMemory
from quod.groth16.gpu.batch_prover import GpuBatches, batch_size
from quod.groth16.gpu.gpu_sums import GpuSums, RunningSums
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.streams import Lane, SumRecordings
from quod.groth16.gpu.upload import Copiers, UploadBuffer
from quod.groth16.resident import KeyBases, bases_of
from quod.groth16.slots import Slots

# Proofs in progress per lane: one that the GPU computes, and one that is uploaded or finished by
# the host.
_PROOFS = 2


class GpuKey:
    """A `ResidentKey` on one GPU, which allocates all memory when it is opened.

    memory_budget: the maximum bytes of device memory; raises DeviceError if it is too small.
    lanes: the maximum number of concurrent proofs; 1 on a device with a single queue, and fewer if
        memory is short.
    max_batch: the maximum batch size in witnesses; by default the size that fills the device.
    """

    peak_bytes = 0

    def __init__(
        self, zkey: Zkey, device: AnyDevice, g1: Group, g2: Group, timeline: Timeline,
        memory_budget: int | None = None, lanes: int = 1, max_batch: int | None = None,
    ) -> None:  # fmt: skip
        self._zkey, self._device = zkey, device
        self._budget = budget = min(device.memory_budget, memory_budget or device.memory_budget)
        self._batches: GpuBatches | None = None
        self._batches_lock, self._running_sums = threading.Lock(), RunningSums()
        calibrate(device, timeline)
        with timeline.stage("matrices"):
            quotient = Quotient.of(device, zkey)
        with timeline.stage("bases"):
            bases = bases_of(zkey, g1, g2)
            lanes = 1 if device.single_queue else lanes
            try:
                memory, other_bytes = self._memory(quotient, bases, budget, lanes)
                fits = not memory.streamed
            except DeviceError:
                fits = False
            # A single lane may stream bases; if even that does not fit, this raises DeviceError.
            if lanes == 1 or not fits:
                lanes = 1
                memory, other_bytes = self._memory(quotient, bases, budget, lanes)
            self._single_bytes = (
                other_bytes + memory.nbytes(device) + (lanes - 1) * sum(memory.workspaces)
            )
            # Recording a proof takes as long as computing the bases while kernels are compiled.
            deferred = self._single_bytes + memory.upload_bytes <= budget
            msms = KeyMsms(device, bases, memory, deferred=deferred)
            first_lane = Lane(quotient, msms)
            self._lanes = [first_lane, *(first_lane.sibling() for _ in range(lanes - 1))]
            largest_vector = max(quotient.batch_bytes(2) // 2, zkey.variables * zkey.fr.bytes)
            self._batch = batch_size(device, zkey.domain_size, largest_vector, max_batch)
        with timeline.stage("transforms"):
            self._copiers = Copiers()
            # With streamed bases there is one slot, as it owns the buffers of their chunks.
            self._lane_cycle = itertools.cycle(self._lanes)
            most = 1 if memory.streamed else _PROOFS * lanes
            with msms.loading():
                self.slots = self._recorded_slots(most)
            if msms.load():
                del self.slots
                self.slots = self._recorded_slots(most)

    def _recorded_slots(self, most: int) -> Slots[_Slot]:
        return Slots(lambda: _Slot(self, next(self._lane_cycle)), most)

    def _memory(
        self, quotient: Quotient, bases: list[KeyBases], budget: int, lanes: int
    ) -> tuple[MsmMemory, int]:
        """Return the memory of the MSMs within a budget, and the bytes of everything else."""
        zkey, further_lanes = self._zkey, lanes - 1
        other_bytes = quotient.nbytes + further_lanes * quotient.lane_bytes
        other_bytes += lanes * _PROOFS * zkey.variables * zkey.fr.bytes
        memory = MsmMemory.fitting(self._device, bases, budget - other_bytes, lanes=lanes)
        return memory, other_bytes

    @property
    def in_progress(self) -> int:
        return self.slots.most

    def prepare(self) -> None:
        self.slots.fill()

    @property
    def witness_device(self) -> AnyDevice | None:
        return self._device

    @property
    def nbytes(self) -> int:
        return self._single_bytes + (self._batches.nbytes if self._batches else 0)

    @property
    def batches(self) -> GpuBatches | None:
        """See `ResidentKey`; allocated on first use, within the rest of the key's budget."""
        zkey, lane = self._zkey, self._lanes[0]
        with self._batches_lock:
            if self._batches is None and self._batch > 1:
                try:
                    self._batches = GpuBatches(
                        self._device, lane, self._batch, zkey.variables * zkey.fr.bytes,
                        self._budget - self._single_bytes, self.slots, self._running_sums,
                    )  # fmt: skip
                except DeviceError:
                    # Too little memory for batches; single proofs do not need it.
                    self._batch = 1
            return self._batches

    def start(self, witness: Words | Buffer, host_tasks: Tasks, context: ProofContext) -> GpuSums:
        return self._running_sums.add(GpuSums.started(self.slots, witness, host_tasks, context))

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()
        for lane in self._lanes:
            lane.runner.close()
        self._copiers.close()


class _Slot(SumRecordings):
    """The witness buffer and recordings of one proof in progress."""

    def __init__(self, key: GpuKey, lane: Lane) -> None:
        self.lane = lane
        witness_bytes = key._zkey.variables * key._zkey.fr.bytes
        self.witness = UploadBuffer(key._device, witness_bytes, key._copiers)
        super().__init__(key._device, lane, self.witness.buffer)

    @property
    def runner(self) -> Background:
        """See `SumSlot`."""
        return self.lane.runner

    def upload(self, witness: Words | Buffer, *, pinned: bool = False) -> None:
        """See `SumSlot`."""
        self.witness.fill(witness, pinned=pinned)
