"""Buffers: memory that kernels read and write, and the address spaces of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quod.device.memory.budget import byte_count, bytes_text
from quod.errors import DeviceError
from quod.validation import instance, is_masked, whole_number

if TYPE_CHECKING:
    from quod.device.memory.array_protocols import ForeignArray

Array = np.ndarray[Any, Any]

_ALIGNMENT = 64
# The dtype kinds of text and times.
_NON_NUMERIC_KINDS = "SUMm"


class Space:
    """An address space: the host's memory, or the memory of one device.

    Spaces are compared by identity. When its device is closed or fails, the space is lost and its
    memory no longer exists.
    """

    __slots__ = ("_lost", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._lost: str | None = None

    def lose(self, why: str) -> None:
        """Mark the memory as lost; only the first reason is kept."""
        self._lost = self._lost or why

    def check(self) -> None:
        """Raise DeviceError if the memory was lost."""
        if self._lost is not None:
            raise DeviceError(f"the memory of {self.name} is gone: {self._lost}")

    @property
    def is_lost(self) -> bool:
        return self._lost is not None


HOST = Space("the host")
"""The host's memory, in which NumPy's arrays are; the CPU device uses it too."""


def base_array(value: Any) -> Any:
    """Return an array as a plain `numpy.ndarray` without a copy; return other values unchanged.

    Subclasses are converted, because they may misreport their memory; arrays of other libraries are
    viewed in place (`foreign.in_place`). Raises DeviceError for a masked array, whose mask would be
    ignored.
    """
    if type(value) is np.ndarray or isinstance(value, (Buffer, int, float)):
        return value
    if isinstance(value, np.ndarray):
        if is_masked(value):
            raise DeviceError("a masked array is not plain memory; apply the mask first")
        return np.asarray(value)
    from quod.device.memory.foreign import in_place

    array = in_place(value)
    return value if array is None else array


class Buffer:
    """A range of memory of a device or the host.

    owner: the object that keeps the memory alive and frees it. For host memory it is a NumPy array
        of bytes, aligned to a cache line if Quod allocated it.
    space: the address space of the buffer's address.
    dtype, shape: the type and shape of the array from which the buffer was created, else None.
        Kernels see bytes.
    """

    __slots__ = (
        "__weakref__", "_address", "_nbytes", "_owner", "_space", "_writeable", "dtype", "shape",
    )  # fmt: skip

    def __init__(self, owner: object, address: int, nbytes: int, *, space: Space,
                 writeable: bool = True, dtype: np.dtype[Any] | None = None,
                 shape: tuple[int, ...] | None = None) -> None:  # fmt: skip
        self._owner = owner
        self._address = address
        self._nbytes = nbytes
        self._space = space
        self._writeable = writeable
        self.dtype = dtype
        self.shape = shape

    @classmethod
    def zeros(cls, nbytes: int) -> Buffer:
        """Allocate zeroed host memory; raises DeviceError if there is too little.

        Pages that are never accessed take no physical memory.
        """
        return cls._allocated(nbytes, np.zeros)

    @classmethod
    def empty(cls, nbytes: int) -> Buffer:
        """Allocate uninitialised host memory; raises DeviceError if there is too little."""
        return cls._allocated(nbytes, np.empty)

    @classmethod
    def _allocated(cls, nbytes: int, allocate: Any) -> Buffer:
        nbytes = byte_count(nbytes)
        try:
            raw = allocate(nbytes + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError, OverflowError) as error:
            raise DeviceError(f"no memory for a buffer of {bytes_text(nbytes)}") from error
        start = -raw.ctypes.data % _ALIGNMENT
        return cls._of_bytes(raw[start : start + nbytes])

    @classmethod
    def _of_bytes(cls, raw: Array) -> Buffer:
        return cls(
            raw, int(raw.ctypes.data), int(raw.nbytes), space=HOST,
            writeable=bool(raw.flags.writeable),
        )  # fmt: skip

    @classmethod
    def wrap(cls, array: Array | ForeignArray) -> Buffer:
        """Wrap a C-contiguous array of numbers without a copy.

        Raises DeviceError for other values.
        """
        base: Any = base_array(array)
        is_array = isinstance(base, np.ndarray)
        if not is_array or base.dtype.hasobject or base.dtype.kind in _NON_NUMERIC_KINDS:
            what = f"an array of {base.dtype}" if is_array else type(base).__name__
            raise DeviceError(
                f"a buffer must be the memory of a NumPy array of numbers, not {what}"
            )
        if not base.flags.c_contiguous:
            raise DeviceError(
                "a buffer needs contiguous memory, and the array is not contiguous; "
                "use numpy.ascontiguousarray"
            )
        return cls(
            base, int(base.ctypes.data), int(base.nbytes), space=HOST,
            writeable=bool(base.flags.writeable), dtype=base.dtype, shape=base.shape,
        )  # fmt: skip

    @classmethod
    def to_read(cls, array: Array | ForeignArray) -> Buffer:
        """Wrap an array for reading; an array that is not C-contiguous is copied."""
        base = base_array(array)
        return cls.wrap(np.ascontiguousarray(base) if isinstance(base, np.ndarray) else base)

    @classmethod
    def to_write(cls, array: Array | ForeignArray) -> Buffer:
        """Wrap an array as `wrap` does; also raises DeviceError if the array is read-only."""
        memory = cls.wrap(array)
        if not memory.writeable:
            raise DeviceError("the array is read-only and cannot be copied to")
        return memory

    def __repr__(self) -> str:
        kind = "" if self.dtype is None else f", {self.dtype} {self.shape}"
        kind += "" if self._writeable else ", read-only"
        lost_text = ", which is gone" if self._space.is_lost else ""
        return f"<Buffer of {self._nbytes} bytes: memory of {self._space.name}{lost_text}{kind}>"

    def like(self, array: Buffer) -> Buffer:
        """Return this memory with the type and shape of another buffer of the same size."""
        check_same_size(self, array)
        return Buffer(
            self._owner, self._address, self._nbytes, space=self._space,
            writeable=self._writeable, dtype=array.dtype, shape=array.shape,
        )  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return host memory as an array of the buffer's dtype and shape, or of bytes.

        Copies only if needed. Raises DeviceError for device memory.
        """
        array = self.view(np.uint8 if self.dtype is None else self.dtype, self.shape)
        return np.array(array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Return the host memory as a DLPack capsule; raise DeviceError for device memory."""
        return self.__array__().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the host's DLPack device; raise DeviceError for device memory."""
        return self.__array__().__dlpack_device__()

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def address(self) -> int:
        return self._address

    @property
    def owner(self) -> object:
        """The object that keeps the memory alive and frees it."""
        return self._owner

    @property
    def space(self) -> Space:
        """The address space of the memory."""
        return self._space

    @property
    def writeable(self) -> bool:
        """True if kernels may store to the memory; False if it wraps a read-only array."""
        return self._writeable

    def view(self, dtype: Any = np.uint32, shape: tuple[int, ...] | None = None) -> Array:
        """Return the memory as an array without a copy.

        Raises DeviceError for device memory, or if the size does not fit `dtype` and `shape`.
        """
        if not isinstance(self._owner, np.ndarray):
            raise DeviceError(
                f"this buffer is memory of {self._space.name}, which the host cannot "
                "access; download it into an array"
            )
        try:
            flat: Array = self._owner.reshape(-1).view(dtype)
            return flat if shape is None else flat.reshape(shape)
        except Exception as error:
            # `dtype` may be a foreign object, whose attributes can raise any exception.
            raise DeviceError(
                f"a buffer of {self.nbytes} bytes does not fit the requested array: {error}"
            ) from error

    def slice(self, start: int, stop: int) -> Buffer:
        """Return bytes `start` to `stop` (exclusive) as a buffer that shares the memory.

        Raises DeviceError if the range is not within the buffer.
        """
        start = whole_number("the start of a slice", start, 0, error=DeviceError)
        stop = whole_number("the end of a slice", stop, 0, error=DeviceError)
        if not start <= stop <= self.nbytes:
            raise DeviceError(f"a buffer of {self.nbytes} bytes has no bytes {start} to {stop}")
        if isinstance(self._owner, np.ndarray):
            return Buffer._of_bytes(self._owner.reshape(-1).view(np.uint8)[start:stop])
        return Buffer(
            self._owner, self._address + start, stop - start, space=self._space,
            writeable=self._writeable,
        )  # fmt: skip


def host_bytes(memory: Buffer | Array) -> Array:
    """Return the bytes of host memory without a copy; raises DeviceError for device memory."""
    if type(memory) is np.ndarray and memory.flags.c_contiguous and memory.dtype.kind in "iuf":
        return memory.reshape(-1).view(np.uint8)  # the common case, without the checks of `wrap`
    return (memory if isinstance(memory, Buffer) else Buffer.wrap(memory)).view(np.uint8)


def overlap(memory: Buffer | Array, other: Buffer | Array) -> bool:
    """Report whether two contiguous ranges of memory overlap."""
    first, second = (
        value if isinstance(value, Buffer) else Buffer.wrap(value) for value in (memory, other)
    )
    return (
        first.space is second.space
        and first.address < second.address + second.nbytes
        and second.address < first.address + first.nbytes
    )


def check_same_size(source: Buffer, target: Buffer) -> None:
    """Raise DeviceError unless both arguments are buffers of the same size."""
    for memory in (source, target):
        instance("the memory to copy", memory, Buffer, "allocate or upload one", error=DeviceError)
    if source.nbytes != target.nbytes:
        raise DeviceError(
            f"{source.nbytes} bytes do not fit memory of {target.nbytes} bytes; sizes must agree"
        )
