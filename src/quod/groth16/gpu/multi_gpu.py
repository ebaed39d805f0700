"""One proof on several GPUs: each has a share of the bases; the host adds the partial sums.

    first     A·w, B·w, quotient ────┬── its share of H
              its share of A, B, C   │
    others    their share of A, B, C └── their share of H, with scalars copied over a link

Partial sums over shares of the bases need no communication between devices. The NTTs stay on the
first device: six of size n are a tenth of a proof, and distributing them would cost more in
transfers than it saves. Therefore the first device has a smaller share of the bases, so that all
devices end at about the same time. The other devices compute sums over the witness until the
scalars of H arrive.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.group import Group
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.link import Link
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.errors import InputError
from quod.field.array import Words
from quod.field.cost import product_cost
from quod.field.strategies.calibration import calibrate
from quod.formats import Zkey
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.gpu.bases import KeyMsms, MsmMemory
from quod.groth16.gpu.gpu_sums import GpuSums, end_after, replay
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.summed_points import SummedPoints
from quod.groth16.gpu.upload import LINGER_SECONDS, Copiers, UploadBuffer
from quod.groth16.resident import KeyBases, SumBatches, bases_of
from quod.groth16.slots import Slots
from quod.msm.gpu.run.record_buckets import RecordedMsm

# Proofs in progress: one that is computed, and one whose witness is uploaded.
_PROOFS = 2

_EARLY, _LATE = ("B2", "A", "B1"), ("C", "H")

# Field products per base, by the degree of its coordinates: about twelve window digits of ten
# products each; a product in Fq2 takes three.
_PRODUCTS = {1: 120, 2: 360}


def shares(devices: int, transforms: float, sums: float) -> list[float]:
    """Return each device's share of the bases, so that all devices have equal work.

    transforms: the work of the NTTs, which device 0 does in addition to its share.
    sums: the work of all MSMs, in the same unit.
    Shares add up to 1.
    """
    first_share = (
        max(0.0, (transforms + sums) / devices - transforms) / sums if sums else 1 / devices
    )
    other_share = (1 - first_share) / (devices - 1) if devices > 1 else 0.0
    return [first_share, *[other_share] * (devices - 1)]


def _cost(zkey: Zkey, bases: Sequence[KeyBases]) -> tuple[float, float]:
    """Return the numbers of 32-bit multiply-adds of the NTTs and of all MSMs."""
    # Six NTTs of n / 2 * log2(n) products each.
    transforms = 3 * zkey.domain_size * zkey.log2_domain * product_cost(zkey.fr)
    sums = sum(
        len(key_bases.used_points)
        * _PRODUCTS[key_bases.group.degree]
        * product_cost(key_bases.group.coordinates)
        for key_bases in bases
    )
    return float(transforms), float(sums)


@frozen(eq=False)
class _Share:
    """A device's share of a key: bases, and points h_start to h_stop - 1 of H.

    link: the link from the first device, which computes the scalars of H; None for that device.
    """

    device: AnyDevice
    msms: KeyMsms
    nbytes: int
    streamed: bool
    h_start: int
    h_stop: int
    link: Link | None


class MultiGpuKey:
    """A `ResidentKey` on several GPUs, which compute one proof at a time.

    The first of `devices` computes the quotient. Each device uses at most `memory_budget` bytes.
    Raises DeviceError if one has too little memory, and InputError for fewer than two devices and
    for devices that compute in host memory.
    """

    peak_bytes = 0
    witness_device: AnyDevice | None = None
    batches: SumBatches | None = None

    def __init__(
        self, zkey: Zkey, devices: Sequence[AnyDevice], g1: Group, g2: Group, timeline: Timeline,
        memory_budget: int | None = None,
    ) -> None:  # fmt: skip
        check_devices(devices)
        self.zkey, self.groups = zkey, {"A": g1, "B1": g1, "B2": g2, "C": g1, "H": g1}
        for device in devices:
            calibrate(device, timeline)
        with timeline.stage("matrices"):
            self.quotient = Quotient.of(devices[0], zkey)
        with timeline.stage("bases"):
            bases = bases_of(zkey, g1, g2)
            device_shares = shares(len(devices), *_cost(zkey, bases))
            bounds = [sum(device_shares[:index]) for index in range(len(devices))] + [1.0]
            self.parts = [
                self._load_share(
                    device, index, bases, bounds[index], bounds[index + 1], memory_budget
                )
                for index, device in enumerate(devices)
            ]
        # With streamed bases there is one slot, as it owns the buffers of their chunks.
        self.in_progress = 1 if any(part.streamed for part in self.parts) else _PROOFS
        self.nbytes = sum(part.nbytes for part in self.parts)
        self.runner = Background("quod-gpus", 1, linger=LINGER_SECONDS)
        with timeline.stage("transforms"):
            self.copiers = Copiers()
            self._slots = Slots(lambda: _Slot(self), self.in_progress)

    def _load_share(
        self, device: AnyDevice, index: int, bases: Sequence[KeyBases], begin: float, end: float,
        memory_budget: int | None,
    ) -> _Share:  # fmt: skip
        """Load the part of all bases from fraction `begin` to `end` on device number `index`."""
        is_first = index == 0
        key_slice = [_slice_bases(key_bases, begin, end) for key_bases in bases]
        h_start, h_stop = (round(share * len(self.zkey.h)) for share in (begin, end))
        other_bytes = _PROOFS * self.zkey.variables * self.zkey.fr.bytes
        other_bytes += self.quotient.nbytes if is_first else (h_stop - h_start) * self.zkey.fr.bytes
        budget = min(device.memory_budget, memory_budget or device.memory_budget)
        memory = MsmMemory.fitting(device, key_slice, budget - other_bytes)
        link = None if is_first else Link(self.quotient.device, device)
        msms = KeyMsms(device, key_slice, memory)
        total_bytes = other_bytes + memory.nbytes(device)
        return _Share(device, msms, total_bytes, bool(memory.streamed), h_start, h_stop, link)

    @property
    def links(self) -> list[Link]:
        """The links from the first device to each of the others."""
        return [part.link for part in self.parts if part.link is not None]

    def prepare(self) -> None:
        self._slots.fill()

    def start(self, witness: Words | Buffer, host_tasks: Tasks, context: ProofContext) -> GpuSums:
        return GpuSums.started(self._slots, witness, host_tasks, context)

    def close(self) -> None:
        self.runner.close()
        self.copiers.close()


def check_devices(devices: Sequence[AnyDevice]) -> None:
    """Raise InputError unless these are two or more distinct devices that can share a proof."""
    if len(devices) < 2 or len({id(device) for device in devices}) < len(devices):
        raise InputError(
            "devices must name at least two devices, each once; pass a single device as `device`"
        )
    for device in devices:
        if device.host_memory or device.single_queue:
            raise InputError(
                f"{device.name} cannot share a proof with other devices: only CUDA GPUs can"
            )


def _slice_bases(bases: KeyBases, begin: float, end: float) -> KeyBases:
    """Return the share of the bases from fraction `begin` to `end`.

    For H, the scalar vector begins at the share's first scalar; else it is the whole witness.
    """
    points = bases.points
    start, stop = round(begin * len(points)), round(end * len(points))
    first = 0 if bases.name == "H" else bases.first + start
    return KeyBases.of(bases.name, bases.group, points[start:stop], first)


class _Slot:
    """A `SumSlot` with a witness buffer and recordings on each device."""

    joint = None

    def __init__(self, key: MultiGpuKey) -> None:
        self._key, self.runner = key, key.runner
        witness_bytes = key.zkey.variables * key.zkey.fr.bytes
        self._witnesses = [
            UploadBuffer(part.device, witness_bytes, key.copiers) for part in key.parts
        ]
        quotient_stream = key.parts[0].device.stream("proof").record()
        self._scalars = key.quotient.record(quotient_stream, self._witnesses[0].buffer)
        self._quotient = quotient_stream.finish().recording
        recorded: dict[str, list[RecordedMsm | None]] = {name: [] for name in (*_EARLY, *_LATE)}
        self._sums, self._h, self._h_transfers = [], [], []
        for part, witness in zip(key.parts, self._witnesses, strict=True):
            stream = part.device.stream("proof").record()
            for name in (*_EARLY, "C"):
                recorded[name].append(part.msms.record(stream, name, witness.buffer))
            self._sums.append(stream.finish().recording)
            element_bytes = key.zkey.fr.bytes
            byte_range = part.h_start * element_bytes, part.h_stop * element_bytes
            h_scalars = self._scalars.slice(*byte_range)
            if part.link is not None:
                h_scalars = part.device.allocate(byte_range[1] - byte_range[0], zero=False)
                self._h_transfers.append((part.link, self._scalars.slice(*byte_range), h_scalars))
            stream = part.device.stream("proof").record()
            recorded["H"].append(part.msms.record(stream, "H", h_scalars))
            self._h.append(stream.finish().recording)
        self.early = SummedPoints(key.groups, {name: recorded[name] for name in _EARLY})
        self.late = SummedPoints(key.groups, {name: recorded[name] for name in _LATE})

    def upload(self, witness: Words | Buffer, *, pinned: bool = False) -> None:
        """See `SumSlot`."""
        for upload_buffer in self._witnesses:
            upload_buffer.fill(witness, pinned=pinned)

    def run(self, early_done: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        step_timeline = context.timeline if context.is_timed else None
        parts, running_streams = self._key.parts, list[SubmittedStream]()

        def submit(device: AnyDevice, recording: Recording) -> SubmittedStream:
            stream = replay(device, recording, step_timeline, context)
            running_streams.append(stream)
            return stream

        def wait_for(streams: Sequence[SubmittedStream]) -> None:
            for stream in streams:
                if stream in running_streams:
                    running_streams.remove(stream)
                    stream.wait()

        try:
            self.early.reset_results()
            self.late.reset_results()
            quotient = submit(parts[0].device, self._quotient)
            sums = [
                submit(part.device, sum_recording)
                for part, sum_recording in zip(parts, self._sums, strict=True)
            ]
            wait_for([quotient])
            copied_scalars: list[Buffer] = []
            for part, h_recording in zip(parts, self._h, strict=True):
                if not part.msms.has_own_workspace("H"):
                    # The MSM over H shares its workspace with the other sums.
                    wait_for([sums[parts.index(part)]])
                if part.link is not None:
                    link, source, target = self._h_transfers[len(copied_scalars)]
                    with context.stage("link", bytes=2 * target.nbytes):
                        link.copy(source, target)
                    copied_scalars.append(target)
                submit(part.device, h_recording)
            wait_for(sums)
            early_done.set(None)
            wait_for(list(running_streams))
        except BaseException as error:
            end_after(error, early_done, running_streams)
            raise
