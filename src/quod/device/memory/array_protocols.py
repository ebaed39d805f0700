"""The protocols through which other libraries export the memory of their arrays."""

from __future__ import annotations

import array
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias


class _WithArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class _WithCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...


class _WithDlpack(Protocol):
    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


ForeignArray: TypeAlias = (
    "_WithArrayInterface | _WithCudaArrayInterface | _WithDlpack | memoryview | bytes | bytearray"
    " | array.array[Any]"
)
"""Arrays of other libraries; some are read-only, such as `bytes`."""
