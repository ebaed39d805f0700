"""The tables of the integer program, each entry the nearest integer to a real number.

Entries are computed from fixed-point numbers of 128 bits, or from floats whose distance to the next
tie is checked, so they do not depend on a machine's mathematical library.
docs/integer-transformer.md, "Tables".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import NDArray

from quod.inference.transformer.rounding import ACTIVATION, WIDE, clamp, round_shift

EXP_STEPS = 10
"""Scores are in steps of 2**-10."""
EXP_ENTRIES = 1 << 14
EXP_ONE = 32767
"""The table's value at 0."""
ROTATION_BITS = 15
_SIGMOID_BITS = 32
_PRECISION = 128
_DIGITS = 60
# Floats of sigmoids times 2**32 are exact to 2**-17.
_TIE_DISTANCE = 2.0**-14

_GELU_SLOPE = Decimal("1.5957691216057308")
_GELU_CUBE = Decimal("0.044715")


@cache
def exponentials() -> NDArray[np.int32]:
    """Return the nearest integers to 32767 exp(-z / 1024), for z below 16384."""
    unit = 1 << _PRECISION
    # The series of exp(-1 / 1024).
    term, step, n = unit, 0, 0
    while term:
        step += -term if n % 2 else term
        n += 1
        term = term // (n << EXP_STEPS)
    value, entries = unit, []
    for _ in range(EXP_ENTRIES):
        entries.append((2 * EXP_ONE * value + unit) >> (_PRECISION + 1))
        value = value * step >> _PRECISION
    return np.array(entries, np.int32)


def _identity(x: Decimal) -> Decimal:
    return x


def _gelu_argument(x: Decimal) -> Decimal:
    return _GELU_SLOPE * (x + _GELU_CUBE * x * x * x)


_ARGUMENTS: dict[str, Callable[[Decimal], Decimal]] = {
    "silu": _identity,
    "gelu": _gelu_argument,
}
"""The activations by name: each is x times the sigmoid of this function of x."""


@cache
def activation(name: str, bits: int, result_bits: int) -> NDArray[np.int32]:
    """Return an activation of x = i / 2**bits for i from -32768 to 32767.

    The results have `result_bits` fractional bits and saturate at 24 bits. An entry is
    i * s / 2**(32 + bits - result_bits), rounded, where s is the nearest integer to
    2**32 sigmoid(p(x)).
    """
    argument = _ARGUMENTS[name]
    i = np.arange(-32768, 32768)
    x = np.ldexp(i.astype(np.float64), -bits)
    p = x if name == "silu" else float(_GELU_SLOPE) * (x + float(_GELU_CUBE) * x**3)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(1 / (1 + np.exp(-p)), _SIGMOID_BITS)
    sigmoids = np.floor(scaled + 0.5).astype(np.int64)
    for index in np.flatnonzero(np.abs(scaled + 0.5 - np.rint(scaled + 0.5)) < _TIE_DISTANCE):
        # Far from zero a sigmoid is 0 or 1 to all digits, and no tie is near.
        if 0.25 < scaled[index] < 2.0**_SIGMOID_BITS - 0.25:
            sigmoids[index] = _exact_sigmoid(argument, int(i[index]), bits)
    return clamp(
        round_shift(i * sigmoids, _SIGMOID_BITS + bits - result_bits),
        ACTIVATION if name == "silu" else WIDE,
    ).astype(np.int32)


def _exact_sigmoid(argument: Callable[[Decimal], Decimal], i: int, bits: int) -> int:
    with localcontext() as context:
        context.prec = _DIGITS
        value = 1 / (1 + (-argument(Decimal(i) / (1 << bits))).exp())
        return int((value * (1 << _SIGMOID_BITS) + Decimal("0.5")).to_integral_value("ROUND_FLOOR"))


class Rotations:
    """The cosines and sines of rotary positions, times 2**15, which grow with the positions."""

    def __init__(self, base: float, width: int, factors: Sequence[float] | None = None) -> None:
        """Start a table for heads of `width` channels.

        base, factors: Channel pair i turns by base**(-2 i / width) / factors[i] each position.
        """
        self._steps = [_rotation(base, 2 * i, width, factor) for i, factor in enumerate(
            factors if factors is not None else [1.0] * (width // 2)
        )]  # fmt: skip
        self._current = [(1 << _PRECISION, 0)] * len(self._steps)
        self._table = np.zeros((0, len(self._steps), 2), np.int32)

    def table(self, positions: int) -> NDArray[np.int32]:
        """Return the table of positions from 0, of shape (positions, width / 2, 2)."""
        grown: list[list[tuple[int, int]]] = []
        while len(self._table) + len(grown) < positions:
            grown.append([(_nearest(c), _nearest(s)) for c, s in self._current])
            self._current = [
                _product(now, step) for now, step in zip(self._current, self._steps, strict=True)
            ]
        if grown:
            self._table = np.concatenate([self._table, np.array(grown, np.int32)])
        return self._table[:positions]


def _nearest(value: int) -> int:
    return (value + (1 << (_PRECISION - ROTATION_BITS - 1))) >> (_PRECISION - ROTATION_BITS)


def _product(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return (a[0] * b[0] - a[1] * b[1]) >> _PRECISION, (a[0] * b[1] + a[1] * b[0]) >> _PRECISION


def _rotation(base: float, numerator: int, width: int, factor: float) -> tuple[int, int]:
    """Return cosine and sine of base**(-numerator / width) / factor, times 2**128."""
    with localcontext() as context:
        context.prec = _DIGITS
        power = (-Decimal(base).ln() * numerator / width).exp() / Decimal(factor)
        angle = int(power * (1 << _PRECISION))
    sums, term, n = [0, 0], 1 << _PRECISION, 0
    while term:
        sums[n % 2] += -term if n & 2 else term
        n += 1
        term = (term * angle >> _PRECISION) // n
    return sums[0], sums[1]
