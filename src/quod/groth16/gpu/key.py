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

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from quod.curve.array import Point
from quod.curve.group import Group
from quod.device.event import Event
from quod.device.protocol import AnyDevice
from quod.device.recording import Recording
from quod.device.stream import SubmittedStream
from quod.device.timeline import NullTimeline, Stage, Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.field.calibration import calibrate
from quod.formats import Zkey
from quod.groth16.gpu.bases import GpuBases, MsmMemory, PendingPoints, parts_of
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.witness import Copiers, WitnessBuffer
from quod.groth16.resident import Tasks

_EARLY = ("B2", "A", "B1")

# Proofs in progress: one computed, and one whose witness is copied or whose sums are finished.
_SLOTS = 2


class GpuKey:
    """See `ResidentKey`.

    All memory is taken when the key is opened. DeviceError if there is too little.
    """

    peak_bytes = 0

    def __init__(
        self, zkey: Zkey, device: AnyDevice, g1: Group, g2: Group, timeline: Timeline
    ) -> None:
        self._zkey, self._device = zkey, device
        calibrate(device, timeline)
        with timeline.stage("matrices"):
            self._quotient = Quotient(device, zkey)
        with timeline.stage("bases"):
            parts = parts_of(zkey, g1, g2)
            taken = self._quotient.nbytes + _SLOTS * zkey.variables * zkey.fr.bytes
            memory = MsmMemory.fitting(device, parts, device.memory_budget - taken)
            self._bases = GpuBases(device, parts, memory)
            # Slices of bases that pass through belong to a slot.
            self._most_slots = 1 if memory.streamed else _SLOTS
        with timeline.stage("transforms"):
            self._copiers = Copiers()
            self._slots = [_Slot(self)]
        self._free = list(self._slots)
        self._changed = threading.Condition()
        # Slots share workspaces, so that their recordings run one after the other.
        self._runner = ThreadPoolExecutor(1, "quod-gpu")

    def start(self, witness: Words, beside: Tasks, timeline: Timeline, stage: Stage) -> _Parts:
        slot = self._take()
        try:
            with timeline.stage("upload", bytes=2 * witness.nbytes, parent=stage):
                slot.witness.fill(witness)
            return _Parts(self, slot, beside, timeline, stage)
        except BaseException:
            self._give_back(slot)
            raise

    def close(self) -> None:
        self._runner.shutdown()
        self._copiers.close()

    def _take(self) -> _Slot:
        """A slot that no proof uses, made if there may be one more."""
        with self._changed:
            if not self._free and len(self._slots) < self._most_slots:
                self._slots.append(_Slot(self))
                return self._slots[-1]
            while not self._free:
                self._changed.wait()
            return self._free.pop()

    def _give_back(self, slot: _Slot) -> None:
        with self._changed:
            self._free.append(slot)
            self._changed.notify()


class _Slot:
    """What a proof in progress has to itself.

    `early` are the sums that A and B are made of: the host goes on with them while those that are
    `late`, above all H, are computed.
    """

    def __init__(self, key: GpuKey) -> None:
        self._device, bases = key._device, key._bases
        size = key._zkey.variables * key._zkey.fr.bytes
        self.witness = WitnessBuffer(key._device, size, key._copiers)
        witness = self.witness.buffer
        first = last = self._device.stream("proof").record()
        self.early = PendingPoints({name: bases.record(first, name, witness) for name in _EARLY})
        self._early_event: Event | None = None
        if self._device.single_queue:
            self._early_event = first.event("the sums of A and B")
        elif bases.is_apart("H"):
            # What uses one memory stays in one recording, which puts it in order.
            last = self._device.stream("proof").record()
        c = bases.record(first, "C", witness)
        h = bases.record(last, "H", key._quotient.record(last, witness))
        self.late = PendingPoints({"C": c, "H": h})
        self._recordings = [stream.finish().recording for stream in dict.fromkeys((first, last))]

    def run(self, first: Future[None], timeline: Timeline, stage: Stage) -> None:
        """Computes the sums, and waits for them; `first` is done with the early ones."""
        # A proof that was given up may have left sums of its own.
        self.early.expect()
        self.late.expect()
        # Steps that are timed run one after the other.
        followed = None if isinstance(timeline, NullTimeline) else timeline
        running: list[SubmittedStream] = []
        try:
            if followed is None:
                # The longest way to its end first.
                for recording in reversed(self._recordings):
                    running.append(self._submit(recording, None, stage))
            for recording in self._recordings:
                stream = running.pop() if running else self._submit(recording, followed, stage)
                if self._early_event is not None:
                    # Where it is not passed, the stream tells why.
                    with suppress(DeviceError):
                        self._early_event.wait()
                        first.set_result(None)
                stream.wait()
                if not first.done():
                    first.set_result(None)
        except BaseException as error:
            if not first.done():
                first.set_exception(error)
            for stream in running:
                with suppress(DeviceError):
                    stream.wait()
            raise

    def _submit(
        self, recording: Recording, timeline: Timeline | None, stage: Stage
    ) -> SubmittedStream:
        stream = self._device.stream("proof").replay(recording)
        return stream.submit(timeline, parent=stage)


class _Parts:
    """See `PendingParts`."""

    def __init__(
        self, key: GpuKey, slot: _Slot, beside: Tasks, timeline: Timeline, stage: Stage
    ) -> None:
        self._key, self._slot = key, slot
        self._beside, self._timeline, self._stage = beside, timeline, stage
        self._first: Future[None] = Future()
        self._running = key._runner.submit(slot.run, self._first, timeline, stage)

    def early(self) -> dict[str, Any]:
        parts = {name: task() for name, task in self._beside.items()}
        self._first.result()
        return parts | self._finish(self._slot.early)

    def last(self) -> dict[str, Point]:
        self._running.result()
        return self._finish(self._slot.late)

    def _finish(self, points: PendingPoints) -> dict[str, Point]:
        with self._timeline.stage("finish sums", parent=self._stage):
            return points.finish()

    def close(self) -> None:
        # After an error, or Ctrl-C, the GPU may still be at work in the slot.
        self._running.add_done_callback(lambda _: self._key._give_back(self._slot))
