"""The MSMs of a proof with a key in device memory: see `ResidentKey`.

    witness ─┬─ A·w, B·w, quotient, MSM over h
             └─ split by value: 1, other than 0 and 1 ── MSMs over A, B (G1), B (G2), C

Both branches are concurrent recordings. The splits are submitted with the upload, so the splits of
the next witness run concurrently with the MSMs of the previous one. The counts of a split are
rounded up to capacities. The capacities determine which recording of the MSMs is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.background import Background
from quod.device.runtime.future import Outcome
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import SubmittedStream
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from quod.field.array import Words
from quod.frozen import frozen
from quod.groth16.context import ProofContext, Tasks
from quod.groth16.device_key.bases import counts, group_of
from quod.groth16.device_key.circuit import DeviceCircuit
from quod.groth16.device_key.memory import WITNESS_MSMS, WITNESSES, KeyMemory
from quod.groth16.device_key.points import SumOfMsms
from quod.groth16.gpu.gpu_sums import GpuSums, end_after, replay
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.gpu.upload import LINGER_SECONDS, Copiers, UploadBuffer
from quod.groth16.resident import SumBatches
from quod.groth16.slots import Slots
from quod.msm.gpu.run.affine_bases import record_plain
from quod.msm.gpu.run.binary_scalars import ScalarSplit
from quod.msm.gpu.run.record_buckets import RecordedMsm
from quod.msm.gpu.run.workspace import Workspace
from quod.msm.gpu.sort.infinity_mask import find_infinity_mask

_EARLY = ("B2", "A", "B1")
"""The MSMs whose points the proof needs first."""


@frozen(eq=False)
class _WitnessMsms:
    """The recorded MSMs over the witness, for given capacities of scalars other than 0 and 1."""

    recording: Recording
    msms: tuple[RecordedMsm, ...]
    early: SumOfMsms
    late: SumOfMsms


class ResidentSums:
    """The matrices, bases and workspaces of a key, and its pipeline slots."""

    batches: SumBatches | None = None

    def __init__(
        self, device: AnyDevice, circuit: DeviceCircuit, bases: Mapping[str, Buffer],
        memory: KeyMemory, timeline: Timeline,
    ) -> None:  # fmt: skip
        self.device, self.circuit, self.bases, self.memory = device, circuit, bases, memory
        self.witness_device: AnyDevice | None = device
        fr = circuit.fr
        with timeline.stage("matrices"):
            self.quotient = Quotient(
                device, fr, circuit.log2_domain, circuit.matrix(device), monomial=circuit.monomial
            )
        with timeline.stage("infinity masks"):
            self.masks = {split_name: self._mask(name) for name, split_name in WITNESS_MSMS.items()}
        self.indices = {
            "A": device.upload(circuit.wires_of_a), "B": device.upload(circuit.wires_of_b),
        }  # fmt: skip
        self.workspace = Workspace(device, memory.workspace)
        self.quotient_workspace = Workspace(device, memory.items["workspace of MSM H"])
        self.runner = Background("quod-device-key", 1, linger=LINGER_SECONDS)
        with timeline.stage("recordings"):
            self._copiers = Copiers()
            self._slots = Slots(lambda: _Slot(self, self._copiers), WITNESSES)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def peak_bytes(self) -> int:
        """0, as the key already holds the memory of its proofs."""
        return 0

    @property
    def in_progress(self) -> int:
        return self._slots.most

    def prepare(self) -> None:
        self._slots.fill()

    def _mask(self, name: str) -> Buffer | None:
        degree, count = counts(self.circuit)[name]
        words = group_of(self.circuit, degree).point_words
        return find_infinity_mask(self.device, count, words, self.bases[name])

    def start(self, witness: Words | Buffer, host_tasks: Tasks, context: ProofContext) -> GpuSums:
        return GpuSums.started(self._slots, witness, host_tasks, context)

    def close(self) -> None:
        self.runner.close()
        self._copiers.close()


class _Slot:
    """The state of a proof in progress; see `SumSlot`."""

    joint = None

    def __init__(self, key: ResidentSums, copiers: Copiers) -> None:
        self.runner = key.runner
        self._key, device, circuit = key, key.device, key.circuit
        self._device = device
        size = circuit.wires * circuit.fr.bytes
        self._upload = UploadBuffer(device, size, copiers)
        self._witness = self._upload.buffer
        values = self._witness
        # C has no bases for the constant and the public wires.
        self._vectors = {
            "A": values,
            "B": values,
            "C": values.slice((circuit.public + 1) * circuit.fr.bytes, values.nbytes),
        }
        self._splits = {
            split_name: self._split(name)
            for name, split_name in WITNESS_MSMS.items()
            if name != "B2"
        }
        recording = device.stream("split").record()
        for split_name, split in self._splits.items():
            split.record(recording, self._vectors[split_name])
        self._splitting = recording.finish().recording
        self._submitted_split: SubmittedStream | None = None
        self._quotient, self._h = self._record_quotient()
        self._recorded_msms: dict[tuple[int, ...], _WitnessMsms] = {}
        self._witness_msms: _WitnessMsms | None = None

    def _split(self, name: str) -> ScalarSplit:
        """Return the scalar split of an MSM over the witness."""
        key, split_name = self._key, WITNESS_MSMS[name]
        degree, count = counts(key.circuit)[name]
        return ScalarSplit(
            key.device, group_of(key.circuit, degree), count, indices=key.indices.get(split_name),
            infinity_mask=key.masks[split_name],
        )  # fmt: skip

    def _record_quotient(self) -> tuple[Recording, RecordedMsm]:
        """Record the quotient and the MSM over H."""
        key, plan = self._key, self._key.memory.quotient
        recording = self._device.stream("quotient").record()
        scalars = key.quotient.record(recording, self._witness)
        with recording.part("MSM H"):
            recorded = record_plain(
                recording,
                self._device,
                plan,
                scalars.slice(0, plan.count * key.circuit.fr.bytes),
                key.bases["H"],
                key.quotient_workspace,
            )
        return recording.finish().recording, recorded

    def _record_witness_msms(self, capacities: dict[str, int]) -> _WitnessMsms:
        """Record the MSMs over the witness for the capacities of the splits."""
        key, recording = self._key, self._device.stream("tail").record()
        witness_msms = {
            name: key.memory.sums(name, capacities[split_name])
            for name, split_name in WITNESS_MSMS.items()
        }
        workspace_bytes = max(witness_msm.workspace_bytes for witness_msm in witness_msms.values())
        if workspace_bytes > key.workspace.nbytes:
            # The witness has more scalars other than 0 and 1 than the circuit expects.
            key.workspace = Workspace(self._device, workspace_bytes)
        recorded: dict[str, list[RecordedMsm]] = {}
        for name, split_name in WITNESS_MSMS.items():
            with recording.part(f"MSM {name}"):
                recorded_msms = witness_msms[name].record(
                    recording, self._splits[split_name], self._vectors[split_name], key.bases[name],
                    key.workspace,
                )  # fmt: skip
                recorded[name] = list(recorded_msms)
        early = {name: recorded[name] for name in _EARLY}
        late = {"C": recorded["C"], "H": [self._h]}
        circuit = key.circuit
        msms = tuple(msm for recorded_msms in recorded.values() for msm in recorded_msms)
        sums = SumOfMsms(circuit, early), SumOfMsms(circuit, late)
        return _WitnessMsms(recording.finish().recording, msms, *sums)

    @property
    def early(self) -> SumOfMsms:
        assert self._witness_msms is not None
        return self._witness_msms.early

    @property
    def late(self) -> SumOfMsms:
        assert self._witness_msms is not None
        return self._witness_msms.late

    def upload(self, witness: Words | Buffer, *, pinned: bool = False) -> None:
        """Upload the witness and start its splits."""
        self._drop_splitting()
        self._upload.fill(witness, pinned=pinned)
        for split in self._splits.values():
            split.reset_results()
        self._submitted_split = replay(self._device, self._splitting)

    def run(self, early_done: Outcome[None], context: ProofContext) -> None:
        """See `SumSlot`."""
        timeline = context.timeline if context.is_timed else None
        self._h.reset_results()
        splitting, self._submitted_split = self._submitted_split, None
        running: list[SubmittedStream] = []
        try:
            if timeline is None:
                running.append(replay(self._device, self._quotient))
            assert splitting is not None
            splitting.wait()
            capacities = {
                split_name: split.counts().capacity for split_name, split in self._splits.items()
            }
            capacity_values = tuple(capacities.values())
            recorded_msms = self._recorded_msms.get(capacity_values)
            if recorded_msms is None:
                recorded_msms = self._record_witness_msms(capacities)
                self._recorded_msms[capacity_values] = recorded_msms
            self._witness_msms = recorded_msms
            # The results of the MSM over H were reset before its start; it may have finished.
            for msm in recorded_msms.msms:
                msm.reset_results()
            # Timed steps run one after the other.
            replay(self._device, recorded_msms.recording, timeline, context).wait()
            early_done.set(None)
            if timeline is not None:
                running.append(replay(self._device, self._quotient, timeline, context))
            running.pop().wait()
        except BaseException as error:
            end_after(error, early_done, running)
            raise

    def _drop_splitting(self) -> None:
        """Wait for the splits of a proof that was abandoned before it ran."""
        splitting, self._submitted_split = self._submitted_split, None
        if splitting is not None:
            with suppress(DeviceError):
                splitting.wait()
