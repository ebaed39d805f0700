"""Arrays of other libraries, in place: what launches and uploads take beside NumPy's own.

Host memory comes by `__array_interface__`, by DLPack or by the buffer protocol, a GPU's by what its
device knows (`Device.foreign_memory`). Nothing is copied, so that what a kernel stores arrives.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from quod.device.memory.torch_tensors import disguise
from quod.errors import DeviceError

Array = np.ndarray[Any, Any]

_ADDRESSES = 1 << 63
_DLPACK_OF_HOST = (1, 3, 11)  # ordinary memory, and what CUDA and ROCm have page-locked


def in_place(value: object) -> Array | None:
    """Return the host memory of another library's array; None if the value is not an array.

    Raises DeviceError for an array whose memory the host cannot access or does not hold the
    elements, for one that its library does not export, and for one larger than the object that
    holds it. The description of a bare address is trusted.
    """
    if isinstance(value, np.generic):
        return None
    try:
        if why := disguise(value):
            raise BufferError(why)
        if hasattr(value, "__array_interface__"):
            return _of_interface(value)
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            kind = int(value.__dlpack_device__()[0])
            if kind not in _DLPACK_OF_HOST:
                raise BufferError(f"it is on a device, of DLPack's type {kind}")
            return np.from_dlpack(value)
        try:
            view = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            return None
        return np.asarray(view)
    except Exception as error:
        # Anything: what runs here is the other library's.
        raise DeviceError(f"{type(value).__name__} does not export host memory: {error}") from error


class _Interface:
    """A description of memory that does not change any more, and what it belongs to."""

    def __init__(self, owner: object, description: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = description


def _of_interface(value: Any) -> Array:
    """Return the array of an `__array_interface__`; raises ValueError if its memory does not exist.

    NumPy itself follows any address in the description.
    """
    description = dict(value.__array_interface__)
    data = description.get("data")
    if isinstance(data, tuple):
        address, array = operator.index(data[0]), np.asarray(_Interface(value, description))
        if array.nbytes and not 0 < address < _ADDRESSES - array.nbytes:
            raise ValueError(f"there is no memory at its address {address:#x}")
        return array
    # The memory is that of an object, by default its own.
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
