"""The operations of reductions: map an element, combine two values, and give the result.

Comparisons are of u32 keys, never of floats, because WGSL does not define comparisons with NaN. A
key grows with the float, and NaN has the greatest.
"""

from __future__ import annotations

from typing import Protocol

from quod.kernel import Builder, Value, f32, u32
from quod.kernel.ir.types import Type
from quod.tensor.accesses import Values

# Bits of an f32.
_SIGN = 1 << 31
_ALL_BITS = (1 << 32) - 1
_INFINITE = 0x7F800000


class Operation(Protocol):
    """A reduction: a map from elements to carried numbers, and a combination of these."""

    types: tuple[Type, ...]
    """The types of the carried numbers, which are also stored for each partial result."""
    is_idempotent: bool
    """True if the combination is idempotent, so that an element may be counted several times."""

    def initial(self) -> Values:
        """Return the neutral value."""

    def of(self, value: Value, index: Value) -> Values:
        """Return the carried numbers of an f32 element with index `index` in its row."""

    def combined(self, a: Values, b: Values) -> Values:
        """Combine two values."""

    def result(self, state: Values, divisor: Value) -> Value:
        """Return the stored result; `divisor` is the number of elements."""


class Sum:
    """The sum in f32, or the mean with `mean`."""

    types: tuple[Type, ...] = (f32,)
    is_idempotent = False

    def __init__(self, k: Builder, *, mean: bool) -> None:
        self._k, self._mean = k, mean

    def initial(self) -> Values:
        return (self._k.constant(0.0, f32),)

    def of(self, value: Value, index: Value) -> Values:
        return (value,)

    def combined(self, a: Values, b: Values) -> Values:
        return (a[0] + b[0],)

    def result(self, state: Values, divisor: Value) -> Value:
        return state[0] / divisor if self._mean else state[0]


class Extreme:
    """The greatest element, or with `least` the least; NaN if an element is. +0 exceeds -0."""

    types: tuple[Type, ...] = (u32,)
    is_idempotent = True

    def __init__(self, k: Builder, *, least: bool) -> None:
        self._k, self._least = k, least

    def initial(self) -> Values:
        # 0 is not the key of any float.
        return tuple(self._k.constant(0, carried_type) for carried_type in self.types)

    def of(self, value: Value, index: Value) -> Values:
        return (self._key(self._k.bitcast(value, u32)),)

    def combined(self, a: Values, b: Values) -> Values:
        return (self._k.maximum(a[0], b[0]),)

    def result(self, state: Values, divisor: Value) -> Value:
        key = state[0] ^ _ALL_BITS if self._least else state[0]
        bits = self._k.select(key >= _SIGN, key ^ _SIGN, key ^ _ALL_BITS)
        return self._k.bitcast(bits, f32)

    def _key(self, bits: Value) -> Value:
        """Return the u32 key of the bits of an f32; with `least`, keys are in descending order."""
        k = self._k
        key = k.select(bits >= _SIGN, bits ^ _ALL_BITS, bits ^ _SIGN)
        key = key ^ _ALL_BITS if self._least else key
        return k.select((bits & (_SIGN - 1)) > _INFINITE, _ALL_BITS, key)


class ExtremeIndex(Extreme):
    """The index of the first greatest or least element, or of the first NaN; +0 equals -0."""

    types = (u32, u32)

    def of(self, value: Value, index: Value) -> Values:
        bits = self._k.bitcast(value, u32)
        return self._key(self._k.select(bits == _SIGN, 0, bits)), index

    def combined(self, a: Values, b: Values) -> Values:
        k = self._k
        takes_b = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return k.select(takes_b, b[0], a[0]), k.select(takes_b, b[1], a[1])

    def result(self, state: Values, divisor: Value) -> Value:
        return state[1]


def operation(k: Builder, name: str) -> Operation:
    """Return the operation of a reduction's name."""
    if name in ("sum", "mean"):
        return Sum(k, mean=name == "mean")
    kind = ExtremeIndex if name.startswith("arg") else Extreme
    return kind(k, least=name.endswith("min"))


def types_of(name: str) -> tuple[Type, ...]:
    """Return the types of the numbers that a reduction carries."""
    if name in ("sum", "mean"):
        return Sum.types
    return ExtremeIndex.types if name.startswith("arg") else Extreme.types
