"""Memory that kernels read and write."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64


class Buffer:
    """Bytes of device memory with an owner.

    On the CPU it is a NumPy array of bytes, aligned to a cache line where Quod allocated it; the
    array is the owner and lives as long as the buffer does.
    """

    def __init__(self, owner: Array) -> None:
        self._owner = owner

    @classmethod
    def zeros(cls, nbytes: int) -> Buffer:
        """Zeroed memory; untouched pages cost nothing."""
        raw = np.zeros(nbytes + _ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % _ALIGNMENT
        return cls(raw[start : start + nbytes])

    @classmethod
    def wrap(cls, array: Array) -> Buffer:
        """Host memory itself; the array must be contiguous."""
        return cls(np.ascontiguousarray(array))

    @property
    def nbytes(self) -> int:
        return int(self._owner.nbytes)

    @property
    def address(self) -> int:
        return int(self._owner.ctypes.data)

    def view(self, dtype: Any = np.uint32, shape: tuple[int, ...] | None = None) -> Array:
        """The memory as an array, without a copy."""
        flat: Array = self._owner.reshape(-1).view(dtype)
        return flat if shape is None else flat.reshape(shape)

    def slice(self, start: int, stop: int) -> Buffer:
        """Bytes `start` to `stop`, sharing the memory."""
        return Buffer(self._owner.reshape(-1).view(np.uint8)[start:stop])
