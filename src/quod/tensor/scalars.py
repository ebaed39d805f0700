"""Scalar arguments, which kernels take as f32."""

from __future__ import annotations

import math

import numpy as np

from quod.errors import InputError
from quod.validation import shown

LARGEST = 3.4028234663852886e38
"""The greatest finite f32."""


def real(name: str, value: object) -> float:
    """Return a number as a float; raise InputError, which names it, if it overflows f32."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:
        raise InputError(f"{name} must be a number that f32 holds, not {shown(value)}")
    return number


def between(name: str, value: object, low: float, high: float) -> float:
    """Return a number in [low, high); raise InputError, which names it, for another number."""
    number = real(name, value)
    if not low <= number < high:
        raise InputError(f"{name} must be from {low} on and below {high}, not {shown(value)}")
    return number


def positive(name: str, value: object, least: float = 1e-37) -> float:
    """Return a number of f32 of at least `least`; raise InputError, which names it, if less.

    The default is a number that f32 holds with full precision.
    """
    number = real(name, value)
    if number < least:
        raise InputError(f"{name} must be at least {least}, not {shown(value)}")
    return number
