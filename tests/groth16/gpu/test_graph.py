"""The recorded way from a witness to the sums of a proof, run step by step as a browser does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quod.codegen.ptx.machine import ptx_machine
from quod.curve.array import Point, to_points
from quod.device.emulated.device import EmulatedKernel
from quod.device.export.device import ExportDevice
from quod.device.memory.buffer import Buffer
from quod.device.runtime.recording import Copy, Fill, Launch, Step
from quod.device.runtime.timeline import Timeline
from quod.errors import DeviceError
from quod.formats import Witness, Zkey
from quod.groth16 import ProvingKey, generate_key
from quod.groth16.context import ProofContext
from quod.groth16.gpu.graph import ProofGraph, record_proof
from quod.kernel.definition import KernelDefinition
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.nodes import Kernel
from quod.kernel.ir.types import PointerType
from quod.kernel.ops.semantics import NUMPY_TYPES
from quod.msm.gpu.reduce.finish import Finisher
from tests.groth16.conftest import Made
from tests.groth16.test_setup import TRIVIAL

Make = Callable[[str], Made]


def planning() -> ExportDevice:
    """For a small GPU, so that little is done with many lanes."""
    return ExportDevice(limbs="13:rolled", resident_lanes=256)


@functools.cache
def traced(step_kernel: EmulatedKernel, definition: KernelDefinition) -> Kernel:
    """A kernel as it is for NVIDIA: an interpreter does its products ten times as fast."""
    machine = ptx_machine(step_kernel.lanes)
    return definition.trace(machine, **step_kernel.static)


def run(graph: ProofGraph, witness: Witness) -> dict[str, Point]:
    """The sums, by an interpreter, from scratch memory with a pattern in it."""
    device = graph.device
    for memory in scratch(graph):
        device.bytes_of(memory)[:] = 0xFB
    device.bytes_of(graph.witness)[:] = np.ascontiguousarray(witness.values).view(np.uint8).ravel()
    for step in steps(graph):
        match step:
            case Launch():
                launch(device, step)
            case Copy():
                device.bytes_of(step.target)[:] = device.bytes_of(step.source)
            case Fill():
                device.bytes_of(step.target).view(np.uint32)[:] = step.word
    points: dict[str, Point] = {}
    for name, memory in graph.lines.items():
        if memory is None:
            points[name] = None
            continue
        plan = graph.plans[name]
        (words,) = Finisher([plan]).finish([device.bytes_of(memory).view(np.uint64)])
        points[name] = to_points(plan.group, words.view(np.uint32).reshape(1, *plan.group.shape))[0]
        assert device.bytes_of(graph.flags[name]).view(np.uint32)[0] == 0
    return points


def launch(device: ExportDevice, step: Launch) -> None:
    assert isinstance(step.kernel, EmulatedKernel)
    kernel = traced(step.kernel, device.definition_of(step.kernel))
    values = []
    for type_, argument in zip(step.kernel.slots.values(), step.arguments, strict=True):
        if isinstance(type_, PointerType):
            assert isinstance(argument, Buffer)
            values.append(device.bytes_of(argument).view(NUMPY_TYPES[type_.element]))
        else:
            values.append(argument)
    interpret(kernel, step.groups, values, groups_at_once=step.kernel.groups_at_once)


def steps(graph: ProofGraph) -> list[Step]:
    return [step for stage in graph.stages for step in stage.recording.steps]


def memory_of(step: Step) -> list[Buffer]:
    match step:
        case Launch():
            return [operand for operand in step.arguments if isinstance(operand, Buffer)]
        case Copy():
            return [
                operand for operand in (step.source, step.target) if isinstance(operand, Buffer)
            ]
        case Fill():
            return [operand for operand in (step.target,) if isinstance(operand, Buffer)]
    raise AssertionError(f"{step.label} is for the host")


def scratch(graph: ProofGraph) -> list[Buffer]:
    """The allocations that are no constants."""
    everything = [
        graph.device.whole_allocation(buffer) for step in steps(graph) for buffer in memory_of(step)
    ]
    by_address = {buffer.address: buffer for buffer in everything}
    return [buffer for buffer in by_address.values() if not graph.device.is_constant(buffer)]


def sums_of_the_cpu(zkey: Zkey, witness: Witness) -> dict[str, Point]:
    key, timeline = ProvingKey(zkey), Timeline()
    with timeline.stage("sums") as stage:
        pending = key.resident.start(witness.values, {}, ProofContext(timeline, stage))
        sums: dict[str, Point] = pending.early() | pending.last()
        pending.close()
    key.close()
    return sums


@pytest.fixture(scope="module")
def recorded(circuit_files: Make) -> ProofGraph:
    return record_proof(Zkey.open(circuit_files("bls12_381").zkey), planning())


@pytest.mark.thorough
def test_sums_of_the_recording(circuit_files: Make) -> None:
    files = circuit_files("bn254")
    zkey, witness = Zkey.open(files.zkey), Witness.open(files.wtns)
    graph = record_proof(zkey, planning())
    assert (graph.curve, graph.variables, graph.public) == ("bn254", len(witness), 2)
    assert [stage.name for stage in graph.stages] == [
        "A·w, B·w", "quotient", "MSM H", "MSM A", "MSM B1", "MSM C", "MSM B2",
    ]  # fmt: skip
    assert run(graph, witness) == sums_of_the_cpu(zkey, witness)


@pytest.mark.thorough
def test_sums_over_another_curve(circuit_files: Make, recorded: ProofGraph) -> None:
    files = circuit_files("bls12_381")
    zkey, witness = Zkey.open(files.zkey), Witness.open(files.wtns)
    assert run(recorded, witness) == sums_of_the_cpu(zkey, witness)


def test_sum_with_only_infinite_bases(tmp_path: Path) -> None:
    circuit = TRIVIAL["nothing"]
    generate_key(circuit.write_r1cs(tmp_path / "c.r1cs"), tmp_path / "c.zkey", 3)
    zkey = Zkey.open(tmp_path / "c.zkey")
    witness = Witness.open(circuit.write_wtns(tmp_path / "c.wtns"))
    graph = record_proof(zkey, planning())
    expected = sums_of_the_cpu(zkey, witness)
    empty = {name for name, memory in graph.lines.items() if memory is None}
    assert empty
    assert set(graph.flags) == set(graph.plans) == set(graph.lines) - empty
    assert all(expected[name] is None for name in empty)


def test_memory_within_the_limits(recorded: ProofGraph) -> None:
    """Constants are read alone, and all that steps use is some allocation in whole words."""
    constants = {buffer.address for buffer in recorded.constants}
    assert len(constants) == len(recorded.constants)
    assert recorded.scratch_bytes == sum(buffer.nbytes for buffer in scratch(recorded))
    for step in steps(recorded):
        for buffer in memory_of(step):
            assert buffer.nbytes <= recorded.device.largest_buffer
            assert buffer.nbytes % 4 == buffer.address % 4 == 0
        if isinstance(step, Launch):
            for index in step.kernel.stored:
                target = step.arguments[index]
                assert isinstance(target, Buffer)
                assert recorded.device.whole_allocation(target).address not in constants
            pointers = len(memory_of(step))
            assert pointers <= 12, f"{step.kernel.name} has {pointers} pointers"
            assert step.kernel.lanes <= 256  # type: ignore[attr-defined]


def test_scratch_memory_is_written_before_it_is_read(recorded: ProofGraph) -> None:
    """By what steps store to, as far as their arguments tell."""
    written = [
        recorded.device.whole_allocation(buffer)
        for buffer in (*recorded.constants, recorded.witness)
    ]
    spans = [(buffer.address, buffer.address + buffer.nbytes) for buffer in written]

    def is_there(buffer: Buffer) -> bool:
        at, end = buffer.address, buffer.address + buffer.nbytes
        for start, stop in sorted(spans):
            if start <= at < stop:
                at = max(at, stop)
        return at >= end

    for step in steps(recorded):
        stored: set[int] = set()
        if isinstance(step, Launch):
            stored = set(step.kernel.stored)
            reads = [a for i, a in enumerate(step.arguments) if i not in stored]
            targets = [a for i, a in enumerate(step.arguments) if i in stored]
        else:
            reads = [step.source] if isinstance(step, Copy) else []
            targets = [step.target] if isinstance(step, (Copy, Fill)) else []
        for buffer in reads:
            if isinstance(buffer, Buffer) and buffer.nbytes:
                assert is_there(buffer), f"{step.label} reads what nothing wrote"
        spans += [(a.address, a.address + a.nbytes) for a in targets if isinstance(a, Buffer)]


def test_oversized_key_is_rejected(circuit_files: Make) -> None:
    device = ExportDevice(resident_lanes=256, memory_budget=200_000)
    with pytest.raises(DeviceError, match=r"need|budget"):
        record_proof(Zkey.open(circuit_files("bn254").zkey), device)
