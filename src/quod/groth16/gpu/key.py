"""A proving key in the memory of a GPU, and the recordings that make a proof's sums with it.

    witness ── A·w, B·w ── A·w ∘ B·w ── 3 inverse and 3 coset transforms ── A·B − C ── MSM over h
            └─ MSMs over a, b (G1), b (G2), c

The sums over the witness are one recording, and the way to that over H is another beside it: what
does not depend on one another runs side by side, the host is not asked in between, and it finishes
what is there first. On a device that works in the order of its submissions both are one recording,
whose first sums are those that the host goes on with. A slot has all that a proof in progress needs
to itself: the witness and the results. With two of them one witness is copied, and the sums of
another are finished by the host, while a third proof is computed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from quod.curve.array import Point
from quod.curve.group import Group
from quod.device.background import Background
from quod.device.event import Event
from quod.device.outcome import Outcome
from quod.device.protocol import AnyDevice
from quod.device.recording import Recording
from quod.device.stream import SubmittedStream
from quod.device.timeline import Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.field.calibration import calibrate
from quod.formats import Zkey
from quod.groth16.gpu.bases import KeyMsms, MsmMemory, RecordedPoints
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.resident import bases_of
from quod.proving.context import ProofContext, Tasks
from quod.proving.slots import Slots
from quod.proving.upload import LINGER_SECONDS, Copiers, UploadBuffer

_EARLY = ("B2", "A", "B1")

# Proofs in progress: one computed, and one whose witness is copied or whose sums are finished.
_PROOFS = 2


class GpuKey:
    """See `ResidentKey`.

    All memory is taken when the key is opened, at most `memory_budget` bytes of the device's.
    DeviceError if there is too little.
    """

    peak_bytes = 0

    def __init__(
        self, zkey: Zkey, device: AnyDevice, g1: Group, g2: Group, timeline: Timeline,
        memory_budget: int | None = None,
    ) -> None:  # fmt: skip
        self._zkey, self._device = zkey, device
        budget = min(device.memory_budget, memory_budget or device.memory_budget)
        calibrate(device, timeline)
        with timeline.stage("matrices"):
            self._quotient = Quotient(device, zkey)
        with timeline.stage("bases"):
            bases = bases_of(zkey, g1, g2)
            taken = self._quotient.nbytes + _PROOFS * zkey.variables * zkey.fr.bytes
            memory = MsmMemory.fitting(device, bases, budget - taken)
            self.nbytes = taken + memory.nbytes(device)
            self._msms = KeyMsms(device, bases, memory)
        with timeline.stage("transforms"):
            self._copiers = Copiers()
            # Chunks of bases that pass through belong to a slot.
            self.slots = Slots(lambda: _Slot(self), 1 if memory.streamed else _PROOFS)
        # Slots share workspaces, so that their recordings run one after the other.
        self._runner = Background("quod-gpu", 1, linger=LINGER_SECONDS)

    def start(self, witness: Words, beside: Tasks, context: ProofContext) -> GpuSums:
        slot = self.slots.acquire()
        try:
            with context.stage("upload", bytes=2 * witness.nbytes):
                slot.witness.fill(witness)
            return GpuSums(self, slot, beside, context)
        except BaseException:
            self.slots.release(slot)
            raise

    def close(self) -> None:
        self._runner.close()
        self._copiers.close()


class _Slot:
    """What a proof in progress has to itself.

    `early` are the sums that A and B are made of: the host goes on with them while those that are
    `late`, above all H, are computed.
    """

    def __init__(self, key: GpuKey) -> None:
        self._device, msms = key._device, key._msms
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
        h = msms.record(last, "H", key._quotient.record(last, witness))
        self.late = RecordedPoints({"C": c, "H": h})
        self._recordings = [stream.finish().recording for stream in dict.fromkeys((first, last))]

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
                    running.append(self._submit(recording, context, None))
            for recording in self._recordings:
                stream = running.pop() if running else self._submit(recording, context, followed)
                if self._early_event is not None:
                    # Where it is not passed, the stream tells why.
                    with suppress(DeviceError):
                        self._early_event.wait()
                        first.set(None)
                stream.wait()
                if not first.done():
                    first.set(None)
        except BaseException as error:
            if not first.done():
                first.fail(error)
            for stream in running:
                with suppress(DeviceError):
                    stream.wait()
            raise

    def _submit(
        self, recording: Recording, context: ProofContext, timeline: Timeline | None
    ) -> SubmittedStream:
        stream = self._device.stream("proof").replay(recording)
        return stream.submit(timeline, parent=context.parent)


class GpuSums:
    """See `PendingSums`."""

    def __init__(self, key: GpuKey, slot: _Slot, beside: Tasks, context: ProofContext) -> None:
        self._key, self._slot = key, slot
        self._beside, self._context = beside, context
        self._first: Outcome[None] = Outcome(lambda: self._running.lost())
        self._running = key._runner.begin(lambda: slot.run(self._first, context))
        self._running.then(self._end_first)

    def early(self) -> dict[str, Any]:
        results = {name: task() for name, task in self._beside.items()}
        self._first.result()
        return results | self._finish(self._slot.early)

    def last(self) -> dict[str, Point]:
        self._running.result()
        return self._finish(self._slot.late)

    def _end_first(self) -> None:
        """Nobody waits for the early sums of what was dropped."""
        if not self._first.done():
            try:
                self._running.result()
            except BaseException as error:
                self._first.fail(error)

    def _finish(self, points: RecordedPoints) -> dict[str, Point]:
        with self._context.stage("finish sums"):
            return points.finish()

    def close(self) -> None:
        if self._running.lost():
            self._key.slots.release(self._slot)
        else:
            # After an error, or Ctrl-C, the GPU may still be at work in the slot.
            self._running.then(lambda: self._key.slots.release(self._slot))
