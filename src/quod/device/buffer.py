"""Memory that kernels read and write."""

from __future__ import annotations

from typing import Any

import numpy as np

from quod.errors import DeviceError

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64


class Buffer:
    """Bytes of device memory with an owner.

    On the CPU it is a NumPy array of bytes, aligned to a cache line where Quod allocated it; the
    array is the owner and lives as long as the buffer does.
    """

    __slots__ = ("_address", "_owner")

    def __init__(self, owner: Array) -> None:
        self._owner = owner
        self._address = int(owner.ctypes.data)

    @classmethod
    def zeros(cls, nbytes: int) -> Buffer:
        """Zeroed memory; untouched pages cost nothing. DeviceError if there is not so much."""
        if nbytes < 0:
            raise DeviceError(f"a buffer cannot have {nbytes} bytes")
        try:
            raw = np.zeros(nbytes + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise DeviceError(f"no memory for a buffer of {nbytes} bytes") from error
        start = -raw.ctypes.data % _ALIGNMENT
        return cls(raw[start : start + nbytes])

    @classmethod
    def wrap(cls, array: Array) -> Buffer:
        """Host memory itself; DeviceError if the array is not contiguous in C order."""
        if not array.flags.c_contiguous:
            raise DeviceError(
                "a buffer is contiguous memory, which the array is not; "
                "take numpy.ascontiguousarray of it"
            )
        return cls(array)

    @property
    def nbytes(self) -> int:
        return int(self._owner.nbytes)

    @property
    def address(self) -> int:
        return self._address

    @property
    def writeable(self) -> bool:
        """Whether kernels may store to it: not if it wraps an array that is read-only."""
        return bool(self._owner.flags.writeable)

    def view(self, dtype: Any = np.uint32, shape: tuple[int, ...] | None = None) -> Array:
        """The memory as an array, without a copy."""
        flat: Array = self._owner.reshape(-1).view(dtype)
        return flat if shape is None else flat.reshape(shape)

    def slice(self, start: int, stop: int) -> Buffer:
        """Bytes `start` to `stop`, sharing the memory; DeviceError if there are none such."""
        if not 0 <= start <= stop <= self.nbytes:
            raise DeviceError(f"a buffer of {self.nbytes} bytes has no bytes {start} to {stop}")
        return Buffer(self._owner.reshape(-1).view(np.uint8)[start:stop])
