"""Parameters of a kernel: the arguments they take, and the errors for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quod.codegen.pointers import PointerUses
from quod.device import Buffer, CpuDevice
from quod.device.runtime.arguments import Signature
from quod.errors import DeviceError
from quod.kernel.ir import types
from tests.device import kernels

NUMBERS = ("a", "b", "c", "d", "e", "f")


def uses(*stored: int, atomic: tuple[int, ...] = ()) -> PointerUses:
    return PointerUses(stored, atomic)


def words(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.uint32)


def refused(signature: Signature, *arguments: Any) -> str:
    with pytest.raises(DeviceError) as caught:
        signature.pack(arguments)
    return str(caught.value)


ONE_POINTER = Signature("f", {"a": types.pointer(types.u64)}, uses())
STORED = Signature("f", {"a": types.pointer(types.u32)}, uses(0))


def test_numbers_reach_the_kernel(device: CpuDevice) -> None:
    if device.kind == "webgpu":
        pytest.skip("WGSL has no 64-bit floating point numbers")
    kernel = device.compile(kernels.numbers)
    out = np.zeros(6)
    device.launch(kernel, 1, 2**32 - 1, 1 << 63, -(2**31), 1.5, -2.5, True, out)
    assert out.tolist() == [2**32 - 1, float(1 << 63), -(2.0**31), 1.5, -2.5, 1.0]
    device.launch(
        kernel, 1, np.uint8(7), np.uint64(8), np.int64(-9), np.float32(0.5), 3, np.False_, out
    )
    assert out.tolist() == [7, 8, -9, 0.5, 3, 0]


@pytest.mark.parametrize("name", ["u32", "u64", "i32", "i64", "f32", "f64"])
def test_booleans_are_not_numbers(name: str) -> None:
    signature = Signature("f", {"a": types.parse_type(name)}, uses())
    for value in (True, False, np.True_):
        with pytest.raises(DeviceError, match=f"argument a .*{value}, which is a truth value"):
            signature.pack((value,))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.floats(allow_nan=False),
    st.booleans(),
)
def test_argument_slots_store_the_numbers(
    a: int, b: int, c: int, d: int, e: float, f: float, g: bool
) -> None:
    names = ["u32", "u64", "i32", "i64", "f32", "f64", "bool"]
    signature = Signature("f", {name: types.parse_type(name) for name in names}, uses())
    slots = np.frombuffer(signature.pack((a, b, c, d, e, f, g)), np.uint64)
    assert slots[0] == a
    assert slots[1] == b
    assert slots[2:4].view(np.int64).tolist() == [c, d]
    assert slots[4:5].view(np.float32)[0] == np.float32(e)
    assert slots[5:6].view(np.float64)[0] == f
    assert slots[6] == int(g)


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, -1, "is -1, which u32 cannot hold (0 to 4294967295)"),
        (0, 1 << 32, "is 4294967296, which u32 cannot hold (0 to 4294967295)"),
        (0, 1.0, "must be a whole number (u32), not 1.0"),
        (0, "1", "must be a whole number (u32), not '1'"),
        (0, None, "must be a whole number (u32), not None"),
        (0, np.zeros(1, np.uint32), "must be a number (u32), not ndarray"),
        (1, 1 << 64, "is 18446744073709551616, which u64 cannot hold (0 to 18446744073709551615)"),
        (2, 1 << 31, "is 2147483648, which i32 cannot hold (-2147483648 to 2147483647)"),
        (3, 1e39, "is 1e+39, which f32 cannot hold"),
        (3, "x", "must be a number (f32), not str"),
        (4, 1 << 1100, f"is {1 << 1100}, which f64 cannot hold"),
        (5, 2, "is 2, which bool cannot hold (0 to 1)"),
    ],
)
def test_out_of_range_numbers_are_rejected(position: int, value: Any, message: str) -> None:
    definition = kernels.numbers
    signature = Signature("numbers", definition.parameters, uses(6))
    arguments: list[Any] = [0, 0, 0, 0.0, 0.0, False, np.zeros(6)]
    arguments[position] = value
    expected = f"argument {NUMBERS[position]} of kernel numbers {message}"
    assert refused(signature, *arguments) == expected


def test_argument_count_is_checked() -> None:
    signature = Signature("scale", kernels.scale.parameters, uses(3))
    assert refused(signature, 1, 2) == ("kernel scale takes 4 arguments (n, factor, a, out), not 2")


def test_read_only_memory() -> None:
    array = words(4)
    array.flags.writeable = False
    message = "argument a of kernel f is read-only, and the kernel stores to it"
    assert refused(STORED, array) == message
    assert refused(STORED, Buffer.wrap(array)) == message
    assert refused(STORED, np.frombuffer(bytes(16), np.uint32)) == message
    Signature("f", {"a": types.pointer(types.u32)}, uses()).pack((array,))


def test_cached_kernels_know_which_parameters_they_store_to(
    tmp_path: Any,
) -> None:
    from quod.device.cache.cache import CompileCache

    for _ in range(2):
        device = CpuDevice(cache=CompileCache(tmp_path))
        assert device.compile(kernels.scale).stored == {3}
        assert device.compile(kernels.increment).stored == {1}
        assert device.compile(kernels.numbers).stored == {6}
        source = words(8)
        source.flags.writeable = False
        out = words(8)
        device.launch(device.compile(kernels.scale), 8, 8, 2, source, out)
        assert out.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
        with pytest.raises(DeviceError, match="argument out of kernel scale is read-only"):
            device.launch(device.compile(kernels.scale), 8, 8, 2, out, source)


def test_memory_layout() -> None:
    assert refused(ONE_POINTER, words(16)[::2]) == (
        "argument a of kernel f is not contiguous; use numpy.ascontiguousarray"
    )
    assert "is not contiguous" in refused(ONE_POINTER, np.zeros((4, 4), np.uint64).T)
    assert refused(ONE_POINTER, words(3)) == (
        "argument a of kernel f has 12 bytes, which is not a whole number of u64"
    )
    shifted = np.zeros(17, np.uint8)[1:].view(np.uint64)
    assert refused(ONE_POINTER, shifted) == (
        "argument a of kernel f begins at an address that is not a multiple of 4; copy it"
    )
    atomic = Signature("f", {"a": types.pointer(types.u64)}, uses(0, atomic=(0,)))
    assert refused(atomic, words(5)[1:]).endswith("is not a multiple of 8; copy it")
    atomic.pack((words(6)[2:],))
    # A file's section may begin at any multiple of four bytes.
    ONE_POINTER.pack((words(5)[1:],))
    ONE_POINTER.pack((Buffer.wrap(words(5)[1:]),))
    ONE_POINTER.pack((np.zeros((0, 3), np.uint64),))
    assert refused(ONE_POINTER, 3) == (
        "argument a of kernel f must be a buffer or an array (u64 elements), not int"
    )
    assert "must be a buffer or an array" in refused(ONE_POINTER, [1, 2])


@pytest.mark.parametrize(
    ("element", "good", "bad"),
    [
        (types.u64, ["u4", "u8", "i8", "u1"], ["f8", ">u8", "?", "c8", "O", "V8"]),
        (types.u32, ["u4", "i4", "u8", "u2"], ["f4", ">u4", "?"]),
        (types.u8, ["u1", "i1", "u4"], ["?", "S1"]),
        (types.i8, ["i1", "u1", "i4"], ["?", "f2"]),
        (types.i16, ["i2", "u2", "i4"], ["f2", ">i2"]),
        (types.f32, ["f4"], ["f8", "f2", "u4", ">f4"]),
        (types.f64, ["f8"], ["f4", "u8"]),
        (types.bool_, ["?"], ["u1", "u4"]),
    ],
)
def test_element_types_are_checked(element: types.Type, good: list[str], bad: list[str]) -> None:
    signature = Signature("f", {"a": types.pointer(element)}, uses())
    for dtype in good:
        signature.pack((np.zeros(8, dtype),))
    for dtype in bad:
        message = refused(signature, np.zeros(8, dtype))
        expected = f"is an array of {np.dtype(dtype)}, and the kernel's elements are {element}"
        assert message == f"argument a of kernel f {expected}"


def test_u32_arrays_are_read_as_u64_elements(device: CpuDevice) -> None:
    a, out = words(8), np.full(8, 2**32 - 1, np.uint32)
    expected = (a.view(np.uint64) + out.view(np.uint64)).tolist()
    device.launch(device.compile(kernels.add_words), 4, 4, a, out)
    assert out.view(np.uint64).tolist() == expected


def test_memory_at_an_odd_multiple_of_four_bytes(device: CpuDevice) -> None:
    a, out = words(101)[1:], np.zeros(101, np.uint32)[1:]
    device.launch(device.compile(kernels.add_words), 50, 50, a, out)
    assert out.tolist() == list(range(1, 101))


def test_bytes(device: CpuDevice) -> None:
    a = np.frombuffer(bytes(range(100)), np.uint8)
    out = np.zeros(100, np.uint8)
    device.launch(device.compile(kernels.copy_bytes), 100, 99, a, out)
    assert out.tobytes() == bytes(range(99)) + b"\0"


def test_buffers() -> None:
    buffer = Buffer.zeros(100)
    assert (buffer.nbytes, buffer.address % 64, buffer.writeable) == (100, 0, True)
    buffer.view(np.uint8)[:] = range(100)
    part = buffer.slice(4, 12)
    assert part.view(np.uint8).tolist() == list(range(4, 12))
    part.view(np.uint8)[0] = 200
    assert buffer.view(np.uint8)[4] == 200
    assert Buffer.zeros(0).nbytes == 0
    for start, stop in [(5, 4), (0, 101)]:
        with pytest.raises(DeviceError, match=f"has no bytes {start} to {stop}"):
            buffer.slice(start, stop)
    with pytest.raises(DeviceError, match=r"number of bytes of a buffer .*, not -1"):
        Buffer.zeros(-1)
    with pytest.raises(DeviceError, match="no memory for a buffer of"):
        Buffer.zeros(1 << 60)
    with pytest.raises(DeviceError, match="contiguous memory"):
        Buffer.wrap(words(8)[::2])


def test_upload_and_download(device: CpuDevice) -> None:
    buffer = device.upload(words(8)[::2])
    out = np.zeros(4, np.uint32)
    device.download(buffer, out)
    assert out.tolist() == [0, 2, 4, 6]
    with pytest.raises(DeviceError, match="16 bytes do not fit memory of 12 bytes"):
        device.download(buffer, np.zeros(3, np.uint32))
