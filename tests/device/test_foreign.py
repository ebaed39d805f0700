"""Arrays of other libraries as memory of kernels, and buffers as arrays of theirs."""

from __future__ import annotations

import array
import ctypes
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.device import Buffer, CpuDevice, open_device
from quod.device.cuda.device import CudaDevice
from quod.errors import DeviceError
from quod.kernel.examples import saxpy, vector_add
from tests.device.cuda_fixture import open_gpu


class WithInterface:
    """An array that says by a dictionary where it is."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.data.__array_interface__


class WithDlpack:
    """An array that only DLPack reaches."""

    def __init__(self, data: np.ndarray[Any, Any], kind: int = 1) -> None:
        self.data, self.kind = data, kind

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0


class OnGpu:
    """An array of another library in the memory of a GPU, which a buffer stands for."""

    def __init__(self, buffer: Buffer, typestr: str = "<u4", **fields: Any) -> None:
        self.buffer = buffer
        size = max(1, int(typestr[2:])) if typestr[2:].isdigit() else 4
        self.__cuda_array_interface__: Any = {
            "shape": (buffer.nbytes // size,), "typestr": typestr, "data": (buffer.address, False),
            "version": 2, **fields,
        }  # fmt: skip


@pytest.fixture(params=["cpu", "cpu:checked", "emulated", "emulated:wgsl"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    with open_device(request.param) as opened:
        yield opened


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[CudaDevice]:
    with open_gpu("simulated", tmp_path) as opened:
        yield opened


def floats(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.float32)


WRITEABLE = {
    "interface": WithInterface,
    "dlpack": WithDlpack,
    "memoryview": memoryview,
    "array": lambda data: array.array("f", data.tolist()),
    "ctypes": lambda data: (ctypes.c_float * data.size)(*data.tolist()),
    "buffer": lambda data: memoryview(bytearray(data.tobytes())).cast("f"),
}


@pytest.mark.parametrize("kind", WRITEABLE)
def test_stores_reach_foreign_memory(device: Any, kind: str) -> None:
    foreign: Any = WRITEABLE[kind](floats(20))
    saxpy.on(device)(20, 2.0, floats(20), foreign)
    kept = foreign.data if isinstance(foreign, (WithInterface, WithDlpack)) else foreign
    assert np.asarray(kept).tolist() == [3.0 * i for i in range(20)]


@pytest.mark.parametrize("kind", WRITEABLE)
def test_copies_to_and_from(device: Any, kind: str) -> None:
    foreign: Any = WRITEABLE[kind](floats(6))
    target = floats(6) * 0
    buffer = device.upload(foreign)
    device.download(buffer, target)
    assert target.tolist() == [0, 1, 2, 3, 4, 5]
    assert (buffer.dtype, buffer.shape) == (np.dtype(np.float32), (6,))
    device.download(device.upload(floats(6) + 1), foreign)
    device.download(device.upload(foreign), target)
    assert target.tolist() == [1, 2, 3, 4, 5, 6]


def test_recordings_accept_foreign_arrays(device: Any) -> None:
    y = floats(20)
    compiled = device.compile(saxpy, lanes=4)
    if device.host_memory:
        foreign: Any = WithDlpack(y)
        recording = device.stream().record()
        recording.launch(compiled, 5, 20, 2.0, memoryview(floats(20)), foreign)
    else:
        foreign = device.allocate(80)
        recording = device.stream().record()
        recording.upload(WithInterface(floats(20)), foreign)
        recording.launch(compiled, 5, 20, 2.0, foreign, foreign)
        recording.download(foreign, memoryview(y))
    recording.finish().submit().wait()
    assert y.tolist() == [3.0 * i for i in range(20)]


def test_memory_that_is_read_only_is_read(device: Any) -> None:
    numbers = np.arange(8, dtype=np.uint32)
    out = np.zeros(8, np.uint32)
    run = vector_add.on(device)
    run(8, numbers.tobytes(), memoryview(numbers.tobytes()), out)
    assert out.tolist() == (2 * numbers).tolist()
    for fixed in (numbers.tobytes(), memoryview(numbers.tobytes())):
        with pytest.raises(DeviceError, match=r"argument out of kernel vector_add is read-only"):
            run(8, numbers, numbers, fixed)
        with pytest.raises(DeviceError, match="read-only and cannot be copied to"):
            device.download(device.upload(numbers), fixed)


def test_output_that_needs_a_copy_is_rejected(device: Any) -> None:
    run = vector_add.on(device)
    numbers, wide = np.arange(8, dtype=np.uint32), np.zeros(16, np.uint32)
    for strided in (memoryview(wide)[::2], WithInterface(wide[::2]), WithDlpack(wide[::2])):
        with pytest.raises(DeviceError, match="argument out of kernel vector_add is not contig"):
            run(8, numbers, numbers, strided)
    with pytest.raises(DeviceError, match=r"argument out .* must be a buffer or an array .* list"):
        run(8, numbers, numbers, [0] * 8)
    with pytest.raises(DeviceError, match=r"argument x .* must be a buffer or an array .* uint32"):
        run(8, np.uint32(1), numbers, wide)
    with pytest.raises(DeviceError, match=r"argument x of kernel vector_add is an array of float"):
        run(8, array.array("f", [1.0] * 8), numbers, wide)


def test_memory_inaccessible_to_the_host_is_rejected(device: Any) -> None:
    numbers = np.arange(8, dtype=np.uint32)
    with pytest.raises(
        DeviceError,
        match=r"argument y of kernel vector_add: WithDlpack does not export host memory",
    ):
        vector_add.on(device)(8, numbers, WithDlpack(numbers, kind=2), numbers)
    with pytest.raises(DeviceError, match="DLPack's type 2"):
        device.upload(WithDlpack(numbers, kind=2))
    gone = memoryview(bytearray(8))
    gone.release()
    with pytest.raises(DeviceError, match="memoryview does not export host memory"):
        device.upload(gone)


def test_buffers_of_host_memory_are_arrays() -> None:
    with CpuDevice() as device:
        data = floats(6).reshape(2, 3)
        buffer = device.upload(data)
        for shared in (np.asarray(buffer), np.from_dlpack(buffer)):
            assert shared.shape == (2, 3)
            assert np.shares_memory(shared, data)
        assert np.asarray(buffer, dtype=np.int32).tolist() == [[0, 1, 2], [3, 4, 5]]
        with pytest.raises(ValueError, match="copy"):
            np.array(buffer, dtype=np.int32, copy=False)
        assert repr(buffer) == "<Buffer of 24 bytes: memory of the host, float32 (2, 3)>"
        part, fresh = buffer.slice(4, 12), device.allocate(3)
        assert (part.dtype, part.shape, fresh.dtype) == (None, None, None)
        assert np.asarray(fresh).tolist() == [0, 0, 0]
        data.flags.writeable = False
        assert not np.asarray(Buffer.wrap(data)).flags.writeable


def test_device_buffers_are_not_arrays() -> None:
    with open_device("emulated") as device:
        buffer = device.upload(floats(4))
        for use in (np.asarray, np.from_dlpack):
            with pytest.raises(DeviceError, match="which the host cannot access; download it"):
                use(buffer)  # type: ignore[operator]


# --- memory of a GPU


def test_a_gpus_array_is_used_in_place(gpu: CudaDevice) -> None:
    memory, out = gpu.upload(np.arange(8, dtype=np.uint32)), gpu.allocate(32)
    run = vector_add.on(gpu)
    held = gpu.memory_statistics().requests
    run(8, OnGpu(memory), OnGpu(memory, strides=(4,)), OnGpu(out))
    assert gpu.memory_statistics().requests == held
    values = np.zeros(8, np.uint32)
    gpu.download(out, values)
    assert values.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]

    theirs = OnGpu(memory, shape=(2, 4), strides=None)
    same = gpu.upload(theirs)  # type: ignore[arg-type]
    assert (same.address, same.owner, same.shape) == (memory.address, theirs, (2, 4))
    assert gpu.upload(theirs, into=out) is out  # type: ignore[arg-type]
    gpu.download(out, values)
    assert values.tolist() == list(range(8))


def test_stream_of_a_gpu_array_is_awaited(gpu: CudaDevice) -> None:
    stream = gpu.driver.cuStreamCreateWithPriority(1, 0)
    memory = gpu.allocate(32)
    gpu.driver.cuMemsetD32Async(memory.address, 5, 8, stream)
    out = np.zeros(8, np.uint32)
    vector_add.on(gpu)(8, OnGpu(memory, version=3, stream=stream), OnGpu(memory), out)
    assert out.tolist() == [10] * 8
    asked = gpu.driver.api.calls["cuStreamQuery"]
    gpu.foreign_memory(OnGpu(memory, version=3, stream=None))
    assert gpu.driver.api.calls["cuStreamQuery"] == asked
    gpu.foreign_memory(OnGpu(memory))
    assert gpu.driver.api.calls["cuStreamQuery"] == asked + 1


def test_unsuitable_gpu_arrays_are_rejected(gpu: CudaDevice) -> None:
    memory = gpu.upload(np.arange(8, dtype=np.uint32))
    gpu.driver.api.ordinals[memory.address + 16] = 1
    run = vector_add.on(gpu)
    argument = "argument out of kernel vector_add"
    for wrong, message in [
        (OnGpu(memory, strides=(8,)), f"{argument}: the array is not contiguous"),
        (OnGpu(memory, mask=memory), f"{argument}: a masked array"),
        (OnGpu(memory, "<f4"), f"{argument} is an array of float32"),
        (OnGpu(memory, data=(memory.address, True)), f"{argument} is read-only"),
        (OnGpu(memory.slice(16, 32)), f"{argument}: the array is in the memory of cuda:1"),
        (OnGpu(memory.slice(4, 32)), f"{argument} begins at an address that is not a multiple"),
        (OnGpu(memory, data=(64, False)), f"{argument}: cuda:0: .*CUDA_ERROR_INVALID_VALUE"),
    ]:
        with pytest.raises(DeviceError, match=message):
            run(8, memory, memory, wrong)
    empty = OnGpu(memory, shape=(0,), data=(0, False))
    run(0, empty, empty, empty)
    with open_device("cpu") as cpu, pytest.raises(DeviceError, match="must be a buffer or an arr"):
        vector_add.on(cpu)(8, OnGpu(memory), OnGpu(memory), OnGpu(memory))


@pytest.mark.parametrize(
    "fields",
    [
        {"typestr": "|O"}, {"typestr": "what"}, {"shape": (-1,)}, {"shape": (1.5,)},
        {"shape": None}, {"data": (1,)}, {"data": ("1", False)}, {"strides": (4, 4)},
        {"version": "3"}, {"version": 3, "stream": "2"}, {"version": 3, "stream": 0},
        {"version": 3, "stream": -1}, {"typestr": "|V0"}, {"strides": 5}, {"data": {}},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_array_interface_is_rejected(gpu: CudaDevice, fields: dict[str, Any]) -> None:
    foreign = OnGpu(gpu.allocate(64), **fields)
    invalid = r"__cuda_array_interface__ of OnGpu is invalid: \w+Error"
    with pytest.raises(DeviceError, match=invalid):
        saxpy.on(gpu)(16, 2.0, foreign, foreign)
    foreign.__cuda_array_interface__ = 1
    with pytest.raises(DeviceError, match="is invalid"):
        saxpy.on(gpu)(16, 2.0, foreign, foreign)


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (1 << 40,)}, {"shape": (3 << 20,)}, {"shape": (1 << 20, 1 << 20, 1 << 20)},
        {"data": (-4, False)}, {"data": (1 << 64, False)}, {"data": ((1 << 64) - 4, False)},
    ],
    ids=str,
)  # fmt: skip
def test_array_larger_than_its_gpu_allocation_is_rejected(
    gpu: CudaDevice, fields: dict[str, Any]
) -> None:
    array = OnGpu(gpu.allocate(64), **fields)
    for use in (lambda: saxpy.on(gpu)(16, 2.0, array, array), lambda: gpu.upload(array)):  # type: ignore[arg-type]
        with pytest.raises(DeviceError, match=r"where no GPU has|but its memory ends after"):
            use()


class Described:
    """An array that says of itself what it likes."""

    def __init__(self, description: Any) -> None:
        self.__array_interface__ = description


def described(data: Any, **fields: Any) -> Described:
    return Described({"data": data, "shape": (16,), "typestr": "<f4", "version": 3, **fields})


@pytest.mark.parametrize(
    "foreign",
    [
        described(bytearray(4)), described(bytearray(4), shape=(1 << 20,)),
        described(bytearray(64), offset=4), described(bytearray(64), offset=-4),
        described(bytearray(64), strides=(8,)), described(bytearray(64), strides=(-4,)),
        described(bytearray(64), shape=(1 << 62,)), described(bytearray(0)), described(b""),
        described(bytearray(64), typestr="<f8"), described(bytearray(64), shape=(4, 1 << 40)),
        described(memoryview(bytearray(128))[::2]), described((0, False)), described(5),
        described((-4, False)), described((1 << 64, False)), described(("x", False)),
        described(None), Described(5), Described({}), Described([("data", 1)]),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_interfaces_beyond_the_allocation_are_rejected(foreign: Any) -> None:
    with open_device("cpu") as device:
        for use in (
            lambda: saxpy.on(device)(16, 2.0, floats(16), foreign),
            lambda: device.upload(foreign),
            lambda: device.download(device.allocate(64), foreign),
        ):
            with pytest.raises(DeviceError):
                use()


def test_foreign_memory_is_kept_alive() -> None:
    data = bytearray(80)
    with open_device("cpu") as device:
        saxpy.on(device)(4, 2.0, floats(4) + 1, described(data, shape=(4,), offset=16))
        assert np.frombuffer(data, np.float32)[4:8].tolist() == [2, 4, 6, 8]
        data = bytearray(64)
        buffer = device.upload(described(data))  # type: ignore[arg-type]
        with pytest.raises(BufferError):
            data.extend(bytes(1 << 20))
        del buffer


class Raising:
    """Every attribute raises."""

    def __init__(self, error: Exception) -> None:
        object.__setattr__(self, "error", error)

    def __getattr__(self, name: str) -> Any:
        raise object.__getattribute__(self, "error")


class OddDlpack(WithDlpack):
    """Says of its device what it likes."""

    def __init__(self, kind: Any) -> None:
        super().__init__(floats(16), kind)

    def __dlpack_device__(self) -> Any:
        return self.kind


@pytest.mark.parametrize(
    "foreign",
    [
        Raising(KeyError("no")), Raising(ZeroDivisionError()), Raising(RecursionError()),
        *map(OddDlpack, ((), {}, None, 5, "x", (None, 0), (float("inf"), 0), (float("nan"), 0))),
        OddDlpack((1 << 70, 0)),
    ],
    ids=lambda foreign: type(foreign).__name__,
)  # fmt: skip
def test_attributes_that_raise(device: Any, gpu: CudaDevice, foreign: Any) -> None:
    for target in (device, gpu):
        for use in (
            lambda target=target: saxpy.on(target)(16, 2.0, floats(16), foreign),
            lambda target=target: target.upload(foreign),
            lambda target=target: target.download(target.allocate(64), foreign),
        ):
            with pytest.raises(DeviceError):
                use()


@pytest.mark.parametrize("value", [5, 1.5, [1, 2], "text", np.array(["a"]), np.zeros(2, "M8[s]")])
def test_non_numeric_arrays_are_not_uploaded(device: Any, value: Any) -> None:
    with pytest.raises(DeviceError, match="must be the memory of a NumPy array of numbers, not"):
        device.upload(value)
