"""Arrays of other libraries, in place: what launches and uploads take beside NumPy's own.

Host memory comes by `__array_interface__`, by DLPack or by the buffer protocol, a GPU's by what its
device knows (`Device.foreign_memory`). Nothing is copied, so that what a kernel stores arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quod.device.arguments import OWN, Argument, Unfit, check_elements
from quod.device.buffer import Array
from quod.errors import DeviceError
from quod.kernel.types import PointerType

if TYPE_CHECKING:
    from quod.device.arguments import Owner
    from quod.device.kernel_table import CompiledKernel

_DLPACK_OF_HOST = (1, 3, 11)  # ordinary memory, and what CUDA and ROCm have page-locked


def in_place(value: object) -> Array | None:
    """The host memory of another library's array; None for what is no array.

    DeviceError for one whose memory the host does not reach, or that does not give it away.
    """
    if isinstance(value, np.generic):
        return None
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            kind = int(value.__dlpack_device__()[0])
            if kind not in _DLPACK_OF_HOST:
                raise BufferError(f"it is that of a device, of DLPack's kind {kind}")
            return np.from_dlpack(value)
        try:
            view = memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            return None
        return np.asarray(view)
    except (BufferError, ValueError, TypeError, RuntimeError) as error:
        raise DeviceError(
            f"{type(value).__name__} gives no memory of the host away: {error}"
        ) from error


def adopted(
    device: Owner, kernel: CompiledKernel, arguments: tuple[Argument, ...]
) -> tuple[Argument, ...]:
    """The arguments of a launch, in which pointers get memory as buffers and NumPy's arrays."""
    result: list[Any] = list(arguments)
    for at, (name, type_) in enumerate(kernel.slots.items()):
        if at >= len(result) or not isinstance(type_, PointerType) or isinstance(result[at], OWN):
            continue
        try:
            buffer = device.foreign_memory(result[at])
            if buffer is not None and buffer.dtype is not None:
                check_elements(buffer.dtype, type_)
            found = in_place(result[at]) if buffer is None else buffer
        except (DeviceError, Unfit) as error:
            colon = "" if isinstance(error, Unfit) else ":"
            raise DeviceError(f"argument {name} of kernel {kernel.name}{colon} {error}") from None
        if found is not None:
            result[at] = found
    return tuple(result)
