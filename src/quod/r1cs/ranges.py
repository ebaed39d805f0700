"""Ranges of signals that constraints show, so that gadgets can tell bits from anything else.

A range says that a signal is an integer from 0 to `most`. Ranges are recorded where constraints
show them, and derived for sums of wires with known ranges. Nothing here adds a constraint.
"""

from __future__ import annotations

from quod.r1cs.signal import ONE, Signal, merged_terms


class Ranges:
    """The ranges that the constraints of one system show so far."""

    def __init__(self) -> None:
        self._wires: dict[int, int] = {ONE: 1}
        self._sums: dict[frozenset[tuple[int, int]], int] = {}

    def record(self, signal: Signal, most: int) -> None:
        """Record that a signal is at most a number."""
        if signal.wires and len(signal.wires) == 1 and signal.coefficients[0] == 1:
            (wire,) = signal.wires
            self._wires[wire] = min(most, self._wires.get(wire, most))
        elif signal.constant is None:
            terms = _terms(signal)
            self._sums[terms] = min(most, self._sums.get(terms, most))

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
