"""Sentinels in result memory, which detect results that a device did not write.

If a faulty driver or device does not run a kernel, the memory for its results is unchanged: zeros,
or results of an earlier launch. So before a launch, one word per row of the results is set to a
value that no result has; the host checks these words afterwards.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from quod.errors import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNWRITTEN = 0xFFFFFFFF
"""A word that no result has.

The last word of an element is below that of its modulus, an index of a point is below 2**31, and
status words are small.
"""

Array = np.ndarray[Any, Any]


def unwritten(*shape: int) -> NDArray[np.uint32]:
    """Allocate u32 results of this shape, with the last word of each row marked as unwritten."""
    array = np.empty(shape, np.uint32)
    mark(array)
    return array


def mark(array: Array) -> None:
    """Mark the last number of each row of an array of unsigned integers as unwritten."""
    array[..., -1] = _mark_of(array.dtype)


def check_written(device: Any, what: str, array: Array) -> None:
    """Raise DeviceError if a row is still marked; `what` names the results in the message."""
    if (array[..., -1] == _mark_of(array.dtype)).any():
        raise not_written(device, what)


@functools.cache
def _mark_of(dtype: np.dtype[Any]) -> int:
    return np.iinfo(dtype).max


def not_written(device: Any, what: str) -> DeviceError:
    """Return the error of a device that reported success without computing `what`."""
    return DeviceError(
        f"{device.name} reported success without computing {what}: its driver or the "
        "device is faulty, and the result is discarded; try again, or use --device cpu"
    )
