"""The MSMs of a proof as recordings for a remote device, such as a browser's.

A local GPU runs the recordings of a resident key (see `quod.groth16.gpu.key`). Here they are
recorded on a `RecordingDevice` for the browser's runtime: kernels in portable WGSL, the key's data
as constants, and no host work between the witness and the lines of the five MSMs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.device.memory.budget import OutOfMemory, bytes_text
from quod.device.memory.buffer import Buffer
from quod.device.protocol import RecordingDevice
from quod.device.runtime.recording import Copy, Fill, Launch, Recording
from quod.device.runtime.stream import RecordingStream
from quod.errors import DeviceError
from quod.field.array import Words
from quod.formats import Zkey
from quod.frozen import frozen
from quod.groth16.gpu.bases import KeyMsms, MsmMemory
from quod.groth16.gpu.quotient import Quotient
from quod.groth16.resident import bases_of
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce.weighted_sums import line_bytes

D = TypeVar("D", bound=RecordingDevice)

# The order of the MSMs after the transforms.
_ORDER = ("H", "A", "B1", "C", "B2")


@frozen
class GraphStage:
    """A stage of a proof's work, one step of a progress bar: launches, fills and copies."""

    name: str
    recording: Recording


@frozen(eq=False)
class GraphBases:
    """Points of the key, affine and in Montgomery form; the memory may have multiples too."""

    group: Group
    points: Words
    memory: Buffer


@frozen
class ProofGraph(Generic[D]):
    """The work from a witness to the sums of a proof; it may be run repeatedly.

    witness: memory for `variables` canonical integers of 32 bytes: the constant 1, `public` public
        inputs, then the others.
    stages: the work, in order.
    lines: the lines of the MSMs A, B1, B2, C and H by name, which `finish.Finisher` adds up; None
        for an MSM whose result is always infinity.
    plans: the plans of the other MSMs.
    flags: by the same names; the first word is 0 afterwards if all scalars were below the order.
    constants: allocations with the key's data.
    scratch_bytes: bytes of all other memory, including witness and lines.
    bases: the points of the key.
    """

    device: D
    curve: str
    variables: int
    public: int
    witness: Buffer
    stages: tuple[GraphStage, ...]
    lines: Mapping[str, Buffer | None]
    plans: Mapping[str, GpuMsmPlan]
    flags: Mapping[str, Buffer]
    constants: tuple[Buffer, ...]
    scratch_bytes: int
    bases: tuple[GraphBases, ...] = ()


def record_proof(zkey: Zkey, device: D) -> ProofGraph[D]:
    """Record the work of a key's proofs.

    Raises DeviceError if the work exceeds the memory budget or the limits of the device.
    """
    g1, g2 = (GROUPS[f"{zkey.curve}.g{degree}"] for degree in (1, 2))
    quotient = Quotient.of(device, zkey)
    witness = device.allocate(zkey.variables * zkey.fr.bytes, zero=False)
    # Without points at infinity no MSM needs a mask, whose kernels would be compiled too.
    key = bases_of(zkey, g1, g2, min_infinite_share=0)
    sums_budget = device.memory_budget - quotient.nbytes - witness.nbytes
    # The MSMs run one after the other, so one workspace suffices. Precomputed multiples would make
    # the key's data larger, which the remote device has to download.
    memory = MsmMemory.fitting(device, key, sums_budget, workspaces=(1,), multiples=(1,))
    if memory.streamed:
        raise OutOfMemory(
            f"the bases of {zkey.path} do not fit a memory budget of "
            f"{bytes_text(device.memory_budget)}, and a recorded proof cannot stream them"
        )
    msms = KeyMsms(device, key, memory)
    stages: list[GraphStage] = []

    def stage(name: str, work: Callable[[RecordingStream], None]) -> None:
        recording = device.stream(name).record()
        work(recording)
        stages.append(GraphStage(name, recording.finish().recording))

    scalars: list[Buffer] = []
    stage("A·w, B·w", lambda recording: quotient.record_products(recording, witness))
    stage("quotient", lambda recording: scalars.append(quotient.record_transforms(recording)))
    lines: dict[str, Buffer | None] = {}
    plans: dict[str, GpuMsmPlan] = {}
    flags: dict[str, Buffer] = {}
    for bases in sorted(key, key=lambda bases: _ORDER.index(bases.name)):
        name = bases.name
        if not msms.is_resident(name):
            lines[name] = None
            continue
        plan = plans[name] = msms.plan(name)
        out = lines[name] = device.allocate(line_bytes(plan), zero=False)
        flag = flags[name] = device.allocate(16, zero=False)
        source = scalars[0] if name == "H" else witness

        def work(
            recording: RecordingStream, name: str = name, source: Buffer = source,
            out: Buffer = out, flag: Buffer = flag,
        ) -> None:  # fmt: skip
            msms.record_to_lines(recording, name, source, out, flag)

        stage(f"MSM {name}", work)
    constants, scratch_bytes = _memory(device, stages)
    return ProofGraph(
        device, zkey.curve, zkey.variables, zkey.public, witness, tuple(stages), lines, plans,
        flags, constants, scratch_bytes, tuple(GraphBases(*block) for block in msms.blocks()),
    )  # fmt: skip


def _memory(device: RecordingDevice, stages: list[GraphStage]) -> tuple[tuple[Buffer, ...], int]:
    """Return the constants that the stages use, and the bytes of their other memory."""
    allocations: dict[int, Buffer] = {}
    for stage in stages:
        for step in stage.recording.steps:
            match step:
                case Launch():
                    operands = list(step.arguments)
                case Copy(direction="copy"):
                    operands = [step.source, step.target]
                case Fill():
                    operands = [step.target]
                case _:
                    raise DeviceError(f"{stage.name} has a step for the host: {step.label}")
            for buffer in operands:
                if isinstance(buffer, Buffer):
                    allocation = device.whole_allocation(buffer)
                    allocations[allocation.address] = allocation
    buffers = [allocations[address] for address in sorted(allocations)]
    constants = tuple(buffer for buffer in buffers if device.is_constant(buffer))
    return constants, sum(buffer.nbytes for buffer in buffers if not device.is_constant(buffer))
