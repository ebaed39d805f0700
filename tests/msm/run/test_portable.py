"""MSMs within what portable WebGPU allows: small buffers and workgroups, no shuffles."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import WgslTarget
from quod.curve.groups import GROUPS
from quod.device.emulated.device import EmulatedDevice
from quod.device.memory.buffer import Buffer
from quod.errors import DeviceError, InputError
from quod.kernel.ir.types import Type, u8, u32
from quod.msm import MsmOptions, affine_ints
from quod.msm.gpu.device_limits import DeviceLimits
from quod.msm.gpu.layout import GpuMsmPlan
from quod.msm.gpu.reduce import rounds, weighted_sums
from quod.msm.gpu.reduce.finish import Finisher
from quod.msm.gpu.run.device_plan import SortShape, fits, plan_gpu_msm
from quod.msm.gpu.run.resident import ResidentMsm
from quod.msm.gpu.run.workspace import Arena, MsmBuffers, Workspace, block_of, workspace_bytes
from tests.msm.inputs import bases, by_logarithms, logarithms, scalar_words
from tests.msm.reduce.test_weighted_sums import line_of

GROUP = GROUPS["bn254.g1"]
DEVICE = EmulatedDevice(executor="wgsl", resident_lanes=1 << 17)


def pieces_of(plan: GpuMsmPlan) -> list[int]:
    """The sizes of all arrays of the work on one part."""
    sizes: list[int] = []

    class Noting(Arena):
        def allocate(self, count: int, element: Type = u32) -> Buffer:
            sizes.append(count * element.bytes)
            return super().allocate(count, element)

    MsmBuffers.of(DEVICE, plan, Noting(DEVICE))
    return sizes


@pytest.mark.parametrize("name", list(GROUPS))
def test_every_array_is_within_a_binding(name: str) -> None:
    group, limits = GROUPS[name], DeviceLimits.of(DEVICE)
    reach = DEVICE.largest_buffer
    forms: tuple[Any, ...] = (
        ("weierstrass", "edwards") if name == "bls12_377.g1" else ("weierstrass",)
    )
    counts = (1, 255, 1 << 12, 100_000, 1 << 16, 1 << 18, 1 << 20)
    for form, count in itertools.product(forms, counts):
        plan = plan_gpu_msm(
            group, count, MsmOptions(), limits=limits, base_budget=1 << 62, form=form
        )
        assert sum(plan.block_counts) == count
        assert fits(plan)
        shape, machine = SortShape.of(plan.largest_block), DEVICE.machine(256)
        assert 4 * max(shape.bins, 1 << shape.low_bits) <= machine.shared_bytes_limit
        for block_count in {*plan.block_counts}:
            part = block_of(plan, block_count)
            assert block_count * part.copies * 8 * part.base_words <= reach
            assert max(pieces_of(part)) <= reach
        assert len(plan.block_counts) <= 4
        # A page after the other, none of them larger than a buffer may be.
        pages = -(-workspace_bytes(DEVICE, plan) // (2 * reach))
        assert pages <= 3


def test_chunks_do_not_cross_pages() -> None:
    device = EmulatedDevice(executor="wgsl", largest_buffer=1024)
    sizes = [700, 1000, 2048, 1, 600, 0, 1500]
    counting = Arena(device)
    for size in sizes:
        counting.allocate(size, u8)
    workspace = Workspace(device, counting.peak)
    assert all(page.nbytes <= 2048 for page in workspace.pages)
    arena = Arena(device, workspace)
    taken = [arena.allocate(size, u8) for size in sizes]
    assert [piece.nbytes for piece in taken] == sizes
    for number, piece in enumerate(taken):
        device.upload(np.full(piece.nbytes, number, np.uint8), into=piece)
    for number, piece in enumerate(taken):
        contents = np.zeros(piece.nbytes, np.uint8)
        device.download(piece, contents)
        assert (contents == number).all()
    with pytest.raises(DeviceError, match="too small for this MSM"):
        arena.allocate(4096)


@pytest.mark.parametrize("resident", [256, 4096, 1 << 17])
def test_reduction_levels_compute_the_weighted_sum(resident: int) -> None:
    """Points are integers here, as in `test_cuts_compute_the_weighted_sum`."""
    rng = np.random.default_rng(1)
    for window_bits, windows in ((2, 1), (3, 2), (6, 3), (8, 2), (11, 1), (13, 5), (16, 1)):
        plan = GpuMsmPlan(
            GROUP, 10, window_bits, windows, 1, 1, 4, limits=DeviceLimits(resident, shuffles=False),
        )  # fmt: skip
        buckets = rng.integers(0, 1 << 20, plan.all_buckets)
        host_vectors = weighted_sums.vectors_of(plan)
        lines = np.zeros(sum(windows << vector.bits for vector in host_vectors), np.int64)
        source = buckets
        for reduction in rounds.rounds_of(plan):
            out = np.zeros(reduction.points, np.int64)
            for job in reduction.jobs:
                cut = job.cut
                bits = cut.source.bits + cut.source.parts
                target = cut.target
                shape = (bits, cut.source.bits, target.bits, target.parts, int(cut.is_low))
                points = source[job.source : job.source + (windows << bits)]
                sums = np.zeros(cut.lines, np.int64)
                np.add.at(sums, [line_of(i, shape) for i in range(len(points))], points)
                to = lines if job.is_short else out
                to[job.target : job.target + cut.lines] = sums
                assert (rounds.LANES // reduction.lanes) * reduction.groups >= cut.lines
            source = out
        totals, start = np.zeros(windows, np.int64), 0
        for vector in host_vectors:
            assert vector.bits <= 5
            weights = (np.arange(1 << vector.bits) << vector.place) + (vector is host_vectors[-1])
            points = lines[start : start + (windows << vector.bits)]
            totals += points.reshape(windows, -1) @ weights
            start += len(points)
        expected = buckets.reshape(windows, -1) @ np.arange(1, plan.buckets + 1)
        assert np.array_equal(totals, expected)


def test_lines_of_another_size_are_rejected() -> None:
    resident = ResidentMsm(DEVICE, GROUP, bases(GROUP, 3), MsmOptions(4, precompute_factor=1))
    scalars, flag = DEVICE.allocate(96), DEVICE.allocate(16)
    workspace = Workspace(DEVICE, resident.workspace_bytes())
    with pytest.raises(DeviceError, match=r"the lines take \d+ bytes, not 64"):
        resident.record_to_lines(
            DEVICE.stream().record(), scalars, DEVICE.allocate(64), flag, workspace=workspace
        )


def run(
    device: EmulatedDevice, resident: ResidentMsm, vectors: list[list[int]],
    indices: list[int] | None = None,
) -> tuple[list[Any], list[Any], int]:  # fmt: skip
    """Results of the recorded MSM, those from lines on the device, and the word of the flag."""
    group, batch = resident.group, len(vectors)
    plan = resident.plan(None, batch)
    assert plan.batch == batch
    scalars = device.upload(np.concatenate([scalar_words(vector) for vector in vectors]))
    picked = None if indices is None else device.upload(np.array(indices, np.uint32))
    workspace = Workspace(device, resident.workspace_bytes(plan))
    out, flag = device.allocate(weighted_sums.line_bytes(plan)), device.allocate(16)
    shared: dict[str, Any] = {
        "workspace": workspace, "plan": plan, "indices": picked, "stride": len(vectors[0]),
    }  # fmt: skip
    recording = device.stream().record()
    pending = resident.record(recording, scalars, **shared)
    resident.record_to_lines(recording, scalars, out, flag, **shared)
    recording.finish().submit().wait()
    lines, word = np.zeros(out.nbytes // 8, np.uint64), np.zeros(4, np.uint32)
    device.download(out, lines)
    device.download(flag, word)
    words = Finisher([plan]).finish([lines])[0]
    host_results = [affine_ints(group, result_words) for result_words in words]
    if word[0]:
        with pytest.raises(InputError) as error:
            pending.finish()
        return [str(error.value)], host_results, int(word[0])
    return [affine_ints(group, result_words) for result_words in pending.finish()], host_results, 0


def portable(*, few_kernels: bool, **properties: Any) -> EmulatedDevice:
    target = WgslTarget(limbs="13", few_kernels=few_kernels)
    device = EmulatedDevice(executor="wgsl", target=target, **properties)
    assert DeviceLimits.of(device).compact == few_kernels
    return device


@pytest.mark.parametrize("few_kernels", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_lines_on_the_device_have_the_results(few_kernels: bool) -> None:
    device = portable(few_kernels=few_kernels)
    resident = ResidentMsm(device, GROUP, bases(GROUP, 9), MsmOptions(scalar_bits=6, window_bits=3))
    source = random.Random(1)
    vectors = [[source.getrandbits(6) for _ in range(9)], [1] * 9]
    expected = [by_logarithms(GROUP, vector, logarithms(9)) for vector in vectors]
    assert run(device, resident, vectors) == (expected, expected, 0)
    vectors[1][7] = 1 << 6
    errors, _, flag = run(device, resident, vectors)
    assert flag
    assert "scalar 7 is not below" in errors[0]


@pytest.mark.thorough
@pytest.mark.parametrize("few_kernels", [False, True])
def test_bases_in_chunks(few_kernels: bool) -> None:
    """A kernel reaches a third of the bases; some are infinite, and scalars are picked."""
    device = portable(few_kernels=few_kernels, largest_buffer=81920)
    count, infinite = 2500, (3, 1023, 1024, 2499)
    base_words = bases(GROUP, 50)[np.arange(count) % 50].copy()
    base_words[list(infinite)] = 0
    logs = [0 if i in infinite else logarithms(50)[i % 50] for i in range(count)]
    resident = ResidentMsm(device, GROUP, base_words, MsmOptions(scalar_bits=5, window_bits=6))
    assert resident.plan().block_counts == (1024, 1024, 452)
    assert len(resident.blocks) == 3
    source = random.Random(2)
    scalars = [source.getrandbits(5) for _ in range(count)]
    indices = [source.randrange(100) for _ in range(count)]
    expected = [by_logarithms(GROUP, [scalars[i] for i in indices], logs)]
    assert run(device, resident, [scalars], indices) == (expected, expected, 0)
    scalars[1500] = 32
    errors, _, flag = run(device, resident, [scalars])
    assert flag
    assert "scalar 1500 is not below" in errors[0]
