"""The CUDA device: launches, memory, streams and graphs, on a GPU and on a simulated driver."""

from __future__ import annotations

import gc
import itertools
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer
from quod.device.cuda.device import CudaDevice
from quod.device.runtime.recording import Recording
from quod.device.runtime.stream import RecordingStream
from quod.device.runtime.timeline import NullTimeline, Timeline
from quod.errors import DeviceError
from quod.kernel import U32, Builder, Pointer, kernel, u32
from tests.device import kernels
from tests.device.cuda_fixture import open_gpu
from tests.support.devices import present

COUNT = 1000


@pytest.fixture(scope="module", params=present("simulated", "cuda"))
def gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    device = open_gpu(request.param, tmp_path_factory.mktemp("cache"))
    yield device
    device.close()


def groups_of(device: CudaDevice) -> int:
    return -(-COUNT // device.lanes)


def words(count: int = COUNT) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(0, 1 << 32, count, np.uint32)


def content(device: CudaDevice, buffer: Buffer) -> np.ndarray[Any, Any]:
    out = np.zeros(buffer.nbytes // 4, np.uint32)
    device.download(buffer, out)
    return out


# --- what the device says of itself


def test_cuda_device_attributes(gpu: CudaDevice) -> None:
    assert (gpu.kind, gpu.name, gpu.host_memory, gpu.lanes) == ("cuda", "cuda:0", False, 128)
    assert gpu.resident_lanes == gpu.properties.multiprocessors * (
        gpu.properties.lanes_per_multiprocessor
    )
    assert 0 < gpu.memory_budget <= gpu.properties.memory_bytes
    machine = gpu.machine(128)
    assert (machine.target, machine.arch) == ("ptx", gpu.properties.arch)
    assert machine.subgroup_size == 32
    assert machine.shared_bytes_limit >= 48 << 10
    with pytest.raises(DeviceError, match="has 1 to 1024 instances, not 2048"):
        gpu.machine(2048)


# --- launches


def test_arrays_are_staged_and_brought_back(gpu: CudaDevice) -> None:
    scale = gpu.compile(kernels.scale)
    a, out = words(), np.zeros(COUNT, np.uint32)
    before = a.copy()
    gpu.launch(scale, groups_of(gpu), COUNT, 3, a, out)
    assert (out == 3 * before).all()
    assert (a == before).all()


def test_overlapping_arrays_alias_on_the_gpu(gpu: CudaDevice) -> None:
    array = words()
    expected = array.copy()
    expected[4:] *= 7
    gpu.launch(gpu.compile(kernels.scale), groups_of(gpu), COUNT - 4, 7, array[4:], array[4:])
    assert (array == expected).all()
    expected[:500] = 2 * expected[:500]
    gpu.launch(gpu.compile(kernels.scale), groups_of(gpu), 500, 2, array[:500], array)
    assert (array == expected).all()


def test_buffers_are_used_in_place(gpu: CudaDevice) -> None:
    increment = gpu.compile(kernels.increment)
    a = gpu.upload(words())
    gpu.launch(increment, groups_of(gpu), COUNT - 4, a.slice(16, a.nbytes))
    expected = words()
    expected[4:] += 1
    assert (content(gpu, a) == expected).all()


def test_numbers_of_every_type_reach_the_kernel(gpu: CudaDevice) -> None:
    out = np.zeros(6)
    numbers = gpu.compile(kernels.numbers, lanes=1)
    gpu.launch(numbers, 1, 2**32 - 1, 1 << 63, -(2**31), 1.5, -2.5, True, out)
    assert out.tolist() == [2**32 - 1, float(1 << 63), -(2.0**31), 1.5, -2.5, 1.0]


@kernel
def reversed_in_shared(k: Builder, out: Pointer[U32], *, words: int) -> None:
    """Each lane stores its number at the end of an array, and loads what another stored."""
    memory = k.shared(u32, words)
    lane = k.local_id()
    memory[words - 1 - lane] = lane + k.workgroup_id()
    k.barrier()
    out[k.global_id()] = memory[words - k.workgroup_size + lane]


@pytest.mark.parametrize("size", [1000, 12 << 10, 12289, 56 << 10])
def test_shared_memory_of_any_size(gpu: CudaDevice, size: int) -> None:
    compiled = gpu.compile(reversed_in_shared, lanes=64, words=size)
    assert compiled.shared_bytes == 4 * size
    assert (compiled.dynamic_shared_bytes > 0) == (4 * size > 48 << 10)
    out = np.zeros(128, np.uint32)
    gpu.launch(compiled, 2, out)
    expected = [*range(63, -1, -1), *range(64, 0, -1)]
    assert out.tolist() == expected
    recording = gpu.stream().record()
    there = gpu.allocate(512)
    recording.launch(compiled, 2, there)
    recording.finish().submit().wait()
    assert content(gpu, there).tolist() == expected


def test_empty_launches_and_buffers(gpu: CudaDevice) -> None:
    out = np.zeros(COUNT, np.uint32)
    gpu.launch(gpu.compile(kernels.increment), 0, COUNT, out)
    assert not out.any()
    empty = np.zeros(0, np.uint32)
    gpu.launch(gpu.compile(kernels.increment), 1, 0, empty)
    gpu.download(gpu.upload(empty), empty)
    recording = gpu.stream().record()
    recording.upload(empty, gpu.allocate(0))
    recording.fill(gpu.allocate(0))
    recording.launch(gpu.compile(kernels.increment), 0, 0, gpu.allocate(4))
    recording.finish().submit().wait()
    gpu.stream().record().finish().submit().wait()


@pytest.mark.parametrize("groups", [-1, 1 << 31])
def test_invalid_grids_are_rejected(gpu: CudaDevice, groups: int) -> None:
    with pytest.raises(DeviceError, match=r"the number must be from 0 to 2\*\*31 - 1"):
        gpu.launch(gpu.compile(kernels.increment), groups, 1, np.zeros(1, np.uint32))
    recording = gpu.stream().record()
    with pytest.raises(DeviceError, match=r"the number must be from 0 to 2\*\*31 - 1"):
        recording.launch(gpu.compile(kernels.increment), groups, 1, gpu.allocate(4))


def test_invalid_arguments_are_rejected(gpu: CudaDevice) -> None:
    increment = gpu.compile(kernels.increment)
    buffer = gpu.upload(words())
    for arguments, message in [
        ((COUNT, Buffer.zeros(4000)), "is memory of the host, and the kernel reads that of cuda:0"),
        ((COUNT, buffer.slice(4, 400)), "begins at an address that is not a multiple of 16"),
        ((COUNT, np.zeros(3)), "is an array of float64, and the kernel's elements are u32"),
        ((-1, buffer), "is -1, which u32 cannot hold"),
        ((COUNT,), "takes 2 arguments"),
    ]:
        with pytest.raises(DeviceError, match=message):
            gpu.launch(increment, 1, *arguments)
    with pytest.raises(DeviceError, match="is an array, and the kernel reads memory of cuda:0"):
        gpu.stream().record().launch(increment, 1, COUNT, np.zeros(COUNT, np.uint32))


def test_threads_launch_at_the_same_time(gpu: CudaDevice) -> None:
    scale = gpu.compile(kernels.scale)
    errors: list[BaseException] = []

    def task(number: int) -> None:
        try:
            a, out = words(), np.zeros(COUNT, np.uint32)
            for _ in range(5):
                gpu.launch(scale, groups_of(gpu), COUNT, number, a, out)
                assert (out == number * a).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=task, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# --- memory


def test_memory_is_zeroed_unless_told_not_to_be(gpu: CudaDevice) -> None:
    first = gpu.upload(words())
    del first
    assert not content(gpu, gpu.allocate(4 * COUNT)).any()
    assert gpu.allocate(4 * COUNT, zero=False).nbytes == 4 * COUNT


def test_copies_in_both_directions(gpu: CudaDevice) -> None:
    array = words(1 << 20)
    buffer = gpu.upload(array)
    with pytest.raises(DeviceError, match="memory of cuda:0, which the host cannot access"):
        buffer.view()
    assert (content(gpu, buffer) == array).all()
    assert (content(gpu, buffer.slice(64, 4096)) == array[16:1024]).all()
    assert gpu.upload(array[::-1], into=buffer) is buffer
    assert (content(gpu, buffer) == array[::-1]).all()
    with pytest.raises(DeviceError, match="8 bytes do not fit memory of 4194304 bytes"):
        gpu.upload(np.zeros(1), into=buffer)
    with pytest.raises(DeviceError, match="the buffer is memory of the host, not of cuda:0"):
        gpu.upload(np.zeros(1), into=Buffer.zeros(8))
    fixed = np.zeros(1 << 20, np.uint32)
    fixed.flags.writeable = False
    with pytest.raises(DeviceError, match="read-only"):
        gpu.download(buffer, fixed)


def test_page_locked_memory(gpu: CudaDevice) -> None:
    pinned = gpu.pinned(4 * COUNT)
    assert (pinned.dtype, pinned.shape) == (np.uint8, (4 * COUNT,))
    values = pinned.view(np.uint32)
    values[:] = words()
    buffer = gpu.upload(values)
    values[:] = 0
    gpu.download(buffer, values)
    assert (values == words()).all()
    address = values.ctypes.data
    part = values[10:20]
    del pinned, values
    gc.collect()
    assert gpu.pinned(4 * COUNT).ctypes.data != address
    assert (part == words()[10:20]).all()
    del part
    gc.collect()
    assert gpu.pinned(4 * COUNT).ctypes.data == address
    assert gpu.pinned(0).nbytes == 0


def test_memory_is_freed_with_its_buffers(gpu: CudaDevice) -> None:
    gc.collect()
    before = gpu.memory_statistics()
    buffers = [gpu.allocate(3 << 20, zero=False) for _ in range(5)]
    part = buffers[2].slice(0, 16)
    during = gpu.memory_statistics()
    assert during.in_use >= before.in_use + 5 * (3 << 20)
    del buffers
    gc.collect()
    after = gpu.memory_statistics()
    assert before.in_use + (3 << 20) <= after.in_use < during.in_use
    del part
    gc.collect()
    assert gpu.memory_statistics().in_use == before.in_use
    assert 0 <= gpu.memory_statistics().fragmentation < 1


# --- recordings


def pipeline(
    device: CudaDevice, source: Any, out: Any, stream: RecordingStream | None = None
) -> Recording:
    scale, increment = device.compile(kernels.scale), device.compile(kernels.increment)
    a, b = device.allocate(4 * COUNT), device.allocate(4 * COUNT)
    recording = stream or device.stream("work").record()
    recording.upload(source, a)
    recording.launch(scale, groups_of(device), COUNT, 3, a, b, label="triple", modmuls=COUNT)
    recording.launch(increment, groups_of(device), COUNT, b)
    recording.copy(b, a)
    recording.fill(b, 7)
    recording.download(a, out)
    return recording.finish().recording


@pytest.mark.parametrize("timeline", [None, Timeline(), NullTimeline()])
def test_recordings_can_be_replayed(gpu: CudaDevice, timeline: Timeline | None) -> None:
    source = gpu.pinned(4 * COUNT).view(np.uint32)
    source[:] = words()
    out = np.zeros(COUNT, np.uint32)
    recording = pipeline(gpu, source, out)
    assert not out.any()
    stream = gpu.stream()
    for _ in range(3):
        source += 5
        stream = stream.replay(recording).submit(timeline).wait()
        assert (out == 3 * source + 1).all()


def test_dependent_and_independent_steps(gpu: CudaDevice) -> None:
    increment = gpu.compile(kernels.increment)
    buffers = [gpu.allocate(4 * COUNT) for _ in range(4)]
    recording = gpu.stream().record()
    for round_ in range(5):
        for number, buffer in enumerate(buffers):
            for _ in range(number + 1):
                recording.launch(increment, groups_of(gpu), COUNT, buffer)
        if round_ == 2:
            recording.copy(buffers[3], buffers[0])
    recording.finish().submit().wait()
    assert [set(content(gpu, buffer).tolist()) for buffer in buffers] == [{14}, {10}, {15}, {20}]


def test_a_recording_keeps_its_memory(gpu: CudaDevice) -> None:
    out = np.zeros(COUNT, np.uint32)
    recording = pipeline(gpu, words(), out)
    submitted = gpu.stream().replay(recording).submit()
    del recording
    gc.collect()
    buffers = [gpu.allocate(4 * COUNT) for _ in range(8)]
    submitted.wait()
    assert (out == 3 * words() + 1).all()
    assert not any(content(gpu, buffer).any() for buffer in buffers)


def test_unawaited_work_completes_and_frees_its_memory(gpu: CudaDevice) -> None:
    gc.collect()
    before = gpu.memory_statistics().in_use
    out = np.zeros(COUNT, np.uint32)
    gpu.stream().replay(pipeline(gpu, words(), out)).submit()
    for _ in range(1000):
        gc.collect()
        if gpu.memory_statistics().in_use == before:
            break
        time.sleep(0.01)
    assert gpu.memory_statistics().in_use == before
    assert (out == 3 * words() + 1).all()


def test_streams_wait_for_events_of_other_streams(gpu: CudaDevice) -> None:
    increment = gpu.compile(kernels.increment)
    a, b = gpu.allocate(4 * COUNT), gpu.allocate(4 * COUNT)
    first = gpu.stream("first").record()
    for _ in range(50):
        first.launch(increment, groups_of(gpu), COUNT, a)
    ready = first.event("ready")
    first.fill(b, 3)
    second = gpu.stream("second").record()
    out = np.zeros(COUNT, np.uint32)
    second.wait_for(ready)
    second.download(a, out)
    recorded = second.finish()
    with pytest.raises(DeviceError, match="is not submitted yet"):
        recorded.submit()
    recorded = gpu.stream("second").replay(recorded.recording)
    running = first.finish().submit()
    recorded.submit().wait()
    assert set(out.tolist()) == {50}
    assert ready.wait(10)
    running.wait()
    assert ready.is_done
    assert abs(ready.time_ns - time.perf_counter_ns()) < 60e9
    assert set(content(gpu, b).tolist()) == {3}


def test_events_of_other_devices_are_refused(gpu: CudaDevice) -> None:
    from quod.device.cpu.device import CpuDevice

    with_event = CpuDevice(strategy="scalar").stream().record()
    event = with_event.event("elsewhere")
    with_event.finish().submit().wait()
    recording = gpu.stream().record()
    recording.wait_for(event)
    with pytest.raises(DeviceError, match="elsewhere belongs to a stream of another device"):
        recording.finish().submit()


def test_a_timeline_has_a_stage_a_step(gpu: CudaDevice) -> None:
    timeline = Timeline()
    out = np.zeros(COUNT, np.uint32)
    recording = pipeline(gpu, words(), out)
    begin = time.perf_counter_ns()
    with timeline.stage("whole") as work:
        gpu.stream("work").replay(recording).submit(timeline, parent=work).wait()
    rows = [stage for stage in timeline.rows() if stage.parent is work]
    names = ["upload", "triple", "increment", "copy", "fill", "download"]
    assert [row.name for row in rows] == names
    assert {row.track for row in rows} == {"work"}
    assert [row.modmuls for row in rows] == [0, COUNT, 0, 0, 0, 0]
    assert rows[3].bytes == 8 * COUNT
    for row, later in itertools.pairwise(rows):
        assert row.end_ns is not None
        assert begin - 1e9 < row.begin_ns <= row.end_ns <= later.begin_ns
    assert json.dumps(timeline.to_chrome_trace())


def test_streams_reject_memory_of_other_devices(gpu: CudaDevice) -> None:
    recording = gpu.stream().record()
    buffer, host = gpu.allocate(16), Buffer.zeros(16)
    for refused in (
        lambda: recording.copy(host, buffer),
        lambda: recording.copy(buffer, host),
        lambda: recording.fill(host),
        lambda: recording.upload(np.zeros(2), host),
        lambda: recording.download(host, np.zeros(2)),
    ):
        with pytest.raises(DeviceError, match="the memory belongs to the host"):
            refused()


def test_a_submission_can_be_cancelled(gpu: CudaDevice) -> None:
    out = np.zeros(COUNT, np.uint32)
    submitted = gpu.stream("doomed").replay(pipeline(gpu, words(), out)).submit()
    submitted.cancel()
    with pytest.raises(DeviceError, match="the work of doomed was stopped"):
        submitted.wait()


def test_recording_hundreds_of_steps_is_fast(gpu: CudaDevice) -> None:
    increment = gpu.compile(kernels.increment)
    buffer = gpu.allocate(1 << 20)
    parts = [buffer.slice(4096 * n, 4096 * (n + 1)) for n in range(256)]
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        recording = gpu.stream().record()
        for part in parts:
            recording.launch(increment, 1, 100, part)
        recording.finish()
        seconds.append(time.perf_counter() - begin)
    # 3 to 5 ms on a quiet machine.
    assert min(seconds) < 0.05


# --- several


@kernel
def out_of_bounds(k: Builder, far: U32, a: Pointer[U32]) -> None:
    a[far] = far


_FAILING = """
import sys
import numpy as np
from pathlib import Path
from quod.errors import DeviceError
from tests.device import kernels
from tests.device.cuda_fixture import open_gpu
from tests.device.test_cuda import out_of_bounds
kind, folder, synchronous = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "1"
gpu = open_gpu(kind, folder, synchronous=synchronous)
kernel = gpu.compile(out_of_bounds, lanes=1)
scale = gpu.compile(kernels.scale)
buffer = gpu.allocate(1 << 20)
recording = gpu.stream("bad").record()
recording.launch(scale, 1, 1, 1, buffer, gpu.allocate(64))
recording.launch(kernel, 1, 0xFFFFFFFF, buffer)
for attempt in (
    lambda: recording.finish().submit().wait(),
    lambda: gpu.launch(scale, 1, 1, 1, buffer, buffer),
    lambda: gpu.allocate(64),
    lambda: gpu.compile(kernels.increment),
    lambda: gpu.stream().record().fill(buffer),
):
    try:
        attempt()
    except DeviceError as error:
        print("error:", error)
    else:
        print("passed")
gpu.close()
del buffer, recording
try:
    again = open_gpu(kind, folder)
    out = np.zeros(4, np.uint32)
    again.launch(again.compile(kernels.increment), 1, 4, out)
    print("again:", out.tolist())
except DeviceError as error:
    print("again:", error)
"""


@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("kind", present("simulated", "cuda"))
def test_failed_kernel_is_reported(kind: str, synchronous: bool, tmp_path: Path) -> None:
    open_gpu(kind, tmp_path).close()
    done = subprocess.run(
        [sys.executable, "-c", _FAILING, kind, str(tmp_path), str(int(synchronous))],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=300,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 6, done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in lines[0]
    assert "out_of_bounds (" in lines[0]
    assert "test_cuda.py:" in lines[0]
    assert ("scale (" in lines[0]) != synchronous
    for line in lines[1:5]:
        assert line.startswith("error: the memory of cuda:0 is gone: CUDA: CUDA_ERROR_ILLEGAL_ADD")
        assert "out_of_bounds" in line
    # The driver documents no recovery within a process; where it is refused the error says so.
    assert lines[5] == "again: [1, 1, 1, 1]" or "start a new process" in lines[5]


def test_compiling_from_several_threads(gpu: CudaDevice) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as threads:
        compiled = list(
            threads.map(lambda n: gpu.compile(kernels.raise_to, amount=n % 8), range(32))
        )
    assert len(set(compiled)) == 8
    out = np.zeros(8, np.uint32)
    for each in compiled[:8]:
        gpu.launch(each, 1, 8, out)
    assert set(out.tolist()) == {28}


@pytest.mark.device("cuda")
def test_two_processes_on_one_gpu(tmp_path: Path) -> None:
    open_gpu("cuda", tmp_path).close()
    program = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from tests.device import kernels\n"
        "from tests.device.cuda_fixture import open_gpu\n"
        "gpu = open_gpu('cuda', Path(sys.argv[1]), memory_budget=1 << 30)\n"
        "out = np.zeros(100, np.uint32)\n"
        "for _ in range(200):\n"
        "    gpu.launch(gpu.compile(kernels.increment), 1, 100, out)\n"
        "print(set(out.tolist()))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    options: Any = {"stdout": subprocess.PIPE, "text": True, "cwd": Path(__file__).parents[2]}
    running = [subprocess.Popen(command, **options) for _ in range(2)]
    assert [process.communicate(timeout=300)[0] for process in running] == ["{200}\n"] * 2
