"""What reductions make of elements: what one becomes, two become, and the last is stored as.

Orders are of words: a float's bits as a number that grows with it, above which NaN is, so that no
comparison is of floats, of which WGSL does not say what NaN does.
"""

from __future__ import annotations

from typing import Protocol

from quod.kernel import Builder, Value, f32, u32
from quod.kernel.ir.types import Type
from quod.tensor.accesses import Values

_SIGN = 1 << 31
_ALL = (1 << 32) - 1
_INFINITE = 0x7F800000


class Operation(Protocol):
    """A reduction: an element becomes some numbers, and two of these become one of them."""

    types: tuple[Type, ...]
    """Of the numbers, which are carried, and stored where a result has several parts."""
    picks: bool
    """Whether two that are the same become the same: one may be there several times."""

    def initial(self) -> Values:
        """What changes nothing."""

    def of(self, value: Value, place: Value) -> Values:
        """What an element, as f32, becomes, which is at a place of its row."""

    def combined(self, a: Values, b: Values) -> Values:
        """What two become."""

    def result(self, found: Values, divisor: Value) -> Value:
        """What is stored."""


class Sum:
    """The sum, in f32, or with `mean` the mean."""

    types: tuple[Type, ...] = (f32,)
    picks = False

    def __init__(self, k: Builder, *, mean: bool) -> None:
        self._k, self._mean = k, mean

    def initial(self) -> Values:
        return (self._k.constant(0.0, f32),)

    def of(self, value: Value, place: Value) -> Values:
        return (value,)

    def combined(self, a: Values, b: Values) -> Values:
        return (a[0] + b[0],)

    def result(self, found: Values, divisor: Value) -> Value:
        return found[0] / divisor if self._mean else found[0]


class Extreme:
    """The greatest element, or the `least`; NaN where there is one. Of zeros the positive one is
    the greater."""

    types: tuple[Type, ...] = (u32,)
    picks = True

    def __init__(self, k: Builder, *, least: bool) -> None:
        self._k, self._least = k, least

    def initial(self) -> Values:
        # Of no float.
        return tuple(self._k.constant(0, each) for each in self.types)

    def of(self, value: Value, place: Value) -> Values:
        return (self._order(self._k.bitcast(value, u32)),)

    def combined(self, a: Values, b: Values) -> Values:
        return (self._k.maximum(a[0], b[0]),)

    def result(self, found: Values, divisor: Value) -> Value:
        order = found[0] ^ _ALL if self._least else found[0]
        bits = self._k.select(order >= _SIGN, order ^ _SIGN, order ^ _ALL)
        return self._k.bitcast(bits, f32)

    def _order(self, bits: Value) -> Value:
        k = self._k
        order = k.select(bits >= _SIGN, bits ^ _ALL, bits ^ _SIGN)
        order = order ^ _ALL if self._least else order
        return k.select((bits & (_SIGN - 1)) > _INFINITE, _ALL, order)


class ExtremePlace(Extreme):
    """Where the first greatest element is, or the first least; the first NaN where there is one.
    Zeros are alike."""

    types = (u32, u32)

    def of(self, value: Value, place: Value) -> Values:
        bits = self._k.bitcast(value, u32)
        return self._order(self._k.select(bits == _SIGN, 0, bits)), place

    def combined(self, a: Values, b: Values) -> Values:
        k = self._k
        later = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return k.select(later, b[0], a[0]), k.select(later, b[1], a[1])

    def result(self, found: Values, divisor: Value) -> Value:
        return found[1]


def operation(k: Builder, name: str) -> Operation:
    """The operation of a name."""
    if name in ("sum", "mean"):
        return Sum(k, mean=name == "mean")
    kind = ExtremePlace if name.startswith("arg") else Extreme
    return kind(k, least=name.endswith("min"))


def types_of(name: str) -> tuple[Type, ...]:
    """The types of what an operation carries."""
    if name in ("sum", "mean"):
        return Sum.types
    return ExtremePlace.types if name.startswith("arg") else Extreme.types
