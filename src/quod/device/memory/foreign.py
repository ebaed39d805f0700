"""Access to the memory of other libraries' arrays, which launches and uploads accept.

Host memory is accessed through `__array_interface__`, DLPack or the buffer protocol; GPU memory
through the device (`Device.foreign_memory`). Nothing is copied, so a kernel's stores reach the
array.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from quod.device.memory.torch_tensors import reason_without_elements
from quod.errors import DeviceError

Array = np.ndarray[Any, Any]

_ADDRESSES = 1 << 63  # all host addresses are below this number
_DLPACK_HOST_TYPES = (1, 3, 11)  # pageable memory, and memory page-locked by CUDA and ROCm


def in_place(value: object) -> Array | None:
    """Return another library's array as a NumPy array without a copy; None if it is no array.

    Raises DeviceError if the host cannot access the array's memory, if the memory does not have the
    elements (a lazy view), if the library does not export the array, or if the array exceeds the
    object that has its memory. A bare address cannot be checked and is trusted.
    """
    if isinstance(value, np.generic):
        return None
    try:
        if reason := reason_without_elements(value):
            raise BufferError(reason)
        if hasattr(value, "__array_interface__"):
            return _of_interface(value)
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            kind = int(value.__dlpack_device__()[0])
            if kind not in _DLPACK_HOST_TYPES:
                raise BufferError(f"it is on a device, of DLPack's type {kind}")
            return np.from_dlpack(value)
        try:
            view = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            return None
        return np.asarray(view)
    except Exception as error:
        # The other library's code may raise any exception.
        raise DeviceError(f"{type(value).__name__} does not export host memory: {error}") from error


class _Interface:
    """A copy of an `__array_interface__`, which cannot change, and the owner of the memory."""

    def __init__(self, owner: object, description: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = description


def _of_interface(value: Any) -> Array:
    """Return the array of an `__array_interface__`; raises ValueError if its memory does not exist.

    NumPy itself accepts any address in the description.
    """
    description = dict(value.__array_interface__)
    data = description.get("data")
    if isinstance(data, tuple):
        address, array = operator.index(data[0]), np.asarray(_Interface(value, description))
        if array.nbytes and not 0 < address < _ADDRESSES - array.nbytes:
            raise ValueError(f"there is no memory at its address {address:#x}")
        return array
    # The memory belongs to the object `data`, or to the value itself.
    memory = memoryview(value if data is None else data)
    array = np.asarray(_Interface(value, {**description, "data": memory}))
    if array.nbytes:
        start = np.asarray(memory).ctypes.data
        first, end = byte_bounds(array)
        if first < start or end > start + memory.nbytes:
            raise ValueError(
                f"it describes bytes {first - start} to {end - start} of {memory.nbytes}"
            )
    return array
