"""Numbers in environment variables."""

from __future__ import annotations

import math
import os

from quod.errors import DeviceError

_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def number_from_environment(variable: str, default: float) -> float:
    """Return a number from the environment; suffixes K, M, G multiply by 2**10, 2**20, 2**30.

    Raises DeviceError unless it is above zero and finite.
    """
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    factor = _FACTORS.get(text[-1].upper(), 1)
    try:
        number = float(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise DeviceError(f"{variable} is a number above zero, such as 8 or 8G, not {text!r}")
    return number
