"""A proving key in the memory of a GPU, and the recordings that make a proof's sums with it.

    witness ── A·w, B·w ── A·w ∘ B·w ── 3 inverse and 3 coset transforms ── A·B − C ── MSM over h
            └─ MSMs over a, b (G1), b (G2), c

The sums over the witness are one recording, and the way to that over H is another beside it: what
does not depend on one another runs side by side, the host is not asked in between, and it finishes
what is there first. On a device that works in the order of its submissions both are one recording,
whose first sums are those that the host goes on with. A slot has all that a proof in progress needs
to itself: the witness and the results. With two of them one witness is copied, and the sums of
another are finished by the host, while a third proof is computed.

A lane has what is written to while a proof is computed: products, and the workspaces of MSMs.
Proofs of one lane are computed one after the other, those of several side by side, with the same
bases.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

from quod.curve.group import Group
from quod.device.background import Background
from quod.device.buffer import Buffer
from quod.device.event import Event
from quod.device.outcome import Outcome
from quod.device.protocol import AnyDevice
from quod.device.stream import SubmittedStream
from quod.device.timeline import Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.field.calibration import calibrate
from quod.formats import Zkey
from quod.groth16.gpu.bases import KeyMsms, MsmMemory, RecordedPoints
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.sums import GpuSums, end_after, replay
from quod.groth16.resident import KeyBases, bases_of
from quod.proving.context import ProofContext, Tasks
from quod.proving.slots import Slots
from quod.proving.upload import LINGER_SECONDS, Copiers, UploadBuffer

_EARLY = ("B2", "A", "B1")

# Proofs in progress in a lane: one computed, and one that is copied, or finished by the host.
_PROOFS = 2


class GpuKey:
    """See `ResidentKey`.

    All memory is taken when the key is opened, at most `memory_budget` bytes of the device's.
    DeviceError if there is too little. Up to `lanes` proofs are computed at a time: one on a device
    that works in the order of its submissions, or where memory is short for more.
    """

    peak_bytes = 0

    def __init__(
        self, zkey: Zkey, device: AnyDevice, g1: Group, g2: Group, timeline: Timeline,
        memory_budget: int | None = None, lanes: int = 1,
    ) -> None:  # fmt: skip
        self._zkey, self._device = zkey, device
        budget = min(device.memory_budget, memory_budget or device.memory_budget)
        calibrate(device, timeline)
        with timeline.stage("matrices"):
            quotient = Quotient.of(device, zkey)
        with timeline.stage("bases"):
            bases = bases_of(zkey, g1, g2)
            lanes = 1 if device.single_queue else lanes
            try:
                memory, taken = self._memory(quotient, bases, budget, lanes)
                fits = not memory.streamed
            except DeviceError:
                fits = False
            if lanes == 1 or not fits:
                lanes = 1
                memory, taken = self._memory(quotient, bases, budget, lanes)
            self.nbytes = taken + memory.nbytes(device) + (lanes - 1) * sum(memory.workspaces)
            first = _Lane(quotient, KeyMsms(device, bases, memory))
            self._lanes = [first, *(first.beside() for _ in range(lanes - 1))]
        with timeline.stage("transforms"):
            self._copiers = Copiers()
            # Chunks of bases that pass through belong to a slot.
            self._next = itertools.cycle(self._lanes)
            self.slots = Slots(
                lambda: _Slot(self, next(self._next)), 1 if memory.streamed else _PROOFS * lanes
            )

    def _memory(
        self, quotient: Quotient, bases: list[KeyBases], budget: int, lanes: int
    ) -> tuple[MsmMemory, int]:
        """What the MSMs take within a budget, and the bytes of all else."""
        zkey, more = self._zkey, lanes - 1
        taken = quotient.nbytes + more * quotient.lane_bytes
        taken += lanes * _PROOFS * zkey.variables * zkey.fr.bytes
        memory = MsmMemory.fitting(self._device, bases, budget - taken, lanes=lanes)
        return memory, taken

    @property
    def in_progress(self) -> int:
        return self.slots.most

    def prepare(self) -> None:
        self.slots.fill()

    @property
    def witness_device(self) -> AnyDevice | None:
        return self._device

    def start(self, witness: Words | Buffer, beside: Tasks, context: ProofContext) -> GpuSums:
        return GpuSums.started(self.slots, witness, beside, context)

    def close(self) -> None:
        for lane in self._lanes:
            lane.runner.close()
        self._copiers.close()


class _Lane:
    """What the proofs that are computed one after the other share, and others do not."""

    def __init__(self, quotient: Quotient, msms: KeyMsms) -> None:
        self.quotient, self.msms = quotient, msms
        # Slots share workspaces, so that their recordings run one after the other.
        self.runner = Background("quod-gpu", 1, linger=LINGER_SECONDS)

    def beside(self) -> _Lane:
        """Another one, of the same matrices and bases."""
        return _Lane(self.quotient.beside(), self.msms.beside())


class _Slot:
    """What a proof in progress has to itself.

    `early` are the sums that A and B are made of: the host goes on with them while those that are
    `late`, above all H, are computed.
    """

    def __init__(self, key: GpuKey, lane: _Lane) -> None:
        self._device, self.lane = key._device, lane
        msms, quotient = lane.msms, lane.quotient
        size = key._zkey.variables * key._zkey.fr.bytes
        self.witness = UploadBuffer(key._device, size, key._copiers)
        witness = self.witness.buffer
        first = last = self._device.stream("proof").record()
        self.early = RecordedPoints({name: msms.record(first, name, witness) for name in _EARLY})
        self._early_event: Event | None = None
        if self._device.single_queue:
            self._early_event = first.event("the sums of A and B")
        elif msms.is_apart("H"):
            # What uses one memory stays in one recording, which puts it in order.
            last = self._device.stream("proof").record()
        c = msms.record(first, "C", witness)
        h = msms.record(last, "H", quotient.record(last, witness))
        self.late = RecordedPoints({"C": c, "H": h})
        self._recordings = [stream.finish().recording for stream in dict.fromkeys((first, last))]

    @property
    def runner(self) -> Background:
        """See `SumSlot`."""
        return self.lane.runner

    def upload(self, witness: Words | Buffer, *, pinned: bool = False) -> None:
        """See `SumSlot`."""
        self.witness.fill(witness, pinned=pinned)

    def run(self, first: Outcome[None], context: ProofContext) -> None:
        """Computes the sums, and waits for them; `first` is done with the early ones."""
        # Steps that are timed run one after the other.
        followed = context.timeline if context.is_timed else None
        running: list[SubmittedStream] = []
        try:
            # A proof that was given up may have left sums of its own.
            self.early.expect()
            self.late.expect()
            if followed is None:
                # The longest way to its end first.
                for recording in reversed(self._recordings):
                    running.append(replay(self._device, recording))
            for recording in self._recordings:
                stream = (
                    running.pop() if running else replay(self._device, recording, followed, context)
                )
                if self._early_event is not None:
                    # Where it is not passed, the stream tells why.
                    with suppress(DeviceError):
                        self._early_event.wait()
                        first.set(None)
                stream.wait()
                if not first.done():
                    first.set(None)
        except BaseException as error:
            end_after(error, first, running)
            raise
