"""Ranges of signals that constraints show, so that gadgets can tell bits from anything else.

A range says that a signal is an integer from 0 to `most`. Ranges are recorded where constraints
show them, and derived for sums of wires with known ranges. Nothing here adds a constraint.
"""

from __future__ import annotations

from quod.r1cs.signal import ONE, Signal, merged_terms

_LONGEST = 2
"""The largest number of terms of a sum whose range is derived from constraints."""


class Ranges:
    """The ranges that the constraints of one system show so far."""

    def __init__(self) -> None:
        self._wires: dict[int, int] = {ONE: 1}
        self._sums: dict[frozenset[tuple[int, int]], int] = {}

    def record(self, signal: Signal, most: int) -> None:
        """Record that a signal is at most a number."""
        if len(signal.wires) == 1 and signal.coefficients[0] == 1:
            self._record_wire(signal.wires[0], most)
        elif signal.constant is None:
            terms = _terms(signal)
            if len(terms) == 1 and (term := next(iter(terms)))[1] == 1:
                self._record_wire(term[0], most)
            else:
                self._sums[terms] = min(most, self._sums.get(terms, most))

    def _record_wire(self, wire: int, most: int) -> None:
        self._wires[wire] = min(most, self._wires.get(wire, most))

    def follow(self, a: Signal, b: Signal, c: Signal) -> None:
        """Record the ranges that the constraint a·b = c shows, of short sums.

        c is a product of integers (`follow_product`). Where a factor is 1, the other one has the
        range of c. A signal x is a bit where x·(x - 1), x·(1 - x) or x·x - x is 0.
        """
        if len(a.wires) > _LONGEST or len(b.wires) > _LONGEST or len(c.wires) > _LONGEST:
            return
        self.follow_product(a, b, c)
        for factor, other in ((a, b), (b, a)):
            if factor.constant == 1 and (most := self.most(c)) is not None:
                self.record(other, most)
        if c.constant == 0:
            self._follow_bit(a, b)
        elif (a - b).constant == 0 and (a - c).constant == 0:
            self.record(a, 1)

    def follow_product(self, a: Signal, b: Signal, c: Signal) -> None:
        """Record the range of c = a·b if both factors are short sums with ranges and the product
        cannot wrap."""
        # Longer sums are no bits as a rule, and take time.
        if len(a.wires) > _LONGEST or len(b.wires) > _LONGEST or (most := self.most(a)) is None:
            return
        if (other := self.most(b)) is not None and most * other < a.system.prime:
            self.record(c, most * other)

    def _follow_bit(self, a: Signal, b: Signal) -> None:
        """Record that a or b is a bit if a·b = 0 shows it."""
        difference = (a - b).constant
        if difference == 1 or (a + b).constant == 1:
            self.record(a, 1)
        if difference == a.system.prime - 1 or (a + b).constant == 1:
            self.record(b, 1)

    def most(self, signal: Signal) -> int | None:
        """The upper bound that is shown for a signal, or None."""
        if len(signal.wires) == 1 and signal.coefficients[0] == 1:
            return self._wires.get(signal.wires[0])
        if (number := signal.constant) is not None:
            return number
        by_wires = self._by_wires(signal)
        if not self._sums:
            return by_wires
        recorded = self._sums.get(_terms(signal))
        bounds = [bound for bound in (by_wires, recorded) if bound is not None]
        return min(bounds, default=None)

    def _by_wires(self, signal: Signal) -> int | None:
        """The bound that follows from the ranges of the wires, if the sum cannot wrap."""
        if not all(wire in self._wires for wire in signal.wires):
            return None
        prime = signal.system.prime
        low = high = 0
        for wire, coefficient in _terms(signal):
            # Coefficients above half the prime are negative numbers.
            signed = coefficient - prime if coefficient > prime // 2 else coefficient
            if wire == ONE:
                low, high = low + signed, high + signed
            elif signed < 0:
                low += signed * self._wires[wire]
            else:
                high += signed * self._wires[wire]
        return high if low >= 0 and high < prime else None


def _terms(signal: Signal) -> frozenset[tuple[int, int]]:
    """The merged terms of a signal, which do not depend on the order of its sums."""
    wires, coefficients = merged_terms(signal.wires, signal.coefficients, signal.system.prime)
    prime = signal.system.prime
    return frozenset(
        (wire, k % prime) for wire, k in zip(wires, coefficients, strict=True) if k % prime
    )
