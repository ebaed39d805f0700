"""Results that a device has to write: where nothing happened, nothing may look like a result.

Kernels that a faulty driver or device does not run leave the memory for their results as it was:
zeros, or what an earlier launch put there. So what the host reads back is marked before a launch,
a word a row, with a value that no result has, and looked at afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.errors import DeviceError

UNWRITTEN = 0xFFFFFFFF
"""No result: the last word of an element is below that of its modulus, a number of a point below
2**31, and answers are a few small numbers."""

Array = np.ndarray[Any, Any]


def unwritten(*shape: int) -> NDArray[np.uint32]:
    """Room for results, rows of words whose last is marked."""
    array = np.empty(shape, np.uint32)
    mark(array)
    return array


def mark(array: Array) -> None:
    """Marks the last number of each row of an array of unsigned integers."""
    array[..., -1] = np.iinfo(array.dtype).max


def check_written(device: Any, what: str, array: Array) -> None:
    """DeviceError if a row is still marked; `what` the device had to make is for the message."""
    if (array[..., -1] == np.iinfo(array.dtype).max).any():
        raise not_written(device, what)


def not_written(device: Any, what: str) -> DeviceError:
    """The error of a device that has not done what it was told to."""
    return DeviceError(
        f"{device.name} reported success and has not computed {what}: its driver or the device is "
        "faulty, so nothing is given out; try again, or take --device cpu"
    )
