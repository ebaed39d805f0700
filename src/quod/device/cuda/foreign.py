"""Arrays of other libraries in a GPU's memory, such as PyTorch's and CuPy's, used in place.

The arrays describe themselves by `__cuda_array_interface__`, version 2 or 3 (the CUDA Array
Interface of Numba's documentation).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from quod.device.cuda.stream import wait_until
from quod.device.memory.buffer import Buffer, Space
from quod.device.memory.torch_tensors import reason_without_elements
from quod.errors import DeviceError

_DEFAULT_STREAM = 1  # CU_STREAM_LEGACY
_FIRST_WITH_STREAMS = 3


class Gpu(Protocol):
    """The part of a CUDA device that this module calls."""

    driver: Any

    @property
    def name(self) -> str: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def space(self) -> Space: ...
    def using(self, doing: Callable[[], str] | None = None) -> AbstractContextManager[None]: ...


class _Described(NamedTuple):
    """The validated description of a foreign array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    address: int
    read_only: bool
    strides: tuple[int, ...] | None
    masked: bool
    stream: int | None


def foreign_memory(device: Gpu, value: object) -> Buffer | None:
    """Return an array of another library on this GPU as a buffer that keeps it alive.

    Returns None for a value without `__cuda_array_interface__`. Waits for the stream on which the
    array is computed: the stream that the interface names, or the default stream if its version has
    no such field.
    Raises DeviceError if the interface is invalid or the memory does not hold the elements, if the
    array is not contiguous in C order or has a mask, or if it is not in this GPU's memory.
    """
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            return None
        if reason := reason_without_elements(value):
            raise BufferError(reason)
        array = _described(interface)
    except Exception as error:
        # The other library's code runs here and may raise anything.
        raise DeviceError(
            f"the __cuda_array_interface__ of {type(value).__name__} is invalid: "
            f"{type(error).__name__} {error}"
        ) from error
    dtype, shape = array.dtype, array.shape
    nbytes = dtype.itemsize * math.prod(shape)
    if array.masked:
        raise DeviceError("a masked array is not plain memory; apply the mask first")
    if nbytes and not _is_contiguous(dtype.itemsize, shape, array.strides):
        raise DeviceError("the array is not contiguous; make a contiguous copy of it")
    if nbytes:
        _check_own(device, array.address, nbytes)
        if array.stream is not None:
            with device.using(lambda: "waiting for another library's array"):
                wait_until(lambda: device.driver.is_ready("cuStreamQuery", array.stream))
    return Buffer(
        value, array.address, nbytes, space=device.space, writeable=not array.read_only,
        dtype=dtype, shape=shape,
    )  # fmt: skip


def _described(interface: Any) -> _Described:
    """Parse and check an `__cuda_array_interface__`; raises any error if it is invalid."""
    index = operator.index
    dtype, shape = np.dtype(interface["typestr"]), tuple(map(index, interface["shape"]))
    if min(shape, default=0) < 0 or dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"shape {shape} of {dtype}")
    address, read_only = interface["data"]
    strides, stream = interface.get("strides"), interface.get("stream")
    if strides is not None and len(strides) != len(shape):
        raise ValueError(f"{len(strides)} strides of {len(shape)} dimensions")
    if index(interface["version"]) < _FIRST_WITH_STREAMS:
        stream = _DEFAULT_STREAM
    if stream is not None and not 0 < index(stream) < 1 << 64:
        raise ValueError(f"stream {stream}")
    return _Described(
        dtype, shape, index(address), bool(read_only),
        None if strides is None else tuple(map(index, strides)),
        interface.get("mask") is not None, None if stream is None else index(stream),
    )  # fmt: skip


def _is_contiguous(size: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None:
        return True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != size:
            return False
        size *= length
    return True


def _check_own(device: Gpu, address: int, nbytes: int) -> None:
    """Raise DeviceError unless all bytes are in one allocation of this GPU."""
    last_address = address + nbytes - 1
    if not 0 < address <= last_address < 1 << 64:
        raise DeviceError(f"the array is at address {address:#x}, where no GPU has {nbytes} bytes")
    attributes, ask = device.driver.api.CUpointer_attribute, device.driver.cuPointerGetAttribute
    with device.using(lambda: "looking up another library's array"):
        ordinal = int(ask(attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address))
        start = int(ask(attributes.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address))
        size = int(ask(attributes.CU_POINTER_ATTRIBUTE_RANGE_SIZE, address))
        if last_address < start + size:
            # A range of reserved addresses may have parts without memory.
            ask(attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, last_address)
    if last_address >= start + size:
        raise DeviceError(
            f"the array states {nbytes} bytes, but its memory ends after {start + size - address}"
        )
    if ordinal != device.ordinal:
        raise DeviceError(
            f"the array is in the memory of cuda:{ordinal}, and the kernel reads that of "
            f"{device.name}; move it there"
        )
