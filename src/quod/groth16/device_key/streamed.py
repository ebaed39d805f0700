"""A proof whose key is streamed: chunks of bases pass through device memory.

    copies   | H0 | A0 | C0 | H1 | A1 | ...
    sums     B1, B2, quotient | H0 | A0 | C0 | H1 | ...

The bases of A, C and H are cut into chunks with an MSM each (`quod.groth16.device_key.memory`). The
chunks that do not stay on the device are in page-locked memory and are copied to a ring of buffers.
Chunks of H, which take longest to compute, alternate with those of A and C, so that computation
hides the copies.

Copies and MSMs are separate recordings, ordered by events: a copy waits for the copy before it and
for the MSM of the chunk whose buffer it reuses, an MSM for the copy of its bases. All is submitted
at once, and the host waits for the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest

from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.event import Event
from quod.device.runtime.future import Outcome
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import RecordingStream, SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.field.array import Words
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.device_key.bases import counts, group_of
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.device_key.memory import CUT, RING, KeyMemory
from quod.groth16.device_key.points import SumOfMsms
from quod.groth16.gpu.gpu_sums import GpuSums, end_after
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.upload import LINGER_SECONDS, copy_on_device, upload_words
from quod.groth16.resident import SumBatches
from quod.groth16.slots import Slots
from quod.msm.gpu.run.affine_bases import plain_plan, record_plain
from quod.msm.gpu.run.binary_scalars import BinaryScalarMsm, ScalarSplit
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.msm.gpu.run.workspace import Workspace, workspace_bytes
from quod.msm.gpu.sort.infinity_mask import find_infinity_mask


@frozen(eq=False)
class _Chunk:
    """Bases start to stop - 1 of an MSM.

    bases: the buffer on the device; a ring buffer if the chunk is streamed.
    host: the bases in page-locked memory; None if the chunk stays on the device.
    mask: the infinity mask of the bases, if there is one.
    """

    name: str
    start: int
    stop: int
    bases: Buffer
    host: Array | None
    mask: Buffer | None

    @property
    def count(self) -> int:
        return self.stop - self.start


@frozen(eq=False)
class _Step:
    """The MSMs of a chunk, or of resident bases, and the copy before them."""

    copy: Recording | None
    sums: Recording


@frozen(eq=False)
class _Program:
    """All steps of a proof, recorded for given capacities of scalars other than 0 and 1.

    early, late: the points that the proof needs first, and the others; see `SumSlot`. Here all of
        them are complete only at the end.
    """

    steps: tuple[_Step, ...]
    early: SumOfMsms
    late: SumOfMsms


class StreamedKey:
    """A streamed key with the interface of `ResidentKey`, for one proof at a time.

    bases: those of the whole key in device memory; the constructor takes them out of the mapping.
    memory: the plan, with the bytes of chunks that stay.
    """

    # The attributes of `ResidentKey`: no memory beyond the key's, no batches, one proof at a time.
    peak_bytes = 0
    batches: SumBatches | None = None
    in_progress = 1

    def __init__(
        self, device: AnyDevice, circuit: DeviceCircuit, bases: dict[str, Buffer],
        memory: KeyMemory, timeline: Timeline,
    ) -> None:  # fmt: skip
        assert memory.staying is not None
        self.device, self.circuit, self.memory = device, circuit, memory
        self.witness_device: AnyDevice | None = device
        self.ring = [device.allocate(memory.chunk_bytes, zero=False) for _ in range(RING)]
        self.b_bases = {name: bases.pop(name) for name in ("B1", "B2")}
        self.b_mask = self._mask("B1", self.b_bases["B1"])
        with timeline.stage("chunks"):
            self.chunks = self._cut(bases, memory.chunk, memory.staying)
        with timeline.stage("matrices"):
            self.quotient = Quotient(
                device,
                circuit.fr,
                circuit.log2_domain,
                circuit.matrix(device),
                monomial=circuit.monomial,
            )
        self.indices = {
            "A": device.upload(circuit.wires_of_a), "B": device.upload(circuit.wires_of_b),
        }  # fmt: skip
        self.nbytes = (
            sum(kept.bases.nbytes for kept in self.chunks if kept.host is None)
            + sum(b_bases.nbytes for b_bases in self.b_bases.values())
            + memory.ring_bytes
        )
        self.runner = Background("quod-device-key", 1, linger=LINGER_SECONDS)
        self._slots = Slots(lambda: _Slot(self), 1)

    def _mask(self, name: str, bases: Buffer) -> Buffer | None:
        words = group_of(self.circuit, counts(self.circuit)[name][0]).point_words
        return find_infinity_mask(self.device, bases.nbytes // (8 * words), words, bases)

    def _cut(self, bases: dict[str, Buffer], chunk: int, staying: int) -> list[_Chunk]:
        """Cut H, A and C into chunks; keep each on the device or move it to the host.

        Returns the chunks of the three in turn. The last ones stay, as the MSMs over B hide the
        copies of the first.
        """
        ranges = {
            name: [
                (name, start, min(start + chunk, counts(self.circuit)[name][1]))
                for start in range(0, counts(self.circuit)[name][1], chunk)
            ]
            for name in CUT
        }
        order = [
            chunk_range
            for chunks in zip_longest(*ranges.values())
            for chunk_range in chunks
            if chunk_range is not None
        ]
        point_bytes, stays = 8 * group_of(self.circuit, 1).point_words, set()
        for chunk_range in reversed(order):
            _, start, stop = chunk_range
            nbytes = (stop - start) * point_bytes
            if nbytes <= staying:
                staying -= nbytes
                stays.add(chunk_range)
        streamed = [chunk_range for chunk_range in order if chunk_range not in stays]
        targets = {
            chunk_range: self.ring[index % RING] for index, chunk_range in enumerate(streamed)
        }
        cut_chunks = {}
        # The bases of one MSM after the other, so that the device never holds a copy of all.
        for name, chunk_ranges in ranges.items():
            msm_bases = bases.pop(name)
            for chunk_range in chunk_ranges:
                _, start, stop = chunk_range
                source = msm_bases.slice(start * point_bytes, stop * point_bytes)
                cut_chunks[chunk_range] = self._chunk(chunk_range, source, targets.get(chunk_range))
        return [cut_chunks[chunk_range] for chunk_range in order]

    def _chunk(
        self, chunk_range: tuple[str, int, int], source: Buffer, target: Buffer | None
    ) -> _Chunk:
        """Copy a chunk to memory of its own, or if it is streamed to `target`, to the host."""
        device, (name, start, stop) = self.device, chunk_range
        mask = None if name == "H" else self._mask(name, source)
        if target is None:
            kept = device.allocate(source.nbytes, zero=False)
            copy_on_device(device, source, kept)
            return _Chunk(name, start, stop, kept, None, mask)
        host = device.pinned(source.nbytes)
        device.download(source, host)
        return _Chunk(name, start, stop, target.slice(0, source.nbytes), host, mask)

    def prepare(self) -> None:
        """Do nothing: the slot exists."""

    def start(self, witness: Words | Buffer, host_tasks: Tasks, context: ProofContext) -> GpuSums:
        return GpuSums.started(self._slots, witness, host_tasks, context)

    def close(self) -> None:
        self.runner.close()


class _Slot:
    """A `SumSlot` for streamed keys."""

    joint = None

    def __init__(self, key: StreamedKey) -> None:
        self._key, self.runner = key, key.runner
        device, circuit = key.device, key.circuit
        self._device = device
        self._witness = device.allocate(circuit.wires * circuit.fr.bytes, zero=False)
        self._splits: dict[tuple[str, int], ScalarSplit] = {
            ("B", 0): ScalarSplit(
                device, group_of(circuit, 1), len(circuit.wires_of_b), indices=key.indices["B"],
                infinity_mask=key.b_mask,
            )
        }  # fmt: skip
        for key_chunk in key.chunks:
            if key_chunk.name != "H":
                indices = key.indices.get(key_chunk.name)
                if indices is not None:
                    indices = indices.slice(4 * key_chunk.start, 4 * key_chunk.stop)
                self._splits[key_chunk.name, key_chunk.start] = ScalarSplit(
                    device, group_of(circuit, 1), key_chunk.count, indices=indices,
                    infinity_mask=key_chunk.mask,
                )  # fmt: skip
        recording = device.stream("sums").record()
        for (name, start), split in self._splits.items():
            split.record(recording, self._scalars(name, start, split.count))
        self._splitting = recording.finish().recording
        self._workspace = Workspace(device, key.memory.workspace)
        # That of the last proof: the capacities of many chunks are rarely those of another one.
        self._capacities: tuple[int, ...] = ()
        self._program: _Program | None = None

    def _scalars(self, name: str, start: int, count: int) -> Buffer:
        """Return the scalars of a chunk of C; for A and B, which have indices, the witness."""
        if name != "C":
            return self._witness
        size, first_scalar = self._key.circuit.fr.bytes, start + self._key.circuit.public + 1
        return self._witness.slice(first_scalar * size, (first_scalar + count) * size)

    @property
    def early(self) -> SumOfMsms:
        assert self._program is not None
        return self._program.early

    @property
    def late(self) -> SumOfMsms:
        assert self._program is not None
        return self._program.late

    def upload(self, witness: Words | Buffer, *, pinned: bool = False) -> None:
        """See `SumSlot`."""
        upload_words(self._device, witness, self._witness)

    def run(self, early_done: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        timeline = context.timeline if context.is_timed else None
        running: list[SubmittedStream] = []
        # Copies whose step has not been submitted yet.
        submitted_copies: list[SubmittedStream] = []

        def submit(recording: Recording, name: str) -> SubmittedStream:
            stream = self._device.stream(name).replay(recording)
            return stream.submit(timeline, parent=context.parent)

        try:
            # Mark the results as unwritten before each run.
            for split in self._splits.values():
                split.reset_results()
            submit(self._splitting, "sums").wait()
            capacities = tuple(split.counts().capacity for split in self._splits.values())
            program = self._program
            if program is None or capacities != self._capacities:
                self._program = None
                program = self._record(dict(zip(self._splits, capacities, strict=True)))
                self._program, self._capacities = program, capacities
            program.early.reset_results()
            program.late.reset_results()
            unsubmitted = [step.copy for step in program.steps if step.copy is not None]
            unsubmitted.reverse()

            def stage() -> None:
                if unsubmitted:
                    submitted_copies.append(submit(unsubmitted.pop(), "copies"))

            for _ in range(RING):
                stage()
            for step in program.steps:
                if step.copy is not None:
                    running.append(submitted_copies.pop(0))
                running.append(submit(step.sums, "sums"))
                if step.copy is not None:
                    stage()
            while running:
                running.pop(0).wait()
            early_done.set(None)
        except BaseException as error:
            # A pending copy would overwrite the ring during the next proof.
            end_after(error, early_done, [*running, *submitted_copies])
            raise

    # --- recordings

    def _record(self, capacities: Mapping[tuple[str, int], int]) -> _Program:
        """Record all steps of a proof for given capacities of the splits."""
        key, device = self._key, self._device
        resident_msms = {
            "B1": self._msm(1, len(key.circuit.wires_of_b), capacities["B", 0]),
            "B2": self._msm(2, len(key.circuit.wires_of_b), capacities["B", 0]),
        }
        chunk_msms = {
            (key_chunk.name, key_chunk.start): self._msm(
                1, key_chunk.count, capacities[key_chunk.name, key_chunk.start]
            )
            for key_chunk in key.chunks
            if key_chunk.name != "H"
        }
        g1 = group_of(key.circuit, 1)
        plans = {
            key_chunk.count: plain_plan(device, g1, key_chunk.count, affine=False)
            for key_chunk in key.chunks
        }
        workspace_sizes = [
            recorder.workspace_bytes for recorder in (*resident_msms.values(), *chunk_msms.values())
        ]
        workspace_sizes += [workspace_bytes(device, plan) for plan in plans.values()]
        if max(workspace_sizes) > self._workspace.nbytes:
            # The witness has more scalars other than 0 and 1 than the circuit's usual ones.
            self._workspace = Workspace(device, max(workspace_sizes))
        workspace = self._workspace
        msms: dict[str, list[RecordedMsm]] = {"A": [], "B1": [], "B2": [], "C": [], "H": []}
        chain = _Chain(device)
        with chain.step() as recording:
            for name, recorder in resident_msms.items():
                with recording.part(f"MSM {name}"):
                    msms[name] += recorder.record(
                        recording, self._splits["B", 0], self._witness, key.b_bases[name], workspace
                    )
        with chain.step() as recording:
            quotient_scalars = key.quotient.record(recording, self._witness)
        for key_chunk in key.chunks:
            with chain.step(key_chunk) as recording, recording.part(f"MSM {key_chunk.name}"):
                chunk_key = key_chunk.name, key_chunk.start
                if key_chunk.name != "H":
                    chunk_scalars = self._scalars(key_chunk.name, key_chunk.start, key_chunk.count)
                    msms[key_chunk.name] += chunk_msms[chunk_key].record(
                        recording,
                        self._splits[chunk_key],
                        chunk_scalars,
                        key_chunk.bases,
                        workspace,
                    )
                    continue
                size, plan = key.circuit.fr.bytes, plans[key_chunk.count]
                chunk_scalars = quotient_scalars.slice(
                    key_chunk.start * size, key_chunk.stop * size
                )
                msms["H"].append(
                    record_plain(recording, device, plan, chunk_scalars, key_chunk.bases, workspace)
                )
        early = {name: msms[name] for name in ("A", "B1", "B2")}
        late = {name: msms[name] for name in ("C", "H")}
        circuit = key.circuit
        return _Program(
            tuple(chain.steps), SumOfMsms(circuit, early), SumOfMsms(circuit, late)
        )  # fmt: skip

    def _msm(self, degree: int, count: int, capacity: int) -> BinaryScalarMsm:
        return BinaryScalarMsm(
            self._device, group_of(self._key.circuit, degree), count, capacity, affine=False
        )


class _Chain:
    """The recorder of a proof's steps and of the copies of their bases, in sequence."""

    def __init__(self, device: AnyDevice) -> None:
        self._device = device
        self._summed: Event | None = None
        self._copied: Event | None = None
        self._users: dict[int, Event] = {}
        self.steps: list[_Step] = []

    @contextmanager
    def step(self, chunk: _Chunk | None = None) -> Iterator[RecordingStream]:
        """Record the next step, which uses a chunk of bases."""
        sums, copy = self._device.stream("sums").record(), None
        if self._summed is not None:
            sums.wait_for(self._summed)
        if chunk is not None and chunk.host is not None:
            copy = self._copy(chunk, chunk.host)
            assert self._copied is not None
            sums.wait_for(self._copied)
        yield sums
        self._summed = sums.event("sums")
        if chunk is not None and copy is not None:
            self._users[chunk.bases.address] = self._summed
        self.steps.append(_Step(copy, sums.finish().recording))

    def _copy(self, chunk: _Chunk, host: Array) -> Recording:
        """Record the copy of a chunk to its buffer, after the previous copy and use of it."""
        copies = self._device.stream("copies").record()
        for event in (self._copied, self._users.get(chunk.bases.address)):
            if event is not None:
                copies.wait_for(event)
        copies.upload(host, chunk.bases, label=f"bases {chunk.name}")
        self._copied = copies.event("copied")
        return copies.finish().recording
