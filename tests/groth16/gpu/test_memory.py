"""Memory of a proof's MSMs with 128 MiB buffers: planned, allocated and released."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import WgslTarget
from quod.curve.groups import GROUPS
from quod.device.emulated.device import EmulatedDevice, EmulatedKernel
from quod.device.memory.budget import check_reach
from quod.device.memory.buffer import Array, Buffer
from quod.device.runtime.arguments import Argument
from quod.device.runtime.recording import Launch
from quod.errors import DeviceError
from quod.groth16 import ProvingKey
from quod.groth16.gpu.bases import KeyMsms, MsmMemory
from quod.groth16.resident import KeyBases
from quod.msm.gpu.reduce.weighted_sums import line_bytes
from tests.groth16.conftest import Made

MIB = 1 << 20


class Idle(EmulatedDevice):
    """Takes memory and checks what kernels are given, as a browser would, but runs none.

    Whoever asks is told ones: that some bases are infinite, which takes the most memory.
    """

    def __init__(self) -> None:
        super().__init__(
            executor="wgsl", resident_lanes=1 << 15, memory_budget=1 << 34,
            target=WgslTarget(limbs="13:rolled"),
        )  # fmt: skip
        self.largest_allocation = 0

    def allocate(self, nbytes: int, *, zero: bool = True) -> Buffer:
        check_reach("a buffer", nbytes, 2 * self.largest_buffer)
        self.largest_allocation = max(self.largest_allocation, nbytes)
        # Zeros are no memory of the host until somebody writes there.
        return self.memory.allocate(nbytes, zero=True)

    def upload(self, array: Array, *, into: Buffer | None = None) -> Buffer:
        return self.allocate(array.nbytes) if into is None else into

    def download(self, buffer: Buffer, array: Array) -> None:
        array.view(np.uint32).fill(1)

    def execute(
        self, kernel: EmulatedKernel, groups: int, arguments: Iterable[Argument], *_: Any
    ) -> None:
        for argument in arguments:
            if isinstance(argument, Buffer):
                check_reach(f"an argument of {kernel.name}", argument.nbytes, self.largest_buffer)


@pytest.fixture(scope="module")
def idle() -> Idle:
    return Idle()


def key(sizes: dict[str, int]) -> list[KeyBases]:
    """Bases of a key that is nowhere; every eighth variable is in no b, so that B is gathered."""
    parts = []
    for name, count in sizes.items():
        group = GROUPS["bls12_381.g2" if name == "B2" else "bls12_381.g1"]
        points = np.ones((count, *group.shape), np.uint32)
        if name in ("B1", "B2"):
            points[::8] = 0
        parts.append(KeyBases.of(name, group, points))
    return parts


PROOF = dict.fromkeys(("B2", "A", "B1", "C", "H"), 1 << 17)


@pytest.fixture(scope="module")
def proof() -> list[KeyBases]:
    """Bases of a proof whose circuit has as many variables as rows, 2^17."""
    return key(PROOF)


def check(device: Idle, parts: list[KeyBases], memory: MsmMemory, *, finished: bool) -> None:
    """Takes the memory and records every MSM."""
    before = device.memory.in_use
    device.memory.peak = before
    bases = KeyMsms(device, parts, memory)
    scalars = device.allocate(32 * max(len(part.points) for part in parts))
    flag = device.allocate(16)
    argument_bytes = scalars.nbytes + flag.nbytes
    recording = device.stream("proof").record()
    pending = []
    for part in parts:
        if finished:
            lines = device.allocate(line_bytes(bases.plan(part.name)))
            argument_bytes += lines.nbytes
            bases.record_to_lines(recording, part.name, scalars, lines, flag)
        else:
            pending.append(bases.record(recording, part.name, scalars))
    steps = recording.finish().recording.steps
    assert len(steps) > 10 * len(parts)
    for step in steps:
        if isinstance(step, Launch):
            for argument in step.arguments:
                if isinstance(argument, Buffer):
                    assert argument.nbytes <= device.largest_buffer, step.kernel.name
    assert device.largest_allocation <= 2 * device.largest_buffer
    # Beside what was planned: words about scalars and bases.
    assert device.memory.peak - before - argument_bytes <= memory.nbytes(device) + 4096


@pytest.mark.parametrize("share", [1, 2, 3, 4, 6])
def test_proof_memory_stays_within_the_plan(idle: Idle, proof: list[KeyBases], share: int) -> None:
    assert idle.largest_buffer == 128 * MIB
    everything = MsmMemory.fitting(idle, proof, 1 << 34)
    memory = MsmMemory.fitting(idle, proof, everything.nbytes(idle) // share)
    assert memory.nbytes(idle) <= everything.nbytes(idle) // share
    assert bool(memory.streamed) == (share == 6)
    check(idle, proof, memory, finished=False)


def test_a_recorded_proof(idle: Idle, proof: list[KeyBases]) -> None:
    """A proof in a browser: one workspace, no multiples, all within half a GiB."""
    memory = MsmMemory.fitting(idle, proof, 512 * MIB, workspaces=(1,), multiples=(1,))
    assert not memory.streamed
    check(idle, proof, memory, finished=True)


def test_bases_beyond_kernel_addressing(idle: Idle) -> None:
    """192 MiB of G2, and 144 MiB of G1: each in parts, in buffers of their own."""
    parts = key({"B2": 1 << 20, "H": 3 << 19})
    memory = MsmMemory.fitting(idle, parts, 1 << 34)
    check(idle, parts, memory, finished=False)
    alone = MsmMemory.fitting(idle, parts, 1 << 34, workspaces=(1,), multiples=(1,))
    check(idle, parts, alone, finished=True)


def test_insufficient_memory_is_reported(idle: Idle, proof: list[KeyBases]) -> None:
    shortage = r"need \d.* of device memory, and 8\.0 MiB are available"
    with pytest.raises(DeviceError, match=shortage):
        MsmMemory.fitting(idle, proof, 8 * MIB)


def test_vectors_beyond_kernel_addressing(circuit_files: Callable[..., Made]) -> None:
    """Three of 32 elements of 32 bytes."""
    device = EmulatedDevice(largest_buffer=3071)
    with pytest.raises(DeviceError, match=r"take 3\.0 KiB, and a kernel .* --device cpu"):
        ProvingKey.from_zkey(circuit_files("bn254", steps=20).zkey, device=device)
