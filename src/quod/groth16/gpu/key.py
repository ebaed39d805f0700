"""A proving key in the memory of a GPU, and the recording that makes a proof's sums with it.

    witness ── A·w, B·w ── A·w ∘ B·w ── 3 inverse and 3 coset transforms ── A·B − C ── MSM over h
            └─ MSMs over a, b (G1), b (G2), c

All of it is one recording, so that what does not depend on one another runs side by side and the
host is not asked in between. A slot has all that a proof in progress needs to itself: the witness
and the results. With two of them one witness is copied, and the sums of another are finished by the
host, while a third proof is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from quod.curve.groups import Group
from quod.device.protocol import AnyDevice
from quod.device.recording import Recording
from quod.device.stream import RecordingStream
from quod.device.timeline import NullTimeline, Stage, Timeline
from quod.field.array import Words
from quod.field.cost import product_cost
from quod.field.kernels import field_multiply
from quod.field.spec import FieldSpec
from quod.formats import Zkey
from quod.groth16.gpu.bases import GpuBases, KeyBases, MsmMemory, PendingPoint
from quod.groth16.gpu.rows import GpuRows
from quod.groth16.gpu.witness import WitnessBuffer
from quod.groth16.resident import Tasks
from quod.ntt import NttPlan
from quod.ntt.quotient import record_coset_quotient

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
        fr, n = zkey.fr, zkey.domain_size
        nonzeros = len(zkey.coefficients)
        device.check_budget(f"the matrices of {zkey.path}", GpuRows.peak_bytes(fr, nonzeros, 2 * n))
        with timeline.stage("matrices"):
            self._rows = GpuRows.from_coefficients(device, fr, zkey.coefficients, n)
            elements = max(3 * n, self._rows.elements)
            self._products = device.allocate(elements * fr.bytes, zero=False)
        with timeline.stage("bases"):
            self._domain = NttPlan(device, fr, zkey.log2_domain, family="snarkjs")
            parts = [
                KeyBases.of("B2", g2, zkey.b_g2),
                KeyBases.of("A", g1, zkey.a),
                KeyBases.of("B1", g1, zkey.b_g1),
                KeyBases.of("C", g1, zkey.c, zkey.public + 1),
                KeyBases.of("H", g1, zkey.h),
            ]
            taken = (
                self._rows.nbytes
                + self._products.nbytes
                + self._domain.peak_bytes(batch=3, ordering="NR")
                + _SLOTS * zkey.variables * fr.bytes
            )
            memory = MsmMemory.fitting(device, parts, device.memory_budget - taken)
            self._groups = {part.name: part.group for part in parts}
            self._bases = GpuBases(device, parts, memory)
            # Slices of bases that pass through belong to a slot.
            self._most_slots = 1 if memory.streamed else _SLOTS
        with timeline.stage("transforms"):
            self._multiply = device.compile(field_multiply, spec=FieldSpec(fr))
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
            running = self._runner.submit(slot.run, timeline, stage)
        except BaseException:
            self._give_back(slot)
            raise
        return _Parts(self, slot, running, beside, timeline, stage)

    def close(self) -> None:
        self._runner.shutdown()

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

    def _record(
        self, recording: RecordingStream, witness: WitnessBuffer
    ) -> dict[str, PendingPoint]:
        """All work of a proof; its sums by name."""
        fr, n = self._zkey.fr, self._zkey.domain_size
        size = n * fr.bytes
        self._rows.record(recording, witness.buffer, self._products)
        evaluations = self._products.slice(0, 3 * size)
        a, b, c = (evaluations.slice(start, start + size) for start in range(0, 3 * size, size))
        recording.launch(
            self._multiply, -(-n // self._device.lanes), n, a, b, c, label="A·w ∘ B·w",
            bytes=3 * size, modmuls=n, multiply_adds=n * product_cost(fr),
        )  # fmt: skip
        record_coset_quotient(recording, self._domain, evaluations, a)
        return {
            name: self._bases.record(recording, name, group, a if name == "H" else witness.buffer)
            for name, group in self._groups.items()
        }


class _Slot:
    """What a proof in progress has to itself."""

    def __init__(self, key: GpuKey) -> None:
        self._device = key._device
        self.witness = WitnessBuffer(key._device, key._zkey.variables * key._zkey.fr.bytes)
        stream = key._device.stream("proof").record()
        self.pending: Mapping[str, PendingPoint] = key._record(stream, self.witness)
        self._recording: Recording = stream.finish().recording

    def run(self, timeline: Timeline, stage: Stage) -> None:
        """Computes the sums of the witness, and waits for them."""
        # Steps that are timed run one after the other.
        followed = None if isinstance(timeline, NullTimeline) else timeline
        stream = self._device.stream("proof").replay(self._recording)
        stream.submit(followed, parent=stage).wait()


class _Parts:
    """See `PendingParts`."""

    def __init__(
        self,
        key: GpuKey,
        slot: _Slot,
        running: Future[None],
        beside: Tasks,
        timeline: Timeline,
        stage: Stage,
    ) -> None:
        self._key, self._slot, self._running = key, slot, running
        self._beside, self._timeline, self._stage = beside, timeline, stage

    def wait(self) -> dict[str, Any]:
        try:
            parts = {name: task() for name, task in self._beside.items()}
            self._running.result()
            with self._timeline.stage("finish sums", parent=self._stage):
                parts |= {name: point.finish() for name, point in self._slot.pending.items()}
            return parts
        finally:
            # After an error, or Ctrl-C, the GPU may still be at work in the slot.
            self._running.add_done_callback(lambda _: self._key._give_back(self._slot))
