"""Buffers in memory the host cannot access, and how kernels receive them."""

from __future__ import annotations

import numpy as np
import pytest

from quod.codegen.pointers import PointerUses
from quod.device.cpu.device import CpuDevice
from quod.device.memory.buffer import HOST, Array, Buffer, Space, check_same_size
from quod.device.runtime.arguments import Signature
from quod.errors import DeviceError
from quod.kernel.ir import types

POINTER = {"a": types.pointer(types.u32)}


def test_a_slice_keeps_space_owner_and_address() -> None:
    space, owner = Space("far"), object()
    buffer = Buffer(owner, 4096, 64, space=space)
    part = buffer.slice(16, 48)
    assert (part.address, part.nbytes, part.space, part.writeable) == (4112, 32, space, True)
    with pytest.raises(DeviceError, match="64 bytes has no bytes 16 to 65"):
        buffer.slice(16, 65)
    with pytest.raises(DeviceError, match="memory of far, which the host cannot access"):
        part.view()
    check_same_size(part, part)
    with pytest.raises(DeviceError, match="32 bytes do not fit memory of 64 bytes"):
        check_same_size(part, buffer)


def test_host_memory_is_in_the_host_space() -> None:
    array = np.arange(8, dtype=np.uint32)
    assert Buffer.wrap(array).space is HOST
    assert Buffer.wrap(array).slice(4, 12).view().tolist() == [1, 2]
    assert Buffer.zeros(0).space is HOST
    assert Buffer.empty(12).nbytes == 12


def test_kernels_accept_memory_of_their_own_space_only() -> None:
    space = Space("far")
    far = Signature("f", POINTER, PointerUses((), ()), space=space, alignment=16)
    near = Signature("f", POINTER, PointerUses((), ()))
    buffer = Buffer(object(), 4096, 64, space=space)
    assert far.pack((buffer,))[0] == 4096
    for signature, argument, message in [
        (near, buffer, "is memory of far, and the kernel reads that of the host"),
        (far, Buffer.zeros(16), "is memory of the host, and the kernel reads that of far"),
        (far, Buffer(object(), 4096, 64, space=Space("far")), "is memory of far"),
        (far, np.zeros(4, np.uint32), "is an array, and the kernel reads memory of far; upload"),
        (far, buffer.slice(8, 64), "begins at an address that is not a multiple of 16"),
    ]:
        with pytest.raises(DeviceError, match=message):
            signature.pack((argument,))
    space.lose("the device was closed")
    space.lose("another reason")
    with pytest.raises(DeviceError, match="memory of far is gone: the device was closed"):
        far.pack((buffer,))


def test_arrays_among_the_arguments() -> None:
    parameters = {"n": types.u32} | POINTER
    signature = Signature("f", parameters, PointerUses((1,), ()), space=Space("far"))
    array = np.zeros(4, np.uint32)
    assert signature.arrays((4, array)) == [(1, array, True)]
    array.flags.writeable = False
    with pytest.raises(DeviceError, match="argument a of kernel f is read-only"):
        signature.arrays((4, array))
    with pytest.raises(DeviceError, match="has 2 bytes, which is not a whole number of u32"):
        signature.arrays((4, np.zeros(1, np.uint16)))
    with pytest.raises(DeviceError, match="takes 2 arguments"):
        signature.arrays((array,))


class Lying(np.ndarray):
    """Says that it has more memory than there is, and that it may be written."""

    shape = property(lambda self: (1 << 20,))  # type: ignore[assignment]
    nbytes = property(lambda self: 4 << 20)  # type: ignore[assignment]
    dtype = property(lambda self: np.dtype(np.uint32))  # type: ignore[assignment]
    flags = property(lambda self: np.zeros(1).flags)  # type: ignore[assignment]


def lying(array: Array) -> Array:
    array.setflags(write=False)
    return array.view(Lying)


def test_array_subclass_memory_attributes_are_not_trusted() -> None:
    buffer = Buffer.wrap(lying(np.zeros(4, np.uint32)))
    assert (buffer.nbytes, buffer.writeable) == (16, False)
    with pytest.raises(DeviceError, match="contiguous"):
        Buffer.wrap(lying(np.zeros(8, np.uint32)[::2]))
    signature = Signature("f", POINTER, PointerUses((0,), ()))
    for ask in (signature.pack, signature.arrays):
        with pytest.raises(DeviceError, match="is read-only, and the kernel stores to it"):
            ask((lying(np.zeros(4, np.uint32)),))
        with pytest.raises(DeviceError, match="is an array of float64"):
            ask((lying(np.zeros(4)),))
    readers = Signature("f", POINTER, PointerUses((), ()))
    [(_, array, _)] = readers.arrays((lying(np.zeros(4, np.uint32)),))
    assert (type(array), array.nbytes) == (np.ndarray, 16)
    device = CpuDevice(threads=1)
    assert device.upload(lying(np.zeros(4, np.uint32))).nbytes == 16
    with pytest.raises(DeviceError, match="16 bytes to copy to memory of 4194304"):
        device.stream().record().upload(lying(np.zeros(4, np.uint32)), Buffer.empty(4 << 20))


def test_only_numeric_arrays_are_memory() -> None:
    for other in (np.array([None, 1]), [1, 2], "text", None):
        with pytest.raises(
            DeviceError, match="a buffer must be the memory of a NumPy array of numbers"
        ):
            Buffer.wrap(other)  # type: ignore[arg-type]
