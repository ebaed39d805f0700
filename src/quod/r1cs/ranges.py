"""Ranges of signals that constraints imply, so that gadgets know which signals are bits.

A signal with the range `most` is an integer in [0, most]. Ranges are recorded when a constraint
implies them, and derived for sums of wires with known ranges. Nothing here adds a constraint.
"""

from __future__ import annotations

from quod.r1cs.signal import ONE, Signal, merged_terms

_MAX_TERMS = 2
"""The largest number of terms of a sum whose range is derived from constraints."""


class Ranges:
    """The ranges that the constraints of one system imply so far."""

    def __init__(self) -> None:
        self._wires: dict[int, int] = {ONE: 1}
        self._sums: dict[frozenset[tuple[int, int]], int] = {}

    def record(self, signal: Signal, most: int) -> None:
        """Record `most` as an upper bound of a signal; a smaller known bound is kept."""
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
        """Record the ranges that the constraint a·b = c implies, if all three are short sums.

        c gets the range of a product (`follow_product`). If a factor is 1, the other factor has the
        range of c. x is a bit if the constraint is x·(x - 1) = 0, x·(1 - x) = 0 or x·x = x.
        """
        if len(a.wires) > _MAX_TERMS or len(b.wires) > _MAX_TERMS or len(c.wires) > _MAX_TERMS:
            return
        self.follow_product(a, b, c)
        for factor, other in ((a, b), (b, a)):
            if factor.constant == 1 and (most := self.upper_bound(c)) is not None:
                self.record(other, most)
        if c.constant == 0:
            self._follow_bit(a, b)
        elif (a - b).constant == 0 and (a - c).constant == 0:
            self.record(a, 1)

    def follow_product(self, a: Signal, b: Signal, c: Signal) -> None:
        """Record the range of c = a·b if a and b are short sums with ranges.

        Nothing is recorded if the product may reach the prime.
        """
        # Longer sums are rarely bits, and analysing them takes time.
        if (
            len(a.wires) > _MAX_TERMS
            or len(b.wires) > _MAX_TERMS
            or (most := self.upper_bound(a)) is None
        ):
            return
        if (other := self.upper_bound(b)) is not None and most * other < a.system.prime:
            self.record(c, most * other)

    def _follow_bit(self, a: Signal, b: Signal) -> None:
        """Record that a or b is a bit if a·b = 0 implies it."""
        difference = (a - b).constant
        if difference == 1 or (a + b).constant == 1:
            self.record(a, 1)
        if difference == a.system.prime - 1 or (a + b).constant == 1:
            self.record(b, 1)

    def upper_bound(self, signal: Signal) -> int | None:
        """Return the smallest known upper bound of a signal, or None."""
        if len(signal.wires) == 1 and signal.coefficients[0] == 1:
            return self._wires.get(signal.wires[0])
        if (constant := signal.constant) is not None:
            return constant
        wires_bound = self._bound_from_wires(signal)
        if not self._sums:
            return wires_bound
        recorded_bound = self._sums.get(_terms(signal))
        bounds = [bound for bound in (wires_bound, recorded_bound) if bound is not None]
        return min(bounds, default=None)

    def _bound_from_wires(self, signal: Signal) -> int | None:
        """Return the bound implied by the ranges of the wires; None if the sum may wrap."""
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
    """Return the merged terms of a signal; their order does not matter."""
    wires, coefficients = merged_terms(signal.wires, signal.coefficients, signal.system.prime)
    prime = signal.system.prime
    return frozenset(
        (wire, coefficient % prime)
        for wire, coefficient in zip(wires, coefficients, strict=True)
        if coefficient % prime
    )
