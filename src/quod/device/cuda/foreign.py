"""Arrays in a GPU's memory that other libraries have, such as PyTorch's and CuPy's, in place.

They describe themselves by `__cuda_array_interface__`, version 2 or 3 (the CUDA Array Interface of
Numba's documentation).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.device.buffer import Buffer
from quod.device.cuda.stream import wait_until
from quod.errors import DeviceError

if TYPE_CHECKING:
    from quod.device.cuda.device import CudaDevice

_DEFAULT_STREAM = 1  # CU_STREAM_LEGACY
_FIRST_WITH_STREAMS = 3


def foreign_memory(device: CudaDevice, value: object) -> Buffer | None:
    """The memory of an array on this GPU, which it keeps alive; None for anything else.

    Waits for the stream on which the array is made: the one that it names, or the default stream
    where its version names none. DeviceError if the array is not contiguous in C order, has a mask
    or is not in this GPU's memory.
    """
    found: Mapping[str, Any] | None = getattr(value, "__cuda_array_interface__", None)
    if found is None:
        return None
    dtype, shape = np.dtype(found["typestr"]), tuple(found["shape"])
    address, read_only = found["data"]
    nbytes = dtype.itemsize * math.prod(shape)
    if found.get("mask") is not None:
        raise DeviceError("an array with a mask is no plain memory; apply the mask first")
    if nbytes and not _is_contiguous(dtype.itemsize, shape, found.get("strides")):
        raise DeviceError("the array is not contiguous; make a contiguous copy of it")
    if nbytes:
        _check_own(device, address)
        named = found["version"] >= _FIRST_WITH_STREAMS
        stream = found.get("stream") if named else _DEFAULT_STREAM
        if stream is not None:
            with device.using(lambda: "waiting for another library's array"):
                wait_until(lambda: device.driver.is_ready("cuStreamQuery", stream))
    return Buffer(
        value, address, nbytes, space=device.space, writeable=not read_only, dtype=dtype,
        shape=shape,
    )  # fmt: skip


def _is_contiguous(size: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None:
        return True
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != size:
            return False
        size *= length
    return True


def _check_own(device: CudaDevice, address: int) -> None:
    asked = device.driver.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    with device.using(lambda: "looking up another library's array"):
        ordinal = int(device.driver.cuPointerGetAttribute(asked, address))
    if ordinal != device.ordinal:
        raise DeviceError(
            f"the array is in the memory of cuda:{ordinal}, and the kernel reads that of "
            f"{device.name}; move it there"
        )
