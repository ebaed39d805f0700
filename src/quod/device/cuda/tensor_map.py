"""Tensor maps, encoded by the driver.

The driver is called without cuda-bindings, whose object for a map is not aligned as the driver
requires.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from quod.device.cuda.driver import Driver
from quod.device.memory.buffer import Array, Buffer
from quod.device.memory.tensor_map import COLUMNS, MAP_BYTES, TiledMemory
from quod.errors import DeviceError

_FUNCTION = "cuTensorMapEncodeTiled"
_ALIGNMENT = 64
_MAX_CACHED = 1024
"""The maximum number of cached entries; a network has a few hundred matrices."""

_ANY_16_BITS = 1  # CU_TENSOR_MAP_DATA_TYPE_UINT16
_SWIZZLE_128 = 3  # CU_TENSOR_MAP_SWIZZLE_128B
_PROMOTE_256 = 3  # CU_TENSOR_MAP_L2_PROMOTION_L2_256B
_Address = ctypes.c_void_p


class TensorMaps:
    """A cache of a GPU's tensor maps; address and shape determine a map."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._maps_by_arrays: OrderedDict[tuple[TiledMemory, ...], Buffer] = OrderedDict()

    def get(self, arrays: tuple[TiledMemory, ...], upload: Callable[[Array], Buffer]) -> Buffer:
        """Return device memory with the tensor maps of `arrays`.

        upload: the device's method, passed in each call to avoid a reference cycle.
        Raises DeviceError if the driver refuses a map.
        """
        with self._lock:
            cached = self._maps_by_arrays.get(arrays)
            if cached is not None:
                self._maps_by_arrays.move_to_end(arrays)
                return cached
        words = np.concatenate([self._encoded(array) for array in arrays])
        maps = upload(words)
        with self._lock:
            self._maps_by_arrays[arrays] = maps
            while len(self._maps_by_arrays) > _MAX_CACHED:
                self._maps_by_arrays.popitem(last=False)
        return maps

    def clear(self) -> None:
        """Release the memory of all maps."""
        with self._lock:
            self._maps_by_arrays.clear()

    def _encoded(self, array: TiledMemory) -> Array:
        buffer = np.zeros(MAP_BYTES + _ALIGNMENT, np.uint8)
        begin = -buffer.ctypes.data % _ALIGNMENT
        tmap = buffer[begin : begin + MAP_BYTES]
        extents = (ctypes.c_uint64 * 3)(array.length, array.height, array.planes)
        row_bytes = 2 * array.length
        strides = (ctypes.c_uint64 * 2)(row_bytes, row_bytes * array.height)
        box = (ctypes.c_uint32 * 3)(COLUMNS, array.lines, 1)
        steps = (ctypes.c_uint32 * 3)(1, 1, 1)
        code = _encoder()(
            _Address(tmap.ctypes.data), _ANY_16_BITS, ctypes.c_uint32(3), _Address(array.address),
            extents, strides, box, steps, 0, _SWIZZLE_128, _PROMOTE_256, 0,
        )  # fmt: skip
        if code:
            raise self._refused(code)
        return tmap.view(np.uint64)

    def _refused(self, code: int) -> DeviceError:
        try:
            result = self._driver.api.CUresult(code)
        except ValueError:
            return DeviceError(f"CUDA: {_FUNCTION} gives the unknown result {code}")
        return self._driver.error(_FUNCTION, result)


def _encoder() -> Any:
    """Return the driver's function; raises DeviceError if the driver lacks it."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return getattr(ctypes.CDLL(name), _FUNCTION)
    except (OSError, AttributeError) as error:
        raise DeviceError(
            f"the NVIDIA driver does not support tensor maps ({error}); update the driver"
        ) from None
