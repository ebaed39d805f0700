"""The emulated GPU: memory of its own, launches, and recordings in any order that is allowed."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from quod.device.discovery import devices, open_device
from quod.device.emulated.device import EmulatedDevice
from quod.device.emulated.memory import POISON
from quod.device.memory.buffer import Buffer
from quod.errors import DeviceError, InputError, KernelError
from quod.frozen import replace
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.errors import InterpreterError
from quod.kernel.examples import reduce_sum, vector_add


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    yield device
    device.close()


@kernel
def scale(k: Builder, n: U32, factor: U32, x: Pointer[U32]) -> None:
    """x[i] *= factor, for i below n, each instance in steps of the grid."""
    everyone = k.num_workgroups() * k.workgroup_size
    with k.range(k.global_id(), n, everyone) as loop:
        x[loop.index] = x[loop.index] * factor


@kernel
def sum_subgroups(k: Builder, x: Pointer[U32], sums: Pointer[U32]) -> None:
    """sums[s] = the sum of x over subgroup s, by shuffles."""
    total = x[k.global_id()]
    for step in (16, 8, 4, 2, 1):
        total = total + k.shuffle(total, k.lane_id() ^ step)
    with k.if_(k.lane_id() == 0):
        sums[k.global_id() // k.subgroup_size] = total


def words(count: int, seed: int = 3) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


def downloaded(device: EmulatedDevice, buffer: Buffer) -> list[int]:
    array = np.zeros(buffer.nbytes // 4, np.uint32)
    device.download(buffer, array)
    words: list[int] = array.tolist()
    return words


# --- memory


def test_memory_is_not_host_memory(gpu: EmulatedDevice) -> None:
    x = words(5)
    buffer = gpu.upload(x)
    x[:] = 0
    assert downloaded(gpu, buffer) == words(5).tolist()
    assert downloaded(gpu, buffer.slice(4, 12)) == words(5)[1:3].tolist()
    with pytest.raises(DeviceError, match="which the host cannot access"):
        buffer.view()
    assert buffer.address % 256 == 0
    assert gpu.allocate(0).nbytes == 0


def test_unwritten_memory_has_a_pattern(gpu: EmulatedDevice) -> None:
    assert downloaded(gpu, gpu.allocate(8)) == [0, 0]
    poison = POISON * 0x01010101
    assert downloaded(gpu, gpu.allocate(8, zero=False)) == [poison, poison]
    assert gpu.pinned(3).tolist() == [POISON] * 3


def test_addresses_do_not_overlap(gpu: EmulatedDevice) -> None:
    buffers = [gpu.allocate(nbytes) for nbytes in (0, 1, 255, 256, 257, 0, 12)]
    spans = [(b.address, b.address + b.nbytes) for b in buffers]
    assert all(stop < start for (_, stop), (start, _) in itertools.pairwise(spans))


def test_memory_is_freed_and_limited() -> None:
    gpu = EmulatedDevice(memory_budget=1000)
    first = gpu.allocate(900)
    with pytest.raises(DeviceError, match="no memory for a buffer of 101 bytes: 900 bytes of 1000"):
        gpu.allocate(101)
    part = first.slice(0, 4)
    del first
    gc.collect()
    assert gpu.memory.in_use == 900
    del part
    gc.collect()
    assert gpu.memory.in_use == 0
    assert gpu.memory.peak == 900
    gpu.allocate(1000)
    with pytest.raises(DeviceError, match="the budget is 1000 bytes"):
        gpu.check_budget("a plan", 1001)
    with pytest.raises(DeviceError, match=r"number of bytes of a buffer .*, not -1"):
        gpu.allocate(-1)


def test_memory_of_another_device(gpu: EmulatedDevice) -> None:
    other = EmulatedDevice().allocate(4)
    with pytest.raises(DeviceError, match="which the device emulated does not reach"):
        gpu.memory.bytes_of(other)
    compiled = gpu.compile(scale)
    with pytest.raises(DeviceError, match="is memory of the device emulated"):
        gpu.launch(compiled, 1, 1, 1, other)


def test_closed_device_is_rejected() -> None:
    gpu = EmulatedDevice()
    buffer = gpu.allocate(4)
    gpu.close()
    with pytest.raises(DeviceError, match="is gone: the device was closed"):
        gpu.download(buffer, np.zeros(1, np.uint32))


# --- launches


def test_arrays_are_copied_there_and_back(gpu: EmulatedDevice) -> None:
    x, y, out = words(100, 1), words(100, 2), np.zeros(100, np.uint32)
    before = x.copy()
    gpu.launch(gpu.compile(vector_add), 2, 100, x, y, out)
    np.testing.assert_array_equal(out, x + y)
    np.testing.assert_array_equal(x, before)


def test_buffers_and_workgroups(gpu: EmulatedDevice) -> None:
    x = words(128)
    sums = gpu.allocate(8, zero=False)
    gpu.launch(gpu.compile(reduce_sum), 2, 128, gpu.upload(x), sums)
    assert downloaded(gpu, sums) == x.reshape(2, 64).sum(1, np.uint32).tolist()
    sums = gpu.allocate(16, zero=False)
    gpu.launch(gpu.compile(sum_subgroups), 2, gpu.upload(x), sums)
    assert downloaded(gpu, sums) == x.reshape(4, 32).sum(1, np.uint32).tolist()
    assert gpu.compile(scale, lanes=128).lanes == 128
    assert gpu.compile(scale) is gpu.compile(scale)


def test_emitted_text_is_executed() -> None:
    gpu = EmulatedDevice(executor="ptx", workgroup=32)
    x = words(128)
    sums = gpu.allocate(16, zero=False)
    gpu.launch(gpu.compile(sum_subgroups), 4, gpu.upload(x), sums)
    assert downloaded(gpu, sums) == x.reshape(4, 32).sum(1, np.uint32).tolist()
    kernel = gpu.compile(sum_subgroups)
    object.__setattr__(
        kernel, "module", replace(kernel.module, text=kernel.module.text.replace("shfl", "shafl"))
    )
    with pytest.raises(KernelError, match="shafl"):
        gpu.launch(kernel, 4, gpu.upload(x), sums)


def test_out_of_bounds_access_is_reported(gpu: EmulatedDevice) -> None:
    buffer = gpu.allocate(64)
    with pytest.raises(InterpreterError, match="element 4 of x, which has 4 of type u32"):
        gpu.launch(gpu.compile(scale), 1, 5, 2, buffer.slice(0, 16))


def test_invalid_launches_are_rejected(gpu: EmulatedDevice) -> None:
    compiled = gpu.compile(scale)
    with pytest.raises(
        DeviceError, match=r"with -1 workgroups; the number must be from 0 to 2\*\*31 - 1"
    ):
        gpu.launch(compiled, -1, 0, 1, gpu.allocate(4))
    with pytest.raises(DeviceError, match="not a multiple of 16"):
        gpu.launch(compiled, 1, 0, 1, gpu.allocate(16).slice(4, 16))
    with pytest.raises(DeviceError, match="which u32 cannot hold"):
        gpu.launch(compiled, 1, 0, 1 << 32, gpu.allocate(4))
    with pytest.raises(KernelError, match="cannot be hashed"):
        gpu.compile(scale, factors=[1])
    for wrong in ({"executor": "llvm"}, {"memory_budget": 0}):
        with pytest.raises(DeviceError):
            EmulatedDevice(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no architecture sm_91"):
        EmulatedDevice(arch="sm_91")


# --- recordings


def test_a_recording_and_its_replay(gpu: EmulatedDevice) -> None:
    x, result = words(70), np.zeros(70, np.uint32)
    source = gpu.pinned(280).view(np.uint32)
    source[:] = x
    data, other = gpu.allocate(280, zero=False), gpu.allocate(280, zero=False)
    compiled = gpu.compile(scale)
    recording = gpu.stream("work").record()
    recording.upload(source, data)
    recording.launch(compiled, 2, 70, 3, data)
    recording.copy(data, other)
    recording.launch(compiled, 1, 70, 5, other)
    recording.fill(data, 7)
    recording.download(other, result)
    recorded = recording.finish()
    idle = recorded.submit().wait()
    np.testing.assert_array_equal(result, x * np.uint32(15))
    assert downloaded(gpu, data) == [7] * 70
    source[:] = 1
    idle.replay(recorded.recording).submit().wait()
    assert result.tolist() == [15] * 70


def test_missing_dependency_is_reported() -> None:
    """Independent steps run in any order."""
    seen = set()
    for seed in range(20):
        gpu = EmulatedDevice(seed=seed)
        data = gpu.allocate(4)
        recording = gpu.stream().record()
        for word in (1, 2, 3):
            recording.fill(data, word)
        recorded = recording.finish()
        steps = recorded.recording.steps
        assert [step.after for step in steps] == [(), (0,), (1,)]
        recorded.submit().wait()
        assert downloaded(gpu, data) == [3]
        for step in steps:
            object.__setattr__(step, "after", ())
        gpu.stream().replay(recorded.recording).submit().wait()
        seen.add(downloaded(gpu, data)[0])
    assert seen == {1, 2, 3}


def test_events_between_streams(gpu: EmulatedDevice) -> None:
    data = gpu.upload(np.array([2], np.uint32))
    compiled = gpu.compile(scale)
    first, second = gpu.stream("first").record(), gpu.stream("second").record()
    first.launch(compiled, 1, 1, 3, data)
    event = first.event("scaled")
    first.fill(gpu.allocate(4), 1)
    second.wait_for(event)
    result = np.zeros(1, np.uint32)
    second.download(data, result)
    running = first.finish().submit()
    second.finish().submit().wait()
    running.wait()
    assert result.tolist() == [6]


def test_an_error_in_a_recording(gpu: EmulatedDevice) -> None:
    recording = gpu.stream().record()
    recording.launch(gpu.compile(scale), 1, 5, 2, gpu.allocate(16))
    with pytest.raises(InterpreterError, match="element 4 of x"):
        recording.finish().submit().wait()


def test_shared_memory_limit() -> None:
    @kernel
    def needs(k: Builder, y: Pointer[U32]) -> None:
        room = k.shared(u32, 15 * 1024)
        room[k.local_id()] = 1
        y[k.local_id()] = room[k.local_id()]

    y = np.zeros(64, np.uint32)
    gpu = EmulatedDevice()
    gpu.launch(gpu.compile(needs), 1, y)
    assert y.all()
    assert EmulatedDevice(arch="sm_86").machine(64).shared_bytes_limit == 99 * 1024


def test_emulated_device_is_opened_by_name() -> None:
    for name, executor in (("emulated", "ir"), ("emulated:ptx", "ptx")):
        gpu = open_device(name, memory_budget=1 << 20)
        assert isinstance(gpu, EmulatedDevice)
        assert (gpu.name, gpu.executor, gpu.memory_budget) == (name, executor, 1 << 20)
    assert not any(row.name.startswith("emulated") for row in devices())
