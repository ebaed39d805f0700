"""A partition whose key is streamed: blocks of bases pass through device memory.

    copies   | H0 | A0 | C0 | H1 | A1 | ...
    sums     B2, B1, quotient | H0 | A0 | C0 | H1 | ...

The bases of A, C and H are cut into blocks with an MSM each. As many blocks stay on the device as a
share of the key's bytes allows. The others are in page-locked memory and are copied to a ring of
buffers. Long blocks (H) and short ones alternate, so that computation hides the copies.

Copies and MSMs are separate recordings, ordered by events: a copy waits for the copy before it and
    for the MSM of the block whose buffer it reuses, an MSM for the copy of its bases. The `Mode`
    decides how the host submits them; all modes copy and compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from typing import Literal

import numpy as np

from quod.bench.porep.bases import base_bytes, counts, group_of
from quod.bench.porep.circuit import FIRST, PartitionCircuit
from quod.bench.porep.matrix import PartitionMatrix
from quod.bench.porep.points import PartitionSum, wires_of_b
from quod.device.memory.budget import bytes_text
from quod.device.memory.buffer import Array, Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.event import Event
from quod.device.runtime.future import Outcome
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import RecordingStream, SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.gpu.gpu_sums import GpuSums, end_after
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.upload import LINGER_SECONDS
from quod.groth16.resident import SumBatches
from quod.groth16.slots import Slots
from quod.msm.gpu.run.affine_bases import plain_plan, record_plain
from quod.msm.gpu.run.binary_scalars import BinaryScalarMsm, ScalarSplit
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.msm.gpu.run.workspace import Workspace, workspace_bytes
from quod.msm.gpu.sort.infinity_mask import find_infinity_mask

Mode = Literal["synchronous", "pre-staged", "deferred"]
"""The schedule of copies.

==================  ===========================================================================
``synchronous``     copied when needed: the host waits for the copy, then for the MSM
``pre-staged``      copied ahead, as far as the ring allows; the host waits for each copy and MSM
``deferred``        all is submitted at once, one event per copy; the host waits for the end
==================  ===========================================================================
"""

BLOCK = 1 << 23
"""The number of bases in a block."""

RING = 3
"""The number of blocks being copied or in use."""

# The MSMs cut into blocks, the long one first.
_CUT = ("H", "A", "C")


@frozen(eq=False)
class _Block:
    """Bases start to stop - 1 of an MSM: on the device, or on the host and in a ring buffer."""

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
    """The MSMs of a block, or of resident bases, and the copy before them."""

    copy: Recording | None
    sums: Recording


@frozen(eq=False)
class _Program:
    """All steps of a proof for certain numbers of full scalars."""

    steps: tuple[_Step, ...]
    early: PartitionSum
    late: PartitionSum


def room_for_blocks(circuit: PartitionCircuit, share: float, block: int) -> int:
    """Return the bytes of blocks that may stay, besides the bases of B and the ring.

    Raises DeviceError if the share has no room for B and the ring.
    """
    sizes = base_bytes(circuit)
    size = block * 8 * group_of(circuit, 1).point_words
    remaining = int(share * sum(sizes.values())) - sizes["B1"] - sizes["B2"] - RING * size
    if remaining < 0:
        raise DeviceError(
            f"{share:.0%} of the {bytes_text(sum(sizes.values()))} of a key cannot hold the bases "
            f"of B and {RING} blocks of {bytes_text(size)}: keep a larger part on the device, or "
            "use smaller blocks"
        )
    return remaining


class StreamedSums:
    """A `ResidentKey` for one proof at a time, with `share` of the bases' bytes resident.

    bases: those of the whole key in device memory; blocks that do not stay move to the host.
    Raises DeviceError if the share has no room for B and the ring.
    """

    peak_bytes = 0
    witness_device: AnyDevice | None = None
    batches: SumBatches | None = None
    in_progress = 1

    def __init__(
        self, device: AnyDevice, circuit: PartitionCircuit, bases: dict[str, Buffer],
        timeline: Timeline, *, share: float, mode: Mode, block: int = BLOCK,
    ) -> None:  # fmt: skip
        self.device, self.circuit, self.mode = device, circuit, mode
        sizes = base_bytes(circuit)
        size = block * 8 * group_of(circuit, 1).point_words
        remaining = room_for_blocks(circuit, share, block)
        with timeline.stage("matrices"):
            self.quotient = Quotient(
                device, circuit.fr, circuit.log2_domain, PartitionMatrix.build(device, circuit)
            )
        self.ring = [device.allocate(size, zero=False) for _ in range(RING)]
        self.staying = {name: bases[name] for name in ("B1", "B2")}
        self.b_mask = self._mask("B1", bases["B1"])
        self.indices = wires_of_b(device, circuit)
        with timeline.stage("blocks"):
            self.blocks = list(self._cut(bases, block, remaining))
        self.nbytes = sum(
            kept.bases.nbytes for kept in self.blocks if kept.host is None
        ) + sizes["B1"] + sizes["B2"] + RING * size  # fmt: skip
        self.runner = Background("quod-partition", 1, linger=LINGER_SECONDS)
        self._slots = Slots(lambda: _Slot(self), 1)

    def _mask(self, name: str, bases: Buffer) -> Buffer | None:
        words = group_of(self.circuit, counts(self.circuit)[name][0]).point_words
        return find_infinity_mask(self.device, bases.nbytes // (8 * words), words, bases)

    def _cut(self, bases: dict[str, Buffer], block: int, remaining: int) -> Iterator[_Block]:
        """Cut all MSMs into alternating blocks.

        The last blocks stay, as B hides the copies of the first.
        """
        point = 8 * group_of(self.circuit, 1).point_words
        ranges = [
            [
                (name, start, min(start + block, counts(self.circuit)[name][1]))
                for start in range(0, counts(self.circuit)[name][1], block)
            ]
            for name in _CUT
        ]
        order = [
            block_range
            for turn in zip_longest(*ranges)
            for block_range in turn
            if block_range is not None
        ]
        stays = set()
        for name, start, stop in reversed(order):
            nbytes = (stop - start) * point
            if nbytes <= remaining:
                remaining -= nbytes
                stays.add((name, start))
        place = 0
        for name, start, stop in order:
            source = bases[name].slice(start * point, stop * point)
            mask = None if name == "H" else self._mask(name, source)
            if (name, start) in stays:
                kept = self.device.allocate(source.nbytes, zero=False)
                moving = self.device.stream("blocks").record()
                moving.copy(source, kept)
                moving.finish().run()
                yield _Block(name, start, stop, kept, None, mask)
                continue
            host = self.device.pinned(source.nbytes)
            self.device.download(source, host)
            target = self.ring[place % RING].slice(0, source.nbytes)
            place += 1
            yield _Block(name, start, stop, target, host, mask)

    def prepare(self) -> None:
        """Do nothing: the slot exists."""

    def start(self, witness: Words | Buffer, beside: Tasks, context: ProofContext) -> GpuSums:
        return GpuSums.started(self._slots, witness, beside, context)

    def close(self) -> None:
        self.runner.close()


class _Slot:
    """A `SumSlot` for streamed keys."""

    def __init__(self, key: StreamedSums) -> None:
        self._key, self.runner = key, key.runner
        device, circuit = key.device, key.circuit
        self._device = device
        self._witness = device.allocate(circuit.wires * circuit.fr.bytes, zero=False)
        self._splits: dict[tuple[str, int], ScalarSplit] = {
            ("B", 0): ScalarSplit(
                device, group_of(circuit, 1), circuit.used_in_b, indices=key.indices,
                infinity_mask=key.b_mask,
            )
        }  # fmt: skip
        for key_block in key.blocks:
            if key_block.name != "H":
                self._splits[key_block.name, key_block.start] = ScalarSplit(
                    device, group_of(circuit, 1), key_block.count, infinity_mask=key_block.mask
                )
        recording = device.stream("sums").record()
        for (name, start), split in self._splits.items():
            split.record(recording, self._scalars(name, start, split.count))
        self._splitting = recording.finish().recording
        self._programs: dict[tuple[int, ...], _Program] = {}
        self._program: _Program | None = None

    def _scalars(self, name: str, start: int, count: int) -> Buffer:
        """Return the scalars of a block of bases; for B, which has indices, the whole witness."""
        if name == "B":
            return self._witness
        size = self._key.circuit.fr.bytes
        first = start + (FIRST if name == "C" else 0)
        return self._witness.slice(first * size, (first + count) * size)

    @property
    def early(self) -> PartitionSum:
        assert self._program is not None
        return self._program.early

    @property
    def late(self) -> PartitionSum:
        assert self._program is not None
        return self._program.late

    def upload(self, witness: Words | Buffer, *, pinned: bool = False) -> None:
        """See `SumSlot`."""
        self._device.upload(np.ascontiguousarray(witness), into=self._witness)

    def run(self, first: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        timeline = context.timeline if context.is_timed else None
        running: list[SubmittedStream] = []
        # Copies that no step has waited for yet.
        waiting: list[SubmittedStream] = []

        def submit(recording: Recording, name: str) -> SubmittedStream:
            stream = self._device.stream(name).replay(recording)
            return stream.submit(timeline, parent=context.parent)

        try:
            for split in self._splits.values():
                split.expect()
            submit(self._splitting, "sums").wait()
            rooms = tuple(split.counts().room for split in self._splits.values())
            if rooms not in self._programs:
                self._programs[rooms] = self._record(dict(zip(self._splits, rooms, strict=True)))
            program = self._program = self._programs[rooms]
            program.early.expect()
            program.late.expect()
            ahead = [step.copy for step in program.steps if step.copy is not None]
            ahead.reverse()

            def stage() -> None:
                if ahead:
                    waiting.append(submit(ahead.pop(), "copies"))

            lead = 0 if self._key.mode == "synchronous" else RING
            for _ in range(lead):
                stage()
            for step in program.steps:
                if step.copy is not None:
                    if not lead:
                        stage()
                    copy = waiting.pop(0)
                    self._go_on(copy, running)
                self._go_on(submit(step.sums, "sums"), running)
                if step.copy is not None and lead:
                    stage()
            while running:
                running.pop(0).wait()
            first.set(None)
        except BaseException as error:
            # No copy may reach the ring while the next proof uses it.
            end_after(error, first, [*running, *waiting])
            raise

    def _go_on(self, stream: SubmittedStream, running: list[SubmittedStream]) -> None:
        """Wait for a submission now, or at the end if the mode is deferred."""
        if self._key.mode == "deferred":
            running.append(stream)
        else:
            stream.wait()

    # --- recordings

    def _record(self, rooms: Mapping[tuple[str, int], int]) -> _Program:
        key, device = self._key, self._device
        shapes = {
            "B1": self._shape(1, key.circuit.used_in_b, rooms["B", 0]),
            "B2": self._shape(2, key.circuit.used_in_b, rooms["B", 0]),
        }
        of_blocks = {
            (key_block.name, key_block.start): self._shape(
                1, key_block.count, rooms[key_block.name, key_block.start]
            )
            for key_block in key.blocks
            if key_block.name != "H"
        }
        g1 = group_of(key.circuit, 1)
        plans = {
            key_block.count: plain_plan(device, g1, key_block.count) for key_block in key.blocks
        }
        needed = [shape.workspace_bytes for shape in (*shapes.values(), *of_blocks.values())]
        needed += [workspace_bytes(device, plan) for plan in plans.values()]
        workspace = Workspace(device, max(needed))
        msms: dict[str, list[RecordedMsm]] = {"A": [], "B1": [], "B2": [], "C": [], "H": []}
        chain = _Chain(device)
        with chain.step() as recording:
            for name, shape in shapes.items():
                with recording.part(f"MSM {name}"):
                    msms[name] += shape.record(
                        recording, self._splits["B", 0], self._witness, key.staying[name], workspace
                    )
        with chain.step() as recording:
            scalars = key.quotient.record(recording, self._witness)
        for key_block in key.blocks:
            with chain.step(key_block) as recording, recording.part(f"MSM {key_block.name}"):
                place = key_block.name, key_block.start
                if key_block.name != "H":
                    words = self._scalars(key_block.name, key_block.start, key_block.count)
                    msms[key_block.name] += of_blocks[place].record(
                        recording, self._splits[place], words, key_block.bases, workspace
                    )
                    continue
                size, plan = key.circuit.fr.bytes, plans[key_block.count]
                words = scalars.slice(key_block.start * size, key_block.stop * size)
                msms["H"].append(
                    record_plain(recording, device, plan, words, key_block.bases, workspace)
                )
        early = {name: msms[name] for name in ("A", "B1", "B2")}
        late = {name: msms[name] for name in ("C", "H")}
        circuit = key.circuit
        return _Program(
            tuple(chain.steps), PartitionSum(circuit, early), PartitionSum(circuit, late)
        )  # fmt: skip

    def _shape(self, degree: int, count: int, room: int) -> BinaryScalarMsm:
        return BinaryScalarMsm(self._device, group_of(self._key.circuit, degree), count, room)


class _Chain:
    """A sequence of steps, and of the copies of their bases."""

    def __init__(self, device: AnyDevice) -> None:
        self._device = device
        self._summed: Event | None = None
        self._copied: Event | None = None
        self._users: dict[int, Event] = {}
        self.steps: list[_Step] = []

    @contextmanager
    def step(self, block: _Block | None = None) -> Iterator[RecordingStream]:
        """Record the next step, which uses a block of bases."""
        sums, copy = self._device.stream("sums").record(), None
        if self._summed is not None:
            sums.wait_for(self._summed)
        if block is not None and block.host is not None:
            copy = self._copy(block, block.host)
            assert self._copied is not None
            sums.wait_for(self._copied)
        yield sums
        self._summed = sums.event("sums")
        if block is not None and copy is not None:
            self._users[block.bases.address] = self._summed
        self.steps.append(_Step(copy, sums.finish().recording))

    def _copy(self, block: _Block, host: Array) -> Recording:
        copies = self._device.stream("copies").record()
        for before in (self._copied, self._users.get(block.bases.address)):
            if before is not None:
                copies.wait_for(before)
        copies.upload(host, block.bases, label=f"bases {block.name}")
        self._copied = copies.event("copied")
        return copies.finish().recording
